"""The steps from tokens to the plan as pictures: bars of atoms, moving clouds, and matrices that are not plans."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from types import SimpleNamespace
from typing import Any, Literal

import numpy as np
import plotly.graph_objects as go
from numpy.typing import NDArray

from sinkviz.figures.frame import Json, axis, finished, note, sheet, widest
from sinkviz.figures.labels import full, number, percent, plural, spoken, tick
from sinkviz.figures.matrix import standoff, thinned
from sinkviz.figures.palette import SMALL_FONT_SIZE, ThemeName, palette, translucent
from sinkviz.figures.point_clouds import _label_places
from sinkviz.projection import Projection

Side = Literal["source", "target"]
Numbers = NDArray[np.float64]


def atom_bars(
    values: Numbers,
    labels: Sequence[str],
    *,
    side: Side,
    title: str,
    subtitle: str,
    y_title: str,
    description: str,
    shares: bool = False,
    extent: tuple[float, float] | None = None,
    theme: ThemeName = "light",
    width: int | None = None,
    height: int = 250,
) -> go.Figure:
    """Draw one number for each atom of a text as bars.

    Args:
        values: shape (n,), finite. labels: the n tokens, shown as text. side: which text, for the colour.
        title, subtitle, y_title, description: our own words.
        shares: whether the values are shares, shown in per cent.
        extent: ends of the axis, to share with another panel; by default from the values.
        theme: "light" or "dark". width, height: pixels.

    Raises:
        ValueError: no atoms, or numbers that are not finite.
    """
    values = np.asarray(values, dtype=np.float64)
    if len(values) == 0 or len(values) != len(labels) or not np.isfinite(values).all():
        raise ValueError(f"values: expected one finite number for each of {len(labels)} atoms, got {values.shape}")
    colours = palette(theme)
    colour, text_colour = (
        (colours.source, colours.source_text) if side == "source" else (colours.target, colours.target_text)
    )
    shown = thinned(len(values))
    texts = [tick(labels[k], 14) for k in shown]
    foot = int(0.82 * widest(texts, 110)) + 32 + (16 if len(shown) < len(values) else 0)
    scale = 100.0 if shares else 1.0
    data: list[Json] = [
        {
            "type": "bar",
            "name": side,
            "x": np.arange(len(values)),
            "y": scale * values,
            "width": 0.7,
            "marker": {"color": translucent(colour, 0.85), "line": {"width": 0}},
            "customdata": [[full(label)] for label in labels],
            "hovertemplate": f"<b>%{{customdata[0]}}</b><br>{y_title}: %{{y:.3~g}}<extra></extra>",
            "showlegend": False,
        }
    ]
    layout = sheet(
        colours,
        title=title,
        subtitle=subtitle,
        height=height + foot - 60,
        width=width,
        margin={"l": 58, "r": 12, "t": 62, "b": foot},
    )
    low, high = extent if extent is not None else (min(0.0, float(values.min())), max(0.0, float(values.max())))
    room = 0.06 * (high - low) or 0.5
    layout["xaxis"] = axis(
        colours,
        range=[-0.6, len(values) - 0.4],
        tickvals=shown,
        ticktext=texts,
        tickangle=-55,
        tickfont={"size": SMALL_FONT_SIZE + 1, "color": text_colour},
        **standoff(3),
    )
    layout["yaxis"] = axis(
        colours,
        range=[scale * (low - (room if low < 0 else 0)), scale * (high + (room if high > 0 else 0))],
        nticks=5,
        tickformat=".3~g",
        showgrid=True,
        gridcolor=colours.border,
        zeroline=True,
        zerolinecolor=colours.muted,
        title={"text": y_title, "standoff": 4, "font": {"size": SMALL_FONT_SIZE, "color": colours.muted}},
        fixedrange=True,
        **standoff(3),
    )
    if len(shown) < len(values):
        layout["annotations"] = [
            note(
                colours,
                f"{len(shown)} of {len(values)} labels drawn, the rest on hover",
                yanchor="bottom",
                yshift=4 - foot,
            )
        ]
    return finished(data, layout, description)


def matrix_map(
    values: Numbers,
    rows: Sequence[str],
    columns: Sequence[str],
    *,
    title: str,
    subtitle: str,
    bar_title: str,
    description: str,
    diverging: bool = False,
    shares: bool = False,
    limits: tuple[float, float] | None = None,
    sides: tuple[Side, Side] = ("source", "target"),
    theme: ThemeName = "light",
    width: int | None = None,
    height: int | None = None,
) -> go.Figure:
    """Draw a matrix of numbers between atoms: a cost, an attention, a bare plan.

    Args:
        values: shape (n, m), finite. rows, columns: labels, shown as text; "" draws none.
        title, subtitle, bar_title, description: our own words.
        diverging: colours with 0 at the background, ends alike; else from the smallest value up.
        shares: whether the values are shares, named in per cent on the scale.
        limits: ends of the scale, to share with another panel.
        sides: whose atoms the rows and the columns are, for the colours of their labels.
        theme: "light" or "dark". width, height: pixels.

    Raises:
        ValueError: an empty matrix, numbers that are not finite, labels that do not fit.
    """
    values = np.asarray(values, dtype=np.float64)
    if values.size == 0 or values.shape != (len(rows), len(columns)) or not np.isfinite(values).all():
        raise ValueError(
            f"values: expected finite numbers of shape {(len(rows), len(columns))}, got shape {values.shape}"
        )
    colours = palette(theme)
    n, m = values.shape
    if limits is None:
        largest = float(np.abs(values).max()) or 1.0
        low, high = float(values.min()), float(values.max())
        limits = (-largest, largest) if diverging else (0.0 if shares else low, high if high > low else low + 1.0)
    low, high = limits
    named = [0.0 if low < 0 < high else (low + high) / 2]
    ends = [low, *named, high]
    shown_rows, shown_columns = thinned(n), thinned(m)
    row_text = [tick(rows[i]) if rows[i] else "" for i in shown_rows]
    column_text = [tick(columns[j]) if columns[j] else "" for j in shown_columns]
    left = widest(row_text, 132) + 18
    top = 0.82 * widest(column_text, 132) + 66
    bottom = 78
    if height is None:
        height = int(top + bottom + np.clip(22 * n, 150, 460))
    inner = max(height - top - bottom, 60.0)
    gap = 1 if max(n, m) <= 40 else 0
    data: list[Json] = [
        {
            "type": "heatmap",
            "name": "values",
            "z": values.astype(np.float32),
            "coloraxis": "coloraxis",
            "xgap": gap,
            "ygap": gap,
            "hovertemplate": f"<b>%{{y}}</b> · <b>%{{x}}</b><br>{bar_title}: %{{z:.3~g}}<extra></extra>",
        }
    ]
    layout = sheet(
        colours,
        title=title,
        subtitle=subtitle,
        height=height,
        width=width,
        margin={"l": int(left), "r": 14, "t": int(top), "b": bottom},
    )
    label_colour = {"source": colours.source_text, "target": colours.target_text}
    layout["xaxis"] = axis(
        colours,
        range=[-0.5, m - 0.5],
        tickvals=np.arange(m),
        showticklabels=False,
        anchor="y",
        ticktext=[full(label) if label else str(j + 1) for j, label in enumerate(columns)],
    )
    layout["yaxis"] = axis(
        colours,
        range=[n - 0.5, -0.5],
        tickvals=np.arange(n),
        showticklabels=False,
        anchor="x",
        ticktext=[full(label) if label else str(i + 1) for i, label in enumerate(rows)],
    )
    # The cells' own axes name every row and column on hover; these show the labels there is room for.
    layout["xaxis2"] = axis(
        colours,
        matches="x",
        overlaying="x",
        side="top",
        anchor="y",
        tickvals=shown_columns,
        ticktext=column_text,
        tickangle=-55,
        tickfont={"size": SMALL_FONT_SIZE + 1, "color": label_colour[sides[1]]},
        **standoff(3),
    )
    layout["yaxis2"] = axis(
        colours,
        matches="y",
        overlaying="y",
        side="left",
        anchor="x",
        tickvals=shown_rows,
        ticktext=row_text,
        tickfont={"size": SMALL_FONT_SIZE + 1, "color": label_colour[sides[0]]},
        **standoff(5),
    )
    # An axis is drawn only where a trace uses it.
    data.append(
        {
            "type": "scatter",
            "mode": "markers",
            "x": [0],
            "y": [0],
            "xaxis": "x2",
            "yaxis": "y2",
            "marker": {"opacity": 0, "color": colours.muted},
            "hoverinfo": "skip",
            "showlegend": False,
        }
    )
    layout["coloraxis"] = {
        "cmin": low,
        "cmax": high,
        "colorscale": [list(stop) for stop in (colours.diverging if diverging else colours.sequential)],
        "colorbar": {
            "orientation": "h",
            "thickness": 8,
            "len": 1,
            "x": 0,
            "xanchor": "left",
            "xpad": 0,
            "y": -52 / inner,
            "yanchor": "bottom",
            "ypad": 0,
            "ticks": "",
            "tickangle": 0,
            "outlinewidth": 1,
            "outlinecolor": colours.border,
            "tickfont": {"size": SMALL_FONT_SIZE, "color": colours.muted},
            "tickvals": ends,
            "ticktext": [percent(end) if shares else number(end) for end in ends],
            "ticklabeloverflow": "allow",
            "title": {
                "text": bar_title,
                "side": "top",
                "font": {"size": SMALL_FONT_SIZE, "color": colours.muted},
            },
        },
    }
    thin = len(shown_rows) < n or len(shown_columns) < m
    if thin:
        layout["annotations"] = [
            note(
                colours,
                f"{len(shown_rows)} of {n} row and {len(shown_columns)} of {m} column labels drawn, the rest on hover",
                yanchor="bottom",
                yshift=4 - bottom,
            )
        ]
    return finished(data, layout, description)


@dataclass(frozen=True, eq=False)
class MovingCloud:
    """A cloud at every stage, in one fixed projection.

    Attributes:
        side: which text. labels: its n tokens. weights: shape (n,). stages: shape (S, n, 2).
    """

    side: Side
    labels: Sequence[str]
    weights: Numbers
    stages: Numbers


def moving_clouds(
    clouds: Sequence[MovingCloud],
    *,
    at: int,
    names: Sequence[str],
    title: str,
    kept: float,
    theme: ThemeName = "light",
    width: int | None = None,
    height: int = 440,
) -> go.Figure:
    """Draw clouds at one of their stages, with the way of every atom up to there as a thin line.

    The axes are the same at every stage, so that what moves on the sheet has moved. Plotly carries the marks from one
    stage to the next where it redraws the same chart.

    Args:
        clouds: one or two, with equally many stages. at: the stage drawn, from 0. names: of all stages, our own words.
        title: our own words. kept: share of the variance that the projection keeps, over all stages.
        theme: "light" or "dark". width, height: pixels.

    Raises:
        ValueError: no cloud, stages that do not fit each other, or a stage that does not exist.
    """
    count = len(names)
    if not clouds or any(len(cloud.stages) != count for cloud in clouds):
        raise ValueError(f"clouds: expected at least one, each with {count} stages")
    if not 0 <= at < count:
        raise ValueError(f"at: expected a stage from 0 to {count - 1}, got {at}")
    colours = palette(theme)
    data: list[Json] = []
    every = np.concatenate([cloud.stages.reshape(-1, 2) for cloud in clouds])
    atoms = sum(len(cloud.labels) for cloud in clouds)
    largest = 22.0 * min(1.0, max(0.5, (40 / atoms) ** 0.5))
    heaviest = max(float(cloud.weights.max()) for cloud in clouds)
    sizes = [np.maximum(2.0, largest * np.sqrt(cloud.weights / heaviest)) * 0.7 for cloud in clouds]
    present = np.concatenate([cloud.stages[at] for cloud in clouds])
    labels = [label for cloud in clouds for label in cloud.labels]
    places, drawn = _places(labels, present, np.concatenate(sizes), ((width or 620) - 32.0, height - 150.0))
    start = 0
    for cloud, size in zip(clouds, sizes, strict=True):
        colour = colours.source if cloud.side == "source" else colours.target
        if at > 0:
            x: list[float | None] = []
            y: list[float | None] = []
            for atom in range(len(cloud.labels)):
                x += [*cloud.stages[: at + 1, atom, 0].tolist(), None]
                y += [*cloud.stages[: at + 1, atom, 1].tolist(), None]
            data.append(
                {
                    "type": "scatter",
                    "mode": "lines",
                    "name": f"{cloud.side}: the way so far",
                    "x": x,
                    "y": y,
                    "line": {"color": translucent(colour, 0.55), "width": 1.5},
                    "hoverinfo": "skip",
                }
            )
        spots = places[start : start + len(cloud.labels)]
        start += len(cloud.labels)
        data.append(
            {
                "type": "scatter",
                "mode": "markers+text",
                "name": cloud.side,
                "x": cloud.stages[at, :, 0],
                "y": cloud.stages[at, :, 1],
                "ids": [str(k) for k in range(len(cloud.labels))],
                "text": [tick(label) if spot else "" for label, spot in zip(cloud.labels, spots, strict=True)],
                "textposition": [spot or "middle right" for spot in spots],
                "textfont": {
                    "size": SMALL_FONT_SIZE + 1,
                    "color": colours.source_text if cloud.side == "source" else colours.target_text,
                },
                "cliponaxis": False,
                "marker": {
                    "symbol": "circle" if cloud.side == "source" else "square",
                    "size": size.tolist(),
                    "color": colour,
                    "line": {"width": 0},
                    "opacity": 1,
                },
                "customdata": [
                    [full(label), 100 * float(w)] for label, w in zip(cloud.labels, cloud.weights, strict=True)
                ],
                "hovertemplate": "<b>%{customdata[0]}</b><br>weight %{customdata[1]:.3~g} %<extra></extra>",
            }
        )
    layout = sheet(
        colours,
        title=title,
        subtitle=f"{names[at]} · one fixed plane, {percent(kept)} of the variance",
        height=height,
        width=width,
        margin={"l": 12, "r": 12, "t": 60, "b": 62},
    )
    for letter, values, room in (("x", every[:, 0], 0.08), ("y", every[:, 1], 0.08)):
        low, high = float(values.min()), float(values.max())
        pad = room * (high - low) or 0.5
        layout[f"{letter}axis"] = axis(
            colours,
            range=[low - pad, high + pad],
            showticklabels=False,
            showgrid=True,
            gridcolor=colours.border,
            nticks=6,
        )
    layout["yaxis"] |= {"scaleanchor": "x", "scaleratio": 1}
    layout["legend"].update({"x": 0, "xanchor": "left", "y": -0.02, "yanchor": "top"})
    layout["transition"] = {"duration": 500, "easing": "cubic-in-out"}
    if drawn < atoms:
        layout["annotations"] = [
            note(
                colours,
                f"{drawn} of {atoms} labels drawn, the rest on hover",
                yanchor="bottom",
                yshift=-58,
            )
        ]
    moved = ""
    if at > 0:
        shift = [float(np.linalg.norm(one.stages[at] - one.stages[at - 1], axis=1).mean()) for one in clouds]
        moved = f" Since the stage before, atoms moved {number(float(np.mean(shift)))} on average in this plane."
    counts = " and ".join(plural(len(cloud.labels), f"{cloud.side} atom") for cloud in clouds)
    return finished(data, layout, f"{counts} at stage {at + 1} of {count}, {names[at]}.{moved}")


def _places(
    labels: Sequence[str], at: Numbers, diameters: Numbers, frame: tuple[float, float]
) -> tuple[list[str | None], int]:
    """Return where labels stand, by the placement of the clouds of a coupling; no pair comes first here."""
    nothing = np.zeros((0, 2))
    coupling: Any = SimpleNamespace(
        shape=(len(labels), 0), source=SimpleNamespace(labels=list(labels)), target=SimpleNamespace(labels=[])
    )
    pairs: Any = SimpleNamespace(source=np.zeros(0, dtype=np.int64), target=np.zeros(0, dtype=np.int64))
    projection = Projection(at, nothing, np.zeros(2), np.eye(2), np.zeros(2))
    return _label_places(coupling, projection, pairs, diameters, frame)


_CLASSES = ((0.5, 3.2, 0.75), (0.2, 1.8, 0.5), (0.05, 0.9, 0.35))


def plane_coupling(
    x: Numbers,
    y: Numbers,
    plan: Numbers,
    *,
    title: str,
    subtitle: str,
    description: str,
    extent: float | None = None,
    theme: ThemeName = "light",
    width: int | None = None,
    height: int = 320,
) -> go.Figure:
    """Draw two clouds in the plane and a coupling of them: lines, three classes of mass.

    Args:
        x, y: points, shapes (n, 2) and (m, 2). plan: shape (n, m); marks are as large as its row and column sums.
        title, subtitle, description: our own words; without a title there is no heading.
        extent: half the width of the square that is drawn, to share with other panels.
        theme: "light" or "dark". width, height: pixels.

    Raises:
        ValueError: shapes that do not fit.
    """
    if x.ndim != 2 or y.ndim != 2 or x.shape[1] != 2 or y.shape[1] != 2 or plan.shape != (len(x), len(y)):
        raise ValueError(
            f"plane: expected points (n, 2) and (m, 2) with a plan (n, m), got {x.shape}, {y.shape} and {plan.shape}"
        )
    colours = palette(theme)
    largest = float(plan.max()) or 1.0
    data: list[Json] = []
    above = np.inf
    shown = 0.0
    for floor, wide, opacity in _CLASSES:
        inside = (plan >= floor * largest) & (plan < above * largest) & (plan > 0)
        below = above
        above = floor
        rows, columns = np.nonzero(inside)
        shown += float(plan[inside].sum())
        if len(rows) == 0:
            continue
        along: list[float | None] = []
        up: list[float | None] = []
        for i, j in zip(rows.tolist(), columns.tolist(), strict=True):
            along += [float(x[i, 0]), float(y[j, 0]), None]
            up += [float(x[i, 1]), float(y[j, 1]), None]
        name = f"mass ≥ {percent(floor * largest)}" if np.isinf(below) else f"≥ {percent(floor * largest)}"
        data.append(
            {
                "type": "scatter",
                "mode": "lines",
                "name": name,
                "x": along,
                "y": up,
                "line": {"color": translucent(colours.source, opacity), "width": wide},
                "hoverinfo": "skip",
            }
        )
    for side, points, mass in (("source", x, plan.sum(1)), ("target", y, plan.sum(0))):
        heaviest = max(float(plan.sum(1).max()), float(plan.sum(0).max())) or 1.0
        data.append(
            {
                "type": "scatter",
                "mode": "markers",
                "name": side,
                "x": points[:, 0],
                "y": points[:, 1],
                "marker": {
                    "symbol": "circle" if side == "source" else "square",
                    "size": np.maximum(3.0, 13 * np.sqrt(mass / heaviest)).tolist(),
                    "color": colours.source if side == "source" else colours.target,
                    "line": {"width": 1, "color": colours.card},
                },
                "customdata": 100 * mass,
                "hovertemplate": f"{side}, mass %{{customdata:.3~g}} %<extra></extra>",
            }
        )
    foot = 66
    layout = sheet(
        colours,
        title=title,
        subtitle=subtitle,
        height=height,
        width=width,
        margin={"l": 10, "r": 10, "t": 60 if title else 10, "b": foot},
    )
    if not title:
        del layout["title"]
    half = extent or 1.08 * float(np.abs(np.concatenate([x, y])).max()) or 1.0
    for letter in "xy":
        layout[f"{letter}axis"] = axis(
            colours,
            range=[-half, half],
            constrain="domain",
            showticklabels=False,
            showgrid=True,
            gridcolor=colours.border,
            nticks=5,
            fixedrange=True,
        )
    layout["yaxis"] |= {"scaleanchor": "x", "scaleratio": 1}
    layout["legend"].update({"x": 0, "xanchor": "left", "y": -0.02, "yanchor": "top"})
    total = float(plan.sum()) or 1.0
    layout["annotations"] = [
        note(
            colours,
            f"lines drawn: {percent(shown / total)} of the mass",
            yanchor="bottom",
            yshift=2 - foot,
        )
    ]
    return finished(data, layout, description)


def largest_cell(values: Numbers, rows: Sequence[str], columns: Sequence[str], *, smallest: bool = False) -> str:
    """Return which pair has the largest (or smallest) number, for a description."""
    flat = values.argmin() if smallest else values.argmax()
    i, j = divmod(int(flat), values.shape[1])
    return f"{spoken(list(rows), i)} with {spoken(list(columns), j)}, {number(float(values[i, j]))}"
