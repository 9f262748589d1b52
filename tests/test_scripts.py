"""The scripts in examples/ run as they stand."""

import runpy
from pathlib import Path

import pytest

EXAMPLES = Path(__file__).parents[1] / "examples"


def test_two_texts(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    runpy.run_path(str(EXAMPLES / "couple_two_texts.py"))["main"](tmp_path)
    said = capsys.readouterr().out
    assert "coupling: 0 % of the mass misses" in said
    assert (tmp_path / "coupling.pdf").read_bytes().startswith(b"%PDF-")
    assert (tmp_path / "both.svg").exists()
    assert (tmp_path / "explorer.html").exists()


def test_attention_of_a_model(capsys: pytest.CaptureFixture[str]) -> None:
    runpy.run_path(str(EXAMPLES / "attention_of_your_model.py"))["main"]()
    lines = capsys.readouterr().out.splitlines()
    assert len(lines) == 14
    assert "coupled: 0 % off, converged" in lines[-1]


def test_many_pairs(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    rows = runpy.run_path(str(EXAMPLES / "many_pairs.py"))["main"](tmp_path)
    # Every paraphrase is more like its source than the unrelated sentence below it.
    for paraphrase, stranger in zip(rows[::2], rows[1::2], strict=True):
        assert paraphrase.likeness > stranger.likeness
    assert (tmp_path / "result.csv").exists()
    assert "6 rows" in capsys.readouterr().out


def test_every_script_is_run_here() -> None:
    names = {path.name for path in EXAMPLES.glob("*.py")}
    assert names == {"couple_two_texts.py", "attention_of_your_model.py", "many_pairs.py"}
