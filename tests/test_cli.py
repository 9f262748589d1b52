"""The command line, as a user types it."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

from sinkviz.cli import app_file, main


@pytest.fixture
def files(tmp_path: Path) -> tuple[str, str]:
    one, other = tmp_path / "a.txt", tmp_path / "b.txt"
    one.write_bytes("\ufeffA small fish swam.".encode())
    other.write_text("One tiny fish was swimming.", encoding="utf-8")
    return str(one), str(other)


def test_couple_prints_a_table(files: tuple[str, str], capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["couple", *files, "--links", "3"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert len(lines) == 5
    assert "'fish' → 'fish'" in "\n".join(lines)
    assert lines[-1].startswith("converged; mutual information")


def test_couple_prints_json(files: tuple[str, str], capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["couple", *files, "--json", "--unit", "token", "--mechanism", "partial", "--null-cost", "-0.2"]) == 0
    result = json.loads(capsys.readouterr().out)
    assert result["mechanism"] == "partial"
    assert {"source", "target", "mass", "share_of_row"} <= set(result["links"][0])


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["{0}", "/no/such/file"], "No such file"),
        (["-", "-"], "standard input"),
        (["{0}", "{0}", "--epsilon", "-1"], "epsilon"),
        (["{0}", "{0}", "--model", "nothing"], "all-MiniLM-L6-v2"),
        (["{0}", "{0}", "--layer", "99"], "layer"),
    ],
)
def test_what_cannot_be_done_is_said(
    arguments: list[str], message: str, files: tuple[str, str], capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["couple", *(argument.format(*files) for argument in arguments)]) == 1
    error = capsys.readouterr().err
    assert message in error
    assert error.startswith("sinkviz: ")


def test_other_encodings_are_refused(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "latin.txt"
    path.write_bytes("Grüße".encode("latin-1"))
    assert main(["couple", str(path), str(path)]) == 1
    assert "UTF-8" in capsys.readouterr().err


def test_help_and_wrong_use() -> None:
    result = subprocess.run([sys.executable, "-m", "sinkviz", "--help"], capture_output=True, text=True, check=True)
    for command in ("app", "couple", "approximate", "evaluate"):
        assert command in result.stdout
    assert subprocess.run([sys.executable, "-m", "sinkviz"], capture_output=True, check=False).returncode == 2


def test_the_app_is_found() -> None:
    assert app_file().name == "app.py"
    assert (app_file().parent / "pages" / "compare.py").exists()
