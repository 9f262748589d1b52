"""Laws of measures: normalisation, exact coarsening, slices of the text."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sinkviz.measure import Measure, Origin, validate_weights


def example(weights: list[float] | None = None) -> Measure:
    text = "un der river. The bank."
    return Measure(
        points=np.arange(12.0).reshape(6, 2),
        weights=np.ones(6) if weights is None else np.array(weights),
        text=text,
        spans=((0, 2), (3, 6), (7, 12), (14, 17), (18, 22), (22, 23)),
        word_of=np.array([0, 0, 1, 2, 3, 4]),
        sentence_of=np.array([0, 0, 0, 1, 1, 1]),
        word_spans=((0, 6), (7, 12), (14, 17), (18, 22), (22, 23)),
        sentence_spans=((0, 13), (14, 23)),
        origin=Origin(model="m", layer=3),
    )


def test_labels_are_slices_of_the_text() -> None:
    measure = example()
    assert measure.labels == ["un", "der", "river", "The", "bank", "."]
    assert measure.coarsen("word").labels == ["un der", "river", "The", "bank", "."]
    assert measure.coarsen("sentence").labels == ["un der river.", "The bank."]


@given(st.lists(st.floats(0, 1e6), min_size=6, max_size=6).filter(lambda w: sum(w) > 0))
@settings(max_examples=100)
def test_coarsening_keeps_mass_and_mean(weights: list[float]) -> None:
    measure = example(weights)
    mean = measure.weights @ measure.points
    for unit in ("word", "sentence"):
        coarse = measure.coarsen(unit)
        assert coarse.weights.sum() == pytest.approx(1.0, abs=1e-12)
        np.testing.assert_allclose(coarse.weights @ coarse.points, mean, rtol=1e-5, atol=1e-5)
    np.testing.assert_allclose(
        measure.coarsen("word").coarsen("sentence").weights, measure.coarsen("sentence").weights, atol=1e-15
    )


def test_a_unit_without_weight_keeps_a_finite_point() -> None:
    coarse = example([0, 0, 1, 1, 1, 1]).coarsen("word")
    assert coarse.weights[0] == 0
    np.testing.assert_allclose(coarse.points[0], [1, 2])


def test_a_finer_unit_is_refused() -> None:
    with pytest.raises(ValueError, match="atoms are words"):
        example().coarsen("word").coarsen("token")


@given(st.lists(st.floats(0, 1e300), min_size=1, max_size=20).filter(lambda w: max(w) > 0))
def test_weights_are_normalised_at_any_scale(weights: list[float]) -> None:
    result = validate_weights(weights, len(weights))
    assert (result >= 0).all()
    assert result.sum() == pytest.approx(1.0, abs=1e-12)


@pytest.mark.parametrize(
    ("weights", "message"),
    [
        ([1.0], "shape"),
        ([1.0, -0.5], "position 1"),
        ([np.nan, 1.0], "finite"),
        ([np.inf, 1.0], "finite"),
        ([0.0, 0.0], "only zeros"),
        (["a", "b"], "2 numbers"),
    ],
)
def test_bad_weights_say_what_is_wrong(weights: list[object], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        validate_weights(weights, 2)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"points": np.zeros((0, 2))}, "at least one"),
        ({"points": np.zeros(3)}, "matrix"),
        ({"points": np.full((6, 2), np.nan)}, "finite"),
        ({"spans": ((0, 2),)}, "one for each"),
        ({"spans": ((0, 2),) * 5 + ((20, 99),)}, "length of the text"),
        ({"word_of": np.array([0, 0, 1, 2, 3, 9])}, "word_of"),
        ({"unit": "letter"}, "token, word, sentence"),
    ],
)
def test_fields_that_do_not_fit_are_refused(change: dict[str, object], message: str) -> None:
    fields = {name: getattr(example(), name) for name in example().__dataclass_fields__}
    with pytest.raises(ValueError, match=message):
        Measure(**{**fields, **change})


def test_arrays_cannot_be_changed_behind_its_back() -> None:
    points = np.ones((2, 2), dtype=np.float32)
    measure = Measure.from_points(points)
    points[0, 0] = 5
    assert measure.points[0, 0] == 1
    with pytest.raises(ValueError, match="read-only"):
        measure.points[0, 0] = 2


def test_own_points_carry_their_labels() -> None:
    measure = Measure.from_points(np.eye(3), weights=[2, 1, 1], labels=["the", "the", "1999-01-01"])
    assert measure.labels == ["the", "the", "1999-01-01"]
    assert measure.weights.tolist() == [0.5, 0.25, 0.25]
    with pytest.raises(ValueError, match="labels"):
        Measure.from_points(np.eye(3), labels=["a"])
