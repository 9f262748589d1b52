from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.metrics import average_precision_score

from sinkviz.alignment.gold import GoldPair
from sinkviz.alignment.metrics import (
    Interval,
    Scores,
    aer_interval,
    average_precision,
    average_precision_interval,
    count_links,
    f1_interval,
    f1_of_sums,
    judge_links,
    paired_test,
    resample_weights,
    total_scores,
)


def pair(n: int, m: int, sure: set, possible: set = frozenset()) -> GoldPair:
    return GoldPair(tuple("abcdefgh"[:n]), tuple("stuvwxyz"[:m]), frozenset(sure), frozenset(possible))


# Worked by hand: |A| = 4, |S| = 3, A∩P = {00, 11, 12}, A∩S = {00, 11}.
#   precision 3/4, recall 2/3, F1 = 2·(3/4)(2/3)/(3/4+2/3) = 1/(17/12) = 12/17, AER = 1 − (2+3)/(4+3) = 2/7.
def test_worked_case_with_possible_links() -> None:
    gold = pair(3, 4, {(0, 0), (1, 1), (2, 2)}, {(1, 2)})
    scores = total_scores([count_links([(0, 0), (1, 1), (1, 2), (2, 3)], gold)])
    assert scores == Scores(4, 3, 3, 2)
    assert scores.precision == pytest.approx(3 / 4)
    assert scores.recall == pytest.approx(2 / 3)
    assert scores.f1 == pytest.approx(12 / 17)
    assert scores.aer == pytest.approx(2 / 7)


# Och & Ney's point: with S = P, AER = 1 − F1. |A| = 2, |S| = 3, hits 2: F1 = 4/5.
def test_aer_is_one_minus_f1_without_possible_links() -> None:
    scores = total_scores([count_links([(0, 0), (1, 1)], pair(3, 3, {(0, 0), (1, 1), (2, 2)}))])
    assert scores.f1 == pytest.approx(4 / 5)
    assert scores.aer == pytest.approx(1 / 5)


def test_sums_run_over_pairs_before_the_ratio() -> None:
    counts = [[1, 1, 1, 1], [9, 3, 3, 3]]
    assert total_scores(counts).precision == pytest.approx(4 / 10)  # the mean of ratios would be 2/3
    assert total_scores(counts).recall == 1.0


def test_nothing_linked() -> None:
    nothing = Scores(0, 0, 0, 0)
    assert (nothing.precision, nothing.recall, nothing.f1, nothing.aer) == (1.0, 1.0, 1.0, 0.0)
    silent = Scores(0, 5, 0, 0)
    assert (silent.precision, silent.recall, silent.f1, silent.aer) == (1.0, 0.0, 0.0, 1.0)
    wrong = Scores(3, 5, 0, 0)
    assert (wrong.f1, wrong.aer) == (0.0, 1.0)


def test_repeated_links_count_once_and_foreign_ones_are_refused() -> None:
    gold = pair(1, 1, {(0, 0)})
    assert count_links([(0, 0), (0, 0)], gold).tolist() == [1, 1, 1, 1]
    with pytest.raises(ValueError, match="indices below 1 and 1"):
        count_links([(0, 1)], gold)


def test_judged_links_add_up_to_the_counts() -> None:
    gold = pair(3, 4, {(0, 0), (1, 1), (2, 2)}, {(1, 2)})
    links = [(2, 3), (0, 0), (1, 1), (1, 2)]
    judged = judge_links(links, gold)
    assert judged.right == ((0, 0), (1, 1))
    assert judged.possible == ((1, 2),)
    assert judged.wrong == ((2, 3),)
    assert judged.missed == ((2, 2),)
    assert count_links(links, gold).tolist() == [4, 3, 3, 2]
    with pytest.raises(ValueError, match="indices below"):
        judge_links([(3, 0)], gold)


count = st.tuples(*[st.integers(0, 9)] * 4).map(
    lambda c: (c[0], c[1], min(c[0], max(c[2], min(c[3], c[1]))), min(c[3], c[0], c[1], max(c[2], c[3])))
)


@given(st.lists(count, min_size=1, max_size=8))
@settings(max_examples=100, deadline=None)
def test_f1_of_sums_is_that_of_scores(counts: list) -> None:
    assert f1_of_sums(np.array(counts).sum(0)) == pytest.approx(total_scores(counts).f1)


# Ranked: .9 right, .8 wrong, .7 right, .6 wrong, .5 right → AP = (1 + 2/3 + 3/5)/3 = 34/45.
def test_average_precision_worked_case() -> None:
    gold = [pair(1, 3, {(0, 0), (0, 2)}), pair(1, 2, {(0, 1)})]
    scores = [np.array([[0.9, 0.8, 0.7]]), np.array([[0.6, 0.5]])]
    assert average_precision(scores, gold) == pytest.approx(34 / 45)


# A tie of one right and one wrong at the top counts as one threshold: precision 1/2, then 2/3.
def test_average_precision_with_ties() -> None:
    gold = [pair(1, 3, {(0, 1), (0, 2)})]
    assert average_precision([np.array([[0.5, 0.5, 0.1]])], gold) == pytest.approx(0.5 * 1 / 2 + 0.5 * 2 / 3)


def test_average_precision_leaves_possible_links_out() -> None:
    gold = [pair(1, 3, {(0, 1)}, {(0, 0)})]
    assert average_precision([np.array([[0.9, 0.5, 0.1]])], gold) == 1.0


