"""Lines over a setting: measured values with their intervals, beside what is predicted or allowed."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Literal

import numpy as np
import plotly.graph_objects as go

from sinkviz.figures.frame import Json, axis, finished, note, sheet
from sinkviz.figures.labels import number
from sinkviz.figures.matrix import standoff
from sinkviz.figures.palette import SMALL_FONT_SIZE, Palette, ThemeName, palette, translucent

Tone = Literal["coupling", "attention", "independent", "bound", "source", "target", "good", "wrong", "pin"]
Mode = Literal["lines", "markers", "lines+markers"]
_STYLES: dict[str, tuple[str, str]] = {
    "coupling": ("solid", "circle"),
    "attention": ("dash", "square"),
    "independent": ("dot", "diamond"),
    "bound": ("dot", "circle"),
    "source": ("solid", "circle"),
    "target": ("dash", "square"),
    "good": ("solid", "circle"),
    "wrong": ("dot", "x"),
    "pin": ("dashdot", "triangle-up"),
}
_LEGEND_ROW = 20


def tone_colour(colours: Palette, tone: Tone) -> str:
    """Return the colour of a tone: couplings in the colour of text, attention muted, source blue, target orange."""
    return {
        "coupling": colours.text,
        "attention": colours.muted,
        "independent": colours.muted,
        "bound": colours.wrong,
        "source": colours.source,
        "target": colours.target,
        "good": colours.good,
        "wrong": colours.wrong,
        "pin": colours.pins[0],
    }[tone]


@dataclass(frozen=True)
class Line:
    """One line of a chart.

    Attributes:
        label: for the legend, our own words.
        x, y: places and values of equal number.
        low, high: ends of the intervals, None where there is none; drawn as whiskers.
        tone: colour, dash and mark.
        mode: whether points are joined.
        hover: a line more for each point, our own words.
    """

    label: str
    x: Sequence[float]
    y: Sequence[float]
    low: Sequence[float | None] | None = None
    high: Sequence[float | None] | None = None
    tone: Tone = "coupling"
    mode: Mode = "lines+markers"
    hover: Sequence[str] = field(default=())


def line_chart(
    lines: Sequence[Line],
    *,
    title: str,
    subtitle: str,
    x_title: str,
    y_title: str,
    description: str,
    x_log: bool = False,
    y_log: bool = False,
    x_ticks: Sequence[tuple[float, str]] | None = None,
    levels: Sequence[tuple[float, str]] = (),
    mark: tuple[float, str] | None = None,
    from_zero: bool = False,
    theme: ThemeName = "light",
    width: int | None = None,
    height: int = 360,
) -> go.Figure:
    """Draw lines with their intervals over one axis.

    On a logarithmic axis, values that are not positive have no place and are left out; the foot says how many.

    Args:
        lines: what is drawn. title, subtitle, x_title, y_title, description: our own words, no tokens.
        x_log, y_log: logarithmic axes.
        x_ticks: places that carry a label; by default Plotly chooses.
        levels: dotted horizontal lines with a label. mark: a vertical line with a label.
        from_zero: whether a linear y axis starts at 0.
        theme: "light" or "dark". width, height: pixels; by default the width follows the page.

    Raises:
        ValueError: no line, or lines whose numbers do not fit each other or are not finite.
    """
    if not lines:
        raise ValueError("lines: expected at least one, got none")
    colours = palette(theme)
    data: list[Json] = []
    every_x: list[float] = [mark[0]] if mark is not None else []
    every_y: list[float] = [level for level, _ in levels if not y_log or level > 0]
    left_out = 0
    for line in lines:
        if len(line.x) != len(line.y):
            raise ValueError(f"{line.label}: expected as many places as values, got {len(line.x)} and {len(line.y)}")
        if not (np.isfinite(line.x).all() and np.isfinite(line.y).all()):
            raise ValueError(f"{line.label}: expected finite numbers")
        kept = [k for k in range(len(line.x)) if (not x_log or line.x[k] > 0) and (not y_log or line.y[k] > 0)]
        left_out += len(line.x) - len(kept)
        x, y = [float(line.x[k]) for k in kept], [float(line.y[k]) for k in kept]
        every_x, every_y = every_x + x, every_y + y
        colour = tone_colour(colours, line.tone)
        dash, symbol = _STYLES[line.tone]
        trace: Json = {
            "type": "scatter",
            "mode": line.mode,
            "name": line.label,
            "x": x,
            "y": y,
            "line": {"color": colour, "width": 2, "dash": dash},
            "marker": {"size": 7 if line.mode != "lines" else 5, "color": colour, "symbol": symbol},
            "hovertemplate": f"{x_title}: %{{x:.4~g}}<br>{y_title}: %{{y:.3~g}}"
            + ("<br>%{customdata}" if line.hover else "")
            + "<extra></extra>",
        }
        if line.hover:
            trace["customdata"] = [line.hover[k] for k in kept]
        if line.low is not None and line.high is not None:
            above = [_gap(line.high[k], line.y[k]) for k in kept]
            below = [_gap(line.y[k], line.low[k]) for k in kept]
            if y_log:
                # A whisker that reaches 0 would reach for ever on this axis: it ends at a hundredth of the value.
                below = [min(gap, 0.99 * value) for gap, value in zip(below, y, strict=True)]
            trace["error_y"] = {
                "type": "data",
                "symmetric": False,
                "array": above,
                "arrayminus": below,
                "color": colour,
                "thickness": 1.5,
                "width": 5,
            }
            every_y += [value + gap for value, gap in zip(y, above, strict=True)]
            every_y += [value - gap for value, gap in zip(y, below, strict=True)]
        data.append(trace)
    rows = -(-sum(len(line.label) + 6 for line in lines) // 44)
    foot = 58 + _LEGEND_ROW * rows
    layout = sheet(
        colours,
        title=title,
        subtitle=subtitle,
        height=height + _LEGEND_ROW * (rows - 1),
        width=width,
        margin={"l": 64, "r": 20, "t": 66, "b": foot + (16 if left_out else 0)},
    )
    ticks: Json = {"nticks": 8}
    if x_ticks is not None:
        ticks = {"tickvals": [at for at, _ in x_ticks], "ticktext": [text for _, text in x_ticks]}
    elif x_log:
        ticks = log_ticks(_range(every_x, True, 0.05))
    layout["xaxis"] = axis(
        colours,
        type="log" if x_log else "linear",
        range=_range(every_x, x_log, 0.05),
        showline=True,
        linecolor=colours.border,
        title={"text": x_title, "standoff": 6, "font": {"size": SMALL_FONT_SIZE, "color": colours.muted}},
        fixedrange=True,
        **ticks,
        **standoff(3),
    )
    span = _range([*every_y, 0.0] if from_zero and not y_log else every_y, y_log, 0.07)
    if from_zero and not y_log:
        span[0] = min(0.0, min(every_y, default=0.0))
    layout["yaxis"] = axis(
        colours,
        type="log" if y_log else "linear",
        range=span,
        showgrid=True,
        gridcolor=colours.border,
        title={"text": y_title, "standoff": 4, "font": {"size": SMALL_FONT_SIZE, "color": colours.muted}},
        fixedrange=True,
        **(log_ticks(span) if y_log else {"nticks": 7, "tickformat": ".3~g"}),
        **standoff(3),
    )
    inner = layout["height"] - 66 - foot
    layout["legend"].update({"x": 0, "xanchor": "left", "y": -44 / max(inner, 80), "yanchor": "top"})
    annotations: list[Json] = []
    shapes: list[Json] = []
    for level, text in levels:
        if y_log and level <= 0:
            continue
        shapes.append(_rule("y", level, colours))
        annotations.append(
            note(colours, text, yref="y", y=np.log10(level) if y_log else level, x=1, xanchor="right", yanchor="bottom")
        )
    if mark is not None and (mark[0] > 0 or not x_log):
        at = float(np.log10(mark[0])) if x_log else mark[0]
        middle = sum(layout["xaxis"]["range"]) / 2
        shapes.append(_rule("x", mark[0], colours))
        right = at < middle
        annotations.append(
            note(
                colours,
                mark[1],
                xref="x",
                x=at,
                y=1,
                yanchor="top",
                xanchor="left" if right else "right",
                xshift=4 if right else -4,
            )
        )
    if left_out:
        words = "1 value of 0 has" if left_out == 1 else f"{left_out} values of 0 have"
        annotations.append(
            note(colours, f"{words} no place on this axis", yanchor="bottom", yshift=4 - layout["margin"]["b"])
        )
    layout["annotations"], layout["shapes"] = annotations, shapes
    return finished(data, layout, description)


def _gap(upper: float | None, lower: float | None) -> float:
    return 0.0 if upper is None or lower is None else max(0.0, float(upper) - float(lower))


def _range(values: Sequence[float], logarithmic: bool, room: float) -> list[float]:
    places = [float(np.log10(value)) for value in values if value > 0] if logarithmic else [float(v) for v in values]
    if not places:
        return [0.0, 1.0]
    low, high = min(places), max(places)
    pad = room * (high - low) or (0.5 if logarithmic else 0.05 * abs(high) or 0.5)
    return [low - pad, high + pad]


def log_ticks(span: Sequence[float]) -> Json:
    """Return the ticks of a logarithmic axis from 10^span[0] to 10^span[1]: powers of ten, 2 and 5 where it is short.

    >>> log_ticks([-2.1, -0.9])["ticktext"]
    ['0.01', '0.02', '0.05', '0.1']
    """
    low, high = span
    first, last = int(np.floor(low)), int(np.ceil(high))
    factors = (1, 2, 5) if high - low < 2 else (1,)
    step = max(1, round((high - low) / 7))
    values = [
        factor * 10.0**power
        for power in range(first, last + 1)
        if power % step == 0
        for factor in factors
        if low <= power + np.log10(factor) <= high
    ]
    return {"tickvals": values, "ticktext": [number(value) for value in values]}


def _rule(along: Literal["x", "y"], at: float, colours: Palette) -> Json:
    across = "y" if along == "x" else "x"
    return {
        "type": "line",
        f"{along}ref": along,
        f"{across}ref": f"{across} domain",
        f"{along}0": at,
        f"{along}1": at,
        f"{across}0": 0,
        f"{across}1": 1,
        "layer": "below",
        "line": {"color": colours.muted, "width": 1.5, "dash": "dot"},
    }


def ends(line: Line) -> str:
    """Return where a line starts and ends, in words, for descriptions."""
    if not line.x:
        return f"{line.label}: nothing yet"
    return (
        f"{line.label} from {number(line.y[0])} at {number(line.x[0])} to {number(line.y[-1])} at {number(line.x[-1])}"
    )


def bar_chart(
    groups: Sequence[str],
    lines: Sequence[Line],
    *,
    title: str,
    subtitle: str,
    y_title: str,
    description: str,
    levels: Sequence[tuple[float, str]] = (),
    y_log: bool = False,
    theme: ThemeName = "light",
    width: int | None = None,
    height: int = 360,
) -> go.Figure:
    """Draw bars side by side in groups, with intervals.

    Args:
        groups: names under the bars, our own words. lines: one for each kind; `x` are indices of groups.
        the rest: as in `line_chart`.

    Raises:
        ValueError: no groups, or numbers that are not finite.
    """
    if not groups or not lines:
        raise ValueError("groups, lines: expected at least one of each")
    colours = palette(theme)
    each = 0.8 / len(lines)
    data: list[Json] = []
    top = [level for level, _ in levels]
    bottom = []
    for k, line in enumerate(lines):
        if not np.isfinite(line.y).all():
            raise ValueError(f"{line.label}: expected finite numbers")
        colour = tone_colour(colours, line.tone)
        y = [float(value) for value in line.y]
        above = [_gap(line.high[i], y[i]) if line.high is not None else 0.0 for i in range(len(y))]
        below = [_gap(y[i], line.low[i]) if line.low is not None else 0.0 for i in range(len(y))]
        if y_log:
            below = [min(gap, 0.99 * value) for gap, value in zip(below, y, strict=True)]
        top += [value + gap for value, gap in zip(y, above, strict=True)]
        bottom += [value - gap for value, gap in zip(y, below, strict=True) if value - gap > 0]
        pattern = {"attention": "/", "independent": "."}.get(line.tone, "")
        data.append(
            {
                "type": "bar",
                "name": line.label,
                "x": [float(at) - 0.4 + each * (k + 0.5) for at in line.x],
                "y": y,
                "width": 0.9 * each,
                "marker": {
                    "color": colours.source if line.tone == "coupling" else colours.card,
                    "line": {"width": 1, "color": colours.source if line.tone == "coupling" else colour},
                    **({"pattern": {"shape": pattern, "fgcolor": colour, "size": 6}} if pattern else {}),
                },
                "error_y": {
                    "type": "data",
                    "symmetric": False,
                    "array": above,
                    "arrayminus": below,
                    "color": colours.text,
                    "thickness": 1.5,
                    "width": 5,
                },
                "customdata": [line.hover[i] if line.hover else groups[int(at)] for i, at in enumerate(line.x)],
                "hovertemplate": f"%{{customdata}}<br>{y_title}: %{{y:.3~g}}<extra></extra>",
            }
        )
    foot = 96
    # A few groups alone would be walls instead of bars.
    aside = max(0.0, (3 - len(groups)) / 2)
    layout = sheet(
        colours,
        title=title,
        subtitle=subtitle,
        height=height,
        width=width,
        margin={"l": 60, "r": 20, "t": 66, "b": foot},
    )
    layout["xaxis"] = axis(
        colours,
        range=[-0.6 - aside, len(groups) - 0.4 + aside],
        tickvals=list(range(len(groups))),
        ticktext=[_wrapped(name) for name in groups],
        tickangle=0,
        tickfont={"size": SMALL_FONT_SIZE, "color": colours.text},
        fixedrange=True,
        **standoff(3),
    )
    span = _range([*top, *bottom], True, 0.08) if y_log else [0, 1.08 * max(top, default=1.0) or 1.0]
    layout["yaxis"] = axis(
        colours,
        type="log" if y_log else "linear",
        range=span,
        showgrid=True,
        gridcolor=colours.border,
        title={"text": y_title, "standoff": 4, "font": {"size": SMALL_FONT_SIZE, "color": colours.muted}},
        fixedrange=True,
        **(log_ticks(span) if y_log else {"nticks": 6, "tickformat": ".3~g"}),
        **standoff(3),
    )
    layout["barmode"] = "overlay"
    layout["legend"].update({"x": 0, "xanchor": "left", "y": -58 / (height - 66 - foot), "yanchor": "top"})
    layout["shapes"] = [_rule("y", level, colours) for level, _ in levels]
    layout["annotations"] = [
        note(
            colours,
            text,
            yref="y",
            y=float(np.log10(level)) if y_log else level,
            x=1,
            xanchor="right",
            yanchor="bottom",
            bgcolor=translucent(colours.card, 0.8),
        )
        for level, text in levels
    ]
    return finished(data, layout, description)


def _wrapped(name: str, limit: int = 16) -> str:
    rows = [""]
    for word in name.split(" "):
        if rows[-1] and len(rows[-1]) + len(word) >= limit:
            rows.append(word)
        else:
            rows[-1] = f"{rows[-1]} {word}".strip()
    return "<br>".join(rows)
