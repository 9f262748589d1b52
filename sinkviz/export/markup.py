"""Text of the figures as SVG: the few tags that the figures use, everything else as plain characters."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from html.parser import HTMLParser

from sinkviz.figures.labels import text_width

# What XML 1.0 cannot hold at all, and marks of direction that renderers draw as boxes: each label is an element of
# its own, so it cannot reorder its neighbours.
_UNPRINTABLE = re.compile("[^\t\n\r\u0020-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]|[\u2066-\u2069\u202a-\u202e]")
_ESCAPES = str.maketrans({"&": "&amp;", "<": "&lt;", ">": "&gt;", '"': "&quot;", "'": "&#39;"})
LINE_HEIGHT = 1.3


def escape(text: str) -> str:
    """Return text for an SVG element or attribute; characters that XML cannot hold become U+FFFD.

    >>> escape("<b> & \\x00")
    '&lt;b&gt; &amp; \ufffd'
    """
    return _UNPRINTABLE.sub(
        lambda match: "" if match[0] > "\u2000" and match[0] < "\u2070" else "\ufffd", text
    ).translate(_ESCAPES)


@dataclass(frozen=True)
class Style:
    """How a run of text looks."""

    size: float
    colour: str
    bold: bool = False
    italic: bool = False


@dataclass(frozen=True)
class Run:
    """Characters of one style."""

    text: str
    style: Style

    @property
    def width(self) -> float:
        """Estimated width in pixels."""
        return text_width(self.text) * self.style.size * (1.06 if self.style.bold else 1.0)


class _Parser(HTMLParser):
    def __init__(self, style: Style) -> None:
        super().__init__(convert_charrefs=True)
        self.lines: list[list[Run]] = [[]]
        self.stack: list[tuple[str, Style]] = [("", style)]

    def handle_starttag(self, tag: str, attributes: Sequence[tuple[str, str | None]]) -> None:
        style = self.stack[-1][1]
        if tag == "br":
            self.lines.append([])
            return
        if tag == "b":
            style = replace(style, bold=True)
        elif tag == "i":
            style = replace(style, italic=True)
        elif tag == "span":
            for entry in (dict(attributes).get("style") or "").split(";"):
                key, _, value = entry.partition(":")
                if key.strip() == "font-size":
                    style = replace(style, size=float(value.strip().removesuffix("px")))
                elif key.strip() == "color":
                    style = replace(style, colour=value.strip())
        else:
            raise ValueError(f"text: expected b, i, br or span, got the tag {tag!r}")
        self.stack.append((tag, style))

    def handle_endtag(self, tag: str) -> None:
        if len(self.stack) > 1 and self.stack[-1][0] == tag:
            self.stack.pop()

    def handle_data(self, data: str) -> None:
        self.lines[-1].append(Run(data, self.stack[-1][1]))


def parse(text: str, style: Style) -> list[list[Run]]:
    """Return the lines of a figure's text as runs.

    >>> [[run.text for run in line] for line in parse("<b>a</b> &lt;b&gt;<br>c", Style(12, "#000"))]
    [['a', ' <b>'], ['c']]
    """
    if "<" not in text and "&" not in text:
        return [[Run(text, style)]]
    parser = _Parser(style)
    parser.feed(text)
    parser.close()
    return parser.lines


def line_width(line: Sequence[Run]) -> float:
    """Return the estimated width of a line in pixels."""
    return sum(run.width for run in line)


def line_height(line: Sequence[Run], style: Style) -> float:
    """Return the height of a line in pixels."""
    return LINE_HEIGHT * max((run.style.size for run in line), default=style.size)


def text_element(
    text: str,
    x: float,
    y: float,
    style: Style,
    *,
    anchor: str = "start",
    vertical: str = "middle",
    angle: float = 0.0,
    halo: str | None = None,
) -> str:
    """Return the SVG of one text.

    Args:
        text: with the figures' tags.
        x, y: where it stands, in pixels.
        style: of what has no tags.
        anchor: "start", "middle" or "end" at x.
        vertical: "top", "middle" or "bottom" of all lines at y.
        angle: degrees, clockwise, about (x, y).
        halo: colour behind the letters.
    """
    lines = parse(text, style)
    heights = [line_height(line, style) for line in lines]
    top = {"top": 0.0, "middle": -sum(heights) / 2, "bottom": -sum(heights)}[vertical]
    parts = []
    for line, height in zip(lines, heights, strict=True):
        size = max((run.style.size for run in line), default=style.size)
        # The baseline sits where the middle of the small letters is the middle of the line.
        baseline = top + height / 2 + 0.35 * size
        top += height
        spans = "".join(_span(run, style) for run in line)
        if not spans:
            continue
        attributes: dict[str, str] = {
            "x": _n(x),
            "y": _n(y + baseline),
            "fill": style.colour,
            "font-size": _n(style.size),
        }
        if anchor != "start":
            attributes["text-anchor"] = anchor
        if style.bold:
            attributes["font-weight"] = "bold"
        if angle:
            attributes["transform"] = f"rotate({_n(angle)} {_n(x)} {_n(y)})"
        if halo:
            attributes |= {"stroke": halo, "stroke-width": "3", "stroke-linejoin": "round", "paint-order": "stroke"}
        parts.append(f"<text{written(attributes)}>{spans}</text>")
    return "".join(parts)


def _span(run: Run, base: Style) -> str:
    style = run.style
    attributes = {}
    if style.size != base.size:
        attributes["font-size"] = _n(style.size)
    if style.colour != base.colour:
        attributes["fill"] = style.colour
    if style.bold and not base.bold:
        attributes["font-weight"] = "bold"
    if style.italic and not base.italic:
        attributes["font-style"] = "italic"
    words = escape(run.text)
    return f"<tspan{written(attributes)}>{words}</tspan>" if attributes else words


def written(attributes: Mapping[str, str]) -> str:
    """Return attributes as XML spells them, values escaped."""
    return "".join(f' {name}="{escape(value)}"' for name, value in attributes.items())


def _n(value: float) -> str:
    return f"{value:.2f}".rstrip("0").rstrip(".")
