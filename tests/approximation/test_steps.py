"""The four steps of the proof: what each says is what is measured."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.optimize import linprog

from sinkviz.approximation import (
    SYSTEMS,
    additive_distance,
    factor_cost,
    learn_factors,
    perturb_cost,
    random_changes,
    recover_plan,
)


def _clouds(seed: int, n: int = 6, m: int = 5) -> tuple[np.ndarray, ...]:
    random = np.random.default_rng(seed)
    a, b = random.uniform(0.3, 1, n), random.uniform(0.3, 1, m)
    return random.normal(size=(n, 2)), a / a.sum(), random.normal(size=(m, 2)), b / b.sum()


@settings(max_examples=30, deadline=None)
@given(st.integers(0, 10_000), st.integers(1, 6), st.integers(1, 6))
def test_additive_distance_is_the_linear_programme(seed: int, n: int, m: int) -> None:
    matrix = np.random.default_rng(seed).normal(size=(n, m))
    rows = np.zeros((2 * n * m, n + m + 1))
    sides = np.zeros(2 * n * m)
    for k, (i, j) in enumerate(np.ndindex(n, m)):
        for half, sign in enumerate((1, -1)):
            rows[2 * k + half, [i, n + j]] = -sign
            rows[2 * k + half, -1] = -1
            sides[2 * k + half] = -sign * matrix[i, j]
    best = linprog([0] * (n + m) + [1], rows, sides, bounds=[(None, None)] * (n + m) + [(0, None)]).fun
    found = additive_distance(matrix)
    assert found >= best - 1e-9
    assert found == pytest.approx(best, abs=2e-3)


def test_additive_distance_of_a_sum_is_zero() -> None:
    assert additive_distance(np.arange(4.0)[:, None] + np.arange(3.0) ** 2) == pytest.approx(0, abs=1e-9)
    assert additive_distance(np.zeros((0, 3))) == 0


@settings(max_examples=20, deadline=None)
@given(st.integers(0, 1000), st.floats(0.01, 1), st.floats(0.05, 2))
def test_any_plan_is_recovered(seed: int, smoothing: float, epsilon: float) -> None:
    x, _, y, _ = _clouds(seed)
    plan = np.random.default_rng(seed).gamma(0.3, size=(6, 5))
    step = recover_plan(plan, x, y, epsilon=epsilon, smoothing=smoothing)
    assert step.status == "converged"
    assert step.recovery_error < 1e-6
    np.testing.assert_allclose(step.smoothed.sum(1), step.a)
    np.testing.assert_allclose(step.smoothed.sum(0), step.b)
    assert step.smoothing_distance.upper == pytest.approx(step.predicted_distance, abs=1e-9)
    assert step.recovered_distance.upper == pytest.approx(step.predicted_distance, abs=1e-5)


def test_sparse_plans_and_empty_rows_are_recovered() -> None:
    x, _, y, _ = _clouds(0, 4, 4)
    plan = np.diag([0.5, 0.3, 0.2, 0.0])
    distances = []
    for smoothing in (0.5, 0.1, 0.01):
        step = recover_plan(plan, x, y, epsilon=0.1, smoothing=smoothing)
        assert step.recovery_error < 1e-6
        assert np.isfinite(step.cost).all()
        distances.append(step.recovered_distance.upper)
    assert distances[0] > 4.9 * distances[1] > 4.9 * 9.9 * distances[2] > 0


def test_factors_of_the_right_rank_give_the_plan() -> None:
    x, a, y, b = _clouds(1, 8, 7)
    random = np.random.default_rng(1)
    cost = random.normal(size=(8, 3)) @ random.normal(size=(3, 7)) + random.normal(size=(8, 1)) * 5
    step = factor_cost(cost, a, b, x, y, epsilon=0.5)
    errors = [rank.sup_error for rank in step.steps]
    assert errors[3] < 1e-9 < errors[2]
    assert errors[0] == pytest.approx(additive_distance(cost))
    assert step.steps[3].distance.upper < 1e-6
    np.testing.assert_allclose(step.steps[0].plan, np.outer(a, b), atol=1e-9)
    assert step.explained[2] == pytest.approx(1)
    assert (np.diff(step.singular_values) <= 0).all()
    for rank in step.steps:
        assert rank.plan_change <= rank.sup_error / 0.5 + 1e-6  # step 4 bounds step 2


@settings(max_examples=25, deadline=None)
@given(st.integers(0, 10_000), st.floats(0.05, 2), st.floats(0.001, 3))
def test_stability_is_within_its_bound(seed: int, epsilon: float, size: float) -> None:
    x, a, y, b = _clouds(seed)
    random = np.random.default_rng(seed)
    cost, change = random.normal(size=(6, 5)), size * random.normal(size=(6, 5))
    step = perturb_cost(cost, change, a, b, x, y, epsilon=epsilon)
    assert step.plan_change <= step.bound + 1e-6
    assert 0 <= step.ratio <= 1 + 1e-4
    assert step.distance.upper <= step.distance_bound + 1e-6


def test_an_additive_change_changes_nothing() -> None:
    x, a, y, b = _clouds(2)
    change = np.arange(6.0)[:, None] - np.arange(5.0)
    step = perturb_cost(np.zeros((6, 5)), change, a, b, x, y, epsilon=0.3)
    assert step.cost_change < 1e-9
    assert step.plan_change < 1e-6
    assert step.ratio >= 0


def test_the_bound_is_nearly_reached_somewhere() -> None:
    # Two by two, uniform, small change [[t, −t], [−t, t]]: ‖P − P'‖₁ → t/ε, the bound itself.
    x = y = np.eye(2)
    half = np.array([0.5, 0.5])
    step = perturb_cost(np.zeros((2, 2)), [[0.01, -0.01], [-0.01, 0.01]], half, half, x, y, epsilon=1.0)
    assert step.ratio == pytest.approx(1, abs=1e-3)


def test_random_changes_have_the_size_asked_for() -> None:
    x, a, y, b = _clouds(3)
    steps = random_changes(np.zeros((6, 5)), a, b, x, y, epsilon=0.5, sizes=[0.01, 0.1], repeats=3)
    assert [round(step.cost_change, 4) for step in steps] == [0.01] * 3 + [0.1] * 3
    assert all(step.plan_change <= step.bound + 1e-6 for step in steps)


def test_encoders_learn_a_factor_better_with_size() -> None:
    fits = list(
        learn_factors(SYSTEMS["moment-rotation"], sizes=[(4, 0), (16, 2)], steps=120, held_out=60, report_every=40)
    )
    assert [fit.step for fit in fits] == [40, 80, 120, 40, 80, 120]
    small, large = (fit for fit in fits if fit.finished)
    assert small.mean_error is not None
    assert large.mean_error is not None
    assert large.largest_error is not None
    assert large.scale is not None
    assert large.mean_error < 0.6 * small.mean_error
    assert large.mean_error < large.largest_error
    assert 0.5 < large.scale < 2
    assert small.parameters < large.parameters


def test_learning_can_be_cancelled_and_needs_factors() -> None:
    fits = learn_factors(SYSTEMS["rotation"], sizes=[(4, 0)], steps=50, report_every=5, cancelled=lambda: True)
    assert len(list(fits)) == 1
    with pytest.raises(ValueError, match="factors are not known"):
        next(learn_factors(SYSTEMS["mixture"]))


@pytest.mark.parametrize(
    "call",
    [
        lambda x, a, y, b: recover_plan(np.ones((2, 2)), x, y, epsilon=0.1, smoothing=0.1),
        lambda x, a, y, b: recover_plan(-np.ones((6, 5)), x, y, epsilon=0.1, smoothing=0.1),
        lambda x, a, y, b: recover_plan(np.ones((6, 5)), x, y, epsilon=0.1, smoothing=0),
        lambda x, a, y, b: recover_plan(np.ones((6, 5)), x, y, epsilon=0, smoothing=0.1),
        lambda x, a, y, b: factor_cost(np.ones((6, 5)) * np.nan, a, b, x, y, epsilon=1),
        lambda x, a, y, b: factor_cost(np.ones((6, 5)), b, a, x, y, epsilon=1),
        lambda x, a, y, b: factor_cost(np.ones((6, 5)), a, b, x, y, epsilon=1, ranks=[-1]),
        lambda x, a, y, b: random_changes(np.ones((6, 5)), a, b, x, y, epsilon=1, sizes=[0]),
    ],
)
def test_wrong_input_is_refused(call) -> None:  # type: ignore[no-untyped-def]
    with pytest.raises(ValueError, match="expected"):
        call(*_clouds(4))
