"""How well methods find the links that people make: intervals, curves, and one pair with its links marked."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from math import log10

import plotly.graph_objects as go

from sinkviz.figures.frame import Json, axis, finished, note, sheet
from sinkviz.figures.labels import tick
from sinkviz.figures.palette import SMALL_FONT_SIZE, Palette, ThemeName, palette

_AT_THE_FOOT = {"x": 0, "y": 0.0, "xanchor": "left", "yanchor": "bottom", "yref": "container"}
FAMILIES = {"attention": ("square", "attention"), "cosine": ("diamond", "cosine"), "transport": ("circle", "transport")}


@dataclass(frozen=True)
class Estimate:
    """A value between 0 and 1 with its interval, of one method (or at one place of its curve)."""

    label: str
    family: str
    value: float
    low: float
    high: float
    at: float = 0.0


def method_intervals(
    estimates: Sequence[Estimate], *, quantity: str, pairs: int, theme: ThemeName = "light", height: int | None = None
) -> go.Figure:
    """Draw one mark with its interval for each method, the best one on top.

    Args:
        estimates: one for each method, values from 0 to 1.
        quantity: what is measured, for title and axis.
        pairs: number of sentence pairs, for the subtitle.
        theme: "light" or "dark".
        height: pixels; by the number of methods if None.

    Raises:
        ValueError: no estimates.
    """
    if not estimates:
        raise ValueError("estimates: expected at least one method, got none")
    colours = palette(theme)
    ordered = sorted(estimates, key=lambda one: one.value)
    data: list[Json] = []
    for family, (symbol, name) in FAMILIES.items():
        chosen = [(k, one) for k, one in enumerate(ordered) if one.family == family]
        if not chosen:
            continue
        data.append(
            {
                "type": "scatter",
                "mode": "markers+text",
                "name": name,
                "x": [100 * one.value for _, one in chosen],
                "y": [k for k, _ in chosen],
                "text": [f"{100 * one.value:.1f}" for _, one in chosen],
                "textposition": "top center",
                "textfont": {"size": SMALL_FONT_SIZE, "color": colours.text},
                "error_x": {
                    "type": "data",
                    "symmetric": False,
                    "array": [100 * (one.high - one.value) for _, one in chosen],
                    "arrayminus": [100 * (one.value - one.low) for _, one in chosen],
                    "color": _colour(colours, family),
                    "thickness": 1.5,
                },
                "marker": {"symbol": symbol, "size": 9, "color": _colour(colours, family)},
                "hovertemplate": "%{x:.1f} %<extra></extra>",
            }
        )
    labels = [tick(one.label, 44) for one in ordered]
    layout = sheet(
        colours,
        title=quantity,
        subtitle=f"percent, 95 % bootstrap intervals over {pairs:,} sentence pairs",
        height=height or 130 + 42 * len(ordered),
        width=None,
        margin={"l": 270, "r": 20, "t": 74, "b": 66},
    )
    layout["xaxis"] = axis(colours, showgrid=True, gridcolor=colours.border, title=_title(colours, f"{quantity}, %"))
    layout["yaxis"] = axis(
        colours,
        tickvals=list(range(len(ordered))),
        ticktext=labels,
        tickfont={"size": SMALL_FONT_SIZE + 1, "color": colours.text},
        range=[-0.6, len(ordered) - 0.2],
    )
    layout["legend"] |= _AT_THE_FOOT
    best = ordered[-1]
    words = "; ".join(
        f"{one.label} {100 * one.value:.1f} ({100 * one.low:.1f} to {100 * one.high:.1f})" for one in ordered[::-1]
    )
    return finished(data, layout, f"{quantity} in percent with 95 % intervals, best first ({best.label}): {words}.")


def method_curves(
    estimates: Sequence[Estimate],
    *,
    quantity: str,
    place: str,
    logarithmic: bool = False,
    mark: float | None = None,
    theme: ThemeName = "light",
    height: int = 340,
) -> go.Figure:
    """Draw a quantity of several methods along a setting, with its intervals as bands.

    Args:
        estimates: values from 0 to 1 at places `at`.
        quantity, place: titles of the axes.
        logarithmic: whether the places lie on a logarithmic axis.
        mark: a place to mark, such as the default.
        theme: "light" or "dark".
        height: pixels.

    Raises:
        ValueError: no estimates.
    """
    if not estimates:
        raise ValueError("estimates: expected at least one point, got none")
    colours = palette(theme)
    data: list[Json] = []
    hues = [colours.source, colours.target, *colours.pins]
    dashes = ["solid", "dash", "dot", "dashdot", "longdash"]
    names = list(dict.fromkeys(one.label for one in estimates))
    for k, name in enumerate(names):
        line = sorted((one for one in estimates if one.label == name), key=lambda one: one.at)
        hue = hues[k % len(hues)]
        places = [one.at for one in line]
        data.append(
            {
                "type": "scatter",
                "x": places + places[::-1],
                "y": [100 * one.high for one in line] + [100 * one.low for one in line[::-1]],
                "fill": "toself",
                "fillcolor": _transparent(hue, 0.12),
                "line": {"width": 0},
                "hoverinfo": "skip",
                "showlegend": False,
            }
        )
        data.append(
            {
                "type": "scatter",
                "mode": "lines+markers",
                "name": name,
                "x": places,
                "y": [100 * one.value for one in line],
                "line": {"color": hue, "width": 2, "dash": dashes[k % len(dashes)]},
                "marker": {"size": 6, "color": hue, "symbol": FAMILIES.get(line[0].family, ("circle", ""))[0]},
                "hovertemplate": f"{place} %{{x:.3~g}}: %{{y:.1f}} %<extra></extra>",
            }
        )
    layout = sheet(
        colours,
        title=f"{quantity} over {place}",
        subtitle="held-out pairs; bands: 95 % bootstrap intervals",
        height=height,
        width=None,
        margin={"l": 56, "r": 20, "t": 74, "b": 92},
    )
    layout["xaxis"] = axis(colours, title=_title(colours, place), **({"type": "log"} if logarithmic else {"dtick": 1}))
    layout["yaxis"] = axis(colours, showgrid=True, gridcolor=colours.border, title=_title(colours, f"{quantity}, %"))
    layout["legend"] |= _AT_THE_FOOT
    if mark is not None:
        layout["shapes"] = [
            {
                "type": "line",
                "x0": mark,
                "x1": mark,
                "yref": "paper",
                "y0": 0,
                "y1": 1,
                "line": {"color": colours.muted, "width": 1, "dash": "dash"},
            }
        ]
        layout["annotations"] = [
            note(colours, "default", xref="x", x=log10(mark) if logarithmic else mark, y=1, yanchor="bottom")
        ]
    words = "; ".join(
        f"{name} at best {100 * max(one.value for one in estimates if one.label == name):.1f}" for name in names
    )
    return finished(data, layout, f"{quantity} in percent over {place}: {words}.")


def gold_matrix(
    source: Sequence[str],
    target: Sequence[str],
    found: Iterable[tuple[int, int]],
    sure: Iterable[tuple[int, int]],
    possible: Iterable[tuple[int, int]] = (),
    *,
    theme: ThemeName = "light",
) -> go.Figure:
    """Draw the links of one pair as marks in its matrix: right, allowed, missed and wrong, each with its own sign.

    Args:
        source, target: the words.
        found: links of a method.
        sure, possible: links that people made; what is only possible counts as right but is not missed.
        theme: "light" or "dark".
    """
    colours = palette(theme)
    chosen, wanted, allowed = set(found), set(sure), set(possible) | set(sure)
    groups = (
        ("right", sorted(chosen & wanted), colours.good, "circle"),
        ("right, a possible link", sorted((chosen & allowed) - wanted), colours.good, "circle-open"),
        ("missed", sorted(wanted - chosen), colours.source, "square-open"),
        ("wrong", sorted(chosen - allowed), colours.wrong, "x"),
    )
    data: list[Json] = [
        {
            "type": "scatter",
            "mode": "markers",
            "name": f"{name} ({len(links)})",
            "x": [j for _, j in links],
            "y": [i for i, _ in links],
            "marker": {"symbol": symbol, "size": 13, "color": colour, "line": {"width": 2.5, "color": colour}},
            "customdata": [[tick(source[i], 60), tick(target[j], 60)] for i, j in links],
            "hovertemplate": f"%{{customdata[0]}} – %{{customdata[1]}}: {name}<extra></extra>",
        }
        for name, links, colour, symbol in groups
    ]
    rows, columns = len(source), len(target)
    layout = sheet(
        colours,
        title="Links of this pair",
        subtitle="method against people",
        height=190 + 26 * rows,
        width=None,
        margin={"l": 130, "r": 20, "t": 150, "b": 50},
    )
    ticks = {"showgrid": True, "gridcolor": colours.border}
    layout["xaxis"] = axis(
        colours,
        **ticks,
        side="top",
        tickangle=-50,
        tickvals=list(range(columns)),
        ticktext=[tick(word, 18) for word in target],
        tickfont={"size": SMALL_FONT_SIZE + 1, "color": colours.target_text},
        range=[-0.6, columns - 0.4],
    )
    layout["yaxis"] = axis(
        colours,
        **ticks,
        tickvals=list(range(rows)),
        ticktext=[tick(word, 18) for word in source],
        tickfont={"size": SMALL_FONT_SIZE + 1, "color": colours.source_text},
        range=[rows - 0.4, -0.6],
    )
    layout["legend"] |= _AT_THE_FOOT
    counts = ", ".join(f"{len(links)} {name}" for name, links, _, _ in groups)
    return finished(data, layout, f"Links between {rows} source and {columns} target words: {counts}.")


def _colour(colours: Palette, family: str) -> str:
    return {"attention": colours.target, "cosine": colours.muted, "transport": colours.source}[family]


def _title(colours: Palette, text: str) -> Json:
    return {"text": text, "font": {"size": SMALL_FONT_SIZE, "color": colours.muted}}


def _transparent(colour: str, opacity: float) -> str:
    red, green, blue = (int(colour[k : k + 2], 16) for k in (1, 3, 5))
    return f"rgba({red},{green},{blue},{opacity})"


def distribution(values: Sequence[float], *, quantity: str, theme: ThemeName = "light", height: int = 360) -> go.Figure:
    """Draw a histogram of one number over many pairs, with its median marked.

    Args:
        values: finite numbers.
        quantity: what they are.
        theme: "light" or "dark".
        height: pixels.

    Raises:
        ValueError: no values.
    """
    from statistics import median

    if not values:
        raise ValueError("values: expected at least one number, got none")
    colours = palette(theme)
    middle = median(values)
    layout = sheet(
        colours,
        title=quantity,
        subtitle=f"{len(values):,} pairs, median {middle:.3g} (dashed)",
        height=height,
        width=None,
        margin={"l": 50, "r": 16, "t": 74, "b": 50},
    )
    layout["xaxis"] = axis(colours, title=_title(colours, quantity))
    layout["yaxis"] = axis(colours, showgrid=True, gridcolor=colours.border, title=_title(colours, "pairs"))
    layout["shapes"] = [
        {
            "type": "line",
            "x0": middle,
            "x1": middle,
            "yref": "paper",
            "y0": 0,
            "y1": 1,
            "line": {"color": colours.text, "width": 1, "dash": "dash"},
        }
    ]
    data: list[Json] = [
        {
            "type": "histogram",
            "x": list(values),
            "nbinsx": 40,
            "marker": {"color": colours.source, "line": {"color": colours.card, "width": 1}},
            "hovertemplate": "%{x}: %{y} pairs<extra></extra>",
        }
    ]
    text = f"{quantity} of {len(values):,} pairs: from {min(values):.3g} to {max(values):.3g}, median {middle:.3g}."
    return finished(data, layout, text)
