from __future__ import annotations

import json
from dataclasses import replace

import numpy as np
import pytest

from sinkviz.alignment.evaluation import (
    EvaluationCancelledError,
    describe,
    evaluate,
    evaluate_cosines,
    make_folds,
)
from sinkviz.alignment.gold import GoldPair, GoldSet, mini_gold
from sinkviz.alignment.methods import FIVE, methods


def synthetic(count: int, noise: float, seed: int = 0) -> tuple[list[np.ndarray], GoldSet]:
    """Pairs with a known one-to-one alignment, cosines that show it through noise."""
    generator = np.random.default_rng(seed)
    cosines, pairs = [], []
    for k in range(count):
        n = int(generator.integers(4, 9))
        order = generator.permutation(n)
        table = noise * generator.normal(size=(n, n))
        table[np.arange(n), order] += 1.0
        cosines.append(np.tanh(table))
        pairs.append(
            GoldPair(
                tuple(f"s{k}.{i}" for i in range(n)),
                tuple(f"t{k}.{j}" for j in range(n)),
                frozenset((i, int(order[i])) for i in range(n)),
                id=str(k),
            )
        )
    return cosines, GoldSet("synthetic", tuple(pairs))


def chosen(*names: str) -> list:
    known = methods()
    return [known[name] for name in names]


def test_folds_are_even_and_keep_shared_texts_together() -> None:
    _, gold = synthetic(23, 0.1)
    fold = make_folds(gold.pairs, 5)
    assert sorted(np.bincount(fold)) == [4, 4, 5, 5, 5]
    assert np.array_equal(fold, make_folds(gold.pairs, 5))
    assert not np.array_equal(fold, make_folds(gold.pairs, 5, seed=1))
    twins = [*gold.pairs, *(GoldPair(pair.target, pair.source, frozenset()) for pair in gold.pairs)]
    both = make_folds(twins, 4)
    assert np.array_equal(both[:23], both[23:])
    with pytest.raises(ValueError, match="2 to 23"):
        make_folds(gold.pairs, 24)
    with pytest.raises(ValueError, match="2 to 23"):
        make_folds(gold.pairs, 1)


def test_clear_scores_give_a_perfect_result() -> None:
    cosines, gold = synthetic(12, 0.0)
    results, unsolved = evaluate_cosines(cosines, gold, chosen(*FIVE), folds=3)
    assert unsolved == 0
    for result in results:
        assert result.f1.value == 1.0
        assert result.aer.value == 0.0
        assert result.average_precision.value == 1.0
        assert [set(links) for links in result.links] == [set(pair.sure) for pair in gold.pairs]


def test_noise_gives_less_and_counts_belong_to_the_links() -> None:
    cosines, gold = synthetic(20, 0.5)
    results, _ = evaluate_cosines(cosines, gold, chosen("softmax", "partial-grown", "partial-null"), folds=4)
    for result in results:
        assert 0.3 < result.f1.value < 1.0
        for links, counts, pair in zip(result.links, result.counts, gold.pairs, strict=True):
            found = set(links)
            assert counts.tolist() == [len(found), len(pair.sure), len(found & pair.possible), len(found & pair.sure)]


def test_settings_of_a_fold_do_not_depend_on_its_gold_links() -> None:
    cosines, gold = synthetic(20, 0.6)
    fold = make_folds(gold.pairs, 4)
    wrong = GoldSet(
        "other",
        tuple(
            GoldPair(pair.source, pair.target, frozenset({(0, 0)}), id=pair.id) if fold[k] == 2 else pair
            for k, pair in enumerate(gold.pairs)
        ),
    )
    names = ("softmax", "bidirectional", "partial")
    for one, other in zip(
        evaluate_cosines(cosines, gold, chosen(*names), folds=4)[0],
        evaluate_cosines(cosines, wrong, chosen(*names), folds=4)[0],
        strict=True,
    ):
        assert one.chosen[2] == other.chosen[2]
        held_out = np.flatnonzero(fold == 2)
        assert [one.links[k] for k in held_out] == [other.links[k] for k in held_out]


def test_dev_set_decides_alone() -> None:
    cosines, gold = synthetic(10, 0.5, seed=1)
    dev_cosines, dev = synthetic(15, 0.5, seed=2)
    first, _ = evaluate_cosines(cosines, gold, chosen("bidirectional"), dev=(dev_cosines, dev))
    other = GoldSet("other", tuple(GoldPair(p.source, p.target, frozenset({(0, 0)})) for p in gold.pairs))
    second, _ = evaluate_cosines(cosines, other, chosen("bidirectional"), dev=(dev_cosines, dev))
    assert len(first[0].chosen) == 1
    assert first[0].chosen == second[0].chosen
    assert first[0].links == second[0].links


