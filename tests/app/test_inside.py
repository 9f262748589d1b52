"""The Inside page without a browser: every step under every encoder, every control, and the numbers behind them."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from streamlit.testing.v1 import AppTest

from sinkviz import couple, embed
from sinkviz.embedding import attention_projections
from sinkviz.figures.labels import percent
from sinkviz.pipeline import couple_cost
from sinkviz.transformer import SinkhornTransformer
from sinkviz.ui import encoders
from sinkviz.ui.inside import STEPS

APP = str(Path(__file__).parents[2] / "app.py")
MODEL = "all-MiniLM-L6-v2"
TEXTS = ("The dog sleeps on the mat.", "A cat is awake.")
# Pictures of each step: with layers there are the clouds and two matrices of attention.
PICTURES = {"tokens": 2, "layers": 3, "clouds": 2, "cost": 2, "iterations": 2, "potentials": 4, "plan": 2}


def check(app: AppTest) -> AppTest:
    assert not app.exception, app.exception
    return app


def start(**query: str) -> AppTest:
    app = AppTest.from_file(APP, default_timeout=60).run()
    app.switch_page("pages/inside.py")
    for name, value in query.items():
        app.query_params[name] = value
    return check(app.run())


def go(app: AppTest, step: str) -> AppTest:
    app.segmented_control(key="step").set_value(step)
    return check(app.run())


def choose(app: AppTest, encoder: str) -> AppTest:
    app.selectbox(key="inside_encoder").set_value(encoder)
    return check(app.run())


def type_texts(app: AppTest, source: str, target: str) -> AppTest:
    app.text_area(key="source").set_value(source)
    app.text_area(key="target").set_value(target)
    return check(app.run())


def messages(app: AppTest) -> str:
    found = "\n".join(element.value for kind in ("error", "warning", "info") for element in app.get(kind))
    return found.replace("\\", "")


def titles(app: AppTest) -> list[str]:
    figures = [json.loads(element.proto.spec) for element in app.get("plotly_chart")]
    return [re.sub("<.*?>", " ", figure["layout"]["title"]["text"]) for figure in figures]


def formulas(app: AppTest) -> str:
    return "\n".join(element.value for element in app.latex)


def metrics(app: AppTest) -> dict[str, str]:
    return {metric.label: metric.value.replace("−", "-") for metric in app.metric}


@pytest.fixture
def models(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A user's model folder with one model of each kind."""
    torch.manual_seed(0)
    for kind, options in {
        "sinkhorn": {"residual": True},
        "softmax": {},
        "relaxed": {"relaxation": 0.2},
        "sinkformer": {},
    }.items():
        model = SinkhornTransformer(
            384,
            width=16,
            layers=2,
            heads=4,
            out=8,
            epsilon=0.1,
            normalisation=kind,
            **options,  # type: ignore[arg-type]
        )
        model.save(tmp_path / f"own-{kind}.safetensors", about={"title": "$x$ <b>title</b>"})
    (tmp_path / "own-broken.safetensors").write_bytes(b"not a model")
    monkeypatch.setenv("SINKVIZ_MODELS", str(tmp_path))
    return tmp_path


def test_every_step_is_drawn_and_can_be_walked_by_the_buttons() -> None:
    app = type_texts(start(), *TEXTS)
    for step, pictures in PICTURES.items():
        assert app.session_state["step"] == step
        assert len(app.get("plotly_chart")) == pictures, step
        assert app.latex, step
        assert any(len(element.value) > 80 for element in app.markdown), step
        assert messages(app) == ""
        if step != "plan":
            app.button(key="step_next").click()
            check(app.run())
    assert app.button(key="step_next").disabled
    for step in reversed(list(STEPS)[:-1]):
        app.button(key="step_back").click()
        check(app.run())
        assert app.session_state["step"] == step
    assert app.button(key="step_back").disabled


