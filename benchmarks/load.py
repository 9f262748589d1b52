"""Many browsers on one server: nothing may fail, nothing may be mixed up, memory must stay flat.

    python benchmarks/load.py                            # 30 sessions for ten minutes, one of them heavy
    python benchmarks/load.py --sessions 5 --minutes 1   # a short one

A server of its own starts on a free port of the loopback address. Each session types a new source text again and
again, marked by a word of its own, waits until its picture shows that word, and looks for words of others. Printed at
the end: interactions, their times, errors, mix-ups, and the server's memory after warm-up and at the end. The exit
code is 1 if anything failed. Needs Chromium and Playwright.
"""

from __future__ import annotations

import argparse
import asyncio
import os
import random
import re
import shutil
import signal
import socket
import statistics
import subprocess
import sys
import tempfile
import time
import urllib.request
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[1]
CHROMIUM = (
    "--no-sandbox --disable-gpu --disable-quic --no-first-run --disable-background-networking "
    "--disable-component-update --disable-sync --disable-background-timer-throttling --disable-renderer-backgrounding"
)
SERVER = "--server.address 127.0.0.1 --server.headless true"
WORDS = "the old river bank held many small fish and a quiet man who counted them while water moved slowly past"
MARK = "Zq"
MOST_SESSIONS, MOST_MINUTES = 60, 30
WAIT = 60.0


@dataclass
class Tally:
    """What was seen so far."""

    times: list[float] = field(default_factory=list)
    heavy_times: list[float] = field(default_factory=list)
    errors: list[str] = field(default_factory=list)
    mixed: list[str] = field(default_factory=list)
    memory: list[tuple[float, float]] = field(default_factory=list)


def letters(number: int) -> str:
    """Return a number as letters, so that it stays one word."""
    return "".join("abcdefghij"[int(digit)] for digit in f"{number:03d}")


def text(source: random.Random, session: int, turn: int, words: int) -> tuple[str, str]:
    """Return a text with the mark of a session and a turn, and that mark."""
    mark = f"{MARK}{letters(session)}{letters(turn % 1000)}"
    chosen = [source.choice(WORDS.split()) for _ in range(words)]
    sentences = [" ".join(chosen[k : k + 15]).capitalize() + "." for k in range(0, words, 15)]
    return f"{mark} " + " ".join(sentences), mark


def resident(process: int) -> float:
    """Return the memory of a process in MB, where the system says it."""
    try:
        status = Path(f"/proc/{process}/status").read_text()
    except OSError:
        return float("nan")
    line = next((line for line in status.splitlines() if line.startswith("VmRSS:")), "")
    return int(line.split()[1]) / 1024 if line else float("nan")


async def session(browser: Any, url: str, number: int, end: float, tally: Tally, heavy: bool, pause: float) -> None:
    """Be one user until the time is up."""
    source = random.Random(number)
    name = f"session {number}"
    context = await browser.new_context(viewport={"width": 1200, "height": 900})
    page = await context.new_page()
    page.on("pageerror", lambda error: tally.errors.append(f"{name}: {error}"))
    try:
        await asyncio.sleep(source.uniform(0, pause))
        await page.goto(f"{url}/?unit=word", timeout=1000 * 4 * WAIT)
        area = page.get_by_label("Source text", exact=True)
        await area.wait_for(timeout=1000 * 4 * WAIT)
        atoms = page.get_by_role("region", name="Coupling", exact=True).locator(".text.source .atom")
        await atoms.first.wait_for(timeout=1000 * 4 * WAIT)
        turn = 0
        while time.monotonic() < end:
            turn += 1
            written, mark = text(source, number, turn, 900 if heavy else source.randint(8, 30))
            await area.click()
            await area.press("Control+a")
            await page.keyboard.insert_text(written)
            start = time.monotonic()
            await area.press("Control+Enter")
            try:
                if heavy:  # so many words are drawn without a label for each: done is when the server is
                    await asyncio.sleep(0.5)
                await page.wait_for_function(
                    IDLE if heavy else DRAWN, arg=mark, timeout=1000 * WAIT * (3 if heavy else 1)
                )
            except Exception as error:
                tally.errors.append(
                    f"{name}, turn {turn}: no picture after {time.monotonic() - start:.0f} s ({error!s:.80})"
                )
            else:
                (tally.heavy_times if heavy else tally.times).append(time.monotonic() - start)
            failed = await page.locator("[data-testid=stException]").count()
            if failed:
                tally.errors.append(f"{name}, turn {turn}: the page shows an exception")
            seen = await page.evaluate("() => window.__find(document).map(node => node.textContent)")
            marks = {found for label in seen for found in re.findall(f"{MARK}[a-j]{{3}}", label)}
            strange = sorted(marks - {f"{MARK}{letters(number)}"})
            if strange:
                tally.mixed.append(f"{name}, turn {turn}: {strange[0]}")
            await asyncio.sleep(source.uniform(0.5, 1.5) * pause)
    except Exception as error:
        tally.errors.append(f"{name}: {error!s:.200}")
    finally:
        await context.close()


