"""The Theorem page without a browser: the gallery, the four steps, a run that is stopped and resumed, stored runs."""

from __future__ import annotations

import itertools
import json
import re
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from streamlit.testing.v1 import AppTest

from sinkviz.approximation import (
    SYSTEMS,
    Experiment,
    ExperimentConfig,
    ExperimentResult,
    coupling_system,
    entropic_plan,
    stored_results,
)
from sinkviz.approximation.experiment import Errors, Row
from sinkviz.ui import theorem

APP = str(Path(__file__).parents[2] / "app.py")


def check(app: AppTest) -> AppTest:
    assert not app.exception, app.exception
    return app


def start(section: str = "gallery", step: str | None = None) -> AppTest:
    app = AppTest.from_file(APP, default_timeout=60).run()
    app.switch_page("pages/theorem.py")
    check(app.run())
    if section != "gallery":
        app.segmented_control(key="section").set_value(section)
        check(app.run())
    if step is not None:
        app.segmented_control(key="proof_step").set_value(step)
        check(app.run())
    return app


def figures(app: AppTest) -> list[dict[str, Any]]:
    return [json.loads(element.proto.spec) for element in app.get("plotly_chart")]


def titles(app: AppTest) -> list[str]:
    return [re.sub("<.*?>", " ", figure["layout"].get("title", {}).get("text", "")) for figure in figures(app)]


def metrics(app: AppTest) -> dict[str, str]:
    return {metric.label: metric.value for metric in app.metric}


def number(text: str) -> float:
    """Read a number as the page spells it."""
    digits = str.maketrans("⁰¹²³⁴⁵⁶⁷⁸⁹⁻−", "0123456789--")
    mantissa, _, power = text.partition("10" if text.startswith("10") else "·10")
    value = float(mantissa.translate(digits) or 1)
    return value * 10 ** int(power.translate(digits) or 0) if power else value


def wait(app: AppTest, key: str, until: Any = lambda job: not job.active, seconds: float = 90) -> AppTest:
    deadline = time.monotonic() + seconds
    while time.monotonic() < deadline:
        if until(app.session_state[f"job_{key}"]):
            return check(app.run())
        time.sleep(0.05)
    raise AssertionError(f"the job did not get there: {app.session_state[f'job_{key}'].line}")


# --- gallery ---------------------------------------------------------------------------------------------------------


def test_the_gallery_explains_and_draws_every_system() -> None:
    app = start()
    assert len(SYSTEMS) >= 6
    assert len(app.get("plotly_chart")) == len(SYSTEMS)
    text = "\n".join(element.value.replace("\\", "") for kind in ("markdown", "caption") for element in app.get(kind))
    for system in SYSTEMS.values():
        assert system.title in text
        assert system.explanation in text
        assert system.formula in text
    assert text.count(":red[not continuous]") == sum(not system.continuous for system in SYSTEMS.values()) >= 1
    assert len(app.code) == 1


def test_spread_points_and_another_pair_move_the_clouds() -> None:
    app = start()
    seen = [figures(app)]
    app.slider(key="gallery_spread").set_value(1.8)
    check(app.run())
    seen.append(figures(app))
    app.slider(key="gallery_points").set_value(6)
    check(app.run())
    seen.append(figures(app))
    app.button(key="gallery_another").click()
    check(app.run())
    seen.append(figures(app))
    for before, after in itertools.pairwise(seen):
        assert all(one != other for one, other in zip(before, after, strict=True))


@pytest.fixture
def own_systems() -> Iterator[None]:
    @coupling_system("mirror", title="Mirror <b>$x$</b>", explanation="Each point looks for its mirror image.")
    def mirror(x, a, y, b, epsilon):  # type: ignore[no-untyped-def]
        return entropic_plan(-(x * [1, -1]) @ y.T, a, b, epsilon)

    @coupling_system("wrong", title="Wrong", explanation="Not a coupling.")
    def wrong(x, a, y, b, epsilon):  # type: ignore[no-untyped-def]
        return np.ones((len(a), len(b)))

    yield
    SYSTEMS.pop("mirror")
    SYSTEMS.pop("wrong")


