"""Inputs on which solvers are known to fail; each row stands for a kind, and the kind is tested."""

from __future__ import annotations

import math
import time
from typing import Any

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor
from transport_problems import random_cost, random_weights

from sinkviz import transport
from sinkviz.transport import sinkhorn

INF = math.inf
SETTINGS = settings(max_examples=40, deadline=None, derandomize=True)


def two_by_two(cost: Tensor, epsilon: float) -> float:
    """P00 for uniform weights: .5/(1 + exp(D/2ε)), D = c00 + c11 − c01 − c10."""
    d = float(cost[0, 0] + cost[1, 1] - cost[0, 1] - cost[1, 0])
    return 0.5 / (1 + math.exp(min(700.0, d / (2 * epsilon))))


@pytest.mark.parametrize("epsilon", [1e-3, 0.05, 0.5])
def test_two_by_two_known_values(epsilon: float) -> None:
    cost = torch.tensor([[1.0, 2.0], [3.0, 5.0]], dtype=torch.float64)
    result = sinkhorn(cost, epsilon=epsilon, tolerance=1e-12)
    p = two_by_two(cost, epsilon)
    assert torch.allclose(result.plan, torch.tensor([[p, 0.5 - p], [0.5 - p, p]], dtype=torch.float64), atol=1e-12)


def test_the_value_that_peers_miss_by_an_order_of_magnitude() -> None:
    assert f"{float(sinkhorn([[1.0, 2.0], [3.0, 5.0]], epsilon=0.05).plan[0, 0]):.4e}" == "2.2699e-05"


@SETTINGS
@given(st.lists(st.floats(-5, 5), min_size=4, max_size=4), st.floats(-4, 2), st.sampled_from([0.0, 1e3, -1e6, 1e9]))
def test_two_by_two_closed_form(entries: list[float], power: float, offset: float) -> None:
    cost = torch.tensor(entries, dtype=torch.float64).reshape(2, 2) + offset
    result = sinkhorn(cost, epsilon=10**power)
    assert result.status == "converged"
    # The offset has rounded the cost itself: the closed form takes the same numbers.
    assert abs(float(result.plan[0, 0]) - two_by_two(cost, 10**power)) <= 1e-6


def test_huge_offset_to_known_digits() -> None:
    cost = torch.tensor([[0.0, 1.0], [1.0, 0.0]], dtype=torch.float64) + 1e6
    assert f"{float(sinkhorn(cost, epsilon=0.5, tolerance=1e-10).plan[0, 0]):.6f}" == "0.440399"


def test_dead_row() -> None:
    cost = torch.tensor([[0.0, 1.0], [1.0, 0.0]], dtype=torch.float64, requires_grad=True)
    result = sinkhorn(cost, [1.0, 0.0], [0.5, 0.5], epsilon=0.1)
    assert torch.allclose(result.plan, torch.tensor([[0.5, 0.5], [0.0, 0.0]], dtype=torch.float64))
    result.plan.square().sum().backward()
    assert cost.grad is not None
    assert bool(cost.grad.isfinite().all())
    assert cost.grad[1].tolist() == [0.0, 0.0]


@SETTINGS
@given(st.integers(0, 2**31), st.integers(1, 9), st.integers(1, 9), st.floats(-3, 1))
def test_dead_atoms_leave_the_others_alone(seed: int, rows: int, columns: int, power: float) -> None:
    generator = torch.Generator().manual_seed(seed)
    cost = random_cost("plain", rows, columns, generator)
    a, b = random_weights(rows, generator, 1.0), random_weights(columns, generator, 1.0)
    padded = torch.full((rows + 2, columns + 3), 7.0, dtype=torch.float64)
    padded[:rows, :columns] = cost
    wide_a = torch.cat([a, torch.zeros(2, dtype=torch.float64)])
    wide_b = torch.cat([b, torch.zeros(3, dtype=torch.float64)])
    padded.requires_grad_()
    wide = sinkhorn(padded, wide_a, wide_b, epsilon=10**power)
    plan = wide.plan.detach()
    assert torch.allclose(plan[:rows, :columns], sinkhorn(cost, a, b, epsilon=10**power).plan, atol=2e-6)
    assert float(plan[rows:].abs().sum() + plan[:, columns:].abs().sum()) == 0
    assert bool(wide.f.isfinite().all())
    assert bool(wide.g.isfinite().all())
    (gradient,) = torch.autograd.grad(wide.plan.square().sum(), padded)
    assert float(gradient[rows:].abs().sum() + gradient[:, columns:].abs().sum()) == 0


