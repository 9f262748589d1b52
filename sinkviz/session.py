"""Sessions: one JSON file with all that a comparison needs, and what changed between two of them."""

from __future__ import annotations

import base64
import binascii
import difflib
import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sinkviz import __version__
from sinkviz.coupling import Coupling
from sinkviz.measure import UNITS, Measure, Unit, validate_weights
from sinkviz.settings import CouplingSettings
from sinkviz.text import MAX_CHARACTERS, validate_text, word_spans

FORMAT = "sinkviz session"
VERSION = 1
SUFFIX = ".json"

MAXIMUM_BYTES = 64 * 2**20
"""Largest session file that is read."""
MAXIMUM_ATOMS = 100_000
MAXIMUM_ENTRIES = 4_000_000
_DEEPEST = 32

Text = str | tuple[str, ...]
Matrix = NDArray[np.float64]


@dataclass(frozen=True)
class Result:
    """What a solve gave, to compare with when a session is opened elsewhere.

    Attributes:
        status, residual, iterations: of the solver.
        epsilon, cost_scale: absolute, in units of the cost.
        row_error, column_error: L1 distance of the marginals from the weights.
        transport_cost: ⟨C, P⟩ in units of the cost.
        mutual_information: in nat.
        received_distance: total variation between the mass received and the target's weights.
    """

    status: str
    residual: float
    iterations: int
    epsilon: float
    cost_scale: float
    row_error: float
    column_error: float
    transport_cost: float
    mutual_information: float
    received_distance: float

    @classmethod
    def of(cls, coupling: Coupling) -> Result:
        """Return the facts of a coupling."""
        return cls(
            status=coupling.status,
            residual=float(coupling.residual),
            iterations=int(coupling.iterations),
            epsilon=float(coupling.epsilon),
            cost_scale=float(coupling.cost_scale),
            row_error=coupling.row_error,
            column_error=coupling.column_error,
            transport_cost=coupling.transport_cost,
            mutual_information=coupling.mutual_information,
            received_distance=coupling.received_distance,
        )


@dataclass(frozen=True, eq=False)
class OwnData:
    """Points and cost of a comparison that no embedding model made.

    Attributes:
        source_points, target_points: shapes (n, d) and (m, d), float32.
        cost: shape (n, m), or None where it is −cosine of the points.
    """

    source_points: NDArray[np.float32]
    target_points: NDArray[np.float32]
    cost: Matrix | None = None


