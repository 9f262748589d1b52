"""The view on a page: mounted again and again, themes, sizes, scripts, hostile text, and people who use no mouse."""

from __future__ import annotations

import base64
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from sinkviz.figures.palette import palette
from sinkviz.view import payload
from sinkviz.view.settings import validate

from .conftest import Problem, cell, plan, problem, rest, sent

Show = Callable[..., Any]


def feed(page: Any, blob: bytes) -> None:
    page.evaluate("(text) => { window.cleanup = window.feed(text); }", base64.b64encode(blob).decode())
    page.wait_for_timeout(50)
    rest(page)


def test_the_same_data_again_changes_nothing(show: Show, fish: Problem) -> None:
    page = show(fish.blob)
    page.evaluate("view.set({ epsilon: 0.2 }, true)")
    rest(page)
    feed(page, fish.blob)
    assert page.locator(".sinkviz").count() == 1
    assert page.evaluate("view === document.querySelector('.sinkviz').view")
    assert page.evaluate("view.settings.epsilon") == 0.2
    assert len(sent(page)) == 1


def test_settings_from_elsewhere_are_taken_over(show: Show, fish: Problem) -> None:
    page = show(fish.blob)
    page.evaluate("view.set({ epsilon: 0.2 }, true)")
    feed(page, payload.with_settings(fish.blob, {"epsilon": 1.5, "colour": "lift"}, revision=1))
    assert page.evaluate("[view.settings.epsilon, view.settings.colour]") == [1.5, "lift"]
    page.get_by_role("button", name="undo").click()
    assert page.evaluate("[view.settings.epsilon, view.settings.colour]") == [0.2, "mass"]


def test_new_weights_from_python_keep_what_the_user_did_meanwhile(show: Show, fish: Problem) -> None:
    page = show(fish.blob)
    page.evaluate("view.setFactor('source', 3, 4, 2)")
    rest(page)
    settings = sent(page)[-1]
    page.evaluate("view.set({ epsilon: 0.6 }, true)")
    rest(page)
    shown = plan(page)
    from sinkviz.view.weights import chosen_weights

    solved = (chosen_weights(fish.source, settings["weights"]["source"]), fish.target.weights)
    import torch

    from sinkviz.transport import sinkhorn_path

    epsilons = np.geomspace(10, 0.01, 41) * fish.scale
    path = sinkhorn_path(
        torch.tensor(fish.cost), torch.tensor(solved[0]), torch.tensor(solved[1]), epsilons=torch.tensor(epsilons)
    )
    blob = payload.build(
        fish.source,
        fish.target,
        cost=fish.cost,
        cost_scale=fish.scale,
        epsilons=epsilons,
        potentials=np.asarray(path.g),
        solved_weights=solved,
        settings=settings,
    )
    feed(page, blob)
    assert page.evaluate("view.settings.epsilon") == 0.6
    assert plan(page) == pytest.approx(shown, abs=1e-6)
    assert page.evaluate("view.history.states.length") == 3
    assert len(sent(page)) == 2


def test_a_page_that_is_left_and_opened_again_is_where_it_was(show: Show, fish: Problem) -> None:
    page = show(fish.blob)
    page.evaluate("view.set({ epsilon: 0.2, pins: [{ source: [0, 1], target: null }] }, true)")
    rest(page)
    page.evaluate("window.cleanup()")
    assert page.locator(".sinkviz").count() == 0
    page.evaluate(
        "(text) => { window.cleanup = window.feed(text); window.view = document.querySelector('.sinkviz').view; }",
        base64.b64encode(fish.blob).decode(),
    )
    rest(page)
    assert page.evaluate("[view.settings.epsilon, view.settings.pins.length, view.history.states.length]") == [
        0.2,
        1,
        2,
    ]
    page.evaluate("window.cleanup()")
    other = payload.with_settings(fish.blob, {"epsilon": 0.7})
    page.evaluate(
        "(text) => { window.cleanup = window.feed(text); window.view = document.querySelector('.sinkviz').view; }",
        base64.b64encode(other).decode(),
    )
    rest(page)
    assert page.evaluate("view.settings.epsilon") == 0.7


