"""Implicit derivatives of a solve: one linear system, whatever the number of iterations.

With X, Y the multipliers of the two optimality conditions φ = −τ₁ L(ψ), ψ = −τ₂ M(φ) (τ = ρ/(ρ+ε), 1 on a fixed side),
W = P∘G for an upstream gradient G of the plan, r = P1 and c = Pᵀ1, and x = τ₁X/r, y = τ₂Y/c:

    (diag(c) − τ₁τ₂ Pᵀ diag(1/r) P) y = τ₂ (V − τ₁ Pᵀ(U/r)),    X = U − P y,    Y = V − Pᵀ x,
    dC = (P∘(x_i + y_j) − W)/ε,    da = (W1 − P y)/a,    db = (Wᵀ1 − Pᵀx)/b,
    dτ₁ = −⟨X, L⟩,    dτ₂ = −⟨Y, M⟩,

where U = W1 + ε ∂f and V = Wᵀ1 + ε ∂g. The matrix is the one that Newton's method solves with. For the balanced problem
see Eisenberger et al., "A unified framework for implicit Sinkhorn differentiation", CVPR 2022.
"""

from __future__ import annotations

import math
from typing import Any

import torch
from torch import Tensor

from sinkviz.transport import batched
from sinkviz.transport.outcome import Init, Outcome, solve
from sinkviz.transport.problem import Number, Problem

ACCURACY = 1e-12
"""Relative residual of the adjoint system."""


class _Once(torch.autograd.Function):
    """The identity on gradients that refuses to be differentiated itself."""

    @staticmethod
    def forward(ctx: Any, gradient: Tensor, *sources: Tensor) -> Tensor:
        return gradient.clone()

    @staticmethod
    def backward(ctx: Any, *gradients: Any) -> Any:
        raise RuntimeError(
            "sinkhorn: second derivatives are not implemented; it can be differentiated once. "
            "Detach the first gradient, or approximate the second by differences of the first"
        )


class _Implicit(torch.autograd.Function):
    @staticmethod
    def forward(
        ctx: Any,
        cost: Tensor,
        a: Tensor,
        b: Tensor,
        epsilon: Number,
        row_relaxation: Number,
        column_relaxation: Number,
        problem: Problem,
        init: Init,
        budget: int,
        found: list[Outcome],
    ) -> tuple[Tensor, Tensor, Tensor]:
        outcome = solve(problem, init, budget)
        found.append(outcome)
        ctx.save_for_backward(cost, a, b, outcome.plan, outcome.f, outcome.g)
        ctx.numbers = tuple(
            x.detach() if isinstance(x, Tensor) else x for x in (epsilon, row_relaxation, column_relaxation)
        )
        ctx.batch = problem.batch
        return outcome.plan, outcome.f, outcome.g

    @staticmethod
    def backward(ctx: Any, *upstream: Any) -> Any:
        cost, a, b, plan, f, g = ctx.saved_tensors
        with torch.no_grad():
            gradients = adjoint(ctx, cost, a, b, plan, f, g, upstream)
        if torch.is_grad_enabled():
            sources = [x for x in (*upstream, cost, a, b) if isinstance(x, Tensor) and x.requires_grad]
            if sources:
                gradients = tuple(None if x is None else _Once.apply(x, *sources) for x in gradients)
        return (*gradients, None, None, None, None)


