"""Implicit derivatives: against differences, on every input, for every kind of problem."""

from __future__ import annotations

import math
from collections.abc import Callable

import pytest
import torch
from torch import Tensor
from torch.autograd import gradcheck
from transport_problems import random_cost, random_weights

from sinkviz.transport import SinkhornResult, sinkhorn, softmax_attention

SIDES = {
    "balanced": (None, None),
    "columns": (None, 0.3),
    "rows": (0.2, None),
    "both": (0.4, 0.25),
    "attention": (None, 0.0),
}


def inputs(rows: int, columns: int, seed: int = 0) -> tuple[Tensor, Tensor, Tensor]:
    generator = torch.Generator().manual_seed(seed)
    cost = random_cost("plain", rows, columns, generator)
    logits_a = torch.randn(rows, generator=generator, dtype=torch.float64)
    logits_b = torch.randn(columns, generator=generator, dtype=torch.float64)
    return cost.requires_grad_(), logits_a.requires_grad_(), logits_b.requires_grad_()


@pytest.mark.parametrize("side", SIDES)
@pytest.mark.parametrize("epsilon", [0.5, 0.05])
def test_gradcheck_on_all_inputs(side: str, epsilon: float) -> None:
    rho_a, rho_b = SIDES[side]
    cost, logits_a, logits_b = inputs(5, 4)
    numbers = [torch.tensor(epsilon, dtype=torch.float64, requires_grad=True)]
    relaxed = [name for name, rho in (("row", rho_a), ("column", rho_b)) if rho]
    numbers += [torch.tensor(rho, dtype=torch.float64, requires_grad=True) for rho in (rho_a, rho_b) if rho]

    def solve(cost: Tensor, logits_a: Tensor, logits_b: Tensor, epsilon: Tensor, *rhos: Tensor) -> tuple[Tensor, ...]:
        options: dict[str, object] = {"row_relaxation": rho_a, "column_relaxation": rho_b}
        options |= {f"{name}_relaxation": rho for name, rho in zip(relaxed, rhos, strict=True)}
        result = sinkhorn(cost, logits_a.softmax(0), logits_b.softmax(0), epsilon=epsilon, tolerance=1e-13, **options)
        return result.plan, result.f, result.g

    assert gradcheck(solve, (cost, logits_a, logits_b, *numbers), atol=1e-6, rtol=1e-5)


def test_gradcheck_of_a_batch_of_mixed_problems() -> None:
    generator = torch.Generator().manual_seed(1)
    cost = torch.stack([random_cost("plain", 4, 5, generator) for _ in range(4)]).requires_grad_()
    logits = torch.randn(4, 4, generator=generator, dtype=torch.float64, requires_grad=True)
    epsilon = torch.tensor([0.3, 0.1, 0.2, 0.5], dtype=torch.float64, requires_grad=True)
    rho_a = torch.tensor([math.inf, math.inf, 0.4, 0.3], dtype=torch.float64)
    rho_b = torch.tensor([math.inf, 0.0, math.inf, 0.2], dtype=torch.float64)

    def solve(cost: Tensor, logits: Tensor, epsilon: Tensor) -> tuple[Tensor, ...]:
        result = sinkhorn(
            cost, logits.softmax(-1), epsilon=epsilon, row_relaxation=rho_a, column_relaxation=rho_b, tolerance=1e-13
        )
        return result.plan, result.f, result.g

    assert gradcheck(solve, (cost, logits, epsilon), atol=1e-6, rtol=1e-5)


def test_the_relaxation_has_a_one_sided_derivative_at_0() -> None:
    cost, logits_a, logits_b = (x.detach() for x in inputs(5, 4))
    a, b = logits_a.softmax(0), logits_b.softmax(0)
    upstream = torch.randn(5, 4, generator=torch.Generator().manual_seed(2), dtype=torch.float64)
    rho = torch.zeros((), dtype=torch.float64, requires_grad=True)

    def value(rho: float | Tensor) -> Tensor:
        return (sinkhorn(cost, a, b, epsilon=0.2, column_relaxation=rho, tolerance=1e-13).plan * upstream).sum()

    (gradient,) = torch.autograd.grad(value(rho), rho)
    step = 1e-6
    assert float(gradient) == pytest.approx(float(value(step) - value(0.0)) / step, rel=1e-4)


