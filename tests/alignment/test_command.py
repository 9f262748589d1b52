from __future__ import annotations

import argparse
import json

import pytest

from sinkviz.alignment import command


def run(*arguments: str) -> int:
    parser = argparse.ArgumentParser()
    command.add_arguments(parser)
    return command.run(parser.parse_args(arguments))


def test_table_of_the_mini_set(capsys: pytest.CaptureFixture[str], tmp_path) -> None:
    out = tmp_path / "result.json"
    assert run("--pairs", "8", "--folds", "4", "--methods", "cosine,partial", "--out", str(out)) == 0
    shown = capsys.readouterr()
    assert "8 pairs" in shown.out
    assert "partial" in shown.out
    assert "difference" in shown.out
    assert shown.err == ""  # progress belongs on a terminal
    assert [method["name"] for method in json.loads(out.read_text())["methods"]] == ["cosine", "partial"]


def test_json(capsys: pytest.CaptureFixture[str]) -> None:
    assert (
        run("--pairs", "8", "--folds", "2", "--methods", "cosine", "--json", "--orders", "0,1", "--neighbours", "0.2")
        == 0
    )
    found = json.loads(capsys.readouterr().out)
    assert (found["format"], found["orders"], found["neighbours"]) == ("sinkviz-evaluation", [0.0, 1.0], [0.2])


@pytest.mark.parametrize(
    ("arguments", "what"),
    [
        (("missing.tsv",), "readable file"),
        (("--pairs", "0"), "--pairs"),
        (("--pairs", "8", "--methods", "other"), "expected some of"),
        (("--pairs", "8", "--orders", "x"), "--orders"),
        (("--pairs", "8", "--neighbours", "-1"), "neighbours"),
        (("--pairs", "8", "--layer", "99"), "layer"),
    ],
)
def test_bad_input_is_told_and_ends_with_2(
    arguments: tuple[str, ...], what: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(*arguments) == 2
    shown = capsys.readouterr()
    assert shown.out == ""
    assert what in shown.err
