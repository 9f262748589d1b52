"""Plotly shows hostile tokens as text, in ticks, labels and hover, in two dimensions and in three."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import plotly
import pytest

from sinkviz.coupling import Coupling
from sinkviz.figures import clouds, heatmap, lines, received
from sinkviz.figures.labels import elide, isolate, visible
from sinkviz.measure import Measure
from sinkviz.projection import shared_projection

TOKENS = [
    "<b>bold</b>",
    "<script>document.title='owned'</script>",
    "<img src=x onerror=\"document.title='owned'\">",
    '<a href="javascript:alert(1)">x</a>',
    "$x^2$",
    ":red[x]",
    "&amp;",
    "&lt;",
    "the",
    "the",
    "the",
    "2024-01-01",
    "%{x}",
    "%{customdata[1]}",
    "two\nlines",
    "שלום",
    "日本語",
]
HOVER = """([id, i, j]) => {
    const figure = document.getElementById(id), { xaxis, yaxis } = figure._fullLayout;
    const box = figure.querySelector('.nsewdrag').getBoundingClientRect();
    return [box.x + xaxis.d2p(j), box.y + yaxis.d2p(i)];
}"""


def _page(folder: Path, figures: dict[str, Any]) -> str:
    script = Path(plotly.__file__).parent / "package_data" / "plotly.min.js"
    parts = [
        figure.to_html(full_html=False, include_plotlyjs=False, div_id=name, default_height=figure.layout.height)
        for name, figure in figures.items()
    ]
    file = folder / "figures.html"
    file.write_text(f'<meta charset="utf-8"><script src="{script.as_uri()}"></script>{"".join(parts)}', "utf-8")
    return file.as_uri()


@pytest.fixture(scope="module")
def coupling() -> Coupling:
    rng = np.random.default_rng(0)
    count = len(TOKENS)
    plan = np.exp(2 * rng.normal(size=(count, count)))
    plan /= plan.sum()
    sides = [
        Measure.from_points(rng.normal(size=(count, 6)), weights=weights, labels=labels)
        for weights, labels in ((plan.sum(1), TOKENS), (plan.sum(0), TOKENS[::-1]))
    ]
    return Coupling(
        plan=plan,
        source=sides[0],
        target=sides[1],
        cost=-plan,
        cost_scale=1.0,
        epsilon=0.3,
        f=None,
        g=None,
        mechanism="sinkhorn",
        status="converged",
        residual=0.0,
        iterations=1,
    )


@pytest.fixture(scope="module")
def page(browser: Any, coupling: Coupling, tmp_path_factory: pytest.TempPathFactory) -> Any:
    figures = {
        "matrix": heatmap(coupling),
        "lines": lines(coupling),
        "received": received(coupling),
        "plane": clouds(coupling, shared_projection(coupling.source, coupling.target)),
        "space": clouds(coupling, shared_projection(coupling.source, coupling.target, 3)),
    }
    opened = browser.new_page(viewport={"width": 1000, "height": 900})
    opened.complaints = []
    opened.on("pageerror", lambda error: opened.complaints.append(str(error)))
    opened.on("dialog", lambda dialog: opened.complaints.append(dialog.message))
    opened.goto(_page(tmp_path_factory.mktemp("figures"), figures))
    opened.wait_for_function("[...document.querySelectorAll('.js-plotly-plot')].every(f => f._fullLayout)")
    opened.wait_for_selector("#matrix .x2tick text")
    opened.wait_for_selector("#plane .scatterlayer text")
    yield opened
    opened.close()


def _drawn(labels: list[str], limit: float = 18) -> list[str]:
    return [isolate(elide(visible(label), limit)) for label in labels]


def test_tokens_are_text_and_none_merges(page: Any) -> None:
    def texts(selector: str) -> list[str]:
        return [text.replace("\u00a0", " ") for text in page.locator(selector).all_text_contents()]

    assert texts("#matrix .y3tick text") == _drawn(TOKENS)
    assert texts("#matrix .x2tick text") == _drawn(TOKENS[::-1])
    assert texts("#received .xtick text") == _drawn(TOKENS[::-1], 14)
    assert sorted(texts("#lines .scatterlayer .textpoint text")) == sorted(_drawn(TOKENS) * 2)
    assert set(texts("#plane .scatterlayer .textpoint text")) <= set(_drawn(TOKENS))
    # Annotations that are out of the camera's sight stay empty; the foot of the figure is one too.
    in_space = [text for text in texts("#space .annotation-text") if text and "pairs drawn" not in text]
    assert set(in_space) <= set(_drawn(TOKENS))
    assert len(in_space) > 5


def test_nothing_a_token_says_is_done(page: Any) -> None:
    assert page.complaints == []
    assert page.title() != "owned"
    assert (
        page.locator(".js-plotly-plot a[href^=javascript], .js-plotly-plot img, .js-plotly-plot .MathJax").count() == 0
    )


@pytest.mark.parametrize(("i", "j"), [(0, 0), (2, 5), (4, 10), (6, 4), (7, 3), (12, 12), (13, 1), (14, 2), (15, 16)])
def test_a_cell_names_its_words_on_hover(page: Any, coupling: Coupling, i: int, j: int) -> None:
    page.evaluate("document.getElementById('matrix').scrollIntoView()")
    page.mouse.move(1, 1)
    page.mouse.move(*page.evaluate(HOVER, ["matrix", i, j]))
    page.mouse.move(*page.evaluate(HOVER, ["matrix", i + 0.1, j + 0.1]))
    first = f"{isolate(visible(TOKENS[i]))} → {isolate(visible(TOKENS[::-1][j]))}"
    box = page.locator("#matrix .hoverlayer .hovertext text").first
    page.wait_for_function(
        "first => document.querySelector('#matrix .hoverlayer .hovertext text')?.textContent.startsWith(first)",
        arg=first,
        timeout=5000,
    )
    assert f"mass {100 * coupling.plan[i, j]:.3g} %" in box.text_content()
