"""The shared projection is a principal component analysis of measures, not of lists of points."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sinkviz.measure import Measure
from sinkviz.projection import shared_projection


def _clouds(seed: int, n: int = 7, m: int = 5, d: int = 6) -> tuple[Measure, Measure]:
    rng = np.random.default_rng(seed)
    # Axes of clearly different spread: the principal axes are well determined.
    spread = 2.0 ** -np.arange(d)
    source = Measure.from_points(rng.normal(size=(n, d)) * spread, weights=rng.uniform(0.2, 1, n))
    target = Measure.from_points(rng.normal(size=(m, d)) * spread + 0.3, weights=rng.uniform(0.2, 1, m))
    return source, target


def _split(measure: Measure, atom: int) -> Measure:
    weights = np.append(measure.weights, measure.weights[atom] / 2)
    weights[atom] /= 2
    return Measure.from_points(np.vstack([measure.points, measure.points[atom]]), weights=weights)


seeds = st.integers(0, 200)
few = settings(max_examples=40, deadline=None)
dimensions = pytest.mark.parametrize("k", [2, 3])


@dimensions
@few
@given(seed=seeds)
def test_splitting_an_atom_changes_nothing(k: int, seed: int) -> None:
    source, target = _clouds(seed)
    before, after = shared_projection(source, target, k), shared_projection(_split(source, 2), target, k)
    assert np.allclose(after.source[: len(source)], before.source, atol=1e-6)
    assert np.allclose(after.source[-1], before.source[2], atol=1e-6)
    assert np.allclose(after.target, before.target, atol=1e-6)
    assert np.allclose(after.kept_variance, before.kept_variance, atol=1e-8)


@few
@given(seed=seeds)
def test_the_order_of_the_atoms_does_not_matter(seed: int) -> None:
    source, target = _clouds(seed)
    order = np.random.default_rng(seed).permutation(len(source))
    moved = Measure.from_points(source.points[order], weights=source.weights[order])
    before, after = shared_projection(source, target), shared_projection(moved, target)
    assert np.allclose(after.source, before.source[order], atol=1e-6)
    assert np.allclose(after.target, before.target, atol=1e-6)


@few
@given(seed=seeds)
def test_swapping_the_sides_swaps_the_picture(seed: int) -> None:
    source, target = _clouds(seed)
    there, back = shared_projection(source, target), shared_projection(target, source)
    assert np.allclose(there.source, back.target)
    assert np.allclose(there.components, back.components)


@few
@given(seed=seeds)
def test_moving_both_clouds_moves_the_mean_only(seed: int) -> None:
    source, target = _clouds(seed)
    shift = np.float32(3.0)
    moved = [replace(cloud, points=cloud.points + shift) for cloud in (source, target)]
    before, after = shared_projection(source, target), shared_projection(*moved)
    assert np.allclose(after.source, before.source, atol=1e-4)
    assert np.allclose(after.mean, before.mean + shift, atol=1e-4)


@dimensions
@few
@given(seed=seeds)
def test_axes_are_orthonormal_and_hold_the_variance_they_claim(k: int, seed: int) -> None:
    source, target = _clouds(seed)
    projection = shared_projection(source, target, k)
    assert projection.dimensions == k
    assert np.allclose(projection.components @ projection.components.T, np.eye(k), atol=1e-9)
    assert np.all(np.diff(projection.kept_variance) <= 1e-12)
    assert 0 < projection.kept <= 1 + 1e-12

    def second_moment(x: np.ndarray, y: np.ndarray) -> np.ndarray:
        return 0.5 * (source.weights @ x**2 + target.weights @ y**2)

    mean = 0.5 * (source.weights @ source.points + target.weights @ target.points)
    total = second_moment(source.points - mean, target.points - mean).sum()
    assert np.allclose(second_moment(projection.source, projection.target) / total, projection.kept_variance, atol=1e-6)
    # The mixture is centred at the origin of the picture.
    assert np.allclose(source.weights @ projection.source + target.weights @ projection.target, 0, atol=1e-5)


@few
@given(seed=seeds)
def test_no_other_plane_keeps_more(seed: int) -> None:
    source, target = _clouds(seed)
    projection = shared_projection(source, target)
    rng = np.random.default_rng(seed)
    plane = np.linalg.qr(rng.normal(size=(source.dimension, 2)))[0]
    x, y = source.points - projection.mean, target.points - projection.mean
    kept = 0.5 * (source.weights @ (x @ plane) ** 2 + target.weights @ (y @ plane) ** 2).sum()
    total = 0.5 * (source.weights @ x**2 + target.weights @ y**2).sum()
    assert kept / total <= projection.kept + 1e-9


def test_equal_weights_and_sizes_give_the_ordinary_analysis() -> None:
    rng = np.random.default_rng(0)
    x, y = rng.normal(size=(30, 8)).astype(np.float32), rng.normal(size=(30, 8)).astype(np.float32)
    projection = shared_projection(Measure.from_points(x), Measure.from_points(y), 3)
    variances, axes = np.linalg.eigh(np.cov(np.vstack([x, y]).astype(np.float64), rowvar=False))
    assert np.allclose(projection.kept_variance, variances[:-4:-1] / variances.sum())
    assert np.allclose(np.abs(projection.components @ axes[:, :-4:-1]), np.eye(3), atol=1e-6)


def test_signs_are_fixed() -> None:
    for seed in range(20):
        components = shared_projection(*_clouds(seed), 3).components
        assert np.all(components[np.arange(3), np.abs(components).argmax(1)] > 0)


@pytest.mark.parametrize("size", [(40, 30, 6), (3, 2, 384)])
def test_both_ways_of_computing_agree_with_a_full_decomposition(size: tuple[int, int, int]) -> None:
    source, target = _clouds(1, *size) if size[2] < 50 else _clouds(1, size[0], size[1], 12)
    if size[2] > 50:
        pad = np.zeros((1, size[2] - 12), np.float32)
        source, target = (
            Measure.from_points(np.hstack([c.points, np.repeat(pad, len(c), 0)]), weights=c.weights)
            for c in (source, target)
        )
    projection = shared_projection(source, target, 3)
    weights = 0.5 * np.concatenate([source.weights, target.weights])
    points = np.concatenate([source.points, target.points]).astype(np.float64) - projection.mean
    singular = np.linalg.svd(np.sqrt(weights)[:, None] * points, compute_uv=False)
    assert np.allclose(projection.kept_variance, singular[:3] ** 2 / (singular**2).sum())


def test_clouds_of_few_dimensions_leave_axes_empty() -> None:
    line = Measure.from_points(np.outer([0.0, 1.0, 2.0], np.ones(5)))
    projection = shared_projection(line, line, 3)
    assert projection.kept_variance.tolist() == pytest.approx([1, 0, 0])
    assert not projection.components[1:].any()
    assert not projection.source[:, 1:].any()
    point = Measure.from_points([[1.0, 2.0]])
    alone = shared_projection(point, point)
    assert not alone.source.any()
    assert alone.kept == 1
    flat = Measure.from_points([[1.0], [2.0]])
    assert shared_projection(flat, flat).source.shape == (2, 2)


def test_atoms_without_weight_do_not_steer() -> None:
    source, target = _clouds(3)
    far = Measure.from_points(
        np.vstack([source.points, 1e3 * np.ones((1, source.dimension))]), weights=np.append(source.weights, 0)
    )
    assert np.allclose(shared_projection(far, target).target, shared_projection(source, target).target, atol=1e-6)


def test_bad_values_are_named() -> None:
    source, target = _clouds(0)
    with pytest.raises(ValueError, match="dimensions: expected 2 or 3, got 4"):
        shared_projection(source, target, 4)
    with pytest.raises(ValueError, match="6 and 4 dimensions"):
        shared_projection(source, Measure.from_points(np.ones((2, 4))))
