"""The Inside page: the way of the user's two texts from tokens to the plan, in steps that can be walked."""

from __future__ import annotations

import html
import tempfile
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, cast

import numpy as np
import streamlit as st

from sinkviz.embedding import known_models, model_info
from sinkviz.measure import UNITS, Measure
from sinkviz.ui import compare, live, state
from sinkviz.ui.cache import RecentlyUsed
from sinkviz.ui.memory import remember
from sinkviz.ui.state import Control, choice
from sinkviz.ui.words import count, plain, say, warn_of_other_vectors

if TYPE_CHECKING:
    from sinkviz.coupling import Coupling
    from sinkviz.ui.encoders import Iterations, Walk

MAXIMUM_PAIRS = 250_000
"""Pairs of atoms that can be walked: 500 × 500; every step draws or decomposes whole matrices."""

ENCODERS = {
    "none": "None: cosine of the vectors",
    "heads": "The embedding model's own head",
    "trained": "A trained Sinkhorn Transformer",
    "sinkformer": "A Sinkformer",
}
STEPS = {
    "tokens": "Tokens and weights",
    "layers": "Encoder layers",
    "clouds": "Q and K",
    "cost": "Cost",
    "iterations": "Iterations",
    "potentials": "Potentials and prices",
    "plan": "Plan",
}
_DEEPEST = max(model.layers for model in known_models())
_MOST_HEADS = max(model.heads for model in known_models())
CONTROLS = (
    *(control for control in compare.CONTROLS if control.key not in ("mechanism", "null_cost", "encoder")),
    Control("inside_encoder", "none", choice(*ENCODERS)),
    Control("own_layer", 3, choice(*range(1, _DEEPEST + 1))),
    Control("own_head", 0, choice(*range(_MOST_HEADS))),
    Control("step", "tokens", choice(*STEPS)),
)
GRID = tuple(float(f"{value:.3g}") for value in np.geomspace(0.02, 20, 61))
"""Values of the ε dial, in units of σ."""

OWN = "own"
"""The place on the dial of the ε that belongs to the encoder."""

_CACHE_BYTES = 256 * 2**20
_walks: RecentlyUsed[Walk] = RecentlyUsed(
    _CACHE_BYTES, lambda walk: walk.cost.nbytes + 2 * walk.query.nbytes + walk.stages[0].nbytes
)


def page() -> None:
    """Draw the page."""
    compare._begin()
    _carry_over()
    problems = state.read_url(CONTROLS, compare._set_texts)
    for control in CONTROLS:
        st.session_state.setdefault(control.key, control.default)
    remember(st.session_state["source"], st.session_state["target"], compare._restore)
    with st.container():
        for problem in problems:
            say(st.warning, "A part of the link could not be read and was left out. ", problem)
    st.html(
        "<style>[data-testid=stLatex] { overflow-x: auto; } [data-testid=stLatex] .katex-display { margin: .2em 0; }"
        "</style>"
    )
    compare._toolbar()
    spots = compare._texts()
    _controls()
    source, target = compare._chosen_texts()
    # Messages have one place, so that the steps below keep their own.
    with st.container():
        measures = compare._measure_both(source, target, spots)
        if measures is not None:
            compare.language_notices(source, target)
        if measures is not None and len(measures[0]) * len(measures[1]) > MAXIMUM_PAIRS:
            st.error(
                f"{len(measures[0]):,} × {len(measures[1]):,} {measures[0].unit}s are more than {MAXIMUM_PAIRS:,} "
                "pairs, the most that can be walked here. Choose words or sentences under *Solved on*, or shorten the "
                "texts; Compare takes longer ones."
            )
            measures = None
        walk = None if measures is None else _walk((source, target), measures)
        if walk is None:
            state.write_url(CONTROLS, compare._link_parameter())
            walk = st.session_state.get("last_walk")
            if walk is None:
                return
            st.warning("These are the last steps that could be walked; they do not belong to the choices above.")
        else:
            st.session_state["last_walk"] = walk
            _warn(walk.source)
        for line in walk.notes:
            st.caption(line)
        if st.session_state.get("mechanism") == "partial":
            st.info(
                "Compare lets words stay without a partner. The steps here are those of the balanced problem, in which "
                "every word has one: with null partners it is the same problem with one more row and column."
            )
    _steps(walk)


def _carry_over() -> None:
    """Bring what other pages hold to the widgets of this one, on the first run and after each change of page.

    A widget belongs to its page: one of the same key elsewhere starts empty unless its value is set anew.
    """
    now = st.session_state
    if now.get("page_changed") or "inside_seen" not in now:
        now["inside_seen"] = True
        for key in ("source", "target", "example", *(control.key for control in CONTROLS)):
            if key in now:
                now[key] = now[key]


# --- controls --------------------------------------------------------------------------------------------------------


def _controls() -> None:
    now = st.session_state
    info = model_info(now["model"])
    if now["layer"] not in compare._layers(info.name):
        now["layer"] = "default"
    now["own_layer"] = min(now["own_layer"], info.layers)
    now["own_head"] = min(now["own_head"], info.heads - 1)
    with st.container(horizontal=True, vertical_alignment="bottom", gap="small"):
        st.selectbox(
            "Encoder",
            list(ENCODERS),
            key="inside_encoder",
            format_func=lambda key: ENCODERS[key],
            width=270,
            help="What turns the vectors of the two texts into queries and keys. With none, the vectors themselves are "
            "compared.",
            persist_state="session",
        )
        encoder = now["inside_encoder"]
        if encoder == "heads":
            st.selectbox(
                "Layer of the head",
                range(1, info.layers + 1),
                key="own_layer",
                format_func=lambda layer: f"{layer} of {info.layers}",
                width=140,
                persist_state="session",
            )
            st.selectbox(
                "Head",
                range(info.heads),
                key="own_head",
                format_func=lambda head: f"{head + 1} of {info.heads}",
                width=120,
                help="Its queries are taken from the source and its keys from the target: attention across the two "
                "texts, with the weights that the model was trained with inside one text.",
                persist_state="session",
            )
        elif encoder in ("trained", "sinkformer"):
            _model_choice(encoder)
        st.selectbox("Model", compare._MODELS, key="model", width=220, help=info.summary, persist_state="session")
        if encoder != "heads":
            st.selectbox(
                "Layer",
                compare._layers(info.name),
                key="layer",
                format_func=lambda layer: f"{info.default_layer} (default)" if layer == "default" else f"{layer}",
                width=130,
                help="Hidden layer of the embedding model whose vectors go in.",
                persist_state="session",
            )
        st.segmented_control(
            "Solved on",
            list(UNITS),
            key="unit",
            required=True,
            format_func=lambda unit: unit.capitalize() + "s",
            persist_state="session",
        )
        if encoder != "heads":
            st.checkbox(
                "Centre",
                key="centre",
                help="Subtract the mean of each text's tokens first.",
                persist_state="session",
            )