def test_a_users_own_system_stands_beside_the_others(own_systems: None) -> None:
    app = start()
    assert len(app.get("plotly_chart")) == len(SYSTEMS) - 1
    (error,) = app.error
    assert "expected a coupling of the two measures" in error.value.replace("\\", "")
    app.segmented_control(key="section").set_value("live")
    check(app.run())
    assert any("Mirror" in option for option in app.selectbox(key="run_system").options)


# --- the four steps --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("plan", ["system", "sharp"])
@pytest.mark.parametrize("smoothing", [1.0, 0.1, 0.002])
def test_step_one_recovers_any_plan_at_the_distance_that_is_proved(plan: str, smoothing: float) -> None:
    app = start("proof")
    app.segmented_control(key="recovery_plan").set_value(plan)
    app.select_slider(key="recovery_smoothing").set_value(smoothing)
    app.select_slider(key="recovery_epsilon").set_value(0.2)
    check(app.run())
    assert len(app.get("plotly_chart")) == 4
    assert number(metrics(app)["Recovered − mixture"]) < 1e-6
    measured, proved = figures(app)[3]["data"]
    np.testing.assert_allclose(measured["y"], proved["y"], rtol=1e-4)


def test_step_two_falls_with_the_rank_and_stays_under_its_bound() -> None:
    app = start("proof", "rank")
    seen = []
    for rank in (0, 2, 5):
        app.slider(key="rank_chosen").set_value(rank)
        check(app.run())
        seen.append(number(metrics(app)["W₁ of the plans"]))
    assert seen[0] > seen[1] > seen[2]
    _, measured, bound = figures(app)[3]["data"]
    for at, value in zip(measured["x"], measured["y"], strict=True):
        assert value <= dict(zip(bound["x"], bound["y"], strict=True))[at]


def test_step_four_never_passes_its_bound() -> None:
    app = start("proof", "stability")
    for size in (0.01, 1.0, 3.0):
        app.select_slider(key="stability_size").set_value(size)
        check(app.run())
        assert all(0 < number(value) <= 1 for value in metrics(app).values())
    measured, bound = figures(app)[0]["data"]
    assert len(measured["x"]) == 48
    assert all(y <= x for x, y in zip(measured["x"], measured["y"], strict=True))
    assert bound["x"] == bound["y"]


@pytest.mark.parametrize("name", list(SYSTEMS))
@pytest.mark.parametrize("step", ["recovery", "rank", "stability"])
def test_the_steps_are_drawn_for_every_system(name: str, step: str) -> None:
    app = start("proof", step)
    app.selectbox(key="proof_system").set_value(name)
    app.slider(key="proof_points").set_value(5)
    check(app.run())
    app.button(key="proof_another").click()
    check(app.run())
    assert not app.error, app.error
    assert len(app.get("plotly_chart")) == 4


def test_step_three_trains_encoders_beside_the_page() -> None:
    app = start("proof", "learning")
    assert all(
        option in {system.title for system in SYSTEMS.values() if system.factors is not None}
        for option in app.selectbox(key="factor_system").options
    )
    app.selectbox(key="factor_system").set_value("rotation")
    app.select_slider(key="factor_steps").set_value(50)
    check(app.run())
    app.button(key="factor_start").click()
    check(app.run())
    wait(app, theorem._FACTORS)
    assert app.session_state[f"job_{theorem._FACTORS}"].status == "done", app.session_state[
        f"job_{theorem._FACTORS}"
    ].error
    assert titles(app)[0].strip().startswith("Error on clouds never seen")
    largest, mean = figures(app)[0]["data"]
    assert len(mean["x"]) == 4
    assert all(0 < m < w for m, w in zip(mean["y"], largest["y"], strict=True))


