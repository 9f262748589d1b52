"""What ε does: cost, information and spread of a coupling over a range of ε, with the present one marked."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Literal

import numpy as np
import plotly.graph_objects as go

from sinkviz.coupling import Coupling
from sinkviz.figures import descriptions
from sinkviz.figures.frame import Json, axis, finished, name, note, sheet
from sinkviz.figures.labels import number, plural
from sinkviz.figures.matrix import standoff
from sinkviz.figures.palette import SMALL_FONT_SIZE, Palette, ThemeName, palette

Quantity = Literal["cost", "information", "partners"]
QUANTITIES: dict[Quantity, tuple[str, str, Callable[[Coupling], float]]] = {
    "cost": ("transport cost ⟨C, P⟩", "units of the cost", lambda c: c.transport_cost),
    "information": ("mutual information", "nat", lambda c: c.mutual_information),
    "partners": ("effective partners", "", lambda c: c.mean_partners),
}


def epsilon_curves(
    path: Iterable[Coupling],
    *,
    attention: Iterable[Coupling] = (),
    mark: float | None = None,
    exact: Coupling | None = None,
    quantities: Sequence[Quantity] = ("cost", "information", "partners"),
    theme: ThemeName = "light",
    width: int | None = None,
    height: int = 320,
) -> go.Figure:
    """Draw transport cost, mutual information and mean effective partners over ε on a logarithmic axis.

    ε is in units of σ, the spread of the double-centred cost, where there is one, else absolute. Couplings that did
    not converge are open marks.

    Args:
        path: couplings of one pair of measures for several ε > 0, in any order, or an `EpsilonPath`.
        attention: the same for softmax attention; dashed.
        mark: ε, in the unit of the axis, that is marked by a line.
        exact: the plan at ε = 0; its values are drawn as dotted lines.
        quantities: the panels, from left to right; draw them one by one where the page may be narrow.
        theme: "light" or "dark".
        width, height: pixels; by default the width follows the page.

    Raises:
        ValueError: an empty path, an ε or a mark that is not > 0, couplings of different shape, no quantities
            or unknown ones.
    """
    colours = palette(theme)
    # An `EpsilonPath` makes its couplings anew each time it is read.
    path, attention = sorted(path, key=lambda c: c.epsilon), sorted(attention, key=lambda c: c.epsilon)
    if not path:
        raise ValueError("path: expected at least one coupling, got none")
    if not quantities or any(quantity not in QUANTITIES for quantity in quantities):
        raise ValueError(f"quantities: expected some of {', '.join(QUANTITIES)}, got {list(quantities)!r}")
    relative = path[0].cost_scale > 0
    for c in (*path, *attention):
        if not c.epsilon > 0:
            raise ValueError(f"path: expected ε > 0, got {c.epsilon}; give the plan at ε = 0 as exact")
        if c.shape != path[0].shape:
            raise ValueError(f"path: expected couplings of one shape, got {path[0].shape} and {c.shape}")
    if mark is not None and not mark > 0:
        raise ValueError(f"mark: expected ε > 0, got {mark!r}")
    series = [(path, colours.text, "solid", "circle")]
    if attention:
        series.append((attention, colours.muted, "dash", "square"))
    data: list[Json] = []
    layout = sheet(
        colours,
        title="What ε does",
        subtitle=f"{name(path[0]).lower()}"
        + (f" and {name(attention[0]).lower()}" if attention else "")
        + " of the same scores",
        height=height,
        width=width,
        margin={"l": 52, "r": 16, "t": 96, "b": 86},
    )
    annotations: list[Json] = []
    shapes: list[Json] = []
    gap = 0.09
    panel = (1 - gap * (len(quantities) - 1)) / len(quantities)
    every = [_epsilon(c, relative) for c in (*path, *attention)] + ([mark] if mark is not None else [])
    low, high = np.log10(min(every)), np.log10(max(every))
    pad = 0.04 * (high - low) or 0.5
    unit = "ε, units of σ" if relative else "ε, units of the cost"
    for k, (title, measure_unit, value) in enumerate(QUANTITIES[quantity] for quantity in quantities):
        ending = "" if k == 0 else str(k + 1)
        x_name, y_name = f"x{ending}", f"y{ending}"
        left = k * (panel + gap)
        heights: list[float] = []
        for ordered, colour, dash, symbol in series:
            values = [value(c) for c in ordered]
            heights += values
            data.append(
                {
                    "type": "scatter",
                    "mode": "lines+markers",
                    "name": name(ordered[0]),
                    "x": [_epsilon(c, relative) for c in ordered],
                    "y": values,
                    "xaxis": x_name,
                    "yaxis": y_name,
                    "line": {"color": colour, "width": 2, "dash": dash},
                    "marker": {
                        "size": 5,
                        "color": colour,
                        "symbol": [symbol if c.converged else f"{symbol}-open" for c in ordered],
                    },
                    "hovertemplate": f"ε = %{{x:.3~g}}{' σ' if relative else ''}<br>{title} %{{y:.3~g}}"
                    f"{' ' + measure_unit if measure_unit == 'nat' else ''}<extra>{name(ordered[0])}</extra>",
                    "showlegend": k == 0,
                }
            )
        if exact is not None:
            level = value(exact)
            heights.append(level)
            data.append(
                {
                    "type": "scatter",
                    "mode": "lines",
                    "name": "exact plan, ε = 0",
                    "x": [10 ** (low - pad), 10 ** (high + pad)],
                    "y": [level, level],
                    "xaxis": x_name,
                    "yaxis": y_name,
                    "line": {"color": colours.muted, "width": 1.5, "dash": "dot"},
                    "hovertemplate": f"ε = 0<br>{title} %{{y:.3~g}}<extra>exact plan</extra>",
                    "showlegend": k == 0,
                }
            )
        layout[f"xaxis{ending}"] = axis(
            colours,
            type="log",
            domain=[left, min(1.0, left + panel)],
            anchor=y_name,
            range=[low - pad, high + pad],
            dtick=1,
            showline=True,
            linecolor=colours.border,
            title={"text": unit, "standoff": 6, "font": {"size": SMALL_FONT_SIZE, "color": colours.muted}},
            fixedrange=True,
            **standoff(3),
        )
        bottom, top = min(heights), max(heights)
        room = 0.08 * (top - bottom) or max(0.05 * abs(top), 0.05)
        layout[f"yaxis{ending}"] = axis(
            colours,
            anchor=x_name,
            range=[bottom - room, top + room],
            nticks=5,
            tickformat=".3~g",
            showgrid=True,
            gridcolor=colours.border,
            fixedrange=True,
            **standoff(3),
        )
        spelled = measure_unit or f"a {path[0].source.unit}"
        annotations.append(
            note(
                colours,
                f'{title}<br><span style="font-size:{SMALL_FONT_SIZE}px;color:{colours.muted}">{spelled}</span>',
                x=left,
                y=1,
                yanchor="bottom",
                yshift=6,
                font={"size": SMALL_FONT_SIZE + 1, "color": colours.text},
            )
        )
        if mark is not None:
            shapes.append(_mark(colours, mark, x_name, y_name))
    if mark is not None:
        annotations.append(
            note(
                colours,
                f"ε = {number(mark)}{' σ' if relative else ''}",
                xref="x",
                x=float(np.log10(mark)),
                y=1,
                yanchor="top",
                xanchor="left" if np.log10(mark) < (low + high) / 2 else "right",
                xshift=4 if np.log10(mark) < (low + high) / 2 else -4,
            )
        )
    open_marks = sum(not c.converged for c in (*path, *attention))
    if open_marks:
        annotations.append(
            note(colours, f"open marks: {plural(open_marks, 'solve')} not converged", yshift=-84, yanchor="bottom")
        )
    layout["annotations"] = annotations
    layout["shapes"] = shapes
    layout["legend"].update({"x": 0, "xanchor": "left", "y": -0.3, "yanchor": "top"})
    return finished(data, layout, descriptions.epsilon_curves(path))


def _epsilon(coupling: Coupling, relative: bool) -> float:
    return coupling.epsilon_relative if relative else coupling.epsilon


def _mark(colours: Palette, epsilon: float, x_name: str, y_name: str) -> Json:
    return {
        "type": "line",
        "xref": x_name,
        "yref": f"{y_name} domain",
        "x0": epsilon,
        "x1": epsilon,
        "y0": 0,
        "y1": 1,
        "layer": "below",
        "line": {"color": colours.text, "width": 1.5},
    }
