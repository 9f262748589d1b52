"""What the README tells a reader to run does run, as it stands there."""

from __future__ import annotations

import contextlib
import io
import re
import shlex
import shutil
from pathlib import Path

import numpy as np
import pytest

from sinkviz.cli import main
from sinkviz.resources import asset_path

ROOT = Path(__file__).parents[1]
README = (ROOT / "README.md").read_text(encoding="utf-8")
SOURCE = "The old man sat by the river. He counted the boats."
TARGET = "An elderly angler rested near the stream. He watched ships."


def blocks(section: str, language: str = "") -> list[str]:
    """Return the code blocks of a section of the README."""
    body = README.split(f"## {section}\n", 1)[1].split("\n## ", 1)[0]
    return re.findall(rf"^```{language}\n(.*?)^```", body, flags=re.MULTILINE | re.DOTALL)


COMMANDS = [line for line in blocks("Command line")[0].splitlines() if line.strip()]


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The files that the README's commands speak of."""
    place = tmp_path_factory.mktemp("readme")
    for name, text in (("a.txt", SOURCE), ("b.txt", TARGET), ("source.txt", SOURCE), ("target.txt", TARGET)):
        (place / name).write_text(text + "\n", encoding="utf-8")
    (place / "pairs.csv").write_text(f"source,target\n{SOURCE},{TARGET}\n{TARGET},{SOURCE}\n", encoding="utf-8")
    shutil.copy(asset_path("mini-gold.json"), place / "gold.json")
    scores = np.random.default_rng(0).dirichlet(np.ones(4), size=3)
    np.savez(place / "attention.npz", attention=scores)
    for name, epsilon in (("one.json", "0.2"), ("other.json", "0.5")):
        arguments = ["couple", str(place / "a.txt"), str(place / "b.txt"), "--epsilon", epsilon, "--quiet"]
        assert main([*arguments, "--out", str(place / name)]) == 0
    return place


@pytest.mark.parametrize("line", COMMANDS)
def test_every_command_line_runs(line: str, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(folder)
    words = shlex.split(line, comments=True)
    assert words[0] == "sinkviz"
    target = words[words.index(">") + 1] if ">" in words else None
    arguments = words[1 : words.index(">")] if target else words[1:]
    said = io.StringIO()
    with contextlib.redirect_stdout(said):
        assert main(arguments) == 0
    if target:
        (folder / target).write_text(said.getvalue(), encoding="utf-8")
        assert re.fullmatch(r"(\d+-\d+( |\n))+", said.getvalue())
    written = [arguments[k + 1] for k, word in enumerate(arguments[:-1]) if word == "--out"]
    assert said.getvalue() or written
    for name in written:
        assert (folder / name).stat().st_size > 0, name


def test_there_are_commands_to_run() -> None:
    assert len(COMMANDS) >= 8


def test_the_library_example_runs(capsys: pytest.CaptureFixture[str]) -> None:
    (code,) = blocks("Library", "python")
    exec(compile(code, "README.md", "exec"), {})
    lines = capsys.readouterr().out.splitlines()
    assert len(lines) == 6
    assert lines[-1].startswith("converged")


def test_the_make_targets_and_files_exist() -> None:
    makefile = (ROOT / "Makefile").read_text(encoding="utf-8")
    for target in re.findall(r"(?:^|`)make (\w+)", README, flags=re.MULTILINE):
        assert re.search(rf"^{target}:", makefile, flags=re.MULTILINE), target
    for name in re.findall(r"(?:python |\]\()((?:examples|benchmarks|assets)/[\w./-]+)", README):
        assert (ROOT / name).is_file(), name
