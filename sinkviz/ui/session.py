"""Session files and the diff of two runs on the Compare page."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import streamlit as st

from sinkviz.coupling import Coupling
from sinkviz.ui import state
from sinkviz.ui.words import count, plain, say

_KEPT = "kept_runs"
_MOST_KEPT = 8
_PRESENT = "the present run"


@dataclass(frozen=True, eq=False)
class Kept:
    """A run that was set aside to compare with."""

    name: str
    coupling: Coupling


def section(coupling: Coupling, settings: dict[str, Any]) -> None:
    """Draw the session file's download and the diff with another run.

    Args:
        coupling: what the left panel shows.
        settings: settings of the live view.
    """
    from sinkviz.session import Session, dumps

    left, right = st.columns(2)
    with left:
        st.subheader("Session file")
        st.caption("Texts, weights, settings, versions and status in one JSON; the command line opens it too.")
        keep = st.checkbox("With the plan", key="session_plan", help="11 bytes for each pair.")
        try:
            text = dumps(Session.of(coupling, keep_plan=keep, view=settings))
        except ValueError as error:
            say(st.error, "", str(error))
        else:
            st.download_button("Save session", text, "session.json", "application/json", on_click="ignore")
    with right:
        st.subheader("Diff")
        st.caption("Set this run aside, change a setting or the target, and see what moved.")
        kept: list[Kept] = st.session_state.setdefault(_KEPT, [])
        st.button("Set this run aside", key="session_keep", on_click=_keep, args=(coupling,))
        st.file_uploader("Or compare with a session file", type=["json"], key="session_other", on_change=_take_other)
        problem = st.session_state.pop("session_problem", None)
        if problem:
            say(st.error, "", problem)
    if kept:
        _diff(coupling, kept)


def _name(coupling: Coupling) -> str:
    source = " ".join(coupling.source.text[:30].split())
    target = " ".join(coupling.target.text[:30].split())
    strength = f"ε {coupling.epsilon_relative:.3g}" if coupling.cost_scale > 0 else f"ε {coupling.epsilon:.3g}"
    return f"{coupling.mechanism}, {strength}, layer {coupling.source.origin.layer}: {source} × {target}"


def _add(coupling: Coupling) -> None:
    kept: list[Kept] = st.session_state.setdefault(_KEPT, [])
    st.session_state[_KEPT] = [Kept(f"{len(kept) + 1}. {_name(coupling)}", coupling), *kept][:_MOST_KEPT]


def _keep(coupling: Coupling) -> None:
    _add(coupling)


def _take_other() -> None:
    from sinkviz.session import loads

    uploaded = st.session_state.get("session_other")
    if uploaded is None:
        return
    try:
        _add(loads(uploaded.getvalue()).run())
    except ValueError as error:
        st.session_state["session_problem"] = f"{uploaded.name}: {error}"


def _diff(coupling: Coupling, kept: list[Kept]) -> None:
    import pandas as pd

    from sinkviz.figures.change import change_heatmap
    from sinkviz.session import difference

    names = [run.name for run in kept]
    chosen = st.selectbox("First run (the second is the present one)", names, key="session_first")
    first = kept[names.index(chosen)].coupling
    try:
        change = difference(first, coupling)
    except ValueError as error:
        say(st.error, "", str(error))
        return
    if not change.complete:
        st.caption(
            f"In common: {count(len(change.source_pairs), 'source atom')} and "
            f"{count(len(change.target_pairs), 'target atom')}; what is not common counts as one place."
        )
    st.markdown(
        f"**{100 * change.distance:.3g} %** of the mass moved. "
        + " · ".join(f"{plain(name)} {before:.3g} → {after:.3g}" for name, before, after in change.facts)
    )
    theme: Any = "dark" if st.context.theme.type == "dark" else "light"
    left, right = st.columns([3, 2])
    with left:
        figure = change_heatmap(change.matrix, change.source_labels, change.target_labels, theme=theme)
        st.plotly_chart(figure, theme=None, alt=figure.layout.meta["description"], config={"displaylogo": False})
    with right:
        for side in ("source", "target"):
            st.caption(f"{side.capitalize()} atoms that moved most")
            moved = change.most_moved(side, 8)
            st.dataframe(
                pd.DataFrame(
                    {
                        side: [one.label for one in moved],
                        "share moved, %": [100 * one.share for one in moved],
                        "gained": [one.gained for one in moved],
                        "lost": [one.lost for one in moved],
                    }
                ),
                hide_index=True,
                column_config={"share moved, %": st.column_config.NumberColumn(format="%.3g")},
            )


def opened(data: bytes) -> tuple[str, str, dict[str, Any], dict[str, Any]]:
    """Return what a session file says: both texts, controls of the page, and settings of the live view.

    Raises:
        ValueError: a damaged, foreign or newer file, or one that this page cannot show; nothing is changed then.
    """
    from sinkviz.embedding import known_models
    from sinkviz.session import loads

    session = loads(data)
    settings = session.settings
    if session.own is not None:
        raise ValueError("session: expected one of two texts, got points or a cost of somebody's own")
    if settings.model not in [model.name for model in known_models()]:
        raise ValueError(f"session: its model {settings.model!r} is not among those of this page")
    unit = 1.0
    if settings.epsilon_unit == "absolute":
        if session.result is None:
            raise ValueError("session: expected a result with the cost's scale beside an absolute ε, got none")
        unit = session.result.cost_scale or 1.0
    view = {**state.view_defaults(), **session.view}
    if settings.epsilon is not None and session.result is not None and session.result.cost_scale > 0:
        view["epsilon"] = settings.epsilon / unit
    if settings.mechanism == "softmax":
        view |= {"mode": "steps", "steps": 0.5}
    elif settings.mechanism == "relaxed":
        view |= {"mode": "relaxation", "relaxation": (settings.relaxation or 0.0) / unit}
    if session.shown_as is not None:
        view["level"] = session.shown_as
    controls: dict[str, Any] = {
        "model": settings.model,
        "layer": "default" if settings.layer is None else settings.layer,
        "unit": settings.unit,
        "centre": settings.centre,
        "baseline": "pasted",
        "mechanism": "sinkhorn" if settings.null_cost is None else "partial",
    }
    if settings.null_cost is not None:
        controls["null_cost"] = settings.null_cost
    source, target = (text if isinstance(text, str) else " ".join(text) for text in (session.source, session.target))
    return source, target, controls, view