@dataclass(frozen=True, eq=False)
class Session:
    """All that a comparison needs to be seen again.

    Attributes:
        source, target: the texts, or lists of words or labels as they stand.
        settings: what is computed.
        source_weights, target_weights: weights of the atoms; None = uniform.
        shown_as: unit in which the coupling is shown; None = the unit it was solved on.
        view: settings of the live view; empty = defaults.
        versions: versions of the programs that wrote the file.
        result: what came out, if it was solved.
        plan: P, shape (n, m), if it was kept.
        own: points and cost of data that somebody brought; then source and target are its labels.

    Raises:
        ValueError: a field that does not fit, named.

    Example:
        >>> session = Session("a cat", "eine Katze", CouplingSettings(unit="token"))
        >>> loads(dumps(session)).settings.unit
        'token'
    """

    source: Text
    target: Text
    settings: CouplingSettings = field(default_factory=CouplingSettings)
    source_weights: tuple[float, ...] | None = None
    target_weights: tuple[float, ...] | None = None
    shown_as: Unit | None = None
    view: Mapping[str, Any] = field(default_factory=dict)
    versions: Mapping[str, str] = field(default_factory=lambda: current_versions())
    result: Result | None = None
    plan: Matrix | None = None
    own: OwnData | None = None

    def __post_init__(self) -> None:
        for side in ("source", "target"):
            object.__setattr__(self, side, _checked_text(getattr(self, side), side, own=self.own is not None))
            weights = getattr(self, f"{side}_weights")
            if weights is not None:
                if not 1 <= len(weights) <= MAXIMUM_ATOMS:
                    raise ValueError(f"{side}_weights: expected 1 to {MAXIMUM_ATOMS:,} numbers, got {len(weights):,}")
                validate_weights(weights, len(weights))
                object.__setattr__(self, f"{side}_weights", tuple(float(weight) for weight in weights))
        if self.shown_as is not None and (
            self.shown_as not in UNITS or UNITS.index(self.shown_as) < UNITS.index(self.settings.unit)
        ):
            raise ValueError(
                f"shown_as: expected {', '.join(UNITS[UNITS.index(self.settings.unit) :])} or none, "
                f"got {self.shown_as!r:.40}"
            )
        if self.view:
            from sinkviz.view.settings import validate

            try:
                object.__setattr__(self, "view", validate(self.view))
            except (TypeError, KeyError, AttributeError, OverflowError) as error:
                raise ValueError("view: expected settings of the live view, got something else") from error
        if self.own is not None:
            rows, columns = len(self.source), len(self.target)
            for name, array, shape in (
                ("source_points", self.own.source_points, (rows,)),
                ("target_points", self.own.target_points, (columns,)),
                ("cost", self.own.cost, (rows, columns)),
            ):
                if array is not None and array.shape[: len(shape)] != shape:
                    raise ValueError(f"{name}: expected shape {shape}, got {array.shape}")

    @property
    def title(self) -> str:
        """The beginnings of both texts, for lists and file names."""
        return f"{_short(self.source)} × {_short(self.target)}"

    @classmethod
    def of(
        cls,
        coupling: Coupling,
        *,
        encoder: str | None = None,
        keep_plan: bool = False,
        view: Mapping[str, Any] | None = None,
    ) -> Session:
        """Return the session of a coupling.

        Args:
            coupling: as `sinkviz.couple` returns it, or shown coarser.
            encoder: name of the trained model that made the cost, if one did.
            keep_plan: store the plan too, 11 bytes for each pair.
            view: settings of the live view.

        Raises:
            ValueError: more than 4,000,000 pairs to store.
        """
        solved = coupling.solved or coupling
        own = None
        brought = not (solved.source.origin.model and solved.target.origin.model)
        if brought:
            from sinkviz.pipeline import cosine_cost

            same = solved.source.dimension == solved.target.dimension and np.allclose(
                cosine_cost(solved.source, solved.target), solved.cost, atol=1e-12, equal_nan=False
            )
            own = OwnData(solved.source.points, solved.target.points, None if same else solved.cost)
        if (keep_plan or (own is not None and own.cost is not None)) and solved.plan.size > MAXIMUM_ENTRIES:
            raise ValueError(
                f"plan: expected at most {MAXIMUM_ENTRIES:,} pairs in a session file, got {solved.plan.size:,}; "
                "leave the plan out, or write it as NPZ"
            )
        uniform = [
            bool(np.allclose(measure.weights, 1 / len(measure), rtol=1e-12, atol=0.0))
            for measure in (solved.source, solved.target)
        ]
        return cls(
            source=tuple(solved.source.labels) if brought else _text_of(solved.source),
            target=tuple(solved.target.labels) if brought else _text_of(solved.target),
            settings=CouplingSettings.of(coupling, encoder=encoder),
            source_weights=None if uniform[0] else tuple(solved.source.weights.tolist()),
            target_weights=None if uniform[1] else tuple(solved.target.weights.tolist()),
            shown_as=None if coupling.solved is None else coupling.source.unit,
            view=view or {},
            result=Result.of(coupling),
            plan=solved.plan if keep_plan else None,
            own=own,
        )

    def run(self) -> Coupling:
        """Compute the coupling again, and show it as it was shown.

        Raises:
            ValueError: a model that is not installed or not allowed here, weights that do not fit its atoms.
        """
        from sinkviz.pipeline import couple_cost

        if self.own is None:
            source = self.settings.embed(_list(self.source), self.source_weights)
            target = self.settings.embed(_list(self.target), self.target_weights)
            coupling = self.settings.couple(source, target)
        else:
            source = Measure.from_points(self.own.source_points, self.source_weights, list(self.source))
            target = Measure.from_points(self.own.target_points, self.target_weights, list(self.target))
            options = self.settings.solving()
            if self.own.cost is None:
                coupling = self.settings.couple(source, target)
            else:
                del options["encoder"]
                options["epsilon_unit"] = options["epsilon_unit"] or "scale"
                if options["epsilon"] is None:
                    del options["epsilon"]
                coupling = couple_cost(self.own.cost, source, target, **options)
        return coupling if self.shown_as is None else coupling.coarsen(self.shown_as)


