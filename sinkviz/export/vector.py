"""SVG of our own from the library's figures: the same drawing as on the page, without a browser.

It knows the part of Plotly's vocabulary that `sinkviz.figures` speaks, and refuses the rest by name rather than
leave something out.
"""

from __future__ import annotations

import base64
import math
import re
import struct
import zlib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sinkviz.export.markup import LINE_HEIGHT, Style, escape, line_height, line_width, parse, text_element, written
from sinkviz.figures.labels import number
from sinkviz.figures.palette import FONT, FONT_SIZE

Json = Mapping[str, Any]

MOST_CELLS = 20_000
"""Largest matrix drawn as rectangles; larger ones become one picture of pixels inside the SVG."""
FALLBACK_FONTS = (
    "Source Sans 3",
    "Noto Sans",
    "Segoe UI",
    "Helvetica Neue",
    "Arial",
    "Liberation Sans",
    "DejaVu Sans",
)


def _n(value: float) -> str:
    text = f"{value:.2f}".rstrip("0").rstrip(".")
    return "0" if text == "-0" else text


def element(name: str, content: str = "", **attributes: Any) -> str:
    """Return one SVG element; underscores in names become hyphens, None leaves an attribute out."""
    given = {
        key.replace("_", "-"): _n(value) if isinstance(value, float) else str(value)
        for key, value in attributes.items()
        if value is not None
    }
    return f"<{name}{written(given)}>{content}</{name}>" if content else f"<{name}{written(given)}/>"


_RGBA = re.compile(r"rgba\((\d+),(\d+),(\d+),([\d.eE+-]+)\)")


def paint(colour: str) -> tuple[str, float | None]:
    """Return a colour as SVG 1.1 spells it, and its opacity if there is one.

    >>> paint("rgba(47,111,222,0.5)"), paint("#123456")
    (('#2f6fde', 0.5), ('#123456', None))
    """
    match = _RGBA.fullmatch(colour.replace(" ", ""))
    if not match:
        return colour, None
    red, green, blue = (int(match[k]) for k in (1, 2, 3))
    return f"#{red:02x}{green:02x}{blue:02x}", float(match[4])


def _fill(colour: str, opacity: float = 1.0) -> dict[str, Any]:
    plain, alpha = paint(colour)
    together = opacity * (1.0 if alpha is None else alpha)
    return {"fill": plain, "fill_opacity": None if together == 1 else together}


def _stroke(colour: str, width: float, dash: str = "solid", opacity: float = 1.0) -> dict[str, Any]:
    plain, alpha = paint(colour)
    together = opacity * (1.0 if alpha is None else alpha)
    dashes = {"solid": None, "dot": (1, 1), "dash": (3, 3), "dashdot": (3, 2, 1, 2)}
    if dash not in dashes:
        raise ValueError(f"line: expected one of {', '.join(dashes)}, got {dash!r}")
    pattern = dashes[dash]
    unit = max(3.0, width)
    return {
        "fill": "none",
        "stroke": plain,
        "stroke_width": float(width),
        "stroke_opacity": None if together == 1 else together,
        "stroke_dasharray": None if pattern is None else " ".join(_n(unit * part) for part in pattern),
    }


def _list(value: Any, count: int) -> list[Any]:
    """Return one value for each of `count` items: a scalar repeated, or the list that was given."""
    if isinstance(value, np.ndarray):
        return list(value.tolist())
    return list(value) if isinstance(value, list | tuple) else [value] * count


def colours_of(
    values: NDArray[np.float64], low: float, high: float, scale: Sequence[Sequence[Any]]
) -> NDArray[np.uint8]:
    """Return the colours of values on a map, shape (…, 3)."""
    stops = np.array([float(stop[0]) for stop in scale])
    rgb = np.array([[int(stop[1][k : k + 2], 16) for k in (1, 3, 5)] for stop in scale], dtype=np.float64)
    share = np.clip((values - low) / (high - low if high > low else 1.0), 0.0, 1.0)
    return np.stack([np.interp(share, stops, rgb[:, k]) for k in range(3)], axis=-1).round().astype(np.uint8)


def png_bytes(pixels: NDArray[np.uint8]) -> bytes:
    """Return pixels, shape (rows, columns, 3), as a PNG file."""
    rows, columns, _ = pixels.shape

    def chunk(kind: bytes, data: bytes) -> bytes:
        return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))

    raw = np.concatenate([np.zeros((rows, 1), np.uint8), pixels.reshape(rows, -1)], axis=1).tobytes()
    header = struct.pack(">IIBBBBB", columns, rows, 8, 2, 0, 0, 0)
    return b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", header) + chunk(b"IDAT", zlib.compress(raw, 9)) + chunk(b"IEND", b"")


@dataclass
class Axis:
    """One axis: from data to pixels."""

    name: str
    spec: Json
    start: float
    end: float
    low: float
    high: float
    log: bool

    def __call__(self, value: float) -> float:
        position = math.log10(value) if self.log else value
        return self.linear(position)

    def linear(self, position: float) -> float:
        """Return the pixel of a position in the axis's own range (log10 of the data on a logarithmic axis)."""
        span = self.high - self.low
        return self.start + (self.end - self.start) * ((position - self.low) / span if span else 0.5)

    @property
    def horizontal(self) -> bool:
        """Whether it runs from left to right."""
        return self.name.startswith("x")

    @property
    def unit(self) -> float:
        """Pixels for one unit of data."""
        return abs(self.end - self.start) / abs(self.high - self.low)