def directional(
    function: Callable[[Tensor], Tensor], at: Tensor, direction: Tensor, step: float
) -> tuple[float, float]:
    """The derivative along a direction: by the gradient, and by central differences."""
    point = at.clone().requires_grad_()
    (gradient,) = torch.autograd.grad(function(point), point)
    difference = float(function(at + step * direction) - function(at - step * direction)) / (2 * step)
    return float((gradient * direction).sum()), difference


@pytest.mark.parametrize("epsilon", [1e-2, 1e-3])
def test_five_digits_at_64_and_small_epsilon(epsilon: float) -> None:
    generator = torch.Generator().manual_seed(0)
    x, y = (torch.randn(64, 64, generator=generator, dtype=torch.float64) for _ in range(2))
    cost = -(x / x.norm(dim=1, keepdim=True)) @ (y / y.norm(dim=1, keepdim=True)).T
    epsilon *= float(cost.abs().max())
    upstream = torch.randn(64, 64, generator=generator, dtype=torch.float64)
    direction = torch.randn(64, 64, generator=generator, dtype=torch.float64)

    def value(cost: Tensor) -> Tensor:
        return (sinkhorn(cost, epsilon=epsilon, tolerance=1e-13).plan * upstream).sum()

    exact, difference = directional(value, cost, direction, epsilon * 1e-4)
    assert exact == pytest.approx(difference, rel=1e-5)


def test_five_digits_where_the_system_is_solved_by_conjugate_gradients() -> None:
    generator = torch.Generator().manual_seed(0)
    cost = torch.rand(150, 140, generator=generator, dtype=torch.float64)
    upstream = torch.randn(150, 140, generator=generator, dtype=torch.float64)
    direction = torch.randn(150, 140, generator=generator, dtype=torch.float64)

    def value(cost: Tensor) -> Tensor:
        return (sinkhorn(cost, epsilon=0.02, tolerance=1e-12).plan * upstream).sum()

    exact, difference = directional(value, cost, direction, 1e-5)
    assert exact == pytest.approx(difference, rel=1e-5)


def test_the_value_has_the_plan_as_its_derivative() -> None:
    """⟨a, f⟩ + ⟨b, g⟩ is the optimal value; its derivative in the cost is the plan (Danskin)."""
    cost, logits_a, logits_b = inputs(6, 5)
    a, b = logits_a.softmax(0).detach(), logits_b.softmax(0).detach()
    result = sinkhorn(cost, a, b, epsilon=0.1, tolerance=1e-13)
    (gradient,) = torch.autograd.grad((result.f * a).sum() + (result.g * b).sum(), cost)
    assert torch.allclose(gradient, result.plan.detach(), atol=1e-10)


def test_the_fenchel_young_gradient() -> None:
    """KL(π ‖ S(C)) has the gradient (π − P)/ε for a target with the marginals of P."""
    cost, logits_a, logits_b = inputs(6, 5)
    a, b = logits_a.softmax(0).detach(), logits_b.softmax(0).detach()
    other = torch.rand(6, 5, generator=torch.Generator().manual_seed(9), dtype=torch.float64)
    target = sinkhorn(other, a, b, epsilon=0.3, tolerance=1e-13).plan
    plan = sinkhorn(cost, a, b, epsilon=0.1, tolerance=1e-13).plan
    loss = torch.special.xlogy(target, target / plan).sum()
    (gradient,) = torch.autograd.grad(loss, cost)
    assert torch.allclose(gradient, (target - plan.detach()) / 0.1, atol=1e-8)


def test_attention_has_the_gradient_of_softmax() -> None:
    cost, _, _ = inputs(6, 5)
    upstream = torch.randn(6, 5, generator=torch.Generator().manual_seed(3), dtype=torch.float64)
    (ours,) = torch.autograd.grad((softmax_attention(cost, epsilon=0.1).plan * upstream).sum(), cost)
    (right,) = torch.autograd.grad((torch.softmax(-cost / 0.1, 1) / 6 * upstream).sum(), cost)
    assert torch.allclose(ours, right, atol=1e-12)


