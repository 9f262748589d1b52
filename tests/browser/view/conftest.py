"""Pages with the live view alone: no server, no model, the same program as in the app."""

from __future__ import annotations

import base64
import json
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from sinkviz.measure import Measure
from sinkviz.text import sentence_spans, word_spans
from sinkviz.transport import cost_scale, sinkhorn_path
from sinkviz.view import payload
from sinkviz.view.bundle import program

SOURCE = "The old fisherman sat on the bank. He counted his few fish 🐟 twice. Nothing was missing."
TARGET = "Beside the stream an angler sat. His small catch was counted again and again."

HARNESS = """<!doctype html><html lang="en"><head><meta charset="utf-8"><meta name="viewport" content="width=device-width, initial-scale=1"><title>view</title><style>html { color-scheme: light dark } body { margin: 8px }
@media (prefers-color-scheme: dark) { body { background: #0f1420; color: #e8ecf5 } }</style></head><body>
<main><h1 style="margin:0;font-size:14px">Live view</h1><div id="mount"></div></main><script type="module">
%s
const mount = sinkvizView();
const bytes = (text) => Uint8Array.from(atob(text), (c) => c.charCodeAt(0));
window.sent = [];
window.feed = (text, extra = {}) => mount({
  name: "test", key: "test", data: typeof text === "string" ? bytes(text) : text,
  parentElement: document.getElementById("mount"),
  setStateValue: (name, value) => window.sent.push([name, value]), setTriggerValue: () => {}, ...extra,
});
window.cleanup = window.feed("%s");
window.view = document.querySelector(".sinkviz").view;
</script></body></html>"""


def tokens(text: str, seed: int = 0, dimension: int = 12) -> Measure:
    """A measure of a text without a model: words cut into tokens of at most five letters, points by spelling."""
    words = word_spans(text)
    sentences = sentence_spans(text)
    spans, word_of, sentence_of = [], [], []
    for index, (start, end) in enumerate(words):
        for k in range(start, end, 5):
            spans.append((k, min(end, k + 5)))
            word_of.append(index)
            sentence_of.append(max(s for s, (left, _) in enumerate(sentences) if left <= start))
    points = []
    for (start, end), word in zip(spans, word_of, strict=True):
        rng = np.random.default_rng([ord(c) for c in text[start:end].casefold()])
        points.append(rng.normal(size=dimension) + 0.3 * np.cos(np.arange(dimension) * word / 7 + seed))
    return Measure(
        points=np.array(points, dtype=np.float32),
        weights=np.ones(len(spans)),
        text=text,
        spans=tuple(spans),
        word_of=np.array(word_of),
        sentence_of=np.array(sentence_of),
        word_spans=tuple(words),
        sentence_spans=tuple(sentences),
    )


@dataclass
class Problem:
    """Two measures, their cost, and the path."""

    source: Measure
    target: Measure
    cost: np.ndarray[Any, np.dtype[np.float64]]
    scale: float
    blob: bytes


def problem(source: str = SOURCE, target: str = TARGET, **options: Any) -> Problem:
    """Solve two texts without a model."""
    x, y = tokens(source), tokens(target, 1)
    unit_x = x.points / np.linalg.norm(x.points, axis=1, keepdims=True)
    unit_y = y.points / np.linalg.norm(y.points, axis=1, keepdims=True)
    cost = -(unit_x @ unit_y.T).astype(np.float64)
    c, a, b = torch.tensor(cost), torch.tensor(x.weights), torch.tensor(y.weights)
    scale = float(cost_scale(c, a, b))
    epsilons = np.geomspace(10, 0.01, 41) * scale
    path = sinkhorn_path(c, a, b, epsilons=torch.tensor(epsilons))
    given = {"potentials": np.asarray(path.g), **options}
    blob = payload.build(x, y, cost=cost, cost_scale=scale, epsilons=epsilons, **given)
    return Problem(x, y, cost, scale, blob)


@pytest.fixture(scope="session")
def fish() -> Problem:
    """The example of these tests."""
    return problem()


@pytest.fixture
def show(open_page: Callable[..., Any], tmp_path: Path) -> Callable[..., Any]:
    """Open a payload; the page has `view`, `sent` (what went to Python), `feed` and `cleanup`."""

    def open_blob(blob: bytes, **options: Any) -> Any:
        file = tmp_path / f"view-{len(list(tmp_path.iterdir()))}.html"
        file.write_text(HARNESS % (program(), base64.b64encode(blob).decode()), encoding="utf-8")
        page = open_page(file.as_uri(), **options)
        rest(page)
        return page

    return open_blob


def rest(page: Any) -> None:
    """Wait until everything asked for is solved and drawn."""
    page.wait_for_function(
        "() => { const v = window.view; return v && v.sheets && !v.request && !v.dirty && !v.tasks.queue.length"
        " && !v.root.classList.contains('old'); }"
    )
    page.wait_for_timeout(260)
    page.wait_for_function("() => !window.view.request && !window.view.tasks.queue.length")


def plan(page: Any, side: str = "left") -> Any:
    """The plan that a panel shows."""
    flat, n, m = page.evaluate(f"[Array.from(view.sheets.{side}.mass), view.sheets.{side}.n, view.sheets.{side}.m]")
    return np.array(flat).reshape(n, m)


def sent(page: Any) -> list[dict[str, Any]]:
    """Settings that went to Python, in order."""
    found: list[list[Any]] = json.loads(page.evaluate("JSON.stringify(window.sent)"))
    assert all(name == "settings" for name, _ in found)
    return [value for _, value in found]


def cell(page: Any, i: int, j: int, side: int = 0) -> tuple[float, float]:
    """Middle of a cell of a heatmap on the screen."""
    box = page.locator(".cells").nth(side).bounding_box()
    n, m = page.evaluate("[view.sheets.left.n, view.sheets.left.m]")
    return box["x"] + (j + 0.5) * box["width"] / m, box["y"] + (i + 0.5) * box["height"] / n
