"""The 3-D clouds on paper: seen from the page's first camera, without perspective."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from sinkviz.export.markup import Style, text_element
from sinkviz.export.vector import Sheet, _list, _stroke, _style, draw, element

Json = Mapping[str, Any]


def scene(sheet: Sheet, data: Sequence[Json], base: Style) -> None:
    """Draw the scatter3d traces and the floating labels of a figure's scene."""
    traces = [trace for trace in data if trace.get("type") == "scatter3d"]
    spec = sheet.layout["scene"]
    eye = np.array([float(spec["camera"]["eye"][letter]) for letter in "xyz"])
    eye /= np.linalg.norm(eye)
    across = np.cross([0.0, 0.0, 1.0], eye)
    across /= np.linalg.norm(across)
    axes = np.stack([across, np.cross(eye, across)])
    clouds = [
        np.array(
            [[np.nan if value is None else value for value in _list(trace[letter], 0)] for letter in "xyz"], float
        ).T
        for trace in traces
    ]
    every = np.concatenate(clouds) if clouds else np.zeros((1, 3))
    low, high = np.nanmin(every, axis=0), np.nanmax(every, axis=0)
    corners = np.array([[(low, high)[k >> d & 1][d] for d in range(3)] for k in range(8)])
    flat = corners @ axes.T
    middle = (flat.min(axis=0) + flat.max(axis=0)) / 2
    extent = np.maximum(flat.max(axis=0) - flat.min(axis=0), 1e-12)
    room = np.array([sheet.right - sheet.left - 40, sheet.bottom - sheet.top - 40])
    scale = float((room / extent).min())
    centre = np.array([(sheet.left + sheet.right) / 2, (sheet.top + sheet.bottom) / 2])

    def place(points: np.ndarray[Any, np.dtype[np.float64]]) -> list[tuple[float, float] | None]:
        at = (points @ axes.T - middle) * scale * np.array([1.0, -1.0]) + centre
        return [None if np.isnan(p).any() else (float(p[0]), float(p[1])) for p in at]

    # The three edges of the box that meet in its far lower corner carry the names of the axes.
    far = np.where(eye > 0, low, high)
    far[2] = low[2]
    for d, letter in enumerate("xyz"):
        end = far.copy()
        end[d] = high[d] if far[d] == low[d] else low[d]
        side = spec.get(f"{letter}axis", {})
        start_at, end_at = place(np.stack([far, end]))
        if start_at is None or end_at is None:
            continue
        look = _stroke(side.get("gridcolor", "#cccccc"), 1.0)
        sheet.add(element("line", x1=start_at[0], y1=start_at[1], x2=end_at[0], y2=end_at[1], **look))
        title = side.get("title", {})
        if title.get("text"):
            style = _style(title.get("font"), base)
            anchor = "start" if end_at[0] < start_at[0] else "end"
            sheet.add(text_element(title["text"], end_at[0], end_at[1] + (10 if d < 2 else -10), style, anchor=anchor))
    for trace, points in zip(traces, clouds, strict=True):
        draw(sheet, trace, place(points), str(trace.get("mode", "markers")).split("+"), base, None)
    for note in spec.get("annotations", ()):
        at = place(np.array([[float(note[letter]) for letter in "xyz"]]))[0]
        if at is None:
            continue
        sheet.add(
            text_element(
                note["text"],
                at[0] + float(note.get("xshift", 0)),
                at[1] - float(note.get("yshift", 0)),
                _style(note.get("font"), base),
                anchor={"left": "start", "center": "middle", "right": "end"}[note.get("xanchor", "center")],
                vertical=note.get("yanchor", "middle"),
            )
        )
