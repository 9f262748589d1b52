"""What can be read off a coupling, against values known by hand and laws that hold for every joint law."""

import math
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from sinkviz.coupling import Coupling, double_centred
from sinkviz.measure import Measure


def measure(weights: NDArray[np.float64], words: list[int] | None = None) -> Measure:
    count = len(weights)
    made = Measure.from_points(np.eye(count), weights=weights, labels=[f"w{k}" for k in range(count)])
    if words is None:
        return made
    starts = [made.spans[words.index(word)][0] for word in range(max(words) + 1)]
    ends = [made.spans[count - 1 - words[::-1].index(word)][1] for word in range(max(words) + 1)]
    return replace(
        made,
        unit="token",
        word_of=np.array(words),
        word_spans=tuple(zip(starts, ends, strict=True)),
    )


def coupling(
    plan: NDArray[np.float64],
    cost: NDArray[np.float64] | None = None,
    rows: list[int] | None = None,
    columns: list[int] | None = None,
) -> Coupling:
    return Coupling(
        plan=plan,
        source=measure(plan.sum(1), rows),
        target=measure(plan.sum(0), columns),
        cost=np.zeros(plan.shape) if cost is None else cost,
        cost_scale=2.0,
        epsilon=0.5,
        f=None,
        g=None,
        mechanism="sinkhorn",
        status="converged",
        residual=0.0,
        iterations=1,
    )


@st.composite
def joint_laws(draw: st.DrawFn) -> NDArray[np.float64]:
    shape = (draw(st.integers(1, 6)), draw(st.integers(1, 6)))
    entries = draw(st.lists(st.floats(0, 1), min_size=shape[0] * shape[1], max_size=shape[0] * shape[1]))
    plan = np.array(entries).reshape(shape)
    plan[0, 0] += 0.1
    return plan / plan.sum()


def test_independence_has_no_information_and_all_partners() -> None:
    a, b = np.array([0.25, 0.75]), np.array([0.2, 0.3, 0.5])
    c = coupling(np.outer(a, b))
    assert c.mutual_information == pytest.approx(0, abs=1e-12)
    np.testing.assert_allclose(c.log_lift, 0, atol=1e-12)
    np.testing.assert_allclose(c.effective_partners, math.exp(-(b * np.log(b)).sum()))
    np.testing.assert_allclose(c.price, 0, atol=1e-12)


def test_a_bijection_has_one_partner_and_the_entropy_as_information() -> None:
    c = coupling(np.eye(4)[[2, 0, 3, 1]] / 4)
    assert c.mutual_information == pytest.approx(math.log(4))
    np.testing.assert_allclose(c.effective_partners, 1)
    assert np.isneginf(c.log_lift).sum() == 12
    assert [(link.source_index, link.target_index) for link in c.links(share=1.0)] == [(0, 2), (1, 0), (2, 3), (3, 1)]


def test_numbers_worked_by_hand() -> None:
    plan = np.array([[0.3, 0.1], [0.2, 0.4]])
    c = coupling(plan, cost=np.array([[1.0, 2.0], [3.0, -1.0]]))
    assert c.transport_cost == pytest.approx(0.3 + 0.2 + 0.6 - 0.4)
    assert c.epsilon_relative == 0.25
    first = c.top_links(2)[0]
    assert (first.source_label, first.target_label, first.mass) == ("w1", "w1", 0.4)
    assert first.share_of_row == pytest.approx(2 / 3)
    assert first.share_of_column == pytest.approx(0.8)
    assert first.lift == pytest.approx(math.log(0.4 / 0.6 / 0.5))
    skewed = replace(c, target=measure(np.array([0.9, 0.1])))
    assert skewed.received_distance == pytest.approx(0.4)
    assert skewed.column_error == pytest.approx(0.8)
    assert skewed.row_error == pytest.approx(0, abs=1e-15)


def test_dead_rows_and_empty_plans_give_numbers() -> None:
    c = coupling(np.array([[0.0, 0.0], [0.5, 0.5]]))
    assert c.effective_partners.tolist() == pytest.approx([0, 2])
    assert c.price.tolist() == [0, 0]
    assert np.isneginf(c.log_lift[0]).all()
    assert not np.isnan(c.log_lift).any()
    empty = replace(c, plan=np.zeros((2, 2)), null_source=c.source.weights, null_target=c.target.weights)
    assert empty.mutual_information == 0
    assert empty.mean_partners == 0
    assert empty.row_error == empty.column_error == 0
    assert empty.top_links(3) == []


