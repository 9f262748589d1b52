"""The Inside page in Chromium: every step is walked, texts change midway, nothing typed is lost between pages."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

import pytest
from playwright.sync_api import expect

Open = Callable[..., Any]
Pick = Callable[[Any, str, str | int], None]
STEPS = (
    ("Tokens and weights", "Weights of the source"),
    ("Encoder layers", "Both clouds"),
    ("Q and K", "Queries and keys in one space"),
    ("Cost", "Double-centred cost"),
    ("Iterations", "Errors of the two marginals"),
    ("Potentials and prices", "g, bonus of a target word"),
    ("Plan", "Attention"),
)


def wait_for_picture(page: Any, title: str) -> None:
    page.locator(".gtitle", has_text=title).first.wait_for(timeout=120_000)


def type_text(page: Any, label: str, text: str) -> None:
    area = page.get_by_label(label, exact=True)
    area.click()
    area.press("Control+a")
    page.keyboard.insert_text(text)
    assert area.input_value() == text
    area.press("Control+Enter")


def labels(page: Any) -> str:
    """Return the words under the axes of all pictures."""
    found: list[str] = page.locator(".js-plotly-plot .xtick text").all_text_contents()
    return " ".join(found)


def wait_for_label(page: Any, text: str) -> None:
    for _ in range(300):
        if text in labels(page):
            return
        page.wait_for_timeout(100)
    raise AssertionError(f"{text!r} is not among {labels(page)!r}")


@pytest.fixture
def page(server: Any, open_page: Open) -> Any:
    opened = open_page(f"{server.url}/inside?unit=word")
    wait_for_picture(opened, "Weights of the source")
    return opened


def test_every_step_is_walked_and_texts_change_midway(page: Any) -> None:
    for position, (name, picture) in enumerate(STEPS):
        wait_for_picture(page, picture)
        assert page.locator(".katex-error").count() == 0
        assert page.locator(".katex").count() > 0
        if name == "Cost":
            type_text(page, "Source text", "Zebras graze quietly.")
            page.locator(".js-plotly-plot .y2tick text", has_text="Zebras").first.wait_for()
            wait_for_picture(page, picture)
        if position < len(STEPS) - 1:
            page.get_by_role("button", name=f"Next: {STEPS[position + 1][0]}").click()
    assert "step=plan" in page.url
    page.get_by_role("button", name="Back: Potentials and prices").click()
    wait_for_picture(page, STEPS[5][1])
    wait_for_label(page, "Zebras")


def test_the_cloud_moves_with_the_layer(page: Any) -> None:
    page.get_by_role("radio", name="2 · Encoder layers", exact=True).click()
    wait_for_picture(page, "Both clouds")

    def places() -> list[str]:
        found: list[str] = (
            page.locator(".js-plotly-plot")
            .first.locator(".scatterlayer .point")
            .evaluate_all("(marks) => marks.map((mark) => mark.getAttribute('transform'))")
        )
        return found

    page.wait_for_timeout(1000)
    before = places()
    page.get_by_role("slider", name="Layer").press("ArrowLeft")
    page.locator(".js-plotly-plot", has_text="after layer 2 of 3").first.wait_for()
    page.wait_for_timeout(1000)
    after = places()
    assert len(before) == len(after) > 4
    assert sum(one != other for one, other in zip(before, after, strict=True)) > len(before) / 2


def test_the_heads_temperature_is_marked_on_the_dial(page: Any, pick_option: Pick) -> None:
    pick_option(page, "Encoder", "The embedding model's own head")
    mark = page.locator(".sinkviz-marks b", has_text="√32 = 5.66")
    mark.wait_for()
    dial = page.get_by_role("slider", name=re.compile("how much the plan may blur"))
    # The dial starts at that temperature: thumb and mark stand at the same share of its length.
    low, now, high = dial.evaluate("(input) => [input.min, input.value, input.max].map(Number)")
    share = re.search(r"\* ([\d.]+)\)", page.locator(".sinkviz-marks i").get_attribute("style"))
    assert share is not None
    assert float(share.group(1)) == pytest.approx((now - low) / (high - low), abs=1e-3)
    page.get_by_role("radio", name="5 · Iterations", exact=True).click()
    wait_for_picture(page, "Errors of the two marginals")
    before = page.get_by_test_id("stMetricValue").first.inner_text()
    dial.focus()
    for _ in range(8):
        dial.press("ArrowLeft")
    page.wait_for_function(
        "(text) => document.querySelector('[data-testid=stMetricValue]').innerText !== text", arg=before
    )


def test_nothing_typed_is_lost_between_the_pages(server: Any, open_page: Open) -> None:
    page = open_page(f"{server.url}/inside?unit=word")
    wait_for_picture(page, "Weights of the source")
    area = page.get_by_label("Source text", exact=True)
    expect(area).not_to_have_value("")
    first = area.input_value()
    type_text(page, "Target text", "Typed on the inside.")
    wait_for_label(page, "inside")
    for name in ("Compare", "Theorem", "Inside", "Compare"):
        page.get_by_role("link", name=name, exact=True).click()
        page.wait_for_url(re.compile({"Compare": r"/(\?.*)?$"}.get(name, f"/{name.lower()}")))
        if name != "Theorem":
            page.wait_for_function(
                "() => document.querySelector('textarea[aria-label=\"Target text\"]')?.value === 'Typed on the inside.'"
            )
            expect(page.get_by_label("Source text", exact=True)).to_have_value(first)


def test_hostile_text_is_shown_as_text(page: Any) -> None:
    type_text(page, "Source text", "<b>bold</b> $x^2$ :red[x] <script>y</script>")
    for name, picture in STEPS[1:]:
        page.get_by_role("radio", name=re.compile(f"· {name}$")).click()
        wait_for_picture(page, picture)
        page.wait_for_timeout(300)
        assert page.locator(".js-plotly-plot b").count() == 0
        assert page.locator("[data-testid=stCaptionContainer] b, [data-testid=stCaptionContainer] .katex").count() == 0


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_a_phone_shows_one_column(server: Any, open_page: Open, scheme: str) -> None:
    page = open_page(
        f"{server.url}/inside?unit=word&step=cost", viewport={"width": 390, "height": 844}, color_scheme=scheme
    )
    wait_for_picture(page, "Double-centred cost")
    assert page.evaluate("document.documentElement.scrollWidth") <= 391
    boxes = [plot.bounding_box() for plot in page.locator(".js-plotly-plot").all()]
    assert boxes[1]["y"] >= boxes[0]["y"] + boxes[0]["height"] - 1


def test_the_dial_keeps_its_place_when_texts_change(page: Any, pick_option: Pick) -> None:
    pick_option(page, "Encoder", "A trained Sinkhorn Transformer")
    own = page.locator("p", has_text=re.compile(r"ε = .* σ = 0\.1 in units of the cost"))
    own.wait_for()
    # The place of the model's own ε among the values of the dial moves with each text.
    for label, text, shown in (
        ("Source text", "Whales sing.", "Whales"),
        ("Target text", "The cat sleeps.", "sleeps"),
        ("Source text", "The cat is asleep now.", "asleep"),
    ):
        type_text(page, label, text)
        wait_for_label(page, shown)
        expect(own).to_be_visible()
    dial = page.get_by_role("slider", name=re.compile("how much the plan may blur"))
    dial.press("End")
    expect(own).to_have_count(0)
    caption = page.locator("p", has_text=re.compile(r"ε = .* σ = .* in units of the cost"))
    chosen = caption.inner_text().split(" σ")[0]
    type_text(page, "Target text", "Nobody sleeps well here.")
    wait_for_label(page, "Nobody")
    expect(caption).to_contain_text(f"{chosen} σ")
