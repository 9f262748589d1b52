"""Random problems of the kinds that break solvers, and an independent judge of a result."""

from __future__ import annotations

import math

import torch
from torch import Tensor

KINDS = ("plain", "ties", "duplicates", "offsets", "degenerate", "scaled", "structured")


def random_cost(kind: str, rows: int, columns: int, generator: torch.Generator) -> Tensor:
    """A cost (rows, columns), float64, with range about 1."""
    cost = torch.rand(rows, columns, generator=generator, dtype=torch.float64)
    if kind == "ties":
        cost = (cost * 4).round() / 4
    elif kind == "duplicates":
        cost = cost[torch.randint(0, max(1, rows // 2), (rows,), generator=generator)]
        cost = cost[:, torch.randint(0, max(1, columns // 2), (columns,), generator=generator)]
    elif kind == "offsets":
        cost = cost + 1e6 * torch.randn((), generator=generator, dtype=torch.float64)
        cost = cost + 100 * torch.randn(rows, 1, generator=generator, dtype=torch.float64)
        cost = cost + 100 * torch.randn(1, columns, generator=generator, dtype=torch.float64)
    elif kind == "degenerate":
        x = torch.linspace(0, 1, rows, dtype=torch.float64)
        y = torch.linspace(0, 1, columns, dtype=torch.float64)
        cost = (x[:, None] - y).abs()
    elif kind == "scaled":
        cost = cost * 10 ** float(torch.randint(-6, 7, (), generator=generator))
    elif kind == "structured":
        x = torch.randn(rows, 3, generator=generator, dtype=torch.float64)
        y = torch.randn(columns, 3, generator=generator, dtype=torch.float64)
        cost = -(x @ y.T) / 10
    return cost


def random_weights(count: int, generator: torch.Generator, concentration: float | None) -> Tensor:
    """Weights with sum 1: Dirichlet of the given concentration, uniform if None."""
    if concentration is None:
        return torch.full((count,), 1 / count, dtype=torch.float64)
    gamma = torch._standard_gamma(torch.full((count,), concentration, dtype=torch.float64), generator=generator)
    if not float(gamma.sum()) > 0:
        gamma = torch.zeros(count, dtype=torch.float64)
        gamma[0] = 1
    return gamma / gamma.sum()


def random_batch(seed: int, count: int, largest: int = 64) -> dict[str, Tensor]:
    """A ragged batch of hard problems: sizes 1 to largest, ε over six decades of the cost's range, all weights."""
    generator = torch.Generator().manual_seed(seed)
    cost = torch.rand(count, largest, largest, generator=generator, dtype=torch.float64)
    a = torch.zeros(count, largest, dtype=torch.float64)
    b = torch.zeros(count, largest, dtype=torch.float64)
    epsilon = torch.zeros(count, dtype=torch.float64)
    for k in range(count):
        rows, columns = (int(x) for x in torch.randint(1, largest + 1, (2,), generator=generator))
        kind = KINDS[(seed + k) % len(KINDS)]
        part = random_cost(kind, rows, columns, generator)
        cost[k, :rows, :columns] = part
        concentration = (0.05, 0.05, 1.0, None)[int(torch.randint(0, 4, (), generator=generator))]
        a[k, :rows] = random_weights(rows, generator, concentration)
        b[k, :columns] = random_weights(columns, generator, concentration)
        span = float(part.max() - part.min()) or 1.0
        epsilon[k] = span * 10 ** float(-6 * torch.rand((), generator=generator, dtype=torch.float64))
    return {"cost": cost, "a": a, "b": b, "epsilon": epsilon}


def judge(
    cost: Tensor,
    a: Tensor,
    b: Tensor,
    plan: Tensor,
    f: Tensor,
    g: Tensor,
    epsilon: Tensor,
    rho_a: float = math.inf,
    rho_b: float = math.inf,
) -> tuple[Tensor, Tensor]:
    """Recompute, from the outside, how far a plan is from optimal: L1 residual of the marginals' conditions, and the L1
    distance of the plan from the one that its potentials give. Both as a share of the mass."""
    rows, columns = plan.double().sum(-1), plan.double().sum(-2)

    def target(weights: Tensor, potential: Tensor, rho: float, sums: Tensor) -> Tensor:
        if rho == math.inf:
            return weights
        if rho == 0:
            return sums
        return torch.where(weights > 0, weights * torch.exp(-potential / rho), 0.0)

    residual = torch.maximum(
        (rows - target(a, f, rho_a, rows)).abs().sum(-1), (columns - target(b, g, rho_b, columns)).abs().sum(-1)
    )
    exponent = (f.unsqueeze(-1) + g.unsqueeze(-2) - cost) / epsilon[..., None, None]
    exponent = exponent + a.log().unsqueeze(-1) + b.log().unsqueeze(-2)
    alive = (a > 0).unsqueeze(-1) & (b > 0).unsqueeze(-2) & cost.isfinite()
    formula = torch.where(alive, exponent.exp(), 0.0)
    mass = torch.maximum(a.sum(-1), rows.sum(-1)) if min(rho_a, rho_b) < math.inf else a.sum(-1)
    return residual / mass, (formula - plan).abs().sum((-1, -2)) / mass
