"""The Compare page: two texts, their coupling, and softmax attention on the same scores."""

from __future__ import annotations

import json
import random
import time
from collections.abc import Callable
from typing import Any

import streamlit as st

from sinkviz.embedding import (
    DEFAULT_MODEL,
    MULTILINGUAL_MODEL,
    known_models,
    language_notice,
    model_info,
    multilingual_available,
)
from sinkviz.measure import UNITS, Measure
from sinkviz.resources import asset_path
from sinkviz.text import MAX_CHARACTERS, word_spans
from sinkviz.ui import live, long, session, state
from sinkviz.ui.cache import RecentlyUsed
from sinkviz.ui.link import pack
from sinkviz.ui.memory import SOURCE, TARGET, remember
from sinkviz.ui.state import Control, choice, number
from sinkviz.ui.words import count, plain, say, warn_of_other_vectors

MAXIMUM_PAIRS = 4_000_000
"""Pairs of atoms that the live view is solved on, about 2,000 × 2,000; more are solved beside the page."""

BASELINES = {
    "pasted": "Target as pasted",
    "itself": "Source with itself",
    "shuffled": "Target shuffled",
    "unrelated": "Unrelated text",
}
MECHANISMS = {"sinkhorn": "Every word has a partner", "partial": "Words may have no partner"}

COSINE = "cosine"
_MODELS = [model.name for model in known_models()]
_DEEPEST = max(model.layers for model in known_models())

CONTROLS = (
    Control("model", DEFAULT_MODEL, choice(*_MODELS)),
    Control("layer", "default", choice("default", *range(_DEEPEST + 1))),
    Control("unit", "token", choice(*UNITS)),
    Control("centre", False, choice(False, True)),
    Control("baseline", "pasted", choice(*BASELINES)),
    Control("mechanism", "sinkhorn", choice(*MECHANISMS)),
    Control("null_cost", -0.2, number(-0.5, 0.5)),
    Control("encoder", COSINE, str),
)

_CACHE_BYTES = 256 * 2**20
_measures: RecentlyUsed[Measure] = RecentlyUsed(_CACHE_BYTES, lambda measure: measure.points.nbytes)


@st.cache_data(show_spinner=False)
def examples() -> list[dict[str, str]]:
    """Return the gallery."""
    loaded: list[dict[str, str]] = json.loads(asset_path("examples.json").read_text(encoding="utf-8"))
    return loaded


def page() -> None:
    """Draw the page."""
    _begin()
    if st.session_state.get("page_changed"):
        # A widget belongs to its page: one that was made on another starts empty unless its value is assigned anew.
        for name in ("source", "target", "example", *(control.key for control in CONTROLS)):
            if name in st.session_state:
                st.session_state[name] = st.session_state[name]
    problems = state.read_url(CONTROLS, _set_texts)
    for control in CONTROLS:
        st.session_state.setdefault(control.key, control.default)
    remember(st.session_state["source"], st.session_state["target"], _restore)
    with st.container():
        for problem in problems:
            say(st.warning, "A part of the link could not be read and was left out. ", problem)
    _toolbar()
    spots = _texts()
    _controls()
    source, target = _chosen_texts()
    # Messages have one place, so that the view below keeps its own: it would be mounted anew elsewhere.
    with st.container():
        measures = _measure_both(source, target, spots)
        if measures is not None:
            _scores(measures)
            _notices(source, target, measures)
            st.session_state["last_good"] = measures
        elif "last_good" in st.session_state:
            st.warning("This is the last picture that could be drawn; it does not belong to the texts above.")
    shown = st.session_state.get("last_good")
    if shown is None:
        state.write_url(CONTROLS, _link_parameter())
    elif len(shown[0]) * len(shown[1]) > MAXIMUM_PAIRS:
        long.section(*shown)
        state.write_url(CONTROLS, _link_parameter())
    else:
        _explore(shown)


# --- texts -----------------------------------------------------------------------------------------------------------


def _begin() -> None:
    for name in ("source", "target"):
        st.session_state.setdefault(name, examples()[0][name])
    st.session_state.setdefault("example", examples()[0]["id"])


