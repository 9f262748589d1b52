"""Ways to score word pairs, and what is tuned about each: attention, cosines and couplings on one footing.

All of them start from the same cosines. With C_ij = −cos(x_i, y_j) + λ |(i + ½)/n − (j + ½)/m| (λ = 0 leaves word
order out), uniform weights on words, and ε, λ, ρ in units of the scale of the double-centred cost:

* cosine: −C itself;
* softmax: attention of each source word over the target words;
* bidirectional: attention in both directions, its geometric mean (Dou & Neubig 2021, "Word alignment by fine-tuning
  embeddings on parallel corpora", takes links above a threshold in both);
* sinkhorn: balanced coupling;
* relaxed: columns pulled towards their weights by ρ KL, rows exact;
* unbalanced: both marginals pulled by ρ KL, with cost 1 + C ≥ 0 so that mass is destroyed and never created;
* partial: balanced coupling with a null partner on each side.

Solved in batches of pairs of similar length.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from sinkviz.alignment.links import Mask, Rule, beats_null, share_matrix

Score = Literal["cosine", "softmax", "bidirectional", "sinkhorn", "relaxed", "unbalanced", "partial"]
SCORES: tuple[Score, ...] = ("cosine", "softmax", "bidirectional", "sinkhorn", "relaxed", "unbalanced", "partial")

TOLERANCE = 1e-4
"""L1 error of the plan's marginals at which a solve for links stops: far below any share that decides a link."""

BATCH_CELLS = 400_000
BATCH_PAIRS = 128


@dataclass(frozen=True)
class ScoreSettings:
    """How the word pairs of two texts are scored.

    Attributes:
        score: the mechanism.
        epsilon: ε in units of the cost's scale; None for "cosine" only.
        relaxation: ρ in units of the cost's scale, for "relaxed" and "unbalanced".
        null_margin: for "partial", and for attention with a null partner: a pair that costs more than the mean plus
            this many scales is dearer than no partner. The price of a null partner is then half of that on each side
            for "partial" (a pair competes with two of them) and all of it for attention.
        order: λ, weight of word order, in units of the cost's scale.
        neighbours: γ, weight of the words before and after, see `neighbour_cosine`.
    """

    score: Score
    epsilon: float | None = None
    relaxation: float | None = None
    null_margin: float | None = None
    order: float = 0.0
    neighbours: float = 0.0

    def __post_init__(self) -> None:
        if self.score not in SCORES:
            raise ValueError(f"mechanism: expected one of {', '.join(SCORES)}, got {self.score!r}")
        if (self.epsilon is None) != (self.score == "cosine"):
            raise ValueError(f'epsilon: give a number > 0 unless the mechanism is "cosine", got {self.epsilon}')
        if self.epsilon is not None and not (np.isfinite(self.epsilon) and self.epsilon > 0):
            raise ValueError(f"epsilon: expected a finite number > 0, got {self.epsilon}")
        if (self.relaxation is None) != (self.score not in ("relaxed", "unbalanced")):
            raise ValueError(
                'relaxation: give a number > 0 with "relaxed" or "unbalanced" and with no other mechanism, '
                f'got {self.relaxation} with "{self.score}"'
            )
        if self.relaxation is not None and not (np.isfinite(self.relaxation) and self.relaxation > 0):
            raise ValueError(f"relaxation: expected a finite number > 0, got {self.relaxation}")
        if self.score == "partial" and self.null_margin is None:
            raise ValueError('null_margin: mechanism "partial" needs the price of having no partner')
        if self.null_margin is not None:
            if self.score not in ("partial", "softmax", "bidirectional"):
                raise ValueError(f'null_margin: there is no null partner in mechanism "{self.score}"')
            if not np.isfinite(self.null_margin):
                raise ValueError(f"null_margin: expected a finite number, got {self.null_margin}")
        for name, value in (("order", self.order), ("neighbours", self.neighbours)):
            if not (np.isfinite(value) and value >= 0):
                raise ValueError(f"{name}: expected a finite number >= 0, got {value}")


