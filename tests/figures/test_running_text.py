"""The words stand as text, the curves and bars are the masses."""

from __future__ import annotations

import re
from itertools import pairwise
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sinkviz.figures import lines, side_by_side, strongest_pairs
from sinkviz.figures.palette import LIGHT
from sinkviz.figures.running_text import wrap
from sinkviz.measure import Measure


def _trace(figure: Any, name: str) -> Any:
    return next(trace for trace in figure.data if trace.name == name)


def _curves(figure: Any) -> list[Any]:
    return [shape for shape in figure.layout.shapes if shape.type == "path"]


words = st.lists(st.text(alphabet="abcmw日ו .", min_size=1, max_size=25), min_size=1, max_size=60)


@settings(max_examples=100, deadline=None)
@given(words, st.integers(150, 900))
def test_words_stand_side_by_side_inside_the_lines(make: Any, labels: list[str], width: int) -> None:
    slots, count = wrap(make.measure(labels), width)
    assert len(slots) == len(labels)
    assert sorted({slot.line for slot in slots}) == list(range(count))
    assert [slot.line for slot in slots] == sorted(slot.line for slot in slots)
    for line in range(count):
        row = sorted((s for s in slots if s.line == line), key=lambda s: s.centre)
        assert row[0].centre - row[0].width / 2 >= 16 - 1e-6
        assert row[-1].centre + row[-1].width / 2 <= 16 + width + 1e-6
        for left, right in pairwise(row):
            assert left.centre + left.width / 2 < right.centre - right.width / 2


def test_text_runs_the_way_of_its_script(make: Any) -> None:
    forwards, _ = wrap(make.measure(["one", "two", "three"]), 600)
    backwards, _ = wrap(make.measure(["אחת", "שתיים", "שלוש"]), 600)
    assert np.all(np.diff([slot.centre for slot in forwards]) > 0)
    assert np.all(np.diff([slot.centre for slot in backwards]) < 0)


def test_pieces_of_a_word_stay_together() -> None:
    points = np.eye(3)
    apart = Measure.from_points(points, labels=["play", "er", "s"])
    spans = ((0, 4), (4, 6), (6, 7))
    joined = Measure(points, np.ones(3), "players", spans, np.zeros(3, int), np.zeros(3, int), ((0, 7),), ((0, 7),))

    def gaps(measure: Measure) -> list[float]:
        slots, _ = wrap(measure, 600)
        return [b.centre - b.width / 2 - a.centre - a.width / 2 for a, b in pairwise(slots)]

    assert max(gaps(joined)) < min(gaps(apart)) / 2


@settings(max_examples=40, deadline=None)
@given(n=st.integers(1, 6), m=st.integers(1, 6), seed=st.integers(0, 99), share=st.floats(0.1, 1))
def test_a_curve_for_each_pair_as_wide_as_its_mass(make: Any, n: int, m: int, seed: int, share: float) -> None:
    coupling = make.random(n, m, seed)
    pairs = strongest_pairs(coupling, share)
    figure = lines(coupling, share=share)
    curves = _curves(figure)[::-1]
    assert len(curves) == len(pairs)
    assert pairs.sentence in figure.layout.annotations[0].text
    largest = coupling.plan.max()
    source, target = _trace(figure, "source"), _trace(figure, "target")
    for curve, i, j, mass in zip(curves, pairs.source, pairs.target, pairs.mass, strict=True):
        assert curve.line.width == pytest.approx(max(0.5, 8 * mass / largest), abs=0.01)
        numbers = [float(v) for v in re.findall(r"-?\d+\.\d", curve.path)]
        assert numbers[0] == pytest.approx(source.x[i], abs=0.06)
        assert numbers[-2] == pytest.approx(target.x[j], abs=0.06)
    facts = _trace(figure, "pairs").customdata
    assert [fact[2] for fact in facts] == pytest.approx(list(100 * pairs.mass))


@settings(max_examples=30, deadline=None)
@given(seed=st.integers(0, 99))
def test_bars_are_the_mass_received_on_a_shared_scale(make: Any, seed: int) -> None:
    coupling = make.random(5, 4, seed)
    attention = make.attention(coupling)
    figures = side_by_side(lines, coupling, attention)
    heights = np.concatenate([_trace(figure, "received").y for figure in figures])
    masses = np.concatenate([coupling.received, attention.received])
    assert np.allclose(heights / heights.sum(), masses / masses.sum())
    for figure, one in zip(figures, (coupling, attention), strict=True):
        bar, mark = _trace(figure, "received"), _trace(figure, "its weight")
        assert [fact[1] for fact in bar.customdata] == pytest.approx(list(100 * one.received))
        per_mass = heights.sum() / masses.sum()
        levels = np.array([y for y in mark.y if y is not None])[::2]
        assert np.allclose(levels - np.asarray(bar.base), per_mass * one.target.weights)
    widest = [shape.line.width for figure in figures for shape in figure.layout.shapes if shape.type == "line"]
    assert widest == [8, 8]


def test_equal_words_are_drawn_as_often_as_they_occur(make: Any) -> None:
    figure = lines(make.random(3, 3, 0, ["the"] * 3, ["the"] * 3))
    for side in ("source", "target"):
        trace = _trace(figure, side)
        assert list(trace.text) == ["the"] * 3
        assert len(set(trace.x)) == 3


def test_pinned_words_keep_their_colours(make: Any) -> None:
    coupling = make.random(4, 4, 3)
    figure = lines(coupling, share=1.0, pinned_source=[2], pinned_target=[0])
    assert list(_trace(figure, "source").textfont.color) == [
        LIGHT.source_text,
        LIGHT.source_text,
        LIGHT.pins[0],
        LIGHT.source_text,
    ]
    assert _trace(figure, "target").textfont.color[0] == LIGHT.pins[1]
    assert _trace(figure, "source").text[2] == "<b>s2</b>"
    crimson = sum("rgba(194,37,92" in curve.line.color for curve in _curves(figure))
    assert crimson == 4
    with pytest.raises(ValueError, match="pinned_source: expected positions from 0 to 3, got 4"):
        lines(coupling, pinned_source=[4])


def test_mass_without_partner_is_dotted_and_named(make: Any) -> None:
    coupling = make.partial(4, 3, 1)
    figure = lines(coupling, share=1.0)
    pairs = strongest_pairs(coupling, 1.0)
    nulls = int(((pairs.source < 0) | (pairs.target < 0)).sum())
    assert nulls == 7
    assert [curve.line.dash for curve in _curves(figure)].count("dot") == nulls
    assert list(_trace(figure, "no partner").text) == ["∅", "∅"]
    assert [fact[1] for fact in _trace(figure, "no partner").customdata] == pytest.approx(
        [100 * coupling.null_target.sum(), 100 * coupling.null_source.sum()]
    )
    assert "∅ no partner" in [trace.name for trace in figure.data]


def test_a_limit_is_said(make: Any) -> None:
    figure = lines(make.random(9, 9), share=0.9, limit=3)
    assert len(_curves(figure)) == 3
    assert "3 of 81 pairs drawn" in figure.layout.annotations[0].text
    assert "limit reached" in figure.layout.annotations[0].text


def test_a_width_that_is_too_small_is_named(make: Any) -> None:
    with pytest.raises(ValueError, match="width: expected at least 200"):
        lines(make.random(2, 2), width=100)
