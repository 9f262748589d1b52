"""What is drawn is what is said to be drawn."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sinkviz.figures import strongest_pairs
from sinkviz.figures.labels import NO_BREAK_SPACE


def _sentence(pairs: Any) -> str:
    return pairs.sentence.replace(NO_BREAK_SPACE, " ")


@settings(max_examples=50, deadline=None)
@given(
    n=st.integers(1, 7),
    m=st.integers(1, 7),
    seed=st.integers(0, 99),
    share=st.floats(0.01, 1),
    limit=st.integers(1, 60),
)
def test_the_fewest_strongest_pairs_carry_the_share(
    make: Any, n: int, m: int, seed: int, share: float, limit: int
) -> None:
    coupling = make.random(n, m, seed)
    pairs = strongest_pairs(coupling, share, limit)
    assert np.array_equal(pairs.mass, coupling.plan[pairs.source, pairs.target])
    assert np.all(np.diff(pairs.mass) <= 0)
    left_out = np.ones(coupling.shape, dtype=bool)
    left_out[pairs.source, pairs.target] = False
    assert left_out.sum() == n * m - len(pairs)
    assert coupling.plan[left_out].max(initial=0) <= pairs.mass.min()
    assert pairs.share == pytest.approx(coupling.plan[~left_out].sum())
    if len(pairs) < limit:
        assert pairs.share >= share * (1 - 1e-9)
        assert pairs.needed == len(pairs)
    assert pairs.share - pairs.mass[-1] < share
    assert (len(pairs) < pairs.needed) == ("limit reached" in _sentence(pairs))


def test_the_sentence_of_a_known_plan(make: Any) -> None:
    coupling = make.of_plan([[4, 1], [2, 3]])
    assert _sentence(strongest_pairs(coupling, 0.7)) == "2 of 4 pairs drawn = 70 % of the mass"
    assert _sentence(strongest_pairs(coupling, 0.71, limit=2)) == (
        "2 of 4 pairs drawn = 70 % of the mass (limit reached; 71 % needs 3)"
    )
    assert _sentence(strongest_pairs(coupling, 1.0)) == "4 of 4 pairs drawn = 100 % of the mass"
    assert _sentence(strongest_pairs(coupling, 0.0)) == "0 of 4 pairs drawn = 0 % of the mass"


def test_pairs_without_mass_are_never_drawn(make: Any) -> None:
    assert len(strongest_pairs(make.of_plan(np.eye(4)), 1.0)) == 4


def test_equal_pairs_come_in_reading_order(make: Any) -> None:
    pairs = strongest_pairs(make.of_plan(np.ones((2, 3))), 1.0)
    assert list(zip(pairs.source.tolist(), pairs.target.tolist(), strict=True)) == [
        (i, j) for i in range(2) for j in range(3)
    ]


@settings(max_examples=50, deadline=None)
@given(seed=st.integers(0, 50), share=st.floats(0.05, 1))
def test_mass_without_partner_competes(make: Any, seed: int, share: float) -> None:
    coupling = make.partial(4, 3, seed)
    pairs = strongest_pairs(coupling, share)
    assert pairs.possible == 4 * 3 + 4 + 3
    assert pairs.total == pytest.approx(coupling.mass + coupling.null_source.sum() + coupling.null_target.sum())
    for i, j, mass in zip(pairs.source, pairs.target, pairs.mass, strict=True):
        assert not (i < 0 and j < 0)
        assert mass == (coupling.null_source[i] if j < 0 else coupling.null_target[j] if i < 0 else coupling.plan[i, j])
    assert pairs.share >= share * (1 - 1e-9)
    partnered = strongest_pairs(coupling, share, nulls=False)
    assert (partnered.source >= 0).all()
    assert (partnered.target >= 0).all()
    assert partnered.total == pytest.approx(coupling.mass)


@pytest.mark.parametrize(("share", "limit", "name"), [(-0.1, 5, "share"), (1.1, 5, "share"), (0.5, 0, "limit")])
def test_bad_values_are_named(make: Any, share: float, limit: int, name: str) -> None:
    with pytest.raises(ValueError, match=f"{name}: expected"):
        strongest_pairs(make.random(2, 2), share, limit)
