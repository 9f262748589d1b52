"""The trained model that comes with the package: found, valid, stated, and worth its place."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from sinkviz.alignment.align import align
from sinkviz.alignment.gold import mini_gold
from sinkviz.alignment.links import links_from_coupling
from sinkviz.alignment.metrics import count_links, total_scores
from sinkviz.pipeline import couple, embed
from sinkviz.transformer import SinkhornTransformer, checkpoints
from sinkviz.transformer.registry import Checkpoint, available, get, shipped_folder

NAME = "word-alignment"
SOURCE = "The old bridge was closed after the storm."
TARGET = "After the storm, they shut the ancient bridge."


@pytest.fixture(scope="module")
def shipped() -> Checkpoint:
    return get(NAME)


def test_it_is_listed_for_the_vectors_it_was_trained_on(shipped: Checkpoint) -> None:
    assert shipped.shipped
    assert shipped.problem == ""
    assert shipped.path.stat().st_size <= 5 * 2**20
    assert NAME in available(384)
    assert NAME not in available(2)


def test_it_states_where_it_comes_from(shipped: Checkpoint) -> None:
    about = shipped.about
    assert about["embedding"] == {"model": "all-MiniLM-L6-v2", "layer": 3, "unit": "word", "centre": False}
    assert about["data"]["pairs"] == 714
    assert "Apache-2.0" in about["data"]["licence"]
    assert about["training"]["head"] == "sinkhorn"
    card = (shipped_folder() / "README.md").read_text(encoding="utf-8")
    for said in (about["command"], "Apache-2.0", "Edinburgh++", f"seed {about['training']['seed']}"):
        assert said in card, said
    held_back = about["figures"]["held back"]["f1"]
    assert f"{100 * held_back['grown']:.1f}" in card


def test_its_weights_are_whole(shipped: Checkpoint) -> None:
    model = shipped.load()
    assert isinstance(model, SinkhornTransformer)
    assert all(bool(torch.isfinite(tensor).all()) for tensor in model.state_dict().values())
    assert not model.training
    assert 0 < model.config.epsilon < 1
    config, _ = checkpoints.describe(shipped.path)
    assert config == model.config


@pytest.mark.parametrize("unit", ["word", "token"])
def test_it_couples_with_exact_marginals(shipped: Checkpoint, unit: str) -> None:
    model = shipped.load()
    first, second = embed(SOURCE, unit=unit), embed(TARGET, unit=unit)
    whole = couple(first, second, encoder=model)
    assert whole.status == "converged"
    assert np.allclose(whole.plan.sum(1), first.weights, atol=1e-6)
    assert np.allclose(whole.plan.sum(0), second.weights, atol=1e-6)
    partial = couple(first, second, mechanism="partial", null_cost=shipped.about["null_cost"], encoder=model)
    assert partial.status == "converged"
    assert np.allclose(partial.plan.sum(1) + partial.null_source, first.weights, atol=1e-6)
    words = partial.words()
    left, right = words.source.labels, words.target.labels
    assert right[int(words.plan[left.index("bridge")].argmax())] == "bridge"
    assert right[int(words.plan[left.index("closed")].argmax())] == "shut"


def test_align_by_name_uses_what_the_model_states(shipped: Checkpoint) -> None:
    model, about = shipped.load(), shipped.about
    stated = about["decoding"]["grown"]
    options = {"encoder": model, "null_cost": about["null_cost"], "layer": about["embedding"]["layer"]}
    expected = align(SOURCE, TARGET, rule="grown", threshold=stated["threshold"], growth=stated["growth"], **options)
    assert align(SOURCE, TARGET, encoder=NAME) == expected
    assert align(SOURCE, TARGET, encoder=NAME, rule="null") == align(SOURCE, TARGET, rule="null", **options)
    first, second = embed(SOURCE, unit="word"), embed(TARGET, unit="word")
    coupling = couple(first, second, mechanism="partial", null_cost=about["null_cost"], encoder=model)
    assert align(SOURCE, TARGET, encoder=NAME, rule="null") == links_from_coupling(coupling, rule="null")
    few, many = (align(SOURCE, TARGET, encoder=NAME, threshold=share) for share in (0.9, 0.1))
    assert set(few) < set(many)


@pytest.mark.parametrize(
    ("options", "what"),
    [
        ({"model": "multilingual-e5-small"}, "model: the encoder was trained on 'all-MiniLM-L6-v2'"),
        ({"layer": 6}, "layer: the encoder was trained on 3"),
        ({"order": 1.0}, "order"),
        ({"mechanism": "cosine"}, "mechanism"),
    ],
)
def test_options_that_it_does_not_fit(options: dict, what: str) -> None:
    with pytest.raises(ValueError, match=what):
        align(SOURCE, TARGET, encoder=NAME, **options)


def test_names_that_do_not_exist_or_say_nothing(tmp_path, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(ValueError, match=NAME):
        align(SOURCE, TARGET, encoder="nothing-of-that-name")
    monkeypatch.setenv("SINKVIZ_MODELS", str(tmp_path))
    get(NAME).load().save(tmp_path / "silent.safetensors", about={"title": "no price"})
    with pytest.raises(ValueError, match="states embedding, null_cost and decoding"):
        align(SOURCE, TARGET, encoder="silent")


def f1_of(pairs: list, **options: object) -> float:
    counts = [count_links(align(list(p.source), list(p.target), **options), p) for p in pairs]
    return total_scores(np.stack(counts)).f1


def test_it_links_english_pairs_that_it_has_not_seen() -> None:
    pairs = [pair for pair in mini_gold().pairs if pair.source_language == pair.target_language == "en"]
    trained, alone = f1_of(pairs, encoder=NAME), {"neighbours": 0.0}
    untrained, cosine = f1_of(pairs, **alone), f1_of(pairs, mechanism="cosine", **alone)
    assert len(pairs) >= 8
    assert trained > untrained > cosine
    assert trained > f1_of(pairs)
    assert f1_of(pairs, encoder=NAME, rule="null") > f1_of(pairs, rule="null", **alone)
