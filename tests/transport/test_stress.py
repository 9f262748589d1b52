"""10,000 random problems, no wrong status."""

from __future__ import annotations

import math

import pytest
import torch
from transport_problems import judge, random_batch

from sinkviz.transport import sinkhorn

INF = math.inf


@pytest.mark.parametrize("seed", range(10))
def test_no_wrong_status_among_a_thousand(seed: int) -> None:
    """Sizes 1–64, Dirichlet(0.05) weights, ε over six decades, ties, duplicates, huge offsets; balanced and relaxed."""
    count = 1000
    p = random_batch(100 + seed, count)
    generator = torch.Generator().manual_seed(seed)
    kind = torch.randint(0, 10, (count,), generator=generator)
    rho_a, rho_b = torch.full((count,), INF, dtype=torch.float64), torch.full((count,), INF, dtype=torch.float64)
    span = p["cost"].abs().amax((-2, -1))
    relaxed = span * 10 ** (2 * torch.rand(count, generator=generator, dtype=torch.float64) - 2)
    rho_b[kind == 0] = relaxed[kind == 0]
    rho_b[kind == 1] = 0.0
    both = kind == 2
    rho_a[both] = rho_b[both] = relaxed[both]
    # Relaxed on both sides, a negative cost creates mass without bound.
    low = p["cost"].amin((-2, -1), keepdim=True)
    p["cost"] = torch.where(both[:, None, None], p["cost"] - low, p["cost"])
    result = sinkhorn(p["cost"], p["a"], p["b"], epsilon=p["epsilon"], row_relaxation=rho_a, column_relaxation=rho_b)
    for tensor in (result.plan, result.f, result.g, result.residual, result.row_error, result.duality_gap):
        assert not bool(torch.as_tensor(tensor).isnan().any())
    residual = torch.zeros(count, dtype=torch.float64)
    formula = torch.zeros(count, dtype=torch.float64)
    for k in range(count):
        one, two = judge(
            *(p[name][k] for name in ("cost", "a", "b")), result.plan[k], result.f[k], result.g[k], p["epsilon"][k],
            float(rho_a[k]), float(rho_b[k]),
        )  # fmt: skip
        residual[k], formula[k] = one, two
    converged = torch.from_numpy(result.status == "converged")
    wrong = converged & ~(residual <= 1e-6 * (1 + 1e-6))
    assert not bool(wrong.any()), f"said to be converged, but is not: {wrong.nonzero().flatten().tolist()}"
    hidden = ~converged & (residual <= 0.99e-6)
    assert not bool(hidden.any())
    balanced = (rho_a == INF) & (rho_b == INF)
    for name, axis in (("a", -1), ("b", -2)):
        marginal = (result.plan.sum(axis) - p[name]).abs().sum(-1)
        assert float(marginal[balanced & converged].max()) <= 1e-6
    assert int(converged.sum()) >= count - 2, f"not converged: {(~converged).nonzero().flatten().tolist()}"
    # A plan that is not the one of its potentials is no solution, whatever its marginals. Offsets of 1e6 leave 1e-10 of
    # the cost, which is so much of the smallest ε.
    rounding = 4e-16 * p["cost"].abs().amax((-2, -1)) / p["epsilon"]
    assert bool((formula[converged] <= 2e-6 + 10 * rounding[converged]).all())
