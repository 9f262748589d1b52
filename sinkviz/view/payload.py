"""The binary payload of the live view: a JSON header and raw arrays, small enough to send at every change of text."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping, Sequence
from typing import Any, Protocol

import numpy as np
from numpy.typing import ArrayLike, NDArray

from sinkviz.coupling import DEFAULT_EPSILON, Coupling, cost_unit
from sinkviz.measure import Measure, Span, Unit
from sinkviz.projection import Projection, shared_projection
from sinkviz.view.settings import validate
from sinkviz.view.weights import atom_flags, stop_word_language, weight_presets

MAGIC = b"SKVZ"
VERSION = 1
PRESETS = ("uniform", "length", "inverse_frequency")
LONG = 600
"""Words from which a text opens by sentence: about what a heatmap can show side by side."""
_TYPES = {"float32": "<f4", "float64": "<f8", "int32": "<i4", "uint8": "|u1"}


class Path(Protocol):
    """What `build` needs of an ε-path, for example `sinkviz.EpsilonPath`."""

    @property
    def source(self) -> Measure: ...
    @property
    def target(self) -> Measure: ...
    @property
    def cost(self) -> NDArray[np.float64]: ...
    @property
    def cost_scale(self) -> float: ...
    @property
    def epsilons(self) -> NDArray[np.float64]: ...
    @property
    def solved(self) -> Any: ...


def utf16_spans(text: str, spans: Sequence[Span]) -> NDArray[np.int32]:
    """Return spans in UTF-16 units, which is what JavaScript counts, shape (len(spans), 2).

    >>> utf16_spans("🐟 fish", [(0, 1), (2, 6)]).tolist()
    [[0, 2], [3, 7]]
    """
    given = np.asarray(spans, dtype=np.int64).reshape(-1, 2)
    if text.isascii():
        return given.astype(np.int32)
    points = np.frombuffer(text.encode("utf-32-le", "surrogatepass"), dtype="<u4")
    units = np.concatenate([[0], np.cumsum(1 + (points > 0xFFFF))])
    return np.asarray(units[given], dtype=np.int32)


def opening_level(source: Measure, target: Measure) -> Unit:
    """Return the unit that the view opens at: short texts by word, long ones by sentence, never finer than the atoms.

    >>> x = Measure.from_points([[1.0, 0.0], [0.0, 1.0]], labels=["cat", "dog"])
    >>> opening_level(x, x)
    'word'
    """
    sides = (source, target)
    if "sentence" in (side.unit for side in sides):
        return "sentence"
    long = max(len(side.word_spans) for side in sides) > LONG
    return "sentence" if long and min(len(side.sentence_spans) for side in sides) > 1 else "word"


def build(
    source: Measure,
    target: Measure,
    *,
    cost: ArrayLike,
    cost_scale: float,
    epsilons: ArrayLike,
    potentials: ArrayLike | None = None,
    solved_weights: tuple[ArrayLike, ArrayLike] | None = None,
    statuses: Sequence[str] | None = None,
    epsilon_unit: str = "scale",
    recommended: float | None = None,
    null_cost: float | None = None,
    optimum: float | tuple[float, float] | None = None,
    projection: Projection | None = None,
    settings: Mapping[str, Any] | None = None,
    revision: int = 0,
    facts: Mapping[str, Any] | None = None,
) -> bytes:
    """Return the payload of the live view.

    The view rebuilds every plan from it: P_ij = a_i b_j exp((f_i + g_j − C_ij)/ε), where f follows from g.

    Args:
        source, target: the measures *as they were embedded*, n and m atoms; their weights are the preset "given".
        cost: C, shape (n, m); +inf forbids a pair.
        cost_scale: weighted standard deviation of the double-centred cost.
        epsilons: absolute ε of the grid, falling, shape (E,).
        potentials: g over the grid in cost units, shape (E, m), or (E, m + 1) with a null partner; None lets the view
            solve the path itself.
        solved_weights: a and b that the potentials belong to, where they differ from the measures' weights.
        statuses: status of each ε, shape (E,).
        epsilon_unit: "scale" (the view shows ε in σ) or "absolute".
        recommended: ε that the dial marks, in the view's unit; None = `DEFAULT_EPSILON` in σ, no mark otherwise.
        null_cost: price of having no partner; adds the null row and column to every picture.
        optimum: exact ⟨C, P⟩, or a lower and an upper end for it; None takes the bracket that the duality gives.
        projection: coordinates of both clouds; `shared_projection(source, target)` if None.
        settings: settings to start with, as `sinkviz.view.settings.validate` takes them.
        revision: raise it when the settings come from elsewhere than the view itself (a link, Back, a session file):
            a view that is already open then takes them over. With an equal revision it keeps its own, which may have
            moved on while the problem was being solved.
        facts: what the view says about the solve, all optional: "model" str, "device" str, "seconds" float,
            "notes" list[str], "title" str, "link" str (the texts as URL parameters, for "copy link").

    Raises:
        ValueError: shapes that do not fit, numbers that are not finite, an ε that does not fall.

    Example:
        >>> x = Measure.from_points([[1.0, 0.0], [0.0, 1.0]], labels=["cat", "dog"])
        >>> blob = build(x, x, cost=[[-1, 0], [0, -1]], cost_scale=0.5, epsilons=[1.0, 0.1])
        >>> blob[:4], read_header(blob)["source"]["text"]
        (b'SKVZ', 'cat dog')
    """
    n, m = len(source), len(target)
    matrix = np.asarray(cost, dtype=np.float64)
    if matrix.shape != (n, m):
        raise ValueError(f"cost: expected shape {(n, m)}, got {matrix.shape}")
    if np.isnan(matrix).any() or np.isneginf(matrix).any():
        raise ValueError("cost: expected finite numbers or +inf (forbidden), got NaN or -inf")
    grid = np.asarray(epsilons, dtype=np.float64)
    if grid.ndim != 1 or not len(grid) or not np.isfinite(grid).all() or (grid <= 0).any():
        raise ValueError(f"epsilons: expected finite numbers > 0, got {grid!r:.120}")
    if (np.diff(grid) >= 0).any():
        raise ValueError("epsilons: expected a falling grid, got one that rises or repeats")
    if epsilon_unit not in ("scale", "absolute"):
        raise ValueError(f'epsilon_unit: expected "scale" or "absolute", got {epsilon_unit!r}')
    if recommended is None and epsilon_unit == "scale":
        recommended = DEFAULT_EPSILON
    if recommended is not None and not (np.isfinite(recommended) and recommended > 0):
        raise ValueError(f"recommended: expected a finite number > 0 or None, got {recommended}")
    if null_cost is not None and not np.isfinite(null_cost):
        raise ValueError(f"null_cost: expected a finite number or None, got {null_cost}")
    columns = m + (null_cost is not None)
    g = None if potentials is None else np.asarray(potentials, dtype=np.float64)
    if g is not None and (g.shape != (len(grid), columns) or not np.isfinite(g).all()):
        raise ValueError(f"potentials: expected finite numbers of shape {(len(grid), columns)}, got {g.shape}")
    if statuses is not None and len(statuses) != len(grid):
        raise ValueError(f"statuses: expected {len(grid)}, got {len(statuses)}")
    a, b = (source.weights, target.weights)
    if solved_weights is not None:
        a, b = (np.asarray(w, dtype=np.float64) for w in solved_weights)
        if a.shape != (n,) or b.shape != (m,):
            raise ValueError(f"solved_weights: expected shapes {(n,)} and {(m,)}, got {a.shape} and {b.shape}")
    planes = shared_projection(source, target) if projection is None else projection
    unit = 1.0 if epsilon_unit == "absolute" else cost_unit(matrix, cost_scale, a, b) or 1.0
    if optimum is None:
        bracket = None if g is None or null_cost is not None else _bracket(matrix, a, b, float(grid[-1]), g[-1])
    else:
        bracket = (optimum, optimum) if isinstance(optimum, (int, float)) else optimum

    arrays: list[tuple[str, str, NDArray[Any]]] = []
    for name, measure, points, solved in (
        ("source", source, planes.source, a),
        ("target", target, planes.target, b),
    ):
        arrays += [
            (f"{name}.spans", "int32", utf16_spans(measure.text, measure.spans)),
            (f"{name}.words", "int32", measure.word_of),
            (f"{name}.word_spans", "int32", utf16_spans(measure.text, measure.word_spans)),
            (f"{name}.sentences", "int32", measure.sentence_of),
            (f"{name}.sentence_spans", "int32", utf16_spans(measure.text, measure.sentence_spans)),
            (f"{name}.weights", "float64", measure.weights),
            (f"{name}.points", "float32", points),
            (f"{name}.flags", "uint8", atom_flags(measure)),
        ]
        if solved_weights is not None:
            arrays.append((f"{name}.solved_weights", "float64", solved))
        presets = weight_presets(measure)
        arrays += [(f"{name}.preset.{preset}", "float32", presets[preset]) for preset in PRESETS]
    arrays.append(("cost", "float32", matrix))
    if g is not None:
        arrays.append(("potentials", "float32", g))

    layout = []
    body = bytearray()
    for name, kind, values in arrays:
        raw = np.ascontiguousarray(values, dtype=_TYPES[kind]).tobytes()
        layout.append({"name": name, "type": kind, "offset": len(body), "length": int(np.size(values))})
        body += raw + b"\0" * (-len(raw) % 8)
    content = {
        "unit": unit,
        "unit_name": "σ" if epsilon_unit == "scale" else "",
        "cost_scale": float(cost_scale),
        "epsilons": grid.tolist(),
        "recommended": recommended,
        "opening_level": opening_level(source, target),
        "statuses": list(statuses) if statuses is not None else None,
        "null_cost": null_cost,
        "optimum": list(map(float, bracket)) if bracket else None,
        "kept_variance": [float(v) for v in planes.kept_variance],
        "dimensions": int(planes.source.shape[1]),
        "presets": list(PRESETS),
        "source": {"text": source.text, "atoms": source.unit, "stop_words": stop_word_language(source)},
        "target": {"text": target.text, "atoms": target.unit, "stop_words": stop_word_language(target)},
        "facts": dict(facts or {}),
        "arrays": layout,
    }
    # The keys name the texts with their cost, and the problem that was solved for them; settings are no part of
    # either, so that the view can tell a new text from new weights and from a new setting.
    texts = hashlib.sha256(repr((source.text, target.text, source.unit, target.unit, null_cost, unit)).encode())
    problem = hashlib.sha256(json.dumps({k: v for k, v in content.items() if k != "facts"}, sort_keys=True).encode())
    problem.update(body)
    for name, kind, values in arrays:
        if not name.endswith(("solved_weights", "potentials", "points")):
            texts.update(np.ascontiguousarray(values, dtype=_TYPES[kind]).tobytes())
    header = {
        **content,
        "texts_key": texts.hexdigest()[:24],
        "key": problem.hexdigest()[:24],
        "settings": validate(settings or {}),
        "revision": int(revision),
    }
    return _assemble(header, body)


def with_settings(payload: bytes, settings: Mapping[str, Any], revision: int = 0) -> bytes:
    """Return the payload with other settings to start with; the problem and its keys stay.

    For a page that mounts the view again: the payload at hand, opened where the user left it.

    Raises:
        ValueError: bytes that are no payload, settings that cannot be read.
    """
    header = read_header(payload)
    start = 12 + int.from_bytes(payload[8:12], "little")
    return _assemble(
        {**header, "settings": validate(settings), "revision": int(revision)}, payload[start + -start % 8 :]
    )


def _assemble(header: Mapping[str, Any], body: bytes | bytearray) -> bytes:
    text = json.dumps(header, ensure_ascii=True, allow_nan=False, separators=(",", ":")).encode()
    start = MAGIC + VERSION.to_bytes(4, "little") + len(text).to_bytes(4, "little") + text
    return bytes(start + b"\0" * (-len(start) % 8) + body)


def from_path(
    path: Path,
    *,
    base: tuple[Measure, Measure] | None = None,
    **options: Any,
) -> bytes:
    """Return the payload of an ε-path.

    Args:
        path: a solved path, for example of `sinkviz.epsilon_path`.
        base: the measures as they were embedded, where the path was solved for other weights (`chosen_weights`).
        **options: `null_cost`, `settings`, `revision`, `facts`, `optimum`, `projection`, `epsilon_unit`,
            `recommended` of `build`.
    """
    source, target = base or (path.source, path.target)
    solved = None if base is None else (path.source.weights, path.target.weights)
    count = len(path.epsilons)
    return build(
        source,
        target,
        cost=path.cost,
        cost_scale=path.cost_scale,
        epsilons=path.epsilons,
        potentials=_numbers(path.solved.g)[:count],
        solved_weights=solved,
        statuses=[str(status) for status in path.solved.status][:count],
        **options,
    )


def from_coupling(coupling: Coupling, **options: Any) -> bytes:
    """Return the payload of one coupling, with a grid of ε around its own; the view solves the grid itself.

    Args:
        coupling: a coupling of any mechanism; shown coarser, the view opens at that unit.
        **options: `settings`, `facts`, `optimum`, `projection`, `epsilon_unit`, `recommended` of `build`.

    The settings start at the coupling's mechanism: softmax at half-step ½, relaxed columns at its ρ, an exact plan
    at the smallest ε of the grid.
    """
    origin = coupling.solved or coupling
    epsilon_unit = options.pop("epsilon_unit", "scale")
    unit = (
        1.0
        if epsilon_unit == "absolute"
        else cost_unit(origin.cost, origin.cost_scale, origin.source.weights, origin.target.weights) or 1.0
    )
    settings: dict[str, Any] = dict(options.pop("settings", {}))
    relative = coupling.epsilon / unit if coupling.epsilon > 0 else 0.01
    settings.setdefault("epsilon", relative)
    if coupling.mechanism == "softmax":
        settings.setdefault("steps", 0.5)
    if coupling.mechanism == "relaxed":
        settings.setdefault("mode", "relaxation")
        rho = coupling.relaxation
        settings.setdefault("relaxation", "inf" if rho is None or np.isinf(rho) else rho / unit)
    if coupling.solved is not None:
        settings.setdefault("level", coupling.source.unit)
    grid = np.geomspace(max(10.0, relative), min(0.01, relative), 41) * unit
    return build(
        origin.source,
        origin.target,
        cost=origin.cost,
        cost_scale=origin.cost_scale,
        epsilons=grid,
        epsilon_unit=epsilon_unit,
        null_cost=origin.null_cost,
        settings=settings,
        **options,
    )


def read_header(payload: bytes) -> dict[str, Any]:
    """Return the JSON header of a payload.

    Raises:
        ValueError: bytes that are no payload.
    """
    if payload[:4] != MAGIC or len(payload) < 12:
        raise ValueError(f"payload: expected bytes that start with {MAGIC!r}, got {payload[:4]!r}")
    length = int.from_bytes(payload[8:12], "little")
    header: dict[str, Any] = json.loads(payload[12 : 12 + length])
    return header


def read_arrays(payload: bytes) -> dict[str, NDArray[Any]]:
    """Return the arrays of a payload by name (matrices flat, row by row)."""
    header = read_header(payload)
    start = 12 + int.from_bytes(payload[8:12], "little")
    start += -start % 8
    return {
        entry["name"]: np.frombuffer(
            payload, dtype=_TYPES[entry["type"]], count=entry["length"], offset=start + entry["offset"]
        )
        for entry in header["arrays"]
    }


def _numbers(values: Any) -> NDArray[np.float64]:
    if hasattr(values, "detach"):
        values = values.detach().cpu().numpy()
    return np.asarray(values, dtype=np.float64)


def _bracket(
    cost: NDArray[np.float64], a: NDArray[np.float64], b: NDArray[np.float64], epsilon: float, g: NDArray[np.float64]
) -> tuple[float, float] | None:
    """Return a lower and an upper end of the exact optimum min ⟨C, P⟩ from the potentials at the smallest ε.

    Lower: a c-transform of g is feasible in the exact dual. Upper: ⟨C, P⟩ of the plan after it is rounded to the
    marginals (Altschuler, Weed, Rigollet, arXiv 1705.09634, algorithm 2). None where a forbidden pair is in the way.
    """
    alive, wanted = a > 0, b > 0
    lower = float(a[alive] @ (cost[alive] - g)[:, wanted].min(axis=1) + b[wanted] @ g[wanted])
    with np.errstate(divide="ignore"):
        logits = (g - cost) / epsilon + np.log(b)
    logits -= logits.max(axis=1, keepdims=True)
    plan = np.exp(logits)
    plan *= (a / plan.sum(axis=1))[:, None]
    received = plan.sum(axis=0)
    plan *= np.minimum(1.0, np.divide(b, received, out=np.ones_like(b), where=received > 0))
    missing, open_ = a - plan.sum(axis=1), b - plan.sum(axis=0)
    left = float(missing.sum())
    if left > 0 and open_.sum() > 0:
        plan += np.outer(np.maximum(missing, 0.0), np.maximum(open_, 0.0)) / open_.sum()
    used = plan > 0
    upper = float((plan[used] * cost[used]).sum())
    return (lower, max(lower, upper)) if np.isfinite(lower) and np.isfinite(upper) else None
