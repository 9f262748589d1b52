"""Weights that a user can choose for the tokens of a text."""

from __future__ import annotations

import numpy as np
import pytest

from sinkviz.measure import Measure
from sinkviz.view.weights import atom_flags, chosen_weights, stop_word_language, weight_presets


def measure(*labels: str, weights: list[float] | None = None) -> Measure:
    return Measure.from_points(np.eye(len(labels)), weights=weights, labels=list(labels))


def test_presets_sum_to_one_and_follow_their_rule() -> None:
    presets = weight_presets(measure("the", "fish", "The", "é", "e\u0301"))
    for weights in presets.values():
        assert weights.sum() == pytest.approx(1)
    assert presets["uniform"] == pytest.approx(np.full(5, 0.2))
    assert presets["length"] == pytest.approx(np.array([3, 4, 3, 1, 1]) / 12)
    assert presets["inverse_frequency"][0] == pytest.approx(presets["inverse_frequency"][2])
    assert presets["inverse_frequency"][:3].sum() == pytest.approx(2 / 4)


def test_flags_know_punctuation_and_stop_words() -> None:
    text = measure("the", "fish", "and", "the", "river", ",", "…", "7", "🐟", "。")
    assert atom_flags(text).tolist() == [2, 0, 2, 2, 0, 1, 1, 0, 1, 1]
    assert stop_word_language(text) == "en"
    assert stop_word_language(measure("рыбак", "сидел", "на", "берегу")) is None


def test_a_choice_is_applied_in_order() -> None:
    text = measure("the", "fish", "the", ".", weights=[1, 2, 1, 4])
    kept = chosen_weights(text, {"preset": "given", "drop": ["punctuation"], "factors": {"1": 2.0}})
    assert kept == pytest.approx(np.array([1, 4, 1, 0]) / 6)
    uniform = chosen_weights(text, {"preset": "uniform", "drop": ["stop_words"]})
    assert uniform == pytest.approx([0, 0.5, 0, 0.5])
    assert chosen_weights(text, {}) == pytest.approx(text.weights)


def test_nothing_left_is_an_error_that_says_what_to_do() -> None:
    with pytest.raises(ValueError, match="at least one atom"):
        chosen_weights(measure(".", "!"), {"drop": ["punctuation"]})
    with pytest.raises(ValueError, match="from 0 to 1, got 7"):
        chosen_weights(measure("a", "b"), {"factors": {"7": 0.0}})


def test_sentences_have_no_word_groups() -> None:
    one = measure("the", "fish").coarsen("sentence")
    assert atom_flags(one).tolist() == [0]