@dataclass
class Sheet:
    """One figure while it is drawn: the plot area in pixels, its axes, and the marks so far."""

    layout: Json
    width: float
    height: float
    identity: str
    data: Sequence[Json] = ()
    axes: dict[str, Axis] = field(default_factory=dict)
    definitions: list[str] = field(default_factory=list)
    parts: list[str] = field(default_factory=list)

    def __post_init__(self) -> None:
        margin = self.layout.get("margin", {})
        self.left = float(margin.get("l", 0))
        self.right = self.width - float(margin.get("r", 0))
        self.top = float(margin.get("t", 0))
        self.bottom = self.height - float(margin.get("b", 0))
        if self.right - self.left < 10 or self.bottom - self.top < 10:
            raise ValueError(
                f"size: expected more room than {self.width:.0f} × {self.height:.0f} px, of which margins and labels "
                "take nearly all; make the figure larger or its font smaller"
            )
        for name in self.layout:
            if re.fullmatch(r"[xy]axis\d*", name):
                self._add_axis(name.replace("axis", ""))
        self._match_units()

    def _add_axis(self, name: str) -> None:
        spec = self.layout[f"{name[0]}axis{name[1:]}"]
        across = name[0] == "x"
        low, high = spec.get("domain", (0.0, 1.0))
        if across:
            start, end = (self.left + share * (self.right - self.left) for share in (low, high))
        else:
            start, end = (self.bottom - share * (self.bottom - self.top) for share in (low, high))
        ranged = spec
        if "range" not in spec and "matches" in spec:
            other = spec["matches"]
            ranged = self.layout[f"{other[0]}axis{other[1:]}"]
        kind = ranged.get("type", "linear")
        first, last = (float(value) for value in ranged.get("range") or self._range(name, kind))
        if kind not in ("linear", "log"):
            raise ValueError(f"{name}axis: expected a linear or log axis, got {kind!r}")
        self.axes[name] = Axis(name, spec, start, end, first, last, kind == "log")

    def _range(self, name: str, kind: str) -> tuple[float, float]:
        """Return a range around all data of an axis that has none of its own."""
        values = []
        for trace in self.data:
            if (trace.get(f"{name[0]}axis") or name[0]) == name:
                for value in _list(trace.get(name[0], ()), 0):
                    if isinstance(value, str):
                        raise ValueError(f"{name}axis: expected numbers, got the category {value!r:.40}")
                    if value is not None and (kind != "log" or value > 0):
                        values.append(math.log10(value) if kind == "log" else float(value))
        if not values:
            return (0.0, 1.0)
        pad = 0.06 * (max(values) - min(values)) or 0.5
        return (min(values) - pad, max(values) + pad)

    def _match_units(self) -> None:
        """Make units equally long where an axis asks for it, by giving the other one more range."""
        for axis in self.axes.values():
            anchor = axis.spec.get("scaleanchor")
            if not anchor:
                continue
            other = self.axes[anchor]
            ratio = float(axis.spec.get("scaleratio", 1))
            wide, narrow = (axis, other) if axis.unit > other.unit * ratio else (other, axis)
            wanted = other.unit * ratio if wide is axis else axis.unit / ratio
            factor = wide.unit / wanted
            middle, half = (wide.low + wide.high) / 2, (wide.high - wide.low) / 2 * factor
            wide.low, wide.high = middle - half, middle + half
            del narrow

    def axis_of(self, trace: Json, letter: str) -> Axis:
        """Return the axis of a trace."""
        return self.axes[trace.get(f"{letter}axis") or letter]

    def clip(self, x: Axis, y: Axis) -> str:
        """Return the name of the clip path of a panel."""
        name = f"{self.identity}-{x.name}{y.name}"
        box = element(
            "rect",
            x=min(x.start, x.end),
            y=min(y.start, y.end),
            width=abs(x.end - x.start),
            height=abs(y.end - y.start),
        )
        path = element("clipPath", box, id=name)
        if path not in self.definitions:
            self.definitions.append(path)
        return f"url(#{name})"

    def add(self, part: str) -> None:
        """Put one more mark on top."""
        self.parts.append(part)


def _style(font: Json | None, base: Style) -> Style:
    font = font or {}
    return Style(size=float(font.get("size", base.size)), colour=font.get("color", base.colour))


def _base(layout: Json) -> Style:
    return _style(layout.get("font"), Style(FONT_SIZE, "#000000"))


def figure_to_svg(figure: Any, *, width: float | None = None, height: float | None = None, identity: str = "f") -> str:
    """Draw one Plotly figure of `sinkviz.figures` as the inside of an SVG: elements, without the root.

    Args:
        figure: the figure.
        width, height: pixels; those of the figure if None.
        identity: prefix of the ids inside, so that several figures fit into one file.

    Raises:
        ValueError: marks that are not known here, a size without room.
    """
    layout: dict[str, Any] = figure.layout.to_plotly_json()
    wide = float(width or layout.get("width") or 660)
    tall = float(height or layout.get("height") or 450)
    data = [trace.to_plotly_json() for trace in figure.data]
    for trace in data:
        if trace.get("type", "scatter") in ("scatter", "bar", "heatmap"):
            for letter in "xy":
                name = trace.get(f"{letter}axis") or letter
                layout.setdefault(f"{letter}axis{name[1:]}", {})
    sheet = Sheet(layout, wide, tall, identity, data)
    base = _base(layout)
    sheet.add(element("rect", width=wide, height=tall, **_fill(layout.get("paper_bgcolor", "#ffffff"))))
    for axis in sheet.axes.values():
        _grid(sheet, axis, base)
    _shapes(sheet, below=True)
    for trace in data:
        if trace.get("visible") is False:
            continue
        kind = trace.get("type", "scatter")
        if kind not in _TRACES:
            raise ValueError(f"figure: expected traces of type {', '.join(_TRACES)}, got {kind!r}")
        unknown = sorted(set(trace) - _SILENT - _KNOWN[kind])
        if unknown:
            raise ValueError(f"figure: a {kind} has {', '.join(unknown)}, which cannot be drawn outside the page yet")
        _TRACES[kind](sheet, trace, base)
    if "scene" in layout:
        from sinkviz.export.space import scene

        scene(sheet, data, base)
    for axis in sheet.axes.values():
        _ticks(sheet, axis, base)
    _shapes(sheet, below=False)
    _colorbar(sheet, base)
    _legend(sheet, data, base)
    for note in layout.get("annotations", ()):
        _annotation(sheet, note, base)
    _title(sheet, base)
    defs = element("defs", "".join(sheet.definitions)) if sheet.definitions else ""
    return defs + "".join(sheet.parts)


