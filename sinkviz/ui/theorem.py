"""The Theorem page: coupling systems to look at, experiments to run, runs to read, and the four steps of the proof."""

from __future__ import annotations

import importlib
import json
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
import streamlit as st
from numpy.typing import NDArray

from sinkviz.ui import jobs
from sinkviz.ui.words import count, plain, say

if TYPE_CHECKING:
    from sinkviz.approximation import (
        CouplingSystem,
        Experiment,
        ExperimentConfig,
        ExperimentProgress,
        ExperimentResult,
        FactorFit,
        Factorisation,
        Interval,
        Recovery,
        Stability,
        StoredFits,
    )
    from sinkviz.approximation.experiment import Summary

Numbers = NDArray[np.float64]

SECTIONS = {
    "gallery": "Coupling systems",
    "proof": "The proof in four steps",
    "live": "Run an experiment",
    "stored": "Finished runs",
}
PROOF = {
    "recovery": "1 · Every plan has a cost",
    "rank": "2 · The cost factors",
    "learning": "3 · Encoders learn the factors",
    "stability": "4 · Small errors stay small",
}
KINDS = {"sinkhorn": "Sinkhorn", "softmax": "softmax", "independent": "independent"}
TONES: dict[str, Literal["coupling", "attention", "independent"]] = {
    "sinkhorn": "coupling",
    "softmax": "attention",
    "independent": "independent",
}
OWN_SYSTEM = """from sinkviz.approximation import coupling_system, entropic_plan


@coupling_system(
    "mirror",
    title="Mirror",
    explanation="Each point looks for its mirror image.",
    formula="F(μ, ν) = S_{c,ε}(μ, ν), c(x, y) = −⟨x, M y⟩, M = reflection",
)
def mirror(x, a, y, b, epsilon):
    return entropic_plan(-(x * [1, -1]) @ y.T, a, b, epsilon)"""
_RUN, _FACTORS = "theorem_run", "theorem_factors"
_GONE_AFTER = 60.0


def page() -> None:
    """Draw the page."""
    st.html(
        "<style>[data-testid=stLatex] { overflow-x: auto; } "
        "[data-testid=stLatex] .katex-display { margin: .2em 0; }</style>"
    )
    st.markdown(
        "A **coupling system** is a rule F that takes any two clouds of weighted points and says how the mass of one "
        "goes to "
        "the other. The theorem: if the rule is continuous, some Sinkhorn Transformer T comes as near to it as one "
        "likes, "
        "for all clouds at once. Here you can look at such rules, watch models learn them, and walk through the proof."
    )
    st.latex(
        r"\sup_{\mu,\nu}\;W_1\big(T(\mu,\nu),\,F(\mu,\nu)\big)<\delta,\qquad "
        r"T(\mu,\nu)=S_{c,\varepsilon}(\mu,\nu),\quad c(x,y)=-\langle Q(\mu,x),K(\nu,y)\rangle"
    )
    st.session_state.setdefault("section", "gallery")
    section = st.segmented_control(
        "Part of the page",
        list(SECTIONS),
        key="section",
        required=True,
        format_func=lambda key: SECTIONS[key],
        label_visibility="collapsed",
        persist_state="session",
    )
    _load()
    {"gallery": _gallery, "proof": _proof, "live": _live, "stored": _stored}[str(section)]()


def _load() -> None:
    """Say what is awaited while the solver is loaded for the first time."""
    # The place is always there, or everything below would be mounted anew at the next run.
    place = st.empty()
    if "torch" in sys.modules and "ot" in sys.modules:
        return
    place.info("Loading the solver …")
    importlib.import_module("sinkviz.approximation")
    importlib.import_module("ot")
    place.empty()


# --- shared ----------------------------------------------------------------------------------------------------------


def _theme() -> Literal["light", "dark"]:
    return "dark" if st.context.theme.type == "dark" else "light"


def _chart(figure: Any, key: str | None = None) -> None:
    st.plotly_chart(figure, theme=None, alt=figure.layout.meta["description"], config={"displaylogo": False}, key=key)


def _row(name: str, *figures: Any) -> None:
    """Draw figures side by side; their keys keep two that are alike apart."""
    for k, (column, figure) in enumerate(zip(st.columns(len(figures)), figures, strict=True)):
        with column:
            _chart(figure, key=f"{name}_{k}")


def _facts(facts: dict[str, tuple[str, str]]) -> None:
    for column, (label, (value, help_text)) in zip(st.columns(len(facts)), facts.items(), strict=True):
        column.metric(label, value, help=help_text)


def _systems(*, factors: bool = False) -> dict[str, CouplingSystem]:
    from sinkviz.approximation import SYSTEMS

    return {name: one for name, one in SYSTEMS.items() if not factors or one.factors is not None}


def _system_choice(key: str, *, factors: bool = False, default: str = "moment-rotation") -> CouplingSystem:
    known = _systems(factors=factors)
    if st.session_state.get(key) not in known:
        st.session_state[key] = default
    chosen = st.selectbox(
        "Coupling system",
        list(known),
        key=key,
        format_func=lambda name: known[name].title,
        width=320,
        persist_state="session",
    )
    return known[chosen]


def _draw(system: CouplingSystem, points: int, seed: int, spread: float = 1.0) -> tuple[Numbers, ...]:
    """Return x, a, y, b and the plan of one pair of clouds, the second stretched about its centre."""
    import torch

    random = np.random.default_rng([seed, points])
    x, a = system.sampler(random, points)
    y, b = system.sampler(random, max(2, points - 1) if points > 2 else points)
    centre = b @ y
    y = centre + spread * (y - centre)
    tensors = [torch.from_numpy(np.ascontiguousarray(part)) for part in (x, a, y, b)]
    plan = system.plan(tensors[0], tensors[1], tensors[2], tensors[3]).numpy()
    return x, a, y, b, plan


def _theorem_interval(value: Interval, digits: int = 4) -> str:
    if value.low is None or value.high is None:
        return f"{value.mean:.{digits}f}"
    return f"{value.mean:.{digits}f} ({max(0.0, value.low):.{digits}f} to {value.high:.{digits}f})"


# --- gallery ---------------------------------------------------------------------------------------------------------


