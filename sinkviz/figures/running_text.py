"""Transport lines: the two texts as running text, a curve for each strong pair, the mass received under the words."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass

import numpy as np
import plotly.graph_objects as go

from sinkviz.coupling import Coupling
from sinkviz.figures import descriptions
from sinkviz.figures.frame import NULL_SIGN, Json, axis, finished, missing, name, note, sheet, subtitle
from sinkviz.figures.labels import direction, elide, full, percent, text_width, tick, visible
from sinkviz.figures.pairs import DEFAULT_LIMIT, DEFAULT_SHARE, PAIR_HOVER, Pairs, strongest_pairs
from sinkviz.figures.palette import FONT_SIZE, SMALL_FONT_SIZE, Palette, ThemeName, palette, translucent
from sinkviz.figures.scale import Scale, shared_scale
from sinkviz.measure import Measure

WIDEST_LINE = 8.0
"""Width in pixels of a line that carries `Scale.mass` between two short texts; the thinnest is 0.5."""
_MARGIN = 16
_LINE_HEIGHT = 22
_SPACE = 0.62 * FONT_SIZE
_DEPTH = 120


@dataclass(frozen=True)
class Slot:
    """Where a word stands: its centre, width and line."""

    centre: float
    width: float
    line: int


def wrap(measure: Measure, width: float) -> tuple[list[Slot], int]:
    """Set the atoms as running text into lines of `width` pixels; return a slot for each and the number of lines.

    Atoms that touch in the text (sub-words, a comma after a word, scripts without blanks) stay close together. The
    spaces shrink where that saves a line. The lines start at the right if the text's first letter is of a script
    that runs from right to left. A single line is centred.
    """
    widths = [min(width, max(6.0, text_width(elide(visible(label))) * FONT_SIZE)) for label in measure.labels]
    touching = [start <= end for (start, _), (_, end) in zip(measure.spans[1:], measure.spans, strict=False)]
    settings = [_set(widths, touching, width, space) for space in (_SPACE, 0.85 * _SPACE, 0.7 * _SPACE)]
    fewest = min(setting[-1].line for setting in settings)
    slots = next(setting for setting in settings if setting[-1].line == fewest)
    leftover = (width - slots[-1].centre - slots[-1].width / 2) / 2 if fewest == 0 else 0.0
    backwards = direction(measure.text) == "rtl"
    return [
        Slot(_MARGIN + (width - slot.centre - leftover if backwards else slot.centre + leftover), slot.width, slot.line)
        for slot in slots
    ], fewest + 1


def _set(widths: list[float], touching: list[bool], width: float, space: float) -> list[Slot]:
    slots: list[Slot] = []
    at, line = 0.0, 0
    for k, size in enumerate(widths):
        gap = 0.0 if at == 0.0 else 2.0 if touching[k - 1] else space
        if at > 0.0 and at + gap + size > width:
            at, gap, line = 0.0, 0.0, line + 1
        slots.append(Slot(at + gap + size / 2, size, line))
        at += gap + size
    return slots


def lines(
    coupling: Coupling,
    *,
    share: float = DEFAULT_SHARE,
    limit: int = DEFAULT_LIMIT,
    scale: Scale | None = None,
    theme: ThemeName = "light",
    width: int = 600,
    pinned_source: Collection[int] = (),
    pinned_target: Collection[int] = (),
) -> go.Figure:
    """Draw the strongest pairs as curves between the two texts, and the mass received under each target word.

    Thickness and opacity are in proportion to the mass P_ij. The bars under the target's words are the mass each
    receives, Σ_i P_ij, with a mark at its weight b_j. The foot says how many of all pairs are drawn and what share
    of the mass they carry. Mass without a partner goes to an entry of its own, by dotted lines.

    Args:
        coupling: what is drawn.
        share: the strongest pairs are drawn until they carry this share of the mass, in [0, 1].
        limit: most lines that are drawn; the foot says so when it cuts some off.
        scale: the scale to share with other panels; the coupling's own by default.
        theme: "light" or "dark".
        width: pixels; the words are set for this width, so show the figure at least that wide.
        pinned_source, pinned_target: positions of words whose lines are coloured, in this order.

    Raises:
        ValueError: share or limit out of range, a width under 200, a pinned position that does not exist.
    """
    colours = palette(theme)
    if width < 200:
        raise ValueError(f"width: expected at least 200 pixels, got {width!r}")
    for side, pinned, size in (
        ("source", pinned_source, coupling.shape[0]),
        ("target", pinned_target, coupling.shape[1]),
    ):
        for k in pinned:
            if not 0 <= k < size:
                raise ValueError(f"pinned_{side}: expected positions from 0 to {size - 1}, got {k}")
    scale = scale or shared_scale(coupling)
    pairs = strongest_pairs(coupling, share, limit)
    partial = coupling.mechanism == "partial"
    # Mass without partner has a column of its own at the right of the text.
    aside = 2 * FONT_SIZE if partial else 0.0
    inner = width - 2 * _MARGIN - aside
    top, top_lines = wrap(coupling.source, inner)
    below, below_lines = wrap(coupling.target, inner)
    if partial:
        null = Slot(width - _MARGIN - aside / 2, aside, 0)
        top, below = [*top, null], [*below, null]
    bar = 40 if below_lines <= 2 else 26 if below_lines <= 6 else 16
    pitch = _LINE_HEIGHT + bar + 8
    text_top = 14.0
    start = text_top + top_lines * _LINE_HEIGHT
    goal = start + _DEPTH
    height = goal + below_lines * pitch + 4

    source_y = [text_top + slot.line * _LINE_HEIGHT for slot in top]
    target_y = [goal + slot.line * pitch + 10 for slot in below]
    tints = _tints(colours, pinned_source, pinned_target)
    shapes, middles = _curves(pairs, scale, coupling.shape, colours, tints, (top, source_y), (below, target_y))
    data = [
        _handles(coupling, pairs, middles),
        *_received(coupling, scale, colours, below, target_y, bar),
        _words(coupling.source, top, source_y, colours, "source", tints, coupling.given),
        _words(coupling.target, below, target_y, colours, "target", tints, coupling.received),
    ]
    if partial:
        data.append(_null(coupling, colours, (top[-1], source_y[-1]), (below[-1], target_y[-1])))
        data.append(_null_key(colours))
    sentences = [pairs.sentence, missing(coupling)]
    together = " · ".join(sentences)
    lines_below = 1 if text_width(together) * SMALL_FONT_SIZE < inner else 2
    foot = 48 + 14 * lines_below
    layout = sheet(
        colours,
        title=name(coupling),
        subtitle=subtitle(coupling),
        height=int(height + 60 + foot),
        width=width,
        margin={"l": 0, "r": 0, "t": 60, "b": foot},
    )
    layout["xaxis"] = axis(colours, range=[0, width], visible=False, fixedrange=True)
    layout["yaxis"] = axis(colours, range=[height, 0], visible=False, fixedrange=True)
    layout["shapes"] = [*shapes, _key(scale, coupling.shape, colours, width)]
    layout["barmode"] = "overlay"
    layout["dragmode"] = False
    layout["legend"].update({"x": _MARGIN / width, "xanchor": "left", "y": 0, "yanchor": "top"})
    layout["annotations"] = [
        note(
            colours,
            together if lines_below == 1 else "<br>".join(sentences),
            x=_MARGIN / width,
            yshift=-foot + 8,
            yanchor="bottom",
        ),
        note(
            colours,
            f"widest line: {percent(scale.mass)} of the mass",
            x=(width - _MARGIN - 34) / width,
            xanchor="right",
            align="right",
            yshift=-10,
        ),
    ]
    return finished(data, layout, descriptions.lines(coupling, pairs))


def _tints(
    colours: Palette, pinned_source: Collection[int], pinned_target: Collection[int]
) -> dict[tuple[str, int], str]:
    wanted = [("source", k) for k in pinned_source] + [("target", k) for k in pinned_target]
    return {place: colours.pins[k % len(colours.pins)] for k, place in enumerate(wanted)}


def thickness(mass: float, scale: Scale, shape: tuple[int, int]) -> tuple[float, float]:
    """Return the width in pixels and the opacity of a line between texts of `shape` atoms.

    Both grow in proportion to the mass up to `scale.mass`; long texts get finer lines, or they would hide the words.
    """
    part = min(1.0, mass / scale.mass)
    finer = min(1.0, (32 / max(shape)) ** 0.5)
    return max(0.5, WIDEST_LINE * finer * part), (0.25 + 0.55 * part) * finer**0.5


def _curves(
    pairs: Pairs,
    scale: Scale,
    shape: tuple[int, int],
    colours: Palette,
    tints: dict[tuple[str, int], str],
    top: tuple[list[Slot], list[float]],
    below: tuple[list[Slot], list[float]],
) -> tuple[list[Json], list[tuple[float, float]]]:
    shapes: list[Json] = []
    middles: list[tuple[float, float]] = []
    # Weak lines first, so that the strong ones lie on top.
    for i, j, mass in zip(pairs.source.tolist(), pairs.target.tolist(), pairs.mass.tolist(), strict=True):
        x0, y0 = top[0][i].centre, top[1][i] + 9
        x1, y1 = below[0][j].centre, below[1][j] - 10
        bend = 0.5 * (y1 - y0)
        tint = tints.get(("source", i)) or tints.get(("target", j))
        wide, opacity = thickness(mass, scale, shape)
        shapes.append(
            {
                "type": "path",
                "layer": "below",
                "path": f"M {x0:.1f},{y0:.1f} C {x0:.1f},{y0 + bend:.1f} {x1:.1f},{y1 - bend:.1f} {x1:.1f},{y1:.1f}",
                "line": {
                    "color": translucent(tint or colours.source, opacity if tint is None else 0.9),
                    "width": round(wide, 2),
                    "dash": "dot" if min(i, j) < 0 else "solid",
                },
            }
        )
        middles.append(((x0 + x1) / 2, (y0 + y1) / 2))
    return shapes[::-1], middles


def _handles(coupling: Coupling, pairs: Pairs, middles: list[tuple[float, float]]) -> Json:
    """Return invisible marks in the middle of the curves that carry what is said on hover."""
    return {
        "type": "scatter",
        "mode": "markers",
        "name": "pairs",
        "x": [x for x, _ in middles],
        "y": [y for _, y in middles],
        "marker": {"size": 14, "opacity": 0},
        "customdata": pairs.facts(coupling),
        "hovertemplate": PAIR_HOVER,
        "showlegend": False,
    }


def _words(
    measure: Measure,
    slots: list[Slot],
    heights: list[float],
    colours: Palette,
    side: str,
    tints: dict[tuple[str, int], str],
    mass: np.ndarray[tuple[int], np.dtype[np.float64]],
) -> Json:
    colour = colours.source_text if side == "source" else colours.target_text
    verb = "gives" if side == "source" else "receives"
    texts = [f"<b>{tick(label)}</b>" if (side, k) in tints else tick(label) for k, label in enumerate(measure.labels)]
    halo = ", ".join([f"0 0 2px {colours.card}"] * 3)
    return {
        "type": "scatter",
        "mode": "text",
        "name": side,
        "x": [slot.centre for slot in slots[: len(texts)]],
        "y": heights[: len(texts)],
        "text": texts,
        "textposition": "middle center",
        "textfont": {
            "size": FONT_SIZE,
            "color": [tints.get((side, k), colour) for k in range(len(texts))] if tints else colour,
            "shadow": halo,
        },
        "customdata": [
            [full(label), 100 * float(mass[k]), 100 * float(measure.weights[k])]
            for k, label in enumerate(measure.labels)
        ],
        "hovertemplate": f"<b>%{{customdata[0]}}</b><br>{verb} %{{customdata[1]:.3~g}} %, "
        "weight %{customdata[2]:.3~g} %<extra></extra>",
        "cliponaxis": False,
        "showlegend": False,
    }


def _received(
    coupling: Coupling, scale: Scale, colours: Palette, slots: list[Slot], heights: list[float], bar: float
) -> list[Json]:
    received, weights, labels = coupling.received, coupling.target.weights, coupling.target.labels
    places = slots[: len(labels)]
    roof = [y + 11 for y in heights[: len(labels)]]
    along: list[float | None] = []
    at: list[float | None] = []
    for slot, y, weight in zip(places, roof, weights.tolist(), strict=True):
        along += (slot.centre - slot.width / 2 - 1, slot.centre + slot.width / 2 + 1, None)
        level = y + bar * weight / scale.received
        at += (level, level, None)
    return [
        {
            "type": "bar",
            "name": "received",
            "x": [slot.centre for slot in places],
            "y": [bar * value / scale.received for value in received.tolist()],
            "base": roof,
            "width": [min(26.0, max(6.0, slot.width - 4)) for slot in places],
            "marker": {"color": translucent(colours.target, 0.8), "line": {"width": 0}},
            "customdata": [
                [full(label), 100 * float(received[j]), 100 * float(weights[j])] for j, label in enumerate(labels)
            ],
            "hovertemplate": "<b>%{customdata[0]}</b><br>receives %{customdata[1]:.3~g} %, "
            "weight %{customdata[2]:.3~g} %<extra></extra>",
        },
        {
            "type": "scatter",
            "mode": "lines",
            "name": "its weight",
            "x": along,
            "y": at,
            "line": {"color": colours.text, "width": 1.2, "dash": "dot"},
            "hoverinfo": "skip",
        },
    ]


def _null(coupling: Coupling, colours: Palette, top: tuple[Slot, float], below: tuple[Slot, float]) -> Json:
    shares = [100 * float(coupling.null_target.sum()), 100 * float(coupling.null_source.sum())]
    return {
        "type": "scatter",
        "mode": "text",
        "name": "no partner",
        "x": [top[0].centre, below[0].centre],
        "y": [top[1], below[1]],
        "text": [NULL_SIGN, NULL_SIGN],
        "textfont": {"size": FONT_SIZE, "color": colours.muted},
        "customdata": [["target", shares[0]], ["source", shares[1]]],
        "hovertemplate": "%{customdata[1]:.3~g} % of the %{customdata[0]} has no partner<extra></extra>",
        "showlegend": False,
    }


def _null_key(colours: Palette) -> Json:
    """Return the legend's entry for dotted lines; it draws nothing in the picture."""
    return {
        "type": "scatter",
        "mode": "lines",
        "name": f"{NULL_SIGN} no partner",
        "x": [None],
        "y": [None],
        "line": {"color": colours.source, "width": 3, "dash": "dot"},
        "hoverinfo": "skip",
    }


def _key(scale: Scale, shape: tuple[int, int], colours: Palette, width: int) -> Json:
    """Return the sample of the widest line at the foot."""
    wide, opacity = thickness(scale.mass, scale, shape)
    return {
        "type": "line",
        "xref": "paper",
        "yref": "paper",
        "xsizemode": "pixel",
        "ysizemode": "pixel",
        "xanchor": (width - _MARGIN) / width,
        "yanchor": 0,
        "x0": -28,
        "x1": 0,
        "y0": -18,
        "y1": -18,
        "line": {"color": translucent(colours.source, opacity), "width": wide},
    }
