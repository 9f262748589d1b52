"""From measures to couplings: known answers, the units of ε, and every message that a wrong call gets."""

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import sinkviz
from sinkviz.measure import Measure, Origin
from sinkviz.pipeline import cosine_cost, couple_cost, couple_half_steps, default_epsilons, epsilon_scale


def cloud(count: int, seed: int = 0, dimension: int = 5, weights: Any = None) -> Measure:
    return Measure.from_points(np.random.default_rng(seed).normal(size=(count, dimension)), weights=weights)


def test_cosines_and_points_of_length_zero() -> None:
    x = Measure.from_points([[3.0, 0.0], [0.0, 0.0]])
    y = Measure.from_points([[0.0, 2.0], [5.0, 0.0], [-1.0, 0.0]])
    np.testing.assert_allclose(cosine_cost(x, y), [[0, -1, 1], [0, 0, 0]], atol=1e-12)


@pytest.mark.parametrize("seed", range(4))
def test_the_entropic_plan_is_that_of_pot(seed: int) -> None:
    import ot

    rng = np.random.default_rng(seed)
    x, y = cloud(7, seed, weights=rng.dirichlet(np.ones(7))), cloud(9, seed + 50, weights=rng.dirichlet(np.ones(9)))
    c = sinkviz.couple(x, y, epsilon=0.8)
    assert c.status == "converged"
    expected = ot.sinkhorn(x.weights, y.weights, c.cost, c.epsilon, stopThr=1e-12, numItermax=100_000)
    np.testing.assert_allclose(c.plan, expected, atol=1e-6)
    assert c.row_error < 1e-6
    assert c.column_error < 1e-6


def test_softmax_attention_is_the_one_sided_problem_on_the_same_scores() -> None:
    x, y = cloud(4), cloud(6, 1, weights=[1, 2, 3, 4, 5, 6])
    c = sinkviz.couple(x, y, mechanism="softmax", epsilon=0.5)
    weights = y.weights * np.exp(-c.cost / c.epsilon)
    np.testing.assert_allclose(c.plan, x.weights[:, None] * weights / weights.sum(1, keepdims=True), atol=1e-12)
    assert c.row_error < 1e-12
    assert c.received_distance == pytest.approx(0.5 * c.column_error)


def test_relaxed_columns_go_from_attention_to_the_coupling() -> None:
    x, y = cloud(5), cloud(5, 1)
    distances = [
        sinkviz.couple(x, y, mechanism="relaxed", relaxation=rho).received_distance for rho in (0, 0.1, 1, 10, np.inf)
    ]
    assert distances == sorted(distances, reverse=True)
    softmax = sinkviz.couple(x, y, mechanism="softmax")
    assert distances[0] == pytest.approx(softmax.received_distance, abs=1e-12)
    assert distances[-1] < 1e-6


def test_half_steps_go_from_attention_to_the_coupling() -> None:
    x, y = cloud(5), cloud(6, 1)
    cost = cosine_cost(x, y)
    first = couple_half_steps(cost, x, y, steps=0.5)
    np.testing.assert_allclose(first.plan, sinkviz.couple(x, y, mechanism="softmax").plan, atol=1e-12)
    late = couple_half_steps(cost, x, y, steps=500.5)
    np.testing.assert_allclose(late.plan, sinkviz.couple(x, y).plan, atol=1e-6)
    whole = couple_half_steps(cost, x, y, steps=3)
    np.testing.assert_allclose(whole.received, y.weights, atol=1e-12)
    alone = couple_half_steps(cost, x, y, steps=0.5, null_cost=-0.1)
    np.testing.assert_allclose(alone.plan, sinkviz.couple(x, y, mechanism="softmax", null_cost=-0.1).plan, atol=1e-12)