@st.fragment
def _gallery() -> None:
    from sinkviz.approximation import coupling_distance
    from sinkviz.figures.labels import number
    from sinkviz.figures.steps import plane_coupling

    now = st.session_state
    now.setdefault("gallery_seed", 1)

    def another() -> None:
        now["gallery_seed"] += 1

    with st.container(horizontal=True, vertical_alignment="bottom", gap="medium"):
        points = st.slider(
            "Points of the first cloud", 3, 24, 10, key="gallery_points", width=240, persist_state="session"
        )
        spread = st.slider(
            "Spread of the second cloud",
            0.4,
            2.0,
            1.0,
            0.1,
            key="gallery_spread",
            format="%.1f ×",
            width=260,
            help="Stretches the second cloud about its centre. The contextual rules then match the same points another "
            "way; the others hardly change.",
            persist_state="session",
        )
        st.button("Another pair", key="gallery_another", on_click=another)
    systems = list(_systems().values())
    for start in range(0, len(systems), 3):
        for column, system in zip(st.columns(3), systems[start : start + 3], strict=False):
            with column, st.container(border=True, key=f"system_{start}_{systems.index(system)}"):
                st.markdown(f"**{plain(system.title)}**")
                tags = ["contextual" if system.contextual else "no context"]
                if not system.continuous:
                    tags.append(":red[not continuous]")
                try:
                    if system.dim != 2:
                        raise ValueError(
                            f"expected points in the plane to draw, this system has {system.dim} dimensions"
                        )
                    x, a, y, b, plan = _draw(system, points, now["gallery_seed"], spread)
                except ValueError as error:
                    say(st.error, "", str(error))
                    continue
                away = coupling_distance(plan, np.outer(a, b), x, y)
                tags += [f"ε = {number(system.epsilon)}", f"W₁ to independence {number(away.upper)}"]
                st.caption(" · ".join(tags))
                # One square for all pictures of the same pair.
                reach = max(float(np.abs(x).max()), float(np.abs(y).max()))
                _chart(
                    plane_coupling(
                        x,
                        y,
                        plan,
                        title="",
                        subtitle="",
                        description=f"{count(len(x), 'source point')} as discs and {count(len(y), 'target point')} as "
                        f"squares, coupled by the system; its W1 distance from the independent coupling is "
                        f"{number(away.upper)}.",
                        extent=1.12 * reach,
                        theme=_theme(),
                    )
                )
                st.markdown(plain(system.explanation))
                st.caption(plain(system.formula))
    with st.expander("Add your own in ten lines of Python"):
        st.code(OWN_SYSTEM, language="python")
        st.markdown(
            "Run this before the app, or in a notebook: the system then stands in this gallery, in the experiments, "
            "and in "
            "`python -m sinkviz approximate mirror`. A rule that is no coupling is refused with the reason."
        )


# --- the four steps --------------------------------------------------------------------------------------------------


@st.fragment
def _proof() -> None:
    now = st.session_state
    now.setdefault("proof_step", "recovery")
    now.setdefault("proof_seed", 1)
    step = st.segmented_control(
        "Step of the proof",
        list(PROOF),
        key="proof_step",
        required=True,
        format_func=lambda key: PROOF[key],
        label_visibility="collapsed",
        persist_state="session",
    )
    if step == "learning":
        _learning()
        return

    def another() -> None:
        now["proof_seed"] += 1

    with st.container(horizontal=True, vertical_alignment="bottom", gap="medium"):
        system = _system_choice("proof_system", default="centring" if step == "rank" else "moment-rotation")
        points = st.slider("Points", 4, 20, 10, key="proof_points", width=200, persist_state="session")
        st.button("Another pair", key="proof_another", on_click=another)
    try:
        {"recovery": _recovery, "rank": _rank, "stability": _stability}[str(step)](system, points, now["proof_seed"])
    except ValueError as error:
        say(st.error, "", str(error))


def _plan_picture(values: Numbers, title: str, subtitle: str, **options: Any) -> Any:
    from sinkviz.figures.labels import number
    from sinkviz.figures.steps import matrix_map

    settings: dict[str, Any] = {"shares": True, "bar_title": "mass, % of the whole", **options}
    return matrix_map(
        values,
        [""] * values.shape[0],
        [""] * values.shape[1],
        title=title,
        subtitle=subtitle,
        description=f"{title}, a matrix of {values.shape[0]} by {values.shape[1]}, from "
        f"{number(float(values.min()))} to "
        f"{number(float(values.max()))}.",
        theme=_theme(),
        **settings,
    )


SMOOTHINGS = (1.0, 0.5, 0.2, 0.1, 0.05, 0.02, 0.01, 0.005, 0.002, 0.001)


@st.cache_data(show_spinner=False, max_entries=32)
def _recoveries(system: str, points: int, seed: int, sharp: bool, epsilon: float) -> list[Recovery]:
    from sinkviz import transport
    from sinkviz.approximation import get_system, recover_plan

    x, a, y, b, plan = _draw(get_system(system), points, seed)
    if sharp:
        ground = np.sqrt(((x[:, None] - y[None]) ** 2).sum(-1))
        plan = transport.exact_plan(ground, a.copy(), b.copy()).numpy()
    return [recover_plan(plan, x, y, epsilon=epsilon, smoothing=smoothing) for smoothing in SMOOTHINGS]


def _recovery(system: CouplingSystem, points: int, seed: int) -> None:
    from sinkviz.figures.labels import number
    from sinkviz.figures.series import Line, line_chart
    from sinkviz.ui.inside import tex

    st.markdown(
        "Take any plan π at all, even one that sends every point to a single partner. Mix in a little of the "
        "independent "
        "plan, δ of it, so that no pair is impossible. The logarithm of the mixture, turned round, is a cost, and the "
        "Sinkhorn operator gives the mixture back from it, exactly. So plans of this kind come as near to any plan "
        "as one "
        "likes: the distance is δ times that of independence."
    )
    with st.container(horizontal=True, vertical_alignment="bottom", gap="medium"):
        kind = st.segmented_control(
            "The plan π",
            ["system", "sharp"],
            key="recovery_plan",
            default="system",
            required=True,
            format_func=lambda one: {"system": "of the coupling system", "sharp": "exact matching by distance"}[one],
            persist_state="session",
        )
        smoothing = st.select_slider(
            "δ, share of the independent plan",
            list(reversed(SMOOTHINGS)),
            0.1,
            key="recovery_smoothing",
            width=280,
            persist_state="session",
        )
        epsilon = st.select_slider(
            "ε", [0.02, 0.05, 0.1, 0.2, 0.5, 1.0], 0.1, key="recovery_epsilon", width=200, persist_state="session"
        )
    steps = _recoveries(system.name, points, seed, kind == "sharp", float(epsilon))
    step = steps[SMOOTHINGS.index(float(smoothing))]
    st.latex(
        r"\pi_\delta=(1-\delta)\,\pi+\delta\,\mu\otimes\nu,\qquad "
        r"c=-\varepsilon\log\frac{d\pi_\delta}{d(\mu\otimes\nu)}\;\Rightarrow\;S_{c,\varepsilon}(\mu,\nu)=\pi_\delta"
    )
    st.latex(
        rf"W_1(\pi,\pi_\delta)=\delta\,W_1(\pi,\mu\otimes\nu)={tex(step.smoothing)}\cdot"
        rf"{tex(step.independent_distance.upper)}={tex(step.predicted_distance)},\qquad\text{{measured }}"
        rf"{tex(step.recovered_distance.upper)}"
    )
    _facts(
        {
            "W₁ of the recovered plan to π": (number(step.recovered_distance.upper), "Measured after the solve."),
            "Recovered − mixture": (
                number(step.recovery_error),
                f"‖S_c,ε − π_δ‖₁: the solver's tolerance and nothing else ({step.status.replace('_', ' ')}).",
            ),
            "Range of the cost": (
                number(step.cost_range),
                "Largest minus smallest: a small δ is paid for by a cost that spreads like ε log(1/δ).",
            ),
        }
    )
    top = (0.0, float(step.target.max()))
    chart = line_chart(
        [
            Line(
                "measured: W₁(π, recovered)",
                [one.smoothing for one in steps],
                [one.recovered_distance.upper for one in steps],
                mode="markers",
            ),
            Line(
                "δ · W₁(π, μ⊗ν), the exact value",
                [one.smoothing for one in steps],
                [one.predicted_distance for one in steps],
                tone="bound",
                mode="lines",
            ),
        ],
        title="Distance to π over δ",
        subtitle="marks: measured · line: proved",
        x_title="δ",
        y_title="W₁",
        x_log=True,
        y_log=True,
        mark=(step.smoothing, f"δ = {step.smoothing:g}"),
        description="W1 between the plan and what is recovered, over the smoothing δ, on two logarithmic axes: the "
        f"measured marks lie on the line δ times {number(step.independent_distance.upper)}.",
        theme=_theme(),
    )
    _row(
        "chart_1",
        _plan_picture(step.target, "The plan π", "rows: source points, columns: target points", limits=top),
        _plan_picture(
            step.cost, "The cost made for it", f"ε = {step.epsilon:g}", diverging=True, shares=False, bar_title="cost c"
        ),
    )
    _row("chart_2", _plan_picture(step.recovered, "The plan recovered", "by the Sinkhorn operator", limits=top), chart)