def current_versions() -> dict[str, str]:
    """Return the versions of sinkviz and of what decides its numbers."""
    versions = {"sinkviz": __version__}
    for name in ("torch", "numpy", "transformers", "sentence-transformers"):
        try:
            versions[name] = version(name)
        except PackageNotFoundError:
            continue
    return versions


def _short(text: Text, length: int = 40) -> str:
    clean = " ".join((text if isinstance(text, str) else " ".join(text[:length])).split())
    return clean if len(clean) <= length else clean[: length - 1] + "…"


def _list(text: Text) -> str | list[str]:
    return text if isinstance(text, str) else list(text)


def _text_of(measure: Measure) -> Text:
    """Return a measure's text, or its words where they are not those that the text itself is cut into."""
    if set(measure.word_spans) <= set(word_spans(measure.text)):
        return measure.text
    return tuple(measure.text[start:end] for start, end in measure.word_spans)


def _checked_text(text: object, name: str, *, own: bool) -> Text:
    if isinstance(text, str) and not own:
        return validate_text(text, name=name)
    if not isinstance(text, Sequence) or isinstance(text, str | bytes):
        what = "a list of labels" if own else "a text or a list of words"
        raise ValueError(f"{name}: expected {what}, got {type(text).__name__}")
    if not 1 <= len(text) <= MAXIMUM_ATOMS:
        raise ValueError(f"{name}: expected 1 to {MAXIMUM_ATOMS:,} words, got {len(text):,}")
    total = 0
    for position, word in enumerate(text):
        if not isinstance(word, str):
            raise ValueError(f"{name}: expected words, got {type(word).__name__} at position {position}")
        total += len(word) + 1
        if any("\ud800" <= character <= "\udfff" for character in word):
            raise ValueError(f"{name}: expected whole characters, got half of a surrogate pair in word {position + 1}")
    if total > (10 if own else 1) * MAX_CHARACTERS + 1:
        raise ValueError(f"{name}: expected at most {MAX_CHARACTERS:,} characters, got {total - 1:,}")
    return tuple(text)


def _packed(array: NDArray[Any]) -> dict[str, Any]:
    little = np.ascontiguousarray(array, dtype=array.dtype.newbyteorder("<"))
    return {
        "dtype": array.dtype.name,
        "shape": list(array.shape),
        "base64": base64.b64encode(little.tobytes()).decode("ascii"),
    }


def _unpacked(value: object, name: str, *, finite: bool) -> NDArray[Any]:
    if not isinstance(value, Mapping) or set(value) != {"dtype", "shape", "base64"}:
        raise ValueError(f"{name}: expected an object with dtype, shape and base64")
    dtype, shape, packed = value["dtype"], value["shape"], value["base64"]
    if dtype not in ("float32", "float64"):
        raise ValueError(f'{name}: expected dtype "float32" or "float64", got {dtype!r:.40}')
    if not (
        isinstance(shape, list) and len(shape) == 2 and all(type(k) is int and 1 <= k <= MAXIMUM_ATOMS for k in shape)
    ):
        raise ValueError(f"{name}: expected a shape of two whole numbers, got {shape!r:.60}")
    if math.prod(shape) > 12 * MAXIMUM_ENTRIES:
        raise ValueError(f"{name}: expected at most {12 * MAXIMUM_ENTRIES:,} numbers, got {math.prod(shape):,}")
    if not isinstance(packed, str):
        raise ValueError(f"{name}: expected base64, got {type(packed).__name__}")
    try:
        raw = base64.b64decode(packed, validate=True)
    except (binascii.Error, ValueError) as error:
        raise ValueError(f"{name}: expected base64, got something damaged") from error
    width = np.dtype(dtype).itemsize
    if len(raw) != width * math.prod(shape):
        raise ValueError(f"{name}: expected {width * math.prod(shape):,} bytes, got {len(raw):,}; the file is damaged")
    array = np.frombuffer(raw, dtype=np.dtype(dtype).newbyteorder("<")).astype(dtype).reshape(shape)
    wrong = ~np.isfinite(array) if finite else np.isnan(array) | (array == -np.inf)
    if wrong.any():
        raise ValueError(f"{name}: expected finite numbers, got {array[wrong][0]}; the file is damaged")
    return array


