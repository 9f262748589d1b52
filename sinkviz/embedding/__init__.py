"""Text to measure: models, tokens as slices of the text, hidden layers, windows for long texts.

torch and transformers are loaded with the first model, not with this module.
"""

from sinkviz.embedding.encode import (
    Projections,
    attention_projections,
    embed,
    embed_batch,
    hidden_layers,
)
from sinkviz.embedding.loader import LoadedModel, Progress, load_model, loaded_models
from sinkviz.embedding.multilingual import multilingual_available
from sinkviz.embedding.registry import (
    DEFAULT_MODEL,
    MULTILINGUAL_MODEL,
    LanguageNotice,
    ModelInfo,
    external_models_allowed,
    known_models,
    language_notice,
    model_info,
)

__all__ = [
    "DEFAULT_MODEL",
    "MULTILINGUAL_MODEL",
    "LanguageNotice",
    "LoadedModel",
    "ModelInfo",
    "Progress",
    "Projections",
    "attention_projections",
    "embed",
    "embed_batch",
    "external_models_allowed",
    "hidden_layers",
    "known_models",
    "language_notice",
    "load_model",
    "loaded_models",
    "model_info",
    "multilingual_available",
]