def test_the_formulas_carry_the_present_numbers() -> None:
    app = type_texts(start(), *TEXTS)
    coupling = couple(*TEXTS, unit="token")
    n, m = coupling.shape
    assert rf"\sum_{{i=1}}^{{{n}}}" in formulas(app)
    assert rf"\tfrac{{1}}{{{m}}}" in formulas(app)
    go(app, "cost")
    assert metrics(app)["σ, spread of the centred cost"] == f"{coupling.cost_scale:.3g}"
    go(app, "plan")
    assert f"{coupling.transport_cost:.3g}" in formulas(app)
    attention = couple(*TEXTS, unit="token", mechanism="softmax")
    assert percent(attention.received_distance) in metrics(app)["Mass that misses ν"]
    assert metrics(app)["Mutual information"].startswith(f"{coupling.mutual_information:.3g} nat")


@pytest.mark.parametrize("step", list(PICTURES))
def test_the_embedding_models_own_head(step: str) -> None:
    app = go(type_texts(choose(start(), "heads"), *TEXTS), step)
    assert len(app.get("plotly_chart")) == PICTURES[step]
    assert messages(app) == ""
    assert any("√32" in element.proto.body for element in app.get("html"))
    before = [element.proto.spec for element in app.get("plotly_chart")]
    app.selectbox(key="own_head").set_value(5)
    check(app.run())
    app.selectbox(key="own_layer").set_value(5)
    check(app.run())
    after = [element.proto.spec for element in app.get("plotly_chart")]
    assert (before == after) == (step == "tokens")


@pytest.mark.parametrize("kind", ["sinkhorn", "softmax", "relaxed", "sinkformer"])
def test_a_trained_model_of_the_users_folder(models: Path, kind: str) -> None:
    encoder = "sinkformer" if kind == "sinkformer" else "trained"
    app = choose(type_texts(start(), *TEXTS), encoder)
    key = f"{encoder}_model"
    options = app.selectbox(key=key).options
    assert not any("broken" in option for option in options)
    assert any("sinkformer" in option for option in options) == (kind == "sinkformer")
    app.selectbox(key=key).set_value(f"own-{kind}")
    check(app.run())
    for step, pictures in PICTURES.items():
        go(app, step)
        assert len(app.get("plotly_chart")) == pictures + (step == "layers"), step
        assert messages(app) == ""
    assert ("Sinkformer balances" in "\n".join(c.value for c in app.caption)) == (kind == "sinkformer")
    assert metrics(app)["Mass that misses ν"].startswith("0 %") == (kind in ("sinkhorn", "sinkformer"))