@dataclass(frozen=True, eq=False)
class CosineBatch:
    """Cosines of the words of several pairs of texts, padded to one shape.

    Attributes:
        indices: which pairs of the set these are, shape (B,).
        cosine: shape (B, N, M), 0 beyond a pair's words.
        rows, columns: words on each side of each pair, shape (B,).
    """

    indices: NDArray[np.int64]
    cosine: NDArray[np.float64]
    rows: NDArray[np.int64]
    columns: NDArray[np.int64]

    @property
    def row_mask(self) -> Mask:
        """Which rows are words, shape (B, N)."""
        return np.asarray(np.arange(self.cosine.shape[1]) < self.rows[:, None])

    @property
    def column_mask(self) -> Mask:
        """Which columns are words, shape (B, M)."""
        return np.asarray(np.arange(self.cosine.shape[2]) < self.columns[:, None])

    @property
    def mask(self) -> Mask:
        """Which entries are pairs of words, shape (B, N, M)."""
        return self.row_mask[:, :, None] & self.column_mask[:, None, :]


def batches(cosines: Sequence[NDArray[np.float64]]) -> list[CosineBatch]:
    """Pad matrices of cosines to batches of similar shape: at most 128 pairs and about 400,000 entries each."""
    order = sorted(range(len(cosines)), key=lambda k: (max(cosines[k].shape), cosines[k].shape))
    groups: list[list[int]] = []
    rows = columns = 0
    for k in order:
        rows, columns = max(rows, cosines[k].shape[0]), max(columns, cosines[k].shape[1])
        if not groups or len(groups[-1]) >= BATCH_PAIRS or (len(groups[-1]) + 1) * rows * columns > BATCH_CELLS:
            groups.append([])
            rows, columns = cosines[k].shape
        groups[-1].append(k)
    result = []
    for group in groups:
        shape = (len(group), max(cosines[k].shape[0] for k in group), max(cosines[k].shape[1] for k in group))
        padded = np.zeros(shape)
        for b, k in enumerate(group):
            n, m = cosines[k].shape
            padded[b, :n, :m] = cosines[k]
        result.append(
            CosineBatch(
                indices=np.array(group),
                cosine=padded,
                rows=np.array([cosines[k].shape[0] for k in group]),
                columns=np.array([cosines[k].shape[1] for k in group]),
            )
        )
    return result


def neighbour_cosine(batch: CosineBatch, weight: float) -> NDArray[np.float64]:
    """Return cosines with those of the words before and those of the words after, shape (B, N, M).

    (c_ij + γ c_{i−1,j−1} + γ c_{i+1,j+1}) / (1 + 2γ); beyond an end stands the pair's mean cosine. Of two words that
    fit equally well, such as two articles, the one among the right neighbours wins.

    Args:
        weight: γ ≥ 0.

    >>> one = batches([np.array([[0.9, 0.1], [0.9, 0.8]])])[0]
    >>> neighbour_cosine(one, 0.5).round(3).tolist()
    [[[0.819, 0.388], [0.788, 0.794]]]
    """
    if not weight:
        return batch.cosine
    mean = (batch.cosine.sum((1, 2)) / (batch.rows * batch.columns))[:, None, None]
    centred = np.where(batch.mask, batch.cosine - mean, 0.0)
    total = centred.copy()
    total[:, 1:, 1:] += weight * centred[:, :-1, :-1]
    total[:, :-1, :-1] += weight * centred[:, 1:, 1:]
    return np.where(batch.mask, mean + total / (1 + 2 * weight), 0.0)


def _order_distance(batch: CosineBatch) -> NDArray[np.float64]:
    place = (np.arange(batch.cosine.shape[1]) + 0.5)[None, :] / batch.rows[:, None]
    other = (np.arange(batch.cosine.shape[2]) + 0.5)[None, :] / batch.columns[:, None]
    return np.asarray(np.abs(place[:, :, None] - other[:, None, :]))


