"""The Evidence page: links from couplings and from attention against links that people made."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import streamlit as st

from sinkviz.alignment import EvaluationCancelledError, EvaluationResult, GoldSet, evaluate, gold_from_files, mini_gold
from sinkviz.alignment.gold import pharaoh_order
from sinkviz.alignment.methods import FIVE, methods
from sinkviz.embedding import known_models, model_info
from sinkviz.ui import jobs
from sinkviz.ui.words import count, plain, say

AUTOMATIC = "by the languages of the set"
MAXIMUM_PAIRS = 5_000
_JOB = "evidence"


def page() -> None:
    """Draw the page."""
    st.markdown(
        "People have linked the words of these sentence pairs by hand. Each method below links them too, from the same "
        "embeddings; what it may choose (ε, thresholds) is chosen on other pairs than those it is scored on."
    )
    gold = _gold()
    options = _options(gold)
    job = jobs.find(_JOB)
    with st.container(horizontal=True, vertical_alignment="center"):
        st.button(
            "Run",
            key="evidence_run",
            type="primary",
            disabled=gold is None or (job is not None and job.active),
            on_click=_start,
            args=(gold, options),
        )
        if gold is not None:
            st.caption(
                f"{plain(gold.name)}: {count(len(gold), 'pair')}"
                + (f", {', '.join(gold.languages)}" if gold.languages else "")
                + (f" · licence {plain(gold.licence)}" if gold.licence else "")
            )
    jobs.watch(_JOB)
    job = jobs.find(_JOB)
    if job is not None and job.status == "failed":
        say(st.error, "The run failed: ", job.error)
    elif job is not None and job.status == "stopped":
        st.warning("The run was stopped. The result below, if any, is that of the run before.")
    elif job is not None and job.status == "done":
        st.session_state["evidence_result"] = job.result
    kept = st.session_state.get("evidence_result")
    if kept is None:
        st.info("Press *Run*: the bundled set of short pairs in several languages takes some seconds.")
    else:
        _show(*kept)


# --- what to run -----------------------------------------------------------------------------------------------------


def _gold() -> GoldSet | None:
    choice = st.segmented_control(
        "Gold links",
        ["bundled", "own"],
        key="evidence_data",
        default="bundled",
        required=True,
        format_func=lambda key: {"bundled": "Bundled mini-set", "own": "Your own files"}[key],
        persist_state="session",
    )
    if choice == "bundled":
        return mini_gold()
    files = st.file_uploader(
        "Edinburgh++ JSON, XL-WA TSV, Pharaoh (source, target and links in three files), or sinkviz JSON",
        accept_multiple_files=True,
        key="evidence_files",
    )
    if not files:
        st.caption(f"At most {MAXIMUM_PAIRS:,} pairs and 5 MB a file. Nothing is kept on the server.")
        return None
    given = {file.name: file.getvalue() for file in files}
    try:
        if len(given) < len(files):
            raise ValueError("expected files of different names; rename one")
        gold = _pharaoh(given) if len(given) == 3 else gold_from_files(given)
        if len(gold) > MAXIMUM_PAIRS:
            raise ValueError(
                f"expected at most {MAXIMUM_PAIRS:,} pairs on this page, got {len(gold):,}; split the file, or use "
                "`python -m sinkviz evaluate`"
            )
    except ValueError as error:
        say(st.error, "", str(error))
        return None
    return gold


def _pharaoh(files: dict[str, bytes]) -> GoldSet:
    """Read three files; a browser sends them in the order of their names, so that the page must ask what they are."""
    one, other, links = pharaoh_order(files)
    with st.container(horizontal=True, vertical_alignment="bottom"):
        source = st.selectbox("Source texts", [one, other], key="evidence_source_file")
        from_one = st.checkbox("Links count words from 1", key="evidence_index_base")
    target = other if source == one else one
    st.caption(plain(f"Source {source}, target {target}, links {links}"))
    order = (source, target, links)
    return gold_from_files({name: files[name] for name in order}, index_base=int(from_one))


def _options(gold: GoldSet | None) -> dict[str, Any]:
    known = methods()
    with st.container(horizontal=True, vertical_alignment="bottom"):
        model = st.selectbox(
            "Model",
            [AUTOMATIC, *(model.name for model in known_models())],
            key="evidence_model",
            width=260,
            persist_state="session",
        )
        layers = ["default"] if model == AUTOMATIC else ["default", *range(model_info(model).layers + 1)]
        layer = st.selectbox("Layer", layers, key="evidence_layer", width=120, persist_state="session")
        chosen = st.multiselect(
            "Methods",
            list(known),
            default=list(FIVE),
            key="evidence_methods",
            format_func=lambda name: known[name].label,
            width=520,
            persist_state="session",
        )
        order = st.checkbox(
            "Word order",
            key="evidence_order",
            help="Let every method choose a weight for word order too, the same choices for all.",
            persist_state="session",
        )
        neighbours = st.checkbox(
            "Neighbouring words",
            key="evidence_neighbours",
            help="Let every method choose a weight for the words before and after, which tell two like words apart.",
            persist_state="session",
        )
        curves = st.checkbox(
            "Curves", key="evidence_curves", help="F1 over ε and over layers; takes longer.", persist_state="session"
        )
    return {
        "model": None if model == AUTOMATIC else model,
        "layer": None if layer == "default" else layer,
        "method_names": tuple(chosen),
        "orders": (0.0, 0.3, 0.6) if order else (0.0,),
        "neighbours": (0.0, 0.05, 0.15) if neighbours else (0.0,),
        "epsilon_curve": curves,
        "layer_curve": curves,
        "folds": min(5, max(2, len(gold) // 4)) if gold is not None else 5,
    }


def _start(gold: GoldSet, options: dict[str, Any]) -> None:
    def work(
        progress: Callable[[float, str], None], cancelled: Callable[[], bool]
    ) -> tuple[GoldSet, EvaluationResult] | None:
        try:
            return gold, evaluate(gold, progress=progress, cancelled=cancelled, **options)
        except EvaluationCancelledError:
            return None

    jobs.start(_JOB, work)


# --- what came out ---------------------------------------------------------------------------------------------------


def _show(gold: GoldSet, result: EvaluationResult) -> None:
    choices = "".join(
        f" · {name} {', '.join(f'{weight:g}' for weight in weights)} to choose among"
        for name, weights in (("word order", result.orders), ("neighbouring words", result.neighbours))
        if any(weights)
    )
    st.caption(
        f"{plain(result.data)}: {count(result.pairs, 'pair')}, {count(result.links, 'sure link')} · "
        f"{plain(result.model)}, layer {result.layer} · tuned on {plain(result.tuned_on)}{choices} · "
        f"{result.seconds:.1f} s"
    )
    if result.unsolved:
        st.error(f"{result.unsolved} solves stopped before their tolerance; their links are counted as they are.")
    names = [method.name for method in result.methods]
    labels = {method.name: method.label for method in result.methods}
    left, right = st.columns(2)
    with left:
        _intervals(result)
    with right:
        reference = st.selectbox(
            "Compared with",
            names,
            index=names.index("bidirectional") if "bidirectional" in names else 0,
            format_func=lambda name: labels[name],
            key="evidence_reference",
        )
        for line in claims(result, reference):
            st.markdown(line)
    _table(result, reference)
    _curves(result)
    _pairs(gold, result)


def claims(result: EvaluationResult, reference: str) -> list[str]:
    """Return what the intervals allow to say about each method against a reference, as markdown lines."""
    label = result[reference].label
    lines = []
    for method in sorted(result.methods, key=lambda one: -one.f1.value):
        if method.name == reference:
            continue
        difference = result.compare(method.name, reference).difference
        points = f"{100 * difference.value:+.1f} points of F1 (95 % interval {100 * difference.low:+.1f} to "
        points += f"{100 * difference.high:+.1f})"
        if difference.low > 0:
            verdict = f"finds the human links better than {label} on this set"
        elif difference.high < 0:
            verdict = f"finds them worse than {label} on this set"
        else:
            verdict = f"no difference from {label} can be claimed: the interval contains 0"
        lines.append(f"- **{method.label}**: {points}; {verdict}.")
    return lines or ["Choose a second method to compare."]


def _theme() -> Any:
    return "dark" if st.context.theme.type == "dark" else "light"


def _chart(figure: Any) -> None:
    st.plotly_chart(figure, theme=None, alt=figure.layout.meta["description"], config={"displaylogo": False})


def _intervals(result: EvaluationResult) -> None:
    from sinkviz.figures.evidence import Estimate, method_intervals

    quantities: dict[str, Callable[[Any], Any]] = {
        "F1": lambda method: method.f1,
        "AER": lambda method: method.aer,
        "average precision": lambda method: method.average_precision,
    }
    chosen = st.segmented_control(
        "Measure", list(quantities), default="F1", required=True, key="evidence_measure", persist_state="session"
    )
    estimates = []
    for method in result.methods:
        interval = quantities[chosen](method)
        estimates.append(Estimate(method.label, method.family, interval.value, interval.low, interval.high))
    _chart(method_intervals(estimates, quantity=chosen, pairs=result.pairs, theme=_theme()))


def _table(result: EvaluationResult, reference: str) -> None:
    import pandas as pd

    rows = pd.DataFrame(result.table(reference)).drop(columns=["name"])
    shares = [name for name in rows.columns if name not in ("method", "p")]
    rows[shares] *= 100
    st.dataframe(
        rows,
        hide_index=True,
        column_config={name: st.column_config.NumberColumn(format="%.1f") for name in shares}
        | {"p": st.column_config.NumberColumn(format="%.3f")},
    )
    st.caption(
        "Percent, but for p. F1, precision and AER as is usual with sure and possible links: precision counts possible "
        "links as right, recall asks for the sure ones. Differences and p: paired bootstrap over sentence pairs."
    )
    st.download_button("Result as JSON", result.to_json(), "evaluation.json", "application/json", on_click="ignore")


def _curves(result: EvaluationResult) -> None:
    from sinkviz.figures.evidence import Estimate, method_curves

    drawn = [(result.epsilon_curve, "ε, units of the cost's scale", True), (result.layer_curve, "hidden layer", False)]
    drawn = [(points, place, logarithmic) for points, place, logarithmic in drawn if points]
    known = methods()
    for column, (points, place, logarithmic) in zip(st.columns(2) if drawn else [], drawn, strict=False):
        estimates = [
            Estimate(known[p.method].label, known[p.method].family, p.f1.value, p.f1.low, p.f1.high, p.at)
            for p in points
        ]
        with column:
            _chart(method_curves(estimates, quantity="F1", place=place, logarithmic=logarithmic, theme=_theme()))


def _pairs(gold: GoldSet, result: EvaluationResult) -> None:
    from sinkviz.figures.evidence import gold_matrix

    st.subheader("One pair")
    labels = {method.name: method.label for method in result.methods}
    left, right = st.columns([3, 1], vertical_alignment="bottom")
    number = left.selectbox(
        "Pair",
        range(len(gold)),
        format_func=lambda k: f"{k + 1}. {' '.join(gold.pairs[k].source)[:90]}",
        key="evidence_pair",
    )
    name = right.selectbox("Method", list(labels), format_func=lambda key: labels[key], key="evidence_pair_method")
    pair = gold.pairs[number]
    found = result[name].links[number]
    _chart(gold_matrix(pair.source, pair.target, found, pair.sure, pair.possible, theme=_theme()))
    st.button("Open this pair in Compare", key="evidence_open", on_click=_open, args=(pair,))
    if st.session_state.pop("evidence_go", False):
        st.switch_page("pages/compare.py")


def _open(pair: Any) -> None:
    now = st.session_state
    now["source"], now["target"] = " ".join(pair.source), " ".join(pair.target)
    now["example"] = None
    now["unit"] = "word"
    now["gold_pair"] = pair
    now["below"] = "gold"
    now["evidence_go"] = True
