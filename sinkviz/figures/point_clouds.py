"""Both clouds in their shared principal axes, with the transport between them as lines."""

from __future__ import annotations

import numpy as np
import plotly.graph_objects as go
from numpy.typing import NDArray

from sinkviz.coupling import Coupling
from sinkviz.figures import descriptions
from sinkviz.figures.frame import Json, axis, finished, name, note, regularisation, sheet
from sinkviz.figures.labels import count, elide, full, percent, text_width, tick, visible
from sinkviz.figures.pairs import DEFAULT_LIMIT, DEFAULT_SHARE, PAIR_HOVER, Pairs, strongest_pairs
from sinkviz.figures.palette import SMALL_FONT_SIZE, Palette, ThemeName, palette, translucent
from sinkviz.figures.scale import Scale, shared_scale
from sinkviz.projection import Projection

LARGEST_MARK = 24.0
"""Diameter in pixels of the largest mark; areas are in proportion to the mass."""
MOST_LABELS = 160
MOST_LABELS_3D = 60
_EYE = (1.25, 1.25, 0.8)
_CLASSES = ((0.5, 6.0, 0.8), (0.25, 3.6, 0.65), (0.125, 2.0, 0.5), (0.0, 1.0, 0.35))
_PLACES = (
    ("middle right", 1, 0),
    ("top center", 0, -1),
    ("bottom center", 0, 1),
    ("middle left", -1, 0),
    ("top right", 1, -1),
    ("bottom right", 1, 1),
    ("top left", -1, -1),
    ("bottom left", -1, 1),
)
Points = NDArray[np.float64]


def clouds(
    coupling: Coupling,
    projection: Projection,
    *,
    share: float = DEFAULT_SHARE,
    limit: int = DEFAULT_LIMIT,
    scale: Scale | None = None,
    theme: ThemeName = "light",
    width: int | None = None,
    height: int = 480,
) -> go.Figure:
    """Draw both clouds in the axes of `shared_projection`, in 2-D or 3-D, with transport lines between them.

    Discs are source atoms, their area is the weight. Squares are target atoms: the filled area is the mass received,
    the outline the weight. Lines join the strongest pairs, in four classes of mass named in the legend. One unit is
    equally long on every axis. Labels that would cover each other are left to the hover, and their number is said.

    Args:
        coupling: what is drawn; shape (n, m).
        projection: of the coupling's source and target; its number of axes makes the picture 2-D or 3-D.
        share: the strongest pairs are drawn until they carry this share of the mass.
        limit: most lines that are drawn; the foot says so when it cuts some off.
        scale: the scale to share with other panels; the coupling's own by default.
        theme: "light" or "dark".
        width, height: pixels; by default the width follows the page.

    Raises:
        ValueError: a projection of other measures, share or limit out of range, an unknown theme.
    """
    colours = palette(theme)
    shape = (len(projection.source), len(projection.target))
    if shape != coupling.shape:
        raise ValueError(
            f"projection: expected one of the coupling's own measures, shape {coupling.shape}, got {shape}; "
            "use shared_projection(coupling.source, coupling.target)"
        )
    scale = scale or shared_scale(coupling)
    pairs = strongest_pairs(coupling, share, limit, nulls=False)
    space = projection.dimensions == 3
    # Half the width of the page is a good guess where the browser decides.
    frame = (width or 620) - 32.0, height - 176.0
    if space:
        # The box turns within the frame and is seen from a distance.
        frame = 0.6 * frame[0], 0.6 * frame[1]
    sizes = _sizes(coupling, scale, space)
    # Labels keep clear of a square and of its outline, whichever is larger.
    reach = sizes[0], np.maximum(sizes[1], sizes[2])
    places, drawn = _label_places(coupling, projection, pairs, np.concatenate(reach), frame)
    data = [
        *_lines(coupling, pairs, projection, scale, colours),
        _atoms(coupling, projection, sizes[0], colours, "source"),
        _atoms(coupling, projection, sizes[1], colours, "target"),
        _outlines(coupling, projection, sizes[2], colours),
        *([] if space else _names(coupling, projection, reach, colours, places)),
    ]
    foot = 112
    layout = sheet(
        colours,
        title=f"Clouds · {name(coupling).lower()}",
        subtitle=f"shared PCA, {percent(projection.kept)} of the variance kept · {regularisation(coupling)}",
        height=height,
        width=width,
        margin={"l": 12, "r": 12, "t": 58, "b": foot},
    )
    titles = [
        f"PC {k + 1}, {percent(float(part))}" + ("" if space else " of the variance")
        for k, part in enumerate(projection.kept_variance)
    ]
    if space:
        layout["scene"] = {
            # Plotly's 3-D text shows entities as they are spelled; annotations are drawn like all other text.
            "annotations": _floating(coupling, projection, places, np.concatenate(reach), colours),
            **{f"{letter}axis": _side(colours, title) for letter, title in zip("xyz", titles, strict=True)},
            "aspectmode": "data",
            "bgcolor": colours.card,
            "camera": {"eye": dict(zip("xyz", _EYE, strict=True)), "center": {"x": 0, "y": 0, "z": -0.1}},
            "dragmode": "orbit",
        }
    else:
        both = np.concatenate([projection.source, projection.target])
        layout["xaxis"] = _flat(colours, titles[0], both[:, 0], 0.06)
        layout["yaxis"] = {**_flat(colours, titles[1], both[:, 1], 0.08), "scaleanchor": "x", "scaleratio": 1}
    layout["legend"].update({"x": 0, "xanchor": "left", "y": 0 if space else -24 / (height - 176), "yanchor": "top"})
    foot_note = pairs.sentence
    if drawn < sum(shape):
        foot_note += f" · {count(drawn)} of {count(sum(shape))} labels drawn, the rest on hover"
    layout["annotations"] = [note(colours, foot_note, yshift=-foot + 8, yanchor="bottom")]
    return finished(data, layout, descriptions.clouds(coupling, projection, pairs))


