"""The Batch page: a table of pairs to a table of numbers, with progress, stop and resume."""

from __future__ import annotations

import hashlib
import json
import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

import streamlit as st

from sinkviz.batch import (
    TABLE_FORMATS,
    BatchReport,
    BatchRow,
    BatchSettings,
    PairTable,
    batch,
    partial_path,
    read_pairs,
    result_bytes,
    table_columns,
)
from sinkviz.embedding import known_models
from sinkviz.embedding.multilingual import cache_folder
from sinkviz.measure import UNITS
from sinkviz.settings import CouplingSettings
from sinkviz.ui import jobs
from sinkviz.ui.words import count, plain, say

MAXIMUM_ROWS = 20_000
_JOB = "batch"
_NONE = "—"
SORTS = {
    "likeness": "Likeness",
    "transport_cost": "Transport cost",
    "mutual_information": "Mutual information",
    "attention_distance": "Attention's mass that misses",
    "mean_partners": "Effective partners",
}


@dataclass
class Run:
    """A run as the page sees it; rows are added by its thread.

    Attributes:
        table: the pairs.
        rows: finished rows by line.
        started: when, by the monotonic clock.
        at_start: rows that were there already.
    """

    table: PairTable
    rows: dict[int, BatchRow] = field(default_factory=dict)
    started: float = field(default_factory=time.monotonic)
    at_start: int = 0
    lock: threading.Lock = field(default_factory=threading.Lock)

    def add(self, rows: Sequence[BatchRow]) -> None:
        """Take over finished rows."""
        with self.lock:
            self.rows.update({row.line: row for row in rows})

    def finished(self) -> list[BatchRow]:
        """Return the finished rows in the order of the table."""
        with self.lock:
            return [self.rows[row.line] for row in self.table.rows if row.line in self.rows]

    def left(self) -> str:
        """Return the time that is left, in words."""
        done = len(self.rows) - self.at_start
        seconds = time.monotonic() - self.started
        if done < 1 or seconds < 1:
            return "estimating the time left"
        rest = (len(self.table) - len(self.rows)) * seconds / done
        return f"{rest / 60:.0f} min left" if rest > 90 else f"{rest:.0f} s left"


def page() -> None:
    """Draw the page."""
    st.markdown(
        "A table of text pairs becomes a table of numbers: transport cost, mutual information, what attention misses, "
        "and two baselines to judge them by, each text with itself and with a stranger."
    )
    table = _table()
    settings = _settings()
    job = jobs.find(_JOB)
    busy = job is not None and job.active
    with st.container(horizontal=True, vertical_alignment="center"):
        st.button(
            "Start" if table is None or not _unfinished(table, settings) else "Resume",
            key="batch_start",
            type="primary",
            disabled=table is None or busy,
            on_click=_start,
            args=(table, settings),
        )
        if table is not None:
            bad = len(table.bad)
            st.caption(
                f"{plain(table.name)}: {count(len(table), 'row')}"
                + (f", {count(bad, 'row')} cannot be read and will be reported" if bad else "")
            )
    jobs.watch(_JOB)
    if job is not None and job.status == "failed":
        say(st.error, "The run failed: ", job.error)
    elif job is not None and job.status == "stopped":
        st.warning("The run was stopped. What is finished is kept: *Resume* goes on from there, even after a restart.")
    run: Run | None = st.session_state.get("batch_run")
    if run is not None and run.finished():
        _show(run, job)


# --- what to run -----------------------------------------------------------------------------------------------------


def _table() -> PairTable | None:
    uploaded = st.file_uploader(
        f"A table of pairs ({', '.join(TABLE_FORMATS)}), at most {MAXIMUM_ROWS:,} rows",
        type=[suffix.removeprefix(".") for suffix in TABLE_FORMATS],
        key="batch_file",
    )
    if uploaded is None:
        kept: PairTable | None = st.session_state.get("batch_table")
        if kept is None:
            st.caption("One row a pair, a header with the names of the columns, UTF-8.")
        return kept
    data = uploaded.getvalue()
    try:
        columns = table_columns(data, uploaded.name)
        with st.container(horizontal=True):
            source = st.selectbox("Source column", columns, index=_guess(columns, "source", 0), key="batch_source")
            target = st.selectbox("Target column", columns, index=_guess(columns, "target", 1), key="batch_target")
            gold = st.selectbox("Gold links (optional)", [_NONE, *columns], key="batch_gold")
        table = read_pairs(
            data,
            name=uploaded.name,
            source=source,
            target=target,
            gold=None if gold == _NONE else gold,
            maximum_rows=MAXIMUM_ROWS,
        )
    except ValueError as error:
        say(st.error, "", str(error))
        return None
    st.session_state["batch_table"] = table
    return table


def _guess(columns: Sequence[str], name: str, position: int) -> int:
    return columns.index(name) if name in columns else min(position, len(columns) - 1)


def _settings() -> BatchSettings:
    with st.container(horizontal=True, vertical_alignment="bottom"):
        model = st.selectbox(
            "Model", [m.name for m in known_models()], key="batch_model", width=260, persist_state="session"
        )
        unit = st.segmented_control(
            "Solved on",
            list(UNITS),
            default="word",
            required=True,
            key="batch_unit",
            format_func=lambda name: name.capitalize() + "s",
            persist_state="session",
        )
        epsilon = st.number_input(
            "ε, units of the cost's scale",
            min_value=0.01,
            max_value=10.0,
            value=0.35,
            step=0.05,
            key="batch_epsilon",
            width=220,
            persist_state="session",
        )
        baselines = st.checkbox(
            "Baselines",
            value=True,
            key="batch_baselines",
            help="Each text with itself and with a stranger: four solves a row instead of one.",
            persist_state="session",
        )
    return BatchSettings(CouplingSettings(model=model, unit=unit, epsilon=float(epsilon)), baselines=baselines)


