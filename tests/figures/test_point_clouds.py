"""Both clouds in one frame, areas and lines in proportion to the mass."""

from __future__ import annotations

import re
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sinkviz.figures import clouds, side_by_side, strongest_pairs
from sinkviz.projection import shared_projection

DIMENSIONS = pytest.mark.parametrize("dimensions", [2, 3])


def _draw(coupling: Any, dimensions: int, **options: Any) -> Any:
    return clouds(coupling, shared_projection(coupling.source, coupling.target, dimensions), **options)


def _marks(figure: Any) -> tuple[Any, Any, Any]:
    named = {trace.name: trace for trace in figure.data}
    return named["source word"], named["target word: mass received"], named["its weight"]


@DIMENSIONS
@settings(max_examples=30, deadline=None)
@given(seed=st.integers(0, 99), n=st.integers(1, 8), m=st.integers(1, 8))
def test_areas_are_in_proportion_to_the_mass(make: Any, dimensions: int, seed: int, n: int, m: int) -> None:
    coupling = make.random(n, m, seed, sharpness=0.5)
    attention = make.attention(coupling)
    projection = shared_projection(coupling.source, coupling.target, dimensions)
    masses, areas = [], []
    for one, figure in zip(
        (coupling, attention), side_by_side(clouds, coupling, attention, projection=projection), strict=True
    ):
        source, received, weight = _marks(figure)
        masses += [one.source.weights, one.received, one.target.weights]
        areas += [np.asarray(trace.marker.size) ** 2 for trace in (source, received, weight)]
        assert [source.marker.symbol, received.marker.symbol, weight.marker.symbol] == [
            "circle",
            "square",
            "square-open",
        ]
        assert np.allclose(source.x, projection.source[:, 0])
        assert np.allclose(received.y, projection.target[:, 1])
    mass, area = np.concatenate(masses), np.concatenate(areas)
    seen = area > 4.01  # diameters below 2 pixels are drawn with 2
    assert np.allclose(area[seen] / mass[seen], (area[seen] / mass[seen])[0])


@DIMENSIONS
@settings(max_examples=30, deadline=None)
@given(seed=st.integers(0, 99), share=st.floats(0.1, 1))
def test_every_drawn_pair_is_a_line_in_the_class_of_its_mass(
    make: Any, dimensions: int, seed: int, share: float
) -> None:
    coupling = make.random(5, 6, seed)
    figure = _draw(coupling, dimensions, share=share)
    pairs = strongest_pairs(coupling, share)
    classes = [trace for trace in figure.data if trace.mode == "lines"]
    assert sum(list(trace.x).count(None) for trace in classes) == len(pairs)
    part = pairs.mass / coupling.plan.max()
    expected = [
        ((part >= low) & (part < high)).sum() for low, high in ((0.5, 2), (0.25, 0.5), (0.125, 0.25), (0, 0.125))
    ]
    assert [list(trace.x).count(None) for trace in classes] == [count for count in expected if count]
    widths = [trace.line.width for trace in classes]
    assert widths == sorted(widths, reverse=True)
    assert pairs.sentence in figure.layout.annotations[0].text
    handles = next(trace for trace in figure.data if trace.name == "pairs")
    assert [fact[2] for fact in handles.customdata] == pytest.approx(list(100 * pairs.mass))


def test_one_unit_is_equally_long_on_every_axis(make: Any) -> None:
    coupling = make.random(4, 4)
    assert _draw(coupling, 2).layout.yaxis.scaleanchor == "x"
    assert _draw(coupling, 3).layout.scene.aspectmode == "data"


@DIMENSIONS
def test_the_kept_variance_is_printed(make: Any, dimensions: int) -> None:
    coupling = make.random(9, 9)
    figure = _draw(coupling, dimensions)
    kept = shared_projection(coupling.source, coupling.target, dimensions).kept
    printed = re.search(r"(\d+)\u00a0% of the variance kept", figure.layout.title.text)
    assert printed is not None
    assert float(printed.group(1)) == pytest.approx(100 * kept, abs=0.51)