def _set_texts(source: str, target: str) -> None:
    changed = (source, target) != (st.session_state.get("source"), st.session_state.get("target"))
    st.session_state["source"], st.session_state["target"] = source, target
    _find_example()
    if changed and "url_written" in st.session_state:
        state.forget_atoms()


def _find_example() -> None:
    now = st.session_state
    match = [e["id"] for e in examples() if (e["source"], e["target"]) == (now["source"], now["target"])]
    now["example"] = match[0] if match else None


def _restore(source: str | None, target: str | None) -> None:
    """Bring back what the browser tab kept through a reload, unless the visit came with a link that holds texts."""
    if state.TEXTS in st.query_params:
        return
    now = st.session_state
    kept = (now["source"] if source is None else source, now["target"] if target is None else target)
    if kept != (now["source"], now["target"]):
        settings = state.view()
        _set_texts(*kept)
        state.set_view(settings)  # The link was written for these texts.


def _typed() -> None:
    # The fields themselves are not set here: that would overwrite what is being typed in the other one.
    _find_example()
    state.forget_atoms()


def _take_example() -> None:
    chosen = st.session_state.get("example")
    for example in examples():
        if example["id"] == chosen:
            _set_texts(example["source"], example["target"])


def _swap() -> None:
    _set_texts(st.session_state["target"], st.session_state["source"])


def _clear() -> None:
    _set_texts("", "")


def _upload(side: str) -> None:
    uploaded = st.session_state.get(f"upload_{side}")
    if uploaded is None:
        return
    try:
        text = uploaded.getvalue().decode("utf-8-sig")
    except UnicodeDecodeError:
        st.session_state["upload_problem"] = (side, f"{uploaded.name}: expected a text file in UTF-8; save it as UTF-8")
        return
    texts = {"source": st.session_state["source"], "target": st.session_state["target"], side: text}
    _set_texts(texts["source"], texts["target"])


def _open_session() -> None:
    uploaded = st.session_state.get("upload_session")
    if uploaded is None:
        return
    try:
        source, target, controls, view = session.opened(uploaded.getvalue())
    except ValueError as error:
        st.session_state["upload_problem"] = ("source", f"{uploaded.name}: {error}")
        return
    _set_texts(source, target)
    st.session_state.update(controls)
    state.set_view(view)
    state.renew_view()


def _toolbar() -> None:
    with st.container(horizontal=True, vertical_alignment="bottom", gap="small"):
        titles = {example["id"]: example["title"] for example in examples()}
        st.selectbox(
            "Example",
            list(titles),
            key="example",
            format_func=lambda key: titles[key],
            on_change=_take_example,
            placeholder="Your own texts",
            width=300,
            persist_state="session",
        )
        st.button("Swap", key="swap", on_click=_swap, help="Source becomes target, and target source.")
        st.button("Clear", key="clear", on_click=_clear, help="Empty both texts.")
        with st.popover("Upload"):
            for side, label in (("source", "Source, a .txt file in UTF-8"), ("target", "Target, a .txt file in UTF-8")):
                st.file_uploader(label, type=["txt"], key=f"upload_{side}", on_change=_upload, args=(side,))
            st.file_uploader("Both, a session file", type=["json"], key="upload_session", on_change=_open_session)
        st.segmented_control(
            "Compare with",
            list(BASELINES),
            key="baseline",
            format_func=lambda key: BASELINES[key],
            required=True,
            help="Baselines show what the picture looks like when there is everything, little or nothing to find: "
            "only against them can a picture be judged. What you typed stays.",
            persist_state="session",
        )
    # The place is always there: an element that comes or goes above the fields would take the focus out of them.
    with st.container():
        for example in examples():
            if example["id"] == st.session_state.get("example"):
                st.caption(plain(example["teaches"]))


def _texts() -> dict[str, Any]:
    spots = {}
    for column, side, label in zip(st.columns(2), ("source", "target"), (SOURCE, TARGET), strict=True):
        with column, st.container(key=f"{side}_card"):
            st.text_area(
                label,
                key=side,
                height=110,
                on_change=_typed,
                persist_state="session",
                placeholder="Paste or type a text here",
            )
            spots[side] = st.container()
            problem = st.session_state.get("upload_problem")
            if problem is not None and problem[0] == side:
                say(spots[side].error, "", problem[1])
    st.session_state.pop("upload_problem", None)
    return spots