def _place(table: PairTable, settings: BatchSettings) -> Path:
    """Return where a run's unfinished rows are kept: the same table and settings find them again."""
    text = json.dumps([table.fingerprint, settings.as_json()], sort_keys=True)
    folder = cache_folder() / "batches"
    folder.mkdir(parents=True, exist_ok=True)
    return folder / f"{hashlib.sha256(text.encode()).hexdigest()[:32]}.jsonl"


def _unfinished(table: PairTable, settings: BatchSettings) -> bool:
    return partial_path(_place(table, settings)).exists()


def _start(table: PairTable, settings: BatchSettings) -> None:
    run = Run(table)
    st.session_state["batch_run"] = run
    out = _place(table, settings)

    def work(progress: Callable[[float, str], None], cancelled: Callable[[], bool]) -> BatchReport | None:
        run.started = time.monotonic()

        def rows(done: int, total: int) -> None:
            if not run.at_start and done and time.monotonic() - run.started < 1:
                run.at_start = done
            progress(done / max(total, 1), f"{done:,} of {total:,} rows, {run.left()}")

        progress(0.0, "Loading the model")
        report = batch(table, out, settings, progress=rows, cancelled=cancelled, finished_rows=run.add)
        if not report.finished:
            return None
        out.unlink()  # The page keeps the rows; nothing of the user's stays on the server's disk.
        return report

    jobs.start(_JOB, work)


# --- what came out ---------------------------------------------------------------------------------------------------


def _show(run: Run, job: Any) -> None:
    import pandas as pd

    rows = run.finished()
    texts = {row.line: row for row in run.table.rows}
    good = [row for row in rows if row.status != "error"]
    bad = [row for row in rows if row.status == "error"]
    early = [row for row in good if row.status in ("stalled", "max_iterations")]
    if job is not None and job.status == "done" and job.result is not None:
        st.caption(f"{count(len(rows), 'row')} in {job.result.seconds:.1f} s")
    if early:
        st.error(f"{count(len(early), 'solve')} stopped before the tolerance; the status column names them.")
    if bad:
        with st.expander(f"{count(len(bad), 'row')} without numbers"):
            st.dataframe(
                pd.DataFrame({"line": [row.line for row in bad], "problem": [row.problem for row in bad]}),
                hide_index=True,
            )
    if not good:
        return
    gold = any(row.f1 is not None for row in good)
    frame = pd.DataFrame(
        {
            "line": [row.line for row in good],
            "source": [_text(texts[row.line].source) for row in good],
            "target": [_text(texts[row.line].target) for row in good],
            "likeness": [row.likeness for row in good],
            "transport cost": [row.transport_cost for row in good],
            "with itself": [row.self_cost for row in good],
            "with a stranger": [row.shuffled_cost for row in good],
            "mutual information, nat": [row.mutual_information for row in good],
            "attention misses, %": [100 * (row.attention_distance or 0.0) for row in good],
            "effective partners": [row.mean_partners for row in good],
            **({"F1, %": [None if row.f1 is None else 100 * row.f1 for row in good]} if gold else {}),
            "dearest": [", ".join(label for label, _ in row.dearest) for row in good],
            "status": [row.status for row in good],
        }
    )
    left, right = st.columns([3, 2])
    with left:
        chosen = st.dataframe(
            frame,
            hide_index=True,
            height=420,
            key="batch_rows",
            on_select="rerun",
            selection_mode="single-row",
            column_config={
                name: st.column_config.NumberColumn(format="%.3g")
                for name in frame.columns
                if frame[name].dtype == float
            },
        )
        st.caption(
            "Likeness: 0 = like a stranger, 1 = like a text with itself. Dearest: the source atoms that pay most. "
            "Click a column to sort, a row to open its pair."
        )
    with right:
        _distribution(good)
    positions = chosen["selection"]["rows"]
    if positions:
        row = texts[good[positions[0]].line]
        st.button("Open this pair in Compare", key="batch_open", on_click=_open, args=(row,))
    if st.session_state.pop("batch_go", False):
        st.switch_page("pages/compare.py")
    with st.container(horizontal=True):
        for suffix, mime in ((".csv", "text/csv"), (".parquet", "application/octet-stream")):
            st.download_button(
                f"Result as {suffix}",
                partial(result_bytes, run.table, rows, suffix, spreadsheet_safe=suffix == ".csv"),
                f"{Path(run.table.name).stem}-sinkviz{suffix}",
                mime,
                on_click="ignore",
            )


def _text(text: str | tuple[str, ...]) -> str:
    return text if isinstance(text, str) else " ".join(text)


def _distribution(rows: Sequence[BatchRow]) -> None:
    from sinkviz.figures.evidence import distribution

    names = [name for name in SORTS if any(getattr(row, name) is not None for row in rows)]
    name = st.selectbox("Distribution of", names, format_func=lambda key: SORTS[key], key="batch_distribution")
    values = [getattr(row, name) for row in rows if getattr(row, name) is not None]
    theme: Any = "dark" if st.context.theme.type == "dark" else "light"
    figure = distribution(values, quantity=SORTS[name], theme=theme)
    st.plotly_chart(figure, theme=None, alt=figure.layout.meta["description"], config={"displaylogo": False})


def _open(row: Any) -> None:
    now = st.session_state
    now["source"], now["target"] = _text(row.source), _text(row.target)
    now["example"] = None
    now["batch_go"] = True
