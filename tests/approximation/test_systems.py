"""Coupling systems: each is a coupling, equivariant, mass consistent; context and continuity are what they claim."""

from __future__ import annotations

import math

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from sinkviz.approximation import SYSTEMS, coupling_distance, coupling_system, entropic_plan, get_system, with_epsilon
from sinkviz.approximation.systems import cluster_count, second_moment

NAMES = sorted(SYSTEMS)


def _pair(name: str, seed: int = 0, n: int = 5, m: int = 6) -> tuple[torch.Tensor, ...]:
    random = np.random.default_rng(seed)
    x, a = SYSTEMS[name].sampler(random, n)
    y, b = SYSTEMS[name].sampler(random, m)
    return tuple(torch.from_numpy(np.asarray(value)) for value in (x, a, y, b))


def test_there_are_enough_and_they_are_explained() -> None:
    assert len(SYSTEMS) >= 6
    assert sum(system.contextual for system in SYSTEMS.values()) >= 3
    assert [name for name, system in SYSTEMS.items() if not system.continuous] == ["cluster-count"]
    for name, system in SYSTEMS.items():
        assert name == system.name
        assert system.title
        assert system.formula
        assert len(system.explanation) > 80


@pytest.mark.parametrize("name", NAMES)
def test_it_is_a_coupling_and_repeatable(name: str) -> None:
    pairs = SYSTEMS[name].sample(6, (3, 8), seed=4)
    assert float((pairs.plan.sum(2) - pairs.a).abs().max()) < 1e-5
    assert float((pairs.plan.sum(1) - pairs.b).abs().max()) < 1e-5
    again = SYSTEMS[name].sample(6, (3, 8), seed=4)
    assert torch.equal(pairs.plan, again.plan)
    assert not torch.equal(pairs.x, SYSTEMS[name].sample(6, (3, 8), seed=5).x)


@pytest.mark.parametrize("name", NAMES)
def test_permutations_and_split_masses(name: str) -> None:
    x, a, y, b = _pair(name)
    plan = SYSTEMS[name].plan(x, a, y, b)
    rows, columns = torch.tensor([4, 2, 0, 1, 3]), torch.tensor([1, 0, 5, 4, 3, 2])
    shuffled = SYSTEMS[name].plan(x[rows], a[rows], y[columns], b[columns])
    torch.testing.assert_close(shuffled, plan[rows][:, columns], atol=1e-6, rtol=0)
    more = torch.cat((y, y[:1])), torch.cat((b[:1] / 3, b[1:], 2 * b[:1] / 3))
    split = SYSTEMS[name].plan(x, a, *more)
    torch.testing.assert_close(split[:, 0] + split[:, 6], plan[:, 0], atol=1e-6, rtol=0)


@pytest.mark.parametrize("name", NAMES)
def test_padding_and_batches_change_nothing(name: str) -> None:
    pairs = SYSTEMS[name].sample(4, (3, 9), seed=2)
    for k in range(4):
        x, a, y, b, plan = pairs.pair(k)
        alone = SYSTEMS[name].plan(*(torch.from_numpy(value) for value in (x, a, y, b)))
        np.testing.assert_allclose(alone.numpy(), plan, atol=1e-6)


@pytest.mark.parametrize("name", [name for name in NAMES if SYSTEMS[name].factors])
def test_factors_are_those_of_the_plan(name: str) -> None:
    x, a, y, b = _pair(name, 3)
    factors = SYSTEMS[name].factors
    assert factors is not None
    g, h = factors(x, a, y, b)
    expected = entropic_plan(-(g @ h.T).numpy(), a.numpy(), b.numpy(), 0.1)
    np.testing.assert_allclose(SYSTEMS[name].plan(x, a, y, b).numpy(), expected, atol=1e-7)


def _moved_by_context(name: str) -> float:
    """How much the plan between two fixed points changes when a far atom of small mass joins the second cloud."""
    x, a, y, b = _pair(name, 1, 3, 3)
    y = 0.2 * y  # one cluster
    base = SYSTEMS[name].plan(x, a, y, b)
    wide = torch.cat((y, torch.tensor([[6.0, 6.0]]).double()))
    joined = SYSTEMS[name].plan(x, a, wide, torch.cat((b * 0.9, torch.tensor([0.1]).double())))
    odds = base[:2, :2].log() - joined[:2, :2].log()
    return float((odds[0, 0] + odds[1, 1] - odds[0, 1] - odds[1, 0]).abs())


def test_context_decides_where_it_is_claimed_and_only_there() -> None:
    # The cross ratio of four entries is free of potentials: it moves only if the cost itself does.
    for name in NAMES:
        if name == "mixture":
            continue  # a sum of two plans has no cost of its own to look at
        moved = _moved_by_context(name)
        assert (moved > 1e-2) == SYSTEMS[name].contextual, name


