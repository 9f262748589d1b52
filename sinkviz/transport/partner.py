"""A null partner on each side, for words that have no counterpart."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from sinkviz.transport.problem import prepare


def with_null_partner(
    cost: Any, a: Any = None, b: Any = None, *, null_cost: float | Tensor
) -> tuple[Tensor, Tensor, Tensor]:
    """Add a null row and a null column: the balanced problem in which an atom may stay without a partner.

    The null row and column cost z each, their corner 0, and the marginals are (a, 1)/2 and (b, 1)/2 for weights with
    sum 1. What an atom sends to the null is then ≥ 0 and at most its weight; report twice the real block.

    Args:
        cost: (…, n, m). a, b: weights (…, n) and (…, m), uniform if None.
        null_cost: z, in units of the cost, a finite number or one for each item. Differentiable.

    Returns:
        Cost (…, n+1, m+1) and weights (…, n+1), (…, m+1), as `sinkhorn` takes them.

    Raises:
        ValueError: a null cost that is not finite, or anything that `sinkhorn` would refuse.

    Example:
        >>> cost, a, b = with_null_partner([[0.0, 9.0]], null_cost=1.0)
        >>> cost.tolist(), a.tolist(), b.tolist()
        ([[0.0, 9.0, 1.0], [1.0, 1.0, 0.0]], [0.5, 0.5], [0.25, 0.25, 0.5])
    """
    # Only the arguments are checked here: forbidden pairs that make the problem infeasible no longer do.
    problem = prepare(cost, a, b, 1.0, row_relaxation=0.0, column_relaxation=0.0)
    values, batch = problem.cost, problem.batch
    price = torch.as_tensor(null_cost, dtype=values.dtype, device=values.device)
    if not bool(price.detach().isfinite().all()):
        raise ValueError(f"null_cost: expected a finite number in the units of the cost, got {null_cost}")
    price = price.expand(batch)
    rows, columns = values.shape[-2:]
    right = price[..., None, None].expand(*batch, rows, 1)
    below = price[..., None, None].expand(*batch, 1, columns)
    corner = values.new_zeros(*batch, 1, 1)
    top = torch.cat([values, right], -1)
    bottom = torch.cat([below, corner], -1)
    weights = []
    for weight in (problem.a, problem.b):
        weight = weight.expand(*batch, weight.shape[-1])
        mass = weight.sum(-1, keepdim=True)
        weights.append(torch.cat([weight, mass], -1) / 2)
    return torch.cat([top, bottom], -2), weights[0], weights[1]