@SETTINGS
@given(st.integers(0, 2**31), st.integers(1, 9), st.booleans(), st.floats(-6, 3))
def test_one_row_or_one_column(seed: int, size: int, transposed: bool, power: float) -> None:
    generator = torch.Generator().manual_seed(seed)
    cost = random_cost("plain", 1, size, generator)
    b = random_weights(size, generator, 1.0)
    one = torch.ones(1, dtype=torch.float64)
    arguments = (cost.T, b, one) if transposed else (cost, one, b)
    cost = arguments[0].clone().requires_grad_()
    result = sinkhorn(cost, *arguments[1:], epsilon=10**power)
    assert torch.equal(result.plan.detach().flatten(), b)
    result.plan.mul(torch.randn(cost.shape, generator=generator, dtype=torch.float64)).sum().backward()
    assert cost.grad is not None
    assert float(cost.grad.abs().max()) <= 1e-13 * 10**-power


@SETTINGS
@given(st.floats(-1e6, 1e6), st.floats(-6, 3), st.integers(0, 2**31))
def test_constant_cost_is_independence_exactly(value: float, power: float, seed: int) -> None:
    generator = torch.Generator().manual_seed(seed)
    a, b = random_weights(3, generator, 1.0), random_weights(5, generator, 1.0)
    result = sinkhorn(torch.full((3, 5), value, dtype=torch.float64), a, b, epsilon=10**power)
    assert torch.allclose(result.plan, a[:, None] * b, rtol=1e-12, atol=0)
    assert float(transport.cost_scale(torch.full((3, 5), value, dtype=torch.float64), a, b)) == 0


@pytest.mark.parametrize(
    ("arguments", "needles"),
    [
        ({"a": [1.0, 1.0], "b": [0.5, 0.5]}, ["2 for a", "1 for b", "sums"]),
        ({"cost": [[0.0, math.nan], [1.0, 0.0]]}, ["cost", "NaN", "(0, 1)"]),
        ({"cost": [[0.0, -INF], [1.0, 0.0]]}, ["cost", "-inf", "(0, 1)"]),
        ({"cost": [[0.0, INF], [0.0, INF]]}, ["infeasible", "column 1"]),
        ({"a": [1.5, -0.5]}, ["a:", ">= 0", "-0.5"]),
        ({"a": [math.nan, 1.0]}, ["a:", "nan"]),
        ({"a": [math.inf, 1.0]}, ["a:", "inf"]),
        ({"a": [0.0, 0.0]}, ["a:", "sum"]),
        ({"a": [1.0]}, ["a:", "2", "shape"]),
        ({"b": "words"}, ["b:"]),
        ({"cost": "words"}, ["cost:"]),
        ({"cost": [1.0, 2.0]}, ["cost:", "(…, n, m)"]),
        ({"cost": torch.zeros(0, 3)}, ["cost:", "n, m >= 1"]),
        ({"cost": torch.zeros(2, 2, dtype=torch.complex64)}, ["cost:", "real"]),
        ({"epsilon": 0}, ["epsilon", "> 0", "exact_plan"]),
        ({"epsilon": -1.0}, ["epsilon", "-1.0"]),
        ({"epsilon": math.nan}, ["epsilon", "nan"]),
        ({"epsilon": INF}, ["epsilon", "inf"]),
        ({"epsilon": "small"}, ["epsilon", "small"]),
        ({"epsilon": torch.tensor([1.0, 0.0])}, ["epsilon", "0.0"]),
        ({"row_relaxation": -1.0}, ["row_relaxation", ">= 0"]),
        ({"column_relaxation": math.nan}, ["column_relaxation", "nan"]),
        ({"tolerance": 0.0}, ["tolerance", "> 0"]),
        ({"max_iterations": 0}, ["max_iterations", ">= 1"]),
        ({"init": (torch.zeros(3), torch.zeros(2))}, ["init", "(3,)"]),
        ({"init": (torch.zeros(2), torch.tensor([0.0, math.nan]))}, ["init", "NaN"]),
        ({"cost": torch.zeros(3, 2, 2), "a": torch.full((4, 2), 0.5)}, ["batch", "(3,)", "(4,)"]),
    ],
)
def test_bad_arguments_are_refused_by_name(arguments: dict[str, Any], needles: list[str]) -> None:
    full: dict[str, Any] = {"cost": [[0.0, 1.0], [1.0, 0.0]], "epsilon": 0.1} | arguments
    with pytest.raises(ValueError, match=r".") as caught:
        sinkhorn(full.pop("cost"), full.pop("a", None), full.pop("b", None), **full)
    for needle in needles:
        assert needle in str(caught.value)