def _warn(source: Measure) -> None:
    from sinkviz.transformer.registry import available

    encoder = st.session_state["inside_encoder"]
    if encoder in ("trained", "sinkformer"):
        chosen = available().get(st.session_state.get(f"{encoder}_model") or "")
        if chosen is not None:
            warn_of_other_vectors(st.warning, chosen, source)


def _known(encoder: str) -> dict[str, str]:
    """Return the models of a kind that can be chosen, name → title: uploaded, shipped, and from the user's folder."""
    from sinkviz.transformer.registry import available

    wants_sinkformer = encoder == "sinkformer"
    found = {
        f"upload:{name}": f"{name} (uploaded)"
        for name, model in st.session_state.get("uploaded_models", {}).items()
        if (model.config.normalisation == "sinkformer") == wants_sinkformer
    }
    for name, one in available(model_info(st.session_state["model"]).dimension).items():
        assert one.config is not None
        if (one.config.normalisation == "sinkformer") == wants_sinkformer:
            title = str(one.about.get("title", name))
            found[name] = title if title == name else f"{name}: {title}"
    return found


def _model_choice(encoder: str) -> None:
    known = _known(encoder)
    key = f"{encoder}_model"
    if st.session_state.get(key) not in known:
        st.session_state[key] = next(iter(known), None)
    st.selectbox(
        "Checkpoint",
        list(known),
        key=key,
        format_func=lambda name: known.get(name, name),
        width=280,
        placeholder="none yet",
        disabled=not known,
        persist_state="session",
    )
    with st.popover("Your own"):
        st.file_uploader(
            "A model file of sinkviz (.safetensors, at most 5 MB)",
            type=["safetensors"],
            key="upload_model",
            on_change=_take_model,
            args=(encoder,),
        )
        st.caption(
            "The file is checked before it is used; nothing in it is ever run. It stays in this browser session. "
            "Files in your model folder (SINKVIZ_MODELS) are listed by themselves."
        )


def _take_model(encoder: str) -> None:
    uploaded = st.session_state.get("upload_model")
    if uploaded is None:
        return
    from sinkviz.transformer import checkpoints

    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "model.safetensors"
        path.write_bytes(uploaded.getvalue())
        try:
            model = checkpoints.load(path)
        except ValueError as error:
            st.session_state["model_problem"] = f"{uploaded.name}: {error}"
            return
    name = Path(uploaded.name).stem
    st.session_state.setdefault("uploaded_models", {})[name] = model
    kind = "sinkformer" if model.config.normalisation == "sinkformer" else "trained"
    st.session_state["inside_encoder"] = kind
    st.session_state[f"{kind}_model"] = f"upload:{name}"


# --- the walk --------------------------------------------------------------------------------------------------------


def _walk(texts: tuple[str, str], measures: tuple[Measure, Measure]) -> Walk | None:
    """Return the way of the texts through the chosen encoder; None, with a message, where it cannot be walked."""
    problem = st.session_state.pop("model_problem", None)
    if problem is not None:
        say(st.error, "", problem)
    now = st.session_state
    encoder = now["inside_encoder"]
    try:
        weighted = live._weighted(*measures, state.view())
    except ValueError as error:
        say(st.error, "", str(error))
        weighted = measures
    try:
        compute, key = _plan_of_walk(encoder, texts, weighted)
    except ValueError as error:
        say(st.info, "", str(error))
        return None
    weights = tuple(measure.weights.tobytes() for measure in weighted)
    fixed = (texts, now["model"], measures[0].unit, measures[0].origin.layer, measures[0].origin.centred, weights, key)
    place = st.empty()
    if fixed not in _walks:
        place.info("Walking through the encoder …")
    try:
        return _walks.get(fixed, compute)
    except ValueError as error:
        say(st.error, "", str(error))
        return None
    finally:
        place.empty()


def _plan_of_walk(
    encoder: str, texts: tuple[str, str], weighted: tuple[Measure, Measure]
) -> tuple[Callable[[], Walk], tuple[Any, ...]]:
    from sinkviz.ui import encoders

    now = st.session_state
    model = now["model"]
    if encoder == "none":
        layer = weighted[0].origin.layer
        assert layer is not None
        return lambda: encoders.walk_none(texts, weighted, model, layer, now["centre"]), ("none",)
    if encoder == "heads":
        layer, head = now["own_layer"], now["own_head"]
        return lambda: encoders.walk_heads(texts, weighted, model, layer, head), ("heads", layer, head)
    chosen = now.get(f"{encoder}_model")
    if chosen is None:
        what = "Sinkformer" if encoder == "sinkformer" else "trained Sinkhorn Transformer"
        raise ValueError(
            f"There is no {what} for vectors of {model_info(model).dimension} coordinates yet. Train one with "
            "python -m sinkviz train, put its file into the model folder, or give it under “Your own”."
        )
    if chosen.startswith("upload:"):
        loaded = now["uploaded_models"][chosen.removeprefix("upload:")]
        return lambda: encoders.walk_model(weighted, loaded), ("model", id(loaded), chosen)
    from sinkviz.transformer.registry import get

    checkpoint = get(chosen)
    changed = checkpoint.path.stat().st_mtime_ns
    return lambda: encoders.walk_model(weighted, checkpoint.load()), ("model", str(checkpoint.path), changed)


