"""The Compare page without a browser: every control, every message, and the numbers behind the picture."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from streamlit.testing.v1 import AppTest

from sinkviz.view import payload

APP = str(Path(__file__).parents[2] / "app.py")


def start(**query: str) -> AppTest:
    app = AppTest.from_file(APP, default_timeout=60)
    for name, value in query.items():
        app.query_params[name] = value
    return app.run()


def blob(app: AppTest) -> bytes:
    """Return the payload that the live view got."""
    found = [bytes(element.proto.bytes) for element in app.get("bidi_component") if element.proto.bytes]
    assert len(found) == 1
    return found[0]


def header(app: AppTest) -> dict[str, Any]:
    return payload.read_header(blob(app))


def messages(app: AppTest) -> str:
    return "\n".join(element.value for kind in ("error", "warning", "info") for element in app.get(kind))


def check(app: AppTest) -> AppTest:
    assert not app.exception, app.exception
    return app


def type_texts(app: AppTest, source: str, target: str) -> AppTest:
    app.text_area(key="source").set_value(source)
    app.text_area(key="target").set_value(target)
    return check(app.run())


@pytest.fixture
def app() -> AppTest:
    return check(start())


def test_an_example_is_drawn_before_anything_is_typed(app: AppTest) -> None:
    assert header(app)["source"]["text"] == app.text_area(key="source").value != ""
    assert messages(app) == ""


def test_the_plan_of_the_picture_is_that_of_pot(app: AppTest) -> None:
    import ot

    type_texts(app, "The dog sleeps.", "A cat is awake now.")
    head, arrays = header(app), payload.read_arrays(blob(app))
    a, b = arrays["source.weights"], arrays["target.weights"]
    cost = arrays["cost"].reshape(len(a), len(b)).astype(float)
    g = arrays["potentials"].reshape(-1, len(b)).astype(float)
    k = int(np.argmin(np.abs(np.array(head["epsilons"]) - 0.35 * head["unit"])))
    epsilon = head["epsilons"][k]
    kernel = b * np.exp((g[k] - cost) / epsilon)
    plan = a[:, None] * kernel / kernel.sum(1, keepdims=True)
    np.testing.assert_allclose(plan, ot.sinkhorn(a, b, cost, epsilon, stopThr=1e-12), atol=1e-5)


def test_a_trained_model_says_when_the_vectors_are_not_its_own(app: AppTest) -> None:
    type_texts(app, "The dog sleeps.", "A cat is awake now.")
    untrained = blob(app)
    app.segmented_control(key="encoder").set_value("word-alignment")
    check(app.run())
    assert messages(app) == ""
    assert blob(app) != untrained
    app.selectbox(key="layer").set_value(6)
    check(app.run())
    said = messages(app).replace("\\", "")
    assert "does not know these vectors" in said
    assert "trained on all-MiniLM-L6-v2, layer 3; these are all-MiniLM-L6-v2, layer 6." in said
    app.selectbox(key="layer").set_value(3)
    app.checkbox(key="centre").set_value(True)
    check(app.run())
    assert "layer 3, centred." in messages(app).replace("\\", "")


def test_swap_clear_and_example(app: AppTest) -> None:
    before = app.text_area(key="source").value, app.text_area(key="target").value
    app.button(key="swap").click()
    check(app.run())
    assert (app.text_area(key="target").value, app.text_area(key="source").value) == before
    app.button(key="clear").click()
    check(app.run())
    assert app.text_area(key="source").value == app.text_area(key="target").value == ""
    assert "source is empty" in messages(app)
    assert "target is empty" in messages(app)
    assert header(app)["source"]["text"] == before[1]  # the last good picture stays
    options = app.selectbox(key="example").options
    assert len(options) >= 10
    app.selectbox(key="example").select_index(3)
    check(app.run())
    assert messages(app) == "" or "looks like" in messages(app)
    assert header(app)["source"]["text"] == app.text_area(key="source").value


def test_units_change_what_is_solved_on(app: AppTest) -> None:
    type_texts(app, "Unbelievable riverbanks. They flood.", "Incredible shores! They are wet.")
    counts = {}
    for unit in ("token", "word", "sentence"):
        app.segmented_control(key="unit").set_value(unit)
        check(app.run())
        assert header(app)["source"]["atoms"] == unit
        counts[unit] = len(payload.read_arrays(blob(app))["source.weights"])
    assert counts["token"] > counts["word"] > counts["sentence"] == 2


def test_layer_centre_and_balance_change_the_cost(app: AppTest) -> None:
    type_texts(app, "The dog sleeps.", "A cat is awake.")
    seen = [payload.read_arrays(blob(app))["cost"].copy()]
    app.selectbox(key="layer").set_value(6)
    check(app.run())
    seen.append(payload.read_arrays(blob(app))["cost"].copy())
    app.checkbox(key="centre").check()
    check(app.run())
    seen.append(payload.read_arrays(blob(app))["cost"].copy())
    assert not np.allclose(seen[0], seen[1], atol=1e-3)
    assert not np.allclose(seen[1], seen[2], atol=1e-3)
    app.segmented_control(key="mechanism").set_value("partial")
    check(app.run())
    assert header(app)["null_cost"] == -0.2
    app.slider(key="null_cost").set_value(-0.3)
    check(app.run())
    assert header(app)["null_cost"] == -0.3


def test_baselines_keep_what_was_typed(app: AppTest) -> None:
    type_texts(app, "The dog sleeps.", "A cat is awake.")
    seen = {}
    for baseline in ("itself", "shuffled", "unrelated", "pasted"):
        app.segmented_control(key="baseline").set_value(baseline)
        check(app.run())
        seen[baseline] = header(app)["target"]["text"]
        assert app.text_area(key="target").value == "A cat is awake."
        assert ("Baseline" in messages(app)) == (baseline != "pasted")
    assert seen["itself"] == "The dog sleeps."
    assert sorted(seen["shuffled"].split()) == sorted(["A", "cat", "is", "awake", "."])
    assert seen["shuffled"] != "A cat is awake ."
    assert seen["pasted"] == "A cat is awake."


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "source is empty"),
        (" \n\t ", "source is empty"),
        ("word " * 20_001, "100,000"),
        ("a\x00b", "control"),
        ("a\x1b[31mb", "control"),
    ],
)
def test_bad_input_gets_a_message_and_keeps_the_picture(app: AppTest, text: str, message: str) -> None:
    before = header(app)["key"]
    type_texts(app, text, app.text_area(key="target").value)
    assert message in messages(app).replace("\\", "")
    assert "last picture" in messages(app)
    assert header(app)["key"] == before
    assert app.text_area(key="source").value == text


LONG = "The harbour wakes before the town does. Lamps are lit on the quay, and a kettle is passed round. " * 110


def finish_long_job(app: AppTest) -> None:
    job = app.session_state["job_long"]
    job.join(120)
    assert job.status == "done", job.error
    check(app.run())


def test_long_texts_are_solved_beside_the_page_and_shown_by_sentence(app: AppTest) -> None:
    type_texts(app, LONG, LONG)
    said = messages(app)
    assert "million pairs are more than the live view can hold" in said
    assert "MB" in said
    assert app.text_area(key="source").value == LONG
    check(app.button(key="long_solve").click().run())
    finish_long_job(app)
    found = app.session_state["job_long"].result
    assert found.converged
    assert found.sentence_plan.shape == (220, 220)
    assert messages(app) == said
    (table,) = [frame.value for frame in app.dataframe if "source sentence" in frame.value]
    assert table["mass, %"].is_monotonic_decreasing
    # Another ε: the old picture stays, and is marked as old.
    app.select_slider(key="long_epsilon").set_value(1.0)
    check(app.run())
    assert "earlier texts or another ε" in messages(app)
    # Words or sentences under "Solved on" bring the live view back.
    app.segmented_control(key="unit").set_value("sentence")
    check(app.run())
    assert "pairs" not in messages(app)
    assert header(app)["source"]["atoms"] == "sentence"


def test_a_long_solve_can_be_stopped_and_a_failed_one_is_said(app: AppTest, monkeypatch: pytest.MonkeyPatch) -> None:
    from sinkviz import long

    type_texts(app, LONG, LONG)
    app.select_slider(key="long_epsilon").set_value(0.1)
    monkeypatch.setattr(long, "MEMORY", 1)
    monkeypatch.setattr("sinkviz.ui.long.couple_long", lambda *a, **k: long.couple_long(*a, **{**k, "memory": 1}))
    check(app.button(key="long_solve").click().run())
    app.session_state["job_long"].stop()
    app.session_state["job_long"].join(60)
    check(app.run())
    assert "was stopped" in messages(app)

    def failing(*arguments: object, **options: object) -> None:
        raise ValueError("expected **more**, got $less$")

    monkeypatch.setattr("sinkviz.ui.long.couple_long", failing)
    check(app.button(key="long_solve").click().run())
    app.session_state["job_long"].join(60)
    check(app.run())
    assert "The solve failed" in messages(app)
    assert "\\$less" in messages(app) or "&#36;less" in messages(app)


def test_one_token_against_many_is_a_picture_like_any_other(app: AppTest) -> None:
    type_texts(app, "fish", "A small fish swims in the river")
    assert messages(app) == ""
    assert any("single atom" in caption.value for caption in app.caption)


def test_a_foreign_text_gets_a_notice_and_a_switch(app: AppTest) -> None:
    type_texts(app, "Der Hund schläft, und die Katze ist wach.", "Ein Hund und eine Katze sind nicht im Haus.")
    assert "German" in messages(app)
    switch = [button for button in app.button if "Switch to" in button.label]
    assert len(switch) == 1


def test_hostile_text_in_messages_stays_text(app: AppTest) -> None:
    app.text_area(key="source").set_value("\x07:red[x] $x^2$ <b>")
    check(app.run())
    assert "control" in messages(app).replace("\\", "")


@pytest.mark.parametrize("below", ["links", "space", "figures"])
def test_everything_below_the_pictures(app: AppTest, below: str) -> None:
    app.segmented_control(key="below").set_value(below)
    check(app.run())
    if below == "links":
        tables = [element.value for element in app.dataframe]
        assert len(tables) == 2
        assert tables[0]["mass, %"].is_monotonic_decreasing
        assert list(tables[0].columns[:2]) == ["source", "target"]
    else:
        assert app.get("plotly_chart")


@pytest.mark.parametrize(
    ("name", "value", "expected"),
    [
        ("unit", "word", "word"),
        ("layer", "5", 5),
        ("centre", "True", True),
        ("baseline", "itself", "itself"),
        ("mechanism", "partial", "partial"),
    ],
)
def test_every_control_comes_back_from_the_url(name: str, value: str, expected: object) -> None:
    app = check(start(**{name: value}))
    assert app.session_state[name] == expected
    assert app.query_params[name] == value


def test_settings_of_the_view_come_back_from_the_url() -> None:
    app = check(start(epsilon="0.1", colour="lift", steps="2.5", share="0.5", level="word"))
    settings = header(app)["settings"]
    assert (settings["epsilon"], settings["colour"], settings["steps"]) == (0.1, "lift", 2.5)
    assert (settings["share"], settings["level"]) == (0.5, "word")


@pytest.mark.parametrize(
    "query", [{"layer": "99"}, {"unit": "<b>"}, {"epsilon": "-1"}, {"texts": "@@@"}, {"null_cost": "nan"}]
)
def test_a_damaged_link_is_said_and_does_no_harm(query: dict[str, str]) -> None:
    app = check(start(**query))
    assert "could not be read" in messages(app)
    assert header(app)["source"]["text"]


def test_texts_come_from_a_link_and_stay_out_of_the_url_otherwise(app: AppTest) -> None:
    from sinkviz.ui.link import pack

    assert "texts" not in app.query_params
    packed = pack("A dog.", "Un chien.")
    linked = check(start(texts=packed))
    assert linked.text_area(key="source").value == "A dog."
    assert linked.text_area(key="target").value == "Un chien."
    assert linked.query_params["texts"] == packed
    type_texts(linked, "Another dog.", "Un chien.")
    assert "texts" not in linked.query_params


def test_an_older_url_does_not_undo_what_was_chosen(app: AppTest) -> None:
    before = dict(app.query_params)
    app.segmented_control(key="unit").set_value("word")
    check(app.run())
    app.checkbox(key="centre").set_value(True)
    check(app.run())
    chosen = dict(app.query_params)
    assert chosen != before
    # The next request was sent before the browser knew of the new URL.
    app.query_params.clear()
    for name, values in before.items():
        app.query_params[name] = values
    type_texts(app, "A dog.", "Un chien.")
    assert app.session_state["unit"] == "word"
    assert app.session_state["centre"] is True
    assert dict(app.query_params) == chosen


def test_texts_are_not_embedded_again_for_other_settings(app: AppTest, monkeypatch: pytest.MonkeyPatch) -> None:
    import sinkviz.embedding

    calls: list[object] = []
    original = sinkviz.embedding.embed

    def counting(text: Any, **options: Any) -> Any:
        calls.append(text)
        return original(text, **options)

    monkeypatch.setattr(sinkviz.embedding, "embed", counting)
    type_texts(app, "Snow fell on the quiet harbour.", "Rain came to the loud port.")
    assert len(calls) == 2
    app.segmented_control(key="mechanism").set_value("partial")
    check(app.run())
    assert len(calls) == 2
    type_texts(app, "Snow fell on the quiet harbour.", "Rain came to the loud ports.")
    assert calls[2:] == ["Rain came to the loud ports."]
    app.button(key="swap").click()
    check(app.run())
    assert len(calls) == 3


def test_a_session_comes_back_and_a_damaged_one_changes_nothing(app: AppTest) -> None:
    from sinkviz import couple
    from sinkviz.session import Session, dumps

    coupling = couple("A red boat.", "The blue ship.", unit="word", layer=5, mechanism="partial", null_cost=-0.1)
    text = dumps(Session.of(coupling, view={"colour": "lift"}))
    app.file_uploader(key="upload_session").upload("s.json", text.encode(), "application/json")
    check(app.run())
    assert app.text_area(key="source").value == "A red boat."
    assert app.session_state["layer"] == 5
    assert header(app)["null_cost"] == -0.1
    assert header(app)["settings"]["colour"] == "lift"
    before = header(app)["key"]
    app.file_uploader(key="upload_session").set_value([])
    app.run()
    app.file_uploader(key="upload_session").upload("t.json", text[:-40].encode(), "application/json")
    check(app.run())
    assert "t.json" in messages(app).replace("\\", "")
    assert header(app)["key"] == before


def test_two_runs_are_compared(app: AppTest) -> None:
    type_texts(app, "The dog sleeps.", "A cat is awake.")
    app.segmented_control(key="below").set_value("session")
    check(app.run())
    app.button(key="session_keep").click()
    check(app.run())
    assert any("**0 %** of the mass moved" in markdown.value for markdown in app.markdown)
    app.selectbox(key="layer").set_value(6)
    check(app.run())
    moved = next(markdown.value for markdown in app.markdown if "of the mass moved" in markdown.value)
    assert not moved.startswith("**0 %**")
    assert len(app.dataframe) == 2


def test_figures_for_print_are_made_when_they_are_asked_for(app: AppTest) -> None:
    app.segmented_control(key="below").set_value("figures")
    check(app.run())
    assert not app.get("download_button")
    (make,) = [button for button in app.button if button.label == "Make the file"]
    check(make.click().run())
    (file,) = app.get("download_button")
    assert "sinkviz.pdf" in file.proto.label
    app.multiselect[0].set_value([])
    (make,) = [button for button in app.button if button.label == "Make the file"]
    check(make.click().run())
    assert "at least one picture" in messages(app)
    assert not app.get("download_button")
    app.multiselect[0].set_value(["heatmap"])
    next(field for field in app.number_input if field.label == "Letters, pt").set_value(72.0)
    next(field for field in app.number_input if field.label == "Width, mm").set_value(20.0)
    (make,) = [button for button in app.button if button.label == "Make the file"]
    check(make.click().run())
    assert "no room" in messages(app)