def _flat(colours: Palette, title: str, values: Points, room: float) -> Json:
    low, high = float(values.min()), float(values.max())
    pad = room * (high - low) or 0.5
    return axis(
        colours,
        range=[low - pad, high + pad],
        showticklabels=False,
        showline=True,
        linecolor=colours.border,
        mirror=True,
        title={
            "text": title,
            "standoff": 4,
            "font": {"size": SMALL_FONT_SIZE, "color": colours.muted},
        },
    )


def _side(colours: Palette, title: str) -> Json:
    return {
        "type": "linear",
        "title": {"text": title, "font": {"size": SMALL_FONT_SIZE, "color": colours.muted}},
        "showticklabels": False,
        "showbackground": False,
        "gridcolor": colours.border,
        "zeroline": False,
        "showspikes": False,
    }


def _trace(projection: Projection, points: Points, **options: object) -> Json:
    """Return a scatter trace of the right number of dimensions at `points`, shape (k, 2 or 3)."""
    flat = projection.dimensions == 2
    where = dict(zip("xyz", points.T, strict=False))
    return {"type": "scatter" if flat else "scatter3d", **where, **options}


def _sizes(coupling: Coupling, scale: Scale, space: bool) -> tuple[Points, Points, Points]:
    """Return the diameters in pixels of discs, filled squares and outlines; areas are in proportion to the mass."""
    count_of_atoms = sum(coupling.shape)
    # Crowded clouds get smaller marks; equal weights half the largest diameter, so that a hub has room to grow.
    largest = LARGEST_MARK * (0.6 if space else 1.0) * min(1.0, max(0.5, (40 / count_of_atoms) ** 0.5))
    whole = max(scale.given, scale.received, 8 / count_of_atoms)

    def diameters(mass: Points) -> Points:
        return np.asarray(largest * np.sqrt(np.clip(mass / whole, 0.0, 1.0)))

    return diameters(coupling.source.weights), diameters(coupling.received), diameters(coupling.target.weights)


