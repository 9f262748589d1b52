"""The Evidence page in Chromium, offline: a run on the bundled set, the way to Compare, and a hostile gold set."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from typing import Any

import pytest
from playwright.sync_api import expect

Open = Callable[..., Any]
Pick = Callable[[Any, str, str | int], None]
HOSTILE = "<img src=x onerror=alert(1)>"


@pytest.fixture
def page(server: Any, open_page: Open, pick_option: Pick) -> Any:
    """The page, with the model that is on every machine."""
    opened = open_page(f"{server.url}/evidence")
    opened.get_by_role("button", name="Run", exact=True).wait_for()
    pick_option(opened, "Model", "all-MiniLM-L6-v2")
    opened.wait_for_timeout(1000)
    return opened


def run(page: Any) -> None:
    button = page.get_by_role("button", name="Run", exact=True)
    expect(button).to_have_count(1, timeout=30_000)  # While a script runs, the button of the last one may still stand.
    expect(button).to_be_enabled(timeout=30_000)
    button.click()
    page.get_by_text("95 % bootstrap intervals over").first.wait_for(timeout=120_000)


def test_a_run_shows_intervals_and_opens_a_pair_with_its_gold_links(page: Any) -> None:
    page.get_by_text("Neighbouring words", exact=True).click()
    page.wait_for_timeout(1000)
    run(page)
    page.get_by_text("neighbouring words 0, 0.05, 0.15 to choose among").wait_for()
    drawn = page.locator(".js-plotly-plot").first
    for label in ("bidirectional softmax", "mutual cosine", "Sinkhorn with null partner, mutual"):
        drawn.get_by_text(label, exact=True).first.wait_for()
    expect(page.get_by_text(re.compile(r"points of F1 \(95 % interval"))).to_have_count(4)
    page.get_by_role("button", name="Open this pair in Compare").click()
    page.get_by_role("radio", name=re.compile("gold", re.IGNORECASE)).and_(
        page.locator("[aria-checked=true]")
    ).wait_for()
    expect(page.get_by_label("Source text", exact=True)).to_have_value(re.compile("^The old bridge"))


def test_an_uploaded_set_is_run_and_its_words_stay_text(page: Any) -> None:
    alerts: list[str] = []
    page.on("dialog", lambda dialog: (alerts.append(dialog.message), dialog.dismiss()))
    pairs = [
        {"id": f"{HOSTILE}{k}", "source": f"<b>&amp; word{k} $x$", "target": f"word{k} <b>&amp;", "sure": "0-1 1-0"}
        for k in range(8)
    ]
    content = json.dumps({"format": "sinkviz-gold", "version": 1, "name": f"{HOSTILE} $x^2$", "pairs": pairs})
    page.get_by_role("radio", name="Your own files").click()
    page.locator("input[type=file]").first.set_input_files(
        {"name": "gold.json", "mimeType": "application/json", "buffer": content.encode()}
    )
    page.get_by_text("8 pairs").first.wait_for()
    run(page)
    page.get_by_text(f"{HOSTILE} $x^2$", exact=False).first.wait_for()
    assert page.locator("img[src=x]").count() == 0
    assert alerts == []


def test_a_file_that_is_no_gold_set_is_said(page: Any) -> None:
    page.get_by_role("radio", name="Your own files").click()
    page.locator("input[type=file]").first.set_input_files(
        {"name": "gold.json", "mimeType": "application/json", "buffer": b'{"no": "gold"}'}
    )
    page.get_by_role("alert").first.wait_for()
    expect(page.get_by_role("button", name="Run", exact=True)).to_be_disabled(timeout=30_000)
