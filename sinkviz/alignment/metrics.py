"""How well predicted word links agree with gold ones, with the uncertainty that a sample of sentences leaves.

For predicted links A and gold links S (sure) ⊆ P (possible), Och & Ney (2003), section 2.2:

    precision = |A ∩ P| / |A|      recall = |A ∩ S| / |S|      AER = 1 − (|A ∩ S| + |A ∩ P|) / (|A| + |S|)

F1 is the harmonic mean of precision and recall. A ratio of nothing to nothing is 1: no claim, no wrong claim.
Sums run over all sentence pairs before the ratio is taken. Intervals resample whole sentence pairs (links
within a sentence depend on each other), Koehn (2004), "Statistical significance tests for machine translation
evaluation".
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray

from sinkviz.alignment.gold import GoldPair, WordLink

Counts = NDArray[np.int64]
"""Shape (pairs, 4): |A|, |S|, |A ∩ P|, |A ∩ S| of each sentence pair."""

RESAMPLES = 2_000
LEVEL = 0.95


@dataclass(frozen=True)
class Interval:
    """An estimate with the ends of its confidence interval (percentiles of the bootstrap)."""

    value: float
    low: float
    high: float

    def __str__(self) -> str:
        return f"{self.value:.3f} [{self.low:.3f}, {self.high:.3f}]"


@dataclass(frozen=True)
class Scores:
    """Agreement of predicted links with gold ones, summed over sentence pairs.

    Attributes:
        predicted, sure: |A| and |S|.
        predicted_possible, predicted_sure: |A ∩ P| and |A ∩ S|.

    >>> scores = Scores(predicted=4, sure=4, predicted_possible=3, predicted_sure=2)
    >>> scores.precision, scores.recall, scores.f1, scores.aer
    (0.75, 0.5, 0.6, 0.375)
    """

    predicted: int
    sure: int
    predicted_possible: int
    predicted_sure: int

    @property
    def precision(self) -> float:
        """|A ∩ P| / |A|."""
        return self.predicted_possible / self.predicted if self.predicted else 1.0

    @property
    def recall(self) -> float:
        """|A ∩ S| / |S|."""
        return self.predicted_sure / self.sure if self.sure else 1.0

    @property
    def f1(self) -> float:
        """2 · precision · recall / (precision + recall)."""
        total = self.precision + self.recall
        return 2 * self.precision * self.recall / total if total else 0.0

    @property
    def aer(self) -> float:
        """1 − (|A ∩ S| + |A ∩ P|) / (|A| + |S|), the alignment error rate; 0 where nothing is linked at all."""
        total = self.predicted + self.sure
        return 1 - (self.predicted_sure + self.predicted_possible) / total if total else 0.0


def count_links(predicted: Iterable[WordLink], gold: GoldPair) -> NDArray[np.int64]:
    """Return |A|, |S|, |A ∩ P|, |A ∩ S| of one sentence pair; a link given twice counts once.

    Raises:
        ValueError: a predicted link outside the pair's words.

    >>> pair = GoldPair(("a", "b"), ("c", "d"), frozenset({(0, 0)}), frozenset({(1, 1)}))
    >>> count_links([(0, 0), (1, 1), (1, 0)], pair).tolist()
    [3, 1, 2, 1]
    """
    links = set(predicted)
    for i, j in links:
        if not (0 <= i < len(gold.source) and 0 <= j < len(gold.target)):
            raise ValueError(
                f"links: expected indices below {len(gold.source)} and {len(gold.target)} (pair "
                f"{gold.id!r}), got {i}-{j}"
            )
    return np.array([len(links), len(gold.sure), len(links & gold.possible), len(links & gold.sure)], dtype=np.int64)


@dataclass(frozen=True)
class JudgedLinks:
    """Predicted links of one pair beside the gold ones, each in reading order.

    Attributes:
        right: predicted and sure. possible: predicted and possible only. wrong: predicted and neither.
        missed: sure and not predicted.
    """

    right: tuple[WordLink, ...]
    possible: tuple[WordLink, ...]
    wrong: tuple[WordLink, ...]
    missed: tuple[WordLink, ...]


def judge_links(predicted: Iterable[WordLink], gold: GoldPair) -> JudgedLinks:
    """Sort predicted links of one pair into right, possible, wrong and missed.

    Raises:
        ValueError: a predicted link outside the pair's words.

    >>> pair = GoldPair(("a", "b"), ("c", "d"), frozenset({(0, 0), (1, 0)}), frozenset({(1, 1)}))
    >>> judge_links([(0, 0), (1, 1), (0, 1)], pair)
    JudgedLinks(right=((0, 0),), possible=((1, 1),), wrong=((0, 1),), missed=((1, 0),))
    """
    links = set(predicted)
    count_links(links, gold)
    return JudgedLinks(
        right=tuple(sorted(links & gold.sure)),
        possible=tuple(sorted(links & gold.possible - gold.sure)),
        wrong=tuple(sorted(links - gold.possible)),
        missed=tuple(sorted(gold.sure - links)),
    )


def _counts(counts: ArrayLike) -> Counts:
    table = np.asarray(counts, dtype=np.int64)
    if table.ndim != 2 or table.shape[1] != 4 or len(table) == 0:
        raise ValueError(f"counts: expected shape (pairs, 4) with at least one pair, got {table.shape}")
    return table


def total_scores(counts: ArrayLike) -> Scores:
    """Return the scores over all sentence pairs of counts (pairs, 4)."""
    return Scores(*(int(value) for value in _counts(counts).sum(axis=0)))


def f1_of_sums(sums: NDArray[np.generic]) -> NDArray[np.float64]:
    """Return F1 for sums of counts, shape (…, 4) → (…)."""
    predicted, sure, possible_hits, sure_hits = np.moveaxis(np.asarray(sums, dtype=np.float64), -1, 0)
    precision = np.divide(possible_hits, predicted, out=np.ones_like(predicted), where=predicted > 0)
    recall = np.divide(sure_hits, sure, out=np.ones_like(sure), where=sure > 0)
    total = precision + recall
    return np.asarray(np.divide(2 * precision * recall, total, out=np.zeros_like(total), where=total > 0))


def aer_of_sums(sums: NDArray[np.generic]) -> NDArray[np.float64]:
    """Return AER for sums of counts, shape (…, 4) → (…)."""
    predicted, sure, possible_hits, sure_hits = np.moveaxis(np.asarray(sums, dtype=np.float64), -1, 0)
    total = predicted + sure
    return np.asarray(1 - np.divide(possible_hits + sure_hits, total, out=np.ones_like(total), where=total > 0))


def resample_weights(pairs: int, resamples: int = RESAMPLES, seed: int = 0) -> NDArray[np.float64]:
    """Return how often each of `pairs` sentence pairs is drawn in each bootstrap sample, shape (resamples,
    pairs).

    The same seed gives the same samples, so that methods are compared on the same ones.

    Raises:
        ValueError: fewer than 1 pair or 1 sample.
    """
    if pairs < 1 or resamples < 1:
        raise ValueError(f"bootstrap: expected at least 1 pair and 1 sample, got {pairs} and {resamples}")
    generator = np.random.default_rng(seed)
    return generator.multinomial(pairs, np.full(pairs, 1 / pairs), size=resamples).astype(np.float64)


def _interval(value: float, samples: NDArray[np.float64], level: float) -> Interval:
    if not 0 < level < 1:
        raise ValueError(f"level: expected a number between 0 and 1, got {level}")
    low, high = np.quantile(samples, [(1 - level) / 2, (1 + level) / 2])
    return Interval(float(value), float(low), float(high))


def f1_interval(counts: ArrayLike, *, resamples: int = RESAMPLES, level: float = LEVEL, seed: int = 0) -> Interval:
    """Return F1 with its bootstrap interval over sentence pairs.

    >>> f1_interval([[2, 2, 2, 2], [2, 2, 2, 2]])
    Interval(value=1.0, low=1.0, high=1.0)
    """
    table = _counts(counts)
    samples = f1_of_sums(resample_weights(len(table), resamples, seed) @ table)
    return _interval(total_scores(table).f1, samples, level)


def aer_interval(counts: ArrayLike, *, resamples: int = RESAMPLES, level: float = LEVEL, seed: int = 0) -> Interval:
    """Return AER with its bootstrap interval over sentence pairs."""
    table = _counts(counts)
    samples = aer_of_sums(resample_weights(len(table), resamples, seed) @ table)
    return _interval(total_scores(table).aer, samples, level)


@dataclass(frozen=True)
class PairedTest:
    """F1 of one method minus F1 of another on the same sentence pairs.

    Attributes:
        difference: with its bootstrap interval.
        p_value: two-sided: how often the difference of a resampled set, shifted to mean no difference, is at
            least as large as the one that was seen (Berg-Kirkpatrick, Burkett & Klein 2012, "An empirical
            investigation of statistical significance in NLP"). Never 0: at least 1 / (resamples + 1).
        pairs: number of sentence pairs.
    """

    difference: Interval
    p_value: float
    pairs: int


def paired_test(
    counts: ArrayLike, other: ArrayLike, *, resamples: int = RESAMPLES, level: float = LEVEL, seed: int = 0
) -> PairedTest:
    """Compare F1 of two methods by a paired bootstrap over sentence pairs.

    Args:
        counts, other: shape (pairs, 4), the same pairs in the same order.

    Raises:
        ValueError: tables of different length, or counts of different gold links.

    >>> right, wrong = [[2, 2, 2, 2]] * 9, [[2, 2, 1, 1]] * 9
    >>> paired_test(right, wrong).difference
    Interval(value=0.5, low=0.5, high=0.5)
    """
    first, second = _counts(counts), _counts(other)
    if len(first) != len(second) or not np.array_equal(first[:, 1], second[:, 1]):
        raise ValueError(
            "paired test: expected counts of the same sentence pairs in the same order, got "
            f"{len(first)} pairs with {first[:, 1].sum()} gold links and {len(second)} with "
            f"{second[:, 1].sum()}"
        )
    weights = resample_weights(len(first), resamples, seed)
    samples = f1_of_sums(weights @ first) - f1_of_sums(weights @ second)
    seen = total_scores(first).f1 - total_scores(second).f1
    extreme = int((np.abs(samples - seen) >= abs(seen) - 1e-12).sum())
    return PairedTest(_interval(seen, samples, level), (extreme + 1) / (resamples + 1), len(first))


def _ranked(
    scores: Sequence[NDArray[np.float64]], gold: Sequence[GoldPair]
) -> tuple[NDArray[np.float64], NDArray[np.bool_], NDArray[np.int64]]:
    if len(scores) != len(gold):
        raise ValueError(f"scores: expected one matrix for each of the {len(gold)} pairs, got {len(scores)}")
    values, relevant, owner = [], [], []
    for index, (matrix, pair) in enumerate(zip(scores, gold, strict=True)):
        table = np.asarray(matrix, dtype=np.float64)
        if table.shape != (len(pair.source), len(pair.target)):
            raise ValueError(
                f"scores: expected shape {(len(pair.source), len(pair.target))} for pair {pair.id!r}, got {table.shape}"
            )
        if np.isnan(table).any():
            raise ValueError(f"scores: expected numbers, got NaN in pair {pair.id!r}")
        sure = np.zeros(table.shape, dtype=bool)
        kept = np.ones(table.shape, dtype=bool)
        for i, j in pair.possible:
            kept[i, j] = (i, j) in pair.sure
            sure[i, j] = (i, j) in pair.sure
        values.append(table[kept])
        relevant.append(sure[kept])
        owner.append(np.full(int(kept.sum()), index))
    flat = np.concatenate(values)
    order = np.argsort(-flat, kind="stable")
    return flat[order], np.concatenate(relevant)[order], np.concatenate(owner)[order]


def _precision_sum(ends: NDArray[np.int64], relevant: NDArray[np.float64], weights: NDArray[np.float64]) -> float:
    hits = np.cumsum(relevant * weights)[ends]
    ranks = np.cumsum(weights)[ends]
    if hits[-1] == 0:
        return 1.0
    precision = np.divide(hits, ranks, out=np.zeros_like(hits), where=ranks > 0)
    return float((np.diff(hits, prepend=0.0) * precision).sum() / hits[-1])


def average_precision(scores: Sequence[NDArray[np.float64]], gold: Sequence[GoldPair]) -> float:
    """Return the area under precision and recall as the threshold falls: Σ_k (R_k − R_{k−1}) P_k.

    All word pairs of all sentence pairs are ranked together by score, equal scores at one threshold. Sure
    links are the right ones; links that are possible only are left out, as neither right nor wrong. 1 where
    nothing is sure.

    Args:
        scores: one matrix (source words, target words) for each pair; only the order matters; −inf is
            allowed.

    Raises:
        ValueError: matrices that do not fit the pairs, or NaN.

    >>> pair = GoldPair(("a", "b"), ("c", "d"), frozenset({(0, 0), (1, 1)}))
    >>> average_precision([np.array([[0.9, 0.8], [0.1, 0.7]])], [pair])
    0.8333333333333333
    """
    values, relevant, _ = _ranked(scores, gold)
    ends = np.append(np.flatnonzero(np.diff(values)), len(values) - 1)
    return _precision_sum(ends, relevant.astype(np.float64), np.ones(len(values)))


def average_precision_interval(
    scores: Sequence[NDArray[np.float64]],
    gold: Sequence[GoldPair],
    *,
    resamples: int = 200,
    level: float = LEVEL,
    seed: int = 0,
) -> Interval:
    """Return average precision with its bootstrap interval over sentence pairs."""
    values, relevant, owner = _ranked(scores, gold)
    hits = relevant.astype(np.float64)
    ends = np.append(np.flatnonzero(np.diff(values)), len(values) - 1)
    value = _precision_sum(ends, hits, np.ones(len(values)))
    if hits.any():
        # Behind the last right link nothing counts any more, whatever is drawn.
        last = int(np.searchsorted(ends, np.flatnonzero(hits)[-1]))
        ends = ends[: last + 1]
        hits, owner = hits[: ends[-1] + 1], owner[: ends[-1] + 1]
    weights = resample_weights(len(gold), resamples, seed)
    samples = np.array([_precision_sum(ends, hits, row[owner]) for row in weights])
    return _interval(value, samples, level)
