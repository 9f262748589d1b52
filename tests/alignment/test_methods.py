from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from sinkviz.alignment.links import beats_null, share_matrix
from sinkviz.alignment.methods import (
    SCORES,
    ScoreSettings,
    batches,
    methods,
    neighbour_cosine,
    null_margin,
    shares,
)
from sinkviz.measure import Measure
from sinkviz.pipeline import cosine_cost, couple

ALL = tuple(
    ScoreSettings(
        score,
        epsilon=None if score == "cosine" else 0.5,
        relaxation=2.0 if score in ("relaxed", "unbalanced") else None,
        null_margin=1.0 if score == "partial" else None,
    )
    for score in SCORES
)


def cosines(seed: int, *shapes: tuple[int, int]) -> list[np.ndarray]:
    generator = np.random.default_rng(seed)
    return [np.tanh(generator.normal(size=shape)) for shape in shapes]


def measures(seed: int, n: int, m: int) -> tuple[Measure, Measure]:
    generator = np.random.default_rng(seed)
    return (
        Measure.from_points(generator.normal(size=(n, 6)), labels=[f"a{k}" for k in range(n)]),
        Measure.from_points(generator.normal(size=(m, 6)), labels=[f"b{k}" for k in range(m)]),
    )


@pytest.mark.parametrize("settings", ALL, ids=lambda s: s.score)
@pytest.mark.parametrize(("order", "neighbours"), [(0.0, 0.0), (1.0, 0.0), (0.0, 0.3)])
def test_padding_and_other_pairs_change_nothing(settings: ScoreSettings, order: float, neighbours: float) -> None:
    settings = replace(settings, order=order, neighbours=neighbours)
    tables = cosines(0, (2, 5), (4, 3), (1, 1), (3, 3), (1, 4))
    whole = {}
    for batch in batches(tables):
        found = shares(batch, settings)
        assert found.converged.all()
        assert (found.share[~batch.mask] == -np.inf).all()
        for b, k in enumerate(batch.indices):
            whole[int(k)] = found.share[b, : batch.rows[b], : batch.columns[b]]
    for k, table in enumerate(tables):
        alone = shares(batches([table])[0], settings).share[0]
        assert alone.shape == table.shape
        assert np.allclose(whole[k], alone, atol=2e-3)


def test_batches_hold_every_pair_once_and_are_bounded() -> None:
    generator = np.random.default_rng(0)
    tables = [np.zeros((int(n), int(m))) for n, m in generator.integers(1, 90, size=(400, 2))]
    tables.append(np.zeros((1000, 1000)))
    found = batches(tables)
    assert sorted(k for batch in found for k in batch.indices) == list(range(401))
    for batch in found:
        assert len(batch.indices) == 1 or batch.cosine.size <= 400_000
        assert len(batch.indices) <= 128
        for b, k in enumerate(batch.indices):
            assert tables[k].shape == (batch.rows[b], batch.columns[b])


@pytest.mark.parametrize(
    ("mechanism", "options"),
    [("sinkhorn", {}), ("softmax", {}), ("relaxed", {"relaxation": 2.0})],
)
def test_shares_are_those_of_couple(mechanism: str, options: dict) -> None:
    x, y = measures(1, 5, 7)
    coupling = couple(x, y, mechanism=mechanism, epsilon=0.5, **options)
    settings = ScoreSettings(mechanism, epsilon=0.5, **options)
    found = shares(batches([-cosine_cost(x, y)])[0], settings).share[0]
    if mechanism == "softmax":
        assert np.allclose(found, coupling.plan / x.weights[:, None], atol=1e-6)
    else:
        assert np.allclose(found, share_matrix(coupling.plan), atol=1e-3)


@pytest.mark.parametrize("price", [-0.4, -0.1, 0.2])
def test_partial_shares_and_null_rule_are_those_of_couple(price: float) -> None:
    x, y = measures(2, 6, 4)
    coupling = couple(x, y, mechanism="partial", epsilon=0.5, null_cost=price)
    batch = batches([-cosine_cost(x, y)])[0]
    start = ScoreSettings("partial", epsilon=0.5, null_margin=0.0)
    settings = replace(start, null_margin=null_margin(batch, start, price))
    found = shares(batch, settings)
    expected = share_matrix(coupling.plan, coupling.null_source, coupling.null_target)
    assert np.allclose(found.share[0], expected, atol=1e-3)
    assert found.null is not None
    assert np.array_equal(found.null[0], beats_null(coupling.plan, coupling.null_source, coupling.null_target))


def test_attention_with_a_null_partner_is_that_of_couple() -> None:
    x, y = measures(3, 5, 6)
    coupling = couple(x, y, mechanism="softmax", epsilon=0.5, null_cost=-0.3)
    batch = batches([-cosine_cost(x, y)])[0]
    start = ScoreSettings("softmax", epsilon=0.5, null_margin=0.0)
    found = shares(batch, replace(start, null_margin=null_margin(batch, start, -0.3)))
    assert np.allclose(found.share[0], coupling.plan / x.weights[:, None], atol=1e-6)
    assert found.null is not None
    assert np.array_equal(found.null[0], coupling.plan > coupling.null_source[:, None])