def dumps(session: Session) -> str:
    """Return a session as JSON text."""
    result = None if session.result is None else dict(vars(session.result))
    document = {
        "format": FORMAT,
        "version": VERSION,
        "versions": dict(session.versions),
        "texts": {"source": _list(session.source), "target": _list(session.target)},
        "weights": {
            "source": None if session.source_weights is None else list(session.source_weights),
            "target": None if session.target_weights is None else list(session.target_weights),
        },
        "settings": session.settings.as_json(),
        "shown_as": session.shown_as,
        "view": dict(session.view),
        "result": result,
        "plan": None if session.plan is None else _packed(session.plan),
        "own": None
        if session.own is None
        else {
            "source_points": _packed(session.own.source_points),
            "target_points": _packed(session.own.target_points),
            "cost": None if session.own.cost is None else _packed(session.own.cost),
        },
    }
    return json.dumps(document, ensure_ascii=False, indent=2, allow_nan=False) + "\n"


_PARTS = ("texts", "weights", "settings", "shown_as", "view", "versions", "result", "plan", "own")


def loads(data: bytes | str) -> Session:
    """Read a session.

    Raises:
        ValueError: not a session file, one of a newer version, a damaged or an oversized one; the message says which.
    """
    if len(data) > MAXIMUM_BYTES:
        raise ValueError(f"session: expected at most {MAXIMUM_BYTES // 2**20} MB, got {len(data) / 2**20:.0f} MB")
    if isinstance(data, bytes):
        try:
            data = data.decode("utf-8-sig")
        except UnicodeDecodeError as error:
            raise ValueError("session: expected a JSON file in UTF-8, got other bytes") from error
    _check_depth(data)
    try:
        document = json.loads(data.removeprefix("\ufeff"), parse_constant=_no_constant, parse_int=_whole)
    except (json.JSONDecodeError, RecursionError) as error:
        raise ValueError(f"session: expected JSON, got something damaged ({error})") from error
    if not isinstance(document, dict) or document.get("format") != FORMAT:
        raise ValueError(
            f'session: expected a file that sinkviz wrote ("format": "{FORMAT}"), got another kind of file'
        )
    number = document.get("version")
    if type(number) is not int or number < 1:
        raise ValueError(f"session: expected a version number, got {number!r:.40}; the file is damaged")
    if number > VERSION:
        made = document.get("versions")
        by = made.get("sinkviz") if isinstance(made, dict) else None
        raise ValueError(
            f"session: this file has version {number} (written by sinkviz {by!s:.20}), newer than version {VERSION} "
            f"that sinkviz {__version__} reads; install a newer sinkviz"
        )
    unknown = sorted(set(document) - {*_PARTS, "format", "version"})
    missing = [name for name in ("texts", "settings") if name not in document]
    if unknown or missing:
        what = f"unknown parts {', '.join(unknown)[:80]}" if unknown else f"no {' and no '.join(missing)}"
        raise ValueError(f"session: expected the parts {', '.join(_PARTS)}, got {what}; the file is damaged")
    try:
        return _session(document)
    except ValueError as error:
        raise ValueError(f"session: {error}") from None


