"""Experiments: reports, statistics, stopping and resuming, stored files, and a small run that must beat its bound."""

from __future__ import annotations

import json
import math
from dataclasses import replace
from pathlib import Path

import pytest
import torch

from sinkviz.approximation import (
    Experiment,
    ExperimentConfig,
    ExperimentResult,
    Interval,
    load_result,
    preset,
    stored_results,
)
from sinkviz.approximation.experiment import Cell, Errors, Row, measure_errors
from sinkviz.transformer import SinkhornTransformer

TINY = ExperimentConfig(
    "rotation",
    sizes=((4, 0), (8, 1)),
    seeds=(0, 1),
    training_sizes=(32,),
    steps=6,
    batch=8,
    learning_rates=(1e-3, 1e-2),
    search_steps=3,
    train_points=(3, 5),
    test_points=(3, 6),
    held_out=4,
    validation=4,
    far_points=(33,),
    far_pairs=1,
)


def test_every_run_is_made_once_and_reported() -> None:
    experiment = Experiment(TINY)
    reports = list(experiment.run())
    result = reports[-1].result
    assert reports[-1].status == "finished"
    assert reports[-1].share == 1
    assert result.complete
    assert [row.cell for row in result.rows] == TINY.cells()
    assert len(result.rows) == 1 + 2 * 2 * 2
    assert len(result.rates) == 2 * 2 * 2
    shares = [report.share for report in reports]
    assert shares == sorted(shares)
    assert set(experiment.models) == {cell for cell in TINY.cells() if cell.kind != "independent"}
    for row in result.rows:
        assert 0 < row.errors.mean <= row.errors.largest
        assert row.errors.largest_lower == row.errors.largest
        assert row.errors.width == 0
        assert row.errors.pairs == 4
        assert row.far[33].width > 0
        assert row.learning_rate in (0.0, 1e-3, 1e-2)


def test_equal_budget_and_equal_data_for_both_kinds() -> None:
    experiment = Experiment(TINY)
    list(experiment.run())
    rows = {row.cell: row for row in experiment.rows}
    for cell, row in rows.items():
        if cell.kind == "sinkhorn":
            other = rows[replace(cell, kind="softmax")]
            assert other.parameters == row.parameters
            assert [step for step, _ in other.curve] == [step for step, _ in row.curve]
            # Same seed, same pairs, same start: the first losses differ by the normalisation alone.
            assert experiment._training(cell) is experiment._training(other.cell)


@pytest.mark.parametrize("keep_folder", [True, False])
def test_stopped_and_resumed_equals_uninterrupted(tmp_path: Path, keep_folder: bool) -> None:
    whole = Experiment(TINY)
    list(whole.run())
    folder = tmp_path if keep_folder else None
    result = None
    for stop_after in (2, 5, 9, 10**6):
        experiment = Experiment(TINY, result=result, folder=folder)
        last = None
        for count, report in enumerate(experiment.run(), 1):
            last = report
            if count == stop_after:
                experiment.stop()
        assert last is not None
        result = last.result
    assert last is not None
    assert last.status == "finished"
    assert [(row.cell, row.errors, row.far) for row in result.rows] == [
        (row.cell, row.errors, row.far) for row in whole.rows
    ]
    assert result.rates == tuple(whole.rates)


def test_a_result_survives_its_file(tmp_path: Path) -> None:
    config = replace(TINY, sizes=((4, 0),), seeds=(0,))
    experiment = Experiment(config)
    list(experiment.run())
    path = tmp_path / "new" / "result.json"
    experiment.result().save(path)
    assert load_result(path) == experiment.result()
    data = json.loads(path.read_text())
    assert data["command"] == config.command
    assert data["complete"]


@pytest.mark.parametrize("damage", ["", "{}", "[]", "null", '{"format": "x"}', "[" * 10_000])
def test_foreign_files_are_refused(tmp_path: Path, damage: str) -> None:
    path = tmp_path / "result.json"
    path.write_text(damage)
    with pytest.raises(ValueError, match="not a stored result"):
        load_result(path)
    with pytest.raises(ValueError, match="not a stored result"):
        load_result(tmp_path / "nowhere.json")


def test_the_result_of_another_configuration_is_refused() -> None:
    with pytest.raises(ValueError, match="another configuration"):
        Experiment(TINY, result=ExperimentResult(replace(TINY, steps=7)))