def _cost(
    batch: CosineBatch, settings: ScoreSettings
) -> tuple[NDArray[np.float64], NDArray[np.float64], NDArray[np.float64]]:
    """Return the cost (B, N, M), 0 in the padding, its unit and its mean (B,), under uniform weights."""
    mask = batch.mask
    cells = (batch.rows * batch.columns).astype(np.float64)
    cosine, order = neighbour_cosine(batch, settings.neighbours), settings.order
    mean = cosine.sum((1, 2)) / cells
    row_mean = cosine.sum(2) / batch.columns[:, None]
    column_mean = cosine.sum(1) / batch.rows[:, None]
    centred = np.where(mask, cosine - row_mean[:, :, None] - column_mean[:, None, :] + mean[:, None, None], 0.0)
    unit = np.sqrt((centred**2).sum((1, 2)) / cells)
    # One word against many has no double-centred spread; attention there still depends on the cost itself.
    plain = np.sqrt((np.where(mask, cosine - mean[:, None, None], 0.0) ** 2).sum((1, 2)) / cells)
    unit = np.where(unit > 1e-9, unit, np.where(plain > 1e-9, plain, 1.0))
    cost = -cosine
    if order:
        cost = cost + order * unit[:, None, None] * _order_distance(batch)
    cost = np.where(mask, cost, 0.0)
    return cost, unit, cost.sum((1, 2)) / cells


def null_margin(batch: CosineBatch, settings: ScoreSettings, null_cost: float) -> float:
    """Return the margin that stands for a price of having no partner, for a batch of one pair.

    Args:
        null_cost: in the units of the cost, as in `sinkviz.couple`.

    Raises:
        ValueError: a price that is not finite, or a mechanism without a null partner.
    """
    if not np.isfinite(null_cost):
        raise ValueError(f"null_cost: expected a finite number in the units of the cost, got {null_cost}")
    if settings.score not in ("partial", "softmax", "bidirectional"):
        raise ValueError(f'null_cost: there is no null partner in mechanism "{settings.score}"')
    _, unit, mean = _cost(batch, settings)
    dearest = 2 * null_cost if settings.score == "partial" else null_cost
    return float((dearest - mean[0]) / unit[0])


@dataclass(frozen=True, eq=False)
class Shares:
    """Scores of the word pairs of a batch.

    Attributes:
        share: shape (B, N, M); −inf in the padding.
        null: where a pair beats the null partner in its row and its column; None without a null partner.
        converged: which solves reached their tolerance, shape (B,); True where nothing was iterated.
    """

    share: NDArray[np.float64]
    null: Mask | None
    converged: Mask


def _attention(
    cost: NDArray[np.float64], mask: Mask, weight: NDArray[np.float64], null: NDArray[np.float64] | None
) -> tuple[NDArray[np.float64], NDArray[np.float64] | None]:
    """Softmax of −cost over the last axis, with weights on the keys, and the null partner's part (weight 1)."""
    logits = np.where(mask, np.log(weight) - cost, -np.inf)
    top = logits.max(-1, keepdims=True)
    if null is not None:
        top = np.maximum(top, -null[:, None, None])
    top = np.where(np.isfinite(top), top, 0.0)
    raised = np.exp(logits - top)
    total = raised.sum(-1, keepdims=True)
    beyond = None
    if null is not None:
        beyond = np.exp(-null[:, None, None] - top)
        total = total + beyond
    total = np.where(total > 0, total, 1.0)
    return raised / total, None if beyond is None else (beyond / total)[..., 0]


