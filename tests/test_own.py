"""Bring your own: every format, and what comes out of it."""

import io

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as arrays

from sinkviz.own import (
    couple_own,
    coupling_from_attention,
    coupling_from_cost,
    coupling_from_plan,
    read_matrix,
    read_npz,
    read_points,
)
from sinkviz.pipeline import couple_cost

positive = arrays.arrays(np.float64, st.tuples(st.integers(1, 6), st.integers(1, 6)), elements=st.floats(0.01, 100))
labels = st.text(st.characters(exclude_categories=("Cs", "Cc")), min_size=1, max_size=6)


def npz(**given_arrays: object) -> bytes:
    buffer = io.BytesIO()
    np.savez_compressed(buffer, **given_arrays)
    return buffer.getvalue()


@settings(deadline=None)
@given(positive)
def test_a_plan_is_taken_as_it_stands(plan: np.ndarray) -> None:
    coupling = coupling_from_plan(plan)
    np.testing.assert_allclose(coupling.plan, plan / plan.sum(), rtol=1e-12)
    assert coupling.converged
    assert coupling.row_error < 1e-12
    assert coupling.column_error < 1e-12
    # It is the solution of its own problem: solving that gives it back.
    again = couple_cost(coupling.cost, coupling.source, coupling.target, epsilon=1, epsilon_unit="absolute")
    np.testing.assert_allclose(again.plan, coupling.plan, atol=1e-6)


@settings(deadline=None)
@given(positive)
def test_attention_is_taken_as_it_stands(raw: np.ndarray) -> None:
    attention = raw / raw.sum(axis=1, keepdims=True)
    coupling = coupling_from_attention(attention)
    np.testing.assert_allclose(coupling.plan * len(raw), attention, rtol=1e-9)
    assert coupling.mechanism == "softmax"
    again = couple_cost(
        coupling.cost, coupling.source, coupling.target, mechanism="softmax", epsilon=1, epsilon_unit="absolute"
    )
    np.testing.assert_allclose(again.plan, coupling.plan, atol=1e-9)
    balanced = couple_cost(coupling.cost, coupling.source, coupling.target, epsilon=1, epsilon_unit="absolute")
    assert balanced.column_error < 1e-5


@settings(deadline=None)
@given(positive)
def test_points_of_a_cost_reproduce_it_up_to_offsets(cost: np.ndarray) -> None:
    coupling = coupling_from_cost(cost)
    assert coupling.shape == cost.shape
    inner = coupling.source.points.astype(float) @ coupling.target.points.astype(float).T
    rest = cost + inner
    rest = rest - rest.mean(axis=1, keepdims=True) - rest.mean(axis=0) + rest.mean()
    np.testing.assert_allclose(rest, 0, atol=1e-4 * max(1.0, np.abs(cost).max()))


@settings(deadline=None)
@given(positive, st.data())
def test_text_tables_are_read_again(values: np.ndarray, data: st.DataObject) -> None:
    from sinkviz.export.tables import csv_text

    rows = data.draw(st.lists(labels, min_size=values.shape[0], max_size=values.shape[0]))
    columns = data.draw(st.lists(labels, min_size=values.shape[1], max_size=values.shape[1]))
    rows, columns = ([f"x{label}" for label in names] for names in (rows, columns))  # no label that is a number
    separator = data.draw(st.sampled_from(",\t"))
    table = [[label, *row] for label, row in zip(rows, values.tolist(), strict=True)]
    own = read_matrix(csv_text(["", *columns], table, separator=separator))
    np.testing.assert_array_equal(own.values, values)
    assert own.source_labels == tuple(rows)
    assert own.target_labels == tuple(columns)


def test_plain_numbers_need_no_labels() -> None:
    for text in ("1 2\n3 4\n", "1,2\n3,4", "1;2\r\n3;4\r\n", "1\t2\n\n3\t4\n", b"\xef\xbb\xbf1,2\n3,4\n"):
        own = read_matrix(text)
        assert own.values.tolist() == [[1, 2], [3, 4]]
        assert own.source_labels is None
        assert own.target_labels is None


def test_arrays_say_what_they_are() -> None:
    own = read_matrix(npz(attention=np.full((2, 3), 1 / 3), target_labels=np.array(["a", "b", "c"])))
    assert own.kind == "attention"
    assert couple_own(own).target.labels == ["a", "b", "c"]
    heads = np.stack([np.eye(3), np.full((3, 3), 1 / 3)])
    own = read_matrix(npz(attention=heads))
    np.testing.assert_allclose(couple_own(own, head=0).plan, np.eye(3) / 3)
    np.testing.assert_allclose(couple_own(own).plan, heads.mean(0) / 3)
    buffer = io.BytesIO()
    np.save(buffer, np.eye(2))
    assert couple_own(read_matrix(buffer.getvalue()), "cost", mechanism="exact").plan.tolist() == [[0, 0.5], [0.5, 0]]