def test_a_dead_weight_has_the_one_sided_derivative() -> None:
    generator = torch.Generator().manual_seed(4)
    cost = random_cost("plain", 4, 3, generator)
    b = random_weights(3, generator, 1.0)
    upstream = torch.randn(4, 3, generator=generator, dtype=torch.float64)
    a = torch.tensor([0.5, 0.3, 0.2, 0.0], dtype=torch.float64)
    tangent = torch.tensor([-0.5, -0.3, -0.2, 1.0], dtype=torch.float64)

    def value(a: Tensor) -> Tensor:
        return (sinkhorn(cost, a, b, epsilon=0.2, tolerance=1e-13).plan * upstream).sum()

    point = a.clone().requires_grad_()
    (gradient,) = torch.autograd.grad(value(point), point)
    step = 1e-6
    difference = float(value(a + step * tangent) - value(a)) / step
    assert float((gradient * tangent).sum()) == pytest.approx(difference, rel=1e-4)


def test_forbidden_pairs_have_no_gradient() -> None:
    cost = torch.rand(4, 4, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
    cost[0, 1] = cost[2, 3] = math.inf
    cost.requires_grad_()
    epsilon = torch.tensor(0.1, dtype=torch.float64, requires_grad=True)
    plan = sinkhorn(cost, epsilon=epsilon).plan
    gradient, d_epsilon = torch.autograd.grad(plan.square().sum(), (cost, epsilon))
    assert bool(gradient.isfinite().all())
    assert bool(d_epsilon.isfinite())
    assert float(gradient[0, 1]) == float(gradient[2, 3]) == 0


def test_the_gradient_in_epsilon_survives_a_huge_offset() -> None:
    cost, _, _ = inputs(5, 4)
    cost = cost.detach()
    upstream = torch.randn(5, 4, generator=torch.Generator().manual_seed(3), dtype=torch.float64)
    gradients = []
    for offset in (0.0, 1e6):
        epsilon = torch.tensor(0.2, dtype=torch.float64, requires_grad=True)
        plan = sinkhorn(cost + offset, epsilon=epsilon, tolerance=1e-12).plan
        gradients.append(float(torch.autograd.grad((plan * upstream).sum(), epsilon)[0]))
    assert gradients[0] == pytest.approx(gradients[1], rel=1e-6)


@pytest.mark.parametrize("rows", [6, 150])
def test_a_second_derivative_is_refused_clearly(rows: int) -> None:
    cost = torch.rand(rows, 5, generator=torch.Generator().manual_seed(0), dtype=torch.float64, requires_grad=True)
    plan = sinkhorn(cost, epsilon=0.1).plan
    (gradient,) = torch.autograd.grad(plan.square().sum(), cost, create_graph=True)
    with pytest.raises(RuntimeError, match="second derivatives are not implemented"):
        gradient.sum().backward()


def test_float32_costs_get_float32_gradients() -> None:
    cost = torch.rand(6, 5, generator=torch.Generator().manual_seed(0), requires_grad=True)
    a = torch.full((6,), 1 / 6, requires_grad=True)
    sinkhorn(cost, a, epsilon=0.1).plan.square().sum().backward()
    assert cost.grad is not None
    assert a.grad is not None
    assert (cost.grad.dtype, a.grad.dtype) == (torch.float32, torch.float32)


def test_no_gradient_is_tracked_without_need() -> None:
    cost = torch.rand(6, 5, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
    assert not sinkhorn(cost, epsilon=0.1).plan.requires_grad
    with torch.no_grad():
        assert not sinkhorn(cost.requires_grad_(), epsilon=0.1).plan.requires_grad


def test_memory_does_not_grow_with_the_iterations() -> None:
    """What the graph keeps is the problem and the plan, whether the solve took 4 iterations or hundreds."""

    def kept(result: SinkhornResult) -> int:
        node = result.plan.grad_fn
        assert node is not None
        saved = [x for x in node.saved_tensors if x is not None]  # type: ignore[attr-defined]
        return sum(x.numel() for x in saved)

    cost = torch.rand(64, 64, generator=torch.Generator().manual_seed(0), dtype=torch.float64, requires_grad=True)
    easy, hard = sinkhorn(cost, epsilon=1.0), sinkhorn(cost, epsilon=1e-4)
    assert hard.iterations > 10 * easy.iterations
    assert kept(easy) == kept(hard) <= 2 * 64 * 64 + 8 * 64
