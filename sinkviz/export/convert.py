"""SVG to PDF and PNG, without a browser and without the network.

The converter is Typst (Apache-2.0), a typesetting system with wheels for Linux, macOS and Windows: it draws SVG with
real, embedded letters, and looks for each script among the fonts that the system has.
"""

from __future__ import annotations

from typing import Literal

from sinkviz.export.pictures import Picture

MOST_PNG_PIXELS = 100_000_000
_PAGE = """\
#set page(width: {width}pt, height: {height}pt, margin: 0pt)
#set document(title: "sinkviz", date: none)
#image(bytes(sys.inputs.svg), format: "svg", width: 100%, height: 100%)
"""


def _compiled(picture: Picture, kind: Literal["pdf", "png"], ppi: float | None = None) -> bytes:
    import typst

    page = _PAGE.format(width=f"{picture.width_pt:.3f}", height=f"{picture.height_pt:.3f}")
    return typst.compile(page.encode("utf-8"), format=kind, ppi=ppi, sys_inputs={"svg": picture.svg})


def to_pdf(picture: Picture) -> bytes:
    """Return a picture as a PDF of one page of its size, with text that can be selected.

    >>> from sinkviz.export.pictures import Picture
    >>> small = Picture('<svg xmlns="http://www.w3.org/2000/svg" width="9" height="9"/>', 9, 9, 1, "px")
    >>> to_pdf(small)[:5]
    b'%PDF-'
    """
    return _compiled(picture, "pdf")


def to_png(picture: Picture, *, dpi: float | None = None) -> bytes:
    """Return a picture as PNG.

    Args:
        picture: what `picture` drew.
        dpi: dots per inch; None = 300 for a picture with a width on paper, 192 (two dots a pixel) for one on screen.

    Raises:
        ValueError: dpi out of range, or a picture of more than 100 million dots.
    """
    chosen = (300.0 if picture.unit == "mm" else 192.0) if dpi is None else float(dpi)
    if not 24 <= chosen <= 2400:
        raise ValueError(f"dpi: expected a number from 24 to 2400, got {dpi}")
    dots = picture.width_pt / 72 * chosen * picture.height_pt / 72 * chosen
    if dots > MOST_PNG_PIXELS:
        raise ValueError(
            f"dpi: expected at most {MOST_PNG_PIXELS:,} dots, got {dots:,.0f}; take fewer or write SVG or PDF"
        )
    return _compiled(picture, "png", chosen)
