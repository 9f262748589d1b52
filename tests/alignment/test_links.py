from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from sinkviz.alignment.links import beats_null, choose, grow, links_from_coupling, mutual_argmax, share_matrix
from sinkviz.measure import Measure
from sinkviz.pipeline import couple

tables = st.tuples(st.integers(1, 6), st.integers(1, 6)).flatmap(
    lambda shape: arrays(np.float64, shape, elements=st.floats(0, 1, width=16))
)


@given(tables)
@settings(max_examples=100, deadline=None)
def test_mutual_argmax_is_one_to_one_and_maximal(table: np.ndarray) -> None:
    marks = mutual_argmax(table)
    assert (marks.sum(0) <= 1).all()
    assert (marks.sum(1) <= 1).all()
    assert marks.any()  # the largest entry is the largest of its row and its column
    for i, j in np.argwhere(marks):
        assert table[i, j] == table[i].max() == table[:, j].max()


@given(tables)
@settings(max_examples=100, deadline=None)
def test_shares_are_between_0_and_1_and_turn_with_the_plan(table: np.ndarray) -> None:
    found = share_matrix(table)
    assert (found >= 0).all()
    assert (found <= 1 + 1e-12).all()
    assert np.allclose(share_matrix(table.T), found.T)
    assert np.allclose(share_matrix(table * 7), found)


def test_shares_worked_case_with_null() -> None:
    # Row sums .5 and .5, column sums .4 and .6, null included: .3/√(.5·.4), …
    found = share_matrix([[0.3, 0.1], [0.1, 0.3]], [0.1, 0.1], [0.0, 0.2])
    assert found == pytest.approx(np.array([[0.3, 0.1], [0.1, 0.3]]) / np.sqrt([[0.2, 0.3], [0.2, 0.3]]))
    assert share_matrix([[0.0, 1.0], [0.0, 0.0]]).tolist() == [[0.0, 1.0], [0.0, 0.0]]
    assert share_matrix([[1e-300]]) == pytest.approx(1.0)


def test_batches_are_read_item_by_item() -> None:
    generator = np.random.default_rng(0)
    plans = generator.random((5, 3, 4))
    for rule, growth in (("argmax", None), ("threshold", None), ("mutual", None), ("grown", 0.3)):
        whole = choose(share_matrix(plans), rule, 0.4, growth)
        for k in range(5):
            assert np.array_equal(whole[k], choose(share_matrix(plans[k]), rule, 0.4, growth))


def test_padding_is_never_linked() -> None:
    shares = np.full((1, 3, 3), -np.inf)
    shares[0, :2, :2] = [[0.6, 0.1], [0.2, 0.5]]
    for rule, growth in (("threshold", None), ("mutual", None), ("grown", 0.05)):
        marks = choose(shares, rule, 0.0, growth)[0]
        assert not marks[2].any()
        assert not marks[:, 2].any()
        assert marks[0, 0]
        assert marks[1, 1]


def test_ties_take_the_first() -> None:
    assert mutual_argmax([[1.0, 1.0], [1.0, 1.0]]).tolist() == [[True, False], [False, False]]
    assert not mutual_argmax(np.full((2, 2), -np.inf)).any()


def test_rules() -> None:
    shares = np.array([[0.9, 0.5, 0.0], [0.6, 0.1, 0.0], [0.0, 0.0, 0.3]])
    assert np.argwhere(choose(shares, "argmax")).tolist() == [[0, 0], [1, 0], [2, 2]]
    assert np.argwhere(choose(shares, "threshold", 0.5)).tolist() == [[0, 0], [1, 0]]
    assert np.argwhere(choose(shares, "mutual")).tolist() == [[0, 0], [2, 2]]
    assert np.argwhere(choose(shares, "mutual", 0.4)).tolist() == [[0, 0]]
    assert np.argwhere(choose(shares, "grown", 0.4, 0.4)).tolist() == [[0, 0], [0, 1], [1, 0]]


def test_growth_walks_from_neighbour_to_neighbour_only() -> None:
    core = np.zeros((1, 5), dtype=bool)
    core[0, 0] = True
    candidates = np.array([[False, True, True, False, True]])
    assert grow(core, candidates).tolist() == [[True, True, True, False, False]]
    assert core.tolist() == [[True, False, False, False, False]]
    diagonal = np.array([[True, False], [False, False]])
    assert not grow(diagonal, np.array([[False, False], [False, True]]))[1, 1]


def test_beats_null_in_row_and_column() -> None:
    plan = np.array([[0.4, 0.3], [0.3, 0.1]])
    marks = beats_null(plan, [0.2, 0.2], [0.1, 0.35])
    assert marks.tolist() == [[True, False], [True, False]]


def test_a_word_may_have_many_partners_that_beat_the_null() -> None:
    plan = np.array([[0.4, 0.3], [0.05, 0.1]])
    null = beats_null(plan, [0.2, 0.2], [0.1, 0.2])
    shares = share_matrix(plan, [0.2, 0.2], [0.1, 0.2])
    assert choose(shares, "beats-null", null=null).tolist() == [[True, True], [False, False]]
    assert choose(shares, "null", null=null).tolist() == [[True, False], [False, False]]


def test_options_that_do_not_fit() -> None:
    shares = np.ones((1, 1))
    with pytest.raises(ValueError, match="rule: expected one of"):
        choose(shares, "best")
    with pytest.raises(ValueError, match="growth"):
        choose(shares, "mutual", growth=0.1)
    with pytest.raises(ValueError, match="growth"):
        choose(shares, "grown")
    for rule in ("null", "beats-null"):
        with pytest.raises(ValueError, match=f'got rule "{rule}"'):
            choose(shares, rule)


def clouds() -> tuple[Measure, Measure]:
    x = Measure.from_points([[1.0, 0.1], [0.1, 1.0], [-1.0, -1.0]], labels=["cat", "dog", "sofa"])
    y = Measure.from_points([[0.0, 1.0], [1.0, 0.0]], labels=["Hund", "Katze"])
    return x, y


def test_links_from_a_coupling_with_a_null_partner() -> None:
    x, y = clouds()
    coupling = couple(x, y, mechanism="partial", null_cost=-0.2, epsilon=0.05, epsilon_unit="absolute")
    assert links_from_coupling(coupling, rule="null") == [(0, 1), (1, 0)]
    assert links_from_coupling(coupling, rule="beats-null") == [(0, 1), (1, 0)]
    assert links_from_coupling(coupling, rule="mutual", threshold=0.5) == [(0, 1), (1, 0)]


def test_links_from_other_couplings() -> None:
    x, y = clouds()
    assert links_from_coupling(couple(x, y, mechanism="softmax", epsilon=0.2)) == [(0, 1), (1, 0)]
    balanced = couple(x, y, epsilon=0.2)
    with pytest.raises(ValueError, match="null partner"):
        links_from_coupling(balanced, rule="null")
    with pytest.raises(ValueError, match="share from 0 to 1"):
        links_from_coupling(balanced, threshold=2.0)
