"""The Sinkhorn Transformer: encoders on measures, a cost made from them, and the Sinkhorn operator as the last step.

Training, checkpoints and a registry of trained models come with it. Torch is loaded on import.
"""

from sinkviz.transformer.checkpoints import describe, load, save
from sinkviz.transformer.encoder import EncoderTrace, MeasureEncoder
from sinkviz.transformer.layers import EncoderBlock, MeasureAttention
from sinkviz.transformer.loss import fenchel_young_loss
from sinkviz.transformer.model import (
    NORMALISATIONS,
    ModelConfig,
    Normalisation,
    SinkhornTransformer,
    Trace,
    pad,
    with_neighbours,
)
from sinkviz.transformer.pairs import Pairs
from sinkviz.transformer.registry import Checkpoint, add, available, get, install
from sinkviz.transformer.training import (
    PairSource,
    Progress,
    Trainer,
    TrainingConfig,
    TrainingRun,
    evaluate_loss,
    summary,
    train,
)

__all__ = [
    "NORMALISATIONS",
    "Checkpoint",
    "EncoderBlock",
    "EncoderTrace",
    "MeasureAttention",
    "MeasureEncoder",
    "ModelConfig",
    "Normalisation",
    "PairSource",
    "Pairs",
    "Progress",
    "SinkhornTransformer",
    "Trace",
    "Trainer",
    "TrainingConfig",
    "TrainingRun",
    "add",
    "available",
    "describe",
    "evaluate_loss",
    "fenchel_young_loss",
    "get",
    "install",
    "load",
    "pad",
    "save",
    "summary",
    "train",
    "with_neighbours",
]
