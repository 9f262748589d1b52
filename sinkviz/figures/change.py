"""What moved between two couplings."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import plotly.graph_objects as go
from numpy.typing import NDArray

from sinkviz.figures.frame import axis, finished, sheet
from sinkviz.figures.labels import number, spoken, tick
from sinkviz.figures.matrix import thinned
from sinkviz.figures.palette import SMALL_FONT_SIZE, ThemeName, palette


def change_heatmap(
    matrix: NDArray[np.float64],
    source: Sequence[str],
    target: Sequence[str],
    *,
    theme: ThemeName = "light",
) -> go.Figure:
    """Draw P₂ − P₁: where the second coupling puts more mass (teal) and where the first does (brown).

    Args:
        matrix: shape (k, l).
        source, target: k and l labels.
        theme: "light" or "dark".

    Raises:
        ValueError: labels that do not fit the matrix.
    """
    if matrix.shape != (len(source), len(target)):
        raise ValueError(f"matrix: expected shape {(len(source), len(target))}, got {matrix.shape}")
    colours = palette(theme)
    end = float(np.abs(matrix).max(initial=0.0)) or 1.0
    rows, columns = thinned(len(source)), thinned(len(target))
    layout = sheet(
        colours,
        title="What moved",
        subtitle="second run − first run, % of the whole mass",
        height=int(min(900, 230 + 22 * max(8, len(rows)))),
        width=None,
        margin={"l": 130, "r": 90, "t": 160, "b": 30},
    )
    font = {"size": SMALL_FONT_SIZE + 1}
    layout["xaxis"] = axis(
        colours,
        side="top",
        tickangle=-50,
        tickvals=columns.tolist(),
        ticktext=[tick(target[k], 18) for k in columns],
        tickfont=font | {"color": colours.target_text},
    )
    layout["yaxis"] = axis(
        colours,
        autorange="reversed",
        tickvals=rows.tolist(),
        ticktext=[tick(source[k], 18) for k in rows],
        tickfont=font | {"color": colours.source_text},
    )
    trace = {
        "type": "heatmap",
        "z": 100 * matrix,
        "zmin": -100 * end,
        "zmax": 100 * end,
        "colorscale": [list(pair) for pair in colours.diverging],
        "xgap": 1,
        "ygap": 1,
        "hovertemplate": "%{z:+.3~g} % of the mass<extra></extra>",
        "colorbar": {"title": {"text": "%", "font": font}, "tickfont": font, "outlinewidth": 0, "thickness": 12},
    }
    i, j = np.unravel_index(int(np.abs(matrix).argmax()), matrix.shape)
    words = (
        f"Change of a coupling between {len(source)} source and {len(target)} target atoms; most at "
        f"{spoken(source, int(i))} and {spoken(target, int(j))}: {number(100 * float(matrix[i, j]))} % of the mass."
    )
    return finished([trace], layout, words)
