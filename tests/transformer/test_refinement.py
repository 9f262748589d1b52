"""The network that corrects scores by what stands around a pair: by hand, its laws, and rows taken in parts."""

from __future__ import annotations

import math

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from sinkviz.measure import Measure
from sinkviz.transformer import ModelConfig, SinkhornTransformer, pad, refinement, with_neighbours
from sinkviz.transformer.refinement import TEMPERATURE, Refinement, soft_maximum


def model_of(neighbours: int = 2, width: int = 6, seed: int = 0) -> SinkhornTransformer:
    """A model whose every part speaks: a network that starts as 0 would hide its faults."""
    torch.manual_seed(seed)
    model = SinkhornTransformer(
        3, width=8, layers=1, heads=2, out=4, epsilon=0.3, residual=True, neighbours=neighbours, refinement=width
    ).double()
    with torch.no_grad():
        model.score_scale.fill_(0.5)
        model.neighbour_scale.fill_(0.2)
        model.refinement.leave.weight.normal_()
    return model.eval()


def clouds(seed: int, n: int, m: int, neighbours: int = 2) -> tuple[torch.Tensor, ...]:
    random = np.random.default_rng(seed)
    a, b = random.uniform(0.2, 1, n), random.uniform(0.2, 1, m)
    points = [with_neighbours(torch.from_numpy(random.normal(size=(k, 3))), neighbours) for k in (n, m)]
    return points[0], torch.from_numpy(a / a.sum()), points[1], torch.from_numpy(b / b.sum())


def test_it_starts_as_nothing() -> None:
    x, a, y, b = clouds(0, 5, 4)
    options = {"width": 8, "layers": 1, "heads": 2, "out": 4, "epsilon": 0.3, "residual": True, "neighbours": 2}
    torch.manual_seed(0)
    plain = SinkhornTransformer(3, **options).double()
    torch.manual_seed(0)
    refined = SinkhornTransformer(3, **options, refinement=6).double()
    assert torch.equal(refined.cost_tensor(x, a, y, b), plain.cost_tensor(x, a, y, b))


@settings(max_examples=20, deadline=None)
@given(st.integers(0, 1000), st.integers(1, 6), st.integers(1, 6), st.integers(1, 2))
def test_by_hand(seed: int, n: int, m: int, neighbours: int) -> None:
    x, a, y, b = clouds(seed, n, m, neighbours)
    model = model_of(neighbours, seed=seed)
    part = model.refinement
    before = SinkhornTransformer.from_config(ModelConfig(**{**model.config.as_dict(), "refinement": 0})).double()
    before.load_state_dict(model.state_dict(), strict=False)
    query, key = (one.detach() for one in model.encode(x, a, y, b))
    learned = 0.5 * query @ key.T / math.sqrt(4)
    places = [0, *(sign * k for k in range(1, neighbours + 1) for sign in (-1, 1))]

    def cosine(i: int, j: int) -> float:
        if not (0 <= i < n and 0 <= j < m):
            return 0.0
        return float(torch.nn.functional.cosine_similarity(x[i, :3], y[j, :3], dim=0))

    expected = before.cost_tensor(x, a, y, b).detach().clone()
    for i in range(n):
        for j in range(m):
            near = [
                TEMPERATURE * math.log(sum(float(w) * math.exp(cosine(*at) / TEMPERATURE) for at, w in side))
                for side in ([((i, k), b[k]) for k in range(m)], [((k, j), a[k]) for k in range(n)])
            ]
            features = [cosine(i + p, j + q) for p in places for q in places] + [*near, float(learned[i, j].detach())]
            hidden = torch.nn.functional.gelu(part.enter(part.norm(torch.tensor(features, dtype=torch.float64))))
            expected[i, j] -= part.leave(hidden)[0].detach()
    torch.testing.assert_close(model.cost_tensor(x, a, y, b).detach(), expected, atol=1e-9, rtol=0)


def test_the_laws_hold_on_points_that_carry_their_neighbours() -> None:
    x, a, y, b = clouds(1, 5, 4)
    model = model_of()
    plan = model(x, a, y, b).plan
    rows, columns = torch.tensor([3, 0, 4, 1, 2]), torch.tensor([2, 3, 0, 1])
    torch.testing.assert_close(
        model(x[rows], a[rows], y[columns], b[columns]).plan, plan[rows][:, columns], atol=1e-6, rtol=0
    )
    split = model(torch.cat((x, x[:1])), torch.cat((a[:1] / 2, a[1:], a[:1] / 2)), y, b).plan
    torch.testing.assert_close(split[0] + split[5], plan[0], atol=1e-6, rtol=0)
    torch.testing.assert_close(split[1:5], plan[1:], atol=1e-6, rtol=0)


def test_padding_changes_nothing() -> None:
    model = model_of()
    pairs = [clouds(seed, n, m) for seed, n, m in ((0, 2, 5), (1, 6, 1), (2, 3, 3))]
    x, a = pad([pair[0] for pair in pairs], [pair[1] for pair in pairs])
    y, b = pad([pair[2] for pair in pairs], [pair[3] for pair in pairs])
    whole = model.cost_tensor(x, a, y, b)
    for k, pair in enumerate(pairs):
        n, m = len(pair[0]), len(pair[2])
        torch.testing.assert_close(whole[k, :n, :m], model.cost_tensor(*pair), atol=1e-9, rtol=0)
    whole.sum().backward()
    assert all(bool(torch.isfinite(p.grad).all()) for p in model.parameters() if p.grad is not None)


def test_rows_taken_in_parts_are_the_same(monkeypatch: pytest.MonkeyPatch) -> None:
    model = model_of()
    x, a, y, b = clouds(3, 7, 5)
    whole = model.cost_tensor(x, a, y, b)
    monkeypatch.setattr(refinement, "_PAIRS_AT_ONCE", 11)
    torch.testing.assert_close(model.cost_tensor(x, a, y, b), whole, atol=1e-12, rtol=0)
    batch = model.cost_tensor(x.expand(3, -1, -1), a.expand(3, -1), y.expand(3, -1, -1), b.expand(3, -1))
    torch.testing.assert_close(batch, whole.expand(3, -1, -1), atol=1e-12, rtol=0)


def test_measures_and_traces_agree() -> None:
    model = model_of()
    random = np.random.default_rng(5)
    source, target = (Measure.from_points(random.normal(size=(k, 3))) for k in (4, 6))
    trace = model.trace_measures(source, target)
    assert trace.result.converged
    np.testing.assert_allclose(model.cost(source, target)[0], trace.cost, atol=1e-6)
    assert float((trace.result.plan.sum(1) - 0.25).abs().sum()) <= 1e-6


def test_dropout_is_for_training_only() -> None:
    model = model_of(width=64)
    arguments = clouds(4, 5, 5)
    assert torch.equal(model.cost_tensor(*arguments), model.cost_tensor(*arguments))
    model.train()
    assert not torch.equal(model.cost_tensor(*arguments), model.cost_tensor(*arguments))


def test_the_soft_maximum_is_between_mean_and_maximum() -> None:
    random = np.random.default_rng(0)
    table = torch.from_numpy(random.uniform(-1, 1, (6, 9)))
    weights = torch.from_numpy(random.dirichlet(np.ones(9)))
    found = soft_maximum(table, weights)[:, 0]
    assert bool((found <= table.amax(1)).all())
    assert bool((found >= table @ weights).all())
    assert Refinement(2, 4).enter.in_features == 28
