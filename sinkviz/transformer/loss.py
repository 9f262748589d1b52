"""The loss that teaches a coupling: Fenchel–Young, with its exact gradient and nothing unrolled."""

from __future__ import annotations

import torch
from torch import Tensor


def _relative_entropy(plan: Tensor, reference: Tensor) -> Tensor:
    safe = torch.where(reference > 0, reference, 1.0)
    return torch.xlogy(plan, plan / safe).flatten(plan.ndim - 2).sum(-1)


def fenchel_young_loss(
    cost: Tensor,
    plan: Tensor,
    target: Tensor,
    a: Tensor,
    b: Tensor,
    *,
    epsilon: Tensor | float,
    column_relaxation: float | None = None,
) -> Tensor:
    """Return how far the plan of a cost is from a target coupling, with the exact gradient in cost and ε.

    L(C; π) = (J_C(π) − J_C(P)) / ε, with J_C(P) = ⟨C, P⟩ + ε KL(P ‖ a⊗b) (+ ρ KL(Pᵀ1 ‖ b)) and P its minimiser. It is
    ≥ 0, convex in C and 0 only at P = π; for balanced plans and for softmax rows it equals KL(π ‖ P). By the envelope
    theorem dL/dC = (π − P)/ε and dL/dε = −⟨π − P, C⟩/ε² (+ ρ KL(Pᵀ1 ‖ b)/ε²): no iteration is differentiated. That
    holds where P has converged; leave out items whose status says otherwise.

    Args:
        cost: C, shape (…, n, m), finite; carries the gradient.
        plan: P, shape (…, n, m), the converged plan of C: balanced, row softmax, or column-relaxed.
        target: π, shape (…, n, m), with marginals a and b.
        a, b: weights, shapes (…, n) and (…, m).
        epsilon: ε > 0, absolute; may carry a gradient.
        column_relaxation: ρ, if P is column-relaxed.

    Returns:
        shape (…), in nat.

    Raises:
        ValueError: a target whose marginals miss a or b by more than 1e-4 (L1).

    Source: Blondel, Martins, Niculae, "Learning with Fenchel–Young losses", arXiv 1901.02324, section 3.

    Example:
        >>> from sinkviz import transport
        >>> cost = torch.tensor([[0.0, 1.0], [1.0, 0.0]], dtype=torch.float64, requires_grad=True)
        >>> half = torch.tensor([0.5, 0.5], dtype=torch.float64)
        >>> plan = transport.sinkhorn(cost.detach(), half, half, epsilon=0.5).plan
        >>> loss = fenchel_young_loss(cost, plan, torch.full((2, 2), 0.25).double(), half, half, epsilon=0.5)
        >>> loss.backward()
        >>> bool(torch.allclose(cost.grad, (0.25 - plan) / 0.5))
        True
    """
    plan, target = plan.detach(), target.detach()
    rows = float((target.sum(-1) - a).abs().sum(-1).max())
    columns = float((target.sum(-2) - b).abs().sum(-1).max())
    if not max(rows, columns) <= 1e-4:
        raise ValueError(
            f"target: expected a coupling of the two measures, but its row sums miss a by {rows:.1e} and its column "
            f"sums miss b by {columns:.1e} (L1); project it onto the marginals first"
        )
    independent = a.detach()[..., :, None] * b.detach()[..., None, :]
    energy = (cost * (target - plan)).flatten(cost.ndim - 2).sum(-1)
    if column_relaxation is not None:
        received = plan.sum(-2, keepdim=True)
        mass = b.detach()[..., None, :]
        energy = energy - column_relaxation * (_relative_entropy(received, mass) - (received - mass).sum((-1, -2)))
    return energy / epsilon + _relative_entropy(target, independent) - _relative_entropy(plan, independent)
