"""The Sinkhorn Transformer: marginals, invariances, ragged batches, variants, gradients."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from sinkviz import transport
from sinkviz.measure import Measure
from sinkviz.transformer import NORMALISATIONS, ModelConfig, SinkhornTransformer, pad, with_neighbours


def _model(normalisation: str = "sinkhorn", seed: int = 0, **more: object) -> SinkhornTransformer:
    torch.manual_seed(seed)
    if normalisation == "relaxed":
        more.setdefault("relaxation", 0.2)
    return SinkhornTransformer(
        2, width=8, layers=2, heads=2, out=4, epsilon=0.1, normalisation=normalisation, **more
    ).double()  # type: ignore[arg-type]


def _clouds(seed: int, n: int, m: int) -> tuple[torch.Tensor, ...]:
    random = np.random.default_rng(seed)
    a, b = random.uniform(0.2, 1, n), random.uniform(0.2, 1, m)
    arrays = (random.normal(size=(n, 2)), a / a.sum(), random.normal(size=(m, 2)), b / b.sum())
    return tuple(torch.from_numpy(array) for array in arrays)


@settings(max_examples=15, deadline=None)
@given(st.integers(0, 1000), st.integers(1, 8), st.integers(1, 8))
def test_marginals(seed: int, n: int, m: int) -> None:
    x, a, y, b = _clouds(seed, n, m)
    result = _model()(x, a, y, b)
    assert result.converged
    assert float((result.plan.sum(1) - a).abs().sum()) <= 1e-6
    assert float((result.plan.sum(0) - b).abs().sum()) <= 1e-6


@pytest.mark.parametrize("normalisation", NORMALISATIONS)
def test_permutations_and_split_masses(normalisation: str) -> None:
    x, a, y, b = _clouds(1, 5, 4)
    model = _model(normalisation)
    plan = model(x, a, y, b).plan
    rows, columns = torch.tensor([3, 0, 4, 1, 2]), torch.tensor([2, 3, 0, 1])
    shuffled = model(x[rows], a[rows], y[columns], b[columns]).plan
    torch.testing.assert_close(shuffled, plan[rows][:, columns], atol=1e-6, rtol=0)
    split = model(torch.cat((x, x[:1])), torch.cat((a[:1] / 2, a[1:], a[:1] / 2)), y, b).plan
    merged = split[:5].clone()
    merged[0] += split[5]
    torch.testing.assert_close(merged, plan, atol=1e-6, rtol=0)


def test_the_variants_keep_what_they_promise() -> None:
    x, a, y, b = _clouds(2, 6, 5)
    plans = {name: _model(name)(x, a, y, b).plan.detach() for name in NORMALISATIONS}
    for plan in plans.values():
        torch.testing.assert_close(plan.sum(1), a, atol=1e-6, rtol=0)
    missed = {name: float((plan.sum(0) - b).abs().sum()) for name, plan in plans.items()}
    assert missed["sinkhorn"] <= 1e-6
    assert missed["sinkformer"] <= 1e-6
    assert missed["softmax"] > missed["relaxed"] > 1e-4


def test_softmax_is_the_one_sided_problem_of_the_solver() -> None:
    x, a, y, b = _clouds(9, 5, 4)
    model = _model("softmax")
    result, cost = model(x, a, y, b), model.cost_tensor(x, a, y, b).detach()
    other = transport.softmax_attention(cost, a, b, epsilon=0.1)
    torch.testing.assert_close(result.plan.detach(), other.plan, atol=1e-7, rtol=0)
    torch.testing.assert_close(result.f, other.f, atol=1e-6, rtol=0)
    assert result.column_error == pytest.approx(other.column_error, abs=1e-6)
    assert result.converged
    assert result.residual < 1e-9


def test_ragged_lists_equal_single_pairs() -> None:
    model = _model()
    pairs = [_clouds(seed, n, m) for seed, (n, m) in enumerate([(3, 7), (6, 2), (1, 1), (5, 5)])]
    x, a, y, b = (list(part) for part in zip(*pairs, strict=True))
    together = model(x, a, y, b)
    assert together.plan.shape == (4, 6, 7)
    for k, pair in enumerate(pairs):
        alone = model(*pair).plan
        n, m = alone.shape
        torch.testing.assert_close(together.plan[k, :n, :m], alone, atol=2e-6, rtol=0)
        assert float(together.plan[k].sum() - alone.sum()) == pytest.approx(0, abs=1e-6)


def test_no_weights_are_uniform_weights() -> None:
    x, _, y, _ = _clouds(3, 4, 6)
    uniform = torch.full((4,), 0.25).double(), torch.full((6,), 1 / 6).double()
    plan = _model()(x, uniform[0], y, uniform[1]).plan
    torch.testing.assert_close(_model()(x, None, y, None).plan, plan)
    torch.testing.assert_close(_model()([x], None, [y], None).plan[0], plan, atol=2e-6, rtol=0)


def test_measures_give_the_cost_that_forward_couples() -> None:
    x, a, y, b = _clouds(4, 3, 5)
    model = _model().float()
    source, target = Measure.from_points(x.numpy(), a.numpy()), Measure.from_points(y.numpy(), b.numpy())
    cost, epsilon = model.cost(source, target)
    assert (cost.dtype, epsilon) == (np.float64, 0.1)
    trace = model.trace_measures(source, target)
    np.testing.assert_allclose(trace.cost.numpy(), cost, atol=1e-6)
    query, key = trace.query.output, trace.key.output
    np.testing.assert_allclose(-(query @ key.T).numpy() / 2, cost, atol=1e-6)
    np.testing.assert_allclose(trace.result.plan.sum(1).numpy(), a.numpy(), atol=1e-6)


def test_the_implicit_gradient_reaches_every_parameter_and_is_right() -> None:
    x, a, y, b = _clouds(5, 4, 3)
    model = _model(learn_epsilon=True)
    direction = torch.randn(4, 3, generator=torch.Generator().manual_seed(0)).double()

    def value() -> torch.Tensor:
        return (model(x, a, y, b).plan * direction).sum()

    value().backward()
    gradients = {name: parameter.grad for name, parameter in model.named_parameters()}
    assert all(gradient is not None and bool(torch.isfinite(gradient).all()) for gradient in gradients.values())
    for name in ("log_epsilon", "query_encoder.enter.weight", "key_encoder.blocks.1.attention.mix.bias"):
        parameter = dict(model.named_parameters())[name]
        step = torch.randn(parameter.shape, generator=torch.Generator().manual_seed(1)).double()
        values = []
        for sign in (1e-4, -1e-4):
            with torch.no_grad():
                parameter.add_(sign * step)
                result = model.cost_tensor(x, a, y, b)
                plan = transport.sinkhorn(result, a, b, epsilon=model.epsilon, tolerance=1e-12).plan
                values.append(float((plan * direction).sum()))
                parameter.sub_(sign * step)
        expected = (values[0] - values[1]) / 2e-4
        gradient = gradients[name]
        assert gradient is not None
        assert float((gradient * step).sum()) == pytest.approx(expected, rel=1e-4, abs=1e-7)


def test_a_residual_model_starts_as_the_untrained_coupling() -> None:
    x, a, y, b = _clouds(6, 4, 5)
    cost = _model(residual=True).cost_tensor(x, a, y, b).detach()
    cosine = torch.nn.functional.normalize(x, dim=-1) @ torch.nn.functional.normalize(y, dim=-1).T
    torch.testing.assert_close(cost, -cosine)


@settings(max_examples=20, deadline=None)
@given(st.integers(1, 6), st.integers(0, 8))
def test_neighbours_are_the_points_before_and_after(rows: int, count: int) -> None:
    points = torch.randn(rows, 3)
    wide = with_neighbours(points, count)
    assert wide.shape == (rows, 3 * (2 * count + 1))
    blocks = wide.split(3, dim=1)
    assert torch.equal(blocks[0], points)
    for distance in range(1, count + 1):
        for block, step in zip(blocks[2 * distance - 1 : 2 * distance + 1], (-distance, distance), strict=True):
            for i in range(rows):
                there = 0 <= i + step < rows
                assert torch.equal(block[i], points[i + step] if there else torch.zeros(3))


def test_the_residual_adds_the_cosines_of_neighbours() -> None:
    x, a, y, b = _clouds(6, 4, 5)
    model = _model(residual=True, neighbours=2)
    wide = (with_neighbours(x, 2), a, with_neighbours(y, 2), b)
    cosine = (torch.nn.functional.normalize(x, dim=-1) @ torch.nn.functional.normalize(y, dim=-1).T).numpy()
    np.testing.assert_allclose(model.cost_tensor(*wide).detach(), -cosine, atol=1e-12)
    with torch.no_grad():
        model.neighbour_scale.copy_(torch.tensor([0.5, 0.25]))
    expected = cosine.copy()
    for i in range(4):
        for j in range(5):
            for scale, step in ((0.5, 1), (0.5, -1), (0.25, 2), (0.25, -2)):
                if 0 <= i + step < 4 and 0 <= j + step < 5:
                    expected[i, j] += scale * cosine[i + step, j + step]
    np.testing.assert_allclose(model.cost_tensor(*wide).detach(), -expected, atol=1e-12)
    source, target = (Measure.from_points(one.numpy(), weights=w.numpy()) for one, w in ((x, a), (y, b)))
    # Measures keep their points in float32.
    np.testing.assert_allclose(model.cost(source, target)[0], -expected, atol=1e-6)
    trace = model.trace_measures(source, target)
    np.testing.assert_allclose(trace.cost, -expected, atol=1e-6)
    assert trace.result.converged
    with pytest.raises(ValueError, match=r"points of shape \(…, n, 10\)"):
        model.cost_tensor(x, a, y, b)
    with pytest.raises(ValueError, match="2 coordinates, got 10"):
        model.cost(Measure.from_points(wide[0].numpy()), target)


def test_a_model_with_neighbours_keeps_the_laws_on_points_that_carry_them() -> None:
    x, a, y, b = _clouds(1, 5, 4)
    model = _model(residual=True, neighbours=1)
    with torch.no_grad():
        model.neighbour_scale.fill_(0.4)
        model.score_scale.fill_(1.0)
    x, y = with_neighbours(x, 1), with_neighbours(y, 1)
    plan = model(x, a, y, b).plan
    rows, columns = torch.tensor([3, 0, 4, 1, 2]), torch.tensor([2, 3, 0, 1])
    shuffled = model(x[rows], a[rows], y[columns], b[columns]).plan
    torch.testing.assert_close(shuffled, plan[rows][:, columns], atol=1e-6, rtol=0)
    split = model(torch.cat((x, x[:1])), torch.cat((a[:1] / 2, a[1:], a[:1] / 2)), y, b).plan
    torch.testing.assert_close(split[0] + split[5], plan[0], atol=1e-6, rtol=0)
    torch.testing.assert_close(split[1:5], plan[1:], atol=1e-6, rtol=0)


def test_another_epsilon_on_the_same_weights() -> None:
    x, a, y, b = _clouds(7, 4, 5)
    model = _model(learn_epsilon=True)
    other = model.with_epsilon(0.7)
    assert (other.epsilon, other.config.learn_epsilon) == (0.7, False)
    torch.testing.assert_close(other.cost_tensor(x, a, y, b), model.cost_tensor(x, a, y, b))


@pytest.mark.parametrize(
    ("fields", "word"),
    [
        ({"epsilon": 0.0}, "epsilon"),
        ({"epsilon": float("nan")}, "epsilon"),
        ({"epsilon": "0.1"}, "epsilon"),
        ({"normalisation": "hardmax"}, "normalisation"),
        ({"normalisation": "relaxed"}, "relaxation"),
        ({"relaxation": 0.1}, "relaxation"),
        ({"width": 9}, "heads"),
        ({"width": 2.0}, "width"),
        ({"layers": 10**9}, "layers"),
        ({"learn_epsilon": 1}, "learn_epsilon"),
        ({"neighbours": 1}, "neighbours"),
        ({"neighbours": -1, "residual": True}, "neighbours"),
        ({"refinement": 4, "residual": True}, "refinement: expected 0 without neighbours"),
        ({"refinement": -1, "neighbours": 1, "residual": True}, "refinement"),
    ],
)
def test_configurations_are_checked(fields: dict[str, object], word: str) -> None:
    whole = {"dim": 2, "width": 8, "layers": 1, "heads": 2, "out": 4, "epsilon": 0.1, **fields}
    with pytest.raises(ValueError, match=word):
        ModelConfig(**whole)  # type: ignore[arg-type]


def test_shapes_are_checked_and_named() -> None:
    x, a, y, b = _clouds(8, 4, 5)
    with pytest.raises(ValueError, match=r"source: expected points of shape .* 2\)"):
        _model()(torch.randn(4, 3), None, y, b)
    with pytest.raises(ValueError, match=r"target: expected weights of shape \(5,\)"):
        _model()(x, a, y, a)
    with pytest.raises(ValueError, match="list of weights"):
        _model()([x], a, [y], [b])
    with pytest.raises(ValueError, match="at least one cloud"):
        pad([])
    with pytest.raises(ValueError, match="one d"):
        pad([torch.ones(2, 2), torch.ones(2, 3)])
