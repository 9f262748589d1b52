"""Model files: what is written comes back; what is damaged, foreign or hostile is refused with a reason."""

from __future__ import annotations

import json
import os
import pickle
import stat
from pathlib import Path

import pytest
import torch
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from safetensors.torch import save as to_bytes

from sinkviz.transformer import NORMALISATIONS, SinkhornTransformer, checkpoints, load, registry


def _model(**more: object) -> SinkhornTransformer:
    torch.manual_seed(0)
    return SinkhornTransformer(2, width=4, layers=1, heads=2, out=3, epsilon=0.25, **more)  # type: ignore[arg-type]


@pytest.fixture
def good(tmp_path: Path) -> Path:
    path = tmp_path / "model.safetensors"
    _model().save(path, about={"title": "a test"})
    return path


@pytest.mark.parametrize("normalisation", NORMALISATIONS)
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize(("neighbours", "refinement"), [(0, 0), (2, 0), (2, 4)])
def test_round_trip(tmp_path: Path, normalisation: str, dtype: torch.dtype, neighbours: int, refinement: int) -> None:
    model = _model(
        normalisation=normalisation,
        relaxation=0.3 if normalisation == "relaxed" else None,
        learn_epsilon=True,
        residual=True,
        neighbours=neighbours,
        refinement=refinement,
    ).to(dtype)
    with torch.no_grad():
        model.log_epsilon.fill_(-0.3)
    model.save(tmp_path / "new" / "m.safetensors", about={"title": "x"})
    again = SinkhornTransformer.load(tmp_path / "new" / "m.safetensors")
    assert again.config == model.config
    assert again.epsilon == model.epsilon
    assert not again.training
    state = again.state_dict()
    assert list(state) == list(model.state_dict())
    for name, tensor in model.state_dict().items():
        assert state[name].dtype == dtype
        assert torch.equal(state[name], tensor)
    assert all(parameter.requires_grad for parameter in again.parameters())
    assert checkpoints.describe(tmp_path / "new" / "m.safetensors")[1] == {"title": "x"}