@given(st.floats(-1, 1), st.integers(0, 50))
@settings(max_examples=40, deadline=None)
def test_what_has_no_partner_is_between_nothing_and_the_weight(price: float, seed: int) -> None:
    x, y = cloud(4, seed), cloud(6, seed + 100)
    c = sinkviz.couple(x, y, mechanism="partial", null_cost=price)
    assert (c.null_source >= 0).all()
    assert (c.null_source <= x.weights + 1e-6).all()
    assert (c.null_target <= y.weights + 1e-6).all()
    assert c.row_error < 1e-5
    assert c.column_error < 1e-5
    assert c.mass + c.null_source.sum() == pytest.approx(1, abs=1e-5)


def test_a_low_price_leaves_everybody_alone_and_a_high_one_nobody() -> None:
    x, y = cloud(5), cloud(5, 1)
    assert sinkviz.couple(x, y, mechanism="partial", null_cost=-5).mass < 1e-6
    full = sinkviz.couple(x, y, mechanism="partial", null_cost=5)
    np.testing.assert_allclose(full.plan, sinkviz.couple(x, y).plan, atol=1e-6)


def test_the_exact_plan_is_the_end_of_the_path() -> None:
    x, y = cloud(6), cloud(6, 1)
    exact = sinkviz.couple(x, y, mechanism="exact")
    assert (exact.status, exact.epsilon) == ("exact", 0)
    path = sinkviz.epsilon_path(x, y, [1.0, 0.1, 0.01])
    costs = [path[k].transport_cost for k in range(3)]
    assert costs[0] > costs[1] > costs[2] >= exact.transport_cost - 1e-9
    assert costs[2] == pytest.approx(exact.transport_cost, abs=1e-3)


def test_a_path_is_the_single_solves() -> None:
    x, y = cloud(8), cloud(5, 1)
    seen: list[tuple[int, int]] = []
    path = sinkviz.epsilon_path(x, y, [0.05, 2.0, 0.4], progress=lambda done, total: seen.append((done, total)))
    assert path.epsilons.tolist() == sorted(path.epsilons, reverse=True)
    for k, epsilon in enumerate((2.0, 0.4, 0.05)):
        single = sinkviz.couple(x, y, epsilon=epsilon)
        np.testing.assert_allclose(path[k].plan, single.plan, atol=2e-6)
        assert path[k].status == "converged"
        assert path[k].epsilon == pytest.approx(single.epsilon)
    assert seen[-1] == (3, 3)
    stopped = sinkviz.epsilon_path(x, y, cancelled=iter([False, False, True]).__next__)
    assert len(stopped) == 2
    partial = sinkviz.epsilon_path(x, y, [0.4], null_cost=-0.2)[0]
    np.testing.assert_allclose(
        partial.plan, sinkviz.couple(x, y, mechanism="partial", null_cost=-0.2, epsilon=0.4).plan, atol=1e-6
    )


def test_one_atom_against_many_is_independence_at_any_epsilon() -> None:
    x, y = cloud(1), cloud(6, 1, weights=[1, 2, 3, 4, 5, 6])
    for one, other in ((x, y), (y, x)):
        c = sinkviz.couple(one, other, epsilon=0.01)
        assert (c.cost_scale, c.epsilon_relative) == (0, 0)
        np.testing.assert_allclose(c.plan, np.outer(one.weights, other.weights), atol=1e-9)
    attention = sinkviz.couple(x, y, mechanism="softmax", epsilon=0.01)
    assert attention.plan.max() > 0.99  # attention is free to choose


@pytest.mark.parametrize("mechanism", ["sinkhorn", "softmax", "exact"])
def test_a_constant_cost_is_independence(mechanism: Any) -> None:
    x = Measure.from_points([[1.0, 2.0]] * 3, weights=[1, 2, 3])
    c = sinkviz.couple(x, x, mechanism=mechanism)
    assert (c.status, c.cost_scale) == ("closed_form", 0)
    np.testing.assert_allclose(c.plan, np.outer(x.weights, x.weights))


