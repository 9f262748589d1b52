"""Jobs: their turn, their progress, their stop, and their errors as data."""

import threading

from sinkviz.ui.jobs import Job


def test_a_job_ends_with_its_result() -> None:
    seen = []
    made = threading.Event()

    def work(progress, cancelled):  # type: ignore[no-untyped-def]
        made.wait(10)
        progress(0.5, "half")
        seen.append((job.share, job.line, cancelled()))
        return 42

    job: Job[int] = Job(work)
    made.set()
    job.join(10)
    assert (job.status, job.result, seen) == ("done", 42, [(0.5, "half", False)])


def test_one_job_runs_at_a_time_and_the_others_can_be_stopped_while_they_wait() -> None:
    release = threading.Event()
    first: Job[None] = Job(lambda progress, cancelled: release.wait(10) and None)
    second: Job[int] = Job(lambda progress, cancelled: 1)
    third: Job[int] = Job(lambda progress, cancelled: 2)
    second.stop()
    second.join(10)
    assert (second.status, third.status) == ("stopped", "waiting")
    release.set()
    third.join(10)
    first.join(10)
    assert (first.status, third.status, third.result) == ("done", "done", 2)


def test_a_running_job_is_asked_to_stop() -> None:
    started = threading.Event()

    def work(progress, cancelled):  # type: ignore[no-untyped-def]
        started.set()
        while not cancelled():
            pass

    job: Job[None] = Job(work)
    assert started.wait(10)
    job.stop()
    job.join(10)
    assert job.status == "stopped"


def test_what_goes_wrong_is_said() -> None:
    def broken(progress, cancelled):  # type: ignore[no-untyped-def]
        raise KeyError("x")

    def wrong(progress, cancelled):  # type: ignore[no-untyped-def]
        raise ValueError("expected this, got that")

    for work, error in ((broken, "KeyError: 'x'"), (wrong, "expected this, got that")):
        job: Job[None] = Job(work)
        job.join(10)
        assert (job.status, job.error) == ("failed", error)