def _atoms(
    coupling: Coupling,
    projection: Projection,
    sizes: Points,
    colours: Palette,
    side: str,
) -> Json:
    source = side == "source"
    measure = coupling.source if source else coupling.target
    mass = coupling.given if source else coupling.received
    labels = measure.labels
    verb = "gives" if source else "receives"
    return _trace(
        projection,
        projection.source if source else projection.target,
        mode="markers",
        name=f"source {measure.unit}" if source else f"target {measure.unit}: mass received",
        marker={
            "symbol": "circle" if source else "square",
            # A mark of no mass keeps a place to point at.
            "size": np.maximum(sizes, 2.0).tolist(),
            "color": colours.source if source else colours.target,
            "line": {"width": 0},
            "opacity": 1,
        },
        customdata=[
            [full(label), 100 * float(mass[k]), 100 * float(measure.weights[k])] for k, label in enumerate(labels)
        ],
        hovertemplate=f"<b>%{{customdata[0]}}</b><br>{verb} %{{customdata[1]:.3~g}} %, "
        "weight %{customdata[2]:.3~g} %<extra></extra>",
    )


def _names(
    coupling: Coupling, projection: Projection, reach: tuple[Points, Points], colours: Palette, places: list[str | None]
) -> list[Json]:
    """Return the labels of both sides, each beside an unseen mark as large as what it names."""
    n = coupling.shape[0]
    return [
        {
            "type": "scatter",
            "mode": "markers+text",
            "name": f"labels of the {side}",
            "x": points[:, 0],
            "y": points[:, 1],
            "marker": {"size": np.maximum(sizes, 2.0).tolist(), "opacity": 0, "color": colour},
            "text": [tick(label) if place else "" for label, place in zip(labels, sides, strict=True)],
            "textposition": [place or "middle right" for place in sides],
            "textfont": {"size": SMALL_FONT_SIZE + 1, "color": colour},
            "cliponaxis": False,
            "hoverinfo": "skip",
            "showlegend": False,
        }
        for side, labels, points, sizes, colour, sides in (
            ("source", coupling.source.labels, projection.source, reach[0], colours.source_text, places[:n]),
            ("target", coupling.target.labels, projection.target, reach[1], colours.target_text, places[n:]),
        )
    ]


def _floating(
    coupling: Coupling, projection: Projection, places: list[str | None], diameters: Points, colours: Palette
) -> list[Json]:
    sides = {place: (x, y) for place, x, y in _PLACES}
    labels = [*coupling.source.labels, *coupling.target.labels]
    at = np.concatenate([projection.source, projection.target]).tolist()
    floating: list[Json] = []
    for k, place in enumerate(places):
        if place is None:
            continue
        across, down = sides[place]
        away = float(diameters[k]) / 2 + 2
        floating.append(
            {
                "text": tick(labels[k]),
                **dict(zip("xyz", at[k], strict=True)),
                "showarrow": False,
                "xanchor": {1: "left", 0: "center", -1: "right"}[across],
                "yanchor": {1: "top", 0: "middle", -1: "bottom"}[down],
                "xshift": across * away,
                "yshift": -down * away,
                "font": {
                    "size": SMALL_FONT_SIZE + 1,
                    "color": colours.source_text if k < coupling.shape[0] else colours.target_text,
                },
            }
        )
    return floating


def _outlines(coupling: Coupling, projection: Projection, sizes: Points, colours: Palette) -> Json:
    return _trace(
        projection,
        projection.target,
        mode="markers",
        name="its weight",
        marker={
            "symbol": "square-open",
            "size": sizes.tolist(),
            "color": colours.target,
            "line": {"width": 1.5},
        },
        hoverinfo="skip",
    )


def _lines(coupling: Coupling, pairs: Pairs, projection: Projection, scale: Scale, colours: Palette) -> list[Json]:
    rows, columns = pairs.source, pairs.target
    part = pairs.mass / scale.mass
    traces: list[Json] = []
    above = np.inf
    for floor, wide, opacity in _CLASSES:
        inside = (part >= floor) & (part < above)
        bounds = (floor * scale.mass, scale.mass if np.isinf(above) else above * scale.mass)
        above = floor
        if not inside.any():
            continue
        start, end = projection.source[rows[inside]], projection.target[columns[inside]]
        label = f"≥ {percent(bounds[0])}" if floor > 0 else f"under {percent(bounds[1])}"
        traces.append(
            {
                "type": "scatter" if projection.dimensions == 2 else "scatter3d",
                "mode": "lines",
                "name": f"mass {label}",
                **{letter: _broken(start[:, k], end[:, k]) for k, letter in enumerate("xyz"[: projection.dimensions])},
                "line": {"color": translucent(colours.source, opacity), "width": wide},
                "hoverinfo": "skip",
            }
        )
    handles = _trace(
        projection,
        0.5 * (projection.source[rows] + projection.target[columns]),
        mode="markers",
        name="pairs",
        marker={"size": 10, "opacity": 0, "color": colours.source},
        customdata=pairs.facts(coupling),
        hovertemplate=PAIR_HOVER,
        showlegend=False,
    )
    return [*traces, handles]