def test_other_texts_start_anew(show: Show, fish: Problem) -> None:
    page = show(fish.blob)
    page.mouse.wheel(0, 500)
    page.mouse.click(*cell(page, 1, 1))
    other = problem("A cat sleeps. It dreams.", "Cats sleep and dream of mice.", settings={"epsilon": 0.5})
    feed(page, other.blob)
    assert page.evaluate("[view.settings.epsilon, view.settings.pins.length, view.history.states.length]") == [
        0.5,
        0,
        1,
    ]
    assert page.evaluate("view.rows.labels[1]") == "cat"
    assert page.locator(".sinkviz").count() == 1


def test_a_link_for_longer_texts_is_clipped_not_trusted(show: Show) -> None:
    settings = {
        "pins": [{"source": [900, 901], "target": None}, {"source": [0, 1], "target": [0, 1]}],
        "source_range": [500, 600],
        "target_range": [0, 900],
        "weights": {"source": {"factors": {"800": 0.0}}, "target": {}},
        "epsilon": 1e-9,
    }
    page = show(problem(settings=settings).blob)
    kept = page.evaluate("view.settings")
    assert len(kept["pins"]) == 1
    assert kept["source_range"] is None
    assert kept["weights"]["source"]["factors"] == {}
    assert validate(kept) == kept


def test_damaged_data_is_a_sentence_not_a_blank_page(show: Show, fish: Problem) -> None:
    page = show(fish.blob)
    page.evaluate("void window.feed(new Uint8Array([1, 2, 3]))")
    page.wait_for_timeout(100)
    assert "cannot be drawn" in page.locator(".panel .message").inner_text()
    feed(page, fish.blob)
    assert page.locator(".matrix").first.is_visible()


def test_200_changes_of_text_leak_nothing(show: Show, fish: Problem) -> None:
    other = problem("A cat sleeps. It dreams.", "Cats sleep and dream of mice.")
    page = show(fish.blob)
    session = page.context.new_cdp_session(page)
    session.send("Performance.enable")

    def measure() -> dict[str, float]:
        page.wait_for_timeout(400)
        for _ in range(3):
            session.send("HeapProfiler.collectGarbage")
        found = session.send("Performance.getMetrics")["metrics"]
        return {metric["name"]: metric["value"] for metric in found}

    cycle = """async ([one, two, count]) => {
        for (let k = 0; k < count; k++) {
            window.cleanup = window.feed(k % 2 ? one : two);
            await new Promise((r) => requestAnimationFrame(r));
            if (k % 10 === 9) { window.cleanup(); window.cleanup = window.feed(one); await new Promise((r) => requestAnimationFrame(r)); }
        }
        window.view = document.querySelector('.sinkviz').view;
    }"""
    texts = [base64.b64encode(fish.blob).decode(), base64.b64encode(other.blob).decode()]
    page.evaluate(cycle, [*texts, 40])
    before = measure()
    page.evaluate(cycle, [*texts, 200])
    after = measure()
    assert page.locator(".sinkviz").count() == 1
    assert after["JSEventListeners"] <= before["JSEventListeners"] + 20
    assert after["Nodes"] <= before["Nodes"] * 1.3 + 300
    assert after["JSHeapUsedSize"] < before["JSHeapUsedSize"] + 6e6
    page.evaluate("window.cleanup()")
    assert page.locator(".sinkviz").count() == 0


def test_the_theme_follows_the_page_at_once(show: Show, fish: Problem) -> None:
    page = show(fish.blob)
    light = page.evaluate(
        "[getComputedStyle(document.querySelector('.card')).backgroundColor, view.pictures.heatmaps.left.pixels[0]]"
    )
    page.emulate_media(color_scheme="dark")
    rest(page)
    assert page.evaluate("view.root.dataset.theme") == "dark"
    dark = page.evaluate(
        "[getComputedStyle(document.querySelector('.card')).backgroundColor, view.pictures.heatmaps.left.pixels[0]]"
    )
    for found, name in ((light[0], "light"), (dark[0], "dark")):
        card = palette(name).card  # type: ignore[arg-type]
        assert found == f"rgb({int(card[1:3], 16)}, {int(card[3:5], 16)}, {int(card[5:7], 16)})"
    assert light[1] != dark[1]
    # Streamlit says its own background: that comes before what the system prefers.
    page.evaluate(
        "document.getElementById('mount').style.setProperty('--st-background-color', '#ffffff'); void window.feed(view.data)"
    )
    rest(page)
    assert page.evaluate("view.root.dataset.theme") == "light"


