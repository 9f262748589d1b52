"""The live view on a page: solve the ε-path, mount the view, keep its settings, and draw what stands below it."""

from __future__ import annotations

import math
import time
from collections.abc import Callable
from functools import cache
from typing import Any

import streamlit as st

from sinkviz.coupling import Coupling, Mechanism, cost_unit
from sinkviz.measure import Measure
from sinkviz.ui import printed, session, state
from sinkviz.ui.words import plain
from sinkviz.view.bundle import component_javascript

BELOW = {
    "links": "Strongest links",
    "space": "Clouds in 3-D",
    "figures": "Figures to keep",
    "session": "Session and diff",
}
_LINKS_SHOWN = 200


@st.fragment
def explorer(
    source: Measure,
    target: Measure,
    null_cost: float | None,
    encoder: str | None,
    controls: tuple[state.Control, ...],
    packed: str | None,
    in_url: bool,
) -> None:
    """Draw the live view of two measures and what belongs to it; reruns alone when a setting of the view changes.

    Args:
        source, target: the measures as they were embedded.
        null_cost: price of having no partner; None without a null partner.
        encoder: name of the trained model that makes the scores; None for the cosine.
        controls: controls of the page, for the URL.
        packed: the texts for a link; None where they are too long for one.
        in_url: whether the URL carries the texts, because a link with them was opened.
    """
    settings = state.view()
    try:
        weighted = _weighted(source, target, settings)
    except ValueError as error:
        st.error(plain(str(error)))
        weighted = (source, target)
    path, payload = _solved((source, target), weighted, null_cost, encoder, settings, packed)
    _component()(key="live", data=payload, on_settings_change=_take_settings)
    _below(path, settings)
    state.write_url(controls, packed if in_url else None)


@cache
def _component() -> Any:
    return st.components.v2.component("sinkviz_view", js=component_javascript())


def _take_settings() -> None:
    given = st.session_state["live"].get("settings")
    if isinstance(given, dict):
        state.set_view(given)


def _weighted(source: Measure, target: Measure, settings: dict[str, Any]) -> tuple[Measure, Measure]:
    from sinkviz.view.weights import chosen_weights

    chosen = settings["weights"]
    return (
        source.with_weights(chosen_weights(source, chosen["source"])),
        target.with_weights(chosen_weights(target, chosen["target"])),
    )


def _solved(
    base: tuple[Measure, Measure],
    weighted: tuple[Measure, Measure],
    null_cost: float | None,
    encoder: str | None,
    settings: dict[str, Any],
    packed: str | None,
) -> tuple[Any, bytes]:
    """Return the ε-path and the payload of the view, solved again only when the problem is another one."""
    from sinkviz.pipeline import epsilon_path
    from sinkviz.view import payload

    key = (
        id(base[0]),
        id(base[1]),
        null_cost,
        encoder,
        repr(settings["weights"]),
        st.session_state.get("view_epoch", 0),
    )
    kept = st.session_state.get("solved")
    if kept is not None and kept[0] == key and kept[1][0] is base[0] and kept[1][1] is base[1]:
        return kept[2], kept[3]
    started = time.perf_counter()
    cost = recommended = None
    if encoder is not None:
        from sinkviz.transformer.registry import get

        cost, recommended = get(encoder).load().cost(*weighted)
    path = epsilon_path(*weighted, null_cost=null_cost, cost=cost)
    if recommended is not None:
        # The ε that the encoder was trained with, in the unit of the dial.
        recommended /= cost_unit(path.cost, path.cost_scale, path.source.weights, path.target.weights) or 1.0
    seconds = time.perf_counter() - started
    origin = base[0].origin
    facts = {
        "model": f"{origin.model}, layer {origin.layer}" if origin.model else "",
        "device": path.device.upper(),
        "seconds": seconds,
        "notes": sorted({note for measure in base for note in measure.origin.notes}),
    }
    if packed is not None:
        facts["link"] = f"{state.TEXTS}={packed}"
    blob = payload.from_path(
        path,
        base=base,
        null_cost=null_cost,
        settings=settings,
        facts=facts,
        recommended=recommended,
        revision=st.session_state.get("view_epoch", 0),
    )
    st.session_state["solved"] = (key, base, path, blob)
    return path, blob


def current(path: Any, settings: dict[str, Any], *, attention: bool = False) -> Coupling:
    """Return the coupling that the left panel of the view shows, or the attention that the right one shows."""
    from sinkviz.pipeline import couple_cost, couple_half_steps
    from sinkviz.view.payload import opening_level

    common: dict[str, Any] = {"epsilon": settings["epsilon"], "null_cost": path.null_cost}
    if attention:
        solved = couple_cost(path.cost, path.source, path.target, mechanism="softmax", **common)
    elif settings["mode"] == "steps" and settings["steps"] != "inf":
        solved = couple_half_steps(path.cost, path.source, path.target, steps=settings["steps"], **common)
    elif settings["mode"] == "relaxation" and settings["relaxation"] != "inf" and path.null_cost is None:
        solved = couple_cost(
            path.cost,
            path.source,
            path.target,
            mechanism="relaxed",
            relaxation=settings["relaxation"],
            **common,
        )
    else:
        mechanism: Mechanism = "sinkhorn" if path.null_cost is None else "partial"
        solved = couple_cost(path.cost, path.source, path.target, mechanism=mechanism, **common)
    return solved.coarsen(settings["level"] or opening_level(path.source, path.target))