# --- a run -----------------------------------------------------------------------------------------------------------


SMALL = ExperimentConfig(
    "rotation",
    sizes=((8, 1),),
    training_sizes=(64,),
    seeds=(0,),
    steps=50,
    batch=8,
    learning_rates=(5e-3,),
    held_out=6,
    validation=4,
    far_points=(),
)


@pytest.fixture
def small(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(theorem, "_configuration", lambda: SMALL)


def test_a_run_can_be_started_stopped_and_resumed_to_the_same_end(small: None) -> None:
    app = start("live")
    assert app.button(key="run_resume").disabled
    app.button(key="run_start").click()
    check(app.run())
    laboratory = app.session_state["laboratory"]

    def under_way(job: Any) -> bool:
        return bool(laboratory.curves) or not job.active

    wait(app, theorem._RUN, under_way)
    if app.session_state[f"job_{theorem._RUN}"].active:
        app.button(key=f"stop_{theorem._RUN}").click()
        check(app.run())
    wait(app, theorem._RUN)
    assert app.session_state[f"job_{theorem._RUN}"].error == ""
    assert laboratory.latest.status == "stopped"
    assert any("Stopped at" in warning.value for warning in app.warning)
    # The run stays with the session through other pages.
    app.switch_page("pages/compare.py")
    check(app.run())
    app.switch_page("pages/theorem.py")
    check(app.run())
    app.segmented_control(key="section").set_value("live")
    check(app.run())
    assert not app.button(key="run_resume").disabled
    app.button(key="run_resume").click()
    check(app.run())
    wait(app, theorem._RUN)
    assert app.session_state[f"job_{theorem._RUN}"].error == ""
    assert laboratory.latest.status == "finished"
    result = laboratory.latest.result
    assert result.complete
    assert app.button(key="run_resume").disabled
    (table,) = [frame.value for frame in app.dataframe]
    assert list(table["model"]) == ["independent", "Sinkhorn", "softmax"]
    assert any(SMALL.command == code.value for code in app.code)
    *_, report = Experiment(SMALL).run()
    assert [row.errors for row in report.result.rows] == [row.errors for row in result.rows]


def test_the_controls_of_a_run_make_its_configuration() -> None:
    app = start("live")
    for key, value in {"run_width": 8, "run_layers": 2, "run_steps": 50, "run_seeds": 3, "run_epsilon": 0.2}.items():
        app.select_slider(key=key).set_value(value)
    app.selectbox(key="run_system").set_value("mixture")
    check(app.run())
    command = "\n".join(caption.value for caption in app.caption).replace("\\", "")
    assert "approximate mixture --sizes 8x2" in command
    assert "--epsilons 0.2" in command
    assert "--seeds 0 1 2" in command or "--seeds" not in command  # three seeds are the default
    assert "--steps 50" in command


# --- stored runs -----------------------------------------------------------------------------------------------------


def made_up(**axes: Any) -> ExperimentResult:
    """A result whose errors are known: 1 / width for Sinkhorn, five times that for softmax."""
    config = ExperimentConfig("moment-rotation", **{"learning_rates": (1e-3,), **axes})
    rows = []
    for cell in config.cells():
        mean = 0.6 if cell.kind == "independent" else (5 if cell.kind == "softmax" else 1) / cell.width
        mean *= 1 + 0.01 * cell.seed
        errors = Errors(mean, 2 * mean, 2 * mean, 0.0, config.held_out, 0)
        far = {n: Errors(mean, 2 * mean, 1.9 * mean, 0.1 * mean, config.far_pairs, 0) for n in config.far_points}
        size = cell.width * 100
        status = "diverged" if cell.seed == 2 else "finished"
        rows.append(Row(cell, size, 1e-3, status, "", 0.1, errors, far, 1.0))
    return ExperimentResult(config, tuple(rows), (), {"torch": "x"}, 60.0)


@pytest.fixture
def stored(monkeypatch: pytest.MonkeyPatch) -> None:
    results = {
        "capacity": made_up(sizes=((8, 1), (16, 2), (32, 2), (64, 3)), kinds=("sinkhorn", "independent")),
        "epsilon": made_up(epsilons=(0.05, 0.1, 0.2)),
        "data": made_up(training_sizes=(64, 512, 4096)),
        "points": made_up(far_points=(32, 64, 128)),
    }
    monkeypatch.setattr(theorem, "_stored_results", lambda stamp: results)


@pytest.mark.parametrize("axis", ["capacity", "epsilon", "data", "points", "comparison"])
def test_stored_runs_are_drawn_against_every_axis(stored: None, axis: str) -> None:
    app = start("stored")
    app.segmented_control(key="stored_axis").set_value(axis)
    check(app.run())
    drawn = figures(app)
    assert len(drawn) == 2
    assert any("python -m sinkviz approximate moment-rotation" in code.value for code in app.code)
    text = "\n".join(element.value for element in app.markdown)
    assert "diverged" in text
    for figure in drawn:
        for trace in figure["data"]:
            assert np.isfinite(np.asarray(trace["y"], dtype=float)).all()
    if axis == "capacity":
        (mean,) = drawn[0]["data"]
        assert mean["x"] == [800, 1600, 3200, 6400]
        np.testing.assert_allclose(mean["y"], [1.01 / width for width in (8, 16, 32, 64)])
        assert max(mean["error_y"]["array"]) > 0
        assert "independent coupling 0.6" in json.dumps(drawn[0]["layout"]["annotations"])
    if axis == "comparison":
        np.testing.assert_allclose(drawn[1]["data"][0]["y"], [5])
        assert "**5.0 times**" in text
    if axis == "points":
        assert "greatest width" in "\n".join(caption.value for caption in app.caption)
        assert drawn[0]["data"][0]["x"] == [24, 32, 64, 128]


def test_the_shipped_runs_are_drawn() -> None:
    app = start("stored")
    assert app.get("plotly_chart")
    for axis in app.segmented_control(key="stored_axis").options:
        wanted = next(key for key, label in theorem.AXES.items() if label == axis)
        app.segmented_control(key="stored_axis").set_value(wanted)
        check(app.run())
        assert app.get("plotly_chart"), axis
        assert app.code, axis


def test_no_stored_run_is_said(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(theorem, "_stored_results", lambda stamp: {})
    app = start("stored")
    assert "no finished runs" in app.info[0].value


def test_aims_are_set_beside_what_was_reached() -> None:
    results = {
        "capacity": made_up(sizes=((8, 1), (64, 3)), kinds=("sinkhorn", "independent"), far_points=(64, 128)),
        "compared": made_up(),
        "data": made_up(training_sizes=(64, 4096)),
    }
    rows = {row["aim"]: row for row in theorem.aims(results)}
    largest = rows["contextual rotation: largest W₁ seen ≤ 0.035"]
    assert largest["reached"].startswith("0.0316")
    assert (largest["met"], largest["run"], largest["in the way"]) == ("yes", "capacity", "")
    mean = rows["contextual rotation: mean W₁ ≤ 0.012"]
    assert mean["met"] == "no"
    assert "size and budget: with size it falls from 0.126 to 0.016" in mean["in the way"]
    ratio = next(row for aim, row in rows.items() if "softmax" in aim)
    assert (ratio["met"], ratio["run"]) == ("yes", "compared")
    assert ratio["reached"].startswith("5.0 times")


def test_the_shipped_runs_state_their_aims() -> None:
    rows = theorem.aims(stored_results())
    assert {row["met"] for row in rows} <= {"yes", "no"}
    assert len(rows) >= 4
    for row in rows:
        assert (row["in the way"] != "") == (row["met"] == "no"), row


def test_step_three_shows_a_run_before_anything_is_trained() -> None:
    app = start("proof", "learning")
    assert any("--factors" in code.value for code in app.code)
    assert len(figures(app)) == 2
