"""The command line of the experiments."""

from __future__ import annotations

import argparse
import json
from pathlib import Path

import pytest

from sinkviz.approximation import SYSTEMS, ExperimentConfig, StoredFits, command, load_result, stored_fits
from sinkviz.approximation.steps import FIT_SIZES

TINY = [
    "rotation",
    "--sizes",
    "4x0",
    "--seeds",
    "0",
    "--training-sizes",
    "16",
    "--steps",
    "4",
    "--batch",
    "8",
    "--learning-rates",
    "0.01",
    "--held-out",
    "3",
    "--validation",
    "3",
    "--train-points",
    "3",
    "5",
    "--test-points",
    "3",
    "5",
]


def _run(*words: str) -> int:
    parser = argparse.ArgumentParser()
    command.add_arguments(parser)
    return command.run(parser.parse_args(words))


def test_systems_are_listed(capsys: pytest.CaptureFixture[str]) -> None:
    assert _run() == 0
    out = capsys.readouterr().out
    assert all(name in out for name in SYSTEMS)


def test_a_run_prints_a_table_and_writes_what_it_found(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = tmp_path / "r.json"
    assert _run(*TINY, "--out-file", str(file), "--models", str(tmp_path / "models")) == 0
    out = capsys.readouterr().out
    assert "sinkhorn 4x0" in out
    assert "softmax over Sinkhorn" in out
    result = load_result(file)
    assert result.complete
    assert len(list((tmp_path / "models").glob("*.safetensors"))) == 2
    # The stored command makes the same thing again.
    words = result.config.command.split()[4:]
    assert _run(*words, "--json") == 0
    again = json.loads(capsys.readouterr().out)
    assert [row["errors"] for row in again["rows"]] == json.loads(
        json.dumps([row["errors"] for row in result.as_dict()["rows"]])
    )
    # A finished file is not made again; one of another experiment is left alone.
    assert _run(*TINY, "--out-file", str(file)) == 0
    assert _run(*TINY, "--steps", "5", "--out-file", str(file)) == 2
    assert "another experiment" in capsys.readouterr().err
    assert load_result(file) == result


@pytest.mark.parametrize(
    "words", [["nowhere"], ["rotation", "--kinds", "x"], ["rotation", "--steps", "0"], ["rotation", "--epsilons", "-1"]]
)
def test_wrong_arguments_say_what_is_wrong(words: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    assert _run(*words) == 2
    assert "expected" in capsys.readouterr().err


def test_every_field_of_the_configuration_can_be_given() -> None:
    parser = argparse.ArgumentParser()
    command.add_arguments(parser)
    known = {action.dest for action in parser._actions}
    assert set(ExperimentConfig.__dataclass_fields__) <= known
    from sinkviz.approximation.experiment import preset

    for name in command.PRESETS:
        preset(name)


def test_step_three_is_stored_with_the_command_that_makes_it(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "factors.json"
    assert _run("rotation", "--factors", "--sizes", "4x0", "8x1", "--steps", "20", "--out-file", str(file)) == 0
    assert "8x1" in capsys.readouterr().out
    stored = StoredFits.from_dict(json.loads(file.read_text(encoding="utf-8")))
    assert [(fit.width, fit.layers) for fit in stored.fits if fit.finished] == [(4, 0), (8, 1)]
    assert StoredFits.from_dict(stored.as_dict()) == stored
    assert _run("rotation", "--factors", "--sizes", "4x0", "8x1", "--steps", "20", "--json") == 0
    again = StoredFits.from_dict(json.loads(capsys.readouterr().out))
    assert [fit.largest_error for fit in again.fits] == [fit.largest_error for fit in stored.fits]
    assert _run("mixture", "--factors") == 2
    assert "factors are not known" in capsys.readouterr().err
    with pytest.raises(ValueError, match="not a stored run of step 3"):
        StoredFits.from_dict({"format": "other"})


def test_shipped_runs_of_step_three_learn_with_size() -> None:
    shipped = stored_fits()
    assert "moment-rotation" in shipped
    for stored in shipped.values():
        done = [fit for fit in stored.fits if fit.finished]
        assert [(fit.width, fit.layers) for fit in done] == list(FIT_SIZES)
        assert done[-1].mean_error < done[0].mean_error < done[0].scale