def _row(kind: str, seed: int, mean: float) -> Row:
    cell = Cell(kind, 8, 1, 0.1, 64, seed)  # type: ignore[arg-type]
    return Row(cell, 10, 1e-3, "finished", "", None, Errors(mean, 2 * mean, 2 * mean, 0, 5, 0), {}, 1.0)


def test_intervals_and_ratios_against_hand_worked_numbers() -> None:
    interval = Interval.of([1.0, 2.0, 3.0])
    assert interval.high is not None
    # t(0.975, 2) = 4.302653, standard error 1/√3.
    assert interval.high - interval.mean == pytest.approx(4.302653 / math.sqrt(3), rel=1e-6)
    assert Interval.of([5.0]) == Interval(5.0, None, None, 1)
    rows = [_row("sinkhorn", 0, 0.1), _row("sinkhorn", 1, 0.2), _row("softmax", 0, 0.5), _row("softmax", 1, 1.0)]
    result = ExperimentResult(TINY, tuple(rows))
    ((_, ratio),) = result.ratios()
    assert ratio.mean == pytest.approx(5)
    assert ratio.low == pytest.approx(5)
    sinkhorn, softmax = result.summaries()
    assert sinkhorn.mean.mean == pytest.approx(0.15)
    assert softmax.worst == pytest.approx(2.0)
    assert not result.complete


def test_the_command_names_what_differs() -> None:
    assert ExperimentConfig("rotation").command == "python -m sinkviz approximate rotation"
    assert "--sizes 4x0 8x1" in TINY.command
    assert "--learning-rates 0.001 0.01" in TINY.command
    assert "--train-points 3 5" in TINY.command


@pytest.mark.parametrize(
    "wrong",
    [
        {"kinds": ()},
        {"kinds": ("hardmax",)},
        {"seeds": (0, 0)},
        {"epsilons": (0.0,)},
        {"sizes": ((0, 1),)},
        {"steps": 0},
        {"train_points": (5, 3)},
        {"training_sizes": (0,)},
        {"learning_rates": (math.inf,)},
    ],
)
def test_configurations_are_checked(wrong: dict[str, object]) -> None:
    with pytest.raises(ValueError, match="expected"):
        ExperimentConfig("rotation", **wrong)  # type: ignore[arg-type]


def test_presets() -> None:
    assert len(preset("capacity").sizes) >= 4
    assert len(preset("capacity").seeds) >= 3
    assert max(preset("points").far_points) == 128
    assert preset("live").steps * len(preset("live").seeds) <= 1000
    with pytest.raises(ValueError, match="preset"):
        preset("x")


def test_a_small_training_beats_its_bound_and_reproduces_what_is_shipped() -> None:
    """A model of 5,088 numbers, trained for seconds, against a coupling that depends on the context."""
    *_, last = Experiment(replace(preset("live"), seeds=(0,))).run()
    rows = {row.cell.kind: row for row in last.result.rows}
    means = {kind: row.errors.mean for kind, row in rows.items()}
    assert all(row.status == "finished" for row in rows.values())
    assert 0.5 < means["independent"] < 0.8
    assert means["sinkhorn"] < 0.09
    assert means["sinkhorn"] < 0.5 * means["softmax"]
    shipped = stored_results()["live"]
    assert shipped.config == preset("live")
    for stored in shipped.rows:
        if stored.cell in (row.cell for row in rows.values()):
            # Another processor rounds differently, and training carries that on.
            assert means[stored.cell.kind] == pytest.approx(stored.errors.mean, rel=0.25)
            assert rows[stored.cell.kind].parameters == stored.parameters


def test_errors_do_not_depend_on_the_order_of_the_points() -> None:
    from sinkviz.approximation import SYSTEMS

    torch.manual_seed(0)
    model = SinkhornTransformer(2, width=8, layers=1, heads=2, out=4)
    pairs = SYSTEMS["moment-rotation"].sample(3, (4, 4), seed=0)
    order = torch.tensor([2, 0, 3, 1])
    turned = type(pairs)(pairs.x[:, order], pairs.a[:, order], pairs.y, pairs.b, pairs.plan[:, order])
    assert measure_errors(model, turned).mean == pytest.approx(measure_errors(model, pairs).mean, abs=1e-5)


def test_what_is_shipped_can_be_read_and_holds_what_is_claimed() -> None:
    for name, result in stored_results().items():
        assert result.complete, name
        assert result.config.command.startswith("python -m sinkviz approximate")
        assert not any(row.status == "diverged" for row in result.rows), name