# --- axes ---------------------------------------------------------------------------------------------------------


def tick_values(axis: Axis) -> list[tuple[float, str]]:
    """Return positions (in the axis's own range) and labels of its ticks."""
    spec = axis.spec
    if spec.get("tickvals") is not None:
        values = _list(spec["tickvals"], 0)
        texts = _list(spec.get("ticktext"), 0) if spec.get("ticktext") is not None else [number(v) for v in values]
        return [
            (math.log10(value) if axis.log else float(value), text) for value, text in zip(values, texts, strict=True)
        ]
    low, high = sorted((axis.low, axis.high))
    if axis.log:
        return [(float(k), number(10.0**k)) for k in range(math.ceil(low - 1e-9), math.floor(high + 1e-9) + 1)]
    count = max(2, int(spec.get("nticks", 5)))
    rough = (high - low) / count
    power = 10.0 ** math.floor(math.log10(rough))
    steps = [power * k for k in (1, 2, 5, 10) if power * k >= rough * (1 - 1e-9)]
    finer = [power * k for k in (5, 2, 1, 0.5)]
    # Rarely a round step has no two multiples in the range: then the next finer one.
    for step in (steps[0], *(one for one in finer if one < steps[0])):
        first = math.ceil(low / step - 1e-9)
        ticks = [k * step for k in range(first, math.floor(high / step + 1e-9) + 1)]
        if len(ticks) >= 2:
            break
    return [(value, number(0.0 if abs(value) < 1e-12 * step else float(f"{value:.12g}"))) for value in ticks]


def _crossing(sheet: Sheet, axis: Axis) -> float:
    """Return the pixel at which an axis stands across its own direction."""
    anchor = axis.spec.get("anchor")
    side = axis.spec.get("side", "bottom" if axis.horizontal else "left")
    if anchor == "free" or anchor is None:
        share = float(axis.spec.get("position", 0))
        if axis.horizontal:
            return sheet.bottom - share * (sheet.bottom - sheet.top)
        return sheet.left + share * (sheet.right - sheet.left)
    other = sheet.axes[anchor]
    if axis.horizontal:
        return max(other.start, other.end) if side == "bottom" else min(other.start, other.end)
    return min(other.start, other.end) if side == "left" else max(other.start, other.end)


def _extent(sheet: Sheet, axis: Axis) -> tuple[float, float]:
    """Return where the lines that cross an axis begin and end."""
    anchor = axis.spec.get("anchor")
    if anchor in sheet.axes:
        other = sheet.axes[anchor]
        return other.start, other.end
    return (sheet.bottom, sheet.top) if axis.horizontal else (sheet.left, sheet.right)


def _straight(axis: Axis, at: float, start: float, end: float, **attributes: Any) -> str:
    if axis.horizontal:
        return element("line", x1=at, y1=start, x2=at, y2=end, **attributes)
    return element("line", x1=start, y1=at, x2=end, y2=at, **attributes)


def _grid(sheet: Sheet, axis: Axis, base: Style) -> None:
    del base
    if axis.spec.get("visible") is False or not axis.spec.get("showgrid"):
        return
    start, end = _extent(sheet, axis)
    line = _stroke(axis.spec.get("gridcolor", "#cccccc"), 1.0)
    for position, _ in tick_values(axis):
        sheet.add(_straight(axis, axis.linear(position), start, end, **line))