@given(st.integers(0, 10_000))
@settings(max_examples=50, deadline=None)
def test_average_precision_is_that_of_sklearn(seed: int) -> None:
    generator = np.random.default_rng(seed)
    gold, scores, flat, right = [], [], [], []
    for _ in range(4):
        table = generator.integers(0, 6, size=(3, 4)) / 5
        sure = generator.random((3, 4)) < 0.3
        gold.append(pair(3, 4, {(int(i), int(j)) for i, j in np.argwhere(sure)}))
        scores.append(table)
        flat.append(table.ravel())
        right.append(sure.ravel())
    if not np.concatenate(right).any():
        assert average_precision(scores, gold) == 1.0
        return
    expected = average_precision_score(np.concatenate(right), np.concatenate(flat))
    assert average_precision(scores, gold) == pytest.approx(expected)
    found = average_precision_interval(scores, gold, resamples=20)
    assert found.value == pytest.approx(expected)
    assert 0 <= found.low <= found.high <= 1


def test_average_precision_interval_is_the_percentile_of_resampled_sets() -> None:
    generator = np.random.default_rng(3)
    gold = [pair(3, 3, {(0, 0), (1, 1)}) for _ in range(6)]
    scores = [generator.random((3, 3)) for _ in gold]
    found = average_precision_interval(scores, gold, resamples=50, seed=5)
    samples = []
    for row in resample_weights(6, 50, 5).astype(int):
        chosen = np.repeat(np.arange(6), row)
        samples.append(average_precision([scores[k] for k in chosen], [gold[k] for k in chosen]))
    low, high = np.quantile(samples, [0.025, 0.975])
    assert found.low == pytest.approx(low)
    assert found.high == pytest.approx(high)


def test_scores_that_do_not_fit() -> None:
    gold = [pair(1, 2, {(0, 0)})]
    with pytest.raises(ValueError, match="expected shape"):
        average_precision([np.zeros((2, 1))], gold)
    with pytest.raises(ValueError, match="NaN"):
        average_precision([np.array([[0.1, np.nan]])], gold)
    with pytest.raises(ValueError, match="one matrix"):
        average_precision([], gold)


def test_bootstrap_interval_against_a_closed_form() -> None:
    # Pairs with one link each, right or wrong: precision is a mean of 400 coin flips of probability 0.8.
    counts = [[1, 1, 1, 1]] * 320 + [[1, 1, 0, 0]] * 80
    found = f1_interval(counts, resamples=4_000)
    error = 1.96 * np.sqrt(0.8 * 0.2 / 400)
    assert found.value == pytest.approx(0.8)
    assert found.low == pytest.approx(0.8 - error, abs=0.006)
    assert found.high == pytest.approx(0.8 + error, abs=0.006)
    mirrored = aer_interval(counts, resamples=4_000)
    assert mirrored.low == pytest.approx(1 - found.high)


def test_bootstrap_is_reproducible_and_its_weights_sum_to_the_pairs() -> None:
    weights = resample_weights(7, 50, 3)
    assert (weights.sum(1) == 7).all()
    assert np.array_equal(weights, resample_weights(7, 50, 3))
    assert not np.array_equal(weights, resample_weights(7, 50, 4))


def test_paired_test_is_antisymmetric_and_sees_no_difference_in_itself() -> None:
    generator = np.random.default_rng(0)
    hits = generator.integers(0, 4, size=(60, 2))
    first = np.stack([np.full(60, 3), np.full(60, 3), hits[:, 0], hits[:, 0]], 1)
    second = np.stack([np.full(60, 3), np.full(60, 3), hits[:, 1], hits[:, 1]], 1)
    forth, back = paired_test(first, second), paired_test(second, first)
    assert forth.difference.value == pytest.approx(-back.difference.value)
    assert forth.difference.low == pytest.approx(-back.difference.high)
    assert forth.p_value == back.p_value
    same = paired_test(first, first)
    assert same.difference == Interval(0.0, 0.0, 0.0)
    assert same.p_value == 1.0


def test_paired_test_finds_what_unpaired_intervals_hide() -> None:
    generator = np.random.default_rng(1)
    hits = generator.integers(0, 10, size=60)
    first = np.stack([np.full(60, 10), np.full(60, 10), hits + 1, hits + 1], 1)
    second = np.stack([np.full(60, 10), np.full(60, 10), hits, hits], 1)
    test = paired_test(first, second)
    assert test.difference.low > 0
    assert test.p_value == pytest.approx(1 / 2_001)
    assert f1_interval(first).low < f1_interval(second).high


def test_paired_test_holds_its_level_under_no_difference() -> None:
    generator = np.random.default_rng(2)
    rejected = 0
    for _ in range(100):
        hits = generator.integers(0, 5, size=(40, 2))
        tables = [np.stack([np.full(40, 4), np.full(40, 4), h, h], 1) for h in hits.T]
        rejected += paired_test(*tables, resamples=400).p_value < 0.05
    assert rejected <= 14


def test_paired_test_needs_the_same_pairs() -> None:
    with pytest.raises(ValueError, match="same sentence pairs"):
        paired_test([[1, 1, 1, 1]], [[1, 2, 1, 1]])
    with pytest.raises(ValueError, match="same sentence pairs"):
        paired_test([[1, 1, 1, 1]], [[1, 1, 1, 1]] * 2)


def test_counts_of_the_wrong_shape() -> None:
    with pytest.raises(ValueError, match=r"shape \(pairs, 4\)"):
        total_scores([[1, 2, 3]])
    with pytest.raises(ValueError, match="level"):
        f1_interval([[1, 1, 1, 1]], level=95)
    with pytest.raises(ValueError, match="bootstrap"):
        resample_weights(0)