def test_in_a_shadow_root_too(show: Show, fish: Problem) -> None:
    page = show(fish.blob)
    page.evaluate("window.cleanup()")
    page.evaluate(
        """(text) => {
            const host = document.createElement('div');
            document.getElementById('mount').append(host);
            const root = host.attachShadow({ mode: 'open' });
            window.cleanup = window.feed(text, { parentElement: root });
            window.view = root.querySelector('.sinkviz').view;
        }""",
        base64.b64encode(fish.blob).decode(),
    )
    rest(page)
    page.get_by_role("radio", name="token").check()
    rest(page)
    page.mouse.wheel(0, 600)
    page.wait_for_timeout(100)
    page.locator(".text.target .atom").first.hover()
    page.wait_for_timeout(100)
    assert page.locator(".text.target .atom.lit").count() == 2
    assert page.locator(".text.source .atom").first.evaluate("n => getComputedStyle(n).cursor") == "pointer"


def test_tokens_are_text_whatever_they_spell(show: Show) -> None:
    source = '<img src=x onerror="window.hacked=1"> </script><script>window.hacked=2</script> $\\alpha$ :red[x] `code`'
    target = "javascript:alert(1) &amp; <b>bold</b> \u202egnirts\u202c {{PAYLOAD}} ${x} <!-- -->"
    page = show(problem(source, target).blob)
    page.evaluate("view.set({ level: 'token', share: 1 }, true)")
    rest(page)
    page.mouse.move(*cell(page, 1, 1))
    page.locator("summary", has_text="Links as a table").click()
    page.locator("summary", has_text="Weights").click()
    page.wait_for_timeout(300)
    assert page.evaluate("window.hacked") is None
    assert page.locator(".sinkviz img, .sinkviz script, .sinkviz b:not([class])").filter(has_text="bold").count() == 0
    assert page.locator(".sinkviz img, .sinkviz script").count() == 0
    page.locator(".menu summary").click()
    with page.expect_download() as waiting:
        page.get_by_role("button", name="HTML").click()
    other = page.context.new_page()
    other.goto(waiting.value.path().as_uri() if str(waiting.value.path()).endswith(".html") else "about:blank")
    assert other.evaluate("window.hacked") is None


@pytest.mark.parametrize(
    ("source", "target", "direction"),
    [
        ("جلس الصياد العجوز على ضفة النهر.", "הדייג הזקן ישב על גדת הנהר.", "rtl"),
        ("老渔夫坐在河岸上数鱼。", "おじいさんは魚を数えた。", "ltr"),
        ("मछुआरा नदी के किनारे बैठा था।", "👩‍💻 e\u0301te\u0301 நதி 🐟🐟", "ltr"),
    ],
)
def test_scripts_keep_their_direction_and_every_character(show: Show, source: str, target: str, direction: str) -> None:
    found = problem(source, target)
    page = show(found.blob)
    assert page.evaluate("view.rows.labels") == found.source.coarsen("word").labels
    assert page.evaluate("view.columns.labels") == found.target.coarsen("word").labels
    text = page.locator(".text.source").first
    assert text.evaluate("n => getComputedStyle(n).direction") == direction
    boxes = [atom.bounding_box()["x"] for atom in text.locator(".atom").all()]
    assert boxes == sorted(boxes, reverse=direction == "rtl")
    page.mouse.move(*cell(page, 0, 0))
    page.wait_for_timeout(150)
    assert found.source.coarsen("word").labels[0] in page.locator(".tip").inner_text()


def test_a_phone_shows_one_column_and_nothing_sticks_out(show: Show, fish: Problem) -> None:
    page = show(fish.blob, viewport={"width": 390, "height": 800}, has_touch=True, is_mobile=True)
    boxes = [page.locator(".lines-card").nth(k).bounding_box() for k in range(2)]
    assert boxes[0]["x"] == boxes[1]["x"]
    assert boxes[1]["y"] > boxes[0]["y"] + boxes[0]["height"]
    assert page.evaluate("document.documentElement.scrollWidth") <= 390
    inside = page.evaluate(
        "[...document.querySelectorAll('.sinkviz .card, .sinkviz .figure, .sinkviz button')].every((n) => n.getBoundingClientRect().right <= 391)"
    )
    assert inside


