"""Model files: safetensors with the configuration in their metadata; written atomically, read with suspicion."""

from __future__ import annotations

import json
import os
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from sinkviz.transformer.model import ModelConfig, SinkhornTransformer

FORMAT = "sinkviz.SinkhornTransformer"
VERSION = 1
LARGEST_FILE = 512 * 2**20
LARGEST_METADATA = 2**20
DTYPES = {"F32": torch.float32, "F64": torch.float64}


def write_tensors(path: str | Path, tensors: Mapping[str, Tensor], metadata: Mapping[str, str]) -> None:
    """Write a safetensors file atomically: under another name first, flushed to disk, then renamed.

    Raises:
        OSError: the folder cannot be written; the old file, if any, stands.
    """
    from safetensors.torch import save

    target = Path(path)
    data = save({name: tensor.detach().cpu().contiguous() for name, tensor in tensors.items()}, dict(metadata))
    target.parent.mkdir(parents=True, exist_ok=True)
    handle, temporary = tempfile.mkstemp(dir=target.parent, prefix=f".{target.name}.", suffix=".part")
    try:
        with os.fdopen(handle, "wb") as file:
            file.write(data)
            file.flush()
            os.fsync(file.fileno())
        # A temporary file is private; a finished one follows the umask like any other.
        mask = os.umask(0)
        os.umask(mask)
        os.chmod(temporary, 0o666 & ~mask)
        os.replace(temporary, target)
    except BaseException:
        Path(temporary).unlink(missing_ok=True)
        raise


def _open(path: Path) -> Any:
    from safetensors import SafetensorError, safe_open

    if not path.is_file():
        raise ValueError(f"checkpoint: expected a file, found none at {str(path)!r}")
    size = path.stat().st_size
    if size > LARGEST_FILE:
        raise ValueError(f"checkpoint: expected at most {LARGEST_FILE} bytes, {path.name!r} has {size}")
    try:
        return safe_open(path, framework="pt", device="cpu")
    except (SafetensorError, OSError, UnicodeDecodeError, OverflowError) as error:
        raise ValueError(
            f"checkpoint: {path.name!r} is not a readable safetensors file ({str(error)[:200]}); "
            "it may be damaged, cut short, or of another kind"
        ) from error


def _metadata(file: Any, name: str, kind: str) -> dict[str, str]:
    metadata = file.metadata() or {}
    if metadata.get("format") != kind:
        raise ValueError(
            f"checkpoint: {name!r} does not say that it is a {kind} file (format {metadata.get('format')!r:.60})"
        )
    if metadata.get("version") != str(VERSION):
        raise ValueError(
            f"checkpoint: {name!r} has version {metadata.get('version')!r:.20}, this program reads version {VERSION}"
        )
    if sum(len(key) + len(value) for key, value in metadata.items()) > LARGEST_METADATA:
        raise ValueError(f"checkpoint: the metadata of {name!r} is larger than {LARGEST_METADATA} characters")
    return dict(metadata)


def parse_json(text: str, what: str, name: str) -> Any:
    try:
        return json.loads(text)
    except (ValueError, RecursionError) as error:
        raise ValueError(f"checkpoint: the {what} of {name!r} is not valid JSON ({str(error)[:100]})") from error


def read_tensors(
    path: str | Path, expected: Mapping[str, tuple[int, ...]], kind: str = FORMAT
) -> tuple[dict[str, Tensor], dict[str, str]]:
    """Read a safetensors file whose keys and shapes are known.

    Args:
        path: the file.
        expected: shape of each tensor; nothing may be missing or over.
        kind: what the metadata must say under "format".

    Returns:
        tensors and metadata.

    Raises:
        ValueError: not such a file, other keys, shapes, dtypes (float32 or float64, one for all), or numbers that
            are not finite.
    """
    source = Path(path)
    with _open(source) as file:
        metadata = _metadata(file, source.name, kind)
        found = set(file.keys())
        missing, extra = sorted(set(expected) - found), sorted(found - set(expected))
        if missing or extra:
            raise ValueError(
                f"checkpoint: {source.name!r} does not fit its configuration: "
                f"missing {missing[:3]!r:.200}, unexpected {extra[:3]!r:.200}"
            )
        tensors = {}
        kinds = set()
        for name, shape in expected.items():
            view = file.get_slice(name)
            got = tuple(view.get_shape())
            if got != shape:
                raise ValueError(f"checkpoint: {source.name!r}, {name}: expected shape {shape}, got {got}")
            kinds.add(view.get_dtype())
            if view.get_dtype() not in DTYPES or len(kinds) > 1:
                raise ValueError(
                    f"checkpoint: {source.name!r}, {name}: expected float32 or float64 throughout, "
                    f"got {', '.join(sorted(str(k) for k in kinds))}"
                )
            tensors[name] = file.get_tensor(name)
            if not bool(torch.isfinite(tensors[name]).all()):
                raise ValueError(f"checkpoint: {source.name!r}, {name}: holds numbers that are not finite")
    return tensors, metadata


def read_metadata(path: str | Path, kind: str = FORMAT) -> dict[str, str]:
    """Return the metadata of a file of one kind without reading its tensors; ValueError if it is another."""
    source = Path(path)
    with _open(source) as file:
        return _metadata(file, source.name, kind)


def describe(path: str | Path) -> tuple[ModelConfig, dict[str, Any]]:
    """Return configuration and description of a model file without reading its weights.

    Raises:
        ValueError: not such a file, or a configuration that does not fit.
    """
    metadata, name = read_metadata(path), Path(path).name
    config = ModelConfig.from_dict(parse_json(metadata.get("config", ""), "configuration", name))
    about = parse_json(metadata.get("about", "{}"), "description", name)
    if not isinstance(about, dict):
        raise ValueError(f"checkpoint: the description of {name!r} is not a JSON object")
    return config, about


def blank(config: ModelConfig) -> SinkhornTransformer:
    """Return a model of a given shape that owns no memory yet."""
    with torch.device("meta"):
        return SinkhornTransformer.from_config(config)


def save(model: SinkhornTransformer, path: str | Path, *, about: dict[str, Any] | None = None) -> None:
    """Write a model to a safetensors file, atomically.

    Args:
        path: where; folders are made. about: a JSON object for the reader: title, data, command, figures.

    Raises:
        OSError: the place cannot be written. ValueError: weights that are not finite.
    """
    state = model.state_dict()
    for name, tensor in state.items():
        if not bool(torch.isfinite(tensor).all()):
            raise ValueError(f"save: {name} holds numbers that are not finite; the model has diverged and is not saved")
    metadata = {
        "format": FORMAT,
        "version": str(VERSION),
        "config": json.dumps(model.config.as_dict()),
        "about": json.dumps(about or {}),
    }
    write_tensors(path, state, metadata)


def load(path: str | Path) -> SinkhornTransformer:
    """Read a model from a safetensors file; nothing in it is ever executed.

    Returns:
        the model in evaluation mode, in the dtype of the file.

    Raises:
        ValueError: no such file, damaged, foreign, newer, of a shape that its configuration does not have, or with
            numbers that are not finite.
    """
    config, _ = describe(path)
    model = blank(config)
    expected = {name: tuple(tensor.shape) for name, tensor in model.state_dict().items()}
    tensors, _ = read_tensors(path, expected)
    model.load_state_dict(tensors, assign=True)
    for parameter in model.parameters():
        parameter.requires_grad_(True)
    return model.eval()