def test_points_in_every_form() -> None:
    expected = [[0.0, 1.0], [1.0, 0.0]]
    for data in (
        "label,weight,x,y\ncat,1,0,1\ndog,1,1,0\n",
        "cat 0 1\ndog 1 0\n",
        "name\tx\ty\ncat\t0\t1\ndog\t1\t0\n",
        npz(points=np.array(expected), labels=np.array(["cat", "dog"])),
    ):
        measure = read_points(data)
        assert measure.points.tolist() == expected
        assert measure.labels == ["cat", "dog"]
    assert read_points("0 1\n1 0\n").labels == ["1", "2"]
    assert read_points("x,weight\n1,3\n2,1\n").weights.tolist() == [0.75, 0.25]


@pytest.mark.parametrize(
    ("data", "message"),
    [
        ("", "empty"),
        ("a,b\n", "rows of numbers"),
        ("1,2\n3\n", "line 2"),
        ("\t1\n2\n", "line 2"),
        ("1,2\n3,x\n4,5", "row 2, column 2"),
        (b"\xff\xfe", "UTF-8"),
        (b"PK\x03\x04rubbish", "damaged"),
        (b"\x93NUMPYrubbish", "damaged"),
        (npz(first=np.eye(2), second=np.eye(2)), "cost, plan or attention"),
        (npz(plan=np.array(["a"])), "numbers"),
        (npz(plan=np.zeros(3)), "shape"),
        (npz(plan=np.eye(2), source_labels=np.array(["a"])), "labels"),
    ],
)
def test_what_cannot_be_read_is_said(data: str | bytes, message: str) -> None:
    with pytest.raises(ValueError, match=message) as error:
        read_matrix(data, name="mine")
    assert str(error.value).startswith("mine")


def test_pickles_are_not_opened() -> None:
    buffer = io.BytesIO()
    np.save(buffer, np.array([{"a": 1}], dtype=object), allow_pickle=True)
    with pytest.raises(ValueError, match="Python objects"):
        read_matrix(buffer.getvalue())


def test_bombs_are_refused_before_they_unfold() -> None:
    import zipfile

    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("plan.npy", b"\0" * (65 * 2**20))
    assert len(buffer.getvalue()) < 100_000
    with pytest.raises(ValueError, match="64 MB"):
        read_npz(buffer.getvalue())
    header = io.BytesIO()
    np.lib.format.write_array_header_1_0(header, {"descr": "<f8", "fortran_order": False, "shape": (10**9, 10**9)})
    with pytest.raises(ValueError, match="promises"):
        read_matrix(header.getvalue())


@settings(max_examples=200, deadline=None)
@given(st.binary(max_size=300) | st.text(max_size=200))
def test_any_bytes_are_read_or_refused(data: bytes | str) -> None:
    for read in (read_matrix, read_points):
        try:
            read(data, name="mine")
        except ValueError as error:
            assert len(str(error)) < 400  # noqa: PT017


@settings(max_examples=150, deadline=None)
@given(st.data())
def test_damaged_arrays_are_read_or_refused(data: st.DataObject) -> None:
    raw = bytearray(npz(plan=np.eye(3), source_labels=np.array(["a", "b", "c"])))
    for _ in range(data.draw(st.integers(1, 4))):
        raw[data.draw(st.integers(0, len(raw) - 1))] = data.draw(st.integers(0, 255))
    try:
        couple_own(read_matrix(bytes(raw), name="mine"), "plan")
    except ValueError as error:
        assert len(str(error)) < 400  # noqa: PT017


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: coupling_from_plan([[1, -1]]), "plan: .* column 2"),
        (lambda: coupling_from_plan([[0, 0]]), "zeros"),
        (lambda: coupling_from_plan([1, 2]), "shape"),
        (lambda: coupling_from_plan([[1, 1]], target_weights=[1, 0]), "weight 0"),
        (lambda: coupling_from_attention([[0.5, 0.4]]), "sum to 1"),
        (lambda: coupling_from_attention([[1.0]], head=0), "no heads"),
        (lambda: coupling_from_attention([[[1.0]]], head=3), "head"),
        (lambda: coupling_from_cost([[np.nan]]), "cost"),
        (lambda: couple_own(read_matrix("1 2")), "kind"),
        (lambda: couple_own(read_matrix("1 2"), "plan", epsilon=1), "belong to a cost"),
    ],
)
def test_wrong_matrices_are_refused(make: object, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        make()  # type: ignore[operator]
