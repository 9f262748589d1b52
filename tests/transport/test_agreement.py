"""Against POT on easy problems and against 50-digit arithmetic on hard ones."""

from __future__ import annotations

import mpmath
import numpy as np
import pytest
import torch
from torch import Tensor
from transport_problems import random_cost, random_weights

from sinkviz.transport import exact_plan, sinkhorn


@pytest.mark.parametrize("kind", ["plain", "ties", "structured", "duplicates"])
@pytest.mark.parametrize("epsilon", [0.2, 1.0])
def test_pot_on_easy_problems(kind: str, epsilon: float) -> None:
    import ot

    generator = torch.Generator().manual_seed(4)
    cost = random_cost(kind, 17, 23, generator)
    a, b = random_weights(17, generator, 1.0), random_weights(23, generator, 1.0)
    plan = sinkhorn(cost, a, b, epsilon=epsilon, tolerance=1e-12).plan
    peer = ot.sinkhorn(
        a.numpy(), b.numpy(), cost.numpy(), epsilon, method="sinkhorn_log", stopThr=1e-14, numItermax=100_000
    )
    assert np.abs(plan.numpy() - peer).max() <= 1e-8


def test_pot_on_unbalanced_problems() -> None:
    import ot

    generator = torch.Generator().manual_seed(4)
    cost = random_cost("plain", 11, 8, generator)
    a, b = random_weights(11, generator, 1.0), random_weights(8, generator, 1.0)
    for rho in (0.05, 1.0):
        plan = sinkhorn(cost, a, b, epsilon=0.2, row_relaxation=rho, column_relaxation=rho, tolerance=1e-12).plan
        peer = ot.unbalanced.sinkhorn_unbalanced(
            a.numpy(), b.numpy(), cost.numpy(), 0.2, rho, reg_type="kl", stopThr=1e-15, numItermax=100_000
        )
        assert np.abs(plan.numpy() - peer).max() <= 1e-8


def test_the_exact_plan_is_pots() -> None:
    import ot

    generator = torch.Generator().manual_seed(4)
    cost = random_cost("plain", 11, 8, generator)
    a, b = random_weights(11, generator, 1.0), random_weights(8, generator, 1.0)
    assert np.allclose(exact_plan(cost, a, b).numpy(), ot.emd(a.numpy(), b.numpy(), cost.numpy()), atol=1e-12)
    batch = exact_plan(cost.expand(2, 11, 8), a, b)
    assert torch.equal(batch[0], batch[1])


def test_the_exact_plan_avoids_forbidden_pairs_and_dead_atoms() -> None:
    cost = torch.tensor([[0.0, 1.0, 5.0], [torch.inf, 0.0, 5.0]], dtype=torch.float64)
    plan = exact_plan(cost, [0.5, 0.5], [0.5, 0.5, 0.0])
    assert plan.tolist() == [[0.5, 0.0, 0.0], [0.0, 0.5, 0.0]]


def reference(cost: Tensor, a: Tensor, b: Tensor, epsilon: float, start: Tensor) -> Tensor:
    """Newton's method on the dual in 50 digits, from potentials near the solution; certified by its own marginals."""
    mpmath.mp.dps = 50
    rows, columns = cost.shape
    costs = [[mpmath.mpf(float(x)) for x in row] for row in cost]
    weights_a = [mpmath.mpf(float(x)) for x in a]
    weights_b = [mpmath.mpf(float(x)) for x in b]
    total = sum(weights_a)
    weights_b = [x * total / sum(weights_b) for x in weights_b]
    g = [mpmath.mpf(float(x)) / epsilon for x in start]
    for _ in range(60):
        plan = []
        for i in range(rows):
            row = [weights_b[j] * mpmath.exp(g[j] - costs[i][j] / epsilon) for j in range(columns)]
            level = sum(row)
            plan.append([weights_a[i] * x / level for x in row])
        sums = [sum(plan[i][j] for i in range(rows)) for j in range(columns)]
        error = sum(abs(x - y) for x, y in zip(sums, weights_b, strict=True))
        if error < mpmath.mpf(10) ** -30:
            break
        # The last potential stays where it is: constants change nothing.
        system = mpmath.matrix(columns - 1, columns - 1)
        for j in range(columns - 1):
            for k in range(columns - 1):
                shared = sum(plan[i][j] * plan[i][k] / weights_a[i] for i in range(rows))
                system[j, k] = (sums[j] if j == k else 0) - shared
        right = mpmath.matrix([weights_b[j] - sums[j] for j in range(columns - 1)])
        step = mpmath.lu_solve(system, right)
        for j in range(columns - 1):
            g[j] += step[j]
    assert error < mpmath.mpf(10) ** -30
    return torch.tensor([[float(x) for x in row] for row in plan], dtype=torch.float64)


@pytest.mark.parametrize("kind", ["plain", "ties", "degenerate", "structured"])
@pytest.mark.parametrize("epsilon", [1e-2, 1e-3])
def test_fifty_digits_on_hard_problems(kind: str, epsilon: float) -> None:
    generator = torch.Generator().manual_seed(8)
    cost = random_cost(kind, 7, 6, generator)
    a, b = random_weights(7, generator, 1.0), random_weights(6, generator, 1.0)
    # An optimum of width: weights of its own for each row keep a tie from resting on rounding alone.
    result = sinkhorn(cost, a, b, epsilon=epsilon, tolerance=1e-13)
    right = reference(cost, a, b, epsilon, result.g)
    default = sinkhorn(cost, a, b, epsilon=epsilon)
    assert float((result.plan - right).abs().max()) <= 1e-10
    assert float((default.plan - right).abs().max()) <= 1e-5
