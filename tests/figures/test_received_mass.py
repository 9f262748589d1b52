"""Bars are column sums, marks are weights."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sinkviz.figures import received, side_by_side


def _marks(figure: Any) -> np.ndarray:
    line = next(trace for trace in figure.data if trace.type == "scatter")
    return np.array([y for y in line.y if y is not None])[::2]


@settings(max_examples=30, deadline=None)
@given(seed=st.integers(0, 99), m=st.integers(1, 9))
def test_bars_and_marks(make: Any, seed: int, m: int) -> None:
    coupling = make.random(4, m, seed)
    attention = make.attention(coupling)
    one, other = side_by_side(received, coupling, attention)
    assert np.allclose(one.data[0].y, _marks(one))
    assert float(np.sum(other.data[0].y)) == pytest.approx(1)
    assert 0.5 * np.abs(np.asarray(other.data[0].y) - _marks(other)).sum() == pytest.approx(attention.received_distance)
    assert one.layout.yaxis.range == other.layout.yaxis.range
    assert one.layout.yaxis.range[1] > max(np.max(one.data[0].y), np.max(other.data[0].y))


def test_extremes_are_named_in_numbers(make: Any) -> None:
    coupling = make.of_plan([[1, 1], [1, 1]], target=["the", "<made>"])
    plan = np.array([[0.49, 0.01], [0.49, 0.01]])
    attention = make.coupling(plan, coupling.source, coupling.target, "softmax")
    title = received(attention).layout.title.text.replace("\u00a0", " ")
    assert "the: 1.96 times its weight · &lt;made&gt;: 4 % of it" in title
    assert "every word receives its weight" in received(coupling).layout.title.text
    assert "48\u00a0% of the mass misses" in received(attention).layout.annotations[0].text


def test_mass_without_partner_is_stacked_and_hatched(make: Any) -> None:
    coupling = make.partial(3, 5)
    figure = received(coupling)
    real, null = figure.data[:2]
    assert null.name == "without partner"
    assert null.marker.pattern.shape == "/"
    assert np.allclose(null.base, real.y)
    assert np.allclose(np.asarray(real.y) + np.asarray(null.y), _marks(figure))
    assert "every word is accounted for" in figure.layout.title.text


def test_labels_that_are_left_out_are_counted(make: Any) -> None:
    figure = received(make.random(2, 100))
    assert len(figure.layout.xaxis.ticktext) == 34
    assert "34 of 100 labels drawn" in figure.layout.annotations[0].text
    assert len(figure.data[0].customdata) == 100