def adjoint(
    ctx: Any, cost: Tensor, a: Tensor, b: Tensor, plan: Tensor, f: Tensor, g: Tensor, upstream: tuple[Any, ...]
) -> tuple[Tensor | None, ...]:
    """Gradients of cost, a, b, ε and both relaxations from those of plan, f and g."""
    batch = ctx.batch
    rows, columns = cost.shape[-2:]
    dtype = cost.dtype
    cost = cost.detach().reshape(-1, rows, columns)
    values = plan.detach().reshape(-1, rows, columns).double()
    a, b = a.detach().reshape(-1, rows), b.detach().reshape(-1, columns)
    f, g = f.detach().reshape(-1, rows), g.detach().reshape(-1, columns)
    count = len(cost)

    def flat(value: Number) -> Tensor:
        return value.reshape(-1) if isinstance(value, Tensor) else a.new_full((count,), value)

    epsilon, relaxation_a, relaxation_b = (flat(x) for x in ctx.numbers)
    fixed_a, fixed_b = relaxation_a == math.inf, relaxation_b == math.inf
    balanced = fixed_a & fixed_b
    pull_a, pull_b = batched.pull(relaxation_a, epsilon), batched.pull(relaxation_b, epsilon)
    scale = epsilon.unsqueeze(-1)

    up_plan, up_f, up_g = upstream
    w = torch.zeros_like(values) if up_plan is None else values * up_plan.detach().reshape_as(values).double()
    # The potential of an atom without weight is an extension; no gradient goes through it.
    up_f = torch.zeros_like(f) if up_f is None else torch.where(a > 0, up_f.detach().reshape_as(f), 0.0)
    up_g = torch.zeros_like(g) if up_g is None else torch.where(b > 0, up_g.detach().reshape_as(g), 0.0)
    # The gauge ⟨b, g⟩ = 0 moves with b and with g.
    gauge = torch.where(balanced, (up_f.sum(-1) - up_g.sum(-1)) / b.sum(-1), 0.0).unsqueeze(-1)
    inner_g = up_g + gauge * b
    r, c = values.sum(-1), values.sum(-2)
    w_rows, w_columns = w.sum(-1), w.sum(-2)
    u, v = w_rows + scale * up_f, w_columns + scale * inner_g
    inverse_r = torch.where(r > 0, 1.0 / r.clamp_min(1e-300), 0.0)

    def times(vector: Tensor) -> Tensor:
        return (values @ vector.unsqueeze(-1)).squeeze(-1)

    def times_transposed(vector: Tensor) -> Tensor:
        return (values.transpose(-1, -2) @ vector.unsqueeze(-1)).squeeze(-1)

    share_a, share_b = pull_a.unsqueeze(-1), pull_b.unsqueeze(-1)
    right = share_b * (v - share_a * times_transposed(u * inverse_r))
    y = solve_adjoint(values, r, c, right, pull_a * pull_b, balanced)
    x_full = u - times(y)
    x = share_a * x_full * inverse_r
    y_full = v - times_transposed(x)

    d_cost = ((values * (x.unsqueeze(-1) + y.unsqueeze(-2))).sub_(w)).div_(epsilon[:, None, None])
    d_a = torch.where(a > 0, (x_full - scale * up_f) / a.clamp_min(1e-300), 0.0)
    d_b = torch.where(b > 0, (y_full - scale * inner_g) / b.clamp_min(1e-300), 0.0) + gauge * torch.where(b > 0, g, 0.0)
    if up_plan is not None:
        g_plan = up_plan.detach().reshape_as(values).double()
        _dead(d_a, r, cost, f, g, b, epsilon, g_plan, y)
        _dead(d_b, c, cost.mT, g, f, a, epsilon, g_plan.mT, x)

    # A constant in a balanced cost goes into f alone; taken off both, it cannot drown the sum.
    least = torch.where(cost.isfinite(), cost, math.inf).amin((-2, -1)).double()
    least = torch.where(balanced & least.isfinite(), least, 0.0)
    centred = torch.where(cost.isfinite(), cost - least[:, None, None], 0.0)
    d_epsilon = -(d_cost * centred).sum((-2, -1))
    d_epsilon = d_epsilon + torch.where(a > 0, up_f * (f - least.unsqueeze(-1)), 0.0).sum(-1)
    d_epsilon = (d_epsilon + torch.where(b > 0, up_g * g, 0.0).sum(-1)) / epsilon
    d_relaxations = []
    for fixed, relaxation, full, sums, weights, potential in (
        (fixed_a, relaxation_a, x_full, r, a, f),
        (fixed_b, relaxation_b, y_full, c, b, g),
    ):
        level = (sums.clamp_min(1e-300) / weights.clamp_min(1e-300)).log() - potential / scale
        d_pull = -torch.where((weights > 0) & (sums > 0), full * level, 0.0).sum(-1)
        square = (torch.where(fixed, 0.0, relaxation) + epsilon).square()
        d_relaxations.append(torch.where(fixed, 0.0, d_pull * epsilon / square))
        d_epsilon = d_epsilon - torch.where(fixed, 0.0, d_pull * torch.where(fixed, 0.0, relaxation) / square)

    def shaped(value: Tensor, original: Number) -> Tensor | None:
        return value.reshape(batch) if isinstance(original, Tensor) else None

    return (
        d_cost.to(dtype).reshape(*batch, rows, columns),
        d_a.reshape(*batch, rows),
        d_b.reshape(*batch, columns),
        shaped(d_epsilon, ctx.numbers[0]),
        shaped(d_relaxations[0], ctx.numbers[1]),
        shaped(d_relaxations[1], ctx.numbers[2]),
    )


