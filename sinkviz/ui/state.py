"""What a session remembers, and how it meets the URL.

Three kinds of state, each with one home: the two texts (session and browser tab; in the URL only in a link that the
user asked for), the controls of the page (session and URL), and the settings of the live view (session and URL).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import streamlit as st
from streamlit.runtime.scriptrunner import get_script_run_ctx

from sinkviz.ui.link import unpack
from sinkviz.view import settings as view_settings

TEXTS = "texts"
"""URL parameter that carries the packed texts."""

_WRITTEN = "url_written"
_VIEW = "view_settings"
_NOTICE = "url_notice"


@dataclass(frozen=True)
class Control:
    """One control of a page that lives in the URL.

    Attributes:
        key: name in the session and in the URL.
        default: value that is left out of the URL.
        read: turns URL text into a value; raises ValueError for anything that is not one.
    """

    key: str
    default: Any
    read: Callable[[str], Any]


def choice(*options: Any) -> Callable[[str], Any]:
    """Return a reader that accepts the given options as the URL spells them."""

    def read(text: str) -> Any:
        for option in options:
            if str(option) == text:
                return option
        raise ValueError(f"expected one of {', '.join(map(str, options))}, got {text!r:.40}")

    return read


def number(low: float, high: float) -> Callable[[str], float]:
    """Return a reader for numbers of a range."""

    def read(text: str) -> float:
        try:
            value = float(text)
        except ValueError as error:
            raise ValueError(f"expected a number, got {text!r:.40}") from error
        if not low <= value <= high:
            raise ValueError(f"expected a number from {low} to {high}, got {text!r:.40}")
        return value

    return read


def view_defaults() -> dict[str, Any]:
    """Return the settings that the live view starts with."""
    return view_settings.defaults()


def view() -> dict[str, Any]:
    """Return the settings of the live view as they stand."""
    if _VIEW not in st.session_state:
        st.session_state[_VIEW] = view_settings.defaults()
    settings: dict[str, Any] = st.session_state[_VIEW]
    return settings


def set_view(settings: Mapping[str, Any]) -> None:
    """Replace the settings of the live view.

    Raises:
        ValueError: a value that is none.
    """
    st.session_state[_VIEW] = view_settings.validate(settings)


def renew_view() -> None:
    """Make the view take its settings from here at the next run, not from what it shows."""
    st.session_state["view_epoch"] = st.session_state.get("view_epoch", 0) + 1


def forget_atoms() -> None:
    """Drop the settings that name single atoms: after a change of text they would mean others."""
    plain = view_settings.defaults()
    kept = {name: value for name, value in view().items() if name not in _OF_ATOMS}
    set_view({**kept, **{name: plain[name] for name in _OF_ATOMS}})


_OF_ATOMS = ("source_range", "target_range", "pins", "weights")


def read_url(controls: tuple[Control, ...], set_texts: Callable[[str, str], None]) -> list[str]:
    """Take over what the URL says, when somebody followed a link or went back; return what could not be read."""
    query = st.query_params.to_dict()
    written = st.session_state.get(_WRITTEN)
    page_changed = st.session_state.pop("page_changed", False)
    # Every other request has the URL that the browser showed when it was sent. One that the last run has written may
    # still be on its way there, and the older one would undo what was just chosen.
    followed = written is None or (bool(query) if page_changed else _history_moved())
    if not followed or query == written:
        return []
    problems = []
    renew_view()
    for control in controls:
        try:
            text = query.get(control.key)
            st.session_state[control.key] = control.default if text is None else control.read(text)
        except ValueError as error:
            problems.append(f"{control.key}: {error}")
            st.session_state[control.key] = control.default
    try:
        st.session_state[_VIEW] = view_settings.from_query(query)
    except ValueError as error:
        problems.append(str(error))
        st.session_state[_VIEW] = view_settings.defaults()
    if TEXTS in query:
        try:
            set_texts(*unpack(query[TEXTS]))
        except ValueError as error:
            problems.append(str(error))
    return problems


def _history_moved() -> bool:
    """Return whether this run was asked for by the browser's Back or Forward."""
    context = get_script_run_ctx()
    return context is not None and context.is_history_navigation


def query(controls: tuple[Control, ...], packed: str | None) -> dict[str, str]:
    """Return what the URL says of the page: everything that is not as by default, the texts only where packed."""
    now = st.session_state
    result = {
        control.key: str(now[control.key])
        for control in controls
        if now.get(control.key, control.default) != control.default
    }
    result.update(view_settings.to_query(view()))
    if packed is not None:
        result[TEXTS] = packed
    return result


def write_url(controls: tuple[Control, ...], packed: str | None) -> None:
    """Make the URL say what the page shows."""
    wanted = query(controls, packed)
    if st.query_params.to_dict() != wanted:
        st.query_params.from_dict(wanted)
    st.session_state[_WRITTEN] = wanted