# --- the dial and the steps ------------------------------------------------------------------------------------------


@dataclass(frozen=True, eq=False)
class _View:
    """What the steps draw: the walk, the balanced coupling, attention, and what the encoder itself ends in."""

    walk: Walk
    balanced: Coupling
    attention: Coupling
    coupling: Coupling

    @property
    def labels(self) -> tuple[list[str], list[str]]:
        return self.walk.source.labels, self.walk.target.labels

    @property
    def strongest(self) -> tuple[int, int]:
        """The pair with most mass; one of two full stops only where there is no other."""
        from sinkviz.view.weights import PUNCTUATION, atom_flags

        words = [atom_flags(one) & PUNCTUATION == 0 for one in (self.walk.source, self.walk.target)]
        plan = self.coupling.plan
        speaking = np.where(np.outer(*words), plan, 0.0)
        i, j = divmod(int((speaking if speaking.any() else plan).argmax()), plan.shape[1])
        return i, j

    @property
    def strongest_words(self) -> str:
        i, j = self.strongest
        rows, columns = self.labels
        return f"“{_short(rows[i])}” ({i + 1}) and “{_short(columns[j])}” ({j + 1})"


def _short(label: str) -> str:
    from sinkviz.figures.labels import elide, isolate, visible

    return isolate(plain(elide(visible(label), 30)))


@st.fragment
def _steps(walk: Walk) -> None:
    """Draw the ε dial, the steps to choose from, and the chosen one; reruns alone when one of them is moved."""
    epsilon, unit = _dial(walk)
    if unit == 0:
        st.info(
            "All pairs cost the same here, so there is nothing to choose between: attention and coupling are both "
            "a⊗b, at "
            "every ε. Take longer texts, or a finer unit under *Solved on*."
        )
    step = _choose_step()
    view = _solve(walk, epsilon)
    for name, one in (("Coupling", view.coupling), ("Balanced coupling", view.balanced)):
        if not one.converged:
            st.error(
                f"{name}: the solver stopped before its tolerance ({one.status}). Errors of the marginals: rows "
                f"{one.row_error:.1e}, columns {one.column_error:.1e}. A larger ε converges sooner."
            )
            break
    with st.container(border=True, key="inside_step_card"):
        _DRAW[step](view)
    _walk_on(step, bottom=True)
    state.write_url(CONTROLS, compare._link_parameter())


def _choose_step() -> str:
    st.segmented_control(
        "Step",
        list(STEPS),
        key="step",
        required=True,
        format_func=lambda key: f"{list(STEPS).index(key) + 1} · {STEPS[key]}",
        label_visibility="collapsed",
        persist_state="session",
    )
    return cast(str, st.session_state["step"])


def _walk_on(step: str, *, bottom: bool) -> None:
    names = list(STEPS)
    position = names.index(step)

    def go(name: str) -> None:
        st.session_state["step"] = name

    with st.container(horizontal=True, horizontal_alignment="distribute"):
        before, after = max(0, position - 1), min(len(names) - 1, position + 1)
        st.button(
            "Back" if position == 0 else f"Back: {STEPS[names[before]]}",
            key="step_back",
            disabled=position == 0,
            on_click=go,
            args=(names[before],),
        )
        st.button(
            "Next" if position == len(names) - 1 else f"Next: {STEPS[names[after]]}",
            key="step_next",
            disabled=position == len(names) - 1,
            on_click=go,
            args=(names[after],),
            type="primary",
        )


def _dial(walk: Walk) -> tuple[float, float]:
    """Draw the ε dial with its marks; return ε, absolute, and the unit that the dial counts in."""
    from sinkviz.figures.labels import number
    from sinkviz.pipeline import epsilon_scale

    _, unit = epsilon_scale(walk.cost, walk.source.weights, walk.target.weights)
    scale = unit or 1.0
    now = st.session_state
    if walk.own_epsilon is None:
        present = float(state.view()["epsilon"])
        options: list[Any] = sorted({*GRID, present})
        key, now["inside_epsilon"] = "inside_epsilon", present
        marks: dict[Any, str] = {0.35: "0.35 σ, where most words have two or three partners"}

        def moved() -> None:
            state.set_view({**state.view(), "epsilon": float(now["inside_epsilon"])})
            state.renew_view()

        def worth(value: Any) -> float:
            return float(value)
    else:
        own = walk.own_epsilon / scale
        options = sorted([*GRID, OWN], key=lambda value: own if value == OWN else float(value))
        key = "inside_temperature"
        # The place of OWN moves with the texts, and a widget whose options have changed forgets its value.
        kept = now.get("inside_temperature_kept", OWN)
        now[key] = kept if kept in options else OWN
        named = (
            f"√{walk.query.shape[1]} = {number(walk.own_epsilon)}, the temperature the model was trained with"
            if walk.relaxation is None and now["inside_encoder"] == "heads"
            else f"{number(walk.own_epsilon)}, the ε of this model"
        )
        marks = {OWN: named}

        def moved() -> None:
            now["inside_temperature_kept"] = now[key]

        def worth(value: Any) -> float:
            return own if value == OWN else float(value)

    chosen = st.select_slider(
        "ε, how much the plan may blur: units of σ, the spread of the double-centred cost",
        options,
        key=key,
        format_func=lambda value: f"{number(worth(value))} σ",
        on_change=moved,
        persist_state="session",
    )
    _marks({options.index(at) / (len(options) - 1): text for at, text in marks.items() if at in options})
    epsilon = worth(chosen) * scale
    st.caption(
        f"ε = {number(worth(chosen))} σ = {number(epsilon)} in units of the cost · σ = {number(unit)}"
        + ("" if unit else ": the cost is constant")
    )
    return epsilon, unit