def _boxes(figure: Any, width: float, height: float) -> np.ndarray:
    """Where the labels stand, in pixels, if the frame has the size the placement took it to have."""
    from sinkviz.figures.labels import text_width

    boxes = []
    for trace in [trace for trace in figure.data if trace.name.startswith("labels of")]:
        for x, y, text, place, size in zip(
            trace.x, trace.y, trace.text, trace.textposition, trace.marker.size, strict=True
        ):
            if text:
                boxes.append((x, y, text_width(text) * 12 / 2, place, size / 2))
    points = np.concatenate([[[x, y] for x, y in zip(t.x, t.y, strict=True)] for t in _marks(figure)[:2]])
    extent = np.ptp(points, axis=0)
    unit = min(np.array([width, height])[extent > 0] / (1.14 * extent[extent > 0]), default=1.0)
    placed = []
    for x, y, half, place, radius in boxes:
        vertical, across = place.split()
        side = {"left": -1, "center": 0, "right": 1}[across]
        down = {"top": -1, "middle": 0, "bottom": 1}[vertical]
        reach = radius * (0.75 if side and down else 1) + 3
        placed.append((x * unit + side * (reach + half), -y * unit + down * (reach + 6.5), half, 6.5))
    return np.array(placed)


@settings(max_examples=30, deadline=None)
@given(seed=st.integers(0, 99), n=st.integers(1, 40))
def test_labels_do_not_cover_each_other_and_the_rest_is_said(make: Any, seed: int, n: int) -> None:
    coupling = make.random(n, n, seed)
    figure = _draw(coupling, 2)
    boxes = _boxes(figure, 588, 304)
    for k, (x, y, half, tall) in enumerate(boxes):
        rest = boxes[k + 1 :]
        over = (np.abs(rest[:, 0] - x) < half + rest[:, 2] - 0.01) & (np.abs(rest[:, 1] - y) < tall + rest[:, 3] - 0.01)
        assert not over.any()
    words = figure.layout.annotations[0].text
    assert (f"{len(boxes)} of {2 * n} labels drawn" in words) == (len(boxes) < 2 * n)


def test_labels_in_space_are_annotations_that_escape(make: Any) -> None:
    coupling = make.random(2, 2, 0, ["<b>x</b>", "$y$"], ["&amp;", "z"])
    scene = _draw(coupling, 3).layout.scene
    assert {note.text for note in scene.annotations} <= {"&lt;b&gt;x&lt;/b&gt;", "&#36;y&#36;", "&amp;amp;", "z"}
    assert len(scene.annotations) >= 3


def test_atoms_at_one_point_are_drawn(make: Any) -> None:
    coupling = make.random(1, 1)
    figure = _draw(coupling, 2)
    low, high = figure.layout.xaxis.range
    assert low < high
    same = make.coupling(coupling.plan, coupling.source, coupling.source, "sinkhorn")
    figure = _draw(same, 2)
    assert np.isfinite(figure.layout.xaxis.range).all()
    assert figure.layout.xaxis.range[0] < figure.layout.xaxis.range[1]


def test_with_a_null_partner_the_share_is_of_the_mass_that_has_one(make: Any) -> None:
    coupling = make.partial(4, 4)
    pairs = strongest_pairs(coupling, 0.7, nulls=False)
    figure = _draw(coupling, 2)
    assert f"{len(pairs)} of 16 pairs drawn" in figure.layout.annotations[0].text
    assert "of the mass that has a partner" in figure.layout.annotations[0].text


def test_a_foreign_projection_is_refused(make: Any) -> None:
    one, other = make.random(3, 3), make.random(4, 3)
    with pytest.raises(ValueError, match="projection: expected"):
        clouds(one, shared_projection(other.source, other.target))