def test_second_moment_and_clusters() -> None:
    square = torch.tensor([[1.0, 1], [1, -1], [-1, 1], [-1, -1]]).double()
    weights = torch.full((4,), 0.25).double()
    assert float(second_moment(square + 7, weights)) == pytest.approx(2)
    line = torch.tensor([[0.0, 0], [0.5, 0], [1.0, 0], [3.0, 0], [9.0, 0]]).double()
    weights = torch.tensor([0.3, 0.3, 0.2, 0.2, 0.0]).double()
    assert int(cluster_count(line, weights, 0.6)) == 2
    assert int(cluster_count(line, weights, 0.4)) == 4
    assert int(cluster_count(line, weights, 2.1)) == 1
    assert cluster_count(line.expand(3, 5, 2), weights.expand(3, 5), 0.6).tolist() == [2, 2, 2]


def test_the_discontinuous_system_jumps_and_the_others_do_not() -> None:
    x = torch.tensor([[0.0, 0], [1, 0.1]]).double()
    half = torch.tensor([0.5, 0.5]).double()
    before, after = (torch.tensor([[0.0, 0], [gap, 0]]).double() for gap in (0.6 - 1e-6, 0.6 + 1e-6))
    jumps = {
        name: coupling_distance(system.plan(x, half, before, half), system.plan(x, half, after, half), x, before).upper
        for name, system in SYSTEMS.items()
    }
    assert jumps.pop("cluster-count") > 0.1
    assert max(jumps.values()) < 1e-4


def test_a_fixed_rotation_matches_rotated_points() -> None:
    angle = math.pi / 3
    turn = torch.tensor([[math.cos(angle), math.sin(angle)], [-math.sin(angle), math.cos(angle)]]).double()
    x = torch.tensor([[2.0, 0], [0, 2], [-2, 0], [0, -2]]).double()
    quarter = torch.full((4,), 0.25).double()
    plan = SYSTEMS["rotation"].plan(x, quarter, x @ turn.T, quarter)
    torch.testing.assert_close(plan, torch.eye(4).double() / 4, atol=1e-6, rtol=0)


def test_monotone_keeps_the_order_as_epsilon_falls() -> None:
    x, y = (torch.from_numpy(np.sort(np.random.default_rng(k).normal(size=(6, 2)), axis=0)) for k in (0, 1))
    weights = torch.full((6,), 1 / 6).double()
    plan = SYSTEMS["monotone"].plan(x, weights, y, weights, 0.005)
    assert float(plan.diagonal().sum()) > 0.9


def test_the_epsilon_of_a_system_can_be_changed() -> None:
    x, a, y, b = _pair("rotation")
    system = SYSTEMS["rotation"]
    torch.testing.assert_close(with_epsilon(system, 0.7).plan(x, a, y, b), system.plan(x, a, y, b, 0.7))
    torch.testing.assert_close(system.plan(x, a, y, b, 1e4), a[:, None] * b, atol=1e-4, rtol=0)


def test_a_user_can_add_one() -> None:
    try:

        @coupling_system("mirror", title="Mirror", explanation="Each point looks for its mirror image.")
        def mirror(x: np.ndarray, a: np.ndarray, y: np.ndarray, b: np.ndarray, epsilon: float) -> np.ndarray:
            return entropic_plan(-(x * [1, -1]) @ y.T, a, b, epsilon)

        pairs = get_system("mirror").sample(3, (2, 5), seed=0)
        x, a, y, b, plan = pairs.pair(1)
        np.testing.assert_allclose(plan, mirror(x, a, y, b, 0.1), atol=1e-12)
        with pytest.raises(ValueError, match="taken"):
            coupling_system("mirror", title="", explanation="")(mirror)
    finally:
        SYSTEMS.pop("mirror")
    with pytest.raises(ValueError, match="expected one of independent"):
        get_system("mirror")


@pytest.mark.parametrize(
    ("wrong", "word"),
    [
        (lambda x, a, y, b, e: np.outer(a, b) * 1.1, "expected a coupling"),
        (lambda x, a, y, b, e: np.outer(a, b)[:, :1], "shape"),
        (lambda x, a, y, b, e: np.outer(a, b) * np.nan, "finite"),
        (lambda x, a, y, b, e: np.outer(a, b) - 1, "finite entries >= 0"),
    ],
)
def test_a_wrong_system_is_told_what_is_wrong(wrong, word) -> None:  # type: ignore[no-untyped-def]
    try:
        coupling_system("wrong", title="", explanation="")(wrong)
        with pytest.raises(ValueError, match=word):
            SYSTEMS["wrong"].sample(2, (3, 3), seed=0)
    finally:
        SYSTEMS.pop("wrong")


@settings(max_examples=20, deadline=None)
@given(st.integers(0, 1000), st.integers(1, 20))
def test_clouds_are_compact(seed: int, count: int) -> None:
    for system in SYSTEMS.values():
        points, weights = system.sampler(np.random.default_rng(seed), count)
        assert points.shape == (count, 2)
        assert np.abs(points).max() <= 2.5
        assert weights.sum() == pytest.approx(1)