def _marks(marks: dict[float, str]) -> None:
    """Draw marks under a slider, at shares of its length."""
    parts = "".join(
        f'<i style="left:calc(6px + (100% - 12px) * {share:.4f})"></i>'
        f'<b style="left:{100 * share:.2f}%;transform:translateX(-{100 * share:.2f}%)">{html.escape(text)}</b>'
        for share, text in marks.items()
    )
    st.html(
        "<style>.sinkviz-marks{position:relative;height:1.9em;margin:-1.1em 0 -.4em;font-size:.8rem}"
        ".sinkviz-marks i{position:absolute;top:0;width:2px;height:.6em;background:currentColor}"
        ".sinkviz-marks b{position:absolute;top:.65em;font-weight:400;white-space:nowrap;max-width:100%;"
        "overflow:hidden;text-overflow:ellipsis;opacity:.8}</style>"
        f'<div class="sinkviz-marks">{parts}</div>'
    )


def _solve(walk: Walk, epsilon: float) -> _View:
    """Return the couplings at one ε, solved again only when cost or ε are others."""
    from sinkviz.pipeline import couple_cost

    kept = st.session_state.get("inside_solved")
    if kept is not None and kept[0] is walk and kept[1] == epsilon:
        return cast(_View, kept[2])
    common: dict[str, Any] = {"epsilon": epsilon, "epsilon_unit": "absolute"}
    balanced = couple_cost(walk.cost, walk.source, walk.target, mechanism="sinkhorn", **common)
    attention = couple_cost(walk.cost, walk.source, walk.target, mechanism="softmax", **common)
    if walk.mechanism == "sinkhorn":
        coupling = balanced
    elif walk.mechanism == "softmax":
        coupling = attention
    else:
        coupling = couple_cost(
            walk.cost, walk.source, walk.target, mechanism="relaxed", relaxation=walk.relaxation, **common
        )
    view = _View(walk, balanced, attention, coupling)
    st.session_state["inside_solved"] = (walk, epsilon, view)
    return view


def _iterations(view: _View) -> Iterations:
    from sinkviz.ui.encoders import iterate

    kept = st.session_state.get("inside_iterations")
    if kept is not None and kept[0] is view:
        return cast("Iterations", kept[1])
    found = iterate(view.walk, view.balanced)
    st.session_state["inside_iterations"] = (view, found)
    return found


# --- words and numbers -----------------------------------------------------------------------------------------------


def tex(value: float) -> str:
    """Return a number of at most three digits as LaTeX.

    >>> tex(0.0625), tex(-1.5e-7), tex(12345.0)
    ('0.0625', '-1.5\\\\cdot10^{-7}', '1.23\\\\cdot10^{4}')
    """
    if value != 0 and not 0.001 <= abs(value) < 9999.5:
        mantissa, exponent = f"{value:.2e}".split("e")
        return f"{mantissa.rstrip('0').rstrip('.')}\\cdot10^{{{int(exponent)}}}"
    return f"{value:.3g}"


def _explain(sentence: str, *formulas: str) -> None:
    st.markdown(sentence)
    for formula in formulas:
        st.latex(formula)


def _facts(facts: dict[str, tuple[str, str]]) -> None:
    """Show a few numbers in words: label → (value, what it means)."""
    for column, (label, (value, help_text)) in zip(st.columns(len(facts)), facts.items(), strict=True):
        column.metric(label, value, help=help_text)


def _theme() -> Literal["light", "dark"]:
    return "dark" if st.context.theme.type == "dark" else "light"


def _chart(figure: Any, key: str | None = None) -> None:
    st.plotly_chart(figure, theme=None, alt=figure.layout.meta["description"], config={"displaylogo": False}, key=key)


def _pair(name: str, *figures: Any) -> None:
    """Draw figures side by side; their keys keep two that are alike apart."""
    for k, (column, figure) in enumerate(zip(st.columns(len(figures)), figures, strict=True)):
        with column:
            _chart(figure, key=f"inside_{name}_{k}")


def _retitled(figure: Any, title: str, subtitle: str) -> Any:
    """Return a figure of the library under another title, in the same type."""
    before = figure.layout.title.text
    start = before.index("<br>")
    style_end = before.index(">", start + 4) + 1
    figure.layout.title.text = f"<b>{title}</b>{before[start:style_end]}{subtitle}</span>"
    return figure


# --- 1 tokens --------------------------------------------------------------------------------------------------------


def _weights_formula(weights: np.ndarray, letter: str) -> str:
    low, high = float(weights.min()), float(weights.max())
    if high - low < 1e-12:
        return f"{letter}=\\tfrac{{1}}{{{len(weights)}}}={tex(high)}"
    return f"{tex(low)}\\le {letter}\\le {tex(high)}"


def _tokens(view: _View) -> None:
    from sinkviz.figures.labels import number, percent
    from sinkviz.figures.steps import atom_bars

    walk = view.walk
    source, target = walk.source, walk.target
    n, m, d = len(source), len(target), source.dimension
    _explain(
        f"A text is cut into {source.unit}s, and each becomes a point with {d} coordinates that say how it is used "
        f"here. "
        f"Give every {source.unit} a weight, so that the weights of a text add up to 1, as a heap of sand spread "
        f"over the "
        "points. Such a heap is all that the rest sees of a text: it is called a measure.",
        rf"\mu=\sum_{{i=1}}^{{{n}}}a_i\,\delta_{{x_i}},\quad {_weights_formula(source.weights, 'a_i')},\qquad "
        rf"\nu=\sum_{{j=1}}^{{{m}}}b_j\,\delta_{{y_j}},\quad {_weights_formula(target.weights, 'b_j')},\qquad "
        rf"x_i,\,y_j\in\mathbb R^{{{d}}}",
    )
    extent = (0.0, float(max(source.weights.max(), target.weights.max())))
    bars = []
    for side, measure in (("source", source), ("target", target)):
        heaviest = int(measure.weights.argmax())
        bars.append(
            atom_bars(
                measure.weights,
                measure.labels,
                side=cast(Literal["source", "target"], side),
                title=f"Weights of the {side}",
                subtitle=f"{count(len(measure), measure.unit)}, together 100 %",
                y_title="weight, %",
                shares=True,
                extent=extent,
                description=f"Weights of {count(len(measure), measure.unit)} of the {side} as bars, together 100 %; "
                f"the "
                f"largest is {percent(float(measure.weights[heaviest]))}.",
                theme=_theme(),
            )
        )
    _pair("tokens", *bars)
    st.caption(
        f"Vectors of {plain(source.origin.model)}, hidden layer {source.origin.layer}; lengths from "
        f"{number(_lengths(walk).min())} to {number(_lengths(walk).max())}. Weights can be changed on the Compare page."
    )


