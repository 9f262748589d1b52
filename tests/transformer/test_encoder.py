"""Laws of measure attention and encoders: permutations, masses, absence, dtype, trace."""

from __future__ import annotations

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from sinkviz.transformer import MeasureAttention, MeasureEncoder
from sinkviz.transformer.layers import doubly_stochastic_shift, log_weights


def _encoder(seed: int, layers: int, iterations: int = 0, dim: int = 3) -> MeasureEncoder:
    torch.manual_seed(seed)
    encoder = MeasureEncoder(dim, width=12, layers=layers, heads=3, out=5, sinkhorn_iterations=iterations).double()
    for parameter in encoder.parameters():  # larger than at the start, so that attention is far from uniform
        parameter.data *= 2.5
    return encoder


def _measure(seed: int, count: int, dim: int = 3) -> tuple[torch.Tensor, torch.Tensor]:
    random = torch.Generator().manual_seed(seed)
    points = torch.randn(count, dim, generator=random, dtype=torch.float64)
    weights = torch.rand(count, generator=random, dtype=torch.float64) + 0.05
    return points, weights / weights.sum()


@settings(max_examples=25, deadline=None)
@given(st.integers(0, 10_000), st.integers(1, 9), st.sampled_from([0, 1, 3, 6]), st.sampled_from([0, 6]))
def test_permutation_equivariance(seed: int, count: int, layers: int, iterations: int) -> None:
    encoder = _encoder(seed, layers, iterations)
    points, weights = _measure(seed, count)
    order = torch.randperm(count, generator=torch.Generator().manual_seed(seed))
    torch.testing.assert_close(
        encoder(points[order], weights[order]), encoder(points, weights)[order], atol=1e-9, rtol=1e-9
    )


@settings(max_examples=25, deadline=None)
@given(
    st.integers(0, 10_000),
    st.integers(1, 9),
    st.sampled_from([1, 2, 4, 8]),
    st.floats(0.01, 0.99),
    st.sampled_from([0, 6]),
)
def test_mass_consistency(seed: int, count: int, layers: int, share: float, iterations: int) -> None:
    encoder = _encoder(seed, layers, iterations)
    points, weights = _measure(seed, count)
    split = seed % count
    more_points = torch.cat((points, points[split : split + 1]))
    more_weights = torch.cat((weights, share * weights[split : split + 1]))
    more_weights[split] *= 1 - share
    whole, parts = encoder(points, weights), encoder(more_points, more_weights)
    assert float((parts[:count] - whole).abs().max()) <= 1e-6
    assert float((parts[count] - whole[split]).abs().max()) <= 1e-6


def test_mass_consistency_in_single_precision() -> None:
    encoder = MeasureEncoder(3, width=12, layers=4, heads=3, out=5)
    points, weights = (value.float() for value in _measure(3, 6))
    twice = torch.cat((points, points)), torch.cat((weights, weights)) / 2
    assert float((encoder(*twice)[:6] - encoder(points, weights)).abs().max()) <= 1e-5


def test_masses_matter() -> None:
    encoder = _encoder(0, 2)
    points, weights = _measure(0, 6)
    uniform = torch.full_like(weights, 1 / 6)
    assert float((encoder(points, weights) - encoder(points, uniform)).abs().max()) > 1e-3


@pytest.mark.parametrize("iterations", [0, 6])
def test_an_absent_atom_changes_nothing_and_gets_a_finite_gradient(iterations: int) -> None:
    encoder = _encoder(1, 3, iterations)
    points, weights = _measure(1, 5)
    padded_points = torch.cat((points, torch.full((2, 3), 1e3, dtype=torch.float64))).requires_grad_()
    padded_weights = torch.cat((weights, torch.zeros(2, dtype=torch.float64))).requires_grad_()
    output = encoder(padded_points, padded_weights)
    torch.testing.assert_close(output[:5], encoder(points, weights), atol=1e-9, rtol=1e-9)
    output[:5].square().sum().backward()
    assert padded_points.grad is not None
    assert padded_weights.grad is not None
    assert bool(torch.isfinite(padded_points.grad).all())
    assert bool(torch.isfinite(padded_weights.grad).all())
    assert not bool(padded_points.grad[5:].any())


def test_batches_equal_single_measures() -> None:
    encoder = _encoder(2, 2)
    measures = [_measure(seed, 4) for seed in range(3)]
    together = encoder(torch.stack([m[0] for m in measures]), torch.stack([m[1] for m in measures]))
    for one, measure in zip(together, measures, strict=True):
        torch.testing.assert_close(one, encoder(*measure), atol=1e-10, rtol=1e-10)


@pytest.mark.parametrize("iterations", [0, 6])
def test_trace_is_what_forward_does(iterations: int) -> None:
    encoder = _encoder(4, 3, iterations)
    points, weights = _measure(4, 6)
    trace = encoder.trace(points, weights)
    torch.testing.assert_close(trace.output, encoder(points, weights).detach())
    assert [tuple(state.shape) for state in trace.states] == [(6, 12)] * 4
    for attention in trace.attentions:
        assert attention.shape == (3, 6, 6)
        torch.testing.assert_close(attention.sum(-1), torch.ones(3, 6, dtype=torch.float64))


def test_attention_weights_are_those_that_forward_uses() -> None:
    torch.manual_seed(0)
    attention = MeasureAttention(8, 2).double()
    points, weights = torch.randn(5, 8).double(), _measure(0, 5)[1]
    recorded = attention.weights(points, log_weights(weights))
    value = attention._parts(points)[2]
    mixed = attention.mix((recorded @ value).transpose(-2, -3).flatten(-2))
    torch.testing.assert_close(mixed, attention(points, log_weights(weights)))


def test_against_the_formula_written_out() -> None:
    torch.manual_seed(1)
    attention = MeasureAttention(4, 1).double()
    points, weights = torch.randn(3, 4).double(), torch.tensor([0.2, 0.3, 0.5]).double()
    query, key, value = (part[0] for part in attention._parts(points))
    kernel = torch.exp(query @ key.T / 2.0) * weights
    expected = attention.mix(kernel / kernel.sum(1, keepdim=True) @ value)
    torch.testing.assert_close(attention(points, log_weights(weights)), expected)


def test_sinkformer_attention_is_doubly_stochastic_against_the_measure() -> None:
    scores = torch.randn(2, 7, 7, generator=torch.Generator().manual_seed(0)).double()
    weights = _measure(5, 7)[1]
    mass = weights.log().expand(2, 7)
    shift = doubly_stochastic_shift(scores, mass, 60)
    plan = weights[:, None] * (scores + (shift + mass).unsqueeze(-2)).softmax(-1)
    torch.testing.assert_close(plan.sum(-2), weights.expand(2, 7), atol=1e-8, rtol=0)


@pytest.mark.parametrize("wrong", [{"width": 10, "heads": 4}, {"layers": -1}, {"out": 0}, {"dim": True}, {"heads": 0}])
def test_sizes_are_checked(wrong: dict[str, int]) -> None:
    sizes = {"dim": 2, "width": 8, "layers": 1, "heads": 2, "out": 4, **wrong}
    with pytest.raises(ValueError, match="expected"):
        MeasureEncoder(sizes.pop("dim"), **sizes)


def test_ten_thousand_atoms_need_no_square_memory_for_the_output() -> None:
    encoder = MeasureEncoder(2, width=4, layers=1, heads=1, out=2)
    with torch.no_grad():
        assert encoder(torch.randn(3000, 2), torch.full((3000,), 1 / 3000)).shape == (3000, 2)