def test_without_a_model_it_says_what_to_do_and_keeps_the_last_steps(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from sinkviz.transformer import registry

    monkeypatch.setenv("SINKVIZ_MODELS", str(tmp_path))
    monkeypatch.setattr(registry, "shipped_folder", lambda: tmp_path / "none")
    app = choose(start(), "sinkformer")
    assert "no Sinkformer" in messages(app)
    assert "last steps" in messages(app)
    assert len(app.get("plotly_chart")) == PICTURES["tokens"]


def test_the_shipped_model_walks_with_the_words_beside_each_word() -> None:
    app = choose(type_texts(start(), *TEXTS), "trained")
    assert app.session_state["trained_model"] == "word-alignment"
    assert messages(app) == ""
    assert "(cosine 1 before + cosine 1 after)" in "\n".join(caption.value for caption in app.caption)
    assert r"C_{ij}=-\alpha\cos(x_i,y_j)-\sum_{k=1}^{2}\gamma_{k}\left(\cos(x_{i-k},y_{j-k})+" in formulas(
        go(app, "cost")
    )
    assert "-R(x_i,y_j)-w" in formulas(app)
    assert "R is a small network (16 hidden numbers)" in "\n".join(caption.value for caption in app.caption)
    app.session_state["layer"] = 6
    check(app.run())
    assert "trained on all-MiniLM-L6-v2, layer 3; these are all-MiniLM-L6-v2, layer 6." in messages(app)


def test_an_uploaded_model_is_checked_first(models: Path) -> None:
    app = choose(start(), "trained")
    uploader = app.get("file_uploader")[-1]
    uploader.upload("mine.safetensors", (models / "own-broken.safetensors").read_bytes(), "application/octet-stream")
    check(app.run())
    assert "not a readable safetensors file" in messages(app)
    app.get("file_uploader")[-1].upload(
        "mine.safetensors", (models / "own-sinkhorn.safetensors").read_bytes(), "application/octet-stream"
    )
    check(app.run())
    assert app.session_state["trained_model"] == "upload:mine"
    assert messages(app) == ""
    assert "cosine + 0" in "\n".join(caption.value for caption in app.caption)
    assert r"C_{ij}=-\alpha\cos(x_i,y_j)-w\langle" in formulas(go(app, "cost"))


def test_epsilon_is_one_dial_with_compare() -> None:
    app = go(start(), "plan")
    before = metrics(app)["Partners a word"]
    app.select_slider(key="inside_epsilon").set_value(2.0)
    check(app.run())
    assert metrics(app)["Partners a word"] != before
    assert app.session_state["view_settings"]["epsilon"] == 2.0
    assert float(app.query_params["epsilon"]) == 2.0
    app.switch_page("pages/compare.py")
    check(app.run())
    assert app.session_state["view_settings"]["epsilon"] == 2.0


def test_the_heads_dial_starts_at_its_temperature_and_moves_alone() -> None:
    app = choose(go(start(), "potentials"), "heads")
    assert any(f"= {np.sqrt(32):.3g} in units of the cost" in caption.value for caption in app.caption)
    app.select_slider(key="inside_temperature").set_value(1.0)
    check(app.run())
    assert any("ε = 1 σ" in caption.value for caption in app.caption)
    assert app.session_state["view_settings"]["epsilon"] == 0.35


def test_the_iteration_goes_from_attention_to_the_coupling() -> None:
    app = go(type_texts(start(), *TEXTS), "iterations")
    assert "attention" in titles(app)[1]
    options = app.select_slider(key="inside_half_step").options
    assert options[:3] == ["0.5", "1", "1.5"]
    app.select_slider(key="inside_half_step").set_value(options[-1])
    check(app.run())
    last = json.loads(app.get("plotly_chart")[1].proto.spec)["layout"]["meta"]["description"]
    assert f"after {options[-1]} steps" in last
    found = metrics(app)
    assert float(found["Measured rate"]) == pytest.approx(float(found["Predicted rate σ₂²"]), rel=0.02)


def test_layers_heads_and_units_change_the_pictures() -> None:
    app = go(type_texts(start(), *TEXTS), "layers")
    seen = {json.dumps(titles(app))}
    app.slider(key="inside_stage").set_value(1)
    check(app.run())
    assert "after layer 1" in titles(app)[0]
    seen.add(app.get("plotly_chart")[1].proto.spec)
    app.segmented_control(key="inside_head").set_value(3)
    check(app.run())
    assert "head 4" in titles(app)[1]
    assert app.get("plotly_chart")[1].proto.spec not in seen
    app.slider(key="inside_stage").set_value(0)
    check(app.run())
    assert len(app.get("plotly_chart")) == 1
    app.selectbox(key="layer").set_value(6)
    check(app.run())
    for unit in ("word", "sentence", "token"):
        app.segmented_control(key="unit").set_value(unit)
        check(app.run())
        for step in ("iterations", "plan"):
            go(app, step)
            assert "Traceback" not in messages(app)
        app.checkbox(key="centre").set_value(unit == "word")
        check(app.run())
        go(app, "layers")


def test_one_sentence_on_each_side_says_that_there_is_nothing_to_choose() -> None:
    app = type_texts(start(), "fish", "river")
    for step in STEPS:
        go(app, step)
        assert "nothing to choose" in messages(app) or "solver" in messages(app)


def test_texts_changed_midway_stay_on_every_page() -> None:
    app = go(start(), "cost")
    before = app.get("plotly_chart")[0].proto.spec
    type_texts(app, "Rain fell.", "Snow came down.")
    assert app.session_state["step"] == "cost"
    assert app.get("plotly_chart")[0].proto.spec != before
    app.switch_page("pages/compare.py")
    check(app.run())
    assert app.text_area(key="source").value == "Rain fell."
    type_texts(app, "Rain fell softly.", "Snow came down.")
    app.switch_page("pages/inside.py")
    check(app.run())
    assert app.text_area(key="source").value == "Rain fell softly."
    assert app.session_state["step"] == "cost"


def test_bad_input_and_too_many_pairs_keep_the_last_steps() -> None:
    app = go(start(), "cost")
    type_texts(app, "", "Something.")
    assert "source is empty" in messages(app)
    assert "last steps" in messages(app)
    assert len(app.get("plotly_chart")) == 2
    long = "one two three four five six. " * 100
    type_texts(app, long, long)
    assert "more than 250,000 pairs" in messages(app)
    app.segmented_control(key="unit").set_value("sentence")
    check(app.run())
    assert "pairs" not in messages(app).replace("All pairs cost the same", "")
    assert "last steps" not in messages(app)


@pytest.mark.parametrize("encoder", ["none", "heads"])
def test_hostile_text_stays_text(encoder: str) -> None:
    hostile = "<b>bold</b> $x^2$ :red[x] the the 2026-12-01 &amp;"
    app = choose(type_texts(start(unit="word"), hostile, hostile[::-1]), encoder)
    for step in STEPS:
        go(app, step)
        for caption in app.caption:
            assert "<b>" not in caption.value
            assert not re.search(r"(?<!\\)\$", caption.value)
        for element in app.get("plotly_chart"):
            assert "<b>bold" not in element.proto.spec


def test_links_carry_encoder_and_step() -> None:
    app = start(inside_encoder="heads", own_layer="2", own_head="7", step="potentials", unit="word")
    assert app.session_state["inside_encoder"] == "heads"
    assert (app.session_state["own_layer"], app.session_state["own_head"]) == (2, 7)
    assert titles(app)[0].strip().startswith("f, bonus")
    wrong = start(inside_encoder="nonsense", step="9")
    assert "could not be read" in messages(wrong)
    assert wrong.session_state["inside_encoder"] == "none"


# --- the numbers behind the pages ------------------------------------------------------------------------------------


def weighted(unit: str = "token") -> Any:
    return embed(TEXTS[0], unit=unit), embed(TEXTS[1], unit=unit)


def test_a_heads_scores_are_the_models_own() -> None:
    walk = encoders.walk_heads(TEXTS, weighted(), MODEL, 4, 2)
    query = attention_projections(TEXTS[0], layer=4, head=2).query[0]
    key = attention_projections(TEXTS[1], layer=4, head=2).key[0]
    np.testing.assert_allclose(walk.cost, -(query.astype(float) @ key.astype(float).T), rtol=1e-6)
    assert walk.own_epsilon == pytest.approx(np.sqrt(32))
    # Attention across the texts at that temperature is softmax(⟨q, k⟩ / √32).
    attention = couple_cost(
        walk.cost, walk.source, walk.target, mechanism="softmax", epsilon=walk.own_epsilon, epsilon_unit="absolute"
    )
    expected = torch.softmax(torch.tensor(query @ key.T / np.sqrt(32)), -1).numpy() / len(query)
    np.testing.assert_allclose(attention.plan, expected, atol=1e-6)


def test_words_take_the_means_of_their_tokens_queries() -> None:
    tokens = encoders.walk_heads(TEXTS, weighted(), MODEL, 4, 2)
    words = encoders.walk_heads(TEXTS, weighted("word"), MODEL, 4, 2)
    group, spans = tokens.source.group("word")
    for k in range(len(spans)):
        np.testing.assert_allclose(words.query[k], tokens.query[group == k].mean(0), atol=1e-5)


@pytest.mark.parametrize("unit", ["token", "word", "sentence"])
def test_own_attention_has_rows_that_sum_to_one(unit: str) -> None:
    pair = weighted(unit)
    torch.manual_seed(0)
    model = SinkhornTransformer(384, width=16, layers=2, heads=4, out=8, epsilon=0.1)
    walks = (encoders.walk_none(TEXTS, pair, MODEL, 3, False), encoders.walk_model(pair, model))
    for walk in walks:
        assert len(walk.stage_names) == len(walk.stages[0]) == len(walk.stages[1])
        for head in (None, 1):
            found = walk.attention("source", 2, head)
            assert found.shape == (len(pair[0]), len(pair[0]))
            np.testing.assert_allclose(found.sum(1), 1, atol=1e-5)


def test_a_models_walk_ends_in_its_own_coupling() -> None:
    torch.manual_seed(0)
    model = SinkhornTransformer(384, width=16, layers=2, heads=4, out=8, epsilon=0.1)
    pair = weighted()
    walk = encoders.walk_model(pair, model)
    np.testing.assert_allclose(walk.cost, -walk.query @ walk.key.T / np.sqrt(8), atol=1e-5)
    own = couple(*pair, encoder=model)
    again = couple_cost(walk.cost, *pair, epsilon=0.1, epsilon_unit="absolute")
    np.testing.assert_allclose(own.plan, again.plan, atol=1e-5)


def test_the_plane_is_fixed_and_orthogonal() -> None:
    random = np.random.default_rng(0)
    clouds = [random.normal(size=(5, 7)), random.normal(size=(4, 7))]
    flat, kept = encoders.fixed_plane(clouds, [np.full(5, 0.2), np.full(4, 0.25)])
    assert 0 < kept <= 1
    for cloud, plane in zip(clouds, flat, strict=True):
        before = np.linalg.norm(cloud[:, None] - cloud[None], axis=-1)
        after = np.linalg.norm(plane[:, None] - plane[None], axis=-1)
        assert (after <= before + 1e-9).all()
    whole, kept = encoders.fixed_plane([clouds[0][:, :2]], [np.full(5, 0.2)])
    assert kept == pytest.approx(1)
    np.testing.assert_allclose(
        np.linalg.norm(whole[0][0] - whole[0][1]), np.linalg.norm(clouds[0][0, :2] - clouds[0][1, :2])
    )


def test_the_rate_of_two_points_is_known() -> None:
    # P = [[p, ½−p], [½−p, p]] has σ₂ = 4p − 1 exactly.
    for p in (0.3, 0.45):
        plan = np.array([[p, 0.5 - p], [0.5 - p, p]])
        half = np.full(2, 0.5)
        assert encoders.second_singular_value(plan, half, half) == pytest.approx(4 * p - 1)
    assert encoders.second_singular_value(np.full((1, 3), 1 / 3), np.ones(1), np.full(3, 1 / 3)) == 0


def test_the_measured_rate_of_a_geometric_error_is_its_factor() -> None:
    steps = np.arange(1, 61) / 2
    errors = 0.3 * 0.5**steps
    assert encoders.measured_rate(steps, errors) == pytest.approx(0.5)
    assert encoders.measured_rate(steps[:1], errors[:1]) is None


def test_it_says_that_the_steps_are_those_of_the_balanced_problem() -> None:
    app = AppTest.from_file(APP, default_timeout=60).run()
    app.segmented_control(key="mechanism").set_value("partial")
    check(app.run())
    app.switch_page("pages/inside.py")
    check(app.run())
    assert any("balanced problem" in info.value for info in app.info)
    app.switch_page("pages/compare.py")
    check(app.run())
    assert app.segmented_control(key="mechanism").value == "partial"
    app.segmented_control(key="mechanism").set_value("sinkhorn")
    check(app.run())
    app.switch_page("pages/inside.py")
    check(app.run())
    assert not any("balanced problem" in info.value for info in app.info)


def test_a_text_that_the_model_does_not_speak_gets_a_notice_and_a_switch() -> None:
    app = go(type_texts(start(unit="word"), "ذهب الولد إلى المدرسة.", "The boy went to school."), "cost")
    assert "Source: This text looks like Arabic" in messages(app)
    assert "Target" not in messages(app)
    # Words from right to left must not move the numbers beside them.
    assert any("“\u2068" in caption.value and "\u2069”" in caption.value for caption in app.caption)
    switch = [button for button in app.button if "Switch to" in button.label]
    if switch:
        check(switch[0].click().run())
        assert app.session_state["model"] == "multilingual-e5-small"
        assert "looks like" not in messages(app)
