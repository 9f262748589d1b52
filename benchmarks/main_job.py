"""Where the time goes between two texts and their picture: `python benchmarks/main_job.py`.

Warm: two new texts of 64 tokens each, model loaded, from the change of text to the coupling, the payload of the live
view and the Plotly figures. Cold: a fresh process, imports and model included. Medians and ranges, in milliseconds.
"""

from __future__ import annotations

import importlib
import json
import random
import statistics
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager

from sinkviz.process import prepare

WORDS = (
    "the old river bank held many small fish and a quiet man who counted them while water moved slowly past green "
    "trees near an empty house where children once played under bright summer sun before cold winter came again"
).split()
REPEATS = 25


def text(rng: random.Random, tokens: int) -> str:
    """Return a text of about that many tokens: common words are one token each."""
    return " ".join(rng.choice(WORDS) for _ in range(tokens))


@contextmanager
def clock(shares: dict[str, list[float]], name: str) -> Iterator[None]:
    """Add the milliseconds of a block to `shares`."""
    started = time.perf_counter()
    yield
    shares.setdefault(name, []).append(1000 * (time.perf_counter() - started))


def round_trip(shares: dict[str, list[float]], source_text: str, target_text: str) -> None:
    """Do once what the page does after a change of text."""
    with clock(shares, "embed"):
        from sinkviz import embed

        source, target = embed(source_text), embed(target_text)
    with clock(shares, "solve: path of 41 ε"):
        from sinkviz import epsilon_path

        path = epsilon_path(source, target)
    with clock(shares, "solve: coupling and attention"):
        from sinkviz import couple

        coupling, attention = couple(source, target), couple(source, target, mechanism="softmax")
    with clock(shares, "payload of the live view"):
        from sinkviz.view import payload

        payload.from_path(path)
    with clock(shares, "Plotly figures, both panels"):
        from sinkviz import figures
        from sinkviz.projection import shared_projection

        scale = figures.shared_scale(coupling, attention)
        projection = shared_projection(source, target)
        for one in (coupling, attention):
            figures.heatmap(one, scale=scale)
            figures.lines(one, scale=scale)
            figures.clouds(one, projection, scale=scale)
            figures.received(one, scale=scale)


def cold() -> dict[str, list[float]]:
    """Measure the first round in this (fresh) process."""
    shares: dict[str, list[float]] = {}
    with clock(shares, "import streamlit"):
        importlib.import_module("streamlit")
    with clock(shares, "import torch"):
        importlib.import_module("torch")
    with clock(shares, "load the model"):
        from sinkviz.embedding import load_model

        load_model("all-MiniLM-L6-v2")
    rng = random.Random(0)
    round_trip(shares, text(rng, 64), text(rng, 64))
    return shares


def table(title: str, shares: dict[str, list[float]]) -> None:
    """Print medians and ranges as a Markdown table."""
    print(f"\n| {title} | median ms | range |\n|---|---|---|")
    for name, values in shares.items():
        print(f"| {name} | {statistics.median(values):.1f} | {min(values):.1f}–{max(values):.1f} |")
    totals = [sum(values) for values in zip(*shares.values(), strict=True)]
    print(f"| **total** | **{statistics.median(totals):.0f}** | {min(totals):.0f}–{max(totals):.0f} |")


def main() -> None:
    prepare()
    if sys.argv[1:] == ["--cold"]:
        print(json.dumps(cold()))
        return
    runs = [
        json.loads(subprocess.run([sys.executable, __file__, "--cold"], capture_output=True, check=True).stdout)
        for _ in range(5)
    ]
    table("cold, fresh process, 64 × 64 tokens", {name: [run[name][0] for run in runs] for name in runs[0]})
    rng = random.Random(1)
    round_trip({}, text(rng, 64), text(rng, 64))
    shares: dict[str, list[float]] = {}
    for _ in range(REPEATS):
        round_trip(shares, text(rng, 64), text(rng, 64))
    table("warm, new texts of 64 × 64 tokens", shares)


if __name__ == "__main__":
    main()
