"""The Fenchel–Young loss: its value, its exact gradient, its refusals."""

from __future__ import annotations

import pytest
import torch

from sinkviz import transport
from sinkviz.transformer import fenchel_young_loss


def _problem(seed: int) -> tuple[torch.Tensor, ...]:
    random = torch.Generator().manual_seed(seed)
    cost = torch.randn(4, 5, generator=random, dtype=torch.float64)
    a = torch.softmax(torch.randn(4, generator=random, dtype=torch.float64), 0)
    b = torch.softmax(torch.randn(5, generator=random, dtype=torch.float64), 0)
    other = torch.randn(4, 5, generator=random, dtype=torch.float64)
    target = transport.sinkhorn(other, a, b, epsilon=0.5, tolerance=1e-12).plan
    return cost, a, b, target


def _plan(kind: str, cost: torch.Tensor, a: torch.Tensor, b: torch.Tensor, epsilon: float) -> torch.Tensor:
    with torch.no_grad():
        if kind == "softmax":
            return transport.softmax_attention(cost, a, b, epsilon=epsilon).plan
        relaxation = 0.3 if kind == "relaxed" else None
        return transport.sinkhorn(cost, a, b, epsilon=epsilon, tolerance=1e-11, column_relaxation=relaxation).plan


def _loss(kind: str, cost: torch.Tensor, a: torch.Tensor, b: torch.Tensor, target: torch.Tensor, epsilon: float):  # type: ignore[no-untyped-def]
    plan = _plan(kind, cost.detach(), a, b, float(torch.as_tensor(epsilon).detach()))
    return fenchel_young_loss(
        cost, plan, target, a, b, epsilon=epsilon, column_relaxation=0.3 if kind == "relaxed" else None
    )


@pytest.mark.parametrize("kind", ["sinkhorn", "softmax", "relaxed"])
@pytest.mark.parametrize("seed", [0, 1])
def test_the_gradient_is_exact(kind: str, seed: int) -> None:
    cost, a, b, target = _problem(seed)
    cost.requires_grad_()
    epsilon = torch.tensor(0.4, dtype=torch.float64, requires_grad=True)
    _loss(kind, cost, a, b, target, epsilon).backward()  # type: ignore[arg-type]
    plan = _plan(kind, cost.detach(), a, b, 0.4)
    torch.testing.assert_close(cost.grad, (target - plan) / 0.4, atol=1e-9, rtol=0)
    direction = torch.randn(4, 5, generator=torch.Generator().manual_seed(9), dtype=torch.float64)
    step = 1e-5
    up, down = (_loss(kind, cost.detach() + sign * step * direction, a, b, target, 0.4) for sign in (1, -1))
    assert cost.grad is not None
    assert float((cost.grad * direction).sum()) == pytest.approx(float(up - down) / (2 * step), rel=1e-5)
    up, down = (_loss(kind, cost.detach(), a, b, target, 0.4 + sign * step) for sign in (1, -1))
    assert epsilon.grad is not None
    assert float(epsilon.grad) == pytest.approx(float(up - down) / (2 * step), rel=1e-4)


@pytest.mark.parametrize("kind", ["sinkhorn", "softmax"])
def test_it_is_the_relative_entropy(kind: str) -> None:
    cost, a, b, target = _problem(2)
    plan = _plan(kind, cost, a, b, 0.4)
    expected = float((target * (target / plan).log()).sum())
    assert float(_loss(kind, cost, a, b, target, 0.4)) == pytest.approx(expected, rel=1e-6)
    assert expected > 0


def test_it_vanishes_at_the_target_and_is_convex() -> None:
    cost, a, b, _ = _problem(3)
    target = _plan("sinkhorn", cost, a, b, 0.4)
    assert float(_loss("sinkhorn", cost, a, b, target, 0.4)) == pytest.approx(0, abs=1e-9)
    other = _problem(4)[0]
    middle = _loss("sinkhorn", (cost + other) / 2, a, b, target, 0.4)
    ends = (_loss("sinkhorn", cost, a, b, target, 0.4) + _loss("sinkhorn", other, a, b, target, 0.4)) / 2
    assert float(middle) <= float(ends) + 1e-9


def test_a_target_without_the_marginals_is_refused() -> None:
    cost, a, b, target = _problem(5)
    with pytest.raises(ValueError, match="project"):
        fenchel_young_loss(cost, target, target * 1.01, a, b, epsilon=0.4)
