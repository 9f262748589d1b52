"""The Theorem page in Chromium: the gallery moves, the steps are walked, a run is started, stopped and resumed."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

import pytest
from playwright.sync_api import expect

Open = Callable[..., Any]


def wait_for_picture(page: Any, title: str) -> None:
    page.locator(".gtitle", has_text=title).first.wait_for(timeout=120_000)


def choose(page: Any, name: str) -> None:
    page.get_by_role("radio", name=name, exact=True).click()


@pytest.fixture
def page(server: Any, open_page: Open) -> Any:
    opened = open_page(f"{server.url}/theorem")
    opened.locator(".js-plotly-plot").nth(6).wait_for(timeout=120_000)
    return opened


def test_the_gallery_draws_every_system_and_follows_its_dials(page: Any) -> None:
    text = page.inner_text("body")
    for title in ("Independent", "Rotation by the second moment", "Mixture of two plans", "not continuous"):
        assert title in text
    picture = page.locator(".js-plotly-plot").nth(2)
    before = picture.locator(".scatterlayer").inner_html()
    slider = page.get_by_role("slider", name="Spread of the second cloud")
    slider.focus()
    for _ in range(5):
        slider.press("ArrowRight")
    page.get_by_text("1.5 ×").first.wait_for()
    page.wait_for_timeout(1500)
    assert picture.locator(".scatterlayer").inner_html() != before
    page.get_by_text("Add your own in ten lines of Python").click()
    page.get_by_text("coupling_system", exact=False).first.wait_for()


def test_the_four_steps_are_walked(page: Any) -> None:
    choose(page, "The proof in four steps")
    for step, picture in (
        ("1 · Every plan has a cost", "Distance to π over δ"),
        ("2 · The cost factors", "Errors over the number of factors"),
        ("4 · Small errors stay small", "How far the plan moves"),
    ):
        choose(page, step)
        wait_for_picture(page, picture)
        assert page.locator(".katex-error").count() == 0
        before = page.get_by_test_id("stMetricValue").all_inner_texts()
        page.get_by_role("button", name="Another pair").click()
        page.wait_for_function(
            "(old) => [...document.querySelectorAll('[data-testid=stMetricValue]')].map(e => e.innerText).join() "
            "!== old",
            arg=",".join(before),
        )
    choose(page, "3 · Encoders learn the factors")
    page.get_by_role("slider", name="Training steps").press("Home")
    page.get_by_role("button", name="Train four encoders").click()
    wait_for_picture(page, "Error on clouds never seen")


def test_a_run_is_started_stopped_and_resumed(page: Any) -> None:
    choose(page, "Run an experiment")
    for name in ("Width", "Training steps", "Seeds"):
        slider = page.get_by_role("slider", name=name).first
        slider.press("Home")
        page.wait_for_timeout(300)
    page.get_by_text(re.compile("3 runs: python -m sinkviz approximate")).wait_for()
    page.get_by_role("button", name="Start", exact=True).click()
    wait_for_picture(page, "Training loss")
    page.get_by_role("button", name="Stop", exact=True).click()
    page.get_by_text(re.compile(r"Stopped at \d+")).wait_for(timeout=60_000)
    # Away and back: the run is still there.
    page.get_by_role("link", name="Evidence", exact=True).click()
    page.wait_for_url(re.compile("/evidence"))
    page.get_by_role("link", name="Theorem", exact=True).click()
    page.get_by_role("radio", name="Run an experiment", exact=True).wait_for()
    choose(page, "Run an experiment")
    page.get_by_role("button", name="Resume", exact=True).click()
    page.get_by_role("button", name="Result as JSON").wait_for(timeout=120_000)
    page.get_by_text(re.compile("the softmax model misses by")).wait_for(timeout=120_000)
    expect(page.get_by_text(re.compile(r"Stopped at"))).to_have_count(0)


def test_stored_runs_are_drawn(page: Any) -> None:
    choose(page, "Finished runs")
    page.locator(".js-plotly-plot").first.wait_for()
    page.get_by_text(re.compile("python -m sinkviz approximate|approximate")).first.wait_for()


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_a_phone_shows_one_column(server: Any, open_page: Open, scheme: str) -> None:
    page = open_page(f"{server.url}/theorem", viewport={"width": 390, "height": 844}, color_scheme=scheme)
    page.locator(".js-plotly-plot").nth(6).wait_for(timeout=120_000)
    assert page.evaluate("document.documentElement.scrollWidth") <= 391
