"""Figures for print: each picture as SVG, PDF or PNG, of the size that a paper asks for."""

from __future__ import annotations

from typing import Any

import streamlit as st

from sinkviz.coupling import Coupling
from sinkviz.ui.words import say

TYPES = {"PDF": "application/pdf", "SVG": "image/svg+xml", "PNG": "image/png"}
NAMES = {
    "lines": "Transport lines",
    "heatmap": "Heatmap of the mass",
    "lift": "Heatmap of the lift",
    "clouds": "Clouds",
    "clouds3d": "Clouds in 3-D",
    "received": "Mass received",
    "curves": "Curves over ε",
}


def section(coupling: Coupling, attention: Coupling | None, *, key: str, share: float | None = None) -> None:
    """Draw the choices for print and the download; nothing is drawn for print before it is asked for.

    Args:
        coupling, attention: what is drawn, side by side.
        key: tells the widgets of this place from others on the page.
        share: share of the mass that lines carry.
    """
    names = list(NAMES) if coupling.f is not None else [name for name in NAMES if name != "curves"]
    with st.form(f"{key}_print", border=True):
        st.caption("For print: real letters in SVG and PDF, no network, both panels on one scale.")
        chosen = st.multiselect(
            "Pictures, below each other", names, ["lines", "heatmap"], format_func=NAMES.__getitem__
        )
        columns = st.columns(6)
        kind = str(columns[0].selectbox("Format", list(TYPES)))
        width = columns[1].number_input("Width, mm", 20.0, 2000.0, 170.0, step=5.0)
        letters = columns[2].number_input("Letters, pt", 3.0, 72.0, 8.0, step=0.5)
        dpi = columns[3].number_input("Dots per inch", 24, 2400, 300, step=50, help="PNG only.")
        theme = str(columns[4].selectbox("Theme", ["light", "dark"]))
        font = columns[5].text_input(
            "Font", placeholder="as on screen", max_chars=60, help="A family that the server has."
        )
        asked = st.form_submit_button("Make the file")
    if not asked:
        return
    try:
        data = _made(chosen, coupling, attention, kind, width, letters, float(dpi), theme, font.strip() or None, share)
    except ValueError as error:
        say(st.error, "", str(error))
        return
    name = f"sinkviz.{kind.lower()}"
    st.download_button(
        f"Download {name}, {max(1, len(data) // 1024):,} KB",
        data,
        name,
        TYPES[kind],
        key=f"{key}_file",
        on_click="ignore",
    )


def _made(
    names: list[str],
    coupling: Coupling,
    attention: Coupling | None,
    kind: str,
    width: float,
    letters: float,
    dpi: float,
    theme: Any,
    font: str | None,
    share: float | None,
) -> bytes:
    from sinkviz.export.convert import to_pdf, to_png
    from sinkviz.export.pictures import Size, picture

    if not names:
        raise ValueError("Choose at least one picture.")
    size = Size(width_mm=width, font_pt=letters)
    drawn = picture(names, coupling, attention, size=size, theme=theme, font=font, share=share)
    if kind == "SVG":
        return drawn.svg.encode("utf-8")
    return to_pdf(drawn) if kind == "PDF" else to_png(drawn, dpi=dpi)
