"""Exports hold exactly what is seen."""

from __future__ import annotations

import csv
import io
import re
import xml.etree.ElementTree as ElementTree
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from sinkviz.view.html import offline_html
from sinkviz.view.settings import from_query

from .conftest import Problem, cell, plan, problem, rest

Show = Callable[..., Any]
SVG = "{http://www.w3.org/2000/svg}"


def saved(page: Any, button: str) -> bytes:
    page.locator(".menu summary").click()
    with page.expect_download() as waiting:
        page.get_by_role("button", name=button).click()
    path: Path = waiting.value.path()
    return path.read_bytes()


def test_svg_and_png_hold_texts_settings_and_legend(show: Show, fish: Problem) -> None:
    page = show(fish.blob)
    page.mouse.wheel(0, 400)
    page.mouse.click(*cell(page, 2, 4))
    page.get_by_role("radio", name="lift").check()
    rest(page)
    root = ElementTree.fromstring(saved(page, "SVG"))
    texts = ["".join(node.itertext()) for node in root.iter(f"{SVG}text")]
    for word in ("fisherman", "angler", "Coupling", "Attention", "Clouds", "received", "price"):
        assert any(word in text for text in texts), word
    assert any(text.startswith("ε = 0.35 σ") for text in texts)
    assert any("log-lift" in text for text in texts)
    assert len(list(root.iter(f"{SVG}rect"))) > 2 * plan(page).size
    colours = {node.get("stroke") for node in root.iter(f"{SVG}path")}
    assert page.evaluate("view.theme.pin(0)") in colours
    page.locator("body").click(position={"x": 2, "y": 2})
    picture = saved(page, "PNG")
    assert picture.startswith(b"\x89PNG")
    width = int.from_bytes(picture[16:20], "big")
    assert width == 2 * int(float(root.get("width") or 0))


def test_csv_has_every_digit_and_no_formula(show: Show) -> None:
    hostile = problem('=HYPERLINK("x") sells, "quoted" -fish-', "@SUM(1) +buys fish; too")
    page = show(hostile.blob)
    page.evaluate("view.set({ share: 1, level: 'token' }, true)")
    rest(page)
    text = saved(page, "CSV").decode("utf-8-sig")
    rows = list(csv.DictReader(io.StringIO(text)))
    shown = plan(page)
    assert len(rows) == page.evaluate("view.pictures.lines.left.links.pairs.length")
    for row in rows:
        i, j = int(row["source_index"]), int(row["target_index"])
        assert float(row["coupling_mass"]) == pytest.approx(shown[i, j], rel=1e-12)
        assert float(row["share_of_source"]) == pytest.approx(shown[i, j] / shown[i].sum(), rel=1e-9)
        for side, measure in (("source", hostile.source), ("target", hostile.target)):
            label = measure.labels[int(row[f"{side}_index"])]
            assert row[side].removeprefix("'") == label
            assert not (len(row[side]) > 1 and row[side][0] in "=+-@")


def test_the_offline_file_opens_with_the_same_live_dials(
    show: Show, fish: Problem, open_page: Show, tmp_path: Path
) -> None:
    page = show(fish.blob)
    page.evaluate("view.set({ epsilon: 0.2, pins: [{ source: [2, 4], target: [0, 2] }], colour: 'lift' }, true)")
    rest(page)
    file = tmp_path / "offline.html"
    file.write_bytes(saved(page, "HTML"))
    assert "Content-Security-Policy" in file.read_text(encoding="utf-8")
    other = open_page(file.as_uri(), bypass_csp=True)
    other.evaluate("window.view = document.querySelector('.sinkviz').view")
    rest(other)
    assert other.evaluate("[view.settings.epsilon, view.settings.colour, view.settings.pins.length]") == [
        0.2,
        "lift",
        1,
    ]
    assert plan(other) == pytest.approx(plan(page), abs=1e-9)
    slider = other.get_by_role("slider", name=re.compile("Epsilon"))
    slider.press("End")
    rest(other)
    assert other.evaluate("view.settings.epsilon") == pytest.approx(10)
    # It can be exported again from there.
    again = saved(other, "HTML").decode("utf-8")
    assert again.count("sinkviz-payload") == file.read_text(encoding="utf-8").count("sinkviz-payload")


def test_python_writes_the_same_file_as_the_browser(show: Show, fish: Problem) -> None:
    page = show(fish.blob)
    here = saved(page, "HTML").decode("utf-8")
    there = offline_html(fish.blob)

    def part(text: str, name: str) -> str:
        return text.split(f'id="{name}">')[1].split("</script>")[0]

    assert part(here, "sinkviz-payload") == part(there, "sinkviz-payload")
    program = '<script type="module">'
    assert here.split(program)[1].strip() == there.split(program)[1].strip()


def test_the_link_holds_the_settings_and_the_texts_when_given(show: Show) -> None:
    with_link = problem(facts={"link": "texts=abc"})
    page = show(with_link.blob)
    page.evaluate(
        "Object.defineProperty(navigator, 'clipboard', { value: { writeText: async (t) => { window.copied = t; } } })"
    )
    page.evaluate(
        "view.set({ epsilon: 0.2, level: 'token', source_range: [1, 6], pins: [{ source: [1, 2], target: null }] }, true)"
    )
    page.get_by_role("button", name="copy link").click()
    page.wait_for_function("window.copied")
    url = page.evaluate("window.copied")
    query = dict(pair.split("=") for pair in url.split("?")[1].split("&"))
    assert query["texts"] == "abc"
    from urllib.parse import unquote

    settings = from_query({key: unquote(value) for key, value in query.items()})
    assert settings == {**page.evaluate("view.settings"), "epsilon": 0.2}
    assert "both texts are in it" in page.locator(".panel .message").inner_text()


def test_a_link_without_texts_says_so(show: Show, fish: Problem) -> None:
    page = show(fish.blob)
    page.evaluate(
        "Object.defineProperty(navigator, 'clipboard', { value: { writeText: async () => { throw new Error('no'); } } })"
    )
    page.get_by_role("button", name="copy link").click()
    page.wait_for_timeout(200)
    assert "did not allow" in page.locator(".panel .message").inner_text()