def _no_constant(name: str) -> float:
    raise ValueError(f"session: expected finite numbers, got {name}; the file is damaged")


def _whole(digits: str) -> int:
    if len(digits) > 20:
        raise ValueError(f"session: expected numbers, got {len(digits)} digits; the file is damaged")
    return int(digits)


def _check_depth(text: str) -> None:
    depth = 0
    inside = escaped = False
    for character in text[: 1 << 16]:  # nesting bombs open at once; the parser's own limit guards the rest
        if inside:
            if escaped:
                escaped = False
            elif character == "\\":
                escaped = True
            elif character == '"':
                inside = False
        elif character == '"':
            inside = True
        elif character in "[{":
            depth += 1
            if depth > _DEEPEST:
                raise ValueError(f"session: expected at most {_DEEPEST} nested levels, got more; the file is damaged")
        elif character in "]}":
            depth -= 1


def _sides(document: Mapping[str, Any], name: str) -> tuple[Any, Any]:
    part = document.get(name, {"source": None, "target": None})
    if not isinstance(part, dict) or set(part) != {"source", "target"}:
        raise ValueError(f"{name}: expected an object with source and target")
    return part["source"], part["target"]


def _tuple(values: object, name: str) -> tuple[float, ...] | None:
    if values is None:
        return None
    if not isinstance(values, list) or any(isinstance(v, bool) or not isinstance(v, int | float) for v in values):
        raise ValueError(f"{name}: expected a list of numbers or null")
    return tuple(float(value) for value in values)


def _session(document: Mapping[str, Any]) -> Session:
    source, target = _sides(document, "texts")
    weights = [
        _tuple(part, f"{side} weights")
        for part, side in zip(_sides(document, "weights"), ("source", "target"), strict=True)
    ]
    versions = document.get("versions", {})
    if (
        not isinstance(versions, dict)
        or len(versions) > 50
        or any(not isinstance(value, str) or len(value) > 100 or len(key) > 100 for key, value in versions.items())
    ):
        raise ValueError("versions: expected an object of names and versions")
    view = document.get("view", {})
    if not isinstance(view, dict):
        raise ValueError(f"view: expected an object, got {type(view).__name__}")
    own = document.get("own")
    if own is not None:
        if not isinstance(own, dict) or set(own) != {"source_points", "target_points", "cost"}:
            raise ValueError("own: expected an object with source_points, target_points and cost")
        own = OwnData(
            _unpacked(own["source_points"], "source_points", finite=True).astype(np.float32),
            _unpacked(own["target_points"], "target_points", finite=True).astype(np.float32),
            None if own["cost"] is None else _unpacked(own["cost"], "cost", finite=False).astype(np.float64),
        )
    plan = document.get("plan")
    if plan is not None:
        plan = _unpacked(plan, "plan", finite=True).astype(np.float64)
        if (plan < 0).any():
            raise ValueError("plan: expected numbers >= 0; the file is damaged")
    for name, text in (("source", source), ("target", target)):
        if not isinstance(text, str | list):
            raise ValueError(f"{name}: expected a text or a list of words, got {type(text).__name__}")
    return Session(
        source=source if isinstance(source, str) else tuple(source),
        target=target if isinstance(target, str) else tuple(target),
        settings=CouplingSettings.from_json(document["settings"]),
        source_weights=weights[0],
        target_weights=weights[1],
        shown_as=document.get("shown_as"),
        view=view,
        versions=versions,
        result=_result(document.get("result")),
        plan=plan,
        own=own,
    )


def _result(value: object) -> Result | None:
    if value is None:
        return None
    names = list(Result.__dataclass_fields__)
    if not isinstance(value, Mapping) or set(value) != set(names):
        raise ValueError(f"result: expected an object with {', '.join(names)}, or null")
    for name in names:
        given = value[name]
        good = (
            isinstance(given, str) and len(given) <= 40
            if name == "status"
            else (not isinstance(given, bool) and isinstance(given, int if name == "iterations" else int | float))
        )
        if not good:
            raise ValueError(f"result: {name}: got {given!r:.40}; the file is damaged")
    return Result(**value)