def shares(batch: CosineBatch, settings: ScoreSettings) -> Shares:
    """Score the word pairs of a batch.

    Raises:
        ValueError: as `ScoreSettings` does.

    Example:
        >>> one = batches([np.array([[0.9, 0.1], [0.2, 0.8]])])[0]
        >>> shares(one, ScoreSettings("softmax", epsilon=0.5)).share.round(2).tolist()
        [[[0.99, 0.01], [0.03, 0.97]]]
    """
    cost, unit, mean = _cost(batch, settings)
    mask = batch.mask
    always = np.ones(len(unit), dtype=bool)
    if settings.score == "cosine":
        return Shares(np.where(mask, -cost, -np.inf), None, always)
    assert settings.epsilon is not None
    epsilon = settings.epsilon * unit
    limit = None if settings.null_margin is None else mean + settings.null_margin * unit
    if settings.score in ("softmax", "bidirectional"):
        scaled = cost / epsilon[:, None, None]
        price = None if limit is None else limit / epsilon
        row_weight = (1 / batch.rows)[:, None, None]
        column_weight = (1 / batch.columns)[:, None, None]
        forward, null_row = _attention(scaled, mask, column_weight, price)
        share, null = forward, None
        if settings.score == "bidirectional":
            backward, null_column = _attention(scaled.swapaxes(1, 2), mask.swapaxes(1, 2), row_weight, price)
            backward = backward.swapaxes(1, 2)
            share = np.sqrt(forward * backward)
            if null_row is not None and null_column is not None:
                null = (forward > null_row[:, :, None]) & (backward > null_column[:, None, :])
        elif null_row is not None:
            null = forward > null_row[:, :, None]
        return Shares(np.where(mask, share, -np.inf), None if null is None else null & mask, always)
    plan, null_source, null_target, converged = _solve(batch, cost, unit, epsilon, limit, settings)
    share = np.where(mask, share_matrix(plan, null_source, null_target), -np.inf)
    null = None
    if null_source is not None and null_target is not None:
        null = beats_null(plan, null_source, null_target) & mask
    return Shares(share, null, converged)


def _solve(
    batch: CosineBatch,
    cost: NDArray[np.float64],
    unit: NDArray[np.float64],
    epsilon: NDArray[np.float64],
    limit: NDArray[np.float64] | None,
    settings: ScoreSettings,
) -> tuple[NDArray[np.float64], NDArray[np.float64] | None, NDArray[np.float64] | None, Mask]:
    import torch

    from sinkviz import transport

    a = np.where(batch.row_mask, 1 / batch.rows[:, None], 0.0)
    b = np.where(batch.column_mask, 1 / batch.columns[:, None], 0.0)
    relaxation = None if settings.relaxation is None else torch.from_numpy(settings.relaxation * unit)
    if settings.score == "unbalanced":
        cost = np.where(batch.mask, cost + 1.0, 0.0)
    if settings.score == "partial":
        assert limit is not None
        count, rows, columns = cost.shape
        wider = np.zeros((count, rows + 1, columns + 1))
        wider[:, :rows, :columns] = cost
        wider[:, :rows, columns] = wider[:, rows, :columns] = limit[:, None] / 2
        cost = wider
        a = np.concatenate([a, np.ones((count, 1))], axis=1) / 2
        b = np.concatenate([b, np.ones((count, 1))], axis=1) / 2
    result = transport.sinkhorn(
        torch.from_numpy(cost),
        torch.from_numpy(a),
        torch.from_numpy(b),
        epsilon=torch.from_numpy(epsilon),
        tolerance=TOLERANCE,
        row_relaxation=relaxation if settings.score == "unbalanced" else None,
        column_relaxation=relaxation,
    )
    plan = result.plan.numpy()
    converged = np.array([status in ("converged", "closed_form") for status in result.status])
    if settings.score != "partial":
        return plan, None, None, converged
    plan = 2 * plan
    return plan[:, :-1, :-1], plan[:, :-1, -1], plan[:, -1, :-1], converged


@dataclass(frozen=True)
class Method:
    """A way to find links, and the settings among which dev data choose.

    Attributes:
        name: what to call it in commands and files.
        label: what to call it on a page.
        family: "attention", "cosine" or "transport".
        rule: how links are taken from shares.
        scores: the settings of the score that are tried.
        thresholds: the thresholds that are tried.
        growths: the second thresholds that are tried; for rule "grown" only.
    """

    name: str
    label: str
    family: Literal["attention", "cosine", "transport"]
    rule: Rule
    scores: tuple[ScoreSettings, ...]
    thresholds: tuple[float, ...] = (0.0,)
    growths: tuple[float | None, ...] = (None,)


@dataclass(frozen=True)
class Settings:
    """One choice among those of a method."""

    score: ScoreSettings
    rule: Rule
    threshold: float = 0.0
    growth: float | None = None


def _scores(
    score: Score,
    places: Sequence[dict[str, float]],
    epsilons: Sequence[float],
    extra: Sequence[dict[str, float]] = ({},),
) -> tuple[ScoreSettings, ...]:
    return tuple(
        ScoreSettings(score, epsilon=epsilon, **place, **more)
        for place in places
        for epsilon in epsilons
        for more in extra
    )