def _ticks(sheet: Sheet, axis: Axis, base: Style) -> None:
    spec = axis.spec
    if spec.get("visible") is False:
        return
    cross = _crossing(sheet, axis)
    side = spec.get("side", "bottom" if axis.horizontal else "left")
    outward = 1.0 if side in ("bottom", "right") else -1.0
    if spec.get("showline"):
        line = _stroke(spec.get("linecolor", "#444444"), 1.0)
        places = [cross, *(_extent(sheet, axis) if spec.get("mirror") else ())]
        for place in dict.fromkeys(round(p, 2) for p in places):
            ends: dict[str, Any] = {"x1": axis.start, "x2": axis.end, "y1": place, "y2": place}
            if not axis.horizontal:
                ends = {"x1": place, "x2": place, "y1": axis.start, "y2": axis.end}
            sheet.add(element("line", **ends, **line))
    away = 3.0 + (float(spec.get("ticklen", 5)) if spec.get("ticks") == "outside" else 0.0)
    reach = 0.0
    if spec.get("showticklabels") is not False:
        style = _style(spec.get("tickfont"), base)
        angle = float(spec.get("tickangle") or 0)
        low, high = sorted((axis.low, axis.high))
        for position, text in tick_values(axis):
            if not low - 1e-9 <= position <= high + 1e-9:
                continue
            at = axis.linear(position)
            lines = parse(text, style)
            wide = max(line_width(line) for line in lines)
            tall = sum(line_height(line, style) for line in lines)
            if axis.horizontal:
                if angle:
                    anchor = "start" if (outward < 0) == (angle < 0) else "end"
                    sheet.add(text_element(text, at, cross + outward * (away + 4), style, anchor=anchor, angle=angle))
                    reach = max(reach, wide * abs(math.sin(math.radians(angle))) + tall)
                else:
                    vertical = "top" if outward > 0 else "bottom"
                    sheet.add(text_element(text, at, cross + outward * away, style, anchor="middle", vertical=vertical))
                    reach = max(reach, tall)
            else:
                anchor = "end" if outward < 0 else "start"
                sheet.add(text_element(text, cross + outward * away, at, style, anchor=anchor))
                reach = max(reach, wide)
    title = spec.get("title") or {}
    if title.get("text"):
        style = _style(title.get("font"), base)
        middle = (axis.start + axis.end) / 2
        gap = away + reach + float(title.get("standoff", 6))
        if axis.horizontal:
            vertical = "top" if outward > 0 else "bottom"
            sheet.add(
                text_element(title["text"], middle, cross + outward * gap, style, anchor="middle", vertical=vertical)
            )
        else:
            at = max(style.size * LINE_HEIGHT / 2, cross - gap - style.size / 2) if outward < 0 else cross + gap
            sheet.add(text_element(title["text"], at, middle, style, anchor="middle", angle=-90))


# --- traces -------------------------------------------------------------------------------------------------------


