"""Texts too long for the live view: what a solve will take, the solve beside the page, sentences, and pairs to open."""

from __future__ import annotations

from typing import Any

import streamlit as st

from sinkviz.long import LongCoupling, couple_long, foresee
from sinkviz.measure import Measure
from sinkviz.ui import jobs, printed
from sinkviz.ui.words import plain

EPSILONS = (0.1, 0.15, 0.2, 0.25, 0.35, 0.5, 0.7, 1.0, 1.5, 2.0, 3.0, 5.0, 10.0)
MOST_SENTENCES = 500
"""Sentences along a side of a heatmap; more make cells that no screen shows and a picture of many megabytes."""
_PAIRS_SHOWN = 300
_JOB = "long"


def section(source: Measure, target: Measure) -> None:
    """Draw everything about a pair of long texts."""
    now = st.session_state
    now.setdefault("long_epsilon", 0.35)
    epsilon = float(
        st.select_slider(
            "ε in σ(cost)",
            EPSILONS,
            key="long_epsilon",
            help="0.35 is recommended. Smaller ε sharpens the coupling and takes longer.",
            persist_state="session",
        )
    )
    foreseen = foresee(source, target, epsilon=epsilon)
    way = "in tiles, because the matrix would not fit" if foreseen.tiled else "with the whole matrix in float32"
    st.info(
        f"{len(source):,} × {len(target):,} {source.unit}s = {foreseen.pairs / 1e6:,.1f} million pairs are more than "
        f"the live view can hold. They are solved at one ε, {way}, and shown by sentence as exact sums; a pair of "
        f"sentences opens into its words. Needs about {_megabytes(foreseen.memory)} and {_time(foreseen.seconds)}; the "
        "page stays usable meanwhile. Scores are cosines, every word has a partner."
    )
    key = (source.text, target.text, source.unit, source.origin, epsilon)
    job = jobs.find(_JOB)
    if st.button("Solve", type="primary", key="long_solve", disabled=job is not None and job.active):
        now["long_key"] = key
        job = jobs.start(
            _JOB,
            lambda progress, cancelled: couple_long(
                source, target, epsilon=epsilon, progress=progress, cancelled=cancelled
            ),
        )
    jobs.watch(_JOB)
    if job is None or job.active:
        return
    if job.status == "failed":
        st.error(plain(f"The solve failed: {job.error}"))
    elif job.status == "stopped":
        st.warning("The solve was stopped; nothing was kept.")
    if isinstance(job.result, LongCoupling):
        if now.get("long_key") != key:
            st.warning("This picture belongs to earlier texts or another ε: press *Solve* to draw it anew.")
        _result(job.result)


def _megabytes(count: int) -> str:
    return f"{count / 2**20:,.0f} MB" if count >= 2**20 else "less than 1 MB"


def _time(seconds: float) -> str:
    return f"{seconds:.0f} s" if seconds < 90 else f"{seconds / 60:.0f} minutes"


def _result(found: LongCoupling) -> None:
    from sinkviz import figures
    from sinkviz.ui.live import pictures

    coupling, attention = found.sentences(), found.attention()
    if not found.converged:
        st.error(
            f"The solver stopped before its tolerance ({found.status}). Errors of the marginals: rows "
            f"{found.row_error:.1e}, columns {found.column_error:.1e}. A larger ε converges sooner."
        )
    facts = (
        (f"{found.mutual_information:.3g} nat", "mutual information", "on all pairs of atoms"),
        (f"{found.transport_cost:.3g}", "mean transport cost", f"attention {found.attention_cost:.3g}"),
        (f"{100 * found.received_distance:.0f} %", "of attention's mass misses the target's weights", ""),
        (f"{found.row_error:.0e}, {found.column_error:.0e}", "errors of rows and columns", found.status),
        (f"{found.iterations:,}", "passes" if found.tiled else "iterations", "in tiles" if found.tiled else "dense"),
    )
    for column, (value, what, more) in zip(st.columns(len(facts)), facts, strict=True):
        with column, st.container(border=True):
            st.markdown(f"**{value}**")
            st.caption(f"{what} · {more}" if more else what)
    if max(coupling.shape) <= MOST_SENTENCES:
        pictures(figures.heatmap, coupling, attention, prefix="long")
    else:
        rows, columns = coupling.shape
        st.caption(f"{rows:,} × {columns:,} sentences are too many for a heatmap; the strongest pairs are below.")
    _pairs(found, coupling, attention)


def _pairs(found: LongCoupling, coupling: Any, attention: Any) -> None:
    import pandas as pd

    from sinkviz import figures
    from sinkviz.ui.live import pictures

    opens = "sentence" not in (found.source.unit, found.target.unit)
    links = coupling.top_links(_PAIRS_SHOWN)
    table = pd.DataFrame(
        {
            "source sentence": [link.source_label for link in links],
            "target sentence": [link.target_label for link in links],
            "mass, %": [100 * link.mass for link in links],
            "share of source, %": [100 * link.share_of_row for link in links],
            "attention's share, %": [
                100
                * attention.plan[link.source_index, link.target_index]
                / max(attention.given[link.source_index], 1e-300)
                for link in links
            ],
        }
    )
    st.caption(
        f"The {len(links):,} strongest of {coupling.plan.size:,} pairs of sentences."
        + (" Choose one to open its words." if opens else "")
    )
    event: Any = st.dataframe(
        table,
        hide_index=True,
        height=320,
        key="long_pairs",
        on_select="rerun" if opens else "ignore",
        selection_mode="single-row",
        column_config={name: st.column_config.NumberColumn(format="%.3g") for name in table.columns[2:]},
    )
    chosen = event["selection"]["rows"] if opens else []
    if not chosen or chosen[0] >= len(links):
        return
    link = links[chosen[0]]
    st.caption(
        f"Words of source sentence {link.source_index + 1} and target sentence {link.target_index + 1}: how they share "
        f"the {100 * link.mass:.3g} % of the mass that flows between the two. A block of the whole plan, exactly."
    )
    opened = found.pair(link.source_index, link.target_index)
    pictures(figures.heatmap, *opened, prefix="long_pair")
    printed.section(*opened, key="long_pair")