_THRESHOLDS = tuple(round(0.02 + 0.04 * k, 2) for k in range(24))
_GROWN_THRESHOLDS = tuple(round(0.22 + 0.04 * k, 2) for k in range(9))
_GROWTHS = (0.1, 0.15, 0.2, 0.25, 0.3, 0.35, 0.4)
_ATTENTION = (0.15, 0.25, 0.35, 0.5)
_TRANSPORT = (0.35, 0.5, 0.7, 1.0)
_RELAXATIONS = ({"relaxation": 1.5}, {"relaxation": 3.0})
_MARGINS = ({"null_margin": 1.5}, {"null_margin": 2.5}, {"null_margin": 4.0})
_LOW_MARGINS = ({"null_margin": 0.0}, {"null_margin": 0.75}, {"null_margin": 1.5})


def methods(orders: Sequence[float] = (0.0,), neighbours: Sequence[float] = (0.0,)) -> dict[str, Method]:
    """Return every method by name, with what dev data choose among.

    Args:
        orders: weights of word order to choose among, the same for every method.
        neighbours: weights of the words before and after to choose among, the same for every method.

    Raises:
        ValueError: no weight, or one that is negative or not finite.

    >>> list(methods())[:3]
    ['softmax-argmax', 'softmax', 'bidirectional']
    """
    if not orders:
        raise ValueError("orders: expected at least one weight of word order, got none; 0 leaves it out")
    if not neighbours:
        raise ValueError("neighbours: expected at least one weight of neighbouring words, got none; 0 leaves them out")
    places = [{"order": order, "neighbours": weight} for order in orders for weight in neighbours]
    soft = _scores("softmax", places, _ATTENTION)
    both = _scores("bidirectional", places, _ATTENTION)
    balanced = _scores("sinkhorn", places, _TRANSPORT)
    null = _scores("partial", places, _TRANSPORT[:3], _MARGINS)
    loose = _scores("unbalanced", places, _TRANSPORT[:3], _RELAXATIONS)
    cosine = tuple(ScoreSettings("cosine", **place) for place in places)
    first = _scores("softmax", places, _ATTENTION[:1])
    both_null = _scores("bidirectional", places, _ATTENTION, _LOW_MARGINS)
    beaten_null = _scores("partial", places, _TRANSPORT[:3], _LOW_MARGINS)
    one, two = (_THRESHOLDS,), (_GROWN_THRESHOLDS, _GROWTHS)
    found = (
        Method("softmax-argmax", "softmax attention, argmax", "attention", "argmax", first),
        Method("softmax", "softmax attention", "attention", "threshold", soft, *one),
        Method("bidirectional", "bidirectional softmax", "attention", "threshold", both, *one),
        Method("cosine", "mutual cosine", "cosine", "mutual", cosine, (-np.inf,)),
        Method("sinkhorn", "Sinkhorn", "transport", "threshold", balanced, *one),
        Method("sinkhorn-mutual", "Sinkhorn, mutual", "transport", "mutual", balanced, *one),
        Method("partial", "Sinkhorn with null partner, mutual", "transport", "mutual", null, *one),
        Method("unbalanced", "unbalanced Sinkhorn, mutual", "transport", "mutual", loose, *one),
        Method("bidirectional-null", "bidirectional softmax, beats null", "attention", "null", both_null),
        Method("partial-null", "Sinkhorn with null partner, beats null", "transport", "null", beaten_null),
        Method("bidirectional-grown", "bidirectional softmax, grown", "attention", "grown", both, *two),
        Method("sinkhorn-grown", "Sinkhorn, grown", "transport", "grown", balanced, *two),
        Method("partial-grown", "Sinkhorn with null partner, grown", "transport", "grown", null, *two),
        Method("unbalanced-grown", "unbalanced Sinkhorn, grown", "transport", "grown", loose, *two),
    )
    return {method.name: method for method in found}


FIVE = ("softmax", "bidirectional", "cosine", "sinkhorn", "partial")
"""The five methods that are compared unless others are asked for."""