def _dead(
    gradient: Tensor, sums: Tensor, cost: Tensor, own: Tensor, other: Tensor, weights: Tensor, epsilon: Tensor,
    upstream: Tensor, multiplier: Tensor,
) -> None:  # fmt: skip
    """Fill in the one-sided derivative in the weight of atoms that send nothing: P_ij/a_i goes on where P is 0."""
    item, atom = (sums == 0).nonzero().unbind(1)
    if len(item) == 0:
        return
    exponent = (own[item, atom].unsqueeze(-1) + other[item] - cost[item, atom].double()) / epsilon[item].unsqueeze(-1)
    density = torch.where(cost[item, atom] < math.inf, weights[item] * exponent.exp(), 0.0)
    density = torch.where(weights[item] > 0, density, 0.0)
    gradient[item, atom] = (density * (upstream[item, atom] - multiplier[item])).sum(-1)


def solve_adjoint(plan: Tensor, r: Tensor, c: Tensor, right: Tensor, share: Tensor, singular: Tensor) -> Tensor:
    """Solve (diag(c) − s Pᵀ diag(1/r) P) y = right for each item, to rounding."""
    root = torch.where(r > 0, r.clamp_min(1e-300).rsqrt(), 0.0)
    factor = plan * root.unsqueeze(-1)
    size = plan.shape[-1]
    # A right side outside the range (by rounding, or by marginals that are off) has no solution: take that part out.
    total = right.sum(-1, keepdim=True) / c.sum(-1, keepdim=True)
    right = torch.where(singular.unsqueeze(-1), right - c * total, right)
    right = torch.where(c > 0, right, 0.0)
    if size > batched.DENSE:
        tolerance = torch.full_like(share, ACCURACY)
        return batched.conjugate_gradients(factor, c, right, share, tolerance, 20 * size, singular)[0]
    column = torch.where(c > 0, c.clamp_min(1e-300).sqrt(), 0.0)
    inverse = torch.where(c > 0, 1.0 / column.clamp_min(1e-300), 0.0)
    factor = factor * inverse.unsqueeze(-2)
    filled = torch.where(singular.unsqueeze(-1), column / c.sum(-1, keepdim=True).sqrt(), 0.0)
    matrix = torch.bmm(factor.transpose(-1, -2) * -share[:, None, None], factor)
    matrix += filled.unsqueeze(-1) * filled.unsqueeze(-2)
    diagonal = matrix.diagonal(dim1=-2, dim2=-1)
    diagonal += 1.0
    exact = matrix.clone()
    diagonal += 1e-13
    lower, info = torch.linalg.cholesky_ex(matrix)
    scaled = (right * inverse).unsqueeze(-1)
    solution = torch.cholesky_solve(scaled, lower)
    for _ in range(2):
        solution = solution + torch.cholesky_solve(scaled - exact @ solution, lower)
    solution = solution.squeeze(-1) * inverse
    sound = (info == 0) & solution.isfinite().all(-1)
    if not bool(sound.all()):
        tolerance = torch.full_like(share, ACCURACY)
        raw = plan * root.unsqueeze(-1)
        other = batched.conjugate_gradients(raw, c, right, share, tolerance, 20 * size, singular)[0]
        solution = torch.where(sound.unsqueeze(-1), solution, other)
    return solution


def solve_differentiably(problem: Problem, init: Init, budget: int) -> tuple[Outcome, Tensor, Tensor, Tensor]:
    """Solve, and connect plan, f and g to the arguments that ask for a gradient."""
    found: list[Outcome] = []
    plan, f, g = _Implicit.apply(
        problem.cost, problem.a, problem.b, problem.epsilon, problem.row_relaxation, problem.column_relaxation,
        problem, init, budget, found,
    )  # fmt: skip
    return found[0], plan, f, g
