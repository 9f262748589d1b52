"""Pictures of couplings as Plotly figures: `Coupling` in, `plotly.graph_objects.Figure` out.

The names load on first use: the colours in `sinkviz.figures.palette` are to be had without Plotly.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from sinkviz.figures.curves import epsilon_curves as epsilon_curves
    from sinkviz.figures.descriptions import describe as describe
    from sinkviz.figures.frame import side_by_side as side_by_side
    from sinkviz.figures.matrix import difference_heatmap as difference_heatmap
    from sinkviz.figures.matrix import heatmap as heatmap
    from sinkviz.figures.pairs import strongest_pairs as strongest_pairs
    from sinkviz.figures.point_clouds import clouds as clouds
    from sinkviz.figures.received_mass import received as received
    from sinkviz.figures.running_text import lines as lines
    from sinkviz.figures.scale import Scale as Scale
    from sinkviz.figures.scale import shared_scale as shared_scale

# No module is called like a function: importing the module would put it in the function's place.
_HOME = {
    "Scale": "scale",
    "clouds": "point_clouds",
    "describe": "descriptions",
    "difference_heatmap": "matrix",
    "epsilon_curves": "curves",
    "heatmap": "matrix",
    "lines": "running_text",
    "received": "received_mass",
    "shared_scale": "scale",
    "side_by_side": "frame",
    "strongest_pairs": "pairs",
}
__all__ = list(_HOME)


def __getattr__(name: str) -> object:
    if name not in _HOME:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}; names: {', '.join(__all__)}")
    value = getattr(importlib.import_module(f"{__name__}.{_HOME[name]}"), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return list(__all__)
