"""Measure the live view in headless Chromium: from an input to the painted frame, frames a second, and script time.

    python benchmarks/view.py [--tokens 64 256 512] [--seconds 4] [--floor]

A real mouse drags the ε dial over a page with every picture in sight, at token level. Three numbers a size:
* input to paint: from the time stamp of a mouse event to the first task after the paint of the frame that shows it: the
  median over all events, the median over the newest and over the oldest event of each frame (a mouse sends two a frame,
  the browser holds them back until the frame begins), and the 95th percentile of the oldest;
* frames a second while the mouse moves without a pause;
* script: milliseconds of JavaScript a frame, median and 95th percentile.
`--floor` leaves the pictures undrawn: what remains is the browser's own way from a mouse to a frame.
Needs the embedding model, Playwright and a Chromium (CHROMIUM=/usr/bin/chromium).
"""

from __future__ import annotations

import argparse
import asyncio
import os
import tempfile
import time
from collections.abc import Awaitable
from pathlib import Path
from typing import Any

os.environ.setdefault("OMP_NUM_THREADS", "1")
os.environ.setdefault("HF_HUB_OFFLINE", "1")

from playwright.async_api import Page, async_playwright

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
  const record = { latency: [], newest: [], every: [], frames: 0, script: [], from: performance.now() };
  window.record = record;
  const channel = new MessageChannel();
  let held = [];
  let shown = [];
  channel.port1.onmessage = () => {
    const now = performance.now();
    if (!shown.length) return;
    record.latency.push(now - shown[0]);
    record.newest.push(now - shown[shown.length - 1]);
    for (const time of shown) record.every.push(now - time);
    shown = [];
  };
  const frame = view.frame.bind(view);
  view.frame = () => {
    shown = held;
    held = [];
    frame();
    record.frames += 1;
    record.script.push(view.frames[view.frames.length - 1]);
    channel.port2.postMessage(0);
  };
  document.addEventListener('pointermove', (event) => {
    if (!event.buttons) return;
    const all = event.getCoalescedEvents();
    for (const one of all.length ? all : [event]) held.push(one.timeStamp);
  }, true);
}
"""

UNDRAWN = """
() => {
  const { pictures } = document.querySelector('.sinkviz').view;
  for (const side of ['left', 'right']) for (const name of ['clouds', 'lines', 'heatmaps']) pictures[name][side].draw = () => {};
  pictures.curves.mark = () => {};
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


async def drag(page: Page, seconds: float) -> dict[str, Any]:
    """Move the ε dial with the mouse button down, 125 times a second as a mouse does, without waiting for answers."""
    slider = page.locator(".slider").first
    box = await slider.bounding_box()
    assert box is not None
    y = box["y"] + box["height"] / 2
    session = await page.context.new_cdp_session(page)

    def move(at: float) -> Awaitable[Any]:
        event = {"type": "mouseMoved", "x": box["x"] + box["width"] * at, "y": y, "button": "left", "buttons": 1}
        return asyncio.ensure_future(session.send("Input.dispatchMouseEvent", event))

    await page.mouse.move(box["x"] + box["width"] * 0.5, y)
    await page.mouse.down()
    pending: list[Awaitable[Any]] = []
    started = time.perf_counter()
    listening = False
    k = 0
    while (passed := time.perf_counter() - started) < seconds + 1.5:
        if passed > 1.5 and not listening:
            # The first moves warm the compiler up, as the first moves of a user do.
            await page.evaluate(LISTEN)
            listening = True
        k += 1
        pending.append(move(0.15 + 0.7 * abs(((k * 0.0041) % 2) - 1)))
        await asyncio.sleep(max(0.0, started + k * 0.008 - time.perf_counter()))
    record: dict[str, Any] = await page.evaluate("({ ...window.record, to: performance.now() })")
    await asyncio.gather(*pending)
    await page.mouse.up()
    return record


def quantile(values: list[float], q: float) -> float:
    ordered = sorted(values)
    return ordered[min(len(ordered) - 1, int(q * len(ordered)))]


async def measure(arguments: argparse.Namespace) -> None:
    blobs = [file.read_bytes() for file in arguments.files or ()] or [pair(tokens) for tokens in arguments.tokens]
    async with async_playwright() as play:
        with tempfile.TemporaryDirectory() as folder:
            browser = await play.chromium.launch(
                executable_path=os.environ.get("CHROMIUM", "/usr/bin/chromium"), args=FLAGS
            )
            print("tokens    payload   input→paint all, newest, oldest, 95 %   frames/s   script median, 95 %   frames")
            for blob in blobs:
                file = Path(folder) / "view.html"
                file.write_text(html.offline_html(blob), encoding="utf-8")
                size = {"width": 1360, "height": arguments.height}
                page = await browser.new_page(viewport=size, bypass_csp=True)
                await page.goto(file.as_uri())
                await page.wait_for_function("document.querySelector('.status.good')", timeout=60_000)
                await page.wait_for_timeout(4000)
                if arguments.floor:
                    await page.evaluate(UNDRAWN)
                record = await drag(page, arguments.seconds)
                latency, script = record["latency"], record["script"]
                arrays = payload.read_arrays(blob)
                shape = [len(arrays[f"{side}.weights"]) for side in ("source", "target")]
                rate = 1000 * record["frames"] / (record["to"] - record["from"])
                print(
                    f"{shape[0]}×{shape[1]:<6} {len(blob) / 1e6:6.3f} MB"
                    f" {quantile(record['every'], 0.5):9.1f}, {quantile(record['newest'], 0.5):4.1f}, {quantile(latency, 0.5):5.1f}, {quantile(latency, 0.95):5.1f} ms {rate:11.1f}"
                    f" {quantile(script, 0.5):12.2f}, {quantile(script, 0.95):5.2f} ms {record['frames']:8d}",
                    flush=True,
                )
                await page.close()
            await browser.close()


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--tokens", type=int, nargs="+", default=[64, 256, 512])
    parser.add_argument("--files", type=Path, nargs="*", help="payloads to measure instead of the texts")
    parser.add_argument("--floor", action="store_true", help="compute, but draw nothing")
    parser.add_argument("--seconds", type=float, default=4.0)
    parser.add_argument("--height", type=int, default=2300, help="of the window; 2300 shows every picture at once")
    asyncio.run(measure(parser.parse_args()))


if __name__ == "__main__":
    main()
