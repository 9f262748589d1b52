"""Which embedding models there are: names, layers, limits, languages, and where their weights come from."""

from __future__ import annotations

import os
from dataclasses import dataclass

from sinkviz.language import LANGUAGES, guess_language, script_shares

DEFAULT_MODEL = "all-MiniLM-L6-v2"
MULTILINGUAL_MODEL = "multilingual-e5-small"
ALLOW_VARIABLE = "SINKVIZ_ALLOW_MODELS"


@dataclass(frozen=True)
class ModelInfo:
    """What is known of a model before it is loaded.

    Attributes:
        name: how it is chosen.
        summary: one plain line for the page.
        layers: number of transformer layers; hidden layers are 0 (input embeddings) … `layers`.
        default_layer: the hidden layer whose cosines find the links that people draw, by measurement.
        heads: attention heads in each layer.
        dimension: coordinates of a token's vector.
        positions: tokens read at once, special ones included; longer texts are read in overlapping windows.
        licence: of the weights.
        languages: two-letter codes of the languages it was trained for; empty = not known, no notices.
        scripts: Unicode scripts that its tokens cover; empty = not known.
        hub_id: its public name; "" if it has none.
    """

    name: str
    summary: str
    layers: int
    default_layer: int
    heads: int
    dimension: int
    positions: int
    licence: str = ""
    languages: frozenset[str] = frozenset()
    scripts: frozenset[str] = frozenset()
    hub_id: str = ""

    def layer(self, layer: int | None) -> int:
        """Return the hidden layer to read: the given one, or the default if None.

        Raises:
            ValueError: not one of 0 … `layers`.

        >>> model_info("all-MiniLM-L6-v2").layer(None)
        3
        """
        if layer is None:
            return self.default_layer
        if isinstance(layer, bool) or not isinstance(layer, int) or not 0 <= layer <= self.layers:
            raise ValueError(
                f"layer: expected a whole number from 0 (input embeddings) to {self.layers} (last layer of "
                f"{self.name}), or None for {self.default_layer}, got {layer!r}"
            )
        return layer


# fmt: off
_MULTILINGUAL_SCRIPTS = frozenset((
    "Latin", "Cyrillic", "Greek", "Armenian", "Georgian", "Hebrew", "Arabic", "Devanagari", "Bengali", "Gurmukhi",
    "Gujarati", "Oriya", "Tamil", "Telugu", "Kannada", "Malayalam", "Sinhala", "Thai", "Lao", "Myanmar", "Khmer",
    "Ethiopic", "Han", "Hiragana", "Katakana", "Hangul",
))
# fmt: on

_KNOWN = (
    ModelInfo(
        name=DEFAULT_MODEL,
        summary="English sentences; small and fast",
        layers=6,
        default_layer=3,
        heads=12,
        dimension=384,
        positions=256,
        licence="Apache-2.0",
        languages=frozenset({"en"}),
        scripts=frozenset({"Latin"}),
        hub_id="sentence-transformers/all-MiniLM-L6-v2",
    ),
    ModelInfo(
        name=MULTILINGUAL_MODEL,
        summary="About 100 languages; twice as deep",
        layers=12,
        default_layer=7,
        heads=12,
        dimension=384,
        positions=512,
        licence="MIT",
        languages=frozenset(LANGUAGES),
        scripts=_MULTILINGUAL_SCRIPTS,
        hub_id="intfloat/multilingual-e5-small",
    ),
)


def known_models() -> tuple[ModelInfo, ...]:
    """Return the models that sinkviz knows by name, the default first.

    >>> [model.name for model in known_models()]
    ['all-MiniLM-L6-v2', 'multilingual-e5-small']
    """
    return _KNOWN


def external_models_allowed(allow_external: bool | None = None) -> bool:
    """Return whether models beyond the known ones may be loaded: the argument, or the environment if it is None.

    The variable SINKVIZ_ALLOW_MODELS set to 1 allows them; whoever runs the process decides.
    """
    if allow_external is not None:
        return allow_external
    return os.environ.get(ALLOW_VARIABLE, "").strip().lower() in ("1", "true", "yes", "on")


def is_known(name: str) -> bool:
    """Return whether a name (or the public hub name) belongs to a known model."""
    return any(name in (model.name, model.hub_id) for model in _KNOWN)


def check_name(name: object, allow_external: bool | None = None) -> str:
    """Return the name of a model that may be loaded, known ones by their short name.

    Raises:
        ValueError: not a string, or neither known nor allowed; the message lists the valid names.

    >>> check_name("sentence-transformers/all-MiniLM-L6-v2")
    'all-MiniLM-L6-v2'
    """
    names = ", ".join(model.name for model in _KNOWN)
    if not isinstance(name, str) or not name.strip():
        raise ValueError(f"model: expected one of {names}, got {name!r}")
    for model in _KNOWN:
        if name in (model.name, model.hub_id):
            return model.name
    if not external_models_allowed(allow_external):
        raise ValueError(
            f"model: expected one of {names}, got {name!r:.120}; other sentence-transformers models, by hub name or "
            f"folder, load where the owner of this process allows it: set {ALLOW_VARIABLE}=1"
        )
    return name


def model_info(name: str = DEFAULT_MODEL) -> ModelInfo:
    """Return what is known of a model without loading it.

    Raises:
        ValueError: not a known model; the facts of others are read when they are loaded (`load_model(name).info`).
    """
    checked = check_name(name, allow_external=False)
    return next(model for model in _KNOWN if model.name == checked)


@dataclass(frozen=True)
class LanguageNotice:
    """A text that the chosen model does not speak.

    Attributes:
        message: one plain sentence for the page.
        language: two-letter code of the text's language, or None where only the script is known.
        suggested_model: name of a known model that speaks it, or None.
    """

    message: str
    language: str | None
    suggested_model: str | None


def language_notice(text: str, model: str = DEFAULT_MODEL) -> LanguageNotice | None:
    """Return a notice if a known model was not trained for the text's language or script, else None.

    Args:
        text: any text; short ones are judged by their script only.
        model: name of the model; others than the known ones give no notice.

    >>> language_notice("Der Hund schläft, und die Katze ist wach.").suggested_model
    'multilingual-e5-small'
    >>> language_notice("The dog sleeps.") is None
    True
    """
    if not is_known(model):
        return None
    info = model_info(model)
    shares = script_shares(text)
    foreign = {script: share for script, share in shares.items() if script not in info.scripts}
    language = guess_language(text)
    if sum(foreign.values()) > 0.2:
        scripts = [script for script in foreign if script != "Other"]
        name = LANGUAGES.get(language or "")
        if language in info.languages:
            name = None
        what = name or (f"{scripts[0]} script" if scripts else "letters of a script it was not trained on")
        language = language if name else None
    elif language is not None and language not in info.languages:
        what = LANGUAGES[language]
        foreign = {}
    else:
        return None
    suggested = next(
        (
            other.name
            for other in _KNOWN
            if other.name != info.name
            and not any(script not in other.scripts for script in foreign)
            and (language is None or language in other.languages)
        ),
        None,
    )
    trained = "English" if info.languages == {"en"} else "other languages"
    message = f"This text looks like {what}. {info.name} was trained on {trained}: its couplings mean little here."
    return LanguageNotice(message=message, language=language, suggested_model=suggested)