def save(session: Session, path: str | Path) -> None:
    """Write a session to a file, whole or not at all.

    Raises:
        OSError: the file cannot be written.
    """
    from sinkviz.files import write_whole

    write_whole(path, dumps(session).encode("utf-8"))


def load(path: str | Path) -> Session:
    """Read a session file.

    Raises:
        ValueError: as `loads`; the message begins with the file's name.
        OSError: it cannot be read.
    """
    with open(path, "rb") as file:
        data = file.read(MAXIMUM_BYTES + 1)
    try:
        return loads(data)
    except ValueError as error:
        raise ValueError(f"{path}: {error}") from error


@dataclass(frozen=True)
class Moved:
    """One atom and how much of its mass went elsewhere.

    Attributes:
        index: position among the common atoms of its side.
        label: its slice of the text.
        mass: ½ Σ |ΔP| over its row or column, what it exchanges with atoms that only one run has included.
        share: the same as a share of the larger of its masses in the two runs.
        gained, lost: label of the partner that gained, and of the one that lost most; "" where none did.
    """

    index: int
    label: str
    mass: float
    share: float
    gained: str
    lost: str


@dataclass(frozen=True, eq=False)
class Difference:
    """What changed between two couplings, on the atoms that both have.

    Attributes:
        first, second: the couplings.
        source_pairs, target_pairs: positions (in first, in second) of the common atoms, shapes (k, 2) and (l, 2).
        matrix: P₂ − P₁ on the common atoms, shape (k, l).
        source_moved, target_moved: ½ Σ |ΔP| of each common atom, shapes (k,) and (l,); mass exchanged with atoms
            that are not common counts as one further partner.
    """

    first: Coupling
    second: Coupling
    source_pairs: NDArray[np.int64]
    target_pairs: NDArray[np.int64]
    matrix: Matrix
    source_moved: Matrix
    target_moved: Matrix

    @property
    def complete(self) -> bool:
        """Whether both couplings are between the same atoms."""
        return self.first.shape == self.second.shape == self.matrix.shape

    @property
    def source_labels(self) -> list[str]:
        """Labels of the common source atoms."""
        labels = self.first.source.labels
        return [labels[i] for i in self.source_pairs[:, 0]]

    @property
    def target_labels(self) -> list[str]:
        """Labels of the common target atoms."""
        labels = self.first.target.labels
        return [labels[j] for j in self.target_pairs[:, 0]]

    @property
    def distance(self) -> float:
        """Total variation ½ Σ |ΔP| between the two laws, everything that is not common taken as one place: 0 to 1."""
        first = self.first.plan[np.ix_(self.source_pairs[:, 0], self.target_pairs[:, 0])].sum()
        second = self.second.plan[np.ix_(self.source_pairs[:, 1], self.target_pairs[:, 1])].sum()
        rest = (self.second.mass - second) - (self.first.mass - first)
        return 0.5 * float(np.abs(self.matrix).sum() + abs(rest) + abs(self.second.mass - self.first.mass))

    @property
    def facts(self) -> list[tuple[str, float, float]]:
        """Transport cost, mutual information, mean partners and received distance: (name, first, second)."""
        return [
            ("transport cost", self.first.transport_cost, self.second.transport_cost),
            ("mutual information", self.first.mutual_information, self.second.mutual_information),
            ("effective partners", self.first.mean_partners, self.second.mean_partners),
            ("mass off the target's weights", self.first.received_distance, self.second.received_distance),
        ]

    def most_moved(self, side: str = "source", count: int = 10) -> list[Moved]:
        """Return the atoms whose mass moved most, largest first.

        Raises:
            ValueError: a side other than "source" and "target".
        """
        if side not in ("source", "target"):
            raise ValueError(f'side: expected "source" or "target", got {side!r}')
        source = side == "source"
        moved = self.source_moved if source else self.target_moved
        matrix = self.matrix if source else self.matrix.T
        labels = self.source_labels if source else self.target_labels
        partners = self.target_labels if source else self.source_labels
        pairs = self.source_pairs if source else self.target_pairs
        masses = [
            (one.given if source else one.received)[pairs[:, k]] for k, one in enumerate((self.first, self.second))
        ]
        largest = np.maximum(*masses)
        result = []
        for k in np.argsort(-moved, kind="stable")[:count].tolist():
            row = matrix[k]
            up, down = int(row.argmax()), int(row.argmin())
            result.append(
                Moved(
                    index=k,
                    label=labels[k],
                    mass=float(moved[k]),
                    share=float(moved[k] / largest[k]) if largest[k] > 0 else 0.0,
                    gained=partners[up] if row[up] > 0 else "",
                    lost=partners[down] if row[down] < 0 else "",
                )
            )
        return result