@st.cache_data(show_spinner=False, max_entries=32)
def _factorisation(system: str, points: int, seed: int) -> tuple[Factorisation, float]:
    from sinkviz.approximation import factor_cost, get_system, recover_plan

    chosen = get_system(system)
    x, a, y, b, plan = _draw(chosen, points, seed)
    cost = recover_plan(plan, x, y, epsilon=chosen.epsilon, smoothing=1e-3).cost
    ranks = range(min(len(x), len(y)) + 1)
    diameter = _diameter(x) + _diameter(y)
    return factor_cost(cost, a, b, x, y, epsilon=chosen.epsilon, ranks=list(ranks)), diameter


def _diameter(points: Numbers) -> float:
    return float(np.sqrt(((points[:, None] - points[None]) ** 2).sum(-1).max()))


def _rank(system: CouplingSystem, points: int, seed: int) -> None:
    from sinkviz.figures.labels import number, percent
    from sinkviz.figures.series import Line, line_chart
    from sinkviz.ui.inside import tex

    st.markdown(
        "A cost that is a sum of r products, one factor looking at the source point and one at the target point, is "
        "what "
        "queries and keys of r coordinates can say. Every continuous cost is nearly such a sum. For a table of "
        "numbers the "
        "best sum is known: the singular value decomposition of the double-centred cost. Raise r, and watch cost and "
        "plan "
        "come right."
    )
    found, diameter = _factorisation(system.name, points, seed)
    steps = found.steps
    last = steps[-1].rank
    if st.session_state.get("rank_chosen", 2) > last:
        st.session_state["rank_chosen"] = last
    rank = st.slider("r, number of factors", 0, last, 2, key="rank_chosen", width=360, persist_state="session")
    step = steps[rank]
    bound = diameter * 0.5 * min(step.sup_error / found.epsilon, 2.0)
    st.latex(
        r"c(x,y)\approx\sum_{k\le r}G_k(x)\,H_k(y),\qquad "
        rf"r={rank}:\quad\|c-c_r\|_\infty={tex(step.sup_error)},\quad W_1(S_{{c_r}},S_c)={tex(step.distance.upper)}"
        rf"\le\tfrac{{\mathrm{{diam}}}}{{2}}\min\!\big(\tfrac{{\|c-c_r\|_\infty}}{{\varepsilon}},2\big)={tex(bound)}"
    )
    explained = float(found.explained[rank - 1]) if rank else 0.0
    _facts(
        {
            "Largest error of the cost": (
                number(step.sup_error),
                "Largest error of the cost, at the best r(x) + s(y).",
            ),
            "W₁ of the plans": (number(step.distance.upper), "W1 between the plans of c_r and of c."),
            "Carried by r factors": (percent(explained), "Share of the squared, weighted, double-centred cost."),
        }
    )
    ranks = [float(one.rank) for one in steps]
    measured = [max(one.distance.upper, 0.0) for one in steps]
    chart = line_chart(
        [
            Line("largest error of the cost", ranks, [_floor(one.sup_error) for one in steps], tone="target"),
            Line("W₁ of the plans, measured", ranks, [_floor(value) for value in measured]),
            Line(
                "bound on W₁ from step 4",
                ranks,
                [_floor(diameter * 0.5 * min(one.sup_error / found.epsilon, 2.0)) for one in steps],
                tone="bound",
                mode="lines",
            ),
        ],
        title="Errors over the number of factors",
        subtitle="what is below 10⁻⁹ is the solver's tolerance",
        x_title="r",
        y_title="error",
        y_log=True,
        mark=(float(rank), f"r = {rank}"),
        description="Largest error of the cost and W1 of the plans, over the number of factors: from "
        f"{number(steps[0].sup_error)} and {number(measured[0])} without factors to {number(step.sup_error)} and "
        f"{number(step.distance.upper)} with {rank}.",
        theme=_theme(),
    )
    spread = float(np.abs(found.centred).max()) or 1.0
    top = (0.0, float(found.plan.max()))
    costs: dict[str, Any] = {"diverging": True, "shares": False, "limits": (-spread, spread), "bar_title": "cost"}
    _row(
        "chart_3",
        _plan_picture(found.centred, "The cost, double-centred", f"ε = {found.epsilon:g}", **costs),
        _plan_picture(step.cost, f"Its best {rank} factors", f"{percent(explained)} of the square carried", **costs),
    )
    _row(
        "chart_4",
        _plan_picture(
            step.plan, f"Plan of {rank} factors", f"W₁ to the plan of c: {number(step.distance.upper)}", limits=top
        ),
        chart,
    )


def _floor(value: float) -> float:
    return value if value > 1e-9 else 0.0


SIZES = (0.01, 0.03, 0.1, 0.3, 1.0, 3.0)


@st.cache_data(show_spinner=False, max_entries=32)
def _changes(system: str, points: int, seed: int) -> list[Stability]:
    from sinkviz.approximation import get_system, random_changes, recover_plan

    chosen = get_system(system)
    x, a, y, b, plan = _draw(chosen, points, seed)
    cost = recover_plan(plan, x, y, epsilon=chosen.epsilon, smoothing=1e-3).cost
    sizes = [size * chosen.epsilon for size in SIZES]
    return random_changes(cost, a, b, x, y, epsilon=chosen.epsilon, sizes=sizes, repeats=8, seed=seed)


