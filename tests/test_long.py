"""Long texts: the tiled solver against the dense one, block sums, and what is said before the start."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from sinkviz import long
from sinkviz.long import StoppedError, couple_long, foresee
from sinkviz.measure import Measure
from sinkviz.pipeline import couple, embed

SOURCE = (
    "The harbour wakes before the town does. Lamps are lit on the quay. The men who mend the nets sit down on upturned "
    "crates. A kettle is passed from hand to hand. Nobody says much."
)
TARGET = (
    "Long before sunrise the port is already at work. Lanterns burn along the wharf. The net menders, seated on old "
    "boxes, start without a word. They share a pot of tea."
)


def cloud(count: int, seed: int, dimension: int = 6) -> Measure:
    rng = np.random.default_rng(seed)
    weights = rng.uniform(0.2, 1.0, count)
    return Measure.from_points(rng.normal(size=(count, dimension)), weights=weights)


@pytest.mark.parametrize("epsilon", [2.0, 0.35, 0.1, 0.03])
def test_tiles_dense_and_the_library_agree(epsilon: float) -> None:
    x, y = cloud(70, 1), cloud(90, 2)
    right = couple(x, y, epsilon=epsilon)
    for memory in (1, 2**30):
        found = couple_long(x, y, epsilon=epsilon, memory=memory)
        assert found.tiled == (memory == 1)
        assert found.status == "converged"
        assert found.cost_scale == pytest.approx(right.cost_scale, rel=1e-6)
        assert found.epsilon == pytest.approx(right.epsilon, rel=1e-6)
        assert max(found.row_error, found.column_error) <= 3e-5
        assert found.transport_cost == pytest.approx(right.transport_cost, abs=2e-5)
        plan = np.exp((found.f[:, None] + found.g[None, :] - right.cost) / found.epsilon) * np.outer(
            x.weights, y.weights
        )
        assert np.abs(plan - right.plan).sum() < 3e-4
        assert np.abs(plan - right.plan).max() < 1e-5
        assert found.mutual_information == pytest.approx(right.mutual_information, abs=2e-3)
        assert found.g @ y.weights == pytest.approx(0.0, abs=1e-6)


@settings(max_examples=15, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(st.integers(1, 25), st.integers(1, 25), st.integers(0, 10**6), st.floats(0.05, 5.0), st.integers(1, 4000))
def test_marginals_hold_whatever_the_tiles(n: int, m: int, seed: int, epsilon: float, memory: int) -> None:
    x, y = cloud(n, seed), cloud(m, seed + 1)
    found = couple_long(x, y, epsilon=epsilon, memory=memory)
    assert found.status == "converged"
    plan = found.sentences().plan
    assert plan.sum() == pytest.approx(1.0, abs=1e-4)
    assert found.attention().plan.sum(1) == pytest.approx(x.coarsen("sentence").weights, abs=1e-6)


def test_sentences_are_block_sums_and_open_into_their_words() -> None:
    x, y = embed(SOURCE), embed(TARGET)
    for memory in (1, 2**30):
        found = couple_long(x, y, memory=memory)
        right, attention = couple(x, y), couple(x, y, mechanism="softmax")
        assert np.abs(found.sentences().plan - right.sentences().plan).max() < 1e-5
        assert np.abs(found.attention().plan - attention.sentences().plan).max() < 1e-5
        assert found.sentences().cost == pytest.approx(right.sentences().cost, abs=1e-6)
        assert found.received_distance == pytest.approx(attention.received_distance, abs=1e-5)
        assert found.attention_cost == pytest.approx(attention.transport_cost, abs=1e-5)
        words, word_attention = right.words(), attention.words()
        rows = words.source.group("sentence")[0]
        columns = words.target.group("sentence")[0]
        for i, j in ((0, 0), (2, 2), (4, 1)):
            plan, weaker = found.block(i, j)
            block = np.ix_(rows == i, columns == j)
            assert plan == pytest.approx(words.plan[block], abs=1e-5)
            assert weaker == pytest.approx(word_attention.plan[block], abs=1e-5)
            assert plan.sum() == pytest.approx(found.sentence_plan[i, j], abs=1e-5)
            given, attended = found.pair(i, j)
            assert given.plan == pytest.approx(plan / plan.sum())
            assert attended.plan == pytest.approx(weaker / weaker.sum())
            assert given.row_error < 1e-12
            assert given.source.labels == [
                label for label, of in zip(words.source.labels, rows, strict=True) if of == i
            ]
            assert found.block(i, j, "token")[0].sum() == pytest.approx(plan.sum(), abs=1e-12)


def test_words_without_weight_carry_nothing() -> None:
    weights = np.ones(12)
    weights[[0, 5]] = 0
    rng = np.random.default_rng(3)
    x = Measure.from_points(rng.normal(size=(12, 4)), weights=weights)
    y = Measure.from_points(rng.normal(size=(12, 4)), weights=weights)
    right = couple(x, y)
    for memory in (1, 2**30):
        found = couple_long(x, y, memory=memory)
        assert found.status == "converged"
        assert np.isfinite(found.g[weights > 0]).all()
        assert found.transport_cost == pytest.approx(right.transport_cost, abs=1e-5)


def test_a_constant_cost_is_independence() -> None:
    x = Measure.from_points(np.ones((5, 3)))
    found = couple_long(x, x, memory=1)
    assert found.converged
    assert found.cost_scale == 0.0
    assert found.mutual_information == pytest.approx(0.0, abs=1e-6)


def test_a_solve_that_runs_out_of_passes_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(long, "MOST_PASSES", 4)
    found = couple_long(cloud(60, 4), cloud(60, 5), epsilon=0.02, memory=1)
    assert found.status == "max_iterations"
    assert not found.converged
    assert found.column_error > 1e-5
    assert np.isfinite(found.sentence_plan).all()


def test_progress_rises_and_a_stop_is_heard() -> None:
    x, y = cloud(50, 6), cloud(50, 7)
    seen: list[tuple[float, str]] = []
    couple_long(x, y, epsilon=0.1, memory=1, progress=lambda share, line: seen.append((share, line)))
    shares = [share for share, _ in seen]
    assert len(seen) > 10
    assert all(0 <= share <= 1 for share in shares)
    assert shares[-1] >= 0.9
    assert any("marginals off by" in line for _, line in seen)
    with pytest.raises(StoppedError):
        couple_long(x, y, memory=1, cancelled=lambda: True)


@pytest.mark.parametrize(
    ("options", "what"),
    [({"epsilon": 0.0}, "epsilon"), ({"epsilon": float("nan")}, "epsilon"), ({"memory": 0}, "memory")],
)
def test_what_it_cannot_use(options: dict[str, Any], what: str) -> None:
    with pytest.raises(ValueError, match=what):
        couple_long(cloud(3, 0), cloud(3, 1), **options)
    with pytest.raises(ValueError, match="dimension"):
        couple_long(cloud(3, 0), cloud(3, 1, dimension=5))
    found = couple_long(cloud(3, 0), cloud(3, 1))
    with pytest.raises(ValueError, match="source_sentence"):
        found.block(1, 0)


def test_what_it_needs_is_said_before() -> None:
    x, y = cloud(100, 0), cloud(200, 1)
    dense, tiled = foresee(x, y), foresee(x, y, memory=1000)
    assert (dense.pairs, dense.tiled, dense.memory) == (20_000, False, 240_000)
    assert tiled.tiled
    assert tiled.memory <= 1000
    assert foresee(x, y, epsilon=0.05).seconds > dense.seconds
