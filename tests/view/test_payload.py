"""The payload says exactly what the view needs, and little more than that."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from sinkviz.coupling import DEFAULT_EPSILON, Coupling
from sinkviz.measure import Measure
from sinkviz.view import payload as view_payload
from sinkviz.view.payload import build, from_coupling, read_arrays, read_header, utf16_spans, with_settings


def measures(n: int = 3, m: int = 2) -> tuple[Measure, Measure]:
    rng = np.random.default_rng(0)
    return Measure.from_points(rng.normal(size=(n, 4))), Measure.from_points(rng.normal(size=(m, 4)))


def options(n: int = 3, m: int = 2, **more: Any) -> dict[str, Any]:
    cost = np.random.default_rng(1).normal(size=(n, m))
    return {"cost": cost, "cost_scale": 0.5, "epsilons": [1.0, 0.1], "potentials": np.zeros((2, m)), **more}


def test_arrays_come_back_as_they_went_in() -> None:
    x, y = measures()
    given = options()
    blob = build(x, y, **given)
    arrays = read_arrays(blob)
    assert arrays["cost"].reshape(3, 2) == pytest.approx(given["cost"], abs=1e-6)
    assert arrays["source.weights"] == pytest.approx(x.weights)
    assert arrays["potentials"].shape == (4,)
    header = read_header(blob)
    assert header["unit"] == 0.5
    assert header["epsilons"] == [1.0, 0.1]
    for entry in header["arrays"]:
        assert entry["offset"] % 8 == 0


def test_spans_are_counted_in_utf16_units() -> None:
    text = "a🐟b\U0001f469\u200d\U0001f4bb c"
    spans = [(0, 1), (1, 2), (2, 3), (3, 6), (7, 8)]
    units = utf16_spans(text, spans)
    raw = text.encode("utf-16-le")
    for (start, end), (left, right) in zip(spans, units.tolist(), strict=True):
        assert raw[2 * left : 2 * right].decode("utf-16-le") == text[start:end]


def test_the_dial_marks_the_default_in_scales_and_only_what_is_given_otherwise() -> None:
    pair = measures()
    assert read_header(build(*pair, **options()))["recommended"] == DEFAULT_EPSILON
    assert read_header(build(*pair, **options(epsilon_unit="absolute")))["recommended"] is None
    assert read_header(build(*pair, **options(epsilon_unit="absolute", recommended=0.1)))["recommended"] == 0.1
    for wrong in (0.0, -1.0, float("nan"), float("inf")):
        with pytest.raises(ValueError, match="recommended"):
            build(*pair, **options(recommended=wrong))


def test_keys_name_texts_and_problem_but_not_settings() -> None:
    x, y = measures()
    one = read_header(build(x, y, **options()))
    setting = read_header(build(x, y, **options(settings={"epsilon": 2.0}, revision=3)))
    solved = read_header(build(x, y, **options(potentials=np.ones((2, 2)))))
    weighted = read_header(build(x, y, **options(solved_weights=([0.5, 0.25, 0.25], [0.5, 0.5]))))
    other = read_header(build(y, y, **options(2, 2)))
    assert (one["key"], one["texts_key"]) == (setting["key"], setting["texts_key"])
    assert one["key"] != solved["key"]
    assert one["texts_key"] == solved["texts_key"] == weighted["texts_key"]
    assert one["texts_key"] != other["texts_key"]


def test_settings_can_be_exchanged_without_touching_the_problem() -> None:
    blob = build(*measures(), **options())
    moved = with_settings(blob, {"epsilon": 0.2, "pins": [{"source": [0, 1], "target": None}]}, revision=2)
    assert read_header(moved)["settings"]["epsilon"] == 0.2
    assert read_header(moved)["revision"] == 2
    assert read_header(moved)["key"] == read_header(blob)["key"]
    for name, values in read_arrays(blob).items():
        assert (read_arrays(moved)[name] == values).all()


def test_the_optimum_is_bracketed_by_the_potentials() -> None:
    from sinkviz.transport import exact_plan, sinkhorn

    rng = np.random.default_rng(2)
    cost = rng.normal(size=(6, 5))
    a, b = np.full(6, 1 / 6), np.full(5, 0.2)
    import torch

    solved = sinkhorn(torch.tensor(cost), torch.tensor(a), torch.tensor(b), epsilon=0.01)
    blob = build(*measures(6, 5), cost=cost, cost_scale=1.0, epsilons=[0.01], potentials=solved.g.numpy()[None])
    low, high = read_header(blob)["optimum"]
    exact = float((exact_plan(torch.tensor(cost), torch.tensor(a), torch.tensor(b)).numpy() * cost).sum())
    assert low - 1e-9 <= exact <= high + 1e-9
    assert high - low < 0.1


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"cost": np.zeros((2, 2))}, r"cost: expected shape \(3, 2\)"),
        ({"cost": np.full((3, 2), np.nan)}, "cost: expected finite"),
        ({"epsilons": [0.1, 1.0]}, "falling"),
        ({"epsilons": [0.0]}, "epsilons"),
        ({"potentials": np.zeros((1, 2))}, "potentials"),
        ({"potentials": np.full((2, 2), np.inf)}, "potentials"),
        ({"epsilon_unit": "metre"}, "epsilon_unit"),
        ({"null_cost": np.nan}, "null_cost"),
        ({"statuses": ["converged"]}, "statuses"),
        ({"solved_weights": ([1.0], [1.0])}, "solved_weights"),
        ({"settings": {"epsilon": -1}}, "epsilon"),
    ],
)
def test_what_does_not_fit_is_named(change: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        build(*measures(), **{**options(), **change})


def test_foreign_bytes_are_refused() -> None:
    with pytest.raises(ValueError, match="payload"):
        read_header(b"PK\x03\x04 nothing of ours")


@pytest.mark.parametrize("mechanism", ["sinkhorn", "softmax", "relaxed", "partial", "exact"])
def test_a_single_coupling_opens_where_it_was_solved(mechanism: Any) -> None:
    x, y = measures()
    coupling = Coupling(
        plan=np.outer(x.weights, y.weights),
        source=x,
        target=y,
        cost=options()["cost"],
        cost_scale=0.5,
        epsilon=0.0 if mechanism == "exact" else 0.1,
        f=None,
        g=None,
        mechanism=mechanism,
        status="converged",
        residual=0.0,
        iterations=1,
        relaxation=0.25 if mechanism == "relaxed" else None,
        null_cost=0.3 if mechanism == "partial" else None,
    )
    header = read_header(from_coupling(coupling))
    settings = header["settings"]
    assert settings["epsilon"] == pytest.approx(0.01 if mechanism == "exact" else 0.2)
    assert settings["steps"] == (0.5 if mechanism == "softmax" else "inf")
    assert (settings["mode"], settings["relaxation"]) == (
        ("relaxation", 0.5) if mechanism == "relaxed" else ("steps", "inf")
    )
    assert header["null_cost"] == coupling.null_cost
    assert header["epsilons"][-1] <= settings["epsilon"] * 0.5 + 1e-12
    assert read_header(from_coupling(coupling.sentences()))["settings"]["level"] == "sentence"


def test_256_tokens_fit_in_four_tenths_of_a_megabyte() -> None:
    x, y = measures(256, 256)
    blob = build(x, y, **options(256, 256, epsilons=np.geomspace(5, 0.005, 41), potentials=np.zeros((41, 256))))
    assert len(blob) < 400_000


def test_forbidden_pairs_and_constant_costs_have_a_unit() -> None:
    cost = np.array([[0.0, np.inf], [1.0, 2.0], [1.0, 1.0]])
    assert np.isfinite(view_payload.cost_unit(cost, 0.0, np.full(3, 1 / 3), np.full(2, 0.5)))
    assert view_payload.cost_unit(np.ones((3, 2)), 0.0, np.full(3, 1 / 3), np.full(2, 0.5)) == 0.0