def test_the_best_setting_on_dev_is_taken() -> None:
    cosines, gold = synthetic(30, 0.5)
    (result,), _ = evaluate_cosines(cosines, gold, chosen("bidirectional"), dev=(cosines, gold))
    settings = result.chosen[0]
    for threshold in (0.02, 0.5, 0.9):
        narrowed = replace(chosen("bidirectional")[0], scores=(settings.score,), thresholds=(threshold,))
        (other,), _ = evaluate_cosines(cosines, gold, [narrowed], dev=(cosines, gold))
        assert other.scores.f1 <= result.scores.f1 + 1e-12


def test_cosines_that_do_not_fit() -> None:
    cosines, gold = synthetic(4, 0.1)
    with pytest.raises(ValueError, match="expected finite numbers of shape"):
        evaluate_cosines([c.T[:-1] for c in cosines], gold, chosen("cosine"), folds=2)
    with pytest.raises(ValueError, match="expected finite numbers of shape"):
        evaluate_cosines([c * np.nan for c in cosines], gold, chosen("cosine"), folds=2)


@pytest.fixture(scope="module")
def english() -> GoldSet:
    gold = mini_gold()
    return gold.subset(k for k, pair in enumerate(gold.pairs) if pair.target_language == "en")


@pytest.fixture(scope="module")
def result(english: GoldSet):
    lines: list[tuple[float, str]] = []
    found = evaluate(
        english,
        folds=4,
        epsilon_curve=True,
        layer_curve=True,
        progress=lambda share, line: lines.append((share, line)),
    )
    return found, lines


def test_evaluation_of_the_mini_set(result, english: GoldSet) -> None:
    found, lines = result
    assert found.pairs == len(english)
    assert found.model == "all-MiniLM-L6-v2"
    assert found.layer == 3
    assert [method.name for method in found.methods] == list(FIVE)
    for method in found.methods:
        assert method.f1.low <= method.f1.value <= method.f1.high
        assert method.f1.value > 0.6
        assert len(method.links) == len(english)
    shares = [share for share, _ in lines]
    assert shares == sorted(shares)
    assert shares[-1] == 1.0
    assert all(line for _, line in lines)


def test_curves(result) -> None:
    found, _ = result
    assert {point.at for point in found.layer_curve} == set(range(7))
    assert {point.method for point in found.layer_curve} == set(FIVE)
    assert {point.method for point in found.epsilon_curve} == set(FIVE) - {"cosine"}
    assert all(0 <= point.f1.value <= 1 for point in found.epsilon_curve + found.layer_curve)


def test_table_and_json(result) -> None:
    found, _ = result
    rows = found.table("cosine")
    assert [row["name"] for row in rows] == list(FIVE)
    cosine = rows[FIVE.index("cosine")]
    assert cosine["difference"] == 0
    assert cosine["p"] == 1.0
    assert all(0 < row["p"] <= 1 for row in rows)
    read = json.loads(found.to_json())
    assert read["methods"][0]["f1"]["value"] == found.methods[0].f1.value
    assert np.array(read["methods"][0]["counts"]).shape == (found.pairs, 4)
    assert found["cosine"].name == "cosine"
    assert found.best().f1.value == max(method.f1.value for method in found.methods)
    assert found.best("transport").family == "transport"
    with pytest.raises(ValueError, match="expected one of"):
        found["other"]
    assert "threshold" in describe(found["sinkhorn"].chosen[0])


def test_evaluation_is_reproducible(result, english: GoldSet) -> None:
    found, _ = result
    again = evaluate(english, folds=4)
    for one, other in zip(found.methods, again.methods, strict=True):
        assert one.links == other.links
        assert one.f1 == other.f1


def test_cancelling(english: GoldSet) -> None:
    calls = 0

    def cancelled() -> bool:
        nonlocal calls
        calls += 1
        return calls > 3

    with pytest.raises(EvaluationCancelledError):
        evaluate(english, folds=2, cancelled=cancelled)
    assert calls == 4


@pytest.mark.parametrize(
    ("options", "what"),
    [
        ({"method_names": ("other",)}, "methods: expected some of"),
        ({"method_names": ()}, "methods: expected some of"),
        ({"folds": 40}, "folds: expected"),
        ({"model": "nothing"}, "model: expected"),
        ({"layer": 40}, "layer: expected"),
        ({"orders": (-1.0,)}, "order: expected"),
    ],
)
def test_options_that_do_not_fit(english: GoldSet, options: dict, what: str) -> None:
    with pytest.raises(ValueError, match=what):
        evaluate(english, **options)


def test_dev_pairs_must_be_others(english: GoldSet) -> None:
    with pytest.raises(ValueError, match="in both sets"):
        evaluate(english, dev=english)