@pytest.mark.parametrize("settings", [s for s in ALL if s.score not in ("softmax", "relaxed")], ids=lambda s: s.score)
@pytest.mark.parametrize("neighbours", [0.0, 0.3])
def test_turning_the_pair_turns_the_shares(settings: ScoreSettings, neighbours: float) -> None:
    (table,) = cosines(4, (4, 6))
    settings = replace(settings, order=0.7, neighbours=neighbours)
    forth = shares(batches([table])[0], settings).share[0]
    back = shares(batches([table.T.copy()])[0], settings).share[0]
    assert np.allclose(forth, back.T, atol=2e-3)


@pytest.mark.parametrize("settings", ALL, ids=lambda s: s.score)
@pytest.mark.parametrize("neighbours", [0.0, 0.2])
def test_scale_of_the_cosines_does_not_matter(settings: ScoreSettings, neighbours: float) -> None:
    if settings.score == "unbalanced":
        pytest.skip("its mass depends on the level of the cost")
    (table,) = cosines(5, (4, 5))
    squeezed = 0.8 + 0.1 * table
    one, other = (
        shares(batches([t])[0], replace(settings, order=0.5, neighbours=0.2)).share[0] for t in (table, squeezed)
    )
    if settings.score == "cosine":
        assert np.array_equal(one.argmax(1), other.argmax(1))
    else:
        assert np.allclose(one, other, atol=2e-3)


def test_word_order_prefers_the_diagonal() -> None:
    same = np.full((4, 4), 0.5) + 1e-3 * np.random.default_rng(0).normal(size=(4, 4))
    found = shares(batches([same])[0], ScoreSettings("sinkhorn", epsilon=0.2, order=5.0)).share[0]
    assert (found.argmax(1) == np.arange(4)).all()


def test_neighbours_by_hand() -> None:
    tables = cosines(2, (3, 4), (1, 2), (2, 1))
    for batch in batches(tables):
        found = neighbour_cosine(batch, 0.25)
        assert np.array_equal(neighbour_cosine(batch, 0.0), batch.cosine)
        for b, k in enumerate(batch.indices):
            table = tables[int(k)]
            n, m = table.shape
            around = np.full((n + 2, m + 2), table.mean())
            around[1:-1, 1:-1] = table
            expected = (table + 0.25 * around[:-2, :-2] + 0.25 * around[2:, 2:]) / 1.5
            assert np.allclose(found[b, :n, :m], expected)
            assert (found[b, n:] == 0).all()
            assert (found[b, :, m:] == 0).all()


def test_neighbours_tell_two_like_words_apart() -> None:
    """the cat … the dog: the articles are alike, and follow their nouns."""
    table = np.array([[0.9, 0.1, 0.9, 0.1], [0.1, 0.2, 0.1, 0.9], [0.9, 0.1, 0.9, 0.1], [0.1, 0.9, 0.1, 0.2]])
    for settings in (ScoreSettings("sinkhorn", epsilon=0.3, neighbours=0.3), ScoreSettings("cosine", neighbours=0.3)):
        assert shares(batches([table])[0], settings).share[0].argmax(1).tolist() == [2, 3, 0, 1]


@pytest.mark.parametrize("settings", ALL, ids=lambda s: s.score)
@pytest.mark.parametrize("table", [np.full((3, 2), 0.4), np.full((1, 1), -1.0), np.array([[0.1, 0.2, 0.3]])])
def test_constant_costs_and_single_words(settings: ScoreSettings, table: np.ndarray) -> None:
    found = shares(batches([table])[0], settings)
    assert np.isfinite(found.share).all()
    assert found.converged.all()


@pytest.mark.parametrize(
    "options",
    [
        {"score": "other", "epsilon": 0.5},
        {"score": "sinkhorn"},
        {"score": "sinkhorn", "epsilon": 0.0},
        {"score": "sinkhorn", "epsilon": float("nan")},
        {"score": "cosine", "epsilon": 0.5},
        {"score": "unbalanced", "epsilon": 0.5},
        {"score": "sinkhorn", "epsilon": 0.5, "relaxation": 1.0},
        {"score": "unbalanced", "epsilon": 0.5, "relaxation": -1.0},
        {"score": "partial", "epsilon": 0.5},
        {"score": "sinkhorn", "epsilon": 0.5, "null_margin": 1.0},
        {"score": "partial", "epsilon": 0.5, "null_margin": float("inf")},
        {"score": "cosine", "order": -1.0},
        {"score": "cosine", "neighbours": float("nan")},
    ],
)
def test_settings_that_do_not_fit(options: dict) -> None:
    with pytest.raises(ValueError, match=r"expected|give|needs|there is no"):
        ScoreSettings(**options)


def test_methods_are_named_and_every_setting_is_valid() -> None:
    found = methods((0.0, 1.0), (0.0, 0.15))
    assert {method.name for method in found.values()} == set(found)
    for method in found.values():
        assert method.scores
        assert len(set(method.scores)) == len(method.scores)
        assert (method.rule == "grown") == (method.growths != (None,))
    with pytest.raises(ValueError, match="at least one weight"):
        methods(())
    with pytest.raises(ValueError, match="neighbours"):
        methods(neighbours=())
