"""Laws that every solution obeys, whatever the problem."""

from __future__ import annotations

import math

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor
from transport_problems import KINDS, random_cost, random_weights

from sinkviz.transport import exact_plan, sinkhorn, softmax_attention

SETTINGS = settings(max_examples=40, deadline=None, derandomize=True)


@st.composite
def problems(draw: st.DrawFn, smallest: float = -3.0) -> tuple[Tensor, Tensor, Tensor, float]:
    """(C, a, b, ε): any kind, sizes 1 to 24, ε from 10 to 10^smallest of the cost's range."""
    generator = torch.Generator().manual_seed(draw(st.integers(0, 2**31)))
    rows, columns = draw(st.integers(1, 24)), draw(st.integers(1, 24))
    kinds = [kind for kind in KINDS if kind != "offsets"]
    cost = random_cost(draw(st.sampled_from(kinds)), rows, columns, generator)
    concentration = draw(st.sampled_from([None, 1.0, 0.2]))
    a = random_weights(rows, generator, concentration)
    b = random_weights(columns, generator, concentration)
    span = float(cost.max() - cost.min()) or 1.0
    return cost, a, b, span * 10 ** draw(st.floats(smallest, 1.0))


def distance(one: Tensor, other: Tensor) -> float:
    return float((one - other).abs().sum())


@SETTINGS
@given(problems())
def test_marginals(problem: tuple[Tensor, Tensor, Tensor, float]) -> None:
    cost, a, b, epsilon = problem
    result = sinkhorn(cost, a, b, epsilon=epsilon)
    assert result.status == "converged"
    assert float(result.plan.min()) >= 0
    assert distance(result.plan.sum(1), a) <= 1e-6
    assert distance(result.plan.sum(0), b) <= 1e-6
    assert abs(float(torch.dot(b, result.g))) <= 1e-9 * (1 + float(cost.abs().max()))


@SETTINGS
@given(problems(-2.0))
def test_transposition(problem: tuple[Tensor, Tensor, Tensor, float]) -> None:
    cost, a, b, epsilon = problem
    plan = sinkhorn(cost, a, b, epsilon=epsilon, tolerance=1e-11).plan
    other = sinkhorn(cost.T, b, a, epsilon=epsilon, tolerance=1e-11).plan
    assert distance(plan, other.T) <= 1e-8


@SETTINGS
@given(problems(-2.0), st.integers(0, 2**31))
def test_row_and_column_offsets_change_no_balanced_plan(
    problem: tuple[Tensor, Tensor, Tensor, float], seed: int
) -> None:
    cost, a, b, epsilon = problem
    generator = torch.Generator().manual_seed(seed)
    span = float(cost.max() - cost.min()) or 1.0
    rows = span * torch.randn(len(a), 1, generator=generator, dtype=torch.float64)
    columns = span * torch.randn(1, len(b), generator=generator, dtype=torch.float64)
    plan = sinkhorn(cost, a, b, epsilon=epsilon, tolerance=1e-11).plan
    moved = sinkhorn(cost + rows + columns, a, b, epsilon=epsilon, tolerance=1e-11).plan
    assert distance(plan, moved) <= 1e-8


@SETTINGS
@given(problems(-2.0), st.integers(0, 2**31), st.sampled_from([0.0, 0.1, 1.0]))
def test_row_offsets_change_no_plan_with_exact_rows(
    problem: tuple[Tensor, Tensor, Tensor, float], seed: int, relaxation: float
) -> None:
    cost, a, b, epsilon = problem
    span = float(cost.max() - cost.min()) or 1.0
    rows = span * torch.randn(len(a), 1, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)
    options = {"epsilon": epsilon, "column_relaxation": relaxation * span, "tolerance": 1e-11}
    plan = sinkhorn(cost, a, b, **options)
    moved = sinkhorn(cost + rows, a, b, **options)
    assert distance(plan.plan.sum(1), a) <= 1e-12
    assert distance(plan.plan, moved.plan) <= 1e-8
    assert distance(plan.g, moved.g) <= 1e-6 * span * len(b)


@SETTINGS
@given(problems(-3.0), st.floats(-6, 6))
def test_cost_and_epsilon_scale_together(problem: tuple[Tensor, Tensor, Tensor, float], power: float) -> None:
    cost, a, b, epsilon = problem
    factor = 10.0**power
    plan = sinkhorn(cost, a, b, epsilon=epsilon).plan
    scaled = sinkhorn(cost * factor, a, b, epsilon=epsilon * factor).plan
    assert distance(plan, scaled) <= 3e-6


@SETTINGS
@given(problems(), st.integers(0, 2**31))
def test_block_sums_are_a_coupling_of_the_summed_weights(
    problem: tuple[Tensor, Tensor, Tensor, float], seed: int
) -> None:
    cost, a, b, epsilon = problem
    generator = torch.Generator().manual_seed(seed)
    row_of = torch.randint(0, 3, (len(a),), generator=generator)
    column_of = torch.randint(0, 3, (len(b),), generator=generator)
    plan = sinkhorn(cost, a, b, epsilon=epsilon).plan
    rows = torch.zeros(3, len(b), dtype=torch.float64).index_add(0, row_of, plan)
    blocks = torch.zeros(3, 3, dtype=torch.float64).index_add(1, column_of, rows)
    summed_a = torch.zeros(3, dtype=torch.float64).index_add(0, row_of, a)
    summed_b = torch.zeros(3, dtype=torch.float64).index_add(0, column_of, b)
    assert distance(blocks.sum(1), summed_a) <= 1e-6
    assert distance(blocks.sum(0), summed_b) <= 1e-6


