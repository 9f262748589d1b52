"""The weights a user can choose for the tokens of a text, without embedding it again."""

from __future__ import annotations

import unicodedata
from collections import Counter
from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sinkviz.language import FUNCTION_WORDS, guess_language
from sinkviz.measure import Measure
from sinkviz.view.settings import validate_weight_choice

PUNCTUATION = 1
STOP_WORD = 2


def weight_presets(measure: Measure) -> dict[str, NDArray[np.float64]]:
    """Return the named weights of a measure's atoms, each with sum 1.

    * "uniform": 1/n each.
    * "length": proportional to the number of letters, digits and signs, without combining marks.
    * "inverse_frequency": proportional to 1/(occurrences of the atom in its own text, case ignored), so that all
      distinct atoms weigh the same in sum.

    >>> measure = Measure.from_points([[0.0], [0.0], [0.0]], labels=["the", "Fish", "the"])
    >>> weight_presets(measure)["inverse_frequency"].tolist()
    [0.25, 0.5, 0.25]
    """
    labels = [label.casefold() for label in measure.labels]
    count = Counter(labels)
    lengths = [sum(not unicodedata.combining(c) and not c.isspace() for c in label) or 1 for label in labels]
    raw = {
        "uniform": np.ones(len(labels)),
        "length": np.asarray(lengths, dtype=np.float64),
        "inverse_frequency": np.asarray([1.0 / count[label] for label in labels]),
    }
    return {name: values / values.sum() for name, values in raw.items()}


def stop_word_language(measure: Measure) -> str | None:
    """Return the language whose stop words are known for this text: its own, English where none is recognised.

    None: the text's language has no list.

    >>> stop_word_language(Measure.from_points([[0.0]], labels=["fish"]))
    'en'
    """
    language = guess_language(measure.text) or "en"
    return language if language in FUNCTION_WORDS else None


def atom_flags(measure: Measure) -> NDArray[np.uint8]:
    """Return for each atom whether it is punctuation (bit 1: no letter and no digit) or lies in a stop word (bit 2).

    Stop words are the commonest function words of `stop_word_language`.

    >>> measure = Measure.from_points([[0.0], [0.0], [0.0]], labels=["the", "fish", "."])
    >>> atom_flags(measure).tolist()
    [2, 0, 1]
    """
    if measure.unit == "sentence":
        return np.zeros(len(measure), dtype=np.uint8)
    flags = np.zeros(len(measure), dtype=np.uint8)
    known = set(FUNCTION_WORDS.get(stop_word_language(measure) or "", "").split())
    stop = [measure.text[start:end].casefold() in known for start, end in measure.word_spans]
    for k, (label, word) in enumerate(zip(measure.labels, measure.word_of, strict=True)):
        if not any(unicodedata.category(c)[0] in "LN" for c in label):
            flags[k] |= PUNCTUATION
        elif stop[int(word)]:
            flags[k] |= STOP_WORD
    return flags


def chosen_weights(measure: Measure, choice: Mapping[str, Any]) -> NDArray[np.float64]:
    """Return the weights that a choice of the view's settings gives, sum 1.

    Args:
        measure: the measure as it was embedded; its own weights are the preset "given".
        choice: `settings["weights"]["source"]` or `["target"]`: preset, dropped groups, factors of single atoms.

    Raises:
        ValueError: a choice that cannot be read, an atom that does not exist, or nothing left.

    >>> measure = Measure.from_points([[0.0], [0.0], [0.0]], labels=["the", "fish", "."])
    >>> chosen_weights(measure, {"drop": ["punctuation"], "factors": {"1": 3}}).tolist()
    [0.25, 0.75, 0.0]
    """
    full = validate_weight_choice("weights", choice)
    weights = measure.weights if full["preset"] == "given" else weight_presets(measure)[full["preset"]]
    weights = weights.copy()
    flags = atom_flags(measure)
    for group, bit in (("punctuation", PUNCTUATION), ("stop_words", STOP_WORD)):
        if group in full["drop"]:
            weights[(flags & bit) > 0] = 0.0
    for key, factor in full["factors"].items():
        if int(key) >= len(weights):
            raise ValueError(f"weights: expected an atom from 0 to {len(weights) - 1}, got {key}")
        weights[int(key)] *= factor
    total = float(weights.sum())
    if not (np.isfinite(total) and total > 0):
        raise ValueError("weights: expected at least one atom with weight, got none; keep one or undo the last change")
    return np.asarray(weights / total)
