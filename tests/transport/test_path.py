"""The path over ε, the half-steps, the scale of ε, and the null partner."""

from __future__ import annotations

import math

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from transport_problems import KINDS, random_cost, random_weights

from sinkviz.transport import (
    cost_scale,
    half_steps,
    sinkhorn,
    sinkhorn_path,
    softmax_attention,
    with_null_partner,
)

SETTINGS = settings(max_examples=25, deadline=None, derandomize=True)
GRID = np.geomspace(10, 1e-3, 41)


def errors(path: object, k: int) -> float:
    plan = path.plan(k)  # type: ignore[attr-defined]
    a, b = path.a, path.b  # type: ignore[attr-defined]
    return max(float((plan.sum(1) - a).abs().sum()), float((plan.sum(0) - b).abs().sum()))


@SETTINGS
@given(st.integers(0, 2**31), st.integers(1, 30), st.integers(1, 30), st.sampled_from(KINDS), st.booleans())
def test_every_epsilon_is_at_tolerance(seed: int, rows: int, columns: int, kind: str, uniform: bool) -> None:
    generator = torch.Generator().manual_seed(seed)
    cost = random_cost(kind, rows, columns, generator)
    a = random_weights(rows, generator, None if uniform else 0.3)
    b = random_weights(columns, generator, None if uniform else 0.3)
    scale = float(cost_scale(cost, a, b)) or 1.0
    path = sinkhorn_path(cost, a, b, epsilons=GRID * scale)
    assert path.status.tolist() == ["converged"] * 41
    # With offsets of 1e6 the cost itself is rounded to 1e-10: so much of an ε is lost when the plan is formed again.
    slack = 4e-16 * float(cost.abs().max()) * 10 / (GRID[-1] * scale)
    assert max(errors(path, k) for k in range(41)) <= 1e-6 + slack
    assert float((path.g @ b).abs().max()) <= 1e-9 * (1 + float(cost.abs().max()))


def test_path_equals_single_solves_in_the_order_given() -> None:
    generator = torch.Generator().manual_seed(0)
    cost = random_cost("plain", 20, 30, generator)
    grid = [0.01, 1.0, 0.1, 0.1]
    path = sinkhorn_path(cost, epsilons=grid, tolerance=1e-10)
    assert path.epsilons.tolist() == grid
    for k, epsilon in enumerate(grid):
        alone = sinkhorn(cost, epsilon=epsilon, tolerance=1e-10)
        assert torch.allclose(path.plan(k), alone.plan, atol=1e-9)
        assert torch.allclose(path.f[k], alone.f, atol=1e-6)


def test_a_grid_with_great_leaps() -> None:
    cost = random_cost("plain", 30, 30, torch.Generator().manual_seed(0))
    path = sinkhorn_path(cost, epsilons=[10.0, 1e-3, 1e-6])
    assert path.status.tolist() == ["converged"] * 3
    assert max(errors(path, k) for k in range(3)) <= 1e-6


def test_between_grid_points_few_newton_steps_do() -> None:
    cost = random_cost("plain", 40, 40, torch.Generator().manual_seed(0))
    path = sinkhorn_path(cost, epsilons=np.geomspace(1.0, 1e-3, 41))
    for epsilon in (0.9, 0.0333, 0.0012, 1.5, 0.0009):
        between = path.at(epsilon)
        cold = sinkhorn(cost, epsilon=epsilon)
        assert between.status == "converged"
        assert float((between.plan - cold.plan).abs().sum()) <= 3e-6
        assert between.iterations <= max(4, cold.iterations)
    with pytest.raises(ValueError, match="epsilon"):
        path.at(0.0)


def test_progress_and_cancellation() -> None:
    cost = random_cost("plain", 10, 10, torch.Generator().manual_seed(0))
    seen: list[tuple[int, int]] = []
    sinkhorn_path(cost, epsilons=[1.0, 0.5, 0.1], progress=lambda done, total: seen.append((done, total)))
    assert seen == [(1, 3), (2, 3), (3, 3)]
    answers = iter([False, False, True])
    path = sinkhorn_path(cost, epsilons=[0.1, 1.0, 0.5], cancelled=lambda: next(answers))
    assert len(path) == 2
    assert path.epsilons.tolist() == [1.0, 0.5]
    empty = sinkhorn_path(cost, epsilons=[1.0], cancelled=lambda: True)
    assert len(empty) == 0
    with pytest.raises(ValueError, match="at least one"):
        empty.at(1.0)


def test_a_path_with_dead_atoms_and_forbidden_pairs() -> None:
    cost = random_cost("plain", 6, 5, torch.Generator().manual_seed(0))
    cost[0, 1] = math.inf
    path = sinkhorn_path(cost, [0.3, 0.2, 0.0, 0.1, 0.2, 0.2], [0.25, 0.25, 0.0, 0.25, 0.25], epsilons=GRID)
    assert path.status.tolist() == ["converged"] * 41
    for k in range(41):
        plan = path.plan(k)
        assert not bool(plan.isnan().any())
        assert float(plan[0, 1] + plan[2].sum() + plan[:, 2].sum()) == 0
        assert errors(path, k) <= 1e-6


