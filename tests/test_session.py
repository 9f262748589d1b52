"""Sessions: what is written is read again, and what is not a session changes nothing."""

import json
import math
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sinkviz.coupling import Coupling
from sinkviz.measure import Measure
from sinkviz.pipeline import couple
from sinkviz.session import Difference, OwnData, Session, difference, dumps, load, loads, save
from sinkviz.settings import CouplingSettings
from sinkviz.text import is_blank

ONE = "The old fisherman sat on the bank."
OTHER = "An elderly angler rested near the stream."

characters = st.characters(exclude_categories=("Cs", "Cc"))
texts = st.text(characters, min_size=1, max_size=60).filter(lambda text: not is_blank(text))
weights = st.none() | st.lists(st.floats(0.01, 1e6), min_size=1, max_size=8).map(tuple)
numbers = st.floats(1e-6, 1e6)


@st.composite
def chosen(draw: st.DrawFn) -> CouplingSettings:
    mechanism = draw(st.sampled_from(("sinkhorn", "softmax", "relaxed", "partial", "exact")))
    return CouplingSettings(
        model=draw(st.sampled_from(("all-MiniLM-L6-v2", "multilingual-e5-small"))),
        layer=draw(st.none() | st.integers(0, 24)),
        unit=draw(st.sampled_from(("token", "word", "sentence"))),
        centre=draw(st.booleans()),
        mechanism=mechanism,
        epsilon=None if mechanism == "exact" else draw(st.none() | numbers),
        epsilon_unit=draw(st.sampled_from((None, "scale", "absolute"))),
        relaxation=draw(st.floats(0, 1e6) | st.just(math.inf)) if mechanism == "relaxed" else None,
        null_cost=draw(st.floats(-10, 10)) if mechanism == "partial" else None,
        encoder=draw(st.none() | st.just("my-model")),
    )


@st.composite
def sessions(draw: st.DrawFn) -> Session:
    return Session(
        source=draw(texts | st.lists(texts, min_size=1, max_size=4).map(tuple)),
        target=draw(texts),
        settings=draw(chosen()),
        source_weights=draw(weights),
        target_weights=draw(weights),
        shown_as=draw(st.sampled_from((None, "sentence"))),
        view=draw(st.sampled_from(({}, {"epsilon": 0.1, "colour": "lift"}))),
        plan=draw(st.none() | st.just(np.array([[0.1, 0.2], [0.3, 0.4]]))),
    )


def same(one: Session, other: Session) -> bool:
    plain = all(
        getattr(one, name) == getattr(other, name)
        for name in ("source", "target", "settings", "source_weights", "target_weights", "shown_as", "result")
    )
    plans = (one.plan is None and other.plan is None) or np.array_equal(one.plan, other.plan)
    return plain and plans and dict(one.view) == dict(other.view) and dict(one.versions) == dict(other.versions)


@settings(deadline=None)
@given(sessions())
def test_what_is_written_is_read_again(session: Session) -> None:
    again = loads(dumps(session))
    assert same(session, again)
    assert dumps(again) == dumps(session)


@pytest.fixture(scope="module")
def coupling() -> Coupling:
    return couple(ONE, OTHER, unit="token")


def test_a_session_gives_its_coupling_back(coupling: Coupling, tmp_path: Path) -> None:
    path = tmp_path / "session.json"
    save(Session.of(coupling.words(), keep_plan=True), path)
    session = load(path)
    again = session.run()
    assert session.shown_as == "word"
    assert again.source.unit == "word"
    np.testing.assert_allclose(again.plan, coupling.words().plan, atol=1e-7)
    np.testing.assert_array_equal(session.plan, coupling.plan)
    assert session.result is not None
    assert session.result.transport_cost == pytest.approx(again.transport_cost, abs=1e-6)
    assert list(tmp_path.iterdir()) == [path]


def test_weights_and_lists_of_words_come_back() -> None:
    words = ["ice cream", "is", "cold"]
    source = CouplingSettings().embed(words)
    target = CouplingSettings().embed("frozen desserts", [1, 3])
    session = loads(dumps(Session.of(couple(source, target, epsilon=0.2))))
    assert session.target_weights == (0.25, 0.75)
    assert session.run().source.labels == source.labels


