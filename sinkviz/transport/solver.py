"""`sinkhorn`, and attention as its one-sided case."""

from __future__ import annotations

from typing import Any

from torch import Tensor

from sinkviz.transport.outcome import check_init, solve
from sinkviz.transport.problem import prepare
from sinkviz.transport.result import SinkhornResult

MAX_ITERATIONS = 20_000


def sinkhorn(
    cost: Any,
    a: Any = None,
    b: Any = None,
    *,
    epsilon: float | Tensor,
    tolerance: float | None = None,
    max_iterations: int = MAX_ITERATIONS,
    init: tuple[Tensor, Tensor] | None = None,
    row_relaxation: float | Tensor | None = None,
    column_relaxation: float | Tensor | None = None,
) -> SinkhornResult:
    """Solve entropic transport: the Sinkhorn operator, balanced or with marginals relaxed.

    min_P ⟨C, P⟩ + ε KL(P ‖ a⊗b) + ρ₁ KL(P1 ‖ a) + ρ₂ KL(Pᵀ1 ‖ b); ρ = ∞ (or None) fixes a marginal, ρ = 0 frees it.
    Rows fixed and columns free is softmax attention; both fixed is the balanced problem. Differentiable once in cost,
    a, b, ε and both ρ, by implicit differentiation: memory O(nm) however long the solve.

    Args:
        cost: (…, n, m), finite, or +inf for a forbidden pair. float32 and float64; halves are taken to float32.
        a, b: weights (…, n) and (…, m) ≥ 0 with equal sums where both marginals are fixed; uniform if None. A weight
            of 0 leaves an atom out, so ragged batches are padded with weight 0 and any finite cost.
        epsilon: ε > 0 in units of the cost, a number or one for each item.
        tolerance: largest L1 residual as a share of the mass; default 1e-6 for float64, 1e-5 for float32.
        max_iterations: budget of Sinkhorn, Newton and conjugate-gradient iterations of an item together.
        init: potentials (f, g) in units of the cost to start from, such as those of a neighbouring ε.
        row_relaxation, column_relaxation: ρ₁, ρ₂ ≥ 0 in units of the cost, a number or one for each item.

    Returns:
        SinkhornResult: plan (…, n, m) in the cost's dtype, potentials in float64, and what they are worth.

    Raises:
        ValueError: arguments that no solver could answer, an infeasible problem among them.

    Source: Cuturi, "Sinkhorn distances" (2013); Chizat et al., "Scaling algorithms for unbalanced optimal transport"
    (2018), prop. 4; Brauer et al., "A Sinkhorn–Newton method for entropic optimal transport" (2017).

    Example:
        >>> result = sinkhorn([[1.0, 2.0], [3.0, 5.0]], epsilon=0.05)
        >>> result.status, f"{float(result.plan[0, 0]):.4e}"
        ('converged', '2.2699e-05')
    """
    problem = prepare(
        cost, a, b, epsilon,
        tolerance=tolerance, row_relaxation=row_relaxation, column_relaxation=column_relaxation,
    )  # fmt: skip
    if isinstance(max_iterations, bool) or not isinstance(max_iterations, int) or max_iterations < 1:
        raise ValueError(f"max_iterations: expected a whole number >= 1, got {max_iterations!r}")
    start = check_init(init, problem)
    if problem.needs_gradient:
        from sinkviz.transport.gradient import solve_differentiably

        outcome, plan, f, g = solve_differentiably(problem, start, max_iterations)
        return outcome.result(problem, plan, f, g)
    # Nothing asks for a gradient, so none is recorded in any mode.
    outcome = solve(problem, start, max_iterations)
    return outcome.result(problem, outcome.plan, outcome.f, outcome.g)


def softmax_attention(cost: Any, a: Any = None, b: Any = None, *, epsilon: float | Tensor) -> SinkhornResult:
    """Softmax attention as a joint plan: entropic transport whose column marginal is free.

    P_ij = a_i b_j exp(−C_ij/ε) / Σ_l b_l exp(−C_il/ε): row sums are a exactly, column sums are the mass received. It is
    the first half-step of Sinkhorn's iteration from g = 0, and `sinkhorn` with column_relaxation=0.

    Args:
        cost: (…, n, m), minus the scores. a, b: weights, uniform if None; b need not have a's sum. epsilon: ε > 0.

    Returns:
        SinkhornResult with the joint plan; divide its rows by a for attention weights. `column_error` tells how far
        the mass received is from b.

    Raises:
        ValueError: as `sinkhorn`.

    Source: Litman, "Scaled-dot-product attention as one-sided entropic optimal transport" (2025).

    Example:
        >>> softmax_attention([[0.0, 1.0]], epsilon=1.0).plan.round(decimals=4).tolist()  # softmax of (0, −1)
        [[0.7311, 0.2689]]
    """
    return sinkhorn(cost, a, b, epsilon=epsilon, column_relaxation=0.0)