def _broken(start: Points, end: Points) -> list[float | None]:
    values: list[float | None] = []
    for one, other in zip(start.tolist(), end.tolist(), strict=True):
        values += (one, other, None)
    return values


def _by_interest(pairs: Pairs, n: int, m: int) -> list[int]:
    """Return all atoms, source then target numbered on, those of the strongest pairs first."""
    order = np.concatenate([np.stack([pairs.source, n + pairs.target], axis=1).ravel(), np.arange(n + m)])
    return list(dict.fromkeys(order.tolist()))


def _seen(projection: Projection) -> Points:
    """Return where the atoms lie on the sheet, shape (n + m, 2), y up: in 3-D as first seen, without perspective."""
    at = np.concatenate([projection.source, projection.target])
    if projection.dimensions == 2:
        return at
    eye = np.array(_EYE) / np.linalg.norm(_EYE)
    across = np.cross([0.0, 0.0, 1.0], eye)
    across /= np.linalg.norm(across)
    return np.asarray(at @ np.stack([across, np.cross(eye, across)], axis=1))


def _label_places(
    coupling: Coupling,
    projection: Projection,
    pairs: Pairs,
    diameters: Points,
    frame: tuple[float, float],
) -> tuple[list[str | None], int]:
    """Return for each atom the side on which its label stands, None where it would cover another; and their number.

    Atoms of the strongest pairs come first; each takes the first of eight sides that is free of marks and labels.
    """
    n, m = coupling.shape
    places: list[str | None] = [None] * (n + m)
    at = _seen(projection)
    low, high = at.min(axis=0), at.max(axis=0)
    extent = high - low
    # One unit is equally long on both axes, so the tighter one decides how many pixels it has.
    unit = min(frame[k] / (1.14 * extent[k]) if extent[k] > 0 else np.inf for k in (0, 1))
    pixels = (at - low) * (unit if np.isfinite(unit) else 1.0) * np.array([1.0, -1.0])
    labels = [*coupling.source.labels, *coupling.target.labels]
    half = np.array([text_width(elide(visible(label))) for label in labels]) * (SMALL_FONT_SIZE + 1) / 2
    tall = (SMALL_FONT_SIZE + 2) / 2
    sides = np.array([(x, y) for _, x, y in _PLACES], dtype=np.float64)
    diagonal = np.abs(sides).sum(axis=1, keepdims=True) == 2
    most = min(n + m, MOST_LABELS if projection.dimensions == 2 else MOST_LABELS_3D)
    radius = np.maximum(diameters, 2.0) / 2
    # Plotly sets a label beside the mark, on the diagonal a little nearer. Shapes (atoms, sides).
    reach = np.where(diagonal.T, 0.75, 1.0) * radius[:, None] + 3.0
    across = pixels[:, :1] + sides[:, 0] * (reach + half[:, None])
    down = pixels[:, 1:] + sides[:, 1] * (reach + tall)
    clear = np.ones(across.shape, dtype=bool)

    def cover(x: float, y: float, width: float, height: float) -> None:
        clear[(np.abs(across - x) < half[:, None] + width) & (np.abs(down - y) < tall + height)] = False

    for (x, y), size in zip(pixels.tolist(), (0.8 * radius).tolist(), strict=True):
        cover(x, y, size, size)
    drawn = 0
    for k in _by_interest(pairs, n, m):
        if drawn == most:
            break
        if not clear[k].any():
            continue
        place = int(clear[k].argmax())
        places[k] = _PLACES[place][0]
        drawn += 1
        cover(across[k, place], down[k, place], half[k], tall)
    return places, drawn
