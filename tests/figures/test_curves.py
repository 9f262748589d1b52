"""The curves are the couplings' own numbers."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from sinkviz.figures import epsilon_curves


def _path(make: Any, epsilons: list[float]) -> list[Any]:
    base = make.random(4, 4, 2)
    return [
        replace(base, epsilon=e, plan=base.plan / (1 + e) + np.outer(base.given, base.received) * e / (1 + e))
        for e in epsilons
    ]


def test_points_are_the_properties_in_order_of_epsilon(make: Any) -> None:
    path = _path(make, [1.0, 0.1, 10.0])
    figure = epsilon_curves(path)
    ordered = [path[1], path[0], path[2]]
    assert len(figure.data) == 3
    expected = (
        [c.transport_cost for c in ordered],
        [c.mutual_information for c in ordered],
        [c.mean_partners for c in ordered],
    )
    for trace, values in zip(figure.data, expected, strict=True):
        assert list(trace.x) == pytest.approx([0.2, 2, 20])  # in units of the spread, 0.5
        assert list(trace.y) == pytest.approx(values)
    assert figure.layout.xaxis.type == "log"
    titles = " ".join(note.text for note in figure.layout.annotations)
    for unit in ("units of the cost", "nat", "a word"):
        assert unit in titles
    assert "units of σ" in figure.layout.xaxis.title.text


def test_without_a_spread_epsilon_is_absolute(make: Any) -> None:
    path = [replace(c, cost_scale=0.0) for c in _path(make, [0.1, 1.0])]
    figure = epsilon_curves(path)
    assert list(figure.data[0].x) == [0.1, 1.0]
    assert "units of the cost" in figure.layout.xaxis.title.text


def test_attention_the_exact_plan_and_the_mark(make: Any) -> None:
    path = _path(make, [0.1, 1.0])
    attention = [replace(make.attention(c), epsilon=c.epsilon) for c in path]
    exact = replace(path[0], mechanism="exact", epsilon=0.0)
    figure = epsilon_curves(path, attention=attention, exact=exact, mark=0.5)
    assert {trace.name for trace in figure.data} == {"Coupling", "Attention", "exact plan, ε = 0"}
    assert len([trace for trace in figure.data if trace.showlegend]) == 3
    dashes = {trace.name: trace.line.dash for trace in figure.data}
    assert len(set(dashes.values())) == 3
    levels = [trace.y[0] for trace in figure.data if trace.name.startswith("exact")]
    assert levels == [exact.transport_cost, exact.mutual_information, exact.mean_partners]
    assert [shape.x0 for shape in figure.layout.shapes] == [0.5] * 3
    low, high = figure.layout.xaxis.range
    assert low < np.log10(0.2) < high
    assert "ε = 0.5 σ" in [note.text for note in figure.layout.annotations]


def test_panels_can_be_drawn_one_by_one(make: Any) -> None:
    path = _path(make, [0.1, 1.0])
    figure = epsilon_curves(path, quantities=["information"])
    assert [list(trace.y) for trace in figure.data] == [
        pytest.approx([c.mutual_information for c in path]),
    ]
    assert figure.layout.xaxis.domain == (0, 1)


def test_solves_that_failed_are_open_marks_and_counted(make: Any) -> None:
    path = _path(make, [0.1, 1.0])
    path[0] = replace(path[0], status="max_iterations")
    figure = epsilon_curves(path)
    assert list(figure.data[0].marker.symbol) == ["circle-open", "circle"]
    assert "open marks: 1 solve not converged" in [note.text for note in figure.layout.annotations]


def test_a_single_epsilon_and_a_constant_are_drawn(make: Any) -> None:
    figure = epsilon_curves(_path(make, [0.1]), mark=0.2)
    for k in ("", "2", "3"):
        for axis in (figure.layout[f"xaxis{k}"], figure.layout[f"yaxis{k}"]):
            assert np.isfinite(axis.range).all()
            assert axis.range[0] < axis.range[1]


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"path": []}, "path: expected at least one"),
        ({"mark": 0}, "mark: expected"),
        ({"quantities": []}, "quantities: expected"),
        ({"quantities": ["speed"]}, "quantities: expected"),
    ],
)
def test_bad_values_are_named(make: Any, change: dict[str, Any], message: str) -> None:
    arguments = {"path": _path(make, [0.1, 1.0]), **change}
    with pytest.raises(ValueError, match=message):
        epsilon_curves(**arguments)


def test_epsilon_zero_and_mixed_shapes_are_refused(make: Any) -> None:
    with pytest.raises(ValueError, match="give the plan at ε = 0 as exact"):
        epsilon_curves([replace(make.random(2, 2), epsilon=0.0)])
    with pytest.raises(ValueError, match="one shape"):
        epsilon_curves([make.random(2, 2), make.random(2, 3)])
