"""The Compare page in Chromium, on the real model."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from playwright.sync_api import expect

Open = Callable[..., Any]
Pick = Callable[[Any, str, str | int], None]
LATE = """
const listen = WebSocket.prototype.addEventListener;
WebSocket.prototype.addEventListener = function (kind, listener, options) {
  const late = (event) => setTimeout(listener, 1500, event);
  listen.call(this, kind, kind === "message" ? late : listener, options);
};
"""
HOSTILE = "<b>bold</b> <script>x</script> $x^2$ :red[x] &amp; the the the 2026-12-01"


def lines(page: Any, side: str = "Coupling") -> Any:
    return page.get_by_role("region", name=side, exact=True)


def atoms(page: Any, side: str) -> list[str]:
    """Return the labels of the running text in the left panel, in order."""
    found: list[str] = lines(page).locator(f".text.{side} .atom").all_inner_texts()
    return found


def wait_drawn(page: Any) -> None:
    lines(page).locator(".text.source .atom").first.wait_for(timeout=60_000)


def wait_for_atoms(page: Any, side: str, expected: list[str]) -> None:
    """Wait until the running text shows these atoms."""
    for _ in range(300):
        if atoms(page, side) == expected:
            return
        page.wait_for_timeout(100)
    assert atoms(page, side) == expected


def wait_for_text(page: Any, side: str, text: str) -> None:
    """Wait until the running text shows this text, blanks aside."""
    for _ in range(300):
        if "".join(atoms(page, side)).replace(" ", "") == text.replace(" ", ""):
            return
        page.wait_for_timeout(100)
    assert "".join(atoms(page, side)).replace(" ", "") == text.replace(" ", "")


def type_text(page: Any, label: str, text: str) -> None:
    area = page.get_by_label(label, exact=True)
    area.click()
    area.press("Control+a")
    page.keyboard.insert_text(text)
    assert area.input_value() == text
    area.press("Control+Enter")


def figures(page: Any) -> str:
    text: str = page.get_by_role("group", name="Figures").inner_text()
    return text


def test_a_deep_link_to_a_fresh_server_shows_frame_page_and_picture(fresh_server: Any, open_page: Open) -> None:
    page = open_page(f"{fresh_server.url}/compare?unit=word&epsilon=0.1&baseline=itself")
    # Frame and page are there before the model is.
    page.get_by_label("Source text", exact=True).wait_for()
    assert lines(page).count() == 0
    wait_drawn(page)
    assert atoms(page, "source") == atoms(page, "target")
    assert "unit=word" in page.url
    assert "epsilon=0.1" in page.url
    assert "Baseline" in page.inner_text("body")
    assert "Traceback" not in fresh_server.log.read_text()


@pytest.fixture
def page(server: Any, open_page: Open) -> Any:
    opened = open_page(f"{server.url}/?unit=word")
    wait_drawn(opened)
    return opened


def test_typed_texts_and_examples_are_drawn(page: Any, pick_option: Pick) -> None:
    type_text(page, "Source text", "A small fish swam.")
    wait_for_atoms(page, "source", ["A", "small", "fish", "swam", "."])
    page.get_by_role("button", name="Swap").click()
    wait_for_atoms(page, "target", ["A", "small", "fish", "swam", "."])
    pick_option(page, "Example", 2)
    page.wait_for_function(
        "() => !document.querySelector('textarea[aria-label=\"Target text\"]').value.startsWith('A small fish')"
    )
    chosen = page.get_by_label("Source text", exact=True).input_value()
    wait_for_text(page, "source", chosen)


def test_epsilon_moves_by_keyboard_and_the_url_follows(page: Any) -> None:
    before = figures(page)
    slider = page.get_by_role("slider", name=re.compile("ε|epsilon", re.IGNORECASE)).first
    slider.focus()
    for _ in range(15):
        slider.press("ArrowLeft")
    page.wait_for_function("() => location.search.includes('epsilon=')")
    assert figures(page) != before


def test_units_change_what_is_solved_on(page: Any) -> None:
    type_text(page, "Source text", "Riverbanks flooded.")
    wait_for_atoms(page, "source", ["Riverbanks", "flooded", "."])
    page.get_by_role("radio", name="Tokens", exact=True).click()
    page.wait_for_function("() => !location.search.includes('unit=word')")
    # Solved on tokens the picture still opens by words; zoom shows the tokens themselves.
    page.get_by_role("radio", name="token", exact=True).check(force=True)
    wait_for_atoms(page, "source", ["River", "bank", "s", "flooded", "."])


def test_hostile_tokens_are_shown_as_text_and_not_merged(page: Any) -> None:
    type_text(page, "Source text", HOSTILE)
    wait_for_text(page, "source", HOSTILE)
    assert atoms(page, "source").count("the") == 3
    for choice in ("Clouds in 3-D", "Figures to keep"):
        page.get_by_role("radio", name=choice, exact=True).click()
        page.locator(".js-plotly-plot").first.wait_for()
        page.wait_for_timeout(1000)
        # Nothing of the user's became an element anywhere.
        assert page.locator(".js-plotly-plot b").count() == 0
    made = """() => { const all = [document];
        document.querySelectorAll('*').forEach((e) => e.shadowRoot && all.push(e.shadowRoot));
        const is = (e) => e.matches('.katex') || (e.matches('script') ? e.textContent === 'x' : e.textContent === 'bold');
        return all.flatMap((root) => [...root.querySelectorAll('b, script, .katex')]).filter(is).length; }"""
    assert page.evaluate(made) == 0


def test_dark_mode_follows_at_once(page: Any) -> None:
    card = lines(page)
    light = card.evaluate("(e) => getComputedStyle(e).backgroundColor")
    page.emulate_media(color_scheme="dark")
    page.wait_for_timeout(1500)
    dark = card.evaluate("(e) => getComputedStyle(e).backgroundColor")

    def brightness(colour: str) -> float:
        return sum(float(part) for part in re.findall(r"[\d.]+", colour)[:3])

    assert brightness(dark) < 200 < 600 < brightness(light)


def test_nothing_typed_is_lost_by_a_reload(page: Any) -> None:
    type_text(page, "Source text", "Typed and sent.")
    wait_for_text(page, "source", "Typed and sent.")
    area = page.get_by_label("Target text", exact=True)
    area.click()
    area.press("Control+a")
    page.keyboard.insert_text("typed, not yet sent")
    page.reload()
    page.wait_for_function(
        """() => document.querySelector('textarea[aria-label="Target text"]')?.value === 'typed, not yet sent'"""
    )
    expect(page.get_by_label("Source text", exact=True)).to_have_value("Typed and sent.")
    wait_for_text(page, "target", "typed, not yet sent")
    assert "texts=" not in page.url


def test_a_pause_in_typing_draws_and_typing_goes_on_undisturbed(page: Any) -> None:
    area = page.get_by_label("Source text", exact=True)
    area.click()
    area.press("Control+a")
    page.keyboard.type("Snow fell", delay=40)
    wait_for_text(page, "source", "Snow fell")
    page.keyboard.type(" on the quiet harbour", delay=90)
    other = page.get_by_label("Target text", exact=True)
    other.click()
    other.press("Control+a")
    page.keyboard.type("Rain came to the loud port", delay=90)
    wait_for_text(page, "target", "Rain came to the loud port")
    assert other.input_value() == "Rain came to the loud port"
    assert area.input_value() == "Snow fell on the quiet harbour"


def test_nothing_typed_is_lost_by_an_error(page: Any) -> None:
    type_text(page, "Source text", "   ")
    page.get_by_text("The source is empty").wait_for()
    assert len(atoms(page, "source")) > 1  # the last good picture
    type_text(page, "Source text", "All good again")
    wait_for_text(page, "source", "All good again")
    expect(page.get_by_text("The source is empty")).to_have_count(0)


def test_half_a_surrogate_pair_is_refused_or_replaced_but_never_breaks_the_page(page: Any) -> None:
    page.get_by_label("Source text", exact=True).evaluate(
        """(e) => { const set = Object.getOwnPropertyDescriptor(HTMLTextAreaElement.prototype, 'value').set;
        set.call(e, 'half \\ud83d pair'); e.dispatchEvent(new Event('input', { bubbles: true })); }"""
    )
    page.get_by_label("Source text", exact=True).press("Control+Enter")
    page.wait_for_timeout(2000)
    wait_drawn(page)
    type_text(page, "Source text", "Works on")
    wait_for_text(page, "source", "Works on")


@pytest.mark.parametrize(
    ("text", "count"),
    [
        ("الكلب ينام الآن.", 4),
        ("הכלב ישן עכשיו.", 4),
        ("Κοιμάται ο σκύλος.", 4),
        ("कुत्ता सो रहा है।", 5),
        ("👩‍👩‍👧 fish 🐟", 3),
    ],
)
def test_other_scripts_are_drawn_with_their_own_letters(page: Any, text: str, count: int) -> None:
    type_text(page, "Source text", text)
    wait_for_text(page, "source", text)
    assert len(atoms(page, "source")) == count


def test_a_phone_shows_one_column(server: Any, open_page: Open) -> None:
    page = open_page(f"{server.url}/?unit=word", viewport={"width": 390, "height": 844})
    wait_drawn(page)
    left, right = lines(page).bounding_box(), lines(page, "Attention").bounding_box()
    assert right["y"] > left["y"] + left["height"] - 1
    assert page.evaluate("document.documentElement.scrollWidth") <= 391


def test_nothing_typed_is_lost_by_a_page_change(page: Any) -> None:
    type_text(page, "Source text", "Kept across pages.")
    wait_for_text(page, "source", "Kept across pages.")
    area = page.get_by_label("Target text", exact=True)
    area.click()
    area.press("Control+a")
    page.keyboard.insert_text("typed before leaving")
    page.get_by_role("link", name="Evidence").click()
    page.wait_for_timeout(1500)
    if "evidence" not in page.url:  # Leaving the field and the link reach Streamlit in one moment: one may win.
        page.get_by_role("link", name="Evidence").click()
    page.get_by_role("button", name="Run").wait_for()
    page.get_by_role("link", name="Compare").click()
    wait_for_text(page, "source", "Kept across pages.")
    wait_for_text(page, "target", "typed before leaving")
    expect(page.get_by_label("Target text", exact=True)).to_have_value("typed before leaving")
    page.wait_for_function("() => location.search.includes('unit=word')")


@pytest.mark.parametrize("name", ["evidence", "batch"])
def test_every_page_has_its_own_address_on_a_fresh_server(fresh_server: Any, open_page: Open, name: str) -> None:
    page = open_page(f"{fresh_server.url}/{name}")
    page.get_by_role("button", name="Run" if name == "evidence" else "Start").wait_for()
    assert page.get_by_role("link", name="Compare").is_visible()
    assert page.url.endswith(f"/{name}")


def settled(page: Any, unit: str) -> None:
    """Wait until a unit is chosen and the page has come to rest."""
    page.get_by_role("radio", name=unit, exact=True).and_(page.locator("[aria-checked=true]")).wait_for()
    page.wait_for_function("() => !document.querySelector('[data-testid=stStatusWidget]')")
    page.wait_for_timeout(1500)


def test_back_and_forward_move_through_settings(page: Any) -> None:
    settled(page, "Words")
    page.get_by_role("radio", name="Tokens", exact=True).click()
    page.wait_for_function("() => !location.search.includes('unit=word')")
    settled(page, "Tokens")
    page.go_back()
    page.wait_for_function("() => location.search.includes('unit=word')")
    settled(page, "Words")
    page.go_forward()
    settled(page, "Tokens")


def test_choices_hold_where_answers_come_late(server: Any, open_page: Open) -> None:
    page = open_page(f"{server.url}/?unit=word", script=LATE)
    settled(page, "Words")
    page.get_by_role("radio", name="Tokens", exact=True).click()
    # The server has answered, the answer is on its way: the next choice is sent with the URL from before.
    page.wait_for_timeout(700)
    assert "unit=word" in page.url
    page.get_by_text("Centre", exact=True).click()
    page.wait_for_function("() => location.search.includes('centre=')")
    settled(page, "Tokens")
    assert "unit" not in page.url


def test_a_pair_of_sentences_of_a_long_text_opens_into_its_words(page: Any) -> None:
    wait_drawn(page)
    lines = [f"Ship number {k} brought fish and salt to the harbour before the storm closed it." for k in range(160)]
    type_text(page, "Source text", " ".join(lines))
    type_text(page, "Target text", " ".join(f"{line} Then it left." for line in reversed(lines)))
    solve = page.get_by_role("button", name="Solve", exact=True)
    solve.wait_for(timeout=60_000)
    page.get_by_text("million pairs are more than").wait_for()
    solve.click()
    page.get_by_text("Choose one to open its words").wait_for(timeout=120_000)
    heatmaps = page.locator(".js-plotly-plot")
    page.wait_for_function("() => document.querySelectorAll('.js-plotly-plot').length >= 2")
    before = heatmaps.count()
    table = page.get_by_test_id("stDataFrame").last
    table.scroll_into_view_if_needed()
    box = table.bounding_box()
    page.mouse.click(box["x"] + 14, box["y"] + 36 + 17)
    page.get_by_text("A block of the whole plan, exactly").wait_for(timeout=30_000)
    page.wait_for_function("(least) => document.querySelectorAll('.js-plotly-plot').length >= least", arg=before + 2)


@pytest.mark.parametrize(("kind", "start"), [("PDF", b"%PDF-"), ("PNG", b"\x89PNG"), ("SVG", b"<?xml")])
def test_a_figure_for_print_is_downloaded(page: Any, pick_option: Pick, kind: str, start: bytes) -> None:
    wait_drawn(page)
    page.get_by_text("Figures to keep", exact=True).click()
    make = page.get_by_role("button", name="Make the file")
    make.wait_for(timeout=30_000)
    if kind != "PDF":
        pick_option(page, "Format", kind)
    make.click()
    download = page.get_by_role("button", name=f"Download sinkviz.{kind.lower()}")
    download.wait_for(timeout=60_000)
    with page.expect_download() as saved:
        download.click()
    data = Path(saved.value.path()).read_bytes()
    assert data.startswith(start)
    assert len(data) > 5_000
