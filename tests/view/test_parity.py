"""The browser's numbers are the library's numbers: plan, half-steps, relaxation, lift, block sums, and what follows."""

from __future__ import annotations

import base64
import json
import shutil
import subprocess
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from sinkviz.coupling import Coupling
from sinkviz.measure import Measure
from sinkviz.pipeline import couple_cost
from sinkviz.transport import cost_scale, half_steps, sinkhorn, sinkhorn_path, softmax_attention
from sinkviz.view import payload as view_payload
from sinkviz.view.bundle import STATIC
from sinkviz.view.settings import to_query, validate
from sinkviz.view.weights import chosen_weights

NODE = shutil.which("node")
pytestmark = pytest.mark.skipif(NODE is None, reason="needs node to run the view's modules outside a browser")
Array = NDArray[np.float64]


def run(jobs: list[dict[str, Any]]) -> list[Any]:
    """Run jobs in the view's own JavaScript."""
    assert NODE
    done = subprocess.run(
        [NODE, str(Path(__file__).with_name("parity.mjs")), str(STATIC)],
        input=json.dumps(jobs),
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    answers: list[Any] = json.loads(done.stdout)
    return answers


def tensor(array: Array) -> torch.Tensor:
    return torch.tensor(array, dtype=torch.float64)


def text_like(
    n: int, m: int, seed: int, *, repeat: bool = False, weighted: bool = True, dead: bool = False
) -> dict[str, Any]:
    """A cosine cost of two clouds that share some directions, float32 as it is sent."""
    rng = np.random.default_rng(seed)
    centres = rng.normal(size=(5, 16))
    x = centres[rng.integers(0, 5, n)] + 0.6 * rng.normal(size=(n, 16))
    y = centres[rng.integers(0, 5, m)] + 0.6 * rng.normal(size=(m, 16))
    if repeat:
        x[n // 2] = x[0]
        x[-1] = x[0]
        y[-1] = y[0]
    x /= np.linalg.norm(x, axis=1, keepdims=True)
    y /= np.linalg.norm(y, axis=1, keepdims=True)
    a = rng.uniform(0.1, 2, n) if weighted else np.ones(n)
    b = rng.uniform(0.1, 2, m) if weighted else np.ones(m)
    if dead:
        a[1] = 0.0
        b[2] = 0.0
    cost = (-(x @ y.T)).astype(np.float32).astype(np.float64)
    return {"cost": cost, "a": a / a.sum(), "b": b / b.sum()}


def plain(problem: dict[str, Any]) -> dict[str, Any]:
    return {key: value.tolist() for key, value in problem.items()}


PROBLEMS = {
    "ragged": text_like(9, 23, 1),
    "tall": text_like(31, 7, 2),
    "repeated": text_like(12, 10, 3, repeat=True, weighted=False),
    "uniform": text_like(16, 16, 4, weighted=False),
    "dead": text_like(8, 9, 5, dead=True),
    "single_row": text_like(1, 6, 6),
    "single_column": text_like(6, 1, 7),
}
EPSILONS = [1.0, 0.1, 0.03]


def scale(problem: dict[str, Any]) -> float:
    found = float(cost_scale(*(tensor(problem[k]) for k in ("cost", "a", "b"))))
    return found if found > 0 else 0.2


@pytest.mark.parametrize("name", PROBLEMS)
def test_balanced_plans_softmax_and_relaxation_agree(name: str) -> None:
    problem = PROBLEMS[name]
    unit = scale(problem)
    cost, a, b = (tensor(problem[k]) for k in ("cost", "a", "b"))
    jobs, wanted = [], []
    for relative in EPSILONS:
        epsilon = relative * unit
        jobs.append({"task": "softmax", "epsilon": epsilon, **plain(problem)})
        wanted.append(softmax_attention(cost, a, b, epsilon=epsilon))
        jobs.append({"task": "solve", "epsilon": epsilon, "relaxation": "inf", **plain(problem)})
        wanted.append(sinkhorn(cost, a, b, epsilon=epsilon).plan)
        for ratio in (0.01, 0.5, 20.0):
            rho = ratio * epsilon
            jobs.append({"task": "solve", "epsilon": epsilon, "relaxation": rho, **plain(problem)})
            wanted.append(sinkhorn(cost, a, b, epsilon=epsilon, column_relaxation=rho).plan)
    for job, answer, right in zip(jobs, run(jobs), wanted, strict=True):
        found = np.array(answer["plan"])
        plan = right.plan if hasattr(right, "plan") else right
        assert found == pytest.approx(plan.numpy(), abs=1e-5), (job["task"], job["epsilon"], job.get("relaxation"))
        assert found.sum(axis=1) == pytest.approx(problem["a"], abs=1e-12)
        if job["task"] == "solve":
            assert answer["status"] == "converged"


@pytest.mark.parametrize("name", PROBLEMS)
@pytest.mark.parametrize("relative", [1.0, 0.1, 0.02])
def test_half_steps_agree_in_any_order(name: str, relative: float) -> None:
    problem = PROBLEMS[name]
    cost, a, b = (tensor(problem[k]) for k in ("cost", "a", "b"))
    epsilon = relative * scale(problem)
    steps = [40.5, 0.5, 1, 1.5, 2, 7.5, 33, 3, 120.5, 20]
    (answer,) = run([{"task": "halfSteps", "epsilon": epsilon, "steps": steps, **plain(problem)}])
    right = half_steps(cost, a, b, epsilon=epsilon, steps=steps)
    for k, step in enumerate(steps):
        shown = answer[f"{step:g}"]
        assert shown["at"] == step
        assert np.array(shown["plan"]) == pytest.approx(right.plan(k).numpy(), abs=1e-5), step


def test_half_steps_survive_a_cost_that_underflows() -> None:
    rng = np.random.default_rng(8)
    cost = rng.uniform(0, 5, (6, 7)).astype(np.float32).astype(np.float64)
    problem = {"cost": cost, "a": np.full(6, 1 / 6), "b": np.full(7, 1 / 7)}
    steps = [0.5, 1, 1.5, 2, 12, 60.5]
    (answer,) = run([{"task": "halfSteps", "epsilon": 0.002, "steps": steps, **plain(problem)}])
    right = half_steps(*(tensor(problem[k]) for k in ("cost", "a", "b")), epsilon=0.002, steps=steps)
    for k, step in enumerate(steps):
        assert np.array(answer[f"{step:g}"]["plan"]) == pytest.approx(right.plan(k).numpy(), abs=1e-5), step


@pytest.mark.parametrize("name", ["ragged", "repeated", "uniform", "dead"])
def test_the_dial_between_grid_points_tells_its_error(name: str) -> None:
    problem = PROBLEMS[name]
    cost, a, b = (tensor(problem[k]) for k in ("cost", "a", "b"))
    epsilons = np.geomspace(10, 0.01, 41) * scale(problem)
    path = sinkhorn_path(cost, a, b, epsilons=tensor(epsilons))
    potentials = np.asarray(path.g, dtype=np.float32).astype(np.float64)
    between = [float(np.sqrt(epsilons[k] * epsilons[k + 1])) for k in (3, 15, 25, 34)]
    shared = {"epsilons": epsilons.tolist(), "potentials": potentials.tolist(), **plain(problem)}
    for epsilon, answer in zip(between, run([{"task": "dial", "epsilon": e, **shared} for e in between]), strict=True):
        found = np.array(answer["plan"])
        right = sinkhorn(cost, a, b, epsilon=epsilon).plan.numpy()
        assert answer["rowError"] < 1e-12
        assert answer["columnError"] == pytest.approx(np.abs(found.sum(axis=0) - problem["b"]).sum(), abs=1e-12)
        assert answer["columnError"] < 2e-3
        assert np.abs(found - right).max() < 1e-3
        assert max(answer["fromAttention"].values()) < 1e-9


@pytest.mark.parametrize("spread", [1.0, 350.0, 3000.0])
def test_a_plan_made_from_another_one_is_right_where_that_one_underflows(spread: float) -> None:
    problem = text_like(6, 8, 3)
    cost = problem["cost"].copy()
    cost[2, :] += np.linspace(0, 2 * spread, 8)
    potential = np.linspace(0, spread, 8)
    given = {**plain({**problem, "cost": cost}), "epsilons": [1.0], "potentials": [potential.tolist()], "epsilon": 1.0}
    (answer,) = run([{"task": "dial", **given}])
    assert max(answer["fromAttention"].values()) < 1e-9


def test_the_browser_solves_a_whole_path_by_itself() -> None:
    problem = PROBLEMS["ragged"]
    epsilons = np.geomspace(10, 0.01, 21) * scale(problem)
    (answer,) = run([{"task": "path", "epsilons": epsilons.tolist(), **plain(problem)}])
    assert [step["status"] for step in answer] == ["converged"] * 21


def test_forbidden_pairs_carry_nothing() -> None:
    problem = text_like(5, 6, 11)
    cost = problem["cost"].copy()
    cost[0, :3] = np.inf
    cost[3, 5] = np.inf
    right = sinkhorn(tensor(cost), tensor(problem["a"]), tensor(problem["b"]), epsilon=0.1).plan.numpy()
    sent = [["inf" if np.isinf(c) else float(c) for c in row] for row in cost]
    (answer,) = run([{"task": "solve", "epsilon": 0.1, "relaxation": "inf", **plain(problem), "cost": sent}])
    found = np.array(answer["plan"])
    assert found[np.isinf(cost)].max() == 0
    assert found == pytest.approx(right, abs=1e-5)


# --- the whole model: payload to what the pictures show ---------------------------------------------------------------


def grouped(problem: dict[str, Any]) -> tuple[Measure, Measure]:
    """Measures with words of one to three tokens and sentences of a few words."""
    result = []
    for weights in (problem["a"], problem["b"]):
        count = len(weights)
        rng = np.random.default_rng(count)
        word_of = np.minimum(np.cumsum(rng.uniform(size=count) < 0.6), count - 1)
        _, word_of = np.unique(word_of, return_inverse=True)
        sentence_of = word_of // 3
        text = "".join(chr(ord("a") + k % 26) if k % 5 else "🐟" for k in range(count))
        spans = tuple((k, k + 1) for k in range(count))

        def of(groups: NDArray[np.int64]) -> tuple[tuple[int, int], ...]:
            return tuple(
                (int(np.flatnonzero(groups == g)[0]), int(np.flatnonzero(groups == g)[-1]) + 1)
                for g in range(groups.max() + 1)
            )

        result.append(
            Measure(
                points=np.random.default_rng(count).normal(size=(count, 4)),
                weights=weights,
                text=text,
                spans=spans,
                word_of=word_of,
                sentence_of=sentence_of,
                word_spans=of(word_of),
                sentence_spans=of(sentence_of),
            )
        )
    return result[0], result[1]


def blob(problem: dict[str, Any], **options: Any) -> tuple[str, Measure, Measure, float]:
    source, target = grouped(problem)
    unit = scale(problem)
    cost, a, b = (tensor(problem[k]) for k in ("cost", "a", "b"))
    epsilons = np.geomspace(10, 0.01, 41) * unit
    path = sinkhorn_path(cost, a, b, epsilons=tensor(epsilons))
    data = view_payload.build(
        source,
        target,
        cost=problem["cost"],
        cost_scale=unit,
        epsilons=epsilons,
        potentials=np.asarray(path.g),
        **options,
    )
    return base64.b64encode(data).decode(), source, target, unit


def check(shown: dict[str, Any], right: Coupling) -> None:
    """Everything that the pictures show against the library's coupling at the same level."""
    close = {"abs": 1e-5}
    assert np.array(shown["plan"]) == pytest.approx(right.plan, **close)
    assert shown["received"] == pytest.approx(right.received, **close)
    assert shown["given"] == pytest.approx(right.given, **close)
    assert shown["price"] == pytest.approx(right.price, **close)
    assert shown["partners"] == pytest.approx(right.effective_partners, rel=1e-4, abs=1e-5)
    assert shown["information"] == pytest.approx(right.mutual_information, **close)
    assert shown["meanPartners"] == pytest.approx(right.mean_partners, rel=1e-4)
    assert shown["cost"] == pytest.approx(right.transport_cost, **close)
    assert shown["missed"] == pytest.approx(right.received_distance, **close)
    assert shown["nullSource"] == pytest.approx(right.null_source, **close)
    assert shown["nullTarget"] == pytest.approx(right.null_target, **close)
    lift = right.log_lift
    for i, row in enumerate(shown["lift"]):
        for j, value in enumerate(row):
            if value is None:
                assert right.plan[i, j] < 1e-12
            elif lift[i, j] > -12:
                assert value == pytest.approx(lift[i, j], abs=1e-3)


@pytest.mark.parametrize("name", ["ragged", "tall", "repeated", "uniform", "dead"])
@pytest.mark.parametrize("level", ["token", "word", "sentence"])
def test_what_the_pictures_show_is_the_coupling(name: str, level: Any) -> None:
    problem = PROBLEMS[name]
    payload, source, target, unit = blob(problem)
    jobs = [
        {"task": "view", "payload": payload, "refine": True, "settings": {"level": level, "epsilon": epsilon}}
        for epsilon in (2.0, 0.37, 0.05)
    ]
    for job, answer in zip(jobs, run(jobs), strict=True):
        epsilon = job["settings"]["epsilon"]
        assert answer["level"] == level
        for side, mechanism in (("left", "sinkhorn"), ("right", "softmax")):
            right = couple_cost(
                problem["cost"], source, target, mechanism=mechanism, epsilon=epsilon * unit, epsilon_unit="absolute"
            )
            shown = right.coarsen(level)
            check(answer[side], shown)
            assert answer[side]["labels"] == [shown.source.labels, shown.target.labels]
            assert answer[side]["weights"][0] == pytest.approx(shown.source.weights, abs=1e-9)


@pytest.mark.parametrize("level", ["token", "sentence"])
def test_a_null_partner_is_in_every_number(level: Any) -> None:
    problem = PROBLEMS["ragged"]
    source, target = grouped(problem)
    unit = scale(problem)
    price = -0.25
    data = view_payload.build(
        source,
        target,
        cost=problem["cost"],
        cost_scale=unit,
        epsilons=np.geomspace(10, 0.01, 41) * unit,
        null_cost=price,
    )
    job = {
        "task": "view",
        "payload": base64.b64encode(data).decode(),
        "refine": True,
        "settings": {"level": level, "epsilon": 0.3},
    }
    (answer,) = run([job])
    right = couple_cost(
        problem["cost"],
        source,
        target,
        mechanism="partial",
        epsilon=0.3 * unit,
        epsilon_unit="absolute",
        null_cost=price,
    )
    assert right.mass < 0.999
    check(answer["left"], right.coarsen(level))


def test_a_range_is_a_part_of_the_same_plan() -> None:
    problem = PROBLEMS["ragged"]
    payload, *_ = blob(problem)
    shared = {"task": "view", "payload": payload, "refine": True}
    part, every = run(
        [
            {**shared, "settings": {"level": "token", "source_range": [2, 6], "target_range": [10, 20]}},
            {**shared, "settings": {"level": "token"}},
        ]
    )
    assert np.array(part["left"]["plan"]) == pytest.approx(np.array(every["left"]["plan"])[2:6, 10:20], abs=1e-12)
    assert part["left"]["cost"] == pytest.approx(every["left"]["cost"])
    assert part["left"]["total"] == pytest.approx(np.array(every["left"]["plan"])[2:6, 10:20].sum())


def test_edited_weights_are_those_of_the_library_and_are_solved() -> None:
    problem = PROBLEMS["uniform"]
    payload, source, target, unit = blob(problem)
    choice = {"preset": "length", "drop": [], "factors": {"3": 0.0, "5": 2.5}}
    weights = {"source": choice, "target": {"preset": "given", "drop": [], "factors": {}}}
    answers = run(
        [
            {"task": "weights", "payload": payload, "choice": choice},
            {
                "task": "view",
                "payload": payload,
                "refine": True,
                "settings": {"level": "token", "weights": weights, "epsilon": 0.2},
            },
        ]
    )
    expected = chosen_weights(source, choice)
    assert answers[0] == pytest.approx(expected, abs=1e-7)
    right = couple_cost(
        problem["cost"], source.with_weights(expected), target, epsilon=0.2 * unit, epsilon_unit="absolute"
    )
    assert answers[1]["status"]["kind"] == "pending"
    check(answers[1]["left"], right)


def test_curves_and_pairs_follow_the_path() -> None:
    problem = PROBLEMS["ragged"]
    payload, source, target, unit = blob(problem)
    curves, pair = run(
        [
            {"task": "curves", "payload": payload, "settings": {"level": "word"}},
            {"task": "pair", "payload": payload, "rows": [1, 3], "columns": [4, 9]},
        ]
    )
    epsilons = np.geomspace(10, 0.01, 41)
    for k in (0, 18, 30):
        for key, mechanism in (("coupling", "sinkhorn"), ("attention", "softmax")):
            right = couple_cost(
                problem["cost"],
                source,
                target,
                mechanism=mechanism,
                epsilon=epsilons[k] * unit,
                epsilon_unit="absolute",
            )
            words = right.words()
            assert curves[k][key] == pytest.approx(
                [words.transport_cost, words.mutual_information, words.mean_partners], rel=1e-4, abs=1e-5
            )
            assert pair[key][k] == pytest.approx(right.plan[1:3, 4:9].sum(), abs=1e-5)


@settings(max_examples=25, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(
    st.lists(st.floats(0, 1, allow_subnormal=False), min_size=1, max_size=120), st.floats(0.05, 1.0), st.integers(1, 60)
)
def test_strongest_pairs_are_the_strongest(mass: list[float], share: float, limit: int) -> None:
    (answer,) = run([{"task": "strongest", "mass": mass, "share": share, "limit": limit}])
    values = np.array(mass)
    total = values.sum()
    if total == 0:
        assert answer["pairs"] == []
        return
    order = np.argsort(-values, kind="stable")
    order = order[values[order] > 0]
    reached = np.cumsum(values[order])
    needed = int(np.searchsorted(reached, share * total * (1 - 1e-12))) + 1
    kept = min(needed, limit, len(order))
    assert answer["pairs"] == order[:kept].tolist()
    assert answer["mass"] == pytest.approx(values[order[:kept]].sum())
    assert answer["needed"] >= kept


def test_numbers_are_exact_enough_and_written_plainly() -> None:
    exps = [0.0, -1e-9, -0.5, -3.7, -50.0, -690.0, -701.0, float("-1e9")]
    logs = [1e-300, 1e-9, 0.1, 0.5, 1.0, 1.5, 12345.678]
    formats = [0, 0.35, -0.557, 1.9234, 12.34, 27.4, 1234.5, 99999, 0.00012, 3e-10, 2.0, 100]
    percents = [0, 0.27, 0.0312, 1, 0.00001, 0.6999999, 3.39]
    parses = ["0,35", " 1e-2 ", "∞", "converged", "½", "2½", "x", "", "-1"]
    (answer,) = run(
        [{"task": "numbers", "exps": exps, "logs": logs, "formats": formats, "percents": percents, "parses": parses}]
    )
    for x, found in zip(exps, answer["exps"], strict=True):
        assert found == pytest.approx(np.exp(x) if x > -700 else 0.0, rel=1e-10)
    assert answer["logs"] == pytest.approx(np.log(logs), abs=1e-9)
    assert answer["formats"] == [
        "0",
        "0.35",
        "−0.557",
        "1.92",
        "12.3",
        "27.4",
        "1235",
        "1·10⁵",
        "1.2·10⁻⁴",
        "3·10⁻¹⁰",
        "2",
        "100",
    ]
    assert answer["percents"] == ["0 %", "27 %", "3.1 %", "100 %", "0.001 %", "70 %", "339 %"]
    assert answer["parses"] == ["0.35", "0.01", "Infinity", "Infinity", "0.5", "2.5", "NaN", "NaN", "-1"]


def test_both_languages_write_the_same_url() -> None:
    cases = [
        {},
        {"epsilon": 0.0123456789, "mode": "relaxation", "relaxation": 0.0, "steps": 12.5},
        {"level": "token", "colour": "difference", "share": 0.25, "renormalise": True},
        {
            "source_range": [3, 9],
            "target_range": [0, 1],
            "pins": [{"source": [0, 2], "target": None}, {"source": None, "target": [5, 6]}],
        },
        {
            "weights": {
                "source": {
                    "preset": "uniform",
                    "drop": ["punctuation", "stop_words"],
                    "factors": {"3": 0.0, "11": 2.5},
                },
                "target": {"preset": "given", "drop": [], "factors": {}},
            }
        },
    ]
    answers = run([{"task": "query", **validate(case)} for case in cases])
    for case, answer in zip(cases, answers, strict=True):
        assert answer == to_query(case)
