"""The heatmaps show the plan, all of it, on one scale."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sinkviz.figures import difference_heatmap, heatmap, shared_scale, side_by_side
from sinkviz.figures.matrix import MOST_LABELS, lift_colours, lift_values, thinned
from sinkviz.figures.palette import DARK, LIGHT, palette
from sinkviz.figures.scale import LOWEST_LIFT, Scale


def _bars(figure: Any) -> tuple[Any, Any]:
    given, received = (trace for trace in figure.data if trace.type == "bar")
    return given, received


def _colour(scale: list[Any], at: float) -> str:
    """The colour of a Plotly colour scale at one of its stops."""
    return next(colour for stop, colour in scale if stop == pytest.approx(at, abs=1e-9))


@settings(max_examples=50, deadline=None)
@given(n=st.integers(1, 6), m=st.integers(1, 6), seed=st.integers(0, 99))
def test_cells_and_bars_are_the_plan_and_its_marginals(make: Any, n: int, m: int, seed: int) -> None:
    coupling = make.random(n, m, seed)
    figure = heatmap(coupling)
    cells = np.asarray(figure.data[0].z)
    assert cells.shape == (n, m)
    assert np.allclose(cells, coupling.plan, rtol=1e-6)
    assert float(cells.sum()) == pytest.approx(1, abs=1e-5)
    given_bars, received_bars = _bars(figure)
    assert np.allclose(given_bars.x, cells.sum(1), atol=1e-6)
    assert np.allclose(received_bars.y, cells.sum(0), atol=1e-6)
    facts = np.asarray(figure.data[0].customdata)
    assert np.allclose(facts[..., 0], 100 * cells, rtol=1e-5)
    assert np.allclose(facts[..., 1].sum(1), 100, rtol=1e-5)
    assert np.allclose(np.log(facts[..., 2]), coupling.log_lift, atol=1e-4)


@pytest.mark.parametrize("colour", ["mass", "lift"])
def test_panels_side_by_side_share_one_scale(make: Any, colour: str) -> None:
    coupling = make.random(6, 5, 1)
    attention = make.attention(coupling)
    one, other = side_by_side(heatmap, coupling, attention, colour=colour)
    assert one.layout.coloraxis == other.layout.coloraxis
    assert one.layout.yaxis2.range == other.layout.yaxis2.range
    assert one.layout.xaxis3.range == other.layout.xaxis3.range
    assert one.layout.height == other.layout.height
    if colour == "mass":
        assert one.layout.coloraxis.cmin == 0
        assert one.layout.coloraxis.cmax == max(coupling.plan.max(), attention.plan.max())


def test_the_scale_is_the_largest_value_in_any_panel(make: Any) -> None:
    couplings = [make.random(4, 6, seed) for seed in range(3)]
    scale = shared_scale(*couplings)
    assert scale.mass == max(c.plan.max() for c in couplings)
    assert scale.received == max(max(c.received.max(), c.target.weights.max()) for c in couplings)
    assert scale.given == max(max(c.given.max(), c.source.weights.max()) for c in couplings)
    assert scale.lift == max(c.log_lift.max() for c in couplings)
    assert scale.lift <= scale.lift_below <= max(scale.lift, LOWEST_LIFT)
    with pytest.raises(ValueError, match="at least one coupling"):
        shared_scale()
    with pytest.raises(ValueError, match="mass: expected a finite number > 0"):
        Scale(mass=0, lift=1, lift_below=1, given=1, received=1)


def test_equal_labels_do_not_merge_and_dates_stay_words(make: Any) -> None:
    labels = ["the", "the", "the", "2024-01-01"]
    figure = heatmap(make.random(4, 4, 0, labels, labels))
    for axis in (figure.layout.xaxis, figure.layout.yaxis, figure.layout.xaxis2, figure.layout.yaxis3):
        assert axis.type == "linear"
        assert list(axis.tickvals) == [0, 1, 2, 3]
        assert list(axis.ticktext) == labels


@settings(max_examples=50, deadline=None)
@given(st.integers(1, 2000))
def test_thinning_keeps_an_even_choice(size: int) -> None:
    shown = thinned(size)
    assert shown[0] == 0
    assert len(shown) <= MOST_LABELS
    assert len(set(np.diff(shown).tolist())) <= 1
    if size <= MOST_LABELS:
        assert len(shown) == size
    else:
        assert len(shown) > MOST_LABELS / 2


def test_what_thinning_leaves_out_is_said_and_named_on_hover(make: Any) -> None:
    figure = heatmap(make.random(90, 50, 3))
    assert len(figure.layout.yaxis3.tickvals) == 30
    assert len(figure.layout.yaxis.ticktext) == 90
    assert len(figure.layout.xaxis.ticktext) == 50
    words = figure.layout.annotations[0].text
    assert "every 3rd source word" in words
    assert "every 2nd target word" in words
    assert "labels" not in heatmap(make.random(8, 8)).layout.annotations[0].text


@pytest.mark.parametrize("colours", [LIGHT, DARK])
@settings(max_examples=50, deadline=None)
@given(lift=st.floats(0.01, 8), below=st.floats(0.01, 9))
def test_independence_has_the_colour_of_the_page(colours: Any, lift: float, below: float) -> None:
    low, high, stops = lift_colours(colours, Scale(mass=1, lift=lift, lift_below=below, given=1, received=1))
    places = [at for at, _ in stops]
    assert places[0] == 0
    assert places[-1] == pytest.approx(1)
    assert np.all(np.diff(places) >= 0)
    assert _colour(stops, (0 - low) / (high - low)) == colours.page
    assert _colour(stops, (-below - low) / (high - low)) == colours.diverging[0][1]


def test_cells_without_mass_have_a_colour_of_their_own_and_are_never_nan(make: Any) -> None:
    coupling = make.of_plan([[1, 0], [1e-9, 1]])
    scale = shared_scale(coupling)
    figure = heatmap(coupling, colour="lift")
    cells = np.asarray(figure.data[0].z)
    assert np.isfinite(cells).all()
    axis = figure.layout.coloraxis
    block = (cells[0, 1] - axis.cmin) / (axis.cmax - axis.cmin)
    block_end = [at for at, colour in axis.colorscale if colour == LIGHT.no_mass][-1]
    assert 0 < block < block_end
    # A little mass is not no mass: it lies on the scale.
    lowest = (cells[1, 0] - axis.cmin) / (axis.cmax - axis.cmin)
    assert cells[1, 0] == pytest.approx(-scale.lift_below)
    assert lowest > block_end
    assert "no mass" in axis.colorbar.ticktext


def test_lift_is_clipped_at_the_ends_of_the_scale() -> None:
    scale = Scale(mass=1, lift=2, lift_below=3, given=1, received=1)
    values = lift_values(np.array([-np.inf, -50.0, -3.0, 0.0, 1.5, 2.0]), scale)
    assert values[1:].tolist() == [-3, -3, 0, 1.5, 2]
    assert np.isfinite(values[0])
    assert values[0] < -3


@settings(max_examples=50, deadline=None)
@given(st.integers(0, 50))
def test_a_difference_sums_to_nothing_and_changes_sign(make: Any, seed: int) -> None:
    coupling = make.random(4, 5, seed)
    attention = make.attention(coupling)
    there, back = difference_heatmap(coupling, attention), difference_heatmap(attention, coupling)
    cells = np.asarray(there.data[0].z)
    assert float(cells.sum()) == pytest.approx(0, abs=1e-6)
    assert np.allclose(cells, coupling.plan - attention.plan, atol=1e-7)
    assert np.allclose(cells, -np.asarray(back.data[0].z))
    axis = there.layout.coloraxis
    assert axis.cmax == -axis.cmin == pytest.approx(np.abs(cells).max(), rel=1e-5)
    assert axis.colorscale[4] == (0.5, LIGHT.page)


def test_a_difference_of_equal_plans_is_empty(make: Any) -> None:
    coupling = make.random(3, 3)
    figure = difference_heatmap(coupling, coupling)
    assert not np.asarray(figure.data[0].z).any()
    assert figure.layout.coloraxis.cmax > 0


@pytest.mark.parametrize("colour", ["mass", "lift"])
def test_the_null_partner_has_a_row_and_a_column(make: Any, colour: str) -> None:
    coupling = make.partial(4, 3, 2)
    figure = heatmap(coupling, colour=colour)
    column = next(trace for trace in figure.data if trace.name == "null column")
    row = next(trace for trace in figure.data if trace.name == "null row")
    assert np.asarray(column.z).shape == (4, 1)
    assert np.asarray(row.z).shape == (1, 3)
    assert np.allclose(np.asarray(column.customdata).ravel(), 100 * coupling.null_source, rtol=1e-5)
    assert np.allclose(np.asarray(row.customdata).ravel(), 100 * coupling.null_target, rtol=1e-5)
    if colour == "mass":
        total = sum(float(np.asarray(trace.z).sum()) for trace in (figure.data[0], column, row))
        assert total == pytest.approx(coupling.mass + coupling.null_source.sum() + coupling.null_target.sum(), rel=1e-5)
    assert figure.layout.xaxis2.ticktext[-1] == figure.layout.yaxis3.ticktext[-1] == "∅ no partner"
    low, high = figure.layout.xaxis.range
    assert low < column.x[0] < column.x[1] <= high
    assert not [trace for trace in heatmap(make.random(4, 3)).data if "null" in trace.name]


def test_atoms_without_weight_are_drawn_without_mass(make: Any) -> None:
    coupling = make.of_plan([[0, 0], [1, 3]])
    for colour in ("mass", "lift"):
        figure = heatmap(coupling, colour=colour)
        assert np.isfinite(np.asarray(figure.data[0].z)).all()
        assert np.isfinite(np.asarray(figure.data[0].customdata)).all()


def test_a_failed_solve_says_so(make: Any) -> None:
    coupling = replace(make.random(3, 3), status="max_iterations", residual=0.0123)
    assert "not converged (max iterations, error 0.0123)" in heatmap(coupling).layout.title.text


def test_bad_values_are_named(make: Any) -> None:
    coupling = make.random(3, 3)
    with pytest.raises(ValueError, match="colour: expected"):
        heatmap(coupling, colour="blue")
    with pytest.raises(ValueError, match="theme: expected"):
        heatmap(coupling, theme="sepia")
    with pytest.raises(ValueError, match="same atoms"):
        difference_heatmap(coupling, make.random(3, 4))
    with pytest.raises(ValueError, match="scale: expected"):
        difference_heatmap(coupling, coupling, scale=0)


@pytest.mark.parametrize("theme", ["light", "dark"])
def test_themes_differ_in_colours_only(make: Any, theme: str) -> None:
    figure = heatmap(make.random(3, 3), theme=theme)
    assert figure.layout.paper_bgcolor == palette(theme).card  # type: ignore[arg-type]
    assert np.array_equal(figure.data[0].z, heatmap(make.random(3, 3)).data[0].z)