@given(st.floats(0.2, 5), st.floats(-3, 3))
@settings(max_examples=30, deadline=None)
def test_relative_epsilon_does_not_see_scale_and_shift(factor: float, shift: float) -> None:
    x, y = cloud(5), cloud(7, 1)
    cost = cosine_cost(x, y)
    moved = factor * cost + shift * np.arange(5)[:, None]
    np.testing.assert_allclose(
        couple_cost(moved, x, y, epsilon=0.3).plan, couple_cost(cost, x, y, epsilon=0.3).plan, atol=1e-5
    )
    scale, unit = epsilon_scale(moved, x.weights, y.weights)
    assert scale == unit == pytest.approx(factor * epsilon_scale(cost, x.weights, y.weights)[0])


def test_absolute_epsilon_is_taken_as_it_stands() -> None:
    x, y = cloud(4), cloud(4, 1)
    relative = sinkviz.couple(x, y, epsilon=0.7)
    absolute = sinkviz.couple(x, y, epsilon=relative.epsilon, epsilon_unit="absolute")
    np.testing.assert_allclose(absolute.plan, relative.plan)
    assert absolute.epsilon_relative == pytest.approx(0.7)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"mechanism": "magic"}, "mechanism: expected one of"),
        ({"epsilon": 0}, "exact"),
        ({"epsilon": -1}, "epsilon"),
        ({"epsilon": float("nan")}, "epsilon"),
        ({"epsilon": float("inf")}, "epsilon"),
        ({"epsilon": "big"}, "epsilon"),
        ({"epsilon_unit": "metre"}, "epsilon_unit"),
        ({"epsilon_unit": "absolute"}, "give a value"),
        ({"relaxation": 1.0}, "relaxation"),
        ({"mechanism": "relaxed"}, "relaxation"),
        ({"mechanism": "relaxed", "relaxation": -1.0}, "relaxation"),
        ({"mechanism": "partial"}, "null_cost"),
        ({"mechanism": "partial", "null_cost": float("nan")}, "null_cost"),
        ({"null_cost": 0.1}, "null_cost"),
        ({"mechanism": "exact", "epsilon": 0.5}, "epsilon"),
        ({"layer": 3}, "embedding options"),
    ],
)
def test_wrong_options_say_what_to_do(options: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        sinkviz.couple(cloud(3), cloud(3, 1), **options)


def test_measures_that_do_not_fit_are_refused() -> None:
    from dataclasses import replace

    with pytest.raises(ValueError, match="same dimension"):
        sinkviz.couple(cloud(3), cloud(3, 1, dimension=4))
    one = replace(cloud(3), origin=Origin(model="m", layer=1))
    other = replace(cloud(3), origin=Origin(model="m", layer=2))
    with pytest.raises(ValueError, match="one model and layer"):
        sinkviz.couple(one, other)
    for grid in ([], [0.0], [-1.0], [np.nan]):
        with pytest.raises(ValueError, match="epsilon"):
            sinkviz.epsilon_path(cloud(3), cloud(3, 1), grid)


def test_texts_become_couplings() -> None:
    text = "The old fisherman sat on the bank."
    c = sinkviz.couple(text, ["An", "elderly", "angler", "sat", "there"], unit="word")
    assert c.source.labels == ["The", "old", "fisherman", "sat", "on", "the", "bank", "."]
    assert c.target.labels == ["An", "elderly", "angler", "sat", "there"]
    best = {link.source_label: link.target_label for link in c.links(share=0.5)}
    assert best["old"] == "elderly"
    assert best["fisherman"] == "angler"
    # A measure on one side passes its model, layer and unit on to the text on the other.
    again = sinkviz.couple(c.source, "An elderly angler sat there")
    np.testing.assert_allclose(again.plan, c.plan, atol=1e-5)


def test_the_default_grid_falls_over_three_decades() -> None:
    grid = default_epsilons()
    assert (grid[0], len(grid)) == (10, 41)
    assert grid[-1] == pytest.approx(0.01)
    assert (np.diff(grid) < 0).all()