IDLE = "mark => document.querySelector('[data-testid=stApp]').dataset.testScriptState === 'notRunning'"
DRAWN = (
    "mark => document.querySelector('[data-testid=stException]') || "
    "window.__find(document).some(node => node.textContent === mark)"
)
FIND = """
window.__find = root => {
  const found = [];
  const walk = node => {
    for (const child of node.querySelectorAll('*')) {
      if (child.classList && child.classList.contains('atom')) found.push(child);
      if (child.shadowRoot) walk(child.shadowRoot);
    }
  };
  walk(root);
  return found;
};
"""


async def watch(process: int, start: float, end: float, tally: Tally) -> None:
    """Note the server's memory every few seconds."""
    while time.monotonic() < end:
        tally.memory.append((time.monotonic() - start, resident(process)))
        await asyncio.sleep(5)


async def visit(url: str, process: int, options: argparse.Namespace, tally: Tally) -> None:
    """Open all sessions and let them work."""
    from playwright.async_api import async_playwright

    path = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None)
    if path is None:
        raise SystemExit("load: no Chromium on this machine; install it (Debian: apt-get install chromium)")
    start = time.monotonic()
    end = start + 60 * options.minutes
    async with async_playwright() as playwright:
        browser = await playwright.chromium.launch(executable_path=path, args=CHROMIUM.split())
        users = []
        for number in range(options.sessions):
            heavy = options.heavy and number == 0
            users.append(session(_Scripted(browser), url, number, end, tally, heavy, options.pause))
        await asyncio.gather(watch(process, start, end, tally), *users)
        await browser.close()


class _Scripted:
    """A browser whose contexts know how to look into shadow roots."""

    def __init__(self, browser: Any) -> None:
        self.browser = browser

    async def new_context(self, **options: Any) -> Any:
        context = await self.browser.new_context(**options)
        await context.add_init_script(FIND)
        return context


def serve(port: int, log: Path) -> subprocess.Popen[bytes]:
    """Start a server on the loopback address and wait until it answers."""
    process = subprocess.Popen(
        [sys.executable, *f"-m streamlit run app.py --server.port {port} {SERVER}".split()],
        cwd=ROOT,
        env={**os.environ, "HF_HUB_OFFLINE": "1"},
        stdout=log.open("wb"),
        stderr=subprocess.STDOUT,
    )
    for _ in range(600):
        try:
            urllib.request.urlopen(f"http://127.0.0.1:{port}/_stcore/health", timeout=1)
            return process
        except OSError:
            if process.poll() is not None:
                break
            time.sleep(0.1)
    raise SystemExit(f"load: the app did not start:\n{log.read_text()}")


def report(tally: Tally, minutes: float, log: str) -> int:
    """Print what was seen; 1 if anything failed."""
    for name, times in (("interactions", tally.times), ("of the heavy user", tally.heavy_times)):
        if times:
            ordered = sorted(times)
            print(
                f"{len(times)} {name}: median {statistics.median(times):.2f} s, "
                f"90 % within {ordered[int(0.9 * (len(ordered) - 1))]:.2f} s, longest {ordered[-1]:.2f} s"
            )
    warm = [size for at, size in tally.memory if at > 60 * minutes * 0.4]
    if warm:
        third = max(1, len(warm) // 3)
        first, last = statistics.median(warm[:third]), statistics.median(warm[-third:])
        print(f"server memory: {first:.0f} MB after warm-up, {last:.0f} MB at the end ({last - first:+.0f} MB)")
    traces = log.count("Traceback")
    print(f"errors: {len(tally.errors)}, mixed-up texts: {len(tally.mixed)}, tracebacks in the server's log: {traces}")
    for line in (*tally.errors[:10], *tally.mixed[:10]):
        print(f"  {line}")
    return 1 if tally.errors or tally.mixed or traces or not tally.times else 0


def _stop(signum: int, frame: object) -> None:
    raise SystemExit(f"load: stopped by signal {signum}")


def main() -> int:
    """Run and report."""
    signal.signal(signal.SIGTERM, _stop)  # so that the server is stopped too
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--sessions", type=int, default=30, help=f"1 to {MOST_SESSIONS}")
    parser.add_argument("--minutes", type=float, default=10, help=f"up to {MOST_MINUTES}")
    parser.add_argument("--pause", type=float, default=8, help="mean seconds between two texts of a session")
    parser.add_argument("--heavy", action=argparse.BooleanOptionalAction, default=True, help="one user with 900 words")
    options = parser.parse_args()
    if not 1 <= options.sessions <= MOST_SESSIONS or not 0 < options.minutes <= MOST_MINUTES:
        raise SystemExit(f"load: expected up to {MOST_SESSIONS} sessions and {MOST_MINUTES} minutes")
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = int(probe.getsockname()[1])
    tally = Tally()
    with tempfile.TemporaryDirectory() as folder:
        log = Path(folder) / "server.log"
        process = serve(port, log)
        try:
            asyncio.run(visit(f"http://127.0.0.1:{port}", process.pid, options, tally))
        finally:
            process.terminate()
            try:
                process.wait(10)
            except subprocess.TimeoutExpired:
                process.kill()
        return report(tally, options.minutes, log.read_text(errors="replace"))


if __name__ == "__main__":
    sys.exit(main())
