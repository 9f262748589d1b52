"""The unit of ε: how much of the cost a balanced plan can feel."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from sinkviz.transport.problem import prepare

ROUNDING = 64
"""Scales below this many roundings of the largest cost are rounding themselves."""


def cost_scale(cost: Any, a: Any = None, b: Any = None) -> Tensor:
    """Weighted standard deviation of the double-centred cost, over its finite entries.

    scale² = Σ_ij a_i b_j C̃_ij² / Σ_ij a_i b_j, where C̃ = C − r_i − s_j is the part that no row or column offset can
    explain (the weighted least-squares fit; row means and column means if every entry is finite). A balanced plan is
    unchanged by such offsets, so this, and not max|C|, is what ε compares with.

    Args:
        cost: (…, n, m); +inf marks a forbidden pair and is left out.
        a, b: weights (…, n) and (…, m); uniform if None.

    Returns:
        (…), float64, in units of the cost. Exactly 0 for a constant cost (up to offsets), and for one row or column:
        then the balanced plan is a⊗b for every ε.

    Raises:
        ValueError: a cost or weights that `sinkhorn` would refuse.

    Example:
        >>> float(cost_scale([[0.0, 1.0], [1.0, 0.0]]))
        0.5
        >>> float(cost_scale([[3.0, 4.0], [13.0, 14.0]]))
        0.0
    """
    problem = prepare(cost, a, b, 1.0, row_relaxation=0.0, column_relaxation=0.0)
    values = problem.cost.detach().double()
    weight_a, weight_b = problem.a.detach(), problem.b.detach()
    weight_a = weight_a / weight_a.sum(-1, keepdim=True)
    weight_b = weight_b / weight_b.sum(-1, keepdim=True)
    if problem.cost.shape[-1] == 1 or problem.cost.shape[-2] == 1:
        return values.new_zeros(problem.batch)
    anchor = problem.low
    if problem.forbidden:
        allowed = values.isfinite().double()
        centred = torch.where(allowed > 0, values - anchor, 0.0)
        centred = _fit(centred, allowed, weight_a, weight_b)
        pair = weight_a.unsqueeze(-1) * weight_b.unsqueeze(-2) * allowed
        variance = (pair * centred.square()).sum((-2, -1)) / pair.sum((-2, -1)).clamp_min(1e-300)
    else:
        centred = values - anchor
        rows = (centred * weight_b.unsqueeze(-2)).sum(-1, keepdim=True)
        columns = ((centred - rows) * weight_a.unsqueeze(-1)).sum(-2, keepdim=True)
        centred = centred - rows - columns
        variance = (weight_a.unsqueeze(-1) * weight_b.unsqueeze(-2) * centred.square()).sum((-2, -1))
    scale = variance.sqrt()
    size = max(abs(problem.low), abs(problem.high), problem.high - problem.low)
    floor = ROUNDING * torch.finfo(problem.cost.dtype).eps * size
    return torch.where(scale <= floor, 0.0, scale)


def _fit(values: Tensor, allowed: Tensor, a: Tensor, b: Tensor) -> Tensor:
    """Take off the row and column offsets that fit the allowed entries best (weighted least squares)."""
    pair = a.unsqueeze(-1) * b.unsqueeze(-2) * allowed
    row_weight, column_weight = pair.sum(-1), pair.sum(-2)
    batch, (rows, columns) = values.shape[:-2], values.shape[-2:]
    system = values.new_zeros(*batch, rows + columns, rows + columns)
    system[..., :rows, :rows] = torch.diag_embed(row_weight)
    system[..., rows:, rows:] = torch.diag_embed(column_weight)
    system[..., :rows, rows:] = pair
    system[..., rows:, :rows] = pair.transpose(-1, -2)
    right = torch.cat([(pair * values).sum(-1), (pair * values).sum(-2)], -1)
    offsets = (torch.linalg.pinv(system, hermitian=True) @ right.unsqueeze(-1)).squeeze(-1)
    return (values - offsets[..., :rows, None] - offsets[..., None, rows:]) * allowed