# --- controls --------------------------------------------------------------------------------------------------------


def _layers(model: str) -> list[int | str]:
    return ["default", *range(model_info(model).layers + 1)]


def _controls() -> None:
    info = model_info(st.session_state["model"])
    if st.session_state["layer"] not in _layers(info.name):
        st.session_state["layer"] = "default"

    def layer_name(layer: int | str) -> str:
        if layer == "default":
            return f"{info.default_layer} of {info.layers} (default)"
        return "0, input embeddings" if layer == 0 else f"{layer} of {info.layers}"

    with st.container(horizontal=True, vertical_alignment="bottom", gap="small"):
        st.selectbox("Model", _MODELS, key="model", width=230, help=info.summary, persist_state="session")
        st.selectbox(
            "Layer",
            _layers(info.name),
            key="layer",
            format_func=layer_name,
            width=190,
            help="Hidden layer whose vectors are compared. The default finds the links that people draw best; the last "
            "layer is what sentence similarity uses.",
            persist_state="session",
        )
        st.segmented_control(
            "Solved on",
            list(UNITS),
            key="unit",
            required=True,
            format_func=lambda unit: unit.capitalize() + "s",
            help="What an atom of the measure is. The picture can always be *shown* coarser: block sums are exact.",
            persist_state="session",
        )
        st.segmented_control(
            "Balance",
            list(MECHANISMS),
            key="mechanism",
            required=True,
            format_func=lambda key: MECHANISMS[key],
            help="With balance, all mass finds a partner on the other side. A null partner on each side lets a word "
            "stay alone at a price; attention gets the same null partner.",
            persist_state="session",
        )
        if st.session_state["mechanism"] == "partial":
            st.slider(
                "Price of no partner",
                -0.5,
                0.5,
                step=0.01,
                key="null_cost",
                width=220,
                help="Price z of staying alone, in units of the cost, −cosine. Two words stay together rather than "
                "both alone where their cosine is above −2z: 0.4 at z = −0.2.",
                persist_state="session",
            )
        st.checkbox(
            "Centre",
            key="centre",
            help="Subtract the mean of each text's tokens before the cosines are taken.",
            persist_state="session",
        )


def _scores(measures: tuple[Measure, Measure]) -> None:
    """Choose where the scores come from; drawn late, because the list of trained models needs torch."""
    from sinkviz.transformer.registry import available

    trained = available(measures[0].dimension)
    encoders = [COSINE, *trained]
    if st.session_state["encoder"] not in encoders:
        st.session_state["encoder"] = COSINE
    if len(encoders) > 1:
        st.segmented_control(
            "Scores",
            encoders,
            key="encoder",
            required=True,
            format_func=lambda name: "Cosine, untrained" if name == COSINE else f"{name}, trained",
            help="Where the scores come from: the cosine of the embeddings, or a trained Sinkhorn Transformer.",
            persist_state="session",
        )
    if st.session_state["encoder"] != COSINE:
        warn_of_other_vectors(st.warning, trained[st.session_state["encoder"]], measures[0])


def _explore(measures: tuple[Measure, Measure]) -> None:
    partial = st.session_state["mechanism"] == "partial"
    null_cost = st.session_state["null_cost"] if partial else None
    packed = pack(st.session_state["source"], st.session_state["target"])
    encoder = st.session_state["encoder"]
    live.explorer(
        *measures, null_cost, None if encoder == COSINE else encoder, CONTROLS, packed, _link_parameter() is not None
    )


# --- measures --------------------------------------------------------------------------------------------------------


def _chosen_texts() -> tuple[str, str]:
    source, target = st.session_state["source"], st.session_state["target"]
    baseline = st.session_state["baseline"]
    if baseline == "itself":
        target = source
    elif baseline == "shuffled":
        words = [target[start:end] for start, end in word_spans(target)]
        random.Random(0).shuffle(words)
        target = " ".join(words)
    elif baseline == "unrelated":
        target = next(e["target"] for e in examples() if e["id"] == "unrelated")
    return source, target


