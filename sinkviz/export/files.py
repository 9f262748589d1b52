"""One function that writes a coupling in the format that a file's name asks for."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from sinkviz.coupling import Coupling
from sinkviz.figures.palette import ThemeName

FORMATS = {
    ".npz": "plan, cost, potentials, weights and labels for NumPy",
    ".csv": "links as comma-separated values",
    ".tsv": "links as tab-separated values",
    ".json": "session: texts, settings, status",
    ".svg": "picture",
    ".pdf": "picture",
    ".png": "picture",
    ".html": "the live view in one file that needs no network",
}


def check_format(path: str | Path) -> str:
    """Return the suffix that says which format a file has.

    Raises:
        ValueError: an unknown one; the message lists those there are.

    >>> check_format("figure.SVG")
    '.svg'
    """
    suffix = Path(path).suffix.lower()
    if suffix not in FORMATS:
        raise ValueError(f"{path}: expected a name that ends in {', '.join(FORMATS)}, got {suffix or 'no ending'}")
    return suffix


def export(
    coupling: Coupling,
    path: str | Path,
    *,
    attention: Coupling | None = None,
    pictures: Sequence[str] = ("lines",),
    width: float = 660.0,
    width_mm: float | None = None,
    font_pt: float | None = None,
    height: float | None = None,
    dpi: float | None = None,
    theme: ThemeName = "light",
    font: str | None = None,
    share: float | None = None,
    links: int | None = None,
    keep_plan: bool = False,
    encoder: str | None = None,
    spreadsheet_safe: bool = False,
) -> str:
    """Write a coupling to a file; its ending says how: .npz, .csv, .tsv, .json, .svg, .pdf, .png or .html.

    Args:
        coupling: what is written.
        path: where; the file is there whole or not at all.
        attention: drawn beside the coupling in pictures.
        pictures: names from `PICTURES`, below each other.
        width: of a panel in pixels.
        width_mm: of the whole picture on paper; the letters have `font_pt` points then (8 if None).
        height: of a panel in pixels; None = what the picture needs.
        dpi: dots per inch of a PNG.
        theme: "light" or "dark".
        font: family of the letters.
        share: share of the mass that the lines of pictures carry.
        links: how many of the strongest links a table holds; None = every pair with at least 1 % of its row.
        keep_plan: store the plan in a session.
        encoder: name of the trained model that made the cost, for a session.
        spreadsheet_safe: mark text cells of tables that a spreadsheet would take for formulas.

    Returns:
        A line that says what was written.

    Raises:
        ValueError: an unknown ending, or options out of range.
        OSError: the file cannot be written.
    """
    from sinkviz.files import write_whole

    suffix = check_format(path)
    said = FORMATS[suffix]
    if suffix == ".npz":
        from sinkviz.export.tables import plan_npz

        data = plan_npz(coupling)
    elif suffix in (".csv", ".tsv"):
        from sinkviz.export.tables import links_csv

        chosen = coupling.links(share=0.01) if links is None else coupling.top_links(links)
        table = links_csv(chosen, separator="\t" if suffix == ".tsv" else ",", safe=spreadsheet_safe)
        data = table.encode("utf-8")
        carried = sum(link.mass for link in chosen)
        said = f"{len(chosen):,} of {coupling.plan.size:,} pairs, {100 * carried:.3g} % of the mass"
    elif suffix == ".json":
        from sinkviz.session import Session, dumps

        data = dumps(Session.of(coupling, encoder=encoder, keep_plan=keep_plan)).encode("utf-8")
    elif suffix == ".html":
        from sinkviz.view.html import offline_html
        from sinkviz.view.payload import from_coupling

        data = offline_html(from_coupling(coupling)).encode("utf-8")
    else:
        from sinkviz.export.pictures import Size, picture

        size = Size(width=width, width_mm=width_mm, font_pt=font_pt, height=height)
        drawn = picture(pictures, coupling, attention, size=size, theme=theme, font=font, share=share)
        said = ", ".join(pictures)
        if suffix == ".svg":
            data = drawn.svg.encode("utf-8")
        else:
            from sinkviz.export.convert import to_pdf, to_png

            data = to_pdf(drawn) if suffix == ".pdf" else to_png(drawn, dpi=dpi)
    write_whole(path, data)
    return f"{path}: {said}"