def _stability(system: CouplingSystem, points: int, seed: int) -> None:
    from sinkviz.figures.labels import number
    from sinkviz.figures.series import Line, line_chart
    from sinkviz.ui.inside import tex

    st.markdown(
        "Encoders never hit the factors exactly, so the cost is a little off. Does the plan stay near? Both plans "
        "have the "
        "same row and column sums, so in the difference of their logarithms the potentials drop out; two lines of "
        "algebra "
        "and Pinsker's inequality give a bound with nothing hidden in it."
    )
    st.latex(
        r"\|P-P'\|_1^2\;\le\;\mathrm{KL}(P\|P')+\mathrm{KL}(P'\|P)=\tfrac1\varepsilon\langle c'-c,\,P-P'\rangle"
        r"\;\le\;\tfrac1\varepsilon\|c-c'\|_\infty\,\|P-P'\|_1"
    )
    steps = _changes(system.name, points, seed)
    size = st.select_slider(
        "Size of the change ‖c − c′‖∞, in units of ε",
        SIZES,
        0.3,
        key="stability_size",
        width=360,
        persist_state="session",
    )
    chosen = steps[8 * SIZES.index(float(size)) : 8 * SIZES.index(float(size)) + 8]
    worst = max(chosen, key=lambda one: one.ratio)
    st.latex(
        rf"\|P-P'\|_1={tex(worst.plan_change)}\;\le\;\frac{{\|c-c'\|_\infty}}{{\varepsilon}}="
        rf"\frac{{{tex(worst.cost_change)}}}{{{tex(worst.epsilon)}}}={tex(worst.bound)},\qquad "
        rf"W_1={tex(worst.distance.upper)}\;\le\;\tfrac12\,{tex(worst.diameter)}\cdot{tex(min(worst.bound, 2.0))}"
        rf"={tex(worst.distance_bound)}"
    )
    _facts(
        {
            "Largest ratio, this size": (number(worst.ratio), "Measured over bound, the largest of 8 random changes."),
            "Largest ratio, all sizes": (
                number(max(one.ratio for one in steps)),
                f"Of {len(steps)} random changes; it can never exceed 1.",
            ),
            "Largest W₁ ratio": (
                number(max(one.distance.upper / one.distance_bound for one in steps)),
                "W1 over its bound, half the diameter times the bound on ‖P − P′‖₁.",
            ),
        }
    )
    bounds = sorted(one.bound for one in steps)
    plans = line_chart(
        [
            Line(
                "measured ‖P − P′‖₁",
                [one.bound for one in steps],
                [one.plan_change for one in steps],
                mode="markers",
            ),
            Line("the bound", [bounds[0], bounds[-1]], [bounds[0], bounds[-1]], tone="bound", mode="lines"),
        ],
        title="How far the plan moves",
        subtitle="every mark lies under the line",
        x_title="‖c − c′‖∞ / ε",
        y_title="‖P − P′‖₁",
        x_log=True,
        y_log=True,
        mark=(float(size), f"{size:g}"),
        description=f"Change of the plan against its bound for {len(steps)} random changes of the cost: every mark "
        f"lies "
        f"under the line, the largest ratio is {number(max(one.ratio for one in steps))}.",
        theme=_theme(),
    )
    ordered = sorted(steps, key=lambda one: one.bound)
    distances = line_chart(
        [
            Line(
                "measured W₁(P, P′)",
                [one.bound for one in steps],
                [one.distance.upper for one in steps],
                mode="markers",
            ),
            Line(
                "its bound",
                [one.bound for one in ordered],
                [one.distance_bound for one in ordered],
                tone="bound",
                mode="lines",
            ),
        ],
        title="And in W₁",
        subtitle="half the diameter times the bound",
        x_title="‖c − c′‖∞ / ε",
        y_title="W₁",
        x_log=True,
        y_log=True,
        mark=(float(size), f"{size:g}"),
        description="W1 between the plans against its bound; every mark lies under the line.",
        theme=_theme(),
    )
    _row("chart_5", plans, distances)
    top = (0.0, float(max(worst.plan.max(), worst.changed_plan.max())))
    _row(
        "chart_6",
        _plan_picture(worst.plan, "The plan P", f"ε = {worst.epsilon:g}", limits=top),
        _plan_picture(
            worst.changed_plan, "The plan P′ of the changed cost", "the change with the largest ratio", limits=top
        ),
    )


def _learning() -> None:
    from sinkviz.figures.labels import number
    from sinkviz.figures.series import Line, line_chart

    st.markdown(
        "The factors G(μ, x) and H(ν, y) are functions of a point *and* of the whole cloud around it. Transformers can "
        "approximate every such function that is continuous (Furuya, de Hoop and Peyré). Here encoders of growing "
        "size learn "
        "one factor of a coupling system by regression; what counts is the error on clouds they have not seen."
    )
    st.latex(
        r"\min_\theta\;\mathbb E_\nu\int\big|K_\theta(\nu,y)-H(\nu,y)\big|^2\,\nu(dy),\qquad "
        r"\text{error}=\sup_{\nu,\,y}|K_\theta(\nu,y)-H(\nu,y)|\ \text{(largest seen)}"
    )
    job = jobs.find(_FACTORS)
    active = job is not None and job.active
    with st.container(horizontal=True, vertical_alignment="bottom", gap="medium"):
        system = _system_choice("factor_system", factors=True)
        steps = st.select_slider(
            "Training steps", [50, 100, 200, 400, 800], 200, key="factor_steps", width=240, persist_state="session"
        )
        st.button(
            "Train four encoders",
            key="factor_start",
            type="primary",
            disabled=active,
            on_click=_start_factors,
            args=(system, int(steps)),
        )
    with st.container():
        jobs.watch(_FACTORS)
        job = jobs.find(_FACTORS)
        if job is not None and job.status == "failed":
            say(st.error, "The training failed: ", job.error)

    @st.fragment(run_every=2.0 if job is not None and job.active else None)
    def drawn() -> None:
        fits: list[FactorFit] = list(st.session_state.get("factor_fits", []))
        active = job is not None and job.active
        if not fits and not active:
            stored = _stored_fits(_stamp("factors")).get(system.name)
            if stored is None:
                st.info("Press *Train four encoders*: it takes about half a minute. The page stays usable meanwhile.")
                return
            fits = list(stored.fits)
            st.caption(
                f"Learned: the factor H of “{plain(system.title)}”, a run that comes with the program "
                f"({stored.steps:,} steps of each encoder, {stored.seconds:.0f} s), made by:"
            )
            st.code(stored.command, language="shell")
        elif fits:
            st.caption(f"Learned: the factor H of “{plain(st.session_state['factor_title'])}”.")
        else:
            return
        done = [fit for fit in fits if fit.finished]
        charts = []
        if done:
            sizes = [float(fit.parameters) for fit in done]
            scale = done[-1].scale or 0.0
            names = [f"width {fit.width}, {count(fit.layers, 'layer')}" for fit in done]
            charts.append(
                line_chart(
                    [
                        Line(
                            "largest error seen",
                            sizes,
                            [fit.largest_error or 0.0 for fit in done],
                            tone="target",
                            hover=names,
                        ),
                        Line("mean error", sizes, [fit.mean_error or 0.0 for fit in done], hover=names),
                    ],
                    title="Error on clouds never seen",
                    subtitle="200 held-out clouds",
                    x_title="parameters of the encoder",
                    y_title="|K − H|",
                    x_log=True,
                    y_log=True,
                    levels=[(scale, "size of H itself: the error of answering 0")],
                    description="Mean and largest error of the learned factor over the size of the encoder: "
                    + "; ".join(
                        f"{name}: {number(fit.mean_error or 0.0)} and {number(fit.largest_error or 0.0)}"
                        for name, fit in zip(names, done, strict=True)
                    )
                    + ".",
                    theme=_theme(),
                )
            )
        lines = []
        tones = ("source", "target", "coupling", "pin")
        for k, size in enumerate(dict.fromkeys((fit.width, fit.layers) for fit in fits)):
            part = [fit for fit in fits if (fit.width, fit.layers) == size]
            lines.append(
                Line(
                    f"width {size[0]}, {count(size[1], 'layer')}",
                    [float(fit.step) for fit in part],
                    [fit.loss for fit in part],
                    tone=tones[k % len(tones)],  # type: ignore[arg-type]
                )
            )
        charts.append(
            line_chart(
                lines,
                title="While they learn",
                subtitle="mean squared error on training clouds",
                x_title="steps",
                y_title="loss",
                y_log=True,
                description=f"Training loss of {len(lines)} encoders over the steps, now {number(fits[-1].loss)}.",
                theme=_theme(),
            )
        )
        _row("chart_7", *charts)

    drawn()