def _heatmap(sheet: Sheet, trace: Json, base: Style) -> None:
    del base
    x, y = sheet.axis_of(trace, "x"), sheet.axis_of(trace, "y")
    z = np.asarray(trace["z"], dtype=np.float64)
    colour = sheet.layout[trace["coloraxis"]] if "coloraxis" in trace else trace
    low, high = (float(colour.get(f"c{end}", colour.get(f"z{end}", k))) for k, end in enumerate(("min", "max")))
    rgb = colours_of(z, low, high, colour["colorscale"])
    columns = _edges(trace.get("x"), z.shape[1], x)
    rows = _edges(trace.get("y"), z.shape[0], y)
    x_gap, y_gap = float(trace.get("xgap", 0)), float(trace.get("ygap", 0))
    clip = sheet.clip(x, y)
    if z.size > MOST_CELLS:
        pixels = rgb if columns[-1] > columns[0] else rgb[:, ::-1]
        pixels = pixels if rows[-1] > rows[0] else pixels[::-1]
        # Several pixels a cell keep the edges sharp where a viewer smooths pictures.
        factor = max(1, min(8, 2000 // max(z.shape)))
        picture = png_bytes(np.ascontiguousarray(np.repeat(np.repeat(pixels, factor, 0), factor, 1)))
        left, top = min(columns[0], columns[-1]), min(rows[0], rows[-1])
        sheet.add(
            element(
                "image",
                x=left,
                y=top,
                width=abs(columns[-1] - columns[0]),
                height=abs(rows[-1] - rows[0]),
                preserveAspectRatio="none",
                image_rendering="optimizeSpeed",
                clip_path=clip,
                href=f"data:image/png;base64,{base64.b64encode(picture).decode('ascii')}",
            )
        )
        return
    cells = []
    for i in range(z.shape[0]):
        top, tall = min(rows[i], rows[i + 1]), abs(rows[i + 1] - rows[i])
        for j in range(z.shape[1]):
            left, wide = min(columns[j], columns[j + 1]), abs(columns[j + 1] - columns[j])
            red, green, blue = rgb[i, j]
            cells.append(
                f'<rect x="{_n(left + x_gap / 2)}" y="{_n(top + y_gap / 2)}" width="{_n(max(0.2, wide - x_gap))}" '
                f'height="{_n(max(0.2, tall - y_gap))}" fill="#{red:02x}{green:02x}{blue:02x}"/>'
            )
    sheet.add(element("g", "".join(cells), clip_path=clip, shape_rendering="crispEdges" if not x_gap else None))


def _edges(centres: Any, count: int, axis: Axis) -> list[float]:
    values = [float(k) for k in range(count)] if centres is None else [float(v) for v in _list(centres, 0)]
    if len(values) == count:
        step = values[1] - values[0] if count > 1 else 1.0
        values = [value - step / 2 for value in values] + [values[-1] + step / 2]
    return [axis(value) for value in values]


def _whiskers(sheet: Sheet, trace: Json, at: Sequence[tuple[Any, Any]], axes: tuple[Axis, Axis]) -> None:
    """Draw error bars, the ends marked by a short line."""
    for k, name in enumerate(("error_x", "error_y")):
        error = trace.get(name)
        if not error:
            continue
        if error.get("type", "data") != "data":
            raise ValueError(f"{name}: expected lengths as data, got {error.get('type')!r}")
        above = _list(error["array"], 0)
        below = _list(error.get("arrayminus"), 0) if error.get("arrayminus") is not None else above
        look = _stroke(error.get("color", "#444444"), float(error.get("thickness", 2)))
        cap = float(error.get("width", 4)) / 2
        for point, up, down in zip(at, above, below, strict=True):
            if None in (*point, up, down):
                continue
            across = axes[1 - k](point[1 - k])
            ends = [axes[k](point[k] - down), axes[k](point[k] + up)]
            strokes = [(ends[0], across, ends[1], across)]
            strokes += [(end, across - cap, end, across + cap) for end in ends]
            for one in strokes:
                x1, y1, x2, y2 = one if k == 0 else (one[1], one[0], one[3], one[2])
                sheet.add(element("line", x1=x1, y1=y1, x2=x2, y2=y2, **look))


def _bar(sheet: Sheet, trace: Json, base: Style) -> None:
    del base
    x, y = sheet.axis_of(trace, "x"), sheet.axis_of(trace, "y")
    across = trace.get("orientation") == "h"
    places = _list(trace["y" if across else "x"], 0)
    lengths = _list(trace["x" if across else "y"], 0)
    count = len(places)
    marker = trace.get("marker", {})
    colours = _list(marker.get("color", "#888888"), count)
    line = marker.get("line", {})
    bars = []
    for place, length, width, start, colour in zip(
        places, lengths, _list(trace.get("width", 0.8), count), _list(trace.get("base", 0), count), colours, strict=True
    ):
        along, over = (y, x) if across else (x, y)
        one, other = along(place - width / 2), along(place + width / 2)
        first, last = over(start), over(start + length)
        look = _fill(colour)
        if marker.get("pattern", {}).get("shape"):
            look = {"fill": _pattern(sheet, marker["pattern"], colour)}
        if line.get("width"):
            look |= {"stroke": line.get("color", "#444444"), "stroke_width": float(line["width"])}
        box: dict[str, Any] = {
            "x": min(first, last),
            "y": min(one, other),
            "width": abs(last - first),
            "height": abs(other - one),
        }
        if not across:
            box = {"x": min(one, other), "y": min(first, last), "width": abs(other - one), "height": abs(last - first)}
        bars.append(element("rect", **box, **look))
    sheet.add(element("g", "".join(bars), clip_path=sheet.clip(x, y)))
    tips = [start + length for start, length in zip(_list(trace.get("base", 0), count), lengths, strict=True)]
    _whiskers(sheet, trace, list(zip(tips, places, strict=True) if across else zip(places, tips, strict=True)), (x, y))


def _pattern(sheet: Sheet, pattern: Json, background: str) -> str:
    if pattern["shape"] != "/":
        raise ValueError(f'pattern: expected "/", got {pattern["shape"]!r}')
    size = float(pattern.get("size", 6))
    line = pattern.get("fgcolor", "#444444")
    name = f"{sheet.identity}-hatch-{line.lstrip('#')}"
    content = element("rect", width=size, height=size, fill=background) + element(
        "path",
        d=f"M0,{_n(size)} L{_n(size)},0 M-1,1 L1,-1 M{_n(size - 1)},{_n(size + 1)} L{_n(size + 1)},{_n(size - 1)}",
        stroke=line,
    )
    definition = element("pattern", content, id=name, width=size, height=size, patternUnits="userSpaceOnUse")
    if definition not in sheet.definitions:
        sheet.definitions.append(definition)
    return f"url(#{name})"


def _scatter(sheet: Sheet, trace: Json, base: Style) -> None:
    x, y = sheet.axis_of(trace, "x"), sheet.axis_of(trace, "y")
    mode = str(trace.get("mode", "lines+markers")).split("+")
    xs, ys = _list(trace.get("x", ()), 0), _list(trace.get("y", ()), 0)
    points = [None if a is None or b is None else (x(a), y(b)) for a, b in zip(xs, ys, strict=True)]
    clip = None if trace.get("cliponaxis") is False else sheet.clip(x, y)
    fill = trace.get("fill", "none")
    if fill not in ("none", "toself", "tozeroy"):
        raise ValueError(f"fill: expected toself or tozeroy, got {fill!r}")
    if fill != "none" and any(points):
        corners = [point for point in points if point is not None]
        if fill == "tozeroy":
            ground = y(0.0)
            corners = [(corners[0][0], ground), *corners, (corners[-1][0], ground)]
        outline = " ".join(_segments(corners)) + " Z"
        sheet.add(element("path", d=outline, clip_path=clip, **_fill(trace.get("fillcolor", "rgba(0,0,0,0.1)"))))
    _whiskers(sheet, trace, list(zip(xs, ys, strict=True)), (x, y))
    draw(sheet, trace, points, mode, base, clip)


def draw(
    sheet: Sheet,
    trace: Json,
    points: Sequence[tuple[float, float] | None],
    mode: Sequence[str],
    base: Style,
    clip: str | None,
) -> None:
    """Draw the lines, markers and texts of a scatter trace at points in pixels."""
    if "lines" in mode:
        line = trace.get("line", {})
        path = " ".join(_segments(points))
        if path:
            look = _stroke(line.get("color", "#444444"), float(line.get("width", 2)), line.get("dash", "solid"))
            sheet.add(element("path", d=path, stroke_linejoin="round", clip_path=clip, **look))
    if "markers" in mode:
        marker = trace.get("marker", {})
        count = len(points)
        if marker.get("opacity", 1) != 0:
            line = marker.get("line", {})
            marks = [
                mark(symbol, point, float(size), colour, float(line.get("width") or 0), float(marker.get("opacity", 1)))
                for point, symbol, size, colour in zip(
                    points,
                    _list(marker.get("symbol", "circle"), count),
                    _list(marker.get("size", 6), count),
                    _list(marker.get("color", "#444444"), count),
                    strict=True,
                )
                if point is not None
            ]
            sheet.add(element("g", "".join(marks), clip_path=clip) if marks else "")
    if "text" in mode:
        _texts(sheet, trace, points, base)


def _segments(points: Sequence[tuple[float, float] | None]) -> Iterator[str]:
    pen = "M"
    for point in points:
        if point is None:
            pen = "M"
            continue
        yield f"{pen}{_n(point[0])},{_n(point[1])}"
        pen = "L"


_SHAPES = {
    "diamond": "M0,-1.3 L1.3,0 L0,1.3 L-1.3,0 Z",
    "triangle-up": "M0,-1.15 L1.1,0.75 L-1.1,0.75 Z",
    "triangle-down": "M0,1.15 L1.1,-0.75 L-1.1,-0.75 Z",
    "cross": "M-0.4,-1 H0.4 V-0.4 H1 V0.4 H0.4 V1 H-0.4 V0.4 H-1 V-0.4 H-0.4 Z",
    "x": "M-1,-0.45 L-0.45,-1 L0,-0.55 L0.45,-1 L1,-0.45 L0.55,0 L1,0.45 L0.45,1 L0,0.55 L-0.45,1 L-1,0.45 L-0.55,0 Z",
    "cross-thin": "M-1,0 H1 M0,-1 V1",
    "x-thin": "M-1,-1 L1,1 M-1,1 L1,-1",
    "line-ns": "M0,-1 V1",
    "line-ew": "M-1,0 H1",
}
"""Outlines in units of half the size."""


def mark(symbol: str, at: tuple[float, float], size: float, colour: str, line: float, opacity: float = 1.0) -> str:
    """Return one marker, filled or open, as Plotly names them."""
    shape = symbol.removesuffix("-open")
    is_open = shape != symbol or shape.endswith("-thin") or shape.startswith("line-")
    look = _stroke(colour, line or 1.0, opacity=opacity) if is_open else _fill(colour, opacity)
    if shape == "circle":
        return element("circle", cx=at[0], cy=at[1], r=size / 2, **look)
    if shape == "square":
        return element("rect", x=at[0] - size / 2, y=at[1] - size / 2, width=size, height=size, **look)
    if shape not in _SHAPES:
        raise ValueError(f"marker: expected one of circle, square, {', '.join(_SHAPES)}, or -open, got {symbol!r}")
    if is_open:
        look["stroke_width"] = float((line or 1.0) / max(size / 2, 1e-9))
    move = f"translate({_n(at[0])},{_n(at[1])}) scale({_n(size / 2)})"
    return element("path", d=_SHAPES[shape], transform=move, **look)


def _texts(sheet: Sheet, trace: Json, points: Sequence[tuple[float, float] | None], base: Style) -> None:
    count = len(points)
    font = trace.get("textfont", {})
    sizes = _list(trace.get("marker", {}).get("size", 0), count)
    for point, text, place, colour, size in zip(
        points,
        _list(trace.get("text", ""), count),
        _list(trace.get("textposition", "middle center"), count),
        _list(font.get("color", base.colour), count),
        sizes,
        strict=True,
    ):
        if point is None or not text:
            continue
        vertical, horizontal = place.split()
        away = float(size) / 2 + 3 if "markers" in str(trace.get("mode")) else 0.0
        if vertical != "middle" and horizontal != "center":
            away *= 0.75
        across = {"left": -1, "center": 0, "right": 1}[horizontal]
        down = {"top": -1, "middle": 0, "bottom": 1}[vertical]
        sheet.add(
            text_element(
                text,
                point[0] + across * away,
                point[1] + down * away,
                Style(float(font.get("size", base.size)), colour),
                anchor={-1: "end", 0: "middle", 1: "start"}[across],
                vertical={-1: "bottom", 0: "middle", 1: "top"}[down],
                halo=sheet.layout.get("paper_bgcolor") if font.get("shadow") else None,
            )
        )


def _nothing(sheet: Sheet, trace: Json, base: Style) -> None:
    """Leave the traces of a scene to `sinkviz.export.space`, which sorts them by depth."""


_SILENT = {
    "type", "name", "customdata", "hovertemplate", "hoverinfo", "hoverlabel", "meta", "visible", "showlegend",
    "legendgroup", "legendrank", "uid", "hovertext", "hoveron",
}  # fmt: skip
"""Attributes that say nothing on paper."""
_KNOWN = {
    "scatter": {
        "x", "y", "xaxis", "yaxis", "mode", "line", "marker", "text", "textposition", "textfont", "cliponaxis",
        "error_x", "error_y", "fill", "fillcolor",
    },
    "scatter3d": {"x", "y", "z", "mode", "line", "marker", "text", "textposition", "textfont", "scene"},
    "bar": {"x", "y", "xaxis", "yaxis", "orientation", "width", "base", "marker", "error_x", "error_y"},
    "heatmap": {
        "x", "y", "z", "xaxis", "yaxis", "coloraxis", "xgap", "ygap", "colorscale", "cmin", "cmax", "zmin", "zmax",
        "showscale",
    },
}  # fmt: skip
_TRACES = {"scatter": _scatter, "bar": _bar, "heatmap": _heatmap, "scatter3d": _nothing}


# --- what stands around the plot ----------------------------------------------------------------------------------

_NUMBER = re.compile(r"-?\d+(?:\.\d+)?(?:e-?\d+)?")


def _shapes(sheet: Sheet, *, below: bool) -> None:
    for shape in sheet.layout.get("shapes", ()):
        if (shape.get("layer", "above") == "below") != below:
            continue
        line = shape.get("line", {})
        look = _stroke(line.get("color", "#444444"), float(line.get("width", 2)), line.get("dash", "solid"))
        if shape["type"] == "path":
            x, y = sheet.axes[shape.get("xref", "x")], sheet.axes[shape.get("yref", "y")]
            sheet.add(element("path", d=_path(shape["path"], x, y), **look))
        elif shape["type"] == "line":
            ends = [_place(sheet, shape, letter, name) for name in ("0", "1") for letter in ("x", "y")]
            sheet.add(element("line", x1=ends[0], y1=ends[1], x2=ends[2], y2=ends[3], **look))
        else:
            raise ValueError(f"shape: expected a path or a line, got {shape['type']!r}")


def _path(path: str, x: Axis, y: Axis) -> str:
    """Turn a path of M, C and L in data coordinates into pixels."""
    if re.search(r"[^MCLZ\s\d.,eE+-]", path):
        raise ValueError(f"shape: expected a path of M, C, L and Z, got {path!r:.60}")
    turn = 0

    def place(match: re.Match[str]) -> str:
        nonlocal turn
        turn += 1
        return _n((x if turn % 2 else y)(float(match[0])))

    return _NUMBER.sub(place, path)


def _place(sheet: Sheet, shape: Json, letter: str, name: str) -> float:
    reference = shape.get(f"{letter}ref", letter)
    value = float(shape[f"{letter}{name}"])
    if shape.get(f"{letter}sizemode") == "pixel":
        anchor = _position(sheet, reference, float(shape[f"{letter}anchor"]), letter)
        return anchor + value if letter == "x" else anchor - value
    if reference.split()[0] in sheet.axes and not reference.endswith("domain"):
        return sheet.axes[reference](value)
    return _position(sheet, reference, value, letter)


def _position(sheet: Sheet, reference: str, value: float, letter: str) -> float:
    """Return the pixel of a share of the plot, of an axis's length, or of a position on an axis."""
    if reference == "paper":
        if letter == "x":
            return sheet.left + value * (sheet.right - sheet.left)
        return sheet.bottom - value * (sheet.bottom - sheet.top)
    axis = sheet.axes[reference.split()[0]]
    return axis.start + value * (axis.end - axis.start) if reference.endswith("domain") else axis.linear(value)


_ANCHORS = {"left": "start", "center": "middle", "right": "end"}


def _annotation(sheet: Sheet, note: Json, base: Style) -> None:
    if note.get("showarrow", True):
        raise ValueError("annotation: expected one without an arrow")
    x = _position(sheet, note.get("xref", "paper"), float(note["x"]), "x") + float(note.get("xshift", 0))
    y = _position(sheet, note.get("yref", "paper"), float(note["y"]), "y") - float(note.get("yshift", 0))
    style = _style(note.get("font"), base)
    anchor = _ANCHORS[note.get("xanchor", "center")]
    text = note["text"]
    if anchor == "start":
        text = "<br>".join(_wrapped(text, style, sheet.width - x - 4))
    sheet.add(text_element(text, x, y, style, anchor=anchor, vertical=note.get("yanchor", "middle")))


def _wrapped(text: str, style: Style, room: float) -> list[str]:
    """Break a plain line at " · " where it is wider than the sheet; tags keep it whole."""
    parsed = parse(text, style)
    if len(parsed) > 1 or len({run.style for run in parsed[0]}) > 1 or line_width(parsed[0]) <= room:
        return [text]
    lines: list[str] = []
    for part in text.split(" · "):
        joined = f"{lines[-1]} · {part}" if lines else part
        if lines and line_width(parse(joined, style)[0]) <= room:
            lines[-1] = joined
        else:
            lines.append(part)
    return lines


def _title(sheet: Sheet, base: Style) -> None:
    title = sheet.layout.get("title") or {}
    if not title.get("text"):
        return
    pad = title.get("pad", {})
    style = _style(title.get("font"), base)
    first, _, rest = title["text"].partition("<br>")
    lines = [first]
    inside = re.fullmatch(r"(<span[^>]*>)(.*)(</span>)", rest)
    if inside:
        small = Style(float(re.search(r"font-size:([\d.]+)px", inside[1])[1]), style.colour)  # type: ignore[index]
        wrapped = _wrapped(inside[2], small, sheet.width - float(pad.get("l", 0)) - 6)
        lines += [f"{inside[1]}{line}{inside[3]}" for line in wrapped]
    elif rest:
        lines.append(rest)
    top = float(pad.get("t", 0)) - style.size
    sheet.add(text_element("<br>".join(lines), float(pad.get("l", 0)), top, style, vertical="top"))


def _colorbar(sheet: Sheet, base: Style) -> None:
    for name, axis in sheet.layout.items():
        if not name.startswith("coloraxis"):
            continue
        bar = axis["colorbar"]
        if bar.get("orientation") != "h":
            raise ValueError("colorbar: expected a horizontal one")
        wide = float(bar.get("len", 1)) * (sheet.right - sheet.left)
        thick = float(bar.get("thickness", 30))
        tick_style = _style(bar.get("tickfont"), base)
        title = bar.get("title", {})
        title_style = _style(title.get("font"), base)
        left = sheet.left + float(bar.get("x", 0)) * (sheet.right - sheet.left)
        # The anchor is the foot of the bar with its labels.
        foot = sheet.bottom - float(bar.get("y", 0)) * (sheet.bottom - sheet.top)
        top = foot - tick_style.size * LINE_HEIGHT - 3 - thick
        low, high = float(axis["cmin"]), float(axis["cmax"])
        stops = "".join(
            element("stop", offset=f"{100 * float(share):.4g}%", stop_color=colour)
            for share, colour in axis["colorscale"]
        )
        gradient = f"{sheet.identity}-{name}"
        sheet.definitions.append(element("linearGradient", stops, id=gradient))
        sheet.add(element("rect", x=left, y=top, width=wide, height=thick, fill=f"url(#{gradient})"))
        if bar.get("outlinewidth"):
            look = _stroke(bar.get("outlinecolor", "#444444"), float(bar["outlinewidth"]))
            sheet.add(element("rect", x=left, y=top, width=wide, height=thick, **look))
        for value, text in zip(_list(bar["tickvals"], 0), _list(bar["ticktext"], 0), strict=True):
            at = left + wide * (float(value) - low) / (high - low if high > low else 1.0)
            half = line_width(parse(text, tick_style)[0]) / 2
            at = min(max(at, left + half - 8), left + wide - half + 24)
            sheet.add(text_element(text, at, top + thick + 2, tick_style, anchor="middle", vertical="top"))
        if title.get("text"):
            sheet.add(text_element(title["text"], left, top - 2, title_style, vertical="bottom"))


def _legend(sheet: Sheet, data: Sequence[Json], base: Style) -> None:
    legend = sheet.layout.get("legend") or {}
    if sheet.layout.get("showlegend") is False:
        return
    entries = [
        trace
        for trace in data
        if trace.get("showlegend") is not False and trace.get("type") != "heatmap" and trace.get("name")
    ]
    if len(entries) < 2:
        return
    style = _style(legend.get("font"), base)
    gap, between = 6.0, 16.0
    icons = [28.0 if "lines" in str(trace.get("mode", "")) else 14.0 for trace in entries]
    sizes = [
        icon + gap + line_width(parse(str(trace["name"]), style)[0]) for icon, trace in zip(icons, entries, strict=True)
    ]
    room = sheet.width - 2 * 8
    rows: list[list[int]] = [[]]
    used = 0.0
    for k, size in enumerate(sizes):
        if rows[-1] and used + between + size > room:
            rows.append([])
            used = 0.0
        used += size + (between if rows[-1] else 0.0)
        rows[-1].append(k)
    line = style.size * 1.6
    x = _position(sheet, "paper", float(legend.get("x", 0)), "x")
    y = _position(sheet, "paper", float(legend.get("y", 1)), "y")
    top = y if legend.get("yanchor") == "top" else y - line * len(rows)
    for number_of_row, row in enumerate(rows):
        whole = sum(sizes[k] for k in row) + between * (len(row) - 1)
        left = x - whole if legend.get("xanchor") == "right" else x
        left = min(max(8.0, left), max(8.0, sheet.width - 8 - whole))
        middle = top + line * (number_of_row + 0.5) + 2
        for k in row:
            _icon(sheet, entries[k], left, middle, icons[k])
            sheet.add(text_element(str(entries[k]["name"]), left + icons[k] + gap, middle, style))
            left += sizes[k] + between


def _icon(sheet: Sheet, trace: Json, left: float, middle: float, width: float) -> None:
    mode = str(trace.get("mode", "")).split("+")
    if trace.get("type") == "bar":
        marker = trace.get("marker", {})
        colour = _list(marker.get("color", "#888888"), 1)[0]
        look = _fill(colour)
        if marker.get("pattern", {}).get("shape"):
            look = {"fill": _pattern(sheet, marker["pattern"], colour), "stroke": marker["line"]["color"]}
        sheet.add(element("rect", x=left + width / 2 - 6, y=middle - 6, width=12.0, height=12.0, **look))
        return
    if "lines" in mode:
        line = trace.get("line", {})
        look = _stroke(line.get("color", "#444444"), float(line.get("width", 2)), line.get("dash", "solid"))
        sheet.add(element("line", x1=left, y1=middle, x2=left + width, y2=middle, **look))
    if "markers" in mode:
        marker = trace.get("marker", {})
        symbol, size, colour = (
            _list(marker.get(name, default), 1)[0]
            for name, default in (("symbol", "circle"), ("size", 6), ("color", "#444444"))
        )
        sizes = [float(value) for value in _list(marker.get("size", 6), 1)]
        size = min(14.0, max(6.0, sorted(sizes)[len(sizes) // 2]))
        edge = float(marker.get("line", {}).get("width") or 0)
        sheet.add(
            mark(
                symbol.removesuffix("-open") if "lines" in mode else symbol,
                (left + width / 2, middle),
                size,
                colour,
                edge,
            )
        )


def root(
    content: str,
    width: float,
    height: float,
    *,
    font: str | None = None,
    scale: float = 1.0,
    unit: str = "px",
    title: str = "",
    description: str = "",
) -> str:
    """Return a whole SVG document.

    Args:
        content: elements, in pixels.
        width, height: of the drawing, in pixels.
        font: name of the font family; the page's if None. Others follow, for characters that it lacks.
        scale: length of one pixel of the drawing, in `unit`.
        unit: "px" or "mm".
        title, description: what screen readers say.
    """
    families = FONT if font is None else f"'{font}', {FONT}"
    families += "".join(f", '{name}'" for name in FALLBACK_FONTS if f"'{name}'" not in families)
    words = element("title", escape(title)) if title else ""
    words += element("desc", escape(description)) if description else ""
    extent = f'width="{_n(width * scale)}{unit}" height="{_n(height * scale)}{unit}"'
    return (
        '<?xml version="1.0" encoding="UTF-8"?>\n'
        f'<svg xmlns="http://www.w3.org/2000/svg" {extent} viewBox="0 0 {_n(width)} {_n(height)}" '
        f'role="img" font-family="{escape(families)}" xml:space="preserve">'
        f"{words}{content}</svg>\n"
    )
