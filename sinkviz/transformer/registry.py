"""The trained models that can be chosen by name: those that are shipped, and the user's own."""

from __future__ import annotations

import os
import re
import shutil
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from sinkviz.measure import Origin
from sinkviz.resources import ROOT
from sinkviz.transformer import checkpoints
from sinkviz.transformer.model import ModelConfig, SinkhornTransformer

SUFFIX = ".safetensors"
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,63}")


@dataclass(frozen=True)
class Checkpoint:
    """A model file that was found.

    Attributes:
        name: what to call it.
        path: where it lies.
        shipped: whether it came with the package.
        config: its shape, or None if the file cannot be used.
        about: title, data, command, figures, as saved.
        problem: why it cannot be used; "" if it can.
    """

    name: str
    path: Path
    shipped: bool
    config: ModelConfig | None
    about: dict[str, Any]
    problem: str = ""

    def load(self) -> SinkhornTransformer:
        """Read the model; ValueError as `checkpoints.load` raises it."""
        return checkpoints.load(self.path)

    def mismatch(self, origin: Origin) -> str:
        """Return how vectors differ from those that the model says it was trained on; "" if they do not, or if it
        does not say.

        >>> get("word-alignment").mismatch(Origin(model="all-MiniLM-L6-v2", layer=3))
        ''
        >>> get("word-alignment").mismatch(Origin(model="all-MiniLM-L6-v2", layer=6))
        'trained on all-MiniLM-L6-v2, layer 3; these are all-MiniLM-L6-v2, layer 6'
        """
        stated = self.about.get("embedding")
        if not isinstance(stated, dict) or not origin.model:
            return ""
        own = _vectors(stated.get("model"), stated.get("layer"), bool(stated.get("centre", False)))
        here = _vectors(origin.model, origin.layer, origin.centred)
        return "" if own == here else f"trained on {own}; these are {here}"


def _vectors(model: object, layer: object, centred: bool) -> str:
    return f"{str(model)[:80]}, layer {str(layer)[:8]}{', centred' if centred else ''}"


def shipped_folder() -> Path:
    """Return the folder of the models that come with the package, in a checkout or in an installed wheel."""
    return ROOT / "models"


def user_folder() -> Path:
    """Return the folder of the user's own models: SINKVIZ_MODELS, or sinkviz/models in the user's data folder."""
    chosen = os.environ.get("SINKVIZ_MODELS")
    if chosen:
        return Path(chosen)
    base = os.environ.get("XDG_DATA_HOME") or os.environ.get("LOCALAPPDATA")
    return (Path(base) if base else Path.home() / ".local" / "share") / "sinkviz" / "models"


def available(dim: int | None = None) -> dict[str, Checkpoint]:
    """Return the models by name: shipped first, then the user's; a user's file cannot hide a shipped one.

    Args:
        dim: only those for points of this dimension; files with a problem are left out then.
    """
    found: dict[str, Checkpoint] = {}
    for folder, shipped in ((shipped_folder(), True), (user_folder(), False)):
        if not folder.is_dir():
            continue
        for path in sorted(folder.glob(f"*{SUFFIX}")):
            if path.stem in found or not _NAME.fullmatch(path.stem):
                continue
            try:
                config, about = checkpoints.describe(path)
                found[path.stem] = Checkpoint(path.stem, path, shipped, config, about)
            except ValueError as error:
                found[path.stem] = Checkpoint(path.stem, path, shipped, None, {}, str(error))
    if dim is None:
        return found
    return {name: one for name, one in found.items() if one.config is not None and one.config.dim == dim}


def get(name: str) -> Checkpoint:
    """Return one model by name.

    Raises:
        ValueError: an unknown name, with the known ones; or a file that cannot be used, with the reason.
    """
    known = available()
    if name not in known:
        raise ValueError(f"model: expected one of {', '.join(known) or 'none yet'}, got {name!r:.80}")
    if known[name].problem:
        raise ValueError(known[name].problem)
    return known[name]


def _own_path(name: str) -> Path:
    if not _NAME.fullmatch(name):
        raise ValueError(
            "name: expected up to 64 letters, digits, '.', '_' or '-', starting with a letter or digit, "
            f"got {name!r:.80}"
        )
    if (shipped_folder() / f"{name}{SUFFIX}").exists():
        raise ValueError(f"name: {name!r} is the name of a shipped model; choose another")
    return user_folder() / f"{name}{SUFFIX}"


def add(model: SinkhornTransformer, name: str, *, about: dict[str, Any] | None = None) -> Checkpoint:
    """Save a model among the user's own, replacing one of the same name.

    Raises:
        ValueError: a name that is not allowed or belongs to a shipped model; weights that are not finite.
    """
    model.save(_own_path(name), about=about)
    return get(name)


def install(path: str | Path, name: str) -> Checkpoint:
    """Copy a model file from elsewhere among the user's own, after reading it whole and checking it.

    Raises:
        ValueError: a name that is not allowed, or a file that `checkpoints.load` refuses.
    """
    target = _own_path(name)
    checkpoints.load(path)
    target.parent.mkdir(parents=True, exist_ok=True)
    partial = target.with_name(f".{target.name}.part")
    shutil.copyfile(path, partial)
    os.replace(partial, target)
    return get(name)