def _start_factors(system: CouplingSystem, steps: int) -> None:
    fits: list[FactorFit] = []
    st.session_state["factor_fits"] = fits
    st.session_state["factor_title"] = system.title
    left = _leaver()

    def work(progress: Callable[[float, str], None], cancelled: Callable[[], bool]) -> list[FactorFit]:
        from sinkviz.approximation import learn_factors

        sizes = ((8, 1), (16, 2), (32, 2), (32, 3))
        progress(0.0, "drawing clouds")
        for fit in learn_factors(
            system, sizes=sizes, steps=steps, report_every=max(5, steps // 20), cancelled=lambda: cancelled() or left()
        ):
            fits.append(fit)
            done = sizes.index((fit.width, fit.layers))
            progress((done + fit.step / fit.steps) / len(sizes), f"width {fit.width}, {count(fit.layers, 'layer')}")
        return fits

    jobs.start(_FACTORS, work)


def _leaver() -> Callable[[], bool]:
    """Return a question for a thread: has the visitor whose work it is been gone for a minute?"""
    from streamlit import runtime
    from streamlit.runtime.scriptrunner import get_script_run_ctx

    context = get_script_run_ctx()
    session = context.session_id if context is not None else None
    last = [time.monotonic()]

    def left() -> bool:
        if session is None or not runtime.exists() or runtime.get_instance().is_active_session(session):
            last[0] = time.monotonic()
        return time.monotonic() - last[0] > _GONE_AFTER

    return left


# --- a live experiment -----------------------------------------------------------------------------------------------


@dataclass(eq=False)
class _Laboratory:
    """An experiment of this session: it outlives its thread, so that it can be stopped and resumed.

    Attributes:
        experiment: what runs. latest: its last report. curves: training loss of each run so far, by its label.
    """

    experiment: Experiment
    latest: ExperimentProgress | None = None
    curves: dict[str, list[tuple[int, float]]] = field(default_factory=dict)

    def work(self, left: Callable[[], bool]) -> jobs.Work[ExperimentResult]:
        """Return the job that runs what is missing."""

        def work(progress: Callable[[float, str], None], cancelled: Callable[[], bool]) -> ExperimentResult:
            progress(self.latest.share if self.latest is not None else 0.0, "drawing clouds")
            for report in self.experiment.run():
                self.latest = report
                if report.training is not None and report.training.loss is not None:
                    self.curves.setdefault(report.label, []).append((report.training.step, report.training.loss))
                rest = report.seconds_left
                progress(report.share, report.label + ("" if rest is None else f", about {rest:.0f} s left"))
                if cancelled() or left():
                    self.experiment.stop()
            return self.experiment.result()

        return work


def _live() -> None:
    st.markdown(
        "Draw pairs of clouds, couple them by F, train encoders on some of them, and measure W₁ between model and F "
        "on pairs "
        "they have not seen. Beside the Sinkhorn Transformer stand the same encoders with softmax rows, trained with "
        "the "
        "same budget, and the independent coupling, which knows nothing. The preset is done in about a minute on two "
        "cores; "
        "the page stays usable, and the run stays yours when you change pages."
    )
    config = _configuration()
    laboratory: _Laboratory | None = st.session_state.get("laboratory")
    job = jobs.find(_RUN)
    active = job is not None and job.active
    stopped = (
        laboratory is not None and not active and (laboratory.latest is None or laboratory.latest.status != "finished")
    )
    with st.container(horizontal=True, vertical_alignment="center"):
        st.button(
            "Start", key="run_start", type="primary", disabled=active or config is None, on_click=_start, args=(config,)
        )
        st.button("Resume", key="run_resume", disabled=not stopped, on_click=_resume)
        if config is not None:
            runs = len(config.cells())
            st.caption(f"{count(runs, 'run')}: {plain(config.command)}")
    with st.container():
        jobs.watch(_RUN)
        job = jobs.find(_RUN)
        if job is not None and job.status == "failed":
            say(st.error, "The run failed: ", job.error)
        elif stopped:
            share = laboratory.latest.share if laboratory is not None and laboratory.latest is not None else 0.0
            st.warning(f"Stopped at {share:.0%}. *Resume* goes on from the same training step.")
    if laboratory is None:
        st.info("Choose a coupling system and press *Start*.")
        return
    active = job is not None and job.active

    @st.fragment(run_every=2.0 if active else None)
    def drawn() -> None:
        assert laboratory is not None
        if laboratory.curves:
            _chart(_loss_chart(laboratory.curves), key="run_loss")
        if laboratory.latest is not None and laboratory.latest.result.rows:
            _result(laboratory.latest.result, live=True)

    drawn()


def _configuration() -> ExperimentConfig | None:
    from sinkviz.approximation import preset

    with st.container(horizontal=True, vertical_alignment="bottom", gap="medium"):
        system = _system_choice("run_system")
        width = st.select_slider("Width", [8, 16, 32, 64], 16, key="run_width", width=140, persist_state="session")
        layers = st.select_slider("Layers", [1, 2, 3], 1, key="run_layers", width=100, persist_state="session")
        steps = st.select_slider(
            "Training steps", [50, 100, 200, 400, 800], 200, key="run_steps", width=180, persist_state="session"
        )
        seeds = st.select_slider(
            "Seeds",
            [1, 2, 3],
            2,
            key="run_seeds",
            width=100,
            help="Intervals need at least two.",
            persist_state="session",
        )
        epsilon = st.select_slider(
            "ε", [0.05, 0.1, 0.2, 0.5], 0.1, key="run_epsilon", width=140, persist_state="session"
        )
    try:
        return replace(
            preset("live", system.name),
            sizes=((int(width), int(layers)),),
            steps=int(steps),
            seeds=tuple(range(int(seeds))),
            epsilons=(float(epsilon),),
        )
    except ValueError as error:
        say(st.error, "", str(error))
        return None


def _start(config: ExperimentConfig) -> None:
    from sinkviz.approximation import Experiment

    laboratory = _Laboratory(Experiment(config))
    st.session_state["laboratory"] = laboratory
    jobs.start(_RUN, laboratory.work(_leaver()))


def _resume() -> None:
    laboratory: _Laboratory = st.session_state["laboratory"]
    jobs.start(_RUN, laboratory.work(_leaver()))


def _loss_chart(curves: dict[str, list[tuple[int, float]]]) -> Any:
    from sinkviz.figures.labels import number
    from sinkviz.figures.series import Line, line_chart

    lines = []
    for label, curve in list(curves.items()):
        points = list(curve)
        lines.append(
            Line(
                label.split(",")[0] + ", " + label.split(", ")[-1],
                [float(step) for step, _ in points],
                [max(loss, 0.0) for _, loss in points],
                tone="attention" if label.startswith("softmax") else "coupling",
                mode="lines",
            )
        )
    return line_chart(
        lines,
        title="Training loss",
        subtitle="Fenchel–Young loss KL(π ‖ P), nat; softmax: of its rows",
        x_title="training steps",
        y_title="loss",
        y_log=True,
        description=f"Training loss of {len(lines)} runs over the steps; the last one is at {number(lines[-1].y[-1])}.",
        theme=_theme(),
        height=300,
    )


# --- results ---------------------------------------------------------------------------------------------------------


def _result(result: ExperimentResult, *, live: bool = False) -> None:
    """Draw one result: bars side by side, larger clouds, the ratio, the table, and the command that makes it."""
    from sinkviz.approximation import get_system

    summaries = result.summaries()
    system = get_system(result.config.system)
    held_out = result.config.held_out
    charts = [
        _bars(summaries, "Mean W₁", f"{held_out} held-out pairs", lambda one: one.mean),
        _bars(summaries, "Largest W₁ seen", "a lower bound of the sup", lambda one: one.largest),
    ]
    _row("chart_8", *charts)
    _verdict(result, system)
    _table(result)
    if live:
        with st.container(horizontal=True, vertical_alignment="center"):
            st.download_button(
                "Result as JSON",
                json.dumps(result.as_dict(), ensure_ascii=False, indent=1),
                file_name=f"{result.config.system}.json",
                mime="application/json",
                key="run_download",
                on_click="ignore",
            )
            st.caption("The same run from the command line:")
        st.code(result.config.command, language="shell")


def _bars(summaries: list[Summary], title: str, subtitle: str, value: Callable[[Summary], Interval]) -> Any:
    from sinkviz.figures.labels import number
    from sinkviz.figures.series import Line, bar_chart

    names: list[str] = []
    places: dict[tuple[Any, ...], int] = {}
    for one in summaries:
        if one.kind != "independent":
            group = (one.width, one.layers, one.epsilon, one.training_size)
            if group not in places:
                places[group] = len(names)
                names.append(f"width {one.width}, {count(one.layers, 'layer')}")
    if not names:
        names = ["no model yet"]
    lines = []
    for kind, label in KINDS.items():
        chosen = [one for one in summaries if one.kind == kind]
        if not chosen:
            continue
        at = (
            [float(k) for k in range(len(names))]
            if kind == "independent"
            else [float(places[(one.width, one.layers, one.epsilon, one.training_size)]) for one in chosen]
        )
        values = [value(chosen[0])] * len(names) if kind == "independent" else [value(one) for one in chosen]
        lines.append(
            Line(
                label,
                at,
                [one.mean for one in values],
                [one.low for one in values],
                [one.high for one in values],
                tone=TONES[kind],
            )
        )
    words = "; ".join(f"{line.label} {number(line.y[0])}" for line in lines)
    return bar_chart(
        names,
        lines,
        title=title,
        subtitle=f"{subtitle}; whiskers: 95 % over seeds",
        y_title="W₁",
        description=f"{title} with 95 % intervals over seeds: {words}.",
        theme=_theme(),
        height=320,
    )


def _verdict(result: ExperimentResult, system: CouplingSystem) -> None:
    """Say what the numbers say, no more."""
    lines = []
    for cell, ratio in result.ratios():
        span = ""
        if ratio.low is not None and ratio.high is not None:
            span = f" (95 % interval {ratio.low:.1f} to {ratio.high:.1f})"
        lines.append(
            f"- Width {cell.width}, {count(cell.layers, 'layer')}, ε = {cell.epsilon:g}: the softmax model misses by "
            f"**{ratio.mean:.1f} times** the mean W₁ of the Sinkhorn model{span}."
        )
    diverged = sum(row.status == "diverged" for row in result.rows)
    if diverged:
        lines.append(f"- {count(diverged, 'run')} diverged and count with the weights they fell back to.")
    unconverged = sum(row.errors.unconverged for row in result.rows)
    if unconverged:
        lines.append(
            f"- {count(unconverged, 'test pair')} did not reach the solver's tolerance; measured all the same."
        )
    if not system.continuous:
        lines.append("- This system is not continuous: the theorem promises nothing here, and the error need not fall.")
    if not result.complete:
        lines.append("- Not all runs are done yet.")
    if lines:
        st.markdown("\n".join(lines))


def _table(result: ExperimentResult) -> None:
    import pandas as pd

    rows = []
    for one in result.summaries():
        entry: dict[str, Any] = {
            "model": KINDS[one.kind],
            "width": str(one.width or "–"),
            "layers": str(one.layers) if one.kind != "independent" else "–",
            "parameters": f"{one.parameters:,}" if one.parameters else "–",
            "ε": one.epsilon,
            "training pairs": f"{one.training_size:,}" if one.training_size else "–",
            "seeds": one.mean.count,
            "mean W1": _theorem_interval(one.mean),
            "largest W1 seen": _theorem_interval(one.largest),
            "worst seed": f"{one.worst:.4f}",
        }
        chosen = [
            row
            for row in result.rows
            if row.cell.group == (one.kind, one.width, one.layers, one.epsilon, one.training_size)
        ]
        for points, mean in one.far_mean.items():
            widest = max(row.far[points].width for row in chosen)
            entry[f"mean, {points} points"] = _theorem_interval(mean)
            entry[f"bracket, {points} points"] = f"{widest:.4f}"
        if one.diverged:
            entry["diverged"] = one.diverged
        rates = sorted({row.learning_rate for row in chosen if row.learning_rate})
        entry["learning rate"] = ", ".join(f"{rate:g}" for rate in rates) or "–"
        rows.append(entry)
    st.dataframe(pd.DataFrame(rows), hide_index=True)
    st.caption(
        "W1 on the product space, ground distance |x − x′| + |y − y′|: exact up to 32×32 points; beyond, the upper "
        "end of a "
        "bracket whose greatest width is given. In brackets: 95 % intervals over seeds (Student's t)."
    )


# --- stored runs -----------------------------------------------------------------------------------------------------

AXES = {
    "capacity": "Capacity",
    "epsilon": "ε",
    "data": "Training pairs",
    "points": "Points far beyond",
    "comparison": "Sinkhorn and softmax",
}


@st.cache_data(show_spinner=False, max_entries=4)
def _stored_results(stamp: tuple[tuple[str, int], ...]) -> dict[str, ExperimentResult]:
    from sinkviz.approximation import stored_results

    return stored_results()


@st.cache_data(show_spinner=False, max_entries=4)
def _stored_fits(stamp: tuple[tuple[str, int], ...]) -> dict[str, StoredFits]:
    from sinkviz.approximation import stored_fits

    return stored_fits()


def _stamp(below: str = ".") -> tuple[tuple[str, int], ...]:
    from sinkviz.resources import ROOT

    folder = ROOT / "approximation" / below
    return tuple((path.name, path.stat().st_mtime_ns) for path in sorted(folder.glob("*.json")))


def axis_values(result: ExperimentResult, axis: str) -> list[float]:
    """Return the values that a result has along an axis; fewer than two mean that it does not walk it."""
    config = result.config
    if axis == "capacity":
        return [float(width) for width, _ in config.sizes]
    if axis == "epsilon":
        return list(config.epsilons)
    if axis == "data":
        return [float(size) for size in config.training_sizes]
    if axis == "points":
        return [float(points) for points in config.far_points]
    return [1.0, 2.0] if {"sinkhorn", "softmax"} <= set(config.kinds) else []


def _stored() -> None:
    results = _stored_results(_stamp())
    if not results:
        st.info("There are no finished runs in assets/approximation; `python -m sinkviz approximate` makes them.")
        return
    available = {axis: {name: one for name, one in results.items() if len(axis_values(one, axis)) > 1} for axis in AXES}
    shown = [axis for axis, found in available.items() if found]
    if st.session_state.get("stored_axis") not in shown:
        st.session_state["stored_axis"] = shown[0]
    st.markdown(
        "These runs were made once and are shipped with the program, each with the command that makes it again. A "
        "largest "
        "value over held-out pairs is a lower bound of the sup that the theorem speaks of."
    )
    _aims(results)
    axis = st.segmented_control(
        "Error against",
        shown,
        key="stored_axis",
        required=True,
        format_func=lambda key: AXES[key],
        persist_state="session",
    )
    axis = str(axis)
    if axis == "comparison":
        _comparison(available[axis])
        return
    names = list(available[axis])
    if st.session_state.get("stored_run") not in names:
        st.session_state["stored_run"] = names[0]
    titles = {name: f"{_systems()[one.config.system].title}: {name}" for name, one in available[axis].items()}
    name = st.selectbox(
        "Run", names, key="stored_run", format_func=lambda one: titles[one], width=420, persist_state="session"
    )
    result = available[axis][name]
    _walked(result, axis)
    _verdict(result, _systems()[result.config.system])
    _table(result)
    _origin(result)


def aims(results: dict[str, ExperimentResult]) -> list[dict[str, str]]:
    """Return what was aimed at before the runs, what they reached, and what stands in the way where they missed.

    The aims are for the contextual rotation at ε = 0.1, over 200 held-out pairs of up to 24 points, and for softmax
    models of equal size on every contextual system.
    """
    wide = [
        (one, name)
        for name, result in results.items()
        if result.config.system == "moment-rotation"
        and result.config.held_out >= 200
        and result.config.test_points[1] >= 24
        for one in result.summaries()
        if one.kind == "sinkhorn" and one.epsilon == 0.1
    ]
    rows: list[dict[str, str]] = []

    def add(aim: str, reached: str, met: bool, run: str, why: str = "") -> None:
        rows.append({"aim": aim, "reached": reached, "met": "yes" if met else "no", "run": run, "in the way": why})

    for part, limit, what in (("largest", 0.035, "largest W₁ seen"), ("mean", 0.012, "mean W₁")):
        if wide:
            one, name = min(wide, key=lambda found: getattr(found[0], part).mean)
            value = getattr(one, part)
            met = value.mean <= limit
            add(
                f"contextual rotation: {what} ≤ {limit:g}",
                f"{_theorem_interval(value)} (width {one.width}, {count(one.layers, 'layer')})",
                met,
                name,
                "" if met else _in_the_way(results, part),
            )
    far = [(one.far_largest[128], name) for one, name in wide if 128 in one.far_largest]
    if far:
        value, name = min(far, key=lambda found: found[0].mean)
        add("contextual rotation: upper end of the bracket ≤ 0.08 at 128 points", _theorem_interval(value),
            value.mean <= 0.08, name)  # fmt: skip
    systems = _systems()
    best: dict[str, tuple[str, ExperimentResult]] = {}
    for name, result in sorted(results.items()):
        config = result.config
        plain_comparison = len(config.kinds) == 3 and len(config.seeds) >= 3 and len(config.sizes) == 1
        several = len(config.epsilons) * len(config.training_sizes) > 1 or len(axis_values(result, "points")) > 1
        if not (systems[config.system].contextual and result.ratios() and plain_comparison) or several:
            continue
        held = best.get(config.system)
        if held is None or result.ratios()[0][1].mean > held[1].ratios()[0][1].mean:
            best[config.system] = name, result
    for key, (name, result) in best.items():
        ratio = result.ratios()[0][1]
        span = f" ({ratio.low:.1f} to {ratio.high:.1f})" if ratio.low is not None and ratio.high is not None else ""
        met = ratio.mean >= 5 - 1e-9
        why = ""
        if not met:
            own = next(one for one in result.summaries() if one.kind == "sinkhorn")
            why = f"the Sinkhorn model itself is still at {own.mean.mean:.3f}: it has not learned this system as far"
            if not systems[key].continuous:
                why += ", and the theorem promises nothing for a system that jumps"
        add(f"{systems[key].title}: softmax ≥ 5 times Sinkhorn", f"{ratio.mean:.1f} times{span}", met, name, why)
    return rows


def _in_the_way(results: dict[str, ExperimentResult], part: str) -> str:
    """Say along which axis the stored runs still improve."""
    found = []
    for axis, words in (("capacity", "size"), ("data", "training pairs")):
        for result in results.values():
            if result.config.system != "moment-rotation" or len(axis_values(result, axis)) < 2:
                continue
            ordered = sorted(
                (one for one in result.summaries() if one.kind == "sinkhorn"), key=lambda one: _place(one, axis)
            )
            first, last = getattr(ordered[0], part).mean, getattr(ordered[-1], part).mean
            if len(ordered) > 1 and last < 0.9 * first:
                found.append(f"with {words} it falls from {first:.3f} to {last:.3f}")
                break
    return "size and budget: " + ", ".join(found) if found else "unknown: no stored axis lowers it"


def _aims(results: dict[str, ExperimentResult]) -> None:
    import pandas as pd

    with st.expander("What was aimed at, and what was reached"):
        # A table that wraps: the last column holds sentences.
        st.table(pd.DataFrame(aims(results)).set_index("aim"))


def _origin(result: ExperimentResult) -> None:
    environment = ", ".join(f"{key} {value}" for key, value in result.environment.items())
    st.caption(f"Made in {result.seconds / 60:.1f} min ({plain(environment)}) by:")
    st.code(result.config.command, language="shell")


def _place(one: Summary, axis: str) -> float:
    """Return where a group stands on an axis."""
    return {"capacity": float(one.parameters), "epsilon": one.epsilon, "data": float(one.training_size)}[axis]


def _walked(result: ExperimentResult, axis: str) -> None:
    """Draw mean and largest W1 of a result along one of its axes."""
    config = result.config
    if axis == "points":
        _row("chart_9", _far(result, "mean"), _far(result, "largest"))
        widest = max((row.far[n].width for row in result.rows for n in row.far), default=0.0)
        st.caption(
            f"Trained on clouds of {config.train_points[0]} to {config.train_points[1]} points. From 32 points on, "
            f"W₁ is the "
            f"upper end of a bracket; its greatest width is {widest:.4f}."
        )
        return
    from sinkviz.figures.labels import number
    from sinkviz.figures.series import Line, ends, line_chart

    titles = {"capacity": "parameters", "epsilon": "ε", "data": "training pairs"}
    charts = []
    for part, subtitle in (("mean", f"{config.held_out} held-out pairs"), ("largest", "a lower bound of the sup")):
        lines, levels, words = [], [], []
        for kind, label in KINDS.items():
            chosen = [one for one in result.summaries() if one.kind == kind]
            if not chosen:
                continue
            if kind == "independent" and axis != "epsilon":
                value = getattr(chosen[0], part).mean
                levels.append((value, f"independent coupling {number(value)}"))
                words.append(f"independent {number(value)}")
                continue
            ordered = sorted(chosen, key=lambda one: _place(one, axis))
            values = [getattr(one, part) for one in ordered]
            line = Line(
                label,
                [_place(one, axis) for one in ordered],
                [one.mean for one in values],
                [one.low for one in values],
                [one.high for one in values],
                tone=TONES[kind],
                hover=[f"width {one.width}, {count(one.layers, 'layer')}" for one in ordered],
            )
            lines.append(line)
            words.append(ends(line))
        if not lines:
            continue
        places = sorted({x for line in lines for x in line.x})
        charts.append(
            line_chart(
                lines,
                title="Mean W₁" if part == "mean" else "Largest W₁ seen",
                subtitle=f"{subtitle}; whiskers: 95 % over seeds",
                x_title=titles[axis],
                y_title="W₁",
                x_log=True,
                y_log=True,
                x_ticks=[(place, f"{place:,.0f}" if axis != "epsilon" else f"{place:g}") for place in places],
                levels=levels,
                description=f"{'Mean' if part == 'mean' else 'Largest'} W1 over {titles[axis]}: {'; '.join(words)}.",
                theme=_theme(),
            )
        )
    _row("chart_10", *charts)


def _far(result: ExperimentResult, part: Literal["mean", "largest"]) -> Any:
    from sinkviz.figures.series import Line, ends, line_chart

    lines = []
    for kind, label in KINDS.items():
        chosen = [one for one in result.summaries() if one.kind == kind]
        if not chosen:
            continue
        best = max(chosen, key=lambda one: one.parameters)
        far = best.far_mean if part == "mean" else best.far_largest
        first = best.mean if part == "mean" else best.largest
        places = [float(result.config.test_points[1]), *(float(points) for points in far)]
        values = [first, *far.values()]
        lines.append(
            Line(
                label if kind == "independent" else f"{label}, width {best.width}, {count(best.layers, 'layer')}",
                places,
                [one.mean for one in values],
                [one.low for one in values],
                [one.high for one in values],
                tone=TONES[kind],
            )
        )
    title = "Mean W₁ on larger clouds" if part == "mean" else "Largest W₁ on larger clouds"
    ticks = sorted({place for line in lines for place in line.x})
    return line_chart(
        lines,
        title=title,
        subtitle=f"first mark: up to {result.config.test_points[1]} points; then exactly so many",
        x_title="points of each cloud",
        y_title="W₁",
        x_log=True,
        y_log=True,
        x_ticks=[(tick, f"{tick:g}") for tick in ticks],
        mark=(float(result.config.train_points[1]), "trained up to here"),
        description=f"{title}: {'; '.join(map(ends, lines))}.",
        theme=_theme(),
    )


def _comparison(results: dict[str, ExperimentResult]) -> None:
    """Draw Sinkhorn, softmax and independent coupling over all systems, and the ratio of the first two."""
    from sinkviz.figures.labels import number
    from sinkviz.figures.series import Line, bar_chart

    systems = _systems()
    best: dict[str, ExperimentResult] = {}
    for result in results.values():
        name = result.config.system
        # Of several runs on one system the one with the larger budget is taken.
        if name not in best or result.config.steps > best[name].config.steps:
            best[name] = result
    names = sorted(best, key=lambda name: (not systems[name].contextual, name))
    lines = []
    for kind, label in KINDS.items():
        at, values = [], []
        for k, name in enumerate(names):
            chosen = [one for one in best[name].summaries() if one.kind == kind]
            if chosen:
                at.append(float(k))
                values.append(max(chosen, key=lambda one: (one.parameters, -one.epsilon)).mean)
        if values:
            lines.append(
                Line(
                    label,
                    at,
                    [v.mean for v in values],
                    [v.low for v in values],
                    [v.high for v in values],
                    tone=TONES[kind],
                )
            )
    titles = [systems[name].title for name in names]
    words = "; ".join(f"{line.label}: " + ", ".join(number(value) for value in line.y) for line in lines)
    _chart(
        bar_chart(
            titles,
            lines,
            title="Mean W₁ on every system",
            subtitle="same encoders and budget; whiskers: 95 % over seeds; logarithmic",
            y_title="W₁",
            y_log=True,
            description=f"Mean W1 for {', '.join(titles)}. {words}.",
            theme=_theme(),
            height=400,
        )
    )
    ratios = []
    for k, name in enumerate(names):
        found = best[name].ratios()
        if found:
            ratios.append((float(k), found[-1][1]))
    if ratios:
        _chart(
            bar_chart(
                titles,
                [
                    Line(
                        "softmax over Sinkhorn",
                        [at for at, _ in ratios],
                        [ratio.mean for _, ratio in ratios],
                        [ratio.low for _, ratio in ratios],
                        [ratio.high for _, ratio in ratios],
                    )
                ],
                title="How many times further off softmax is",
                subtitle="ratio of mean W₁, paired by seed; whiskers: 95 %",
                y_title="ratio",
                levels=[(1.0, "alike")],
                description="Ratio of the mean W1 of the softmax model to that of the Sinkhorn model: "
                + "; ".join(f"{titles[int(at)]} {number(ratio.mean)}" for at, ratio in ratios)
                + ".",
                theme=_theme(),
            )
        )
    st.markdown(
        "Softmax keeps only the weights of the source. To meet those of the target as well, its encoders would have to "
        "learn the potential g, which depends on both clouds at once; each encoder sees only one. Both kinds have "
        "the same "
        "encoders, steps and training pairs"
        + (
            ", and each its own learning rate, chosen on validation pairs."
            if all(len(one.config.learning_rates) > 1 for one in best.values())
            else "; the learning rates stand in the tables."
        )
    )
    chosen_name = st.selectbox(
        "Details of", names, key="stored_comparison", format_func=lambda name: systems[name].title, width=420
    )
    result = best[chosen_name]
    _verdict(result, systems[chosen_name])
    _table(result)
    _origin(result)