def _lengths(walk: Walk) -> np.ndarray:
    points = np.concatenate([walk.source.points, walk.target.points]).astype(np.float64)
    return np.asarray(np.linalg.norm(points, axis=1))


# --- 2 layers --------------------------------------------------------------------------------------------------------


def _layers(view: _View) -> None:
    from sinkviz.figures.steps import MovingCloud, moving_clouds

    walk = view.walk
    last = len(walk.stage_names) - 1
    if last == 0:
        _explain(
            "There is no layer in between here: the points go into the next step as they came, by one linear map at "
            "most.",
            r"Q(\mu,x)=W_Q\,x+c_Q,\qquad K(\nu,y)=W_K\,y+c_K",
        )
    else:
        own = walk.one_space
        _explain(
            "A layer lets every point look at all points of its own text and move a little towards what it finds. "
            "How much it looks at another point is its attention; a point counts by its weight, so cutting one in two "
            "halves changes nothing. After some layers a word lies where its context has put it.",
            r"x\;\leftarrow\;x+\sum_{h=1}^{" + str(walk.heads) + r"}W_h\sum_{j}"
            r"\frac{a_j\,e^{\langle Q_hx,\,K_hx_j\rangle/\sqrt{k}}}"
            r"{\sum_l a_l\,e^{\langle Q_hx,\,K_hx_l\rangle/\sqrt{k}}}"
            r"\,V_hx_j,\qquad "
            rf"k=\tfrac{{{walk.width}}}{{{walk.heads}}}={walk.width // walk.heads}",
        )
        if own:
            st.caption(
                "These are the embedding model's own layers, each followed by a token-wise network; it was trained on "
                "tokens that all count alike."
            )
    sides: list[tuple[Literal["source", "target"], Measure, Any, float]] = [
        ("source", walk.source, walk.stages[0], walk.kept[0]),
        ("target", walk.target, walk.stages[1], walk.kept[1]),
    ]
    clouds = [MovingCloud(side, measure.labels, measure.weights, stages) for side, measure, stages, _ in sides]
    common: dict[str, Any] = {"names": walk.stage_names, "theme": _theme()}
    if walk.one_space:
        left, right = st.columns([3, 2])
        with right:
            at = _stage(last)
            _moved(view, at)
        with left:
            _chart(moving_clouds(clouds, at=at, title="Both clouds", kept=walk.kept[0], **common), key="inside_cloud")
    else:
        at = _stage(last)
        titles = ("Source in the encoder of Q", "Target in the encoder of K")
        for column, cloud, side, title in zip(st.columns(2), clouds, sides, titles, strict=True):
            with column:
                figure = moving_clouds([cloud], at=at, title=title, kept=side[3], **common)
                _chart(figure, key=f"inside_cloud_{side[0]}")
        st.caption("Two encoders, two spaces: the two planes have nothing in common before the next step.")
        _moved(view, at)
    if at > 0 and walk.heads:
        _own_attention(view, at)


def _stage(last: int) -> int:
    """Draw the dial over the layers; return the chosen stage, 0 before the first layer."""
    now = st.session_state
    if now.get("inside_stage") is None or now["inside_stage"] > last:
        now["inside_stage"] = last
    if last > 0:
        st.slider(
            "Layer",
            0,
            last,
            key="inside_stage",
            help="0 is the cloud before the first layer. The plane is the same at every layer.",
            persist_state="session",
        )
    return int(now["inside_stage"])


def _moved(view: _View, at: int) -> None:
    from sinkviz.figures.labels import number

    walk = view.walk
    if at == 0:
        st.caption("Nothing has moved yet. Move the dial to the right: the plane stays as it is, the words move in it.")
        return
    shifts = [float(np.linalg.norm(s[at] - s[at - 1], axis=1).mean()) for s in walk.stages]
    st.caption(
        f"In this plane, layer {at} moved a source {walk.source.unit} by {number(shifts[0])} on average and a target "
        f"{walk.target.unit} by {number(shifts[1])}."
    )


def _own_attention(view: _View, layer: int) -> None:
    from sinkviz.figures.steps import largest_cell, matrix_map

    walk = view.walk
    names: list[int | str] = ["mean", *range(walk.heads)]
    if st.session_state.get("inside_head", "mean") not in names:
        st.session_state["inside_head"] = "mean"
    st.session_state.setdefault("inside_head", "mean")
    chosen = st.segmented_control(
        "Own attention of this layer: head",
        names,
        key="inside_head",
        required=True,
        format_func=lambda head: "Mean of all" if head == "mean" else str(head + 1),
        persist_state="session",
    )
    drawn = []
    head = None if chosen == "mean" else cast(int, chosen)
    parts = [(side, walk.attention(side, layer, head)) for side in cast(Any, ("source", "target"))]
    top = max(float(values.max()) for _, values in parts)
    for side, values in parts:
        measure = walk.source if side == "source" else walk.target
        drawn.append(
            matrix_map(
                values,
                measure.labels,
                measure.labels,
                title=f"How the {side} attends to itself",
                subtitle=f"layer {layer}, " + ("mean of all heads" if head is None else f"head {head + 1}"),
                bar_title="share of the row's attention",
                shares=True,
                limits=(0.0, top),
                sides=(side, side),
                description=f"Attention of the {side} to itself at layer {layer}; largest: "
                f"{largest_cell(values, measure.labels, measure.labels)}.",
                theme=_theme(),
            )
        )
    _pair("attention", *drawn)
    rows = "Row: who looks. Column: what it looks at. Every row adds up to 100 %."
    if walk.one_space:
        rows += (
            " The model's special tokens take part in its attention; here they are left out and the rest is rescaled."
        )
    st.caption(rows)


# --- 3 Q and K -------------------------------------------------------------------------------------------------------


