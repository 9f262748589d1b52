"""Long work beside the page: it runs in a thread, says how far it is, can be stopped, and waits its turn.

One heavy job runs at a time on a server; the others wait in line and say so. A session has one job of a kind: a new
start stops the old one. Nothing here touches Streamlit from the thread.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any, Generic, Literal, TypeVar

import streamlit as st

Result = TypeVar("Result")
Status = Literal["waiting", "running", "done", "stopped", "failed"]
Work = Callable[[Callable[[float, str], None], Callable[[], bool]], Result]

_turn = threading.Semaphore(1)
_WAIT = 0.2


class Stopped(Exception):  # noqa: N818
    """What work may raise when it was asked to stop."""


class Job(Generic[Result]):
    """One piece of long work.

    Attributes:
        status: "waiting", "running", "done", "stopped" or "failed".
        share, line: how far it is, and what is being done.
        result: what the work returned, once done.
        error: what went wrong, in words; "" unless failed.
    """

    def __init__(self, work: Work[Result]) -> None:
        self.status: Status = "waiting"
        self.share = 0.0
        self.line = "Waiting for its turn"
        self.result: Result | None = None
        self.error = ""
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run, args=(work,), daemon=True)
        self._thread.start()

    @property
    def active(self) -> bool:
        """Whether it waits or runs."""
        return self.status in ("waiting", "running")

    def stop(self) -> None:
        """Ask it to stop; what is finished stays with the work."""
        self._stop.set()

    def join(self, timeout: float | None = None) -> None:
        """Wait for the end."""
        self._thread.join(timeout)

    def _progress(self, share: float, line: str) -> None:
        self.share, self.line = min(max(share, 0.0), 1.0), line

    def _run(self, work: Work[Result]) -> None:
        while not _turn.acquire(timeout=_WAIT):
            if self._stop.is_set():
                self.status = "stopped"
                return
        try:
            if self._stop.is_set():
                self.status = "stopped"
                return
            self.status = "running"
            self.result = work(self._progress, self._stop.is_set)
            self.status = "stopped" if self._stop.is_set() and self.result is None else "done"
        except Exception as error:  # The page says it in red; a thread has nobody to raise to.
            self.status = "stopped" if self._stop.is_set() else "failed"
            self.error = str(error) if isinstance(error, (ValueError, OSError)) else f"{type(error).__name__}: {error}"
        finally:
            _turn.release()


def start(key: str, work: Work[Any]) -> Job[Any]:
    """Start a job under a key of this session; the one before it is asked to stop."""
    stop(key)
    job: Job[Any] = Job(work)
    st.session_state[f"job_{key}"] = job
    return job


def find(key: str) -> Job[Any] | None:
    """Return the session's job under a key."""
    found: Job[Any] | None = st.session_state.get(f"job_{key}")
    return found


def stop(key: str) -> None:
    """Ask the session's job to stop, if there is one."""
    job = find(key)
    if job is not None:
        job.stop()


def watch(key: str) -> None:
    """Show the progress of the session's job with a button to stop it; run the whole page again at its end."""
    job = find(key)
    if job is None or not job.active:
        return

    @st.fragment(run_every=0.5)
    def bar() -> None:
        if not job.active:
            st.rerun()
        left, right = st.columns([5, 1], vertical_alignment="center")
        left.progress(job.share, text=f"{job.line} · {job.share:.0%}")
        right.button("Stop", key=f"stop_{key}", on_click=job.stop, width="stretch")

    bar()
