"""A browser and a fresh server for tests. Without Chromium they skip on a laptop; in CI that is a failure."""

from __future__ import annotations

import os
import re
import shutil
import socket
import subprocess
import sys
import time
import urllib.request
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from playwright.sync_api import TimeoutError as NotThere
from playwright.sync_api import expect, sync_playwright

ROOT = Path(__file__).parents[2]
ARGUMENTS = (
    "--no-sandbox --disable-gpu --disable-quic --no-first-run --disable-background-networking "
    "--disable-component-update --disable-sync"
).split()
expect.set_options(timeout=30_000)


def chromium_path() -> str:
    """Return the path of Chromium, or skip (fail in CI) where there is none."""
    found = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None)
    if found is None:
        message = "no Chromium on this machine: install it (Debian: apt-get install chromium) to run the browser tests"
        if os.environ.get("CI"):
            pytest.fail(message)
        pytest.skip(message)
    return found


@pytest.fixture(scope="session")
def browser() -> Iterator[Any]:
    """One headless Chromium for all browser tests."""
    path = chromium_path()
    with sync_playwright() as playwright:
        launched = playwright.chromium.launch(executable_path=path, args=ARGUMENTS)
        yield launched
        launched.close()


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


class Server:
    """A running app, with its address and what it wrote."""

    def __init__(self, folder: Path) -> None:
        self.port = _free_port()
        self.url = f"http://localhost:{self.port}"
        self.log = folder / "server.log"
        environment = {**os.environ, "HF_HUB_OFFLINE": "1", "HF_HUB_DISABLE_TELEMETRY": "1"}
        self._out = self.log.open("wb")
        self.process = subprocess.Popen(
            [
                sys.executable,
                "-m",
                "streamlit",
                "run",
                str(ROOT / "app.py"),
                "--server.port",
                str(self.port),
                "--server.headless",
                "true",
            ],
            cwd=ROOT,
            env=environment,
            stdout=self._out,
            stderr=subprocess.STDOUT,
        )
        for _ in range(300):
            try:
                urllib.request.urlopen(f"{self.url}/_stcore/health", timeout=1)
                return
            except OSError:
                if self.process.poll() is not None:
                    break
                time.sleep(0.1)
        raise RuntimeError(f"the app did not start:\n{self.log.read_text()}")

    def stop(self) -> None:
        """End the process."""
        self.process.terminate()
        try:
            self.process.wait(10)
        except subprocess.TimeoutExpired:
            self.process.kill()
        self._out.close()


@pytest.fixture
def fresh_server(tmp_path: Path) -> Iterator[Server]:
    """A server that nobody has visited yet."""
    server = Server(tmp_path)
    yield server
    server.stop()


@pytest.fixture(scope="session")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    """One server for all tests that do not need a fresh one."""
    started = Server(tmp_path_factory.mktemp("server"))
    yield started
    started.stop()


@pytest.fixture
def open_page(browser: Any) -> Iterator[Callable[..., Any]]:
    """Open pages in contexts of their own, after a script if there is one; at the end no page may have raised or asked another machine."""
    contexts, problems = [], []

    def open_url(url: str, *, script: str = "", **options: Any) -> Any:
        context = browser.new_context(**{"viewport": {"width": 1400, "height": 1000}, **options})
        contexts.append(context)
        page = context.new_page()
        page.set_default_timeout(60_000)
        page.on("pageerror", lambda error: problems.append(f"error in the page: {error}"))

        def asked(request: Any) -> None:
            host = request.url.split("/")[2].split(":")[0] if "//" in request.url else ""
            if request.url.startswith("http") and host not in ("localhost", "127.0.0.1"):
                problems.append(f"request to another machine: {request.url}")

        page.on("request", asked)
        if script:
            page.add_init_script(script)
        page.goto(url)
        return page

    yield open_url
    for context in contexts:
        context.close()
    assert problems == []


@pytest.fixture
def pick_option() -> Callable[[Any, str, str | int], None]:
    """Choose an option of a list, by its text or its place."""

    def pick(page: Any, label: str, option: str | int) -> None:
        box = page.get_by_role("combobox", name=re.compile(label)).first
        options = page.get_by_role("option")
        wanted = options.nth(option) if isinstance(option, int) else page.get_by_role("option", name=option, exact=True)
        idle = page.locator('[data-testid="stApp"][data-test-script-state="notRunning"]')
        for _ in range(5):
            # A script that ends while the list opens may draw the box anew, and the list is gone.
            idle.wait_for()
            box.click()
            try:
                wanted.click(timeout=6_000)
                return
            except NotThere:
                continue
        raise AssertionError(f"{label}: {option!r} was not offered, but {options.all_inner_texts()}")

    return pick