def _below(path: Any, settings: dict[str, Any]) -> None:
    gold = _gold_pair(path)
    options = BELOW if gold is None else BELOW | {"gold": "Gold links"}
    if st.session_state.get("below") not in options:
        st.session_state["below"] = "links"
    chosen = st.segmented_control(
        "Below the pictures",
        list(options),
        key="below",
        format_func=lambda key: options[key],
        required=True,
        label_visibility="collapsed",
        persist_state="session",
    )
    coupling, attention = current(path, settings), current(path, settings, attention=True)
    for name, one in (("Coupling", coupling), ("Attention", attention)):
        if not one.converged and (one is attention or settings["steps"] == "inf" or settings["mode"] != "steps"):
            st.error(
                f"{name}: the solver stopped before its tolerance ({one.status}). Errors of the marginals: rows "
                f"{one.row_error:.1e}, columns {one.column_error:.1e}. A larger ε converges sooner."
            )
    if chosen == "links":
        _links(coupling, attention)
    elif chosen == "space":
        _space(coupling, attention)
    elif chosen == "figures":
        _figures(path, coupling, attention)
    elif chosen == "gold":
        _gold(gold, coupling, attention)
    else:
        session.section(coupling, settings)


def _gold_pair(path: Any) -> Any:
    """Return the pair with gold links that was opened on the Evidence page, while its words are what is solved on."""
    pair = st.session_state.get("gold_pair")
    if pair is None:
        return None
    sides = (path.source, path.target)
    same = [side.text for side in sides] == [" ".join(pair.source), " ".join(pair.target)]
    return pair if same and [len(side) for side in sides] == [len(pair.source), len(pair.target)] else None


def _gold(pair: Any, coupling: Coupling, attention: Coupling) -> None:
    from sinkviz.alignment import links_from_coupling
    from sinkviz.figures.evidence import gold_matrix

    st.caption("Links that are each other's strongest partner, against those that people made.")
    for column, name, one in zip(st.columns(2), ("Coupling", "Attention"), (coupling, attention), strict=True):
        with column:
            st.caption(name)
            links = links_from_coupling(one, rule="mutual")
            _chart(
                gold_matrix(pair.source, pair.target, links, pair.sure, pair.possible, theme=_theme()), f"gold_{name}"
            )


def _links(coupling: Coupling, attention: Coupling) -> None:
    import pandas as pd

    columns = st.columns(2)
    for column, name, one in zip(columns, ("Coupling", "Attention"), (coupling, attention), strict=True):
        links = one.top_links(_LINKS_SHOWN)
        table = pd.DataFrame(
            {
                "source": [link.source_label for link in links],
                "target": [link.target_label for link in links],
                "mass, %": [100 * link.mass for link in links],
                "share of source, %": [100 * link.share_of_row for link in links],
                "share of target, %": [100 * link.share_of_column for link in links],
                "lift, ×": [math.exp(link.lift) for link in links],
            }
        )
        with column:
            st.caption(f"{name}: the {len(links):,} strongest of {one.plan.size:,} pairs")
            st.dataframe(
                table,
                hide_index=True,
                height=320,
                column_config={name: st.column_config.NumberColumn(format="%.3g") for name in table.columns[2:]},
            )


def _theme() -> Any:
    return "dark" if st.context.theme.type == "dark" else "light"


def _space(coupling: Coupling, attention: Coupling) -> None:
    from sinkviz import figures
    from sinkviz.projection import shared_projection

    projection = shared_projection(coupling.source, coupling.target, 3)
    pictures(figures.clouds, coupling, attention, projection=projection)


def _figures(path: Any, coupling: Coupling, attention: Coupling) -> None:
    from sinkviz import figures
    from sinkviz.projection import shared_projection

    st.caption("The same pictures as Plotly figures, as `sinkviz.figures` draws them in a notebook.")
    colour = state.view()["colour"]
    pictures(figures.lines, coupling, attention, share=state.view()["share"])
    if colour == "difference":
        _chart(figures.difference_heatmap(coupling, attention, theme=_theme()), "difference")
    else:
        pictures(figures.heatmap, coupling, attention, colour=colour)
    pictures(figures.received, coupling, attention)
    pictures(figures.clouds, coupling, attention, projection=shared_projection(coupling.source, coupling.target))
    _chart(
        figures.epsilon_curves([path[k] for k in range(len(path))], mark=state.view()["epsilon"], theme=_theme()),
        "curves",
    )
    printed.section(coupling, attention, key="figures", share=state.view()["share"])


def pictures(
    draw: Callable[..., Any], coupling: Coupling, attention: Coupling, prefix: str = "", **options: Any
) -> None:
    """Draw one kind of figure of coupling and attention, side by side on one scale."""
    from sinkviz.figures import side_by_side

    drawn = side_by_side(draw, coupling, attention, theme=_theme(), **options)
    for column, name, figure in zip(st.columns(2), ("Coupling", "Attention"), drawn, strict=True):
        with column:
            st.caption(name)
            _chart(figure, f"{prefix}{draw.__name__}_{name}")


def _chart(figure: Any, key: str) -> None:
    # A key of its own: two figures that happen to be equal would share an identity.
    description = figure.layout.meta["description"]
    st.plotly_chart(figure, theme=None, key=f"chart_{key}", alt=description, config={"displaylogo": False})
