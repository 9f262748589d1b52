"""sinkviz: two texts, one coupling, and what softmax attention makes of the same scores.

The public names load on first use, so that `import sinkviz` is instant.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from sinkviz import alignment as alignment
    from sinkviz import approximation as approximation
    from sinkviz import transformer as transformer
    from sinkviz import transport as transport
    from sinkviz.alignment.align import align as align
    from sinkviz.coupling import Coupling as Coupling
    from sinkviz.coupling import Link as Link
    from sinkviz.measure import Measure as Measure
    from sinkviz.pipeline import EpsilonPath as EpsilonPath
    from sinkviz.pipeline import couple as couple
    from sinkviz.pipeline import embed as embed
    from sinkviz.pipeline import epsilon_path as epsilon_path
    from sinkviz.transformer.model import SinkhornTransformer as SinkhornTransformer

__version__ = "0.1.0"

_HOME = {
    "Coupling": "sinkviz.coupling",
    "EpsilonPath": "sinkviz.pipeline",
    "Link": "sinkviz.coupling",
    "Measure": "sinkviz.measure",
    "SinkhornTransformer": "sinkviz.transformer.model",
    "align": "sinkviz.alignment.align",
    "couple": "sinkviz.pipeline",
    "embed": "sinkviz.pipeline",
    "epsilon_path": "sinkviz.pipeline",
}
_ROOMS = ("alignment", "approximation", "transformer", "transport")
__all__ = ["__version__", *sorted((*_HOME, *_ROOMS))]


def __getattr__(name: str) -> object:
    if name in _HOME:
        value = getattr(importlib.import_module(_HOME[name]), name)
        globals()[name] = value
        return value
    if name in _ROOMS:
        return importlib.import_module(f"sinkviz.{name}")
    raise AttributeError(f"module 'sinkviz' has no attribute {name!r}; public names: {', '.join(__all__)}")


def __dir__() -> list[str]:
    return list(__all__)
