"""Measure the live view in headless Chromium: from an input to the painted frame, frames a second, and script time.

    python benchmarks/view.py [--tokens 64 256 512] [--seconds 4]

A real mouse drags the ε dial over a page with every picture in sight, at token level. Three numbers a size:
* input to paint: from the event's own time stamp to the first task after the frame's paint, median and 95th percentile;
* frames a second while the mouse moves without a pause;
* script: milliseconds of JavaScript a frame, median and 95th percentile.
Needs the embedding model, Playwright and a Chromium (CHROMIUM=/usr/bin/chromium).
"""

from __future__ import annotations

import argparse
import os
import tempfile
from pathlib import Path

os.environ.setdefault("OMP_NUM_THREADS", "1")
os.environ.setdefault("HF_HUB_OFFLINE", "1")

from playwright.sync_api import Page, sync_playwright

from sinkviz.view import html, payload

FLAGS = [
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
]
SOURCE = Path(__file__).parent / "texts" / "harbour.txt"
TARGET = Path(__file__).parent / "texts" / "coast.txt"

LISTEN = """
() => {
  const view = document.querySelector('.sinkviz').view;
  const record = { latency: [], frames: 0, script: [], from: performance.now() };
  window.record = record;
  const channel = new MessageChannel();
  let waiting = null;
  channel.port1.onmessage = () => { if (waiting !== null) { record.latency.push(performance.now() - waiting); waiting = null; } };
  const frame = view.frame.bind(view);
  view.frame = () => {
    const before = view.frames.length;
    frame();
    record.frames += 1;
    record.script.push(view.frames[view.frames.length - 1]);
    channel.port2.postMessage(0);
  };
  document.addEventListener('pointermove', (event) => { if (event.buttons && waiting === null) waiting = event.timeStamp; }, true);
}
"""


def pair(tokens: int) -> bytes:
    """Return the payload of two texts cut to a number of tokens."""
    import sinkviz

    measures = []
    for file in (SOURCE, TARGET):
        words = file.read_text(encoding="utf-8").split()
        low, high = 1, len(words)
        while low < high:
            middle = (low + high + 1) // 2
            if len(sinkviz.embed(" ".join(words[:middle]))) <= tokens:
                low = middle
            else:
                high = middle - 1
        measures.append(sinkviz.embed(" ".join(words[:low])))
    path = sinkviz.epsilon_path(*measures)
    return payload.from_path(path, settings={"level": "token"})


def drag(page: Page, seconds: float) -> dict[str, list[float] | float]:
    """Move the ε dial with the mouse button down, without a pause."""
    slider = page.locator(".slider").first
    box = slider.bounding_box()
    assert box is not None
    y = box["y"] + box["height"] / 2
    page.mouse.move(box["x"] + box["width"] * 0.5, y)
    page.mouse.down()
    for k in range(30):
        page.mouse.move(box["x"] + box["width"] * (0.5 + 0.003 * k), y)
    page.evaluate(LISTEN)
    started = page.evaluate("performance.now()")
    k = 0
    while page.evaluate("performance.now()") - started < 1000 * seconds:
        for _ in range(20):
            k += 1
            at = 0.15 + 0.7 * abs(((k * 0.0041) % 2) - 1)
            page.mouse.move(box["x"] + box["width"] * at, y)
    record = page.evaluate("({ ...window.record, to: performance.now() })")
    page.mouse.up()
    return record


def quantile(values: list[float], q: float) -> float:
    ordered = sorted(values)
    return ordered[min(len(ordered) - 1, int(q * len(ordered)))]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--tokens", type=int, nargs="+", default=[64, 256, 512])
    parser.add_argument("--files", type=Path, nargs="*", help="payloads to measure instead of the texts")
    parser.add_argument("--seconds", type=float, default=4.0)
    parser.add_argument("--height", type=int, default=2300)
    arguments = parser.parse_args()
    with sync_playwright() as play, tempfile.TemporaryDirectory() as folder:
        browser = play.chromium.launch(executable_path=os.environ.get("CHROMIUM", "/usr/bin/chromium"), args=FLAGS)
        print("tokens    payload   input→paint median, 95 %   frames/s   script median, 95 %   moves")
        for blob in (file.read_bytes() for file in arguments.files) if arguments.files else map(pair, arguments.tokens):
            file = Path(folder) / "view.html"
            file.write_text(html.offline_html(blob), encoding="utf-8")
            page = browser.new_page(viewport={"width": 1360, "height": arguments.height}, bypass_csp=True)
            page.goto(file.as_uri())
            page.wait_for_function("document.querySelector('.status.good')", timeout=60_000)
            page.wait_for_timeout(4000)
            record = drag(page, arguments.seconds)
            latency, script = record["latency"], record["script"]
            arrays = payload.read_arrays(blob)
            shape = [len(arrays[f"{side}.weights"]) for side in ("source", "target")]
            rate = 1000 * record["frames"] / (record["to"] - record["from"])
            print(
                f"{shape[0]}×{shape[1]:<6} {len(blob) / 1e6:6.3f} MB {quantile(latency, 0.5):10.1f}, {quantile(latency, 0.95):5.1f} ms"
                f" {rate:14.1f} {quantile(script, 0.5):12.2f}, {quantile(script, 0.95):5.2f} ms {len(latency):8d}",
                flush=True,
            )
            page.close()
        browser.close()


if __name__ == "__main__":
    main()