def _measure_both(source: str, target: str, spots: dict[str, Any]) -> tuple[Measure, Measure] | None:
    now = st.session_state
    options = {name: now[name] for name in ("model", "unit", "centre")}
    options["layer"] = None if now["layer"] == "default" else now["layer"]
    found: list[Measure] = []
    for side, text in (("source", source), ("target", target)):
        spot = spots[side]
        place = spot.empty()
        try:
            measure = _embedded(text, options, _progress(place), side)
        except ValueError as error:
            place.empty()
            say(spot.error, "", str(error))
            continue
        place.empty()
        spot.caption(_size_line(measure))
        found.append(measure)
    if len(found) < 2:
        return None
    return found[0], found[1]


def _embedded(text: str, options: dict[str, Any], progress: Callable[[float, str], None], side: str) -> Measure:
    # A pair that was opened with gold links keeps the words that those count.
    pair = st.session_state.get("gold_pair")
    words = None if pair is None else getattr(pair, side)
    given = words if words is not None and " ".join(words) == text else text

    def compute() -> Measure:
        from sinkviz.embedding import embed

        if not text.strip():
            raise ValueError(f"The {side} is empty: type or paste a text, or choose an example.")
        return embed(given, progress=progress, **options)

    return _measures.get((given, *options.values()), compute)


def _progress(place: Any) -> Callable[[float, str], None]:
    started = time.monotonic()

    def show(share: float, line: str) -> None:
        # A bar that is gone within a blink is noise.
        if share < 1 and (time.monotonic() - started > 0.15 or share == 0):
            place.progress(min(max(share, 0.0), 1.0), text=plain(line))

    return show


def _size_line(measure: Measure) -> str:
    parts = [count(len(measure.spans), measure.unit)]
    if measure.unit == "token":
        parts.append(count(len(measure.word_spans), "word"))
    if measure.unit != "sentence":
        parts.append(count(len(measure.sentence_spans), "sentence"))
    return f"{' · '.join(parts)} · at most {MAX_CHARACTERS:,} characters"


# --- messages --------------------------------------------------------------------------------------------------------


def _notices(source: str, target: str, measures: tuple[Measure, Measure]) -> None:
    now = st.session_state
    if now["baseline"] != "pasted":
        st.info(
            f"Baseline: {BASELINES[now['baseline']].lower()}. What you typed is kept; choose *Target as pasted* to "
            "return."
        )
    language_notices(source, target)
    for side, measure in zip(("Source", "Target"), measures, strict=True):
        for note in measure.origin.notes:
            say(st.caption, f"{side}: ", note)
    if min(len(measure) for measure in measures) == 1:
        st.caption(
            "One side has a single atom: the coupling is then a⊗b for every ε, since all mass must pass through it. "
            "Attention is still free to choose."
        )


def language_notices(source: str, target: str) -> None:
    """Tell of a text that the chosen model does not speak, with a button for one that does."""
    now = st.session_state
    suggested = set()
    for side, text in (("source", source), ("target", target)):
        notice = language_notice(text, now["model"])
        if notice is not None:
            say(st.warning, f"{side.capitalize()}: ", notice.message)
            suggested.add(notice.suggested_model)
    for name in sorted(filter(None, suggested)):
        if name != MULTILINGUAL_MODEL or multilingual_available():
            st.button(
                f"Switch to {name}", on_click=lambda name=name: now.update(model=name, layer="default"), type="primary"
            )
        else:
            st.caption(f"{name} speaks it, but is not installed here: `pip install 'sinkviz[multilingual]'` brings it.")


# --- links -----------------------------------------------------------------------------------------------------------


def _link_parameter() -> str | None:
    """Return the packed texts while the URL already carries them: a link that was opened stays whole."""
    packed = pack(st.session_state["source"], st.session_state["target"])
    return packed if packed is not None and st.query_params.get(state.TEXTS) == packed else None
