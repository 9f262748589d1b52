"""What all figures have in common: the sheet, the words of their titles, and how they are built."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import plotly.graph_objects as go

from sinkviz.coupling import Coupling
from sinkviz.figures.labels import number, percent, text_width
from sinkviz.figures.palette import FONT, FONT_SIZE, SMALL_FONT_SIZE, TITLE_FONT_SIZE, Palette
from sinkviz.figures.scale import shared_scale

Json = dict[str, Any]

NAMES = {
    "sinkhorn": ("Coupling", "Sinkhorn: rows and columns keep their weights"),
    "softmax": ("Attention", "softmax on the same scores: rows keep their weights"),
    "relaxed": ("Relaxed coupling", "rows keep their weights, columns softly"),
    "partial": ("Coupling with a null partner", "mass may stay without a partner"),
    "exact": ("Exact coupling", "optimal transport, ε = 0"),
}
NULL_LABEL = "∅ no partner"
NULL_SIGN = "∅"


def name(coupling: Coupling) -> str:
    """Return what a coupling is called in titles."""
    return NAMES[coupling.mechanism][0]


def noun(coupling: Coupling) -> str:
    """Return what the target's atoms are: "token", "word" or "sentence"."""
    return coupling.target.unit


def regularisation(coupling: Coupling) -> str:
    """Return ε in words, in units of σ, the spread of the double-centred cost, where there is one."""
    if coupling.mechanism == "exact":
        return "ε = 0"
    if coupling.cost_scale > 0:
        return f"ε = {number(coupling.epsilon_relative)} σ"
    return f"ε = {number(coupling.epsilon)}"


def subtitle(coupling: Coupling) -> str:
    """Return the line under a title: the rule, ε, and the state if the solver did not get there."""
    parts = [NAMES[coupling.mechanism][1]]
    if coupling.mechanism != "exact":
        parts.append(regularisation(coupling))
    if not coupling.converged:
        parts.append(f"not converged ({coupling.status.replace('_', ' ')}, error {number(coupling.residual)})")
    return " · ".join(parts)


def sheet(colours: Palette, *, title: str, subtitle: str, height: int, width: int | None, margin: Json) -> Json:
    """Return the layout that all figures start from."""
    return {
        # An empty template: the default one carries colours and 7 KB that are not ours.
        "template": {},
        "title": {
            "text": f"<b>{title}</b><br>"
            f'<span style="font-size:{SMALL_FONT_SIZE + 1}px;color:{colours.muted}">{subtitle}</span>',
            "font": {"size": TITLE_FONT_SIZE, "color": colours.text},
            "x": 0,
            "xref": "container",
            "xanchor": "left",
            "y": 1,
            "yref": "container",
            "yanchor": "top",
            "automargin": False,
            "pad": {"l": 14, "t": 26},
        },
        "font": {"family": FONT, "size": FONT_SIZE, "color": colours.text},
        "paper_bgcolor": colours.card,
        "plot_bgcolor": colours.card,
        "height": height,
        **({"autosize": True} if width is None else {"width": width, "autosize": False}),
        "margin": {"pad": 0, **margin},
        "hoverlabel": {
            "bgcolor": colours.card,
            "bordercolor": colours.border,
            "font": {"family": FONT, "size": FONT_SIZE, "color": colours.text},
            "align": "left",
        },
        "hovermode": "closest",
        "dragmode": "pan",
        "legend": {
            "orientation": "h",
            "font": {"size": SMALL_FONT_SIZE, "color": colours.muted},
            "bgcolor": "rgba(0,0,0,0)",
            "itemsizing": "trace",
            "itemclick": False,
            "itemdoubleclick": False,
        },
    }


def axis(colours: Palette, **options: Any) -> Json:
    """Return a numeric axis without lines; it is said to be linear, or a date-like token would make it one of dates."""
    return {
        "type": "linear",
        "showgrid": False,
        "zeroline": False,
        "showline": False,
        "ticks": "",
        "tickfont": {"size": SMALL_FONT_SIZE, "color": colours.muted},
        "title": {"font": {"size": SMALL_FONT_SIZE, "color": colours.muted}},
        **options,
    }


def note(colours: Palette, text: str, **options: Any) -> Json:
    """Return a line of small print; by default at the foot of the sheet on the left."""
    return {
        "text": text,
        "showarrow": False,
        "xref": "paper",
        "yref": "paper",
        "x": 0,
        "y": 0,
        "xanchor": "left",
        "yanchor": "top",
        "align": "left",
        "font": {"size": SMALL_FONT_SIZE, "color": colours.muted},
        **options,
    }


def finished(data: Sequence[Json], layout: Json, description: str) -> go.Figure:
    """Return the figure; its `layout.meta["description"]` says in plain words what is seen.

    Plotly's validation of every attribute costs more than all the rest, and all attributes are ours: it is left out
    here and done in the tests instead.
    """
    layout["meta"] = {"description": description}
    return go.Figure(data=list(data), layout=layout, _validate=False)


def widest(labels: Sequence[str], limit: float) -> float:
    """Return the estimated width of the widest label in pixels at the size of tick labels, at most `limit`."""
    return min(limit, max((text_width(label) for label in labels), default=0.0) * (SMALL_FONT_SIZE + 1))


def side_by_side(
    draw: Callable[..., go.Figure], coupling: Coupling, attention: Coupling, **options: Any
) -> tuple[go.Figure, go.Figure]:
    """Draw the same picture of two couplings on one shared scale.

    Args:
        draw: `heatmap`, `lines`, `received` or `clouds`.
        coupling, attention: what is compared.
        options: passed on to both.
    """
    scale = shared_scale(coupling, attention)
    return draw(coupling, scale=scale, **options), draw(attention, scale=scale, **options)


def missing(coupling: Coupling) -> str:
    """Return how much of the mass misses the target's weights, in words; below 0.01 % it is the solver's tolerance."""
    share = coupling.received_distance
    return f"{percent(share) if share >= 1e-4 else 'under 0.01 %'} of the mass misses the target's weights"
