"""Every picture by name, alone or beside attention, at a size in pixels or on paper."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal, get_args

from sinkviz.coupling import Coupling
from sinkviz.figures.palette import FONT_SIZE, ThemeName, palette

if TYPE_CHECKING:
    import plotly.graph_objects as go

    from sinkviz.session import Difference

PictureName = Literal["lines", "heatmap", "lift", "difference", "clouds", "clouds3d", "received", "curves"]
PICTURES: tuple[PictureName, ...] = get_args(PictureName)

PIXELS_PER_MM = 96 / 25.4
POINTS_PER_PIXEL = 0.75
MOST_PIXELS = 20_000
_PAIRED = ("lines", "heatmap", "lift", "clouds", "clouds3d", "received")
_GAP = 12.0


@dataclass(frozen=True)
class Size:
    """How large a picture is.

    Attributes:
        width: of one panel in pixels on screen, 200 to 20,000.
        width_mm: of the whole picture on paper; then `width` follows from it and from `font_pt`.
        font_pt: size of the letters on paper, in points; with `width_mm` only.
        height: of one panel in pixels; None = what the picture needs.

    Raises:
        ValueError: sizes out of range, or font_pt without width_mm.

    >>> Size(width_mm=80, font_pt=7.5).canvas(1)
    393.0...
    """

    width: float = 660.0
    width_mm: float | None = None
    font_pt: float | None = None
    height: float | None = None

    def __post_init__(self) -> None:
        for name, value, low, high in (
            ("width", self.width, 200, MOST_PIXELS),
            ("width_mm", self.width_mm, 20, 2000),
            ("font_pt", self.font_pt, 3, 72),
            ("height", self.height, 120, MOST_PIXELS),
        ):
            if value is not None and not low <= value <= high:
                raise ValueError(f"{name}: expected a number from {low} to {high}, got {value}")
        if self.font_pt is not None and self.width_mm is None:
            raise ValueError("font_pt: give the width on paper (width_mm) too")
        if self.width_mm is not None and not 200 <= self.canvas(1) <= MOST_PIXELS:
            raise ValueError(
                f"width_mm: {self.width_mm:g} mm has no room for letters of {self.font_pt or 8:g} pt; "
                "make it wider or the letters smaller"
            )

    @property
    def scale(self) -> float:
        """Millimetres on paper for one pixel of the drawing, or 1 on screen."""
        if self.width_mm is None:
            return 1.0
        return (8.0 if self.font_pt is None else self.font_pt) / (FONT_SIZE * POINTS_PER_PIXEL) / PIXELS_PER_MM

    @property
    def unit(self) -> str:
        """Unit of `scale`."""
        return "px" if self.width_mm is None else "mm"

    def canvas(self, panels: int) -> float:
        """Return the width of each of `panels` panels side by side, in pixels of the drawing."""
        if self.width_mm is None:
            return float(self.width)
        return (self.width_mm / self.scale - _GAP * (panels - 1)) / panels


@dataclass(frozen=True)
class Picture:
    """One drawn SVG.

    Attributes:
        svg: the document.
        width, height: of the drawing in pixels.
        scale, unit: length of one pixel of the drawing.
    """

    svg: str
    width: float
    height: float
    scale: float
    unit: str

    @property
    def width_pt(self) -> float:
        """Width on paper in points; on screen a pixel is ¾ point."""
        return self.width * self.scale * (POINTS_PER_PIXEL if self.unit == "px" else POINTS_PER_PIXEL * PIXELS_PER_MM)

    @property
    def height_pt(self) -> float:
        """Height on paper in points."""
        return self.height * self.width_pt / self.width


def check_names(names: Sequence[str]) -> tuple[PictureName, ...]:
    """Return names of pictures.

    Raises:
        ValueError: none, or one that does not exist; the message lists those there are.
    """
    wrong = [name for name in names if name not in PICTURES]
    if wrong or not names:
        raise ValueError(f"picture: expected one of {', '.join(PICTURES)}, got {', '.join(map(repr, wrong)) or 'none'}")
    return tuple(name for name in PICTURES for given in names if given == name)


def figures(
    name: PictureName,
    coupling: Coupling,
    attention: Coupling | None = None,
    *,
    theme: ThemeName = "light",
    width: float = 660.0,
    height: float | None = None,
    share: float | None = None,
    cancelled: Callable[[], bool] | None = None,
) -> list[go.Figure]:
    """Return the figures of one picture: of the coupling, and of attention on the same scale if it is given.

    Raises:
        ValueError: "difference" without attention, curves of a coupling that has no ε, an unknown name.
    """
    from sinkviz import figures as draw

    options: dict[str, Any] = {"theme": theme, "width": int(width)}
    if height is not None and name != "lines":
        options["height"] = int(height)
    if share is not None and name in ("lines", "clouds", "clouds3d"):
        options["share"] = share
    both = [coupling] if attention is None else [coupling, attention]
    if name in _PAIRED:
        options["scale"] = draw.shared_scale(*both)
    if name == "lines":
        return [draw.lines(one, **options) for one in both]
    if name in ("heatmap", "lift"):
        return [draw.heatmap(one, colour="mass" if name == "heatmap" else "lift", **options) for one in both]
    if name == "received":
        return [draw.received(one, **options) for one in both]
    if name in ("clouds", "clouds3d"):
        from sinkviz.projection import shared_projection

        plane = shared_projection(coupling.source, coupling.target, 3 if name == "clouds3d" else 2)
        return [draw.clouds(one, plane, **options) for one in both]
    if name == "difference":
        if attention is None:
            raise ValueError("difference: it needs attention beside the coupling")
        return [draw.difference_heatmap(coupling, attention, **options)]
    return [draw.epsilon_curves(*_path(coupling, cancelled), **options)]


def _path(coupling: Coupling, cancelled: Callable[[], bool] | None) -> tuple[list[Coupling]]:
    from sinkviz.pipeline import epsilon_path

    solved = coupling.solved or coupling
    path = epsilon_path(solved.source, solved.target, cost=solved.cost, null_cost=solved.null_cost, cancelled=cancelled)
    unit = coupling.source.unit
    return ([path[k].coarsen(unit) for k in range(len(path))],)


def picture(
    names: Sequence[str],
    coupling: Coupling,
    attention: Coupling | None = None,
    *,
    size: Size | None = None,
    theme: ThemeName = "light",
    font: str | None = None,
    share: float | None = None,
) -> Picture:
    """Draw one or more pictures of a coupling as one SVG: below each other, attention at the right.

    Args:
        names: from `PICTURES`.
        coupling: what is drawn.
        attention: what is drawn beside it on the same scale, if anything.
        size: width, and letters for paper.
        theme: "light" or "dark".
        font: family that comes first; the page's own if None.
        share: share of the mass that lines carry; the pictures' own default if None.

    Raises:
        ValueError: an unknown name or theme, a size without room.
    """
    size = size or Size()
    panels = 1 if attention is None else 2
    chosen = check_names(names)
    wide = size.canvas(panels)
    if wide < 200:
        raise ValueError(
            f"width: expected room for {panels} panels of 200 px, got {wide:.0f} px for each; make it wider"
        )
    rows = [
        figures(
            name,
            coupling,
            attention,
            theme=theme,
            width=wide if name in _PAIRED else panels * wide + (panels - 1) * _GAP,
            height=size.height,
            share=share,
        )
        for name in chosen
    ]
    return compose(rows, size=size, theme=theme, font=font)


def picture_of_difference(
    change: Difference, *, size: Size | None = None, theme: ThemeName = "light", font: str | None = None
) -> Picture:
    """Draw the difference of two runs on the same atoms as a heatmap.

    Raises:
        ValueError: runs between different atoms, whose difference is a table on the common ones.
    """
    from sinkviz.figures import difference_heatmap

    if not change.complete:
        raise ValueError("difference: expected two runs between the same atoms; write the table instead")
    size = size or Size()
    figure = difference_heatmap(change.second, change.first, theme=theme, width=int(size.canvas(1)))
    return compose([[figure]], size=size, theme=theme, font=font)


def compose(
    rows: Sequence[Sequence[go.Figure]],
    *,
    size: Size | None = None,
    theme: ThemeName = "light",
    font: str | None = None,
) -> Picture:
    """Set figures into rows on one sheet.

    Args:
        rows: figures side by side, each with a width.
        size: for the scale on paper.
        theme: for the background.
        font: family that comes first.
    """
    from sinkviz.export.vector import element, figure_to_svg, root

    size = size or Size()
    parts: list[str] = []
    top = widest = 0.0
    words: list[str] = []
    for i, row in enumerate(rows):
        left = tallest = 0.0
        for k, figure in enumerate(row):
            wide, tall = float(figure.layout.width or 660), float(figure.layout.height or 450)
            inside = figure_to_svg(figure, width=wide, height=tall, identity=f"p{i}{k}")
            parts.append(element("g", inside, transform=f"translate({left:g},{top:g})"))
            left += wide + _GAP
            tallest = max(tallest, tall)
            words.append(str((figure.layout.meta or {}).get("description", "")))
        widest = max(widest, left - _GAP)
        top += tallest + _GAP
    height = top - _GAP
    # Panels have whole pixels; what that leaves over must not change the width on paper.
    scale = size.scale if size.width_mm is None else size.width_mm / widest
    background = element("rect", width=widest, height=height, fill=palette(theme).card)
    svg = root(
        background + "".join(parts),
        widest,
        height,
        font=font,
        scale=scale,
        unit=size.unit,
        title="sinkviz",
        description=" ".join(word for word in words if word),
    )
    return Picture(svg, widest, height, scale, size.unit)
