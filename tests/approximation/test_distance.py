"""W1 on the product space: closed forms, laws, the bracket against the exact programme."""

from __future__ import annotations

import numpy as np
import ot
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sinkviz.approximation import coupling_distance, distance


def _plans(seed: int, n: int, m: int) -> tuple[np.ndarray, ...]:
    random = np.random.default_rng(seed)
    plans = random.gamma(0.5, size=(2, n, m)) + 1e-9
    return (*(plan / plan.sum() for plan in plans), random.normal(size=(n, 2)), random.normal(size=(m, 3)))


def _whole(plan: np.ndarray, other: np.ndarray, x: np.ndarray, y: np.ndarray) -> float:
    """W1 by the linear programme on all cells, nothing cancelled."""
    first = np.linalg.norm(x[:, None] - x[None], axis=-1)
    second = np.linalg.norm(y[:, None] - y[None], axis=-1)
    ground = (first[:, None, :, None] + second[None, :, None, :]).reshape(plan.size, plan.size)
    return float(ot.emd2(plan.ravel(), other.ravel(), ground))


@settings(max_examples=30, deadline=None)
@given(st.integers(0, 10_000), st.integers(1, 6), st.integers(1, 6))
def test_cancelling_common_mass_changes_nothing(seed: int, n: int, m: int) -> None:
    plan, other, x, y = _plans(seed, n, m)
    found = coupling_distance(plan, other, x, y)
    assert found.exact
    assert found.width == 0
    assert found.upper == pytest.approx(_whole(plan, other, x, y), abs=1e-9)
    assert found.moved == pytest.approx(0.5 * np.abs(plan - other).sum())


@settings(max_examples=15, deadline=None)
@given(st.integers(0, 10_000))
def test_it_is_a_metric(seed: int) -> None:
    plan, other, x, y = _plans(seed, 4, 5)
    third = _plans(seed + 1, 4, 5)[0]
    assert coupling_distance(plan, plan, x, y).upper == pytest.approx(0, abs=1e-12)
    forth = coupling_distance(plan, other, x, y).upper
    assert forth == pytest.approx(coupling_distance(other, plan, x, y).upper, rel=1e-9)
    detour = coupling_distance(plan, third, x, y).upper + coupling_distance(third, other, x, y).upper
    assert forth <= detour + 1e-9


@settings(max_examples=25, deadline=None)
@given(st.integers(0, 10_000), st.integers(2, 14), st.integers(2, 14), st.floats(1e-4, 1))
def test_the_bracket_holds_the_exact_value_and_is_narrow(seed: int, n: int, m: int, share: float) -> None:
    plan, other, x, y = _plans(seed, n, m)
    other = (1 - share) * plan + share * other
    exact = coupling_distance(plan, other, x, y).upper
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(distance, "EXACT_CELLS", 0)
        bracket = coupling_distance(plan, other, x, y)
    assert not bracket.exact
    assert bracket.lower <= exact * (1 + 1e-9) + 1e-12
    assert bracket.upper >= exact * (1 - 1e-9) - 1e-12
    assert bracket.width <= 0.05 * exact + 1e-9


def test_large_plans_of_known_distance() -> None:
    # Every point of the second cloud is moved by one step along a line: W1 is the step.
    count, step = 60, 0.25
    x, y = np.random.default_rng(0).normal(size=(count, 2)) * 3, np.zeros((count, 1))
    y[:, 0] = np.arange(count) * step
    plan = np.zeros((count, count))
    plan[:, 10] = 1 / count
    other = np.roll(plan, 1, axis=1)
    found = coupling_distance(plan, other, x, y)
    assert not found.exact
    assert found.lower <= step <= found.upper
    assert found.width < 0.03 * step


def test_extreme_scales() -> None:
    plan, other, x, y = _plans(0, 40, 40)
    one = coupling_distance(plan, other, x, y)
    for scale in (1e-6, 1e6):
        scaled = coupling_distance(plan, other, x * scale, y * scale)
        assert scaled.upper == pytest.approx(one.upper * scale, rel=0.02)
        assert scaled.lower == pytest.approx(one.lower * scale, rel=0.02)
    assert coupling_distance(plan, other, x * 0, y * 0).upper == 0
    far = x.copy()
    far[0] += 1e4
    wide = coupling_distance(plan, other, far, y)
    assert 0 < wide.lower <= wide.upper < np.inf


@pytest.mark.parametrize(
    ("change", "word"),
    [
        (lambda p, o, x, y: (p[:2], o, x, y), "shape"),
        (lambda p, o, x, y: (p, o.T, x, y), "one shape"),
        (lambda p, o, x, y: (p, 1.01 * o, x, y), "equal positive sums"),
        (lambda p, o, x, y: (-p, o, x, y), "finite"),
        (lambda p, o, x, y: (p, o * np.nan, x, y), "finite"),
        (lambda p, o, x, y: (p, o, x * np.inf, y), "finite"),
        (lambda p, o, x, y: (p * 0, o * 0, x, y), "positive"),
    ],
)
def test_wrong_input_is_refused(change, word) -> None:  # type: ignore[no-untyped-def]
    with pytest.raises(ValueError, match=word):
        coupling_distance(*change(*_plans(0, 3, 4)))