@pytest.mark.parametrize(
    ("grid", "message"), [([], "at least one"), ([1.0, 0.0], "exact_plan"), (3.0, "list"), ([math.nan], "nan")]
)
def test_bad_grids(grid: object, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        sinkhorn_path([[0.0, 1.0]], epsilons=grid)  # type: ignore[arg-type]


def test_a_path_is_for_one_problem() -> None:
    with pytest.raises(ValueError, match="one problem"):
        sinkhorn_path(torch.zeros(2, 3, 3), epsilons=[1.0])


@SETTINGS
@given(st.integers(0, 2**31), st.integers(1, 12), st.integers(1, 12), st.floats(-3, 1))
def test_half_steps_against_the_plain_iteration(seed: int, rows: int, columns: int, power: float) -> None:
    generator = torch.Generator().manual_seed(seed)
    cost = random_cost("plain", rows, columns, generator)
    a, b = random_weights(rows, generator, 0.5), random_weights(columns, generator, 0.5)
    epsilon = 10**power
    steps = [0.5, 1, 1.5, 2, 7.5, 40]
    run = half_steps(cost, a, b, epsilon=epsilon, steps=steps)
    log_a, log_b = a.log(), b.log()
    f, g = torch.zeros_like(a), torch.zeros_like(b)
    for k in range(1, 81):
        if k % 2:
            f = -epsilon * torch.logsumexp((g - cost) / epsilon + log_b, 1)
        else:
            g = -epsilon * torch.logsumexp((f[:, None] - cost) / epsilon + log_a[:, None], 0)
        if k / 2 in steps:
            plan = ((f[:, None] + g - cost) / epsilon + log_a[:, None] + log_b).exp()
            assert torch.allclose(run.plan(steps.index(k / 2)), plan, rtol=1e-6, atol=1e-9)
    whole = torch.tensor([step == round(step) for step in steps])
    assert float(run.column_error[whole].max()) <= 1e-9
    assert float(run.row_error[~whole].max()) <= 1e-9


def test_half_steps_go_from_attention_to_the_coupling() -> None:
    generator = torch.Generator().manual_seed(0)
    cost = random_cost("plain", 8, 9, generator)
    run = half_steps(cost, epsilon=0.1, steps=[0.5, 1000])
    assert torch.allclose(run.plan(0), softmax_attention(cost, epsilon=0.1).plan, atol=1e-13)
    assert torch.allclose(run.plan(1), sinkhorn(cost, epsilon=0.1, tolerance=1e-12).plan, atol=1e-9)


@pytest.mark.parametrize("steps", [[], [0.0], [0.7], [-1], [2e6]])
def test_bad_half_steps(steps: list[float]) -> None:
    with pytest.raises(ValueError, match="steps"):
        half_steps([[0.0, 1.0]], epsilon=1.0, steps=steps)


@SETTINGS
@given(st.integers(0, 2**31), st.integers(2, 12), st.integers(2, 12))
def test_scale_is_what_no_offset_can_explain(seed: int, rows: int, columns: int) -> None:
    generator = torch.Generator().manual_seed(seed)
    cost = random_cost("plain", rows, columns, generator)
    a, b = random_weights(rows, generator, 1.0), random_weights(columns, generator, 1.0)
    offsets = torch.randn(rows, 1, generator=generator).double() + torch.randn(1, columns, generator=generator)
    scale = float(cost_scale(cost, a, b))
    assert scale == pytest.approx(float(cost_scale(cost + offsets, a, b)), rel=1e-9, abs=1e-12)
    assert scale * 3 == pytest.approx(float(cost_scale(3 * cost, a, b)), rel=1e-12)
    centred = cost - (cost @ b)[:, None]
    centred = centred - a @ centred
    assert scale == pytest.approx(float((a @ centred.square() @ b).sqrt()), rel=1e-9)
    forbidden = cost.clone()
    forbidden[0, 0] = math.inf
    assert math.isfinite(float(cost_scale(forbidden, a, b)))


def test_scale_with_forbidden_pairs_is_the_best_fit() -> None:
    rows, columns = torch.tensor([[1.0], [5.0], [2.0]]), torch.tensor([[3.0, 0.0, 7.0]])
    cost = (rows + columns).double()
    cost[0, 0] = math.inf
    assert float(cost_scale(cost)) <= 1e-12


@pytest.mark.parametrize("shape", [(1, 5), (5, 1), (1, 1)])
def test_scale_of_one_row_or_column_is_0(shape: tuple[int, int]) -> None:
    assert float(cost_scale(torch.rand(shape))) == 0


def test_scale_of_a_batch() -> None:
    cost = torch.rand(3, 4, 5, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
    assert cost_scale(cost).tolist() == pytest.approx([float(cost_scale(x)) for x in cost])


def test_the_null_partner() -> None:
    generator = torch.Generator().manual_seed(0)
    cost = random_cost("plain", 5, 6, generator)
    a, b = random_weights(5, generator, 1.0), random_weights(6, generator, 1.0)
    real = []
    for price in (-3.0, 0.2, 3.0):
        wide = with_null_partner(cost, a, b, null_cost=price)
        plan = 2 * sinkhorn(*wide, epsilon=0.05, tolerance=1e-10).plan
        sent = plan[:5, 6]
        assert bool((sent >= 0).all())
        assert bool((sent <= a + 1e-9).all())
        assert torch.allclose(plan[:5].sum(1), a, atol=1e-9)
        real.append(float(plan[:5, :6].sum()))
    assert real[0] < 0.01
    assert real[0] < real[1] < real[2]
    assert real[2] == pytest.approx(1.0, abs=1e-6)
    with pytest.raises(ValueError, match="null_cost"):
        with_null_partner(cost, null_cost=math.inf)
