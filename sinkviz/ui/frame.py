"""Page configuration and navigation, and the way back into them from a deep link."""

from __future__ import annotations

import html
from pathlib import Path

import streamlit as st

from sinkviz.resources import asset_path

PAGES = {"compare": "Compare", "inside": "Inside", "theorem": "Theorem", "evidence": "Evidence", "batch": "Batch"}
"""File name in pages/ → title, in the order of the navigation; the first one is the start page."""

TAGLINE = "two texts, one coupling, and what attention makes of the same scores"
_FRAMED = "frame_ran"
_WANTED = "wanted_page"


def run() -> None:
    """Draw the frame and the page that was asked for."""
    st.set_page_config(
        page_title="sinkviz", page_icon=str(asset_path("icon.svg")), layout="wide", initial_sidebar_state="collapsed"
    )
    pages = [
        st.Page(f"pages/{name}.py", title=title, default=position == 0)
        for position, (name, title) in enumerate(PAGES.items())
    ]
    page = st.navigation(pages, position="top")
    st.session_state[_FRAMED] = True
    if _WANTED in st.session_state:
        name, query = st.session_state.pop(_WANTED)
        if name in PAGES:
            st.switch_page(f"pages/{name}.py", query_params=query)
    st.html(f"<style>{asset_path('frame.css').read_text(encoding='utf-8')}</style>")
    st.html(f'<header class="sinkviz-head"><strong>sinkviz</strong> <span>{html.escape(TAGLINE)}</span></header>')
    page.run()


def enter(file: str) -> None:
    """Make sure that the frame is there, and notice a change of page: every page calls this first.

    Until app.py has run once, a server that was just started runs a deep link to a page without the frame. Then the
    wanted page is remembered, app.py runs, and it switches back with the same query.
    """
    if _FRAMED not in st.session_state:
        st.session_state[_WANTED] = (Path(file).stem, st.query_params.to_dict())
        st.switch_page("app.py")
    # It stays until the page has taken note of it: another request may end this run before that.
    if st.session_state.get("page_shown") not in (None, file):
        st.session_state["page_changed"] = True
    st.session_state["page_shown"] = file
