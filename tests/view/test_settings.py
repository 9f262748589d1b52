"""Every setting survives the URL, and wrong ones are named."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sinkviz.view.settings import defaults, from_query, to_query, validate

number = st.floats(1e-3, 1e3).map(lambda x: float(f"{x:.6g}"))
atom_range = st.tuples(st.integers(0, 500), st.integers(1, 50)).map(lambda r: [r[0], r[0] + r[1]])
maybe_range = st.none() | atom_range
choice = st.fixed_dictionaries(
    {
        "preset": st.sampled_from(["given", "uniform", "length", "inverse_frequency"]),
        "drop": st.sampled_from([[], ["punctuation"], ["stop_words"], ["punctuation", "stop_words"]]),
        "factors": st.dictionaries(st.integers(0, 300).map(str), number, max_size=4),
    }
)
pin = st.fixed_dictionaries({"source": maybe_range, "target": maybe_range}).filter(lambda p: any(p.values()))
settings = st.fixed_dictionaries(
    {
        "epsilon": number,
        "mode": st.sampled_from(["steps", "relaxation"]),
        "steps": st.just("inf") | st.integers(1, 2000).map(lambda k: k / 2),
        "relaxation": st.just("inf") | st.just(0.0) | number,
        "level": st.sampled_from([None, "token", "word", "sentence"]),
        "colour": st.sampled_from(["mass", "lift", "difference"]),
        "share": st.integers(5, 100).map(lambda k: k / 100),
        "source_range": maybe_range,
        "target_range": maybe_range,
        "renormalise": st.booleans(),
        "pins": st.lists(pin, max_size=5),
        "weights": st.fixed_dictionaries({"source": choice, "target": choice}),
    }
)


@given(settings)
def test_settings_survive_the_url_and_json(given_settings: dict[str, Any]) -> None:
    full = validate(given_settings)
    assert from_query(to_query(full)) == full
    assert validate(json.loads(json.dumps(full))) == full


@pytest.mark.parametrize("name", sorted(defaults()))
def test_each_field_alone_survives_the_url(name: str) -> None:
    other: dict[str, Any] = {
        "epsilon": 0.02,
        "mode": "relaxation",
        "steps": 1.5,
        "relaxation": 0.7,
        "level": "sentence",
        "colour": "lift",
        "share": 0.25,
        "source_range": [3, 9],
        "target_range": [0, 1],
        "renormalise": True,
        "pins": [{"source": [0, 2], "target": None}, {"source": [4, 5], "target": [6, 7]}],
        "weights": {
            "source": {"preset": "length", "drop": ["punctuation"], "factors": {"3": 0.0}},
            "target": {"preset": "given", "drop": [], "factors": {"0": 2.5}},
        },
    }
    full = validate({name: other[name]})
    assert full[name] == other[name]
    query = to_query(full)
    assert query
    assert from_query(query) == full


def test_defaults_leave_the_url_empty() -> None:
    assert to_query(defaults()) == {}
    assert from_query({}) == defaults()
    assert from_query({"page": "2", "utm": "x"}) == defaults()


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("epsilon", 0),
        ("epsilon", float("nan")),
        ("epsilon", "0.3"),
        ("epsilon", True),
        ("mode", "both"),
        ("steps", 0.25),
        ("steps", 0.0),
        ("steps", 1e9),
        ("relaxation", -1),
        ("level", "letter"),
        ("colour", "red"),
        ("share", 0),
        ("share", 1.5),
        ("source_range", [3, 3]),
        ("source_range", [-1, 3]),
        ("target_range", [0.5, 3]),
        ("target_range", "0-3"),
        ("renormalise", 1),
        ("pins", [{"source": None, "target": None}]),
        ("pins", [{"source": [0, 1]}]),
        ("pins", [{"source": [0, 1], "target": None}] * 25),
        ("weights", {"source": {}}),
        ("weights", {"source": {"preset": "loud"}, "target": {}}),
        ("weights", {"source": {"factors": {"x": 1.0}}, "target": {}}),
        ("weights", {"source": {"factors": {"1": -1.0}}, "target": {}}),
        ("weights", {"source": {"drop": ["nouns"]}, "target": {}}),
    ],
)
def test_wrong_values_are_named(name: str, value: Any) -> None:
    with pytest.raises(ValueError, match=name):
        validate({name: value})


@pytest.mark.parametrize(
    "query",
    [
        {"epsilon": "abc"},
        {"steps": "x"},
        {"source_range": "3"},
        {"source_range": "9-3"},
        {"pins": "1-2"},
        {"pins": "a:b"},
        {"source_weights": "given,1*x"},
        {"source_weights": "loud"},
        {"target_weights": "given,-1*2"},
    ],
)
def test_a_damaged_url_is_an_error_not_a_guess(query: dict[str, str]) -> None:
    with pytest.raises(ValueError, match="expected"):
        from_query(query)


def test_an_unknown_setting_is_named() -> None:
    with pytest.raises(ValueError, match="epsilonn"):
        validate({"epsilonn": 1})