@given(joint_laws(), st.data())
@settings(max_examples=150, deadline=None)
def test_block_sums_are_exact_bookkeeping(plan: NDArray[np.float64], data: st.DataObject) -> None:
    def blocks(count: int) -> list[int]:
        steps = data.draw(st.lists(st.booleans(), min_size=count - 1, max_size=count - 1))
        return np.cumsum([0, *steps]).tolist()

    rows, columns = blocks(plan.shape[0]), blocks(plan.shape[1])
    cost = np.arange(plan.size, dtype=float).reshape(plan.shape)
    c = coupling(plan, cost, rows, columns)
    words = c.words()
    expected = np.zeros(words.shape)
    for i, row in enumerate(rows):
        for j, column in enumerate(columns):
            expected[row, column] += plan[i, j]
    np.testing.assert_allclose(words.plan, expected, atol=1e-15)
    np.testing.assert_allclose(words.given, words.source.weights, atol=1e-14)
    np.testing.assert_allclose(words.received, words.target.weights, atol=1e-14)
    assert words.transport_cost == c.transport_cost
    assert words.mutual_information <= c.mutual_information + 1e-12  # data processing inequality
    np.testing.assert_allclose(words.price @ words.source.weights, c.price @ c.source.weights, atol=1e-12)
    np.testing.assert_allclose(words.sentences().plan, [[1.0]], atol=1e-12)
    assert words.solved is c
    assert words.words() is words


@given(joint_laws())
@settings(max_examples=100, deadline=None)
def test_diagnostics_stay_in_their_range(plan: NDArray[np.float64]) -> None:
    c = coupling(plan)
    assert c.mutual_information >= 0
    alive = c.given > 0
    assert (c.effective_partners[alive] >= 1 - 1e-9).all()
    assert (c.effective_partners <= plan.shape[1] + 1e-9).all()
    assert sum(link.mass for link in c.top_links(plan.size)) == pytest.approx(1)
    masses = [link.mass for link in c.top_links(plan.size)]
    assert masses == sorted(masses, reverse=True)


@given(joint_laws(), st.floats(-5, 5), st.floats(-5, 5))
@settings(max_examples=50, deadline=None)
def test_double_centring_forgets_rows_and_columns(plan: NDArray[np.float64], slope: float, shift: float) -> None:
    rng = np.random.default_rng(0)
    cost = rng.normal(size=plan.shape)
    a, b = plan.sum(1), plan.sum(0)
    moved = cost + slope * np.arange(plan.shape[0])[:, None] + shift * np.arange(plan.shape[1])[None, :]
    centred = double_centred(cost, a, b)
    np.testing.assert_allclose(double_centred(moved, a, b), centred, atol=1e-9)
    np.testing.assert_allclose(a @ centred, 0, atol=1e-9)
    np.testing.assert_allclose(centred @ b, 0, atol=1e-9)


def test_forbidden_pairs_cost_nothing_and_give_numbers() -> None:
    c = coupling(np.eye(2) / 2, cost=np.array([[1.0, np.inf], [np.inf, 3.0]]))
    assert c.transport_cost == 2
    assert np.isfinite(c.price).all()
    assert np.isfinite(c.sentences().cost).all()


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda c: c.top_links(-1), "count"),
        (lambda c: c.links(share=0), "share"),
        (lambda c: c.coarsen("token"), "atoms are words"),
        (lambda c: replace(c, mechanism="magic"), "sinkhorn, softmax"),
        (lambda c: replace(c, plan=np.zeros((3, 3))), "plan: expected shape"),
        (lambda c: replace(c, null_source=np.zeros(5)), "null_source"),
    ],
)
def test_wrong_calls_say_what_to_do(call, message: str) -> None:  # type: ignore[no-untyped-def]
    with pytest.raises(ValueError, match=message):
        call(coupling(np.eye(2) / 2))
