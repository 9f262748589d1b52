"""A text as a probability measure: weighted points that remember which characters they came from."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Literal

import numpy as np
from numpy.typing import ArrayLike, NDArray

Span = tuple[int, int]
Unit = Literal["token", "word", "sentence"]
UNITS: tuple[Unit, ...] = ("token", "word", "sentence")


@dataclass(frozen=True)
class Origin:
    """Where the points of a measure come from.

    Attributes:
        model: name of the embedding model as the registry spells it; "" for points that the user brought.
        layer: index of the hidden layer (0 = input embeddings); None for points that the user brought.
        device: device that computed the embedding, as torch names it.
        windows: number of overlapping windows that the text was read in (1 = it fitted at once).
        centred: whether the mean of the cloud was subtracted.
        notes: what a reader of the picture must know, in plain sentences.
    """

    model: str = ""
    layer: int | None = None
    device: str = "cpu"
    windows: int = 1
    centred: bool = False
    notes: tuple[str, ...] = ()


def validate_weights(weights: ArrayLike, count: int) -> NDArray[np.float64]:
    """Return `count` weights that sum to 1.

    Raises:
        ValueError: wrong number or shape, a weight that is not finite or negative, or a sum of 0.

    >>> validate_weights([1, 3], 2)
    array([0.25, 0.75])
    """
    try:
        given = np.asarray(weights, dtype=np.float64)
    except (TypeError, ValueError) as error:
        raise ValueError(f"weights: expected {count} numbers, got {weights!r:.80}") from error
    if given.shape != (count,):
        raise ValueError(
            f"weights: expected one number for each of the {count} atoms, got shape {given.shape}; "
            "give a flat list of that length"
        )
    if not np.isfinite(given).all():
        position = int(np.flatnonzero(~np.isfinite(given))[0])
        raise ValueError(f"weights: expected finite numbers, got {given[position]} at position {position}")
    if (given < 0).any():
        position = int(np.flatnonzero(given < 0)[0])
        raise ValueError(
            f"weights: expected numbers >= 0, got {given[position]} at position {position}; use 0 to leave an atom out"
        )
    largest = float(given.max(initial=0.0))
    if largest == 0.0:
        raise ValueError("weights: expected a positive sum, got only zeros; give at least one atom some weight")
    # Dividing by the largest first keeps the sum finite and away from subnormal numbers.
    scaled: NDArray[np.float64] = given / largest
    return np.asarray(scaled / scaled.sum(), dtype=np.float64)


def _read_only(array: NDArray[np.generic]) -> NDArray[np.generic]:
    owned = array.copy() if array.flags.writeable or array.base is not None else array
    owned.flags.writeable = False
    return owned


@dataclass(frozen=True, eq=False)
class Measure:
    """A discrete probability measure μ = Σ a_i δ_{x_i} over the atoms of a text.

    Attributes:
        points: the x_i, shape (n, d), float32.
        weights: the a_i, shape (n,), float64, ≥ 0 with sum 1 (normalised on construction).
        text: the text as it was pasted.
        spans: [start, end) of each atom in code points of `text`.
        word_of, sentence_of: shape (n,), the word and the sentence each atom belongs to: indices into
            `word_spans` and `sentence_spans`, which list only those that carry atoms.
        unit: what an atom is.
        origin: model, layer, device and notes.

    Raises:
        ValueError: points are not a finite matrix, or one of the other fields does not fit them.

    Example:
        >>> measure = Measure.from_points([[0.0, 1.0], [1.0, 0.0]], weights=[1, 3], labels=["a", "b"])
        >>> measure.labels, measure.weights.tolist()
        (['a', 'b'], [0.25, 0.75])
    """

    points: NDArray[np.float32]
    weights: NDArray[np.float64]
    text: str
    spans: tuple[Span, ...]
    word_of: NDArray[np.int64]
    sentence_of: NDArray[np.int64]
    word_spans: tuple[Span, ...]
    sentence_spans: tuple[Span, ...]
    unit: Unit = "token"
    origin: Origin = field(default_factory=Origin)

    def __post_init__(self) -> None:
        points = np.ascontiguousarray(self.points, dtype=np.float32)
        if points.ndim != 2 or points.shape[0] == 0 or points.shape[1] == 0:
            raise ValueError(
                f"points: expected a matrix of shape (atoms, dimensions) with at least one of each, got {points.shape}"
            )
        if not np.isfinite(points).all():
            row = int(np.flatnonzero(~np.isfinite(points).all(axis=1))[0])
            raise ValueError(f"points: expected finite numbers, got {points[row].tolist()!r:.60} in row {row}")
        count = len(points)
        weights = validate_weights(self.weights, count)
        groups = {}
        for name, spans in (("word_of", self.word_spans), ("sentence_of", self.sentence_spans)):
            group = np.asarray(getattr(self, name), dtype=np.int64)
            if group.shape != (count,) or (count and (group.min() < 0 or group.max() >= len(spans))):
                raise ValueError(
                    f"{name}: expected {count} indices from 0 to {len(spans) - 1}, got shape {group.shape}"
                )
            groups[name] = group
        if self.unit not in UNITS:
            raise ValueError(f"unit: expected one of {', '.join(UNITS)}, got {self.unit!r}")
        if len(self.spans) != count:
            raise ValueError(f"spans: expected one for each of the {count} points, got {len(self.spans)}")
        for start, end in (*self.spans, *self.word_spans, *self.sentence_spans):
            if not 0 <= start <= end <= len(self.text):
                raise ValueError(
                    f"spans: expected 0 <= start <= end <= {len(self.text)} (length of the text), got {(start, end)}"
                )
        object.__setattr__(self, "points", _read_only(points))
        object.__setattr__(self, "weights", _read_only(weights))
        for name, group in groups.items():
            object.__setattr__(self, name, _read_only(group))

    @classmethod
    def from_points(
        cls,
        points: ArrayLike,
        weights: ArrayLike | None = None,
        labels: Sequence[str] | None = None,
    ) -> Measure:
        """Make a measure of points that the user brought; each atom is a word of its own.

        Args:
            points: shape (n, d).
            weights: shape (n,), uniform if None.
            labels: n names, "1" … "n" if None; the text is the labels joined by blanks.

        Raises:
            ValueError: shapes that do not fit, numbers that are not finite.
        """
        matrix = np.asarray(points, dtype=np.float32)
        if matrix.ndim != 2:
            raise ValueError(f"points: expected a matrix of shape (atoms, dimensions), got shape {matrix.shape}")
        names = [str(k + 1) for k in range(len(matrix))] if labels is None else list(labels)
        if len(names) != len(matrix):
            raise ValueError(f"labels: expected one for each of the {len(matrix)} points, got {len(names)}")
        spans: list[Span] = []
        start = 0
        for name in names:
            spans.append((start, start + len(name)))
            start += len(name) + 1
        text = " ".join(names)
        return cls(
            points=matrix,
            weights=np.ones(len(matrix)) if weights is None else np.asarray(weights, dtype=np.float64),
            text=text,
            spans=tuple(spans),
            word_of=np.arange(len(matrix)),
            sentence_of=np.zeros(len(matrix), dtype=np.int64),
            word_spans=tuple(spans),
            sentence_spans=((0, len(text)),),
            unit="word",
        )

    def __len__(self) -> int:
        return len(self.points)

    @property
    def dimension(self) -> int:
        """Number of coordinates of a point."""
        return int(self.points.shape[1])

    @property
    def labels(self) -> list[str]:
        """The atoms as slices of the text."""
        return [self.text[start:end] for start, end in self.spans]

    def with_weights(self, weights: ArrayLike) -> Measure:
        """Return the same points with other weights (validated and normalised)."""
        return replace(self, weights=validate_weights(weights, len(self)))

    def group(self, unit: Unit) -> tuple[NDArray[np.int64], tuple[Span, ...]]:
        """Return for each atom the index of its `unit`, and the spans of those units.

        Raises:
            ValueError: a unit finer than the atoms of this measure.
        """
        if unit not in UNITS or UNITS.index(unit) < UNITS.index(self.unit):
            coarser = ", ".join(UNITS[UNITS.index(self.unit) :])
            raise ValueError(f"unit: expected one of {coarser} (the atoms are {self.unit}s), got {unit!r}")
        if unit == self.unit:
            return np.arange(len(self), dtype=np.int64), self.spans
        if unit == "word":
            return self.word_of, self.word_spans
        return self.sentence_of, self.sentence_spans

    def coarsen(self, unit: Unit) -> Measure:
        """Return the measure of words or sentences: weights summed, points averaged by weight.

        A unit of weight 0 takes the plain mean of its atoms.
        """
        group, spans = self.group(unit)
        if unit == self.unit:
            return self
        count = len(spans)
        weights = np.bincount(group, weights=self.weights, minlength=count).astype(np.float64)
        shares = np.where(weights[group] > 0, self.weights, 1.0)
        totals = np.bincount(group, weights=shares, minlength=count)
        points = np.zeros((count, self.dimension))
        np.add.at(points, group, self.points * (shares / totals[group])[:, None])
        first = np.full(count, len(self), dtype=np.int64)
        np.minimum.at(first, group, np.arange(len(self)))
        return replace(
            self,
            points=points.astype(np.float32),
            weights=weights,
            spans=spans,
            word_of=self.word_of[first] if unit == "sentence" else np.arange(count),
            sentence_of=np.arange(count) if unit == "sentence" else self.sentence_of[first],
            unit=unit,
        )