@pytest.mark.parametrize("mechanism", ["sinkhorn", "softmax", "relaxed", "partial", "exact"])
def test_every_mechanism_comes_back(mechanism: str) -> None:
    given_options = {"relaxed": {"relaxation": 0.3}, "partial": {"null_cost": -0.3}}.get(mechanism, {})
    coupling = couple(ONE, OTHER, unit="word", mechanism=mechanism, **given_options)
    again = loads(dumps(Session.of(coupling))).run()
    np.testing.assert_allclose(again.plan, coupling.plan, atol=2e-6)
    assert again.mechanism == mechanism


def test_own_points_and_costs_come_back() -> None:
    from sinkviz.own import coupling_from_cost

    x = Measure.from_points(np.eye(3), [1, 2, 3], ["a", "", "<b>"])
    for coupling in (couple(x, x), coupling_from_cost([[0.0, 1.0, np.inf], [2.0, 0.5, 0.0]], source_labels=["r", "s"])):
        again = loads(dumps(Session.of(coupling))).run()
        np.testing.assert_allclose(again.plan, coupling.plan, atol=1e-7)
        assert again.source.labels == coupling.source.labels


def document(**changes: object) -> str:
    parts = json.loads(dumps(Session("a", "b")))
    parts.update(changes)
    return json.dumps(parts)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "damaged"),
        ("[1, 2]", "another kind of file"),
        ('{"format": "other"}', "another kind of file"),
        (b"\xff\xfe\x00", "UTF-8"),
        (document(version=99), "newer"),
        (document(version="x"), "version"),
        (document(version=True), "version"),
        (document(surprise=1), "unknown parts surprise"),
        (document(texts={"source": "a"}), "source and target"),
        (document(texts={"source": "", "target": "b"}), "source"),
        (document(texts={"source": 3, "target": "b"}), "source"),
        (document(texts={"source": "a\ud800", "target": "b"}), "surrogate"),
        (document(settings={"mechanism": "magic"}), "mechanism"),
        (document(settings={"epsilon": "0.1"}), "epsilon"),
        (document(settings={"command": "rm"}), "settings"),
        (document(weights={"source": [-1.0], "target": None}), "weights"),
        (document(weights={"source": [1e999], "target": None}), "Infinity"),
        (document(plan={"dtype": "object", "shape": [1, 1], "base64": ""}), "dtype"),
        (document(plan={"dtype": "float64", "shape": [99999, 99999], "base64": ""}), "at most"),
        (document(plan={"dtype": "float64", "shape": [2, 2], "base64": "AAAA"}), "damaged"),
        (document(plan={"dtype": "float64", "shape": [1, 1], "base64": "!"}), "base64"),
        (document(view={"colour": "<script>"}), "colour"),
        (document(shown_as="letter"), "shown_as"),
        (document(result={"status": "fine"}), "result"),
        ("[" * 100_000, "nested"),
        ('{"format": "sinkviz session", "version": ' + "9" * 5000 + "}", "digits"),
    ],
)
def test_what_is_no_session_is_refused(text: str | bytes, message: str) -> None:
    with pytest.raises(ValueError, match=message) as error:
        loads(text)
    assert str(error.value).startswith("session: ")
    assert len(str(error.value)) < 600


json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=8), inner, max_size=4),
    max_leaves=8,
)


@settings(max_examples=300, deadline=None)
@given(st.sampled_from(sorted(json.loads(dumps(Session("a", "b"))))), json_values)
def test_a_session_with_any_part_changed_is_read_or_refused(part: str, value: object) -> None:
    try:
        session = loads(document(**{part: value}))
    except ValueError as error:
        assert str(error).startswith("session: ")  # noqa: PT017
    else:
        assert isinstance(session, Session)


