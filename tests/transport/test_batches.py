"""Batches: every item as if it were alone."""

from __future__ import annotations

import math

import pytest
import torch
from torch import Tensor
from transport_problems import judge, random_batch

from sinkviz.transport import SinkhornResult, batched, exact_plan, outcome, sinkhorn, softmax_attention

INF = math.inf
RELAXATIONS = [(None, None), (None, 0.3), (0.2, None), (0.4, 0.3), (None, 0.0), (0.0, None), (0.0, 0.0)]


def gentle(count: int = 12, seed: int = 0) -> dict[str, Tensor]:
    batch = random_batch(seed, count, 24)
    batch["cost"] = batch["cost"] - batch["cost"].amin((-2, -1), keepdim=True)
    span = torch.where(
        (batch["a"] > 0)[:, :, None] & (batch["b"] > 0)[:, None, :], batch["cost"], torch.zeros(())
    ).amax((-2, -1))
    batch["cost"] = batch["cost"] / span.clamp_min(1e-12)[:, None, None]
    batch["epsilon"] = 10 ** -(
        3 * torch.rand(count, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)
    )
    return batch


@pytest.mark.parametrize(("rho_a", "rho_b"), RELAXATIONS)
def test_ragged_batches_equal_single_solves(rho_a: float | None, rho_b: float | None) -> None:
    p = gentle()
    together = sinkhorn(
        p["cost"], p["a"], p["b"], epsilon=p["epsilon"], row_relaxation=rho_a, column_relaxation=rho_b, tolerance=1e-9
    )
    assert (together.status == "converged").all()
    assert bool(torch.as_tensor(together.converged).all())
    for k in range(len(p["a"])):
        alive_a, alive_b = p["a"][k] > 0, p["b"][k] > 0
        alone = sinkhorn(
            p["cost"][k][alive_a][:, alive_b], p["a"][k][alive_a], p["b"][k][alive_b], epsilon=float(p["epsilon"][k]),
            row_relaxation=rho_a, column_relaxation=rho_b, tolerance=1e-9,
        )  # fmt: skip
        assert alone.status == "converged"
        assert torch.allclose(together.plan[k][alive_a][:, alive_b], alone.plan, atol=2e-8)
        assert float(together.plan[k][~alive_a].sum() + together.plan[k][:, ~alive_b].sum()) == 0
        if rho_a is not None or rho_b is not None:
            heavy = p["a"][k][alive_a] > 1e-4
            assert torch.allclose(together.f[k][alive_a][heavy], alone.f[heavy], atol=1e-4)


def test_an_easy_item_is_unchanged_by_a_hard_neighbour() -> None:
    p = gentle(2, seed=9)
    epsilon = torch.tensor([0.5, 0.5], dtype=torch.float64)
    easy = sinkhorn(p["cost"], p["a"], p["b"], epsilon=epsilon)
    epsilon[1] = 1e-6
    beside = sinkhorn(p["cost"], p["a"], p["b"], epsilon=epsilon)
    assert torch.allclose(easy.plan[0], beside.plan[0], rtol=1e-12, atol=1e-15)
    assert int(easy.iterations[0]) == int(beside.iterations[0])
    assert int(beside.iterations[1]) > int(beside.iterations[0])


