"""multilingual-e5-small itself, where its weights are on this machine."""

from __future__ import annotations

import numpy as np
import pytest

from sinkviz.embedding import MULTILINGUAL_MODEL, embed, load_model
from sinkviz.embedding import multilingual as module

pytestmark = pytest.mark.skipif(
    not module.multilingual_available(), reason="the weights of multilingual-e5-small are not on this machine"
)


def test_the_page_can_name_it_for_what_it_is() -> None:
    loaded = load_model(MULTILINGUAL_MODEL, device="cpu")
    assert loaded.info.layers == loaded.encoder.config.num_hidden_layers == 12
    assert loaded.encoder.config.max_position_embeddings == loaded.info.positions == 512
    if module.is_converted(module.converted_folder()) and module._hub_folder(local=True) is None:
        assert "4-bit weights dequantised" in embed("hi", model=MULTILINGUAL_MODEL, device="cpu").origin.notes[0]


def test_tokens_of_the_unigram_vocabulary() -> None:
    tokenizer = load_model(MULTILINGUAL_MODEL, device="cpu").tokenizer
    # Ids of the public tokenizer of XLM-R for "Hello, world!".
    assert tokenizer("Hello, world!")["input_ids"] == [0, 35378, 4, 8999, 38, 2]
    assert tokenizer.convert_ids_to_tokens([0, 1, 2, 3]) == ["<s>", "<pad>", "</s>", "<unk>"]
    assert tokenizer.pad_token_id == 1


def test_translations_are_closer_than_other_sentences() -> None:
    english = ["The cat sleeps on the sofa.", "Prices rose sharply last year.", "She plays the violin every evening."]
    others = {
        "de": ["Die Katze schläft auf dem Sofa.", "Die Preise stiegen letztes Jahr stark.", "Sie spielt abends Geige."],
        "zh": ["猫在沙发上睡觉。", "去年价格大幅上涨。", "她每天晚上拉小提琴。"],
        "ar": ["القطة تنام على الأريكة.", "ارتفعت الأسعار بشدة العام الماضي.", "تعزف على الكمان كل مساء."],
    }

    def vectors(texts: list[str]) -> np.ndarray:
        measures = [embed(text, model=MULTILINGUAL_MODEL, layer=12, device="cpu") for text in texts]
        means = np.stack([measure.points.mean(axis=0) for measure in measures])
        return means / np.linalg.norm(means, axis=1, keepdims=True)

    base = vectors(english)
    for texts in others.values():
        assert (base @ vectors(texts).T).argmax(axis=1).tolist() == [0, 1, 2]