def test_bad_items_of_a_batch_are_named() -> None:
    cost = torch.zeros(3, 2, 2, dtype=torch.float64)
    a = torch.full((3, 2), 0.5, dtype=torch.float64)
    a[1] = 0.4
    with pytest.raises(ValueError, match=r"0\.8 for a and 1 for b.*\(1,\)"):
        sinkhorn(cost, a, [0.5, 0.5], epsilon=1.0)
    cost[2, 0] = math.inf
    with pytest.raises(ValueError, match=r"infeasible in item 2"):
        sinkhorn(cost, epsilon=1.0)


def test_forbidden_pairs() -> None:
    result = sinkhorn([[0.0, INF], [INF, 0.0]], epsilon=0.1)
    assert result.status == "converged"
    assert result.plan.tolist() == [[0.5, 0.0], [0.0, 0.5]]


def test_feasible_with_diverging_potentials() -> None:
    start = time.monotonic()
    result = sinkhorn([[0.0, 0.0], [INF, 0.0]], epsilon=0.1)
    assert time.monotonic() - start < 10
    assert torch.allclose(result.plan, torch.eye(2, dtype=torch.float64) / 2, atol=2e-6)
    assert not bool(result.plan.isnan().any())


@SETTINGS
@given(st.integers(0, 2**31), st.integers(2, 8), st.integers(2, 8), st.floats(0.1, 0.7), st.floats(-3, 1))
def test_forbidden_pairs_in_any_pattern(seed: int, rows: int, columns: int, share: float, power: float) -> None:
    """Feasible exactly if a linear programme says so; then the marginals hold and forbidden pairs carry nothing."""
    from scipy.optimize import linprog

    generator = torch.Generator().manual_seed(seed)
    cost = random_cost("plain", rows, columns, generator)
    forbidden = torch.rand(rows, columns, generator=generator) < share
    cost[forbidden] = INF
    # Weights in units of 1/120, so that a just feasible problem is just feasible for both judges.
    a = torch.bincount(torch.randint(0, rows, (120,), generator=generator), minlength=rows).double() / 120
    b = torch.bincount(torch.randint(0, columns, (120,), generator=generator), minlength=columns).double() / 120
    allowed = ~forbidden.numpy().ravel()
    equations = []
    for i in range(rows):
        equations.append([float(k // columns == i) for k in range(rows * columns)])
    for j in range(columns):
        equations.append([float(k % columns == j) for k in range(rows * columns)])
    bounds = [(0, None if ok else 0) for ok in allowed]
    program = linprog([0.0] * (rows * columns), A_eq=equations, b_eq=[*a.tolist(), *b.tolist()], bounds=bounds)
    if program.status == 2:
        with pytest.raises(ValueError, match="infeasible"):
            sinkhorn(cost, a, b, epsilon=10**power)
        return
    result = sinkhorn(cost, a, b, epsilon=10**power)
    assert not bool(result.plan.isnan().any())
    assert float(result.plan[forbidden].sum()) == 0
    assert result.residual <= 1e-4
    errors = max(float((result.plan.sum(1) - a).abs().sum()), float((result.plan.sum(0) - b).abs().sum()))
    assert (result.status == "converged") == (errors <= 1e-6)


def test_forbidden_pairs_in_relaxed_problems() -> None:
    cost = torch.tensor([[0.0, INF], [0.0, INF]], dtype=torch.float64)
    result = sinkhorn(cost, epsilon=0.1, column_relaxation=0.5)
    assert result.status == "converged"
    assert torch.allclose(result.plan, torch.tensor([[0.5, 0.0], [0.5, 0.0]], dtype=torch.float64), atol=1e-15)
    with pytest.raises(ValueError, match="infeasible: row 0"):
        sinkhorn(torch.full((2, 2), INF), epsilon=0.1, column_relaxation=0.5)
    empty = sinkhorn(torch.full((2, 2), INF), epsilon=0.1, row_relaxation=0.5, column_relaxation=0.5)
    assert empty.plan.tolist() == [[0.0, 0.0], [0.0, 0.0]]


def test_autograd_mode_is_as_before(monkeypatch: pytest.MonkeyPatch) -> None:
    from sinkviz.transport import single, small

    def fail(*_: object, **__: object) -> None:
        raise RuntimeError("inside")

    monkeypatch.setattr(single, "solve", fail)
    monkeypatch.setattr(small, "solve", fail)
    for enabled in (True, False):
        with torch.set_grad_enabled(enabled):
            with pytest.raises(RuntimeError, match="inside"):
                sinkhorn([[0.0, 1.0], [2.0, 0.5]], epsilon=0.1)
            assert torch.is_grad_enabled() == enabled


@SETTINGS
@given(st.integers(0, 2**31), st.integers(2, 8), st.integers(2, 8), st.floats(-3, 1))
def test_equal_rows_give_equal_rows(seed: int, rows: int, columns: int, power: float) -> None:
    generator = torch.Generator().manual_seed(seed)
    cost = random_cost("plain", rows, columns, generator)
    cost = torch.cat([cost, cost[:1]])
    result = sinkhorn(cost, epsilon=10**power)
    assert result.status == "converged"
    assert torch.allclose(result.plan[0], result.plan[-1], rtol=0, atol=1e-14)


@pytest.mark.parametrize("upstream", [[[1.0, 2.0], [3.0, 4.0]], [[1e6, -1.0], [0.0, 1.0]]])
def test_gradient_of_a_plan_in_two_parts(upstream: list[list[float]]) -> None:
    cost = torch.tensor([[0.0, 1.0], [1.0, 0.0]], dtype=torch.float64, requires_grad=True)
    plan = sinkhorn(cost, epsilon=1e-3).plan
    weights = torch.tensor(upstream, dtype=torch.float64)
    (gradient,) = torch.autograd.grad((plan * weights).sum(), cost)
    assert float(gradient.abs().max()) <= 1e-9 * float(weights.abs().max())


def test_a_tolerance_beyond_float32_stalls_in_bounded_time() -> None:
    cost = torch.rand(40, 30, generator=torch.Generator().manual_seed(0))
    start = time.monotonic()
    result = sinkhorn(cost, epsilon=0.01, tolerance=1e-12)
    assert time.monotonic() - start < 20
    assert result.status == "stalled"
    assert result.plan.dtype == torch.float32
    assert result.residual <= 1e-6


def test_large_float32_reaches_far_below_its_tolerance() -> None:
    generator = torch.Generator().manual_seed(0)
    cost = torch.rand(600, 600, generator=generator)
    result = sinkhorn(cost, epsilon=0.02)
    assert result.status == "converged"
    assert result.plan.dtype == torch.float32
    assert result.residual <= 1e-5
    finer = sinkhorn(cost, epsilon=0.02, tolerance=5e-7)
    assert finer.status == "converged"
    exact = sinkhorn(cost.double(), epsilon=0.02, tolerance=1e-10).plan
    assert float((finer.plan - exact).abs().sum()) <= 1e-5


def test_a_used_up_budget_is_told() -> None:
    cost = torch.rand(40, 40, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
    result = sinkhorn(cost, epsilon=1e-4, max_iterations=3)
    assert result.status == "max_iterations"
    assert not result.converged
    assert not bool(result.plan.isnan().any())
    assert result.residual > 1e-6


def test_a_relaxed_plan_beyond_float64_claims_nothing() -> None:
    cost = torch.tensor([[-1e6, 0.0], [0.0, -1e6]], dtype=torch.float64)
    result = sinkhorn(cost, epsilon=1.0, row_relaxation=0.1, column_relaxation=0.1)
    assert result.status == "stalled"
    assert not bool(result.plan.isnan().any())


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
def test_halves_are_taken_to_float32(dtype: torch.dtype) -> None:
    cost = torch.rand(4, 5, generator=torch.Generator().manual_seed(0)).to(dtype)
    result = sinkhorn(cost, epsilon=0.1)
    assert result.plan.dtype == torch.float32
    assert torch.equal(result.plan, sinkhorn(cost.float(), epsilon=0.1).plan)


def test_integers_and_lists_are_taken_to_float64() -> None:
    assert sinkhorn([[0, 1], [1, 0]], epsilon=1).plan.dtype == torch.float64
    assert sinkhorn(torch.tensor([[0, 1], [1, 0]]), epsilon=1).plan.dtype == torch.float64


def test_an_absurd_start_does_no_harm() -> None:
    generator = torch.Generator().manual_seed(5)
    cost = random_cost("plain", 9, 7, generator)
    plan = sinkhorn(cost, epsilon=0.01).plan
    for scale in (1.0, 1e6, 1e300):
        init = (scale * torch.randn(9, generator=generator), scale * torch.randn(7, generator=generator))
        result = sinkhorn(cost, epsilon=0.01, init=init)
        assert result.status == "converged"
        assert float((result.plan - plan).abs().sum()) <= 3e-6
