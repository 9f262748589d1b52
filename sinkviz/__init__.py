"""sinkviz: two texts, one coupling, and what softmax attention makes of the same scores.

The public names load on first use, so that `import sinkviz` is instant.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from sinkviz import transport as transport
    from sinkviz.coupling import Coupling as Coupling
    from sinkviz.coupling import Link as Link
    from sinkviz.measure import Measure as Measure
    from sinkviz.pipeline import EpsilonPath as EpsilonPath
    from sinkviz.pipeline import couple as couple
    from sinkviz.pipeline import embed as embed
    from sinkviz.pipeline import epsilon_path as epsilon_path

__version__ = "0.1.0"

_HOME = {
    "Coupling": "sinkviz.coupling",
    "EpsilonPath": "sinkviz.pipeline",
    "Link": "sinkviz.coupling",
    "Measure": "sinkviz.measure",
    "couple": "sinkviz.pipeline",
    "embed": "sinkviz.pipeline",
    "epsilon_path": "sinkviz.pipeline",
}
_ROOMS = ("transport",)
__all__ = ["__version__", *sorted((*_HOME, *_ROOMS))]  # noqa: PLE0604


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