def _clouds(view: _View) -> None:
    from sinkviz import figures
    from sinkviz.figures.labels import percent
    from sinkviz.figures.steps import largest_cell, matrix_map
    from sinkviz.projection import shared_projection

    walk = view.walk
    d = walk.query.shape[1]
    i, j = view.strongest
    score = float(walk.query[i] @ walk.key[j])
    how = {
        "none": "Without an encoder the query of a source point and the key of a target point are the vectors "
        "themselves, "
        "brought to length 1.",
        "heads": "The head turns each source point into a query (what it looks for) and each target point into a key "
        "(what it offers).",
    }.get(
        st.session_state["inside_encoder"],
        "The two encoders end in one common space: queries from the source, keys from the target.",
    )
    definition = {
        "none": r"Q(\mu,x)=\tfrac{x}{|x|},\quad K(\nu,y)=\tfrac{y}{|y|}",
        "heads": r"Q(\mu,x)=W_Qx+c_Q,\quad K(\nu,y)=W_Ky+c_K",
    }.get(st.session_state["inside_encoder"], r"Q(\mu,\cdot),\;K(\nu,\cdot)")
    _explain(
        f"{how} Where a query and a key point the same way, their inner product is large and the pair is likely.",
        rf"{definition}\;\in\mathbb R^{{{d}}},\qquad "
        rf"\langle Q(\mu,x_{{{i + 1}}}),K(\nu,y_{{{j + 1}}})\rangle={tex(score)}",
    )
    st.caption(f"In the formula: {view.strongest_words}, the pair of words with most mass in the plan.")
    queries = Measure.from_points(walk.query, walk.source.weights, walk.source.labels)
    keys = Measure.from_points(walk.key, walk.target.weights, walk.target.labels)
    projection = shared_projection(queries, keys)
    figure = figures.clouds(view.coupling, projection, theme=_theme())
    scores = walk.query @ walk.key.T
    labels = view.labels
    _pair(
        "clouds",
        _retitled(
            figure,
            "Queries and keys in one space",
            f"shared PCA, {percent(projection.kept)} of the variance · lines: the plan to come",
        ),
        matrix_map(
            scores,
            *labels,
            title="Inner products",
            subtitle="high = query and key point the same way",
            bar_title="⟨Q, K⟩",
            diverging=bool(scores.min() < 0),
            description=f"Inner product of every query with every key; highest: {largest_cell(scores, *labels)}; "
            f"lowest: "
            f"{largest_cell(scores, *labels, smallest=True)}.",
            theme=_theme(),
        ),
    )


# --- 4 cost ----------------------------------------------------------------------------------------------------------


def _cost(view: _View) -> None:
    from sinkviz.coupling import double_centred
    from sinkviz.figures.labels import number, percent
    from sinkviz.figures.steps import largest_cell, matrix_map

    walk = view.walk
    a, b = walk.source.weights, walk.target.weights
    centred = double_centred(walk.cost, a, b)
    rows, columns = walk.cost @ b, a @ walk.cost
    mean = float(a @ rows)
    pair = np.outer(a, b)
    spread = float((pair * (walk.cost - mean) ** 2).sum())
    felt = float((pair * centred**2).sum())
    i, j = view.strongest
    encoder = st.session_state["inside_encoder"]
    name = {
        "none": r"-\cos(x_i,y_j)",
        "heads": r"-\langle Q(x_i),K(y_j)\rangle",
    }.get(encoder, r"-\langle Q(\mu,x_i),K(\nu,y_j)\rangle/\sqrt{" + str(walk.query.shape[1]) + "}")
    if walk.residual:
        name = walk.residual + r"-w\langle Q(\mu,x_i),K(\nu,y_j)\rangle/\sqrt{" + str(walk.query.shape[1]) + "}"
    _explain(
        "Moving one unit of mass from a source point to a target point has a price, the cost: low where the two fit. "
        "A word "
        "that is dear to everybody has no choice about it, since all its mass must go somewhere. What decides the "
        "plan is "
        "the cost after such surcharges of whole rows and columns are taken off: the double-centred cost.",
        rf"C_{{ij}}={name},\qquad C_{{{i + 1},{j + 1}}}={tex(float(walk.cost[i, j]))}",
        rf"\tilde C_{{ij}}=C_{{ij}}-\sum_l b_lC_{{il}}-\sum_k a_kC_{{kj}}+\sum_{{kl}}a_kb_lC_{{kl}},\qquad "
        rf"\tilde C_{{{i + 1},{j + 1}}}={tex(float(walk.cost[i, j]))}-({tex(float(rows[i]))})"
        rf"-({tex(float(columns[j]))})"
        rf"+({tex(mean)})={tex(float(centred[i, j]))}",
    )
    st.caption(f"In the formulas: {view.strongest_words}, the pair of words with most mass in the plan.")
    _facts(
        {
            "Cheapest to dearest": (
                f"{number(float(walk.cost.min()))} to {number(float(walk.cost.max()))}",
                "Smallest and largest cost of a pair.",
            ),
            "σ, spread of the centred cost": (
                number(felt**0.5),
                "Weighted standard deviation of C̃: the unit that ε is measured in.",
            ),
            "Felt by the plan": (
                percent(felt / spread) if spread > 0 else "0 %",
                "Share of the variance of the cost that is left after rows and columns are centred.",
            ),
        }
    )
    labels = view.labels
    common: dict[str, Any] = {"theme": _theme()}
    _pair(
        "cost",
        matrix_map(
            walk.cost,
            *labels,
            title="Cost",
            subtitle="low = the two fit",
            bar_title="cost C",
            description=f"Cost of every pair; lowest: {largest_cell(walk.cost, *labels, smallest=True)}; highest: "
            f"{largest_cell(walk.cost, *labels)}.",
            **common,
        ),
        matrix_map(
            centred,
            *labels,
            title="Double-centred cost",
            subtitle="below 0 = cheaper than its row and column",
            bar_title="C̃",
            diverging=True,
            description="Cost of every pair after row and column means are taken off; lowest: "
            f"{largest_cell(centred, *labels, smallest=True)}; highest: {largest_cell(centred, *labels)}.",
            **common,
        ),
    )


# --- 5 iterations ----------------------------------------------------------------------------------------------------


