"""Mass received by each target atom beside its weight."""

from __future__ import annotations

import numpy as np
import plotly.graph_objects as go

from sinkviz.coupling import Coupling
from sinkviz.figures import descriptions
from sinkviz.figures.frame import Json, axis, finished, missing, name, note, noun, regularisation, sheet, widest
from sinkviz.figures.labels import full, number, percent, tick
from sinkviz.figures.matrix import standoff, thinned
from sinkviz.figures.palette import SMALL_FONT_SIZE, ThemeName, palette, translucent
from sinkviz.figures.scale import Scale, shared_scale


def received(
    coupling: Coupling,
    *,
    scale: Scale | None = None,
    theme: ThemeName = "light",
    width: int | None = None,
    height: int = 280,
) -> go.Figure:
    """Draw the mass each target atom receives, Σ_i P_ij, with a mark at its weight b_j.

    A balanced coupling meets every mark; attention does not have to. With a null partner the mass that stays without
    partner is stacked on top, hatched.

    Args:
        coupling: what is drawn; shape (n, m).
        scale: the scale to share with other panels; the coupling's own by default.
        theme: "light" or "dark".
        width, height: pixels; by default the width follows the page.

    Raises:
        ValueError: an unknown theme.
    """
    colours = palette(theme)
    scale = scale or shared_scale(coupling)
    labels, weights, mass = coupling.target.labels, coupling.target.weights, coupling.received
    m = len(labels)
    unit = noun(coupling)
    partial = coupling.mechanism == "partial"
    ratio = np.divide(mass, weights, out=np.zeros(m), where=weights > 0)
    data: list[Json] = [
        {
            "type": "bar",
            "name": "received",
            "x": np.arange(m),
            "y": mass,
            "width": 0.7,
            "marker": {"color": translucent(colours.target, 0.85), "line": {"width": 0}},
            "customdata": [
                [full(label), 100 * float(mass[j]), 100 * float(weights[j]), float(ratio[j])]
                for j, label in enumerate(labels)
            ],
            "hovertemplate": "<b>%{customdata[0]}</b><br>receives %{customdata[1]:.3~g} % of the mass<br>"
            "weight %{customdata[2]:.3~g} %, that is %{customdata[3]:.3~g} times its weight<extra></extra>",
        }
    ]
    if partial:
        data.append(
            {
                "type": "bar",
                "name": "without partner",
                "x": np.arange(m),
                "y": coupling.null_target,
                "base": mass,
                "width": 0.7,
                "marker": {
                    "color": colours.card,
                    "line": {"width": 1, "color": colours.target},
                    "pattern": {"shape": "/", "fgcolor": colours.target, "size": 6, "solidity": 0.25},
                },
                "customdata": [[full(label), 100 * float(coupling.null_target[j])] for j, label in enumerate(labels)],
                "hovertemplate": "<b>%{customdata[0]}</b><br>%{customdata[1]:.3~g} % without partner<extra></extra>",
            }
        )
    along: list[float | None] = []
    at: list[float | None] = []
    for j, weight in enumerate(weights.tolist()):
        along += (j - 0.46, j + 0.46, None)
        at += (weight, weight, None)
    data.append(
        {
            "type": "scatter",
            "mode": "lines",
            "name": f"weight of the {unit}",
            "x": along,
            "y": at,
            "line": {"color": colours.text, "width": 1.5},
            "hoverinfo": "skip",
        }
    )
    shown = thinned(m)
    texts = [tick(labels[j], 14) for j in shown]
    # The labels are turned by 55 degrees: sin 55° of their width is height.
    foot = int(0.82 * widest(texts, 110)) + 46
    layout = sheet(
        colours,
        title=f"Mass received · {name(coupling).lower()}",
        subtitle=f"{_extremes(coupling)} · {regularisation(coupling)}",
        height=height,
        width=width,
        margin={"l": 58, "r": 16, "t": 66, "b": foot},
    )
    layout["xaxis"] = axis(
        colours,
        range=[-0.6, m - 0.4],
        tickvals=shown,
        ticktext=texts,
        tickangle=-55,
        tickfont={"size": SMALL_FONT_SIZE + 1, "color": colours.target_text},
        **standoff(3),
    )
    ceiling = 1.06 * scale.received
    layout["yaxis"] = axis(
        colours,
        range=[0, ceiling],
        tickvals=[0, scale.received / 2, scale.received],
        ticktext=[percent(0), percent(scale.received / 2), percent(scale.received)],
        showgrid=True,
        gridcolor=colours.border,
        title={"text": "% of the mass", "font": {"size": SMALL_FONT_SIZE, "color": colours.muted}},
        fixedrange=True,
        **standoff(4),
    )
    layout["legend"].update({"x": 1, "xanchor": "right", "y": 1.02, "yanchor": "bottom"})
    layout["barmode"] = "overlay"
    foot_note = missing(coupling)
    if len(shown) < m:
        foot_note += f" · {len(shown)} of {m} labels drawn, the rest on hover"
    layout["annotations"] = [note(colours, foot_note, yshift=-foot + 8, yanchor="bottom", xshift=-44)]
    return finished(data, layout, descriptions.received(coupling))


def _extremes(coupling: Coupling) -> str:
    least, most = descriptions.extremes(coupling)
    labels, weights = coupling.target.labels, coupling.target.weights
    if coupling.received_distance < 1e-4:
        verb = "is accounted for" if coupling.mechanism == "partial" else "receives its weight"
        return f"every {noun(coupling)} {verb}"
    low, high = (float(coupling.received[j] / weights[j]) for j in (least, most))
    return f"{tick(labels[most])}: {number(high)} times its weight · {tick(labels[least])}: {percent(low)} of it"
