"""The Batch page without a browser: upload, columns, a run to its end, stop, resume, and bad rows."""

from __future__ import annotations

import io
import time
from pathlib import Path

import pytest
from streamlit.testing.v1 import AppTest

APP = str(Path(__file__).parents[2] / "app.py")
CSV = b"english,second,id\nA small fish.,One tiny fish.,1\nThe dog sleeps.,A dog is asleep.,2\nalone,,3\nbroken\n"


def check(app: AppTest) -> AppTest:
    assert not app.exception, app.exception
    return app


def wait(app: AppTest) -> AppTest:
    for _ in range(600):
        if not app.session_state["job_batch"].active:
            return check(app.run())
        time.sleep(0.1)
    raise AssertionError("the run did not end")


@pytest.fixture
def app(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> AppTest:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    started = AppTest.from_file(APP, default_timeout=60).run()
    started.switch_page("pages/batch.py")
    return check(started.run())


def upload(app: AppTest, data: bytes, name: str = "pairs.csv") -> AppTest:
    app.file_uploader(key="batch_file").upload(name, data, "text/csv")
    return check(app.run())


def test_a_table_becomes_a_table(app: AppTest) -> None:
    assert app.button(key="batch_start").disabled
    upload(app, CSV)
    assert app.selectbox(key="batch_source").value == "english"
    assert app.selectbox(key="batch_target").value == "second"
    app.button(key="batch_start").click()
    check(app.run())
    wait(app)
    frames = [frame.value for frame in app.dataframe]
    bad, good = frames
    assert list(good["line"]) == [2, 3]
    assert list(good["status"]) == ["converged", "converged"]
    assert list(bad["line"]) == [4, 5]
    assert (good["with itself"] < good["with a stranger"]).all()
    assert app.get("plotly_chart")


def test_an_unfinished_run_is_resumed(app: AppTest, tmp_path: Path) -> None:
    rows = "".join(f"Fish number {k} swims.,The fish called {k} is swimming.\n" for k in range(600))
    upload(app, ("source,target\n" + rows).encode())
    app.button(key="batch_start").click()
    check(app.run())
    job = app.session_state["job_batch"]
    for _ in range(900):
        if app.session_state["batch_run"].rows:
            break
        time.sleep(0.1)
    job.stop()
    job.join(120)
    check(app.run())
    done = len(app.session_state["batch_run"].rows)
    assert 0 < done < 600
    assert app.button(key="batch_start").label == "Resume"
    assert any("stopped" in warning.value for warning in app.warning)
    app.button(key="batch_start").click()
    check(app.run())
    wait(app)
    assert len(app.session_state["batch_run"].finished()) == 600
    assert app.session_state["job_batch"].result.resumed >= done
    assert not list((tmp_path / "sinkviz" / "batches").glob("*"))


@pytest.mark.parametrize(("data", "name"), [(b"\xff\xfe\x00", "pairs.csv"), (b"", "pairs.csv"), (b"PAR1", "p.parquet")])
def test_what_cannot_be_read_is_said(app: AppTest, data: bytes, name: str) -> None:
    upload(app, data, name)
    assert app.error
    assert app.button(key="batch_start").disabled


def test_results_download_as_they_stand() -> None:
    import pandas as pd

    from sinkviz.batch import BatchRow, pair_table, result_bytes

    table = pair_table([("a", "b")])
    data = result_bytes(table, [BatchRow(line=1, status="converged", transport_cost=0.5)], ".parquet")
    assert pd.read_parquet(io.BytesIO(data))["transport_cost"].tolist() == [0.5]