def _iteration_step(view: _View) -> None:
    from sinkviz.figures.labels import number
    from sinkviz.figures.series import Line, line_chart
    from sinkviz.figures.steps import largest_cell, matrix_map

    if view.balanced.status == "closed_form":
        _explain(
            "Every pair costs the same, so attention already is the coupling: one step, no error left.",
            r"P=a\otimes b",
        )
        return
    run = _iterations(view)
    _explain(
        "Attention lets every source word spread its mass by taste: its rows are right, but some target words get "
        "too much "
        "and others too little. Sinkhorn repairs the columns, which spoils the rows a little, repairs the rows, and "
        "so on; "
        "each repair is smaller than the one before. Half-step ½ is attention, the end is the coupling.",
        r"f_i\leftarrow-\varepsilon\log\sum_j b_j\,e^{(g_j-C_{ij})/\varepsilon},\qquad "
        r"g_j\leftarrow-\varepsilon\log\sum_i a_i\,e^{(f_i-C_{ij})/\varepsilon},\qquad "
        rf"\varepsilon={tex(view.balanced.epsilon)}",
        rf"\text{{error}}_{{k+1}}\approx\sigma_2^2\cdot\text{{error}}_k,\qquad \sigma_2^2={tex(run.predicted_rate)}"
        + (rf",\qquad\text{{measured }}{tex(run.measured_rate)}" if run.measured_rate is not None else ""),
    )
    _facts(
        {
            "Predicted rate σ₂²": (
                number(run.predicted_rate),
                "Square of the second singular value of diag(a)^−½ P diag(b)^−½: what one whole step (rows and "
                "columns) "
                "multiplies the error by once the plan is near.",
            ),
            "Measured rate": (
                "too few steps" if run.measured_rate is None else number(run.measured_rate),
                "The same, read off the error of the columns over its last two decades above rounding.",
            ),
            "Attention's column error": (
                number(float(run.column_error[0])),
                "Sum over the target of |mass received − weight| at half-step ½.",
            ),
        }
    )
    halves, whole = run.steps % 1 > 0, run.steps % 1 == 0
    floor = 1e-16
    mode: Any = "lines+markers" if len(run.steps) <= 60 else "lines"
    lines = [
        Line(
            "rows against a, after the columns",
            run.steps[whole].tolist(),
            np.where(run.row_error[whole] > floor, run.row_error[whole], 0.0).tolist(),
            tone="source",
            mode=mode,
        ),
        Line(
            "columns against b, after the rows",
            run.steps[halves].tolist(),
            np.where(run.column_error[halves] > floor, run.column_error[halves], 0.0).tolist(),
            tone="target",
            mode=mode,
        ),
    ]
    if run.predicted_rate > 0:
        lines.append(_prediction(run))
    at = _half_step(run)
    long = len(run.steps) > 0 and run.steps[-1] > 60
    chart = line_chart(
        lines,
        title="Errors of the two marginals",
        subtitle="each step mends one side; drawn: the other",
        x_title="steps",
        y_title="L1 error",
        x_log=bool(long),
        y_log=True,
        mark=(float(run.steps[at]), f"step {run.steps[at]:g}"),
        description=f"Errors of both marginals on a logarithmic axis over {run.steps[-1]:g} steps, from "
        f"{number(float(run.column_error[0]))} for attention down to {number(float(run.column_error[halves][-1]))}; "
        f"predicted factor per step {number(run.predicted_rate)}.",
        theme=_theme(),
        height=420,
    )
    plan = run.plan(at)
    top = max(float(view.balanced.plan.max()), float(view.attention.plan.max()))
    labels = view.labels
    step = float(run.steps[at])
    what = "attention" if step == 0.5 else ("rows exact" if step % 1 else "columns exact")
    picture = matrix_map(
        plan,
        *labels,
        title=f"The plan after {step:g} steps",
        subtitle=f"{what} · rows off by {number(_floored(run.row_error[at]))}, "
        f"columns by {number(_floored(run.column_error[at]))}",
        bar_title="mass, % of the whole",
        shares=True,
        limits=(0.0, top),
        description=f"The plan after {step:g} steps, {what}; largest: {largest_cell(plan, *labels)}.",
        theme=_theme(),
    )
    _pair("iterations", chart, picture)


def _floored(value: float) -> float:
    return float(value) if value > 1e-15 else 0.0


def _prediction(run: Iterations) -> Any:
    """Return the predicted line, laid through the last measured error above rounding."""
    from sinkviz.figures.series import Line
    from sinkviz.ui.encoders import ROUNDING

    halves = np.flatnonzero((run.steps % 1 > 0) & (run.column_error > 100 * ROUNDING))
    anchor = int(halves[-1]) if len(halves) else 0
    values = run.column_error[anchor] * run.predicted_rate ** (run.steps - run.steps[anchor])
    inside = (values > ROUNDING) & (values < 4)
    return Line(
        "slope that σ₂² predicts",
        run.steps[inside].tolist(),
        values[inside].tolist(),
        tone="bound",
        mode="lines",
    )


def _half_step(run: Iterations) -> int:
    """Draw the dial over half-steps; return the index of the chosen one."""
    names = [f"{step:g}" for step in run.steps]
    now = st.session_state
    # The number of steps depends on ε and the texts: the nearest one that is there is taken.
    wanted = float(now.get("inside_half_step_wanted", 0.5))
    nearest = int(np.abs(np.log(run.steps) - np.log(wanted)).argmin())
    if now.get("inside_half_step") not in names:
        now["inside_half_step"] = names[nearest]

    def moved() -> None:
        now["inside_half_step_wanted"] = float(now["inside_half_step"])

    chosen = st.select_slider(
        "Stop after this many steps: ½ is attention, the right end the coupling",
        names,
        key="inside_half_step",
        on_change=moved,
        persist_state="session",
    )
    return names.index(chosen)


# --- 6 potentials ----------------------------------------------------------------------------------------------------