@settings(max_examples=200, deadline=None)
@given(st.data())
def test_a_damaged_file_is_read_or_refused(data: st.DataObject) -> None:
    raw = bytearray(dumps(Session("a cat", "a dog", plan=np.full((2, 2), 0.25))).encode())
    for _ in range(data.draw(st.integers(1, 5))):
        position = data.draw(st.integers(0, len(raw) - 1))
        if data.draw(st.booleans()):
            raw[position] = data.draw(st.integers(0, 255))
        else:
            del raw[position]
    try:
        assert isinstance(loads(bytes(raw)), Session)
    except ValueError as error:
        assert str(error).startswith("session: ")  # noqa: PT017


def test_sizes_are_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sinkviz.session.MAXIMUM_BYTES", 1000)
    with pytest.raises(ValueError, match="at most"):
        loads(dumps(Session("a" * 2000, "b")))
    monkeypatch.setattr("sinkviz.session.MAXIMUM_ENTRIES", 3)
    x = Measure.from_points(np.eye(2))
    with pytest.raises(ValueError, match="leave the plan out"):
        Session.of(couple(x, x), keep_plan=True)


def test_a_session_holds_no_surprises() -> None:
    with pytest.raises(ValueError, match="shown_as"):
        Session("a", "b", CouplingSettings(unit="sentence"), shown_as="token")
    with pytest.raises(ValueError, match="source_points"):
        Session(("a",), ("b",), own=OwnData(np.zeros((2, 2), np.float32), np.zeros((1, 2), np.float32)))


# --- differences ---------------------------------------------------------------------------------------------------


def test_no_change_is_no_difference(coupling: Coupling) -> None:
    change = difference(coupling, coupling)
    assert change.complete
    assert change.distance == 0
    assert not change.matrix.any()
    assert not change.source_moved.any()


def test_other_settings_on_the_same_texts(coupling: Coupling) -> None:
    other = couple(coupling.source, coupling.target, mechanism="softmax")
    change = difference(coupling, other)
    np.testing.assert_allclose(change.matrix, other.plan - coupling.plan, atol=1e-15)
    assert change.distance == pytest.approx(0.5 * np.abs(other.plan - coupling.plan).sum())
    # The rows keep their weights in both, so what a row loses here it gains there.
    np.testing.assert_allclose(change.matrix.sum(axis=1), 0, atol=1e-6)
    moved = change.most_moved("target", 3)
    assert [one.mass for one in moved] == sorted((one.mass for one in moved), reverse=True)
    assert moved[0].mass == pytest.approx(change.target_moved.max())
    back = difference(other, coupling)
    np.testing.assert_allclose(back.matrix, -change.matrix)
    assert back.distance == pytest.approx(change.distance)


def test_two_targets_of_one_source(coupling: Coupling) -> None:
    other = couple(ONE, "An elderly angler slept near the wide stream.", unit="token")
    change = difference(coupling, other)
    assert not change.complete
    assert "slept" not in change.target_labels
    assert {"elderly", "near", "stream"} <= set(change.target_labels)
    assert change.matrix.shape == (len(change.source_labels), len(change.target_labels))
    assert 0 < change.distance <= 1
    assert len(change.source_pairs) == len(coupling.source)


def test_a_moved_atom_by_hand() -> None:
    x = Measure.from_points(np.eye(2), labels=["cat", "dog"])
    exact = couple(x, x, mechanism="exact")
    even = replace(exact, plan=np.full((2, 2), 0.25))
    change = difference(exact, even)
    moved = change.most_moved("source", 1)[0]
    assert (moved.label, moved.mass, moved.share, moved.gained, moved.lost) == ("cat", 0.25, 0.5, "dog", "cat")
    assert change.distance == 0.5


def test_nothing_in_common_is_said(coupling: Coupling) -> None:
    with pytest.raises(ValueError, match="in common"):
        difference(coupling, couple("quantum chromodynamics", OTHER, unit="token"))
    with pytest.raises(ValueError, match="side"):
        difference(coupling, coupling).most_moved("left")


def test_coarser_units_are_compared_at_the_coarser_one(coupling: Coupling) -> None:
    change = difference(coupling, couple(ONE, OTHER, unit="word"))
    assert isinstance(change, Difference)
    assert change.first.source.unit == change.second.source.unit == "word"
