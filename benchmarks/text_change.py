"""From a changed text to the new picture, in a browser, with the app's own server: `python benchmarks/text_change.py`.

The time runs from the key that sends the text (Ctrl+Enter) to the first painted frame in which the live view shows the
new texts, converged: message to the server, embedding, solving the path of ε, payload, message back, decoding, layout
and drawing. The model is warm; each text is new. Medians and ranges in milliseconds.
Needs the embedding model, Playwright and a Chromium (CHROMIUM=/usr/bin/chromium).
"""

from __future__ import annotations

import argparse
import os
import random
import socket
import statistics
import subprocess
import sys
import time
import urllib.request
from pathlib import Path
from typing import Any

os.environ.setdefault("OMP_NUM_THREADS", "1")
os.environ.setdefault("HF_HUB_OFFLINE", "1")

from playwright.sync_api import Page, sync_playwright

from benchmarks.main_job import WORDS

ROOT = Path(__file__).resolve().parents[1]
FLAGS = (
    "--no-sandbox --disable-gpu --disable-quic --no-first-run --disable-background-networking --disable-sync".split()
)

WATCH = """
() => {
  const find = (root) => {
    for (const node of root.querySelectorAll('*')) {
      if (node.classList?.contains('sinkviz') && node.view) return node;
      const inner = node.shadowRoot && find(node.shadowRoot);
      if (inner) return inner;
    }
    return null;
  };
  window.view = () => find(document)?.view;
  window.shows = (text) => {
    const view = window.view();
    return Boolean(view?.model && view.model.payload.header.target.text === text && view.model.status.kind === 'converged');
  };
  window.change = (label, text) => new Promise((resolve) => {
    const field = document.querySelector(`textarea[aria-label="${label}"]`);
    const started = performance.now();
    field.dispatchEvent(new KeyboardEvent('keydown', { key: 'Enter', code: 'Enter', ctrlKey: true, bubbles: true }));
    const look = () => {
      if (!window.shows(text)) return requestAnimationFrame(look);
      // The first task after the paint of this frame.
      const channel = new MessageChannel();
      channel.port1.onmessage = () => resolve(performance.now() - started);
      requestAnimationFrame(() => channel.port2.postMessage(0));
    };
    look();
  });
}
"""


def start(port: int) -> subprocess.Popen[bytes]:
    """Start the app and wait until it answers."""
    command = [sys.executable, "-m", "streamlit", "run", str(ROOT / "app.py"), "--server.headless", "true"]
    process = subprocess.Popen(
        [*command, "--server.port", str(port)], cwd=ROOT, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
    )
    for _ in range(300):
        try:
            urllib.request.urlopen(f"http://localhost:{port}/_stcore/health", timeout=1)
            return process
        except OSError:
            time.sleep(0.1)
    process.kill()
    raise RuntimeError("the app did not start in 30 s")


def fill(page: Page, label: str, text: str) -> None:
    area = page.get_by_label(label, exact=True)
    area.click()
    area.press("Control+a")
    page.keyboard.insert_text(text)


def measure(page: Page, tokens: int, repeats: int) -> list[float]:
    """Return milliseconds from the key to the painted view, one for each new target text."""
    rng = random.Random(tokens)

    def words() -> str:
        return " ".join(rng.choice(WORDS) for _ in range(tokens))

    fill(page, "Source text", words())
    page.get_by_label("Source text", exact=True).press("Control+Enter")
    found = []
    for k in range(repeats + 2):
        text = words()
        fill(page, "Target text", text)
        taken = page.evaluate("([label, text]) => window.change(label, text)", ["Target text", text])
        # What trickles in afterwards (the link, the table) is not part of the next change.
        page.wait_for_timeout(1500)
        if k >= 2:
            found.append(float(taken))
    return found


def main(arguments: Any = None) -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--tokens", type=int, nargs="+", default=[64, 256])
    parser.add_argument("--repeats", type=int, default=12)
    given = parser.parse_args(arguments)
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = int(probe.getsockname()[1])
    process = start(port)
    try:
        with sync_playwright() as play:
            browser = play.chromium.launch(executable_path=os.environ.get("CHROMIUM", "/usr/bin/chromium"), args=FLAGS)
            page = browser.new_page(viewport={"width": 1360, "height": 2300})
            page.goto(f"http://localhost:{port}")
            page.evaluate(WATCH)
            page.wait_for_function("() => window.view()?.model?.status.kind === 'converged'", timeout=120_000)
            page.wait_for_timeout(3000)
            print("| tokens | text change to painted view, ms | range | n |\n|---|---|---|---|")
            for tokens in given.tokens:
                found = measure(page, tokens, given.repeats)
                print(
                    f"| {tokens} × {tokens} | {statistics.median(found):.0f} | {min(found):.0f}–{max(found):.0f} | {len(found)} |",
                    flush=True,
                )
            browser.close()
    finally:
        process.terminate()
        process.wait(10)


if __name__ == "__main__":
    main()