def test_long_texts_open_by_sentence_and_say_what_is_drawn(show: Show) -> None:
    words = " ".join(
        f"word{k % 97} and thing{k % 31}." if k % 9 == 8 else f"Word{k % 89} of{k % 13}" for k in range(420)
    )
    page = show(problem(words, words[: len(words) // 2]).blob)
    assert page.evaluate("view.level") == "sentence"
    assert page.evaluate("view.pictures.lines.left.mode") == "track"
    assert page.evaluate("view.pictures.lines.left.links.pairs.length") <= 400
    caption = page.locator(".lines-card > .caption").first.inner_text()
    assert "pairs of sentences drawn" in caption
    # While the dial moves, block sums between the grid's values; the plan itself once it rests.
    page.wait_for_function("view.model.kept && view.model.kept.right.length === 41", timeout=60_000)
    page.evaluate("view.set({ epsilon: 0.3 }, false)")
    page.wait_for_function("view.model.status.kind === 'gliding'")
    near = plan(page), plan(page, "right")
    page.wait_for_function("view.model.status.kind === 'converged'")
    rest(page)
    exact = plan(page), plan(page, "right")
    for quick, slow in zip(near, exact, strict=True):
        assert not np.array_equal(quick, slow)
        assert quick == pytest.approx(slow, rel=2e-2, abs=1e-6)
        assert np.abs(quick - slow).sum() < 5e-3
    page.get_by_role("radio", name="token").check()
    rest(page)
    text = page.locator(".matrix").first.locator("xpath=..").inner_text()
    assert "each cell sums" in text
    n, m = page.evaluate("[view.sheets.left.n, view.sheets.left.m]")
    rows, columns = page.evaluate("[view.pictures.heatmaps.left.pixelRows, view.pictures.heatmaps.left.pixelColumns]")
    assert rows <= 640 < n
    assert columns <= 640 < m or m <= 640
    sums = page.evaluate("Array.from(view.pictures.heatmaps.left.blocks).reduce((s, v) => s + v, 0)")
    assert sums == pytest.approx(1, abs=1e-6)


def test_a_null_partner_is_drawn_in_every_picture(show: Show) -> None:
    page = show(problem(null_cost=-0.15, potentials=None).blob)
    assert page.locator(".atom.none").count() == 4
    lost = page.evaluate("view.sheets.left.nullSource.reduce((s, v) => s + v, 0)")
    assert 0.02 < lost < 0.98
    assert "has no partner" in page.locator(".strip").inner_text()
    page.mouse.move(*cell(page, 0, 3))
    page.locator(".text.source .atom").first.hover()
    page.wait_for_timeout(150)
    assert "no partner" in page.locator(".tip").inner_text()


def test_a_screen_reader_gets_names_values_and_a_table(show: Show, fish: Problem) -> None:
    page = show(fish.blob)
    slider = page.get_by_role("slider", name="Epsilon, strength of the entropy")
    assert slider.get_attribute("aria-valuetext") == "0.35 standard deviations of the cost"
    label = page.locator(".matrix").first.get_attribute("aria-label")
    assert "Mutual information" in label
    page.locator("summary", has_text="Links as a table").focus()
    page.keyboard.press("Enter")
    page.wait_for_timeout(250)
    table = page.get_by_role("table").first
    rows = table.get_by_role("row").count() - 1
    assert rows == page.evaluate("view.pictures.lines.left.links.pairs.length")
    assert table.get_by_role("columnheader").count() == 7


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_axe_finds_no_violation(show: Show, fish: Problem, scheme: Any) -> None:
    from axe_playwright_python.sync_playwright import Axe

    page = show(fish.blob, color_scheme=scheme)
    page.locator("summary", has_text="Links as a table").click()
    page.locator("summary", has_text="Weights").click()
    page.mouse.click(*cell(page, 1, 1))
    rest(page)
    for mode in ("half-steps", "relaxed columns"):
        page.get_by_role("radio", name=mode).check()
        rest(page)
        results = Axe().run(page)
        assert results.violations_count == 0, results.generate_report()
