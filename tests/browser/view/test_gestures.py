"""Every gesture of the live view, with a real mouse and keyboard."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from sinkviz.pipeline import couple_cost
from sinkviz.view.settings import defaults, validate
from sinkviz.view.weights import chosen_weights

from .conftest import Problem, cell, plan, rest, sent

Show = Callable[..., Any]
TALL = {"viewport": {"width": 1400, "height": 2300}}


def expected(fish: Problem, epsilon: float, level: Any = "word", mechanism: Any = "sinkhorn") -> Any:
    return couple_cost(
        fish.cost,
        fish.source,
        fish.target,
        mechanism=mechanism,
        epsilon=epsilon * fish.scale,
        epsilon_unit="absolute",
    ).coarsen(level)


def dial(page: Any, label: str) -> Any:
    return page.get_by_role("slider", name=re.compile(label))


def test_the_first_picture_is_the_coupling_beside_attention(show: Show, fish: Problem) -> None:
    page = show(fish.blob)
    right = expected(fish, 0.35)
    assert plan(page) == pytest.approx(right.plan, abs=1e-5)
    assert plan(page, "right") == pytest.approx(expected(fish, 0.35, mechanism="softmax").plan, abs=1e-5)
    assert sent(page) == []
    figures = page.locator(".figure b").all_inner_texts()
    assert figures[0] == f"{right.mutual_information:.3g} nat"
    assert figures[1].replace("−", "-") == f"{right.transport_cost:.3g}"
    assert page.locator(".status").inner_text().startswith("● converged")


def test_epsilon_follows_the_mouse_and_python_hears_of_the_end_only(show: Show, fish: Problem) -> None:
    page = show(fish.blob)
    box = dial(page, "Epsilon").bounding_box()
    y = box["y"] + box["height"] / 2
    page.mouse.move(box["x"] + box["width"] * 0.5, y)
    page.mouse.down()
    seen = set()
    for k in range(1, 13):
        page.mouse.move(box["x"] + box["width"] * (0.5 - 0.02 * k), y)
        page.wait_for_timeout(25)
        seen.add(round(float(page.evaluate("view.sheets.left.information")), 9))
    assert sent(page) == []
    assert len(seen) >= 8
    page.mouse.up()
    rest(page)
    (settings,) = sent(page)
    assert settings["epsilon"] == pytest.approx(page.evaluate("view.settings.epsilon"))
    assert validate(settings) == settings
    assert plan(page) == pytest.approx(expected(fish, settings["epsilon"]).plan, abs=1e-5)


def test_epsilon_by_keyboard_and_by_typing(show: Show, fish: Problem) -> None:
    page = show(fish.blob)
    slider = dial(page, "Epsilon")
    slider.focus()
    before = page.evaluate("view.settings.epsilon")
    page.keyboard.press("ArrowLeft")
    assert page.evaluate("view.settings.epsilon") < before
    page.keyboard.press("PageUp")
    assert page.evaluate("view.settings.epsilon") > before
    page.keyboard.press("Home")
    assert page.evaluate("view.settings.epsilon") == pytest.approx(0.01)
    page.keyboard.press("End")
    assert page.evaluate("view.settings.epsilon") == pytest.approx(10)
    assert len(sent(page)) == 4
    field = page.get_by_role("textbox", name=re.compile("Epsilon"))
    for typed, value in (("0,2", 0.2), ("1e-1", 0.1), ("99", 10), ("0.05", 0.05)):
        field.fill(typed)
        field.press("Enter")
        assert page.evaluate("view.settings.epsilon") == pytest.approx(value)
    rest(page)
    assert plan(page) == pytest.approx(expected(fish, 0.05).plan, abs=1e-5)
    field.fill("none")
    field.dispatch_event("change")
    assert "wrong" in field.get_attribute("class")
    assert page.evaluate("view.settings.epsilon") == pytest.approx(0.05)


def test_the_recommended_epsilon_is_marked_where_the_thumb_stands_and_one_click_away(show: Show, fish: Problem) -> None:
    page = show(fish.blob)
    mark = page.get_by_role("button", name="0.35 recommended")
    assert mark.is_visible()
    dial(page, "Epsilon").focus()
    page.keyboard.press("Home")
    assert page.evaluate("view.settings.epsilon") == pytest.approx(0.01)
    mark.click()
    rest(page)
    assert page.evaluate("view.settings.epsilon") == pytest.approx(0.35)
    assert plan(page) == pytest.approx(expected(fish, 0.35).plan, abs=1e-5)
    # A press on the track right above the tick sets the same ε, to a pixel.
    tick = page.evaluate(
        """() => { const mark = document.querySelector('.sinkviz .mark'); const box = mark.getBoundingClientRect();
        return box.left + parseFloat(getComputedStyle(mark, '::before').left) + 1; }"""
    )
    box = dial(page, "Epsilon").bounding_box()
    page.mouse.click(tick, box["y"] + box["height"] / 2)
    rest(page)
    pixel = (10 / 0.01) ** (1 / box["width"])
    assert 0.35 / pixel**2 < page.evaluate("view.settings.epsilon") < 0.35 * pixel**2


def test_half_steps_walk_from_attention_to_the_coupling(show: Show, fish: Problem) -> None:
    page = show(fish.blob)
    field = page.get_by_role("textbox", name=re.compile("Half-steps"))
    field.fill("½")
    field.press("Enter")
    rest(page)
    assert plan(page) == pytest.approx(plan(page, "right"), abs=1e-12)
    slider = dial(page, "Half-steps")
    slider.focus()
    page.keyboard.press("ArrowRight")
    rest(page)
    assert page.evaluate("view.settings.steps") == 1
    assert page.evaluate("view.sheets.left.columnError") < 1e-9 < page.evaluate("view.sheets.left.rowError")
    assert "half-step 1" in page.locator(".lines-card .muted").first.inner_text()
    errors = []
    for steps in ("1½", "5.5", "40.5", "999.5"):
        field.fill(steps)
        field.press("Enter")
        rest(page)
        errors.append(page.evaluate("view.sheets.left.columnError"))
    assert errors == sorted(errors, reverse=True)
    slider.press("End")
    rest(page)
    assert page.evaluate("view.settings.steps") == "inf"
    assert plan(page) == pytest.approx(expected(fish, 0.35).plan, abs=1e-5)


def test_relaxed_columns_walk_the_same_way(show: Show, fish: Problem) -> None:
    from sinkviz.transport import sinkhorn

    page = show(fish.blob)
    page.get_by_role("radio", name="relaxed columns").check()
    page.get_by_role("radio", name="token").check()
    field = page.get_by_role("textbox", name=re.compile("relaxation"))
    assert field.input_value() == "∞"
    for typed in ("0", "0.1", "2", "inf"):
        field.fill(typed)
        field.press("Enter")
        rest(page)
        found = plan(page)
        if typed == "0":
            right = expected(fish, 0.35, "token", "softmax").plan
        elif typed == "inf":
            right = expected(fish, 0.35, "token").plan
        else:
            import torch

            right = sinkhorn(
                torch.tensor(fish.cost),
                torch.tensor(fish.source.weights),
                torch.tensor(fish.target.weights),
                epsilon=0.35 * fish.scale,
                column_relaxation=float(typed) * fish.scale,
            ).plan.numpy()
        assert found == pytest.approx(right, abs=1e-5), typed
    dial(page, "relaxation").press("ArrowLeft")
    assert page.evaluate("Number.isFinite(view.settings.relaxation)")


def test_play_moves_the_dial_and_pause_tells_python(show: Show, fish: Problem) -> None:
    page = show(fish.blob)
    page.get_by_role("button", name=re.compile("Play")).click()
    page.wait_for_timeout(700)
    moving = page.evaluate("view.settings.epsilon")
    assert moving != pytest.approx(0.35)
    assert sent(page) == []
    page.get_by_role("button", name="Pause").click()
    rest(page)
    still = page.evaluate("view.settings.epsilon")
    page.wait_for_timeout(300)
    assert page.evaluate("view.settings.epsilon") == still
    assert [s["epsilon"] for s in sent(page)] == [still]


def test_play_takes_few_steps_for_those_who_want_no_motion(show: Show, fish: Problem) -> None:
    page = show(fish.blob, reduced_motion="reduce")
    page.evaluate(
        "() => { window.seen = new Set(); const set = view.set.bind(view); view.set = (p, f) => { seen.add(p.epsilon); set(p, f); }; }"
    )
    page.get_by_role("button", name=re.compile("Play")).click()
    page.wait_for_timeout(2300)
    page.get_by_role("button", name="Pause").click()
    assert 1 <= page.evaluate("seen.size") <= 3


def test_hover_lights_a_pair_in_every_picture(show: Show, fish: Problem) -> None:
    page = show(fish.blob, **TALL)
    page.mouse.move(*cell(page, 2, 1))
    page.wait_for_timeout(150)
    assert page.locator(".text.source .atom.lit").all_inner_texts() == ["fisherman"] * 2
    assert page.locator(".text.target .atom.lit").all_inner_texts() == ["the"] * 2
    assert page.locator(".band:visible").count() == 4
    tip = page.locator(".tip").inner_text()
    assert "fisherman" in tip
    assert "log-lift" in tip
    page.mouse.move(5, 5)
    page.wait_for_timeout(150)
    assert page.locator(".atom.lit").count() == 0
    assert page.locator(".tip").is_hidden()
    page.locator(".text.target .atom", has_text="angler").first.hover()
    page.wait_for_timeout(150)
    assert "received" in page.locator(".tip").inner_text()
    assert page.locator(".text.target .atom.lit").count() == 2
    assert page.evaluate("view.lit.source") == -1
    x, y = page.evaluate("[view.pictures.clouds.right.sx[0], view.pictures.clouds.right.sy[0]]")
    box = page.locator(".cloud").nth(1).bounding_box()
    page.mouse.move(box["x"] + x, box["y"] + y)
    page.wait_for_timeout(150)
    assert page.locator(".atom.lit").count() >= 2


def test_pins_are_several_stable_and_cleared_by_escape(show: Show, fish: Problem) -> None:
    page = show(fish.blob, **TALL)
    page.mouse.click(*cell(page, 2, 4))
    page.mouse.click(*cell(page, 0, 1))
    page.locator(".text.source .atom", has_text="bank").first.click()
    page.wait_for_timeout(250)
    pins = page.evaluate("view.settings.pins")
    assert len(pins) == 3
    assert pins[2]["target"] is None
    colours = [page.locator(".pin").nth(k).evaluate("n => n.style.borderColor") for k in range(3)]
    assert len(set(colours)) == 3
    assert page.evaluate("view.pictures.curves.pairs.lines.length") == 4
    page.get_by_role("radio", name="sentence").check()
    rest(page)
    page.get_by_role("radio", name="word").check()
    rest(page)
    assert [page.locator(".pin").nth(k).evaluate("n => n.style.borderColor") for k in range(3)] == colours
    page.mouse.click(*cell(page, 0, 1))
    page.wait_for_timeout(200)
    assert len(page.evaluate("view.settings.pins")) == 2
    page.keyboard.press("Escape")
    page.wait_for_timeout(200)
    assert page.evaluate("view.settings.pins") == []
    assert page.locator(".pin").count() == 0
    assert sent(page)[-1]["pins"] == []


def test_the_keyboard_alone_moves_pins_and_speaks(show: Show, fish: Problem) -> None:
    page = show(fish.blob, **TALL)
    page.locator(".matrix").first.focus()
    page.keyboard.press("ArrowDown")
    page.keyboard.press("ArrowDown")
    page.keyboard.press("ArrowRight")
    assert page.evaluate("[view.lit.source, view.lit.target]") == [1, 1]
    spoken = page.locator(".unseen[aria-live]").inner_text()
    assert "old" in spoken
    assert "%" in spoken
    page.keyboard.press("Enter")
    page.wait_for_timeout(150)
    assert len(page.evaluate("view.settings.pins")) == 1
    page.locator(".stage").first.focus()
    for key in ("ArrowRight", "ArrowRight", "ArrowDown", "ArrowRight"):
        page.keyboard.press(key)
    assert page.evaluate("view.lit.source") == -1
    assert page.evaluate("view.lit.target") >= 1
    page.keyboard.press("Enter")
    page.wait_for_timeout(150)
    assert page.evaluate("view.settings.pins[1].source") is None
    page.keyboard.press("Escape")
    page.wait_for_timeout(100)
    assert page.evaluate("view.settings.pins") == []


def test_zoom_sums_blocks_exactly(show: Show, fish: Problem) -> None:
    page = show(fish.blob)
    plans = {}
    for level in ("token", "word", "sentence"):
        page.get_by_role("radio", name=level).check()
        rest(page)
        plans[level] = plan(page)
        assert plans[level] == pytest.approx(expected(fish, 0.35, level).plan, abs=1e-5)
    tokens = plans["token"]
    words = np.zeros_like(plans["word"])
    np.add.at(words, (fish.source.word_of[:, None], fish.target.word_of[None, :]), tokens)
    assert words == pytest.approx(plans["word"], abs=1e-12)
    assert [s["level"] for s in sent(page)] == ["token", "word", "sentence"]


def test_a_click_on_a_pair_of_sentences_opens_its_words(show: Show, fish: Problem) -> None:
    page = show(fish.blob, **TALL)
    page.get_by_role("radio", name="sentence").check()
    rest(page)
    before = plan(page)
    page.mouse.click(*cell(page, 1, 1))
    rest(page)
    assert page.evaluate("view.level") == "word"
    assert page.evaluate("view.rows.labels[0]") == "He"
    assert page.evaluate("view.columns.labels[0]") == "His"
    assert page.evaluate("view.sheets.left.total") == pytest.approx(before[1, 1], abs=1e-12)
    note = page.locator(".range-note").inner_text()
    assert "Shown" in note
    page.get_by_role("button", name="show whole texts").click()
    rest(page)
    assert page.evaluate("view.level") == "sentence"
    assert plan(page) == pytest.approx(before, abs=1e-12)
    x, y = cell(page, 0, 0)
    page.keyboard.down("Shift")
    page.mouse.click(x, y)
    page.keyboard.up("Shift")
    page.wait_for_timeout(150)
    assert len(page.evaluate("view.settings.pins")) == 1
    page.locator(".matrix").first.focus()
    page.keyboard.press("ArrowDown")
    page.keyboard.press("o")
    rest(page)
    assert page.evaluate("view.level") == "word"


def test_brushing_restricts_and_renormalises(show: Show, fish: Problem) -> None:
    page = show(fish.blob, **TALL)
    whole = plan(page)
    page.mouse.move(*cell(page, 1, 2))
    page.mouse.down()
    page.mouse.move(*cell(page, 3, 4), steps=4)
    assert page.locator(".brush:visible").count() == 1
    page.mouse.move(*cell(page, 5, 6), steps=4)
    page.mouse.up()
    rest(page)
    assert plan(page) == pytest.approx(whole[1:6, 2:7], abs=1e-12)
    assert page.evaluate("view.renorm.left") == 1
    page.get_by_label("renormalise").check()
    rest(page)
    assert page.evaluate("view.renorm.left * view.sheets.left.total") == pytest.approx(1)
    assert page.evaluate("view.renorm.right * view.sheets.right.total") == pytest.approx(1)
    page.keyboard.press("Escape")
    rest(page)
    assert plan(page).shape == whole.shape
    first = page.locator(".text.source").first.locator(".atom")
    a, b = first.nth(1).bounding_box(), first.nth(4).bounding_box()
    page.mouse.move(a["x"] + 3, a["y"] + 5)
    page.mouse.down()
    page.mouse.move(b["x"] + 3, b["y"] + 5, steps=8)
    assert page.locator(".atom.brushed").count() >= 4
    page.mouse.up()
    rest(page)
    assert page.evaluate("view.rows.labels") == ["old", "fisherman", "sat", "on"]
    assert page.evaluate("view.settings.target_range") is None
    assert page.evaluate("view.settings.pins") == []


def test_colours_say_what_they_mean(show: Show, fish: Problem) -> None:
    page = show(fish.blob, **TALL)
    legends = page.locator(".legend-row span")
    assert "mass of a pair: 0" in legends.first.inner_text()

    def pixels() -> list[int]:
        found: list[int] = page.evaluate("Array.from(view.pictures.heatmaps.left.pixels.slice(0, 40))")
        return found

    mass = pixels()
    page.get_by_role("radio", name="lift").check()
    rest(page)
    assert "log-lift: −" in legends.first.inner_text()
    assert "0 = independence" in legends.first.inner_text()
    assert pixels() != mass
    field = page.get_by_role("textbox", name=re.compile("Epsilon"))
    field.fill("10")
    field.press("Enter")
    page.evaluate("view.set({ epsilon: 10 }, true)")
    rest(page)
    # Nearly independent: every lift is near 0, the page's own colour in the middle of the map.
    middle = page.evaluate("[view.theme.diverging[127], view.theme.diverging[128]]")
    near = page.evaluate(
        "Math.max(...Array.from(view.pictures.heatmaps.left.pixels, (p) => Math.abs(view.theme.diverging.indexOf(p) - 127.5)))"
    )
    assert middle
    assert near < 25
    page.get_by_role("radio", name="difference").check()
    rest(page)
    assert "coupling − attention" in legends.first.inner_text()
    assert "mass of a pair" in legends.nth(1).inner_text()


def test_lines_say_how_many_and_follow_their_share(show: Show, fish: Problem) -> None:
    page = show(fish.blob)
    caption = page.locator(".lines-card > .caption").first
    count = int(re.match(r"([\d,]+) of", caption.inner_text())[1].replace(",", ""))
    masses = np.sort(plan(page).ravel())[::-1]
    needed = int(np.searchsorted(np.cumsum(masses), 0.7 * masses.sum())) + 1
    assert count == needed
    slider = page.locator(".slider.small")
    slider.focus()
    page.keyboard.press("Home")
    page.wait_for_timeout(300)
    assert page.evaluate("view.settings.share") == 0.05
    fewer = int(re.match(r"([\d,]+) of", caption.inner_text())[1])
    assert fewer < count
    page.keyboard.press("End")
    page.wait_for_timeout(400)
    text = caption.inner_text()
    drawn = int(re.match(r"([\d,]+) of", text)[1].replace(",", ""))
    assert drawn <= 400
    assert drawn == masses.size or "more than fit" in text or "100 % of the mass" in text
    assert sent(page)[-1]["share"] == 1


def test_a_weight_is_edited_by_double_click_and_undone(show: Show, fish: Problem) -> None:
    page = show(fish.blob, **TALL)
    page.get_by_role("radio", name="token").check()
    rest(page)
    before = plan(page)
    page.mouse.click(*cell(page, 0, 0))
    page.locator(".text.source .atom", has_text="bank").first.dblclick()
    assert page.locator(".editor").is_visible()
    assert len(page.evaluate("view.settings.pins")) == 1
    page.locator(".editor input").fill("3")
    page.keyboard.press("Enter")
    rest(page)
    index = next(k for k, label in enumerate(fish.source.labels) if label == "bank")
    choice = {"preset": "given", "drop": [], "factors": {str(index): 3.0}}
    assert sent(page)[-1]["weights"]["source"] == choice
    changed = fish.source.with_weights(chosen_weights(fish.source, choice))
    right = couple_cost(fish.cost, changed, fish.target, epsilon=0.35 * fish.scale, epsilon_unit="absolute")
    assert plan(page) == pytest.approx(right.plan, abs=1e-5)
    page.get_by_role("button", name="undo").click()
    rest(page)
    assert plan(page) == pytest.approx(before, abs=1e-6)
    assert sent(page)[-1]["weights"]["source"]["factors"] == {}
    page.get_by_role("button", name="redo").click()
    rest(page)
    assert plan(page) == pytest.approx(right.plan, abs=1e-5)
    page.get_by_role("button", name="reset").click()
    rest(page)
    assert sent(page)[-1] == validate({**defaults(), "level": None})
    page.locator(".stage").first.focus()
    page.keyboard.press("ArrowRight")
    page.keyboard.press("e")
    page.get_by_role("button", name="leave out").click()
    rest(page)
    assert page.evaluate("view.rows.weights[0]") == 0
    assert page.locator(".text.source .atom.dead").count() == 2
    assert plan(page)[0].sum() == 0


def test_the_old_picture_is_marked_while_new_weights_are_solved(show: Show, fish: Problem) -> None:
    page = show(fish.blob)
    page.evaluate("view.tasks.run = () => {}")
    page.evaluate("view.setFactor('source', 0, 1, 4)")
    page.wait_for_timeout(200)
    assert page.evaluate("view.root.classList.contains('old')")
    assert "being solved" in page.locator(".status").inner_text()


def test_the_weight_table_has_presets_groups_and_factors(show: Show, fish: Problem) -> None:
    page = show(fish.blob, **TALL)
    page.locator("summary", has_text="Weights").click()
    page.get_by_label("Weights of the source", exact=True).first.select_option("length")
    rest(page)
    want = chosen_weights(fish.source, {"preset": "length"})
    assert page.evaluate("Array.from(view.model.weights.source)") == pytest.approx(want, abs=1e-7)
    page.get_by_label("drop punctuation").nth(1).check()
    rest(page)
    want = chosen_weights(fish.target, {"drop": ["punctuation"]})
    assert page.evaluate("Array.from(view.model.weights.target)") == pytest.approx(want, abs=1e-7)
    assert want.min() == 0
    page.get_by_label("drop stop words").first.check()
    rest(page)
    want = chosen_weights(fish.source, {"preset": "length", "drop": ["stop_words"]})
    assert page.evaluate("Array.from(view.model.weights.source)") == pytest.approx(want, abs=1e-7)
    field = page.get_by_label("Factor of bank").first
    field.fill("0")
    field.press("Tab")
    rest(page)
    assert (
        "0" in sent(page)[-1]["weights"]["source"]["factors"].values()
        or 0 in sent(page)[-1]["weights"]["source"]["factors"].values()
    )
    everything = {str(k): 0 for k in range(len(fish.source))}
    page.evaluate(
        "(factors) => view.setWeights({ ...view.settings.weights, source: { preset: 'given', drop: [], factors: factors } })",
        everything,
    )
    page.wait_for_timeout(150)
    assert "at least one" in page.locator(".panel .message").inner_text().lower()
    assert len(page.evaluate("view.settings.weights.source.factors")) == 1


def test_undo_by_keyboard_goes_back_through_all_settings(show: Show, fish: Problem) -> None:
    page = show(fish.blob)
    field = page.get_by_role("textbox", name=re.compile("Epsilon"))
    for typed in ("0.5", "0.7"):
        field.fill(typed)
        field.press("Enter")
    page.get_by_role("radio", name="lift").check()
    page.keyboard.press("Control+z")
    assert page.evaluate("[view.settings.colour, view.settings.epsilon]") == ["mass", 0.7]
    page.keyboard.press("Control+z")
    assert page.evaluate("view.settings.epsilon") == 0.5
    page.keyboard.press("Control+Shift+z")
    assert page.evaluate("view.settings.epsilon") == 0.7