@SETTINGS
@given(problems())
def test_cost_lies_between_the_optimum_and_the_entropy_bound(
    problem: tuple[Tensor, Tensor, Tensor, float],
) -> None:
    cost, a, b, epsilon = problem
    plan = sinkhorn(cost, a, b, epsilon=epsilon, tolerance=1e-10).plan
    optimum = float((exact_plan(cost, a, b) * cost).sum())
    value = float((plan * cost).sum())
    entropy = min(float(-torch.special.xlogy(w, w).sum()) for w in (a, b))
    slack = 1e-8 * (1 + float(cost.abs().max()))
    assert optimum - slack <= value <= optimum + epsilon * entropy + slack


@SETTINGS
@given(problems(-2.0))
def test_one_sided_ends_of_the_relaxation(problem: tuple[Tensor, Tensor, Tensor, float]) -> None:
    cost, a, b, epsilon = problem
    scores = torch.where(b > 0, b, 0.0).log() - cost / epsilon
    attention = a[:, None] * torch.softmax(scores, 1)
    free = sinkhorn(cost, a, b, epsilon=epsilon, column_relaxation=0.0)
    assert free.status == "converged"
    assert distance(free.plan, attention) <= 1e-13
    assert distance(softmax_attention(cost, a, b, epsilon=epsilon).plan, attention) <= 1e-13
    balanced = sinkhorn(cost, a, b, epsilon=epsilon)
    infinite = sinkhorn(cost, a, b, epsilon=epsilon, column_relaxation=math.inf, row_relaxation=math.inf)
    assert torch.equal(balanced.plan, infinite.plan)


@SETTINGS
@given(problems(-2.0), st.floats(-2, 2), st.sampled_from(["rows", "columns", "both"]))
def test_relaxed_optimality(problem: tuple[Tensor, Tensor, Tensor, float], power: float, side: str) -> None:
    cost, a, b, epsilon = problem
    # Non-negative, so that a problem relaxed on both sides creates no astronomic mass.
    cost = cost - cost.min()
    span = float(cost.max()) or 1.0
    rho = span * 10**power
    rho_a = rho if side != "columns" else None
    rho_b = rho if side != "rows" else None
    result = sinkhorn(cost, a, b, epsilon=epsilon, row_relaxation=rho_a, column_relaxation=rho_b)
    assert result.status == "converged"
    target_a = a if rho_a is None else a * (-result.f / rho).exp()
    target_b = b if rho_b is None else b * (-result.g / rho).exp()
    mass = max(1.0, float(result.plan.sum()))
    assert distance(result.plan.sum(1), target_a) <= 1e-6 * mass
    assert distance(result.plan.sum(0), target_b) <= 1e-6 * mass
    density = ((result.f[:, None] + result.g - cost) / epsilon).exp() * a[:, None] * b
    assert distance(result.plan, density) <= 1e-6 * mass
    if side == "both":
        assert result.duality_gap >= -1e-12 * mass


def objective(plan: Tensor, cost: Tensor, a: Tensor, b: Tensor, epsilon: float, rho: float) -> float:
    def divergence(one: Tensor, other: Tensor) -> float:
        return float((torch.special.xlogy(one, one / other) - one + other).sum())

    entropy = divergence(plan, a[:, None] * b)
    return float((cost * plan).sum()) + epsilon * entropy + rho * divergence(plan.sum(0), b)


@pytest.mark.parametrize("rho", [0.02, 0.3, 5.0])
def test_no_plan_nearby_is_better_than_the_relaxed_one(rho: float) -> None:
    generator = torch.Generator().manual_seed(3)
    cost = random_cost("plain", 5, 6, generator)
    a, b = random_weights(5, generator, 1.0), random_weights(6, generator, 1.0)
    plan = sinkhorn(cost, a, b, epsilon=0.1, column_relaxation=rho, tolerance=1e-12).plan
    best = objective(plan, cost, a, b, 0.1, rho)
    for _ in range(50):
        factor = (0.1 * torch.randn(5, 6, generator=generator, dtype=torch.float64)).exp()
        other = plan * factor
        other = other * (a / other.sum(1))[:, None]
        assert objective(other, cost, a, b, 0.1, rho) >= best - 1e-12


def test_epsilon_to_infinity_gives_independence_and_to_zero_an_optimal_plan() -> None:
    generator = torch.Generator().manual_seed(1)
    cost = random_cost("plain", 7, 9, generator)
    a, b = random_weights(7, generator, 1.0), random_weights(9, generator, 1.0)
    assert distance(sinkhorn(cost, a, b, epsilon=1e7).plan, a[:, None] * b) <= 1e-6
    assert distance(sinkhorn(cost, a, b, epsilon=1e-5).plan, exact_plan(cost, a, b)) <= 1e-5


def test_splitting_an_atom_changes_nothing_for_the_others() -> None:
    generator = torch.Generator().manual_seed(2)
    cost = random_cost("plain", 6, 8, generator)
    a, b = random_weights(6, generator, 1.0), random_weights(8, generator, 1.0)
    whole = sinkhorn(cost, a, b, epsilon=0.05, tolerance=1e-12).plan
    split_cost = torch.cat([cost, cost[:, -1:]], 1)
    split_b = torch.cat([b[:-1], b[-1:] / 2, b[-1:] / 2])
    split = sinkhorn(split_cost, a, split_b, epsilon=0.05, tolerance=1e-12).plan
    assert distance(split[:, :-2], whole[:, :-1]) <= 1e-10
    assert distance(split[:, -2], split[:, -1]) <= 1e-10
    assert distance(split[:, -2] + split[:, -1], whole[:, -1]) <= 1e-10