def test_a_failed_write_leaves_the_old_file_and_nothing_else(good: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    before = good.read_bytes()

    def broken(*_: object) -> None:
        raise OSError("disk full")

    monkeypatch.setattr(os, "replace", broken)
    with pytest.raises(OSError, match="disk full"):
        _model().save(good)
    assert good.read_bytes() == before
    assert [path.name for path in good.parent.iterdir()] == [good.name]


def test_a_saved_file_follows_the_umask(good: Path) -> None:
    mask = os.umask(0)
    os.umask(mask)
    assert stat.S_IMODE(good.stat().st_mode) == 0o666 & ~mask


def test_a_diverged_model_is_not_saved(tmp_path: Path) -> None:
    model = _model()
    with torch.no_grad():
        model.key_encoder.leave.bias[0] = float("nan")
    with pytest.raises(ValueError, match="diverged"):
        model.save(tmp_path / "m.safetensors")


def _rewrite(path: Path, tensors: dict[str, torch.Tensor] | None = None, **metadata: str) -> None:
    whole = _model().state_dict() if tensors is None else tensors
    meta = {
        "format": checkpoints.FORMAT,
        "version": str(checkpoints.VERSION),
        "config": json.dumps(_model().config.as_dict()),
        "about": "{}",
    }
    path.write_bytes(to_bytes(dict(whole), {**meta, **metadata}))


def _config(**fields: object) -> str:
    return json.dumps({**_model().config.as_dict(), **fields})


@pytest.mark.parametrize(
    ("metadata", "word"),
    [
        ({"format": "pt"}, "does not say"),
        ({"version": "2"}, "version '2'"),
        ({"config": "{"}, "not valid JSON"),
        ({"config": "[" * 100_000}, "not valid JSON"),
        ({"config": "[]"}, "JSON object"),
        ({"config": "{}"}, "missing fields"),
        ({"config": _config(width=8)}, "expected shape"),
        ({"config": _config(layers=2)}, "missing"),
        ({"config": _config(layers=0)}, "unexpected"),
        ({"config": _config(width=10**9)}, "width"),
        ({"config": _config(layers=10**6)}, "layers"),
        ({"config": _config(width=-4)}, "width"),
        ({"config": _config(epsilon=-1)}, "epsilon"),
        ({"config": _config(epsilon="__import__('os')")}, "epsilon"),
        ({"config": _config(normalisation="x")}, "normalisation"),
        ({"config": _config(later=1)}, "newer"),
        ({"about": "[1]"}, "description"),
        ({"about": "x" * (2**20 + 1)}, "larger"),
    ],
)
def test_wrong_metadata_is_refused(good: Path, metadata: dict[str, str], word: str) -> None:
    _rewrite(good, **metadata)
    with pytest.raises(ValueError, match=word):
        load(good)


def test_wrong_tensors_are_refused(good: Path) -> None:
    state = _model().state_dict()
    first = next(iter(state))
    cases: list[tuple[dict[str, torch.Tensor], str]] = [
        ({name: tensor for name, tensor in state.items() if name != first}, "missing"),
        ({**state, "more": torch.zeros(1)}, "unexpected"),
        ({**state, first: torch.zeros(1)}, "expected shape"),
        ({**state, first: state[first].double()}, "throughout"),
        ({name: tensor.half() for name, tensor in state.items()}, "float32 or float64"),
        ({**state, first: torch.full_like(state[first], torch.inf)}, "not finite"),
    ]
    for tensors, word in cases:
        _rewrite(good, tensors)
        with pytest.raises(ValueError, match=word):
            load(good)


class _Bomb:
    def __reduce__(self) -> tuple[object, tuple[str]]:
        return (os.mkdir, ("/tmp/sinkviz-was-unpickled",))


def test_a_pickle_is_refused_and_not_run(tmp_path: Path) -> None:
    path = tmp_path / "m.safetensors"
    path.write_bytes(pickle.dumps(_Bomb()))
    with pytest.raises(ValueError, match="not a readable safetensors"):
        load(path)
    torch.save(_model().state_dict(), path)
    with pytest.raises(ValueError, match="not a readable safetensors"):
        load(path)
    assert not Path("/tmp/sinkviz-was-unpickled").exists()


def test_missing_empty_folder_and_truncated_files(tmp_path: Path, good: Path) -> None:
    with pytest.raises(ValueError, match="found none"):
        load(tmp_path / "nowhere")
    with pytest.raises(ValueError, match="found none"):
        load(tmp_path)
    data = good.read_bytes()
    for length in (0, 1, 7, 8, 9, 100, len(data) // 2, len(data) - 1):
        good.write_bytes(data[:length])
        with pytest.raises(ValueError, match="checkpoint"):
            load(good)
    good.write_bytes(data + b"x")
    with pytest.raises(ValueError, match="checkpoint"):
        load(good)


@settings(max_examples=150, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.data())
def test_flipped_bytes_load_the_same_shape_or_are_refused(tmp_path: Path, data: st.DataObject) -> None:
    path = tmp_path / "fuzz.safetensors"
    _model().save(path)
    content = bytearray(path.read_bytes())
    header = 8 + int.from_bytes(content[:8], "little")
    for _ in range(data.draw(st.integers(1, 4))):
        position = data.draw(st.one_of(st.integers(0, header - 1), st.integers(0, len(content) - 1)))
        content[position] = data.draw(st.integers(0, 255))
    path.write_bytes(bytes(content))
    try:
        model = load(path)
    except ValueError:
        return
    plan = model(torch.zeros(2, 2), None, torch.ones(3, 2), None).plan
    assert plan.shape == (2, 3)


@settings(max_examples=100, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.binary(max_size=400))
def test_any_bytes_are_refused(tmp_path: Path, content: bytes) -> None:
    path = tmp_path / "any.safetensors"
    path.write_bytes(content)
    with pytest.raises(ValueError, match="checkpoint"):
        load(path)


def test_registry(tmp_path: Path, good: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SINKVIZ_MODELS", str(tmp_path / "own"))
    monkeypatch.setattr(registry, "shipped_folder", lambda: tmp_path / "shipped")
    assert registry.available() == {}
    _model().save(tmp_path / "shipped" / "base.safetensors")
    mine = registry.add(_model(), "mine", about={"title": "Mine"})
    assert (mine.shipped, mine.about) == (False, {"title": "Mine"})
    registry.install(good, "theirs")
    (tmp_path / "own" / "broken.safetensors").write_bytes(b"no")
    found = registry.available()
    assert list(found) == ["base", "broken", "mine", "theirs"]
    assert found["base"].shipped
    assert "not a readable" in found["broken"].problem
    assert list(registry.available(dim=2)) == ["base", "mine", "theirs"]
    assert registry.available(dim=3) == {}
    assert torch.equal(registry.get("mine").load().key_encoder.leave.bias, _model().key_encoder.leave.bias)
    for name in ("../x", "", "a/b", "x" * 65, ".hidden", "base"):
        with pytest.raises(ValueError, match="name"):
            registry.add(_model(), name)
    with pytest.raises(ValueError, match="expected one of base, broken"):
        registry.get("other")
    with pytest.raises(ValueError, match="not a readable"):
        registry.get("broken")
    good.write_bytes(b"no")
    with pytest.raises(ValueError, match="not a readable"):
        registry.install(good, "mine")
    assert registry.get("mine").about == {"title": "Mine"}