def test_epsilon_per_item_on_one_cost() -> None:
    cost = torch.rand(5, 7, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
    grid = torch.tensor([[1.0, 0.1], [0.01, 0.3]], dtype=torch.float64)
    result = sinkhorn(cost, epsilon=grid)
    assert result.plan.shape == (2, 2, 5, 7)
    assert result.f.shape == (2, 2, 5)
    assert result.status.shape == (2, 2)
    for i in range(2):
        for j in range(2):
            alone = sinkhorn(cost, epsilon=float(grid[i, j]))
            assert torch.allclose(result.plan[i, j], alone.plan, atol=2e-6)


def test_relaxation_per_item_from_attention_to_coupling() -> None:
    cost = torch.rand(5, 7, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
    rho = torch.tensor([0.0, 0.01, 0.1, 1.0, INF], dtype=torch.float64)
    result = sinkhorn(cost, epsilon=0.1, column_relaxation=rho)
    assert (result.status == "converged").all()
    assert torch.allclose(result.plan[0], softmax_attention(cost, epsilon=0.1).plan, atol=1e-13)
    assert torch.allclose(result.plan[4], sinkhorn(cost, epsilon=0.1).plan, atol=2e-6)
    errors = result.column_error
    assert bool((errors[1:] < errors[:-1]).all())


def test_status_and_errors_are_per_item() -> None:
    p = gentle(3)
    epsilon = torch.tensor([1.0, 1e-5, 1.0], dtype=torch.float64)
    result = sinkhorn(p["cost"], p["a"], p["b"], epsilon=epsilon, max_iterations=6)
    assert result.status[0] == result.status[2] == "converged"
    assert result.status[1] == "max_iterations"
    assert float(result.residual[1]) > 1e-6
    assert not bool(result.plan.isnan().any())


def test_large_items_are_solved_one_after_another() -> None:
    cost = torch.rand(2, 150, 160, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
    result = sinkhorn(cost, epsilon=0.01)
    for k in range(2):
        assert torch.equal(result.plan[k], sinkhorn(cost[k], epsilon=0.01).plan)


@pytest.mark.parametrize("relaxation", [None, 0.3])
def test_large_items_together_use_conjugate_gradients(
    monkeypatch: pytest.MonkeyPatch, relaxation: float | None
) -> None:
    """The way that CUDA goes, on the CPU."""
    monkeypatch.setattr(outcome, "SMALL", 10**9)
    monkeypatch.setattr(batched, "DENSE", 16)
    cost = torch.rand(3, 40, 50, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
    epsilon = torch.tensor([0.3, 0.01, 1e-3], dtype=torch.float64)
    together = sinkhorn(cost, epsilon=epsilon, column_relaxation=relaxation)
    assert (together.status == "converged").all()
    residual, _ = judge(
        cost, torch.full((3, 40), 1 / 40).double(), torch.full((3, 50), 1 / 50).double(),
        together.plan, together.f, together.g, epsilon, INF, relaxation or INF,
    )  # fmt: skip
    assert float(residual.max()) <= 1e-6


def test_a_warm_start_for_every_item() -> None:
    p = gentle()
    first = sinkhorn(p["cost"], p["a"], p["b"], epsilon=p["epsilon"])
    again = sinkhorn(p["cost"], p["a"], p["b"], epsilon=p["epsilon"], init=(first.f, first.g))
    assert (again.status == "converged").all()
    assert int(again.iterations.sum()) < int(first.iterations.sum()) / 3
    assert torch.allclose(again.plan, first.plan, atol=2e-6)


def test_a_weighted_filler_is_no_part_of_the_problem() -> None:
    p = gentle()
    filled = p["cost"].clone()
    dead = (p["a"] == 0)[:, :, None] | (p["b"] == 0)[:, None, :]
    filled[dead] = 1e9
    one = sinkhorn(p["cost"], p["a"], p["b"], epsilon=p["epsilon"])
    other = sinkhorn(filled, p["a"], p["b"], epsilon=p["epsilon"])
    assert torch.allclose(one.plan, other.plan, rtol=1e-9, atol=1e-15)


def test_batches_of_exact_plans_keep_their_shape() -> None:
    assert exact_plan(torch.rand(2, 3, 4, 5, dtype=torch.float64)).shape == (2, 3, 4, 5)


def test_forbidden_pairs_in_a_batch() -> None:
    cost = torch.zeros(3, 2, 2, dtype=torch.float64)
    cost[0, 0, 1] = cost[0, 1, 0] = INF
    cost[1, 1, 0] = INF
    result = sinkhorn(cost, epsilon=0.1)
    eye = torch.eye(2, dtype=torch.float64) / 2
    assert torch.allclose(result.plan[0], eye, atol=1e-12)
    assert torch.allclose(result.plan[1], eye, atol=3e-6)
    assert torch.allclose(result.plan[2], torch.full((2, 2), 0.25, dtype=torch.float64), atol=1e-12)
    empty = sinkhorn(torch.full((2, 2, 2), INF), epsilon=0.1, row_relaxation=0.5, column_relaxation=0.5)
    assert float(empty.plan.sum()) == 0


@pytest.mark.skipif(not torch.cuda.is_available(), reason="no CUDA device on this machine")
@pytest.mark.parametrize("size", [40, 300])
def test_cuda_equals_the_cpu(size: int) -> None:
    cost = torch.rand(3, size, size, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
    epsilon = torch.tensor([0.3, 0.01, 1e-3], dtype=torch.float64)
    there: SinkhornResult = sinkhorn(cost.cuda(), epsilon=epsilon.cuda())
    here = sinkhorn(cost, epsilon=epsilon)
    assert there.plan.is_cuda
    assert (there.status == "converged").all()
    assert torch.allclose(there.plan.cpu(), here.plan, atol=2e-6)