def _common(first: Measure, second: Measure, side: str) -> NDArray[np.int64]:
    """Return pairs of positions of the atoms that two measures share, in reading order."""
    if first.text == second.text and first.spans == second.spans:
        index = np.arange(len(first))
        return np.stack([index, index], axis=1)
    if first.text == second.text:
        place = {span: k for k, span in enumerate(second.spans)}
        pairs = [(k, place[span]) for k, span in enumerate(first.spans) if span in place]
    else:
        matcher = difflib.SequenceMatcher(None, first.labels, second.labels, autojunk=False)
        pairs = [(i + k, j + k) for i, j, size in matcher.get_matching_blocks() for k in range(size)]
    if not pairs:
        raise ValueError(
            f"difference: expected {side} texts with {first.unit}s in common, got none; compare two runs on one text, "
            "or two targets of one source"
        )
    return np.asarray(pairs, dtype=np.int64)


def difference(first: Coupling, second: Coupling) -> Difference:
    """Return what changed from one coupling to another: other settings on the same texts, or another target.

    Atoms are common if they are the same span of the same text; of different texts, if they stand in a longest
    common run of equal labels. Both couplings are shown by the coarser of their units first.

    Raises:
        ValueError: no atom in common on a side.

    Example:
        >>> from sinkviz.pipeline import couple
        >>> x = Measure.from_points([[1.0, 0.0], [0.0, 1.0]], labels=["cat", "dog"])
        >>> change = difference(couple(x, x, mechanism="exact"), couple(x, x, epsilon=1e6, epsilon_unit="absolute"))
        >>> change.matrix.round(3).tolist(), round(change.distance, 3)
        ([[-0.25, 0.25], [0.25, -0.25]], 0.5)
    """
    unit = max((first.source.unit, second.source.unit), key=UNITS.index)
    first, second = first.coarsen(unit), second.coarsen(unit)
    rows = _common(first.source, second.source, "source")
    columns = _common(first.target, second.target, "target")
    before = first.plan[np.ix_(rows[:, 0], columns[:, 0])]
    after = second.plan[np.ix_(rows[:, 1], columns[:, 1])]
    matrix = after - before

    def moved(
        axis: int, pairs: NDArray[np.int64], masses: tuple[Matrix, Matrix], nulls: tuple[Matrix, Matrix]
    ) -> Matrix:
        inside = 0.5 * np.abs(matrix).sum(axis=axis)
        outside = (masses[1][pairs[:, 1]] - after.sum(axis=axis)) - (masses[0][pairs[:, 0]] - before.sum(axis=axis))
        null = nulls[1][pairs[:, 1]] - nulls[0][pairs[:, 0]]
        return np.asarray(inside + 0.5 * np.abs(outside) + 0.5 * np.abs(null))

    return Difference(
        first=first,
        second=second,
        source_pairs=rows,
        target_pairs=columns,
        matrix=matrix,
        source_moved=moved(1, rows, (first.given, second.given), (first.null_source, second.null_source)),
        target_moved=moved(0, columns, (first.received, second.received), (first.null_target, second.null_target)),
    )
