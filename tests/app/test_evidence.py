"""The Evidence page without a browser: a run on the bundled set, uploads, claims, and the way to Compare."""

from __future__ import annotations

import time
from pathlib import Path

import numpy as np
import pytest
from streamlit.testing.v1 import AppTest

from sinkviz.ui.words import plain

APP = str(Path(__file__).parents[2] / "app.py")


def check(app: AppTest) -> AppTest:
    assert not app.exception, app.exception
    return app


def wait(app: AppTest) -> AppTest:
    for _ in range(600):
        job = app.session_state["job_evidence"]
        if not job.active:
            return check(app.run())
        time.sleep(0.1)
    raise AssertionError("the run did not end")


@pytest.fixture(scope="module")
def finished() -> AppTest:
    app = AppTest.from_file(APP, default_timeout=60).run()
    app.switch_page("pages/evidence.py")
    check(app.run())
    assert any("Press" in info.value for info in app.info)
    app.multiselect(key="evidence_methods").set_value(["bidirectional", "cosine", "partial"])
    app.selectbox(key="evidence_model").set_value("all-MiniLM-L6-v2")
    check(app.run())
    app.button(key="evidence_run").click()
    check(app.run())
    return wait(app)


def test_a_run_gives_a_table_with_intervals(finished: AppTest) -> None:
    (table,) = [frame.value for frame in finished.dataframe]
    assert list(table["method"]) == ["bidirectional softmax", "mutual cosine", "Sinkhorn with null partner, mutual"]
    assert ((table["F1 low"] <= table["F1"]) & (table["F1"] <= table["F1 high"])).all()
    assert (table["F1"] > 20).all()
    assert len(finished.get("plotly_chart")) == 2


def test_the_text_claims_what_the_intervals_allow(finished: AppTest) -> None:
    from sinkviz.ui.evidence import claims

    _, result = finished.session_state["evidence_result"]
    lines = claims(result, "bidirectional")
    assert len(lines) == 2
    for line in lines:
        name = next(m.name for m in result.methods if f"**{m.label}**" in line)
        difference = result.compare(name, "bidirectional").difference
        assert ("better" in line) == (difference.low > 0)
        assert ("worse" in line) == (difference.high < 0)
        assert line in [markdown.value for markdown in finished.markdown]


def test_a_pair_opens_in_compare(finished: AppTest) -> None:
    finished.selectbox(key="evidence_pair").set_value(3)
    check(finished.run())
    gold, _ = finished.session_state["evidence_result"]
    finished.button(key="evidence_open").click()
    check(finished.run())
    assert finished.text_area(key="source").value == " ".join(gold.pairs[3].source)
    assert finished.text_area(key="target").value == " ".join(gold.pairs[3].target)
    # The gold links lie over both couplings there.
    assert finished.segmented_control(key="below").value == "gold"
    assert len(finished.get("plotly_chart")) == 2


def test_word_order_and_neighbours_are_offered_to_every_method() -> None:
    app = AppTest.from_file(APP, default_timeout=60).run()
    app.switch_page("pages/evidence.py")
    check(app.run())
    app.multiselect(key="evidence_methods").set_value(["cosine"])
    app.selectbox(key="evidence_model").set_value("all-MiniLM-L6-v2")
    app.checkbox(key="evidence_order").set_value(True)
    app.checkbox(key="evidence_neighbours").set_value(True)
    check(app.run())
    app.button(key="evidence_run").click()
    check(app.run())
    wait(app)
    _, result = app.session_state["evidence_result"]
    assert (result.orders, result.neighbours) == ((0.0, 0.3, 0.6), (0.0, 0.05, 0.15))
    said = "\n".join(caption.value for caption in app.caption)
    assert "word order 0, 0.3, 0.6 to choose among · neighbouring words 0, 0.05, 0.15 to choose among" in said


def test_a_file_that_is_no_gold_set_is_said() -> None:
    app = AppTest.from_file(APP, default_timeout=60).run()
    app.switch_page("pages/evidence.py")
    check(app.run())
    app.segmented_control(key="evidence_data").set_value("own")
    check(app.run())
    assert app.button(key="evidence_run").disabled
    app.file_uploader(key="evidence_files").upload("gold.json", b'{"no": "gold"}', "application/json")
    check(app.run())
    assert app.error
    app.file_uploader(key="evidence_files").set_value([])


def test_files_in_the_order_of_their_names_are_read_for_what_they_are() -> None:
    app = AppTest.from_file(APP, default_timeout=60).run()
    app.switch_page("pages/evidence.py")
    check(app.run())
    app.segmented_control(key="evidence_data").set_value("own")
    check(app.run())
    uploader = app.file_uploader(key="evidence_files")
    uploader.set_value(
        [
            (f"a.{end}", text, "text/plain")
            for end, text in (("de", b"die Katze $x$\n"), ("en", b"the cat\n"), ("links", b"1-1 2-2\n"))
        ]
    )
    check(app.run())
    assert [error.value for error in app.error] != []  # Links from 1 leave the range.
    app.checkbox(key="evidence_index_base").set_value(True)
    check(app.run())
    assert not app.error
    app.selectbox(key="evidence_source_file").set_value("a.en")
    check(app.run())
    assert plain("Source a.en, target a.de, links a.links") in [caption.value for caption in app.caption]
    assert not app.button(key="evidence_run").disabled
    app.selectbox(key="evidence_source_file").set_value("a.de")
    check(app.run())
    assert plain("Source a.de, target a.en, links a.links") in [caption.value for caption in app.caption]
    app.file_uploader(key="evidence_files").set_value([])


def test_figures_say_what_they_show() -> None:
    from sinkviz.figures.evidence import Estimate, gold_matrix, method_curves, method_intervals

    estimates = [Estimate("<b>a</b>", "attention", 0.5, 0.4, 0.6, 1.0), Estimate("b", "transport", 0.7, 0.6, 0.75, 1.0)]
    figure = method_intervals(estimates, quantity="F1", pairs=10)
    assert list(figure.layout.yaxis.ticktext) == ["&lt;b&gt;a&lt;/b&gt;", "b"]
    np.testing.assert_allclose([trace.x[0] for trace in figure.data], [50, 70])
    curves = method_curves(estimates, quantity="F1", place="layer", mark=1.0)
    assert [trace.name for trace in curves.data if trace.name] == ["<b>a</b>", "b"]
    marks = gold_matrix(["a", "b"], ["c", "d"], [(0, 0), (1, 0)], [(0, 0), (1, 1)], [(1, 0)])
    assert [len(trace.x) for trace in marks.data] == [1, 1, 1, 0]
    assert "1 missed" in marks.layout.meta["description"]
    with pytest.raises(ValueError, match="at least one"):
        method_intervals([], quantity="F1", pairs=0)
