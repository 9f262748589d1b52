"""The gallery: complete, readable by the models, and true to what it says it teaches."""

from __future__ import annotations

import json

import numpy as np
import pytest

from sinkviz.embedding import embed, language_notice
from sinkviz.embedding.multilingual import multilingual_available
from sinkviz.language import LANGUAGES, guess_language
from sinkviz.pipeline import couple
from sinkviz.resources import asset_path

EXAMPLES = json.loads(asset_path("examples.json").read_text(encoding="utf-8"))
BY_ID = {example["id"]: example for example in EXAMPLES}


def test_the_gallery_is_complete() -> None:
    assert len(EXAMPLES) == len(BY_ID) >= 12
    for example in EXAMPLES:
        assert set(example) == {"id", "title", "source", "target", "teaches", "language"}
        assert all(isinstance(value, str) and value.strip() == value and value for value in example.values())
        assert example["language"] in LANGUAGES
        assert example["teaches"].endswith(".")
    for text in (BY_ID["long"]["source"], BY_ID["long"]["target"]):
        assert 220 <= len(text.split()) <= 280
    assert {"en", "de", "es", "ru", "ar", "zh", "hi"} <= {example["language"] for example in EXAMPLES}


@pytest.mark.parametrize("name", BY_ID)
def test_texts_are_in_the_language_they_name(name: str) -> None:
    example = BY_ID[name]
    notice = language_notice(example["source"])
    assert (notice is not None) == (example["language"] != "en")
    assert guess_language(example["source"]) in (example["language"], None)
    assert language_notice(example["target"]) is None


@pytest.mark.parametrize("name", BY_ID)
def test_no_word_is_left_out(name: str) -> None:
    for side in ("source", "target"):
        assert not any("have no token" in note for note in embed(BY_ID[name][side], device="cpu").origin.notes)


def best(name: str, word: str, model: str = "all-MiniLM-L6-v2") -> str:
    coupling = couple(BY_ID[name]["source"], BY_ID[name]["target"], unit="word", model=model, device="cpu")
    row = coupling.source.labels.index(word)
    return coupling.target.labels[int(np.argmax(coupling.plan[row]))]


def test_what_they_teach_is_so() -> None:
    assert best("paraphrase", "rejected") == "turned"
    assert best("paraphrase", "cost") == "expensive"
    assert best("question", "Where") == "behind"
    negation = couple(BY_ID["negation"]["source"], BY_ID["negation"]["target"], device="cpu")
    same = sum(negation.plan[k, negation.target.labels.index(label)] for k, label in enumerate(negation.source.labels))
    assert same > 0.8
    identical = couple(BY_ID["identical"]["source"], BY_ID["identical"]["target"], epsilon=0.1, device="cpu")
    assert np.trace(identical.plan) > 0.99
    cosines = []
    for layer in (0, 6):
        points = [embed(BY_ID["bank"][side], layer=layer, device="cpu") for side in ("source", "target")]
        first, second = (measure.points[measure.labels.index("bank")] for measure in points)
        cosines.append(float(first @ second / np.linalg.norm(first) / np.linalg.norm(second)))
    assert cosines == pytest.approx([0.97, 0.75], abs=0.005)
    repeated = {
        mechanism: couple(BY_ID["repeated"]["source"], BY_ID["repeated"]["target"], mechanism=mechanism, device="cpu")
        for mechanism in ("sinkhorn", "softmax")
    }
    column = repeated["softmax"].target.labels.index("rang")
    assert repeated["softmax"].received[column] > 1.8 * repeated["softmax"].target.weights[column]
    assert repeated["sinkhorn"].received[column] == pytest.approx(repeated["sinkhorn"].target.weights[column])


@pytest.mark.skipif(not multilingual_available(), reason="the weights of multilingual-e5-small are not on this machine")
def test_the_multilingual_model_links_other_languages() -> None:
    pairs = [
        ("german", "regnete", "raining"),
        ("german", "Kinder", "children"),
        ("spanish", "biblioteca", "library"),
        ("russian", "письмо", "letter"),
        ("arabic", "الطفل", "child"),
        ("chinese", "学校", "school"),
        ("hindi", "नदी", "river"),
    ]
    for name, word, partner in pairs:
        assert best(name, word, "multilingual-e5-small") == partner