def _potentials(view: _View) -> None:
    from sinkviz.figures.labels import number
    from sinkviz.figures.steps import atom_bars

    walk, coupling = view.walk, view.balanced
    f, g = coupling.f, coupling.g
    assert f is not None
    assert g is not None
    i, j = view.strongest
    a, b, epsilon = walk.source.weights, walk.target.weights, coupling.epsilon
    formula = r"P_{ij}=a_i\,b_j\,e^{(f_i+g_j-C_{ij})/\varepsilon}"
    if epsilon > 0:
        formula += (
            rf",\qquad P_{{{i + 1},{j + 1}}}={tex(float(a[i]))}\cdot{tex(float(b[j]))}\cdot e^{{({tex(float(f[i]))}"
            rf"+({tex(float(g[j]))})-({tex(float(walk.cost[i, j]))}))/{tex(epsilon)}}}"
            rf"={tex(float(coupling.plan[i, j]))}"
        )
    _explain(
        "Think of a bonus f for mass that leaves a source word, and a bonus g for mass that enters a target word. "
        "Where "
        "too much wants to go, the bonus falls below zero and becomes a toll; where too little comes, it rises. With "
        "the "
        "right ones nobody has to be forced: every word is used exactly by its weight. The price of a word is what its "
        "mass pays, against what it would pay if it were spread over everybody: below 0 it has found something that "
        "fits.",
        formula,
        r"\text{price}_i=\frac1{a_i}\sum_jP_{ij}\,\tilde C_{ij},\qquad \sum_j b_jg_j=0"
        rf",\qquad \text{{mean price}}={tex(float(a @ coupling.price))}",
    )
    st.caption(f"In the formula: {view.strongest_words}. f and g are defined up to one constant; here ⟨b, g⟩ = 0.")
    rows, columns = view.labels
    top = int(np.argmax(g))
    low = int(np.argmin(g))
    _pair(
        "potentials",
        atom_bars(
            f - float(a @ f),
            rows,
            side="source",
            title="f, bonus of a source word",
            subtitle="units of the cost, minus its mean",
            y_title="f − mean",
            theme=_theme(),
            description=f"Potential f of {len(f)} source atoms minus its mean, from "
            f"{number(float((f - a @ f).min()))} to "
            f"{number(float((f - a @ f).max()))}.",
        ),
        atom_bars(
            g,
            columns,
            side="target",
            title="g, bonus of a target word",
            subtitle="units of the cost; above 0 = too little came by itself",
            y_title="g",
            theme=_theme(),
            description=f"Potential g of {len(g)} target atoms, from {number(float(g[low]))} to "
            f"{number(float(g[top]))}.",
        ),
    )
    target_price = _target_prices(view)
    extent = (
        min(0.0, float(coupling.price.min()), float(target_price.min())),
        max(0.0, float(coupling.price.max()), float(target_price.max())),
    )
    _pair(
        "prices",
        atom_bars(
            coupling.price,
            rows,
            side="source",
            title="Price that each source word pays",
            subtitle="0 = as by independence, below = fits",
            y_title="price",
            extent=extent,
            theme=_theme(),
            description=f"Price of {len(rows)} source atoms, from {number(float(coupling.price.min()))} to "
            f"{number(float(coupling.price.max()))}.",
        ),
        atom_bars(
            target_price,
            columns,
            side="target",
            title="Price paid for each target word",
            subtitle="the same mass, seen from the other side",
            y_title="price",
            extent=extent,
            theme=_theme(),
            description=f"Price paid for {len(columns)} target atoms, from {number(float(target_price.min()))} to "
            f"{number(float(target_price.max()))}.",
        ),
    )


def _target_prices(view: _View) -> np.ndarray:
    """Return Σ_i P_ij C̃_ij / b_j, 0 at zero weight."""
    from sinkviz.coupling import double_centred

    walk = view.walk
    centred = double_centred(walk.cost, walk.source.weights, walk.target.weights)
    b = walk.target.weights
    paid = (view.balanced.plan * centred).sum(0)
    return np.asarray(np.divide(paid, b, out=np.zeros(len(b)), where=b > 0))


# --- 7 plan ----------------------------------------------------------------------------------------------------------


def _plan(view: _View) -> None:
    from sinkviz import figures
    from sinkviz.figures.labels import number, percent

    coupling, attention = view.coupling, view.attention
    used = coupling.plan > 0
    divergence = float((coupling.plan[used] * coupling.log_lift[used]).sum())
    end = {
        "sinkhorn": r"\min_{P\,\in\,\Pi(\mu,\nu)}",
        "relaxed": r"\min_{P\mathbf 1=a}",
        "softmax": r"\min_{P\mathbf 1=a}",
    }[view.walk.mechanism]
    _explain(
        "The plan says how much mass goes from each source word to each target word: it keeps the weights of both "
        "texts, "
        "is as cheap as it can be, and as blurred as ε asks. Beside it stands attention on the same scores, which "
        "keeps the "
        "weights of the source only.",
        rf"{end}\;\langle C,P\rangle+\varepsilon\,\mathrm{{KL}}(P\,\|\,a\otimes b)="
        rf"{tex(coupling.transport_cost)}+{tex(coupling.epsilon)}\cdot{tex(divergence)}="
        rf"{tex(coupling.transport_cost + coupling.epsilon * divergence)}",
    )
    _facts(
        {
            "Mass that misses ν": (
                f"{percent(coupling.received_distance) if coupling.received_distance > 1e-6 else '0 %'} · "
                f"attention {percent(attention.received_distance)}",
                "Total variation between the mass each target word receives and its weight.",
            ),
            "Mutual information": (
                f"{number(coupling.mutual_information)} nat · attention {number(attention.mutual_information)}",
                "How much the partner says about a word; 0 for independence.",
            ),
            "Partners a word": (
                f"{number(coupling.mean_partners)} · attention {number(attention.mean_partners)}",
                "Exponential of the entropy of a word's row, on average.",
            ),
        }
    )
    drawn = figures.side_by_side(figures.heatmap, coupling, attention, theme=_theme())
    _pair("plan", *drawn)


_DRAW: dict[str, Callable[[_View], None]] = {
    "tokens": _tokens,
    "layers": _layers,
    "clouds": _clouds,
    "cost": _cost,
    "iterations": _iteration_step,
    "potentials": _potentials,
    "plan": _plan,
}
