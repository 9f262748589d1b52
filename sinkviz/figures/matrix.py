"""The plan as a matrix: mass, lift or difference as colour, both marginals at the edges."""

from __future__ import annotations

from typing import Literal

import numpy as np
import plotly.graph_objects as go
from numpy.typing import NDArray

from sinkviz.coupling import Coupling
from sinkviz.figures import descriptions
from sinkviz.figures.frame import (
    NULL_LABEL,
    Json,
    axis,
    finished,
    missing,
    name,
    note,
    noun,
    regularisation,
    sheet,
    subtitle,
    widest,
)
from sinkviz.figures.labels import factor, full, percent, tick
from sinkviz.figures.palette import SMALL_FONT_SIZE, Palette, ThemeName, palette, translucent
from sinkviz.figures.scale import Scale, shared_scale

Colour = Literal["mass", "lift"]
Matrix = NDArray[np.float64]

MOST_LABELS = 40
NO_MASS_SHARE = 0.14
"""Half the height of the "no mass" block under the lift scale, as a share of that scale."""
_GAP = 0.3


def thinned(size: int, most: int = MOST_LABELS) -> NDArray[np.int64]:
    """Return the positions that keep a tick label: every k-th, with the smallest k that leaves at most `most`."""
    return np.arange(0, size, -(-size // most))


def lift_values(log_lift: Matrix, scale: Scale) -> Matrix:
    """Return log-lift as it is coloured: clipped to the scale, and −∞ at the middle of the "no mass" block.

    Every value is finite; `lift_colours` puts the block under the lower end of the scale.
    """
    block = -scale.lift_below - NO_MASS_SHARE * (scale.lift + scale.lift_below)
    return np.where(np.isneginf(log_lift), block, np.clip(log_lift, -scale.lift_below, scale.lift))


def lift_colours(colours: Palette, scale: Scale) -> tuple[float, float, list[tuple[float, str]]]:
    """Return the ends of the lift scale and its colour map: a lilac block for no mass, then brown to teal.

    Log-lift 0 is the middle of the diverging map, the background of the page; each arm has its own length.
    """
    bottom = -scale.lift_below - 2 * NO_MASS_SHARE * (scale.lift + scale.lift_below)
    span = scale.lift - bottom
    start = (-scale.lift_below - bottom) / span

    def place(at: float) -> float:
        value = (2 * at - 1) * (scale.lift_below if at < 0.5 else scale.lift)
        return min(1.0, max(start, (value - bottom) / span))

    # The block ends just below the scale: cells at the scale's lower end must not be taken for empty ones.
    block = [(0.0, colours.no_mass), (0.98 * start, colours.no_mass)]
    return bottom, scale.lift, block + [(place(at), colour) for at, colour in colours.diverging]


def heatmap(
    coupling: Coupling,
    *,
    colour: Colour = "mass",
    scale: Scale | None = None,
    theme: ThemeName = "light",
    width: int | None = None,
    height: int | None = None,
) -> go.Figure:
    """Draw the plan P as a matrix, source atoms as rows, target atoms as columns.

    The bars at the right are the mass each row gives, those below the mass each column receives, both with a mark
    at the atom's weight. "partial" adds a row and a column for the mass without partner.

    Args:
        coupling: what is drawn; shape (n, m).
        colour: "mass" for P_ij as a share of the whole, or "lift" for log P_ij/(a_i b_j) in nat. Lift 0, the
            background of the page, is independence; cells without mass (−∞) have a colour of their own, lilac. The
            lift of a null cell is the atom's share of all mass without partner over its weight.
        scale: the scale to share with other panels; the coupling's own by default.
        theme: "light" or "dark".
        width, height: pixels; by default the width follows the page and the height the number of rows.

    Raises:
        ValueError: an unknown colour or theme.

    Example:
        >>> import numpy as np, sinkviz
        >>> pair = [sinkviz.Measure.from_points(np.eye(2), labels=[a, b]) for a, b in (("a", "b"), ("c", "d"))]
        >>> plan = np.array([[0.4, 0.1], [0.1, 0.4]])
        >>> coupling = sinkviz.Coupling(plan, *pair, cost=-plan, cost_scale=1.0, epsilon=0.1, f=None, g=None,
        ...     mechanism="sinkhorn", status="converged", residual=0.0, iterations=1)
        >>> float(heatmap(coupling).data[0].z.sum())
        1.0
    """
    if colour not in ("mass", "lift"):
        raise ValueError(f'colour: expected "mass" or "lift", got {colour!r}')
    colours = palette(theme)
    scale = scale or shared_scale(coupling)
    if colour == "mass":
        values, null_rows, null_columns = coupling.plan, coupling.null_source, coupling.null_target
        bar = {
            "cmin": 0,
            "cmax": scale.mass,
            "colorscale": [list(stop) for stop in colours.sequential],
            "colorbar": {
                "title": {"text": "mass, % of the whole"},
                "tickvals": [0, scale.mass / 2, scale.mass],
                "ticktext": [percent(0), percent(scale.mass / 2), percent(scale.mass)],
            },
        }
    else:
        values = lift_values(coupling.log_lift, scale)
        null_rows = lift_values(_null_lift(coupling.null_source, coupling.source.weights), scale)
        null_columns = lift_values(_null_lift(coupling.null_target, coupling.target.weights), scale)
        low, high, stops = lift_colours(colours, scale)
        bar = {
            "cmin": low,
            "cmax": high,
            "colorscale": [list(stop) for stop in stops],
            "colorbar": {
                "title": {"text": "lift P/(a b), log scale"},
                "tickvals": [(low - scale.lift_below) / 2, -scale.lift_below, 0, scale.lift],
                "ticktext": [
                    "no mass",
                    f"≤ {factor(float(np.exp(-scale.lift_below)))}",
                    "1×",
                    factor(float(np.exp(scale.lift))),
                ],
            },
        }
    return _matrix(
        coupling,
        values=values,
        nulls=(null_rows, null_columns),
        coloraxis=bar,
        scale=scale,
        colours=colours,
        title=name(coupling),
        line=subtitle(coupling),
        hover=_hover(coupling),
        layers=_facts(coupling),
        width=width,
        height=height,
        description=descriptions.heatmap(coupling, colour),
    )


def difference_heatmap(
    coupling: Coupling,
    attention: Coupling,
    *,
    scale: float | None = None,
    theme: ThemeName = "light",
    width: int | None = None,
    height: int | None = None,
) -> go.Figure:
    """Draw coupling − attention: where the coupling puts more mass (teal) and where attention does (brown).

    The bars at the edges are those of the coupling; the marks below are what attention's columns receive.

    Args:
        coupling, attention: two plans between the same atoms.
        scale: |difference| at either end of the colour map, as a share of the whole; by default the largest.
        theme, width, height: as for `heatmap`.

    Raises:
        ValueError: plans of different shape, an unknown theme, a scale that is not positive.
    """
    if coupling.shape != attention.shape:
        raise ValueError(
            f"difference: expected two plans between the same atoms, got shapes {coupling.shape} and {attention.shape}"
        )
    colours = palette(theme)
    values = coupling.plan - attention.plan
    null_rows = coupling.null_source - attention.null_source
    null_columns = coupling.null_target - attention.null_target
    if scale is None:
        largest = max(float(np.abs(part).max()) for part in (values, null_rows, null_columns))
        scale = largest if largest > 0 else float(coupling.plan.max())
    if not scale > 0:
        raise ValueError(f"scale: expected a share of the mass > 0, got {scale!r}")
    points = [f"−{percent(scale)}", "0", f"+{percent(scale)}"]
    return _matrix(
        coupling,
        values=values,
        nulls=(null_rows, null_columns),
        coloraxis={
            "cmin": -scale,
            "cmax": scale,
            "colorscale": [list(stop) for stop in colours.diverging],
            "colorbar": {
                "title": {"text": "difference of mass, % of the whole"},
                "tickvals": [-scale, 0, scale],
                "ticktext": points,
            },
        },
        scale=shared_scale(coupling, attention),
        colours=colours,
        title=f"{name(coupling)} − {name(attention).lower()}",
        line=f"− more in {name(attention).lower()} · + more in {name(coupling).lower()} · {regularisation(coupling)}",
        hover=(
            f"{name(coupling)} %{{customdata[0]:.3~g}} %<br>{name(attention)} %{{customdata[1]:.3~g}} %<br>"
            "difference %{customdata[2]:+.3~g} points"
        ),
        layers=100 * np.stack([coupling.plan, attention.plan, values], axis=-1),
        width=width,
        height=height,
        description=descriptions.difference(coupling, attention),
        marks=(attention.received, f"received in {name(attention).lower()}"),
        differences=True,
    )


def _null_lift(null: Matrix, weights: Matrix) -> Matrix:
    with np.errstate(divide="ignore", invalid="ignore"):
        lift = np.log(null) - np.log(null.sum()) - np.log(weights)
    lift[null <= 0] = -np.inf
    return np.asarray(lift)


def _facts(coupling: Coupling) -> Matrix:
    given = coupling.given[:, None]
    shares = np.divide(coupling.plan, given, out=np.zeros(coupling.shape), where=given > 0)
    return np.stack([100 * coupling.plan, 100 * shares, np.exp(coupling.log_lift)], axis=-1)


def _hover(coupling: Coupling) -> str:
    unit = coupling.source.unit
    return (
        f"mass %{{customdata[0]:.3~g}} % of the whole<br>%{{customdata[1]:.3~g}} % of what the source {unit} gives"
        "<br>%{customdata[2]:.3~g}× as much as by independence"
    )


def _matrix(
    coupling: Coupling,
    *,
    values: Matrix,
    nulls: tuple[Matrix, Matrix],
    coloraxis: Json,
    scale: Scale,
    colours: Palette,
    title: str,
    line: str,
    hover: str,
    layers: Matrix,
    width: int | None,
    height: int | None,
    description: str,
    marks: tuple[Matrix, str] | None = None,
    differences: bool = False,
) -> go.Figure:
    n, m = coupling.shape
    partial = coupling.mechanism == "partial"
    rows, columns = coupling.source.labels, coupling.target.labels
    shown_rows, shown_columns = thinned(n), thinned(m)
    gap = 1 if max(n, m) <= MOST_LABELS else 0
    row_end, column_end = (n + _GAP, m + _GAP) if partial else (n - 0.5, m - 0.5)
    row_ticks, column_ticks = [rows[i] for i in shown_rows], [columns[j] for j in shown_columns]

    cell = {"type": "heatmap", "coloraxis": "coloraxis", "xgap": gap, "ygap": gap, "xaxis": "x", "yaxis": "y"}
    data: list[Json] = [
        {
            **cell,
            "name": "plan",
            # float32 goes to the browser as bytes, a third of the text that float64 would take.
            "z": values.astype(np.float32),
            "customdata": layers.astype(np.float32),
            "hovertemplate": f"<b>%{{y}}</b> → <b>%{{x}}</b><br>{hover}<extra></extra>",
        }
    ]
    if partial:
        amount = "difference %{customdata:+.3~g} points" if differences else "%{customdata:.3~g} % of the whole"
        # Edges instead of centres: a single row or column of a heatmap has no width of its own.
        data.append(
            {
                **cell,
                "name": "null column",
                "x": [m - 0.5 + _GAP, m + 0.5 + _GAP],
                "y": np.arange(n),
                "z": nulls[0].astype(np.float32)[:, None],
                "customdata": (100 * (coupling.null_source)).astype(np.float32)[:, None],
                "hovertemplate": f"<b>%{{y}}</b> → no partner<br>{amount}<extra></extra>",
            }
        )
        data.append(
            {
                **cell,
                "name": "null row",
                "x": np.arange(m),
                "y": [n - 0.5 + _GAP, n + 0.5 + _GAP],
                "z": nulls[1].astype(np.float32)[None, :],
                "customdata": (100 * coupling.null_target).astype(np.float32)[None, :],
                "hovertemplate": f"no partner → <b>%{{x}}</b><br>{amount}<extra></extra>",
            }
        )
        row_end, column_end = n + 0.5 + _GAP, m + 0.5 + _GAP

    unit_row, unit_column = coupling.source.unit, noun(coupling)
    data += _bars(coupling, colours, rows, columns, marks)

    left = widest([tick(label) for label in (*row_ticks, *((NULL_LABEL,) if partial else ()))], 132) + 18
    # Labels above the columns are turned by 55 degrees: sin 55° of their width is height.
    top = 0.82 * widest([tick(label) for label in (*column_ticks, *((NULL_LABEL,) if partial else ()))], 132) + 66
    bottom = 112
    if height is None:
        height = int(top + bottom + np.clip(24 * (n + partial) + 56, 180, 520))
    inner = height - top - bottom
    bar_share = min(0.22, 56 / inner)
    split = [bar_share + 8 / inner, 1.0]
    row_text, column_text = [tick(label) for label in row_ticks], [tick(label) for label in column_ticks]
    row_at, column_at = shown_rows.tolist(), shown_columns.tolist()
    if partial:
        row_at, column_at = [*row_at, n + _GAP], [*column_at, m + _GAP]
        row_text, column_text = [*row_text, NULL_LABEL], [*column_text, NULL_LABEL]
    layout = sheet(
        colours,
        title=title,
        subtitle=line,
        height=height,
        width=width,
        margin={"l": int(left), "r": 16, "t": int(top), "b": bottom},
    )
    # The cells' own axes name every row and column on hover; the axes of the bars show the labels there is room for.
    layout["xaxis"] = axis(
        colours,
        domain=[0, 0.92],
        range=[-0.5, column_end],
        anchor="y",
        tickvals=np.arange(m),
        ticktext=[full(label) for label in columns],
        showticklabels=False,
    )
    layout["yaxis"] = axis(
        colours,
        domain=split,
        range=[row_end, -0.5],
        anchor="x",
        tickvals=np.arange(n),
        ticktext=[full(label) for label in rows],
        showticklabels=False,
    )
    layout["xaxis2"] = axis(
        colours,
        domain=[0, 0.92],
        matches="x",
        anchor="free",
        position=1,
        side="top",
        tickvals=column_at,
        ticktext=column_text,
        tickangle=-55,
        **standoff(3),
        tickfont={"size": SMALL_FONT_SIZE + 1, "color": colours.target_text},
    )
    layout["yaxis2"] = axis(
        colours,
        domain=[0, bar_share],
        anchor="x2",
        range=[1.04 * scale.received, 0],
        showticklabels=False,
        fixedrange=True,
    )
    layout["yaxis3"] = axis(
        colours,
        domain=split,
        matches="y",
        anchor="free",
        position=0,
        side="left",
        tickvals=row_at,
        ticktext=row_text,
        **standoff(5),
        tickfont={"size": SMALL_FONT_SIZE + 1, "color": colours.source_text},
    )
    layout["xaxis3"] = axis(
        colours,
        domain=[0.935, 1],
        anchor="y3",
        range=[0, 1.04 * scale.given],
        showticklabels=False,
        fixedrange=True,
    )
    layout["coloraxis"] = {
        **coloraxis,
        "colorbar": {
            "orientation": "h",
            "thickness": 8,
            "len": 0.92,
            "x": 0,
            "xanchor": "left",
            "xpad": 0,
            "y": -46 / inner,
            "yanchor": "bottom",
            "ypad": 0,
            "ticks": "",
            "tickangle": 0,
            "outlinewidth": 1,
            "outlinecolor": colours.border,
            "tickfont": {"size": SMALL_FONT_SIZE, "color": colours.muted},
            **coloraxis["colorbar"],
            "title": {
                **coloraxis["colorbar"]["title"],
                "side": "top",
                "font": {"size": SMALL_FONT_SIZE, "color": colours.muted},
            },
        },
    }
    layout["legend"].update({"x": 0, "xanchor": "left", "y": -54 / inner, "yanchor": "top"})
    layout["barmode"] = "overlay"
    thin = []
    if len(shown_rows) < n:
        thin.append(f"every {_nth(n)} source {unit_row}")
    if len(shown_columns) < m:
        thin.append(f"every {_nth(m)} target {unit_column}")
    words = [f"{missing(coupling)}"]
    if thin:
        words.append(f"labels: {' and '.join(thin)}; the rest on hover")
    layout["annotations"] = [
        note(colours, " · ".join(words), yshift=-bottom + 8, yanchor="bottom", xshift=-int(left) + 14)
    ]
    return finished(data, layout, description)


def standoff(pixels: int) -> Json:
    """Return ticks that are not seen and keep the labels off the cells."""
    return {"ticks": "outside", "ticklen": pixels, "tickcolor": "rgba(0,0,0,0)"}


def _nth(size: int) -> str:
    step = -(-size // MOST_LABELS)
    return f"{step}{ {2: 'nd', 3: 'rd'}.get(step, 'th') }"


def _bars(
    coupling: Coupling,
    colours: Palette,
    rows: list[str],
    columns: list[str],
    marks: tuple[Matrix, str] | None,
) -> list[Json]:
    n, m = coupling.shape
    unit_row, unit_column = coupling.source.unit, noun(coupling)
    mark, mark_name = marks if marks is not None else (coupling.target.weights, "weight")
    given, received = coupling.given, coupling.received
    a, b = coupling.source.weights, coupling.target.weights
    return [
        {
            "type": "bar",
            "orientation": "h",
            "name": f"given by the source {unit_row}",
            "xaxis": "x3",
            "yaxis": "y3",
            "x": given,
            "y": np.arange(n),
            "width": 0.64,
            "marker": {"color": translucent(colours.source, 0.8), "line": {"width": 0}},
            "customdata": [[full(rows[i]), 100 * float(given[i]), 100 * float(a[i])] for i in range(n)],
            "hovertemplate": "<b>%{customdata[0]}</b><br>gives %{customdata[1]:.3~g} %, weight %{customdata[2]:.3~g} %"
            "<extra></extra>",
        },
        {
            "type": "bar",
            "name": f"received by the target {unit_column}",
            "xaxis": "x2",
            "yaxis": "y2",
            "x": np.arange(m),
            "y": received,
            "width": 0.64,
            "marker": {"color": translucent(colours.target, 0.8), "line": {"width": 0}},
            "customdata": [[full(columns[j]), 100 * float(received[j]), 100 * float(b[j])] for j in range(m)],
            "hovertemplate": "<b>%{customdata[0]}</b><br>receives %{customdata[1]:.3~g} %, "
            "weight %{customdata[2]:.3~g} %<extra></extra>",
        },
        _ticks(colours, a, "x3", "y3", True, "weight", False),
        _ticks(colours, mark, "x2", "y2", False, mark_name, True),
    ]


def _ticks(colours: Palette, values: Matrix, xaxis: str, yaxis: str, across: bool, label: str, legend: bool) -> Json:
    """Return short marks at `values`, one for each atom, as one broken line."""
    along: list[float | None] = []
    at: list[float | None] = []
    for k, value in enumerate(values.tolist()):
        along += (k - 0.42, k + 0.42, None)
        at += (value, value, None)
    return {
        "type": "scatter",
        "mode": "lines",
        "name": label,
        "xaxis": xaxis,
        "yaxis": yaxis,
        "x": at if across else along,
        "y": along if across else at,
        "line": {"color": colours.text, "width": 1.5},
        "hoverinfo": "skip",
        "showlegend": legend,
    }
