"""The command line, as a user types it."""

import csv
import json
import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from sinkviz.cli import COMMANDS, app_file, main
from sinkviz.commands.common import Progress, cells, shorten, visible

ROOT = Path(__file__).parents[1]


@pytest.fixture
def files(tmp_path: Path) -> tuple[str, str]:
    one, other = tmp_path / "a.txt", tmp_path / "b.txt"
    one.write_bytes("\ufeffA small fish swam.".encode())
    other.write_text("One tiny fish was swimming.", encoding="utf-8")
    return str(one), str(other)


def run(*arguments: str, text: str | None = None) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "sinkviz", *arguments],
        capture_output=True,
        text=True,
        input=text,
        check=False,
        cwd=ROOT,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
    )


def records_of(path: str | Path) -> list[dict[str, str]]:
    return list(csv.DictReader(Path(path).read_text(encoding="utf-8").splitlines()))


def test_couple_prints_a_table(files: tuple[str, str], capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["couple", *files, "--links", "3"]) == 0
    captured = capsys.readouterr()
    lines = captured.out.splitlines()
    assert len(lines) == 6
    assert lines[0].split() == ["mass", "%", "of", "row", "%", "of", "column", "%", "source", "target"]
    assert any(line.split()[-2:] == ["fish", "fish"] for line in lines)
    assert lines[-1].startswith("converged; mutual information")
    assert "\r" not in captured.err  # progress belongs on a terminal only


def test_couple_prints_json(files: tuple[str, str], capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["couple", *files, "--json", "--unit", "token", "--mechanism", "partial", "--null-cost", "-0.2"]) == 0
    result = json.loads(capsys.readouterr().out)
    assert result["mechanism"] == "partial"
    assert {"source", "target", "mass", "share_of_row"} <= set(result["links"][0])


def test_quiet_prints_nothing(files: tuple[str, str], capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    assert main(["couple", *files, "--quiet", "--out", str(tmp_path / "x.csv")]) == 0
    assert capsys.readouterr() == ("", "")
    assert (tmp_path / "x.csv").exists()


def test_couple_writes_every_format(files: tuple[str, str], tmp_path: Path) -> None:
    from sinkviz.export import coupling_from_npz
    from sinkviz.pipeline import couple
    from sinkviz.session import load

    names = [
        str(tmp_path / name) for name in ("p.npz", "l.csv", "l.tsv", "s.json", "f.svg", "f.png", "f.pdf", "v.html")
    ]
    outs = [part for name in names for part in ("--out", name)]
    assert (
        main(["couple", *files, "--quiet", *outs, "--picture", "lines", "--picture", "heatmap", "--with-attention"])
        == 0
    )
    coupling = couple("A small fish swam.", "One tiny fish was swimming.", unit="word")
    again = coupling_from_npz(Path(names[0]).read_bytes())
    np.testing.assert_allclose(again.plan, coupling.plan, atol=1e-7)
    rows = records_of(names[1])
    assert sum(float(row["mass"]) for row in rows) > 0.9
    session = load(names[3])
    np.testing.assert_allclose(session.run().plan, coupling.plan, atol=1e-6)
    assert Path(names[4]).read_text().count("Attention") == 2
    assert Path(names[5]).read_bytes().startswith(b"\x89PNG")
    assert Path(names[6]).read_bytes().startswith(b"%PDF-")
    assert Path(names[7]).read_text().startswith("<!doctype html>")


def test_sessions_are_opened_and_compared(
    files: tuple[str, str], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    one, other = str(tmp_path / "one.json"), str(tmp_path / "other.json")
    assert main(["couple", *files, "--quiet", "--out", one]) == 0
    assert main(["couple", *files, "--quiet", "--mechanism", "softmax", "--out", other]) == 0
    assert main(["open", one, "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["mechanism"] == "sinkhorn"
    matrix, figure = str(tmp_path / "d.csv"), str(tmp_path / "d.svg")
    assert main(["diff", one, other, "--json", "--out", matrix, "--out", figure]) == 0
    change = json.loads(capsys.readouterr().out)
    assert 0 < change["distance"] < 1
    rows = list(csv.reader(Path(matrix).read_text(encoding="utf-8").splitlines()))
    assert rows[0][1:] == ["One", "tiny", "fish", "was", "swimming", "."]
    total = 0.5 * sum(abs(float(cell)) for row in rows[1:] for cell in row[1:])
    assert total == pytest.approx(change["distance"], abs=1e-9)
    assert main(["diff", one, other]) == 0
    assert "of the mass moved" in capsys.readouterr().out
    Path(one).write_text("{}")
    assert main(["open", one]) == 2
    assert "another kind of file" in capsys.readouterr().err


def test_word_links_for_pipelines(files: tuple[str, str], capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    assert main(["couple", *files, "--pharaoh"]) == 0
    links = capsys.readouterr().out.split()
    assert "2-2" in links
    assert links[-1] == "4-5"
    parallel = tmp_path / "p.txt"
    parallel.write_text("the cat ||| a cat\n\nthe  dog sleeps ||| dogs sleep\n")
    assert main(["align", str(parallel)]) == 0
    lines = capsys.readouterr().out.split("\n")
    assert len(lines) == 4
    assert "1-1" in lines[0]
    assert lines[1] == ""
    assert "2-1" in lines[2]
    assert main(["align", str(parallel), "--index-base", "1"]) == 0
    assert "2-2" in capsys.readouterr().out
    parallel.write_text("no bars\n")
    assert main(["align", str(parallel)]) == 2
    assert "line 1" in capsys.readouterr().err


def test_path_prints_and_writes(files: tuple[str, str], capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    outs = [str(tmp_path / f"path{suffix}") for suffix in (".csv", ".json", ".npz", ".svg", ".pdf")]
    assert main(["path", *files, "--count", "4", "--json", *[part for out in outs for part in ("--out", out)]]) == 0
    records = json.loads(capsys.readouterr().out)
    epsilons = [record["epsilon"] for record in records]
    assert epsilons == sorted(epsilons, reverse=True)
    assert epsilons[0] == pytest.approx(10)
    assert [float(row["transport_cost"]) for row in records_of(outs[0])] == [
        record["transport_cost"] for record in records
    ]
    with np.load(outs[2], allow_pickle=False) as arrays:
        assert arrays["plans"].shape == (4, 5, 6)
        np.testing.assert_allclose(arrays["plans"].sum(axis=(1, 2)), 1, atol=1e-6)
    assert main(["path", *files, "--from", "0.1", "--to", "1"]) == 2
    assert main(["path", *files, "--out", "x.doc"]) == 2


def test_matrices_of_ones_own(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "m.csv"
    path.write_text(",chat,chien\ncat,0.9,0.1\ndog,0.2,0.8\n", encoding="utf-8")
    for kind, received in (("attention", [0.55, 0.45]), ("plan", [0.55, 0.45])):
        assert main(["matrix", str(path), "--kind", kind, "--json"]) == 0
        result = json.loads(capsys.readouterr().out)
        columns = [sum(link["mass"] for link in result["links"] if link["target"] == j) for j in (0, 1)]
        assert columns == pytest.approx(received)
        assert result["links"][0]["source_label"] == "cat"
    assert main(["matrix", str(path), "--kind", "cost", "--mechanism", "exact", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["status"] == "exact"
    assert main(["matrix", str(path)]) == 2
    assert "kind" in capsys.readouterr().err


def test_points_of_ones_own(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "p.csv"
    path.write_text("label,weight,x,y\ncat,1,1,0\ndog,3,0,1\n", encoding="utf-8")
    assert main(["couple", str(path), str(path), "--points", "--mechanism", "exact", "--json"]) == 0
    result = json.loads(capsys.readouterr().out)
    assert [(link["source_label"], link["mass"]) for link in result["links"]] == [("dog", 0.75), ("cat", 0.25)]
    assert main(["couple", str(path), str(path), "--points", "--unit", "token"]) == 2


def test_batch_reports_bad_rows_and_goes_on(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    table, out = tmp_path / "t.csv", tmp_path / "r.csv"
    table.write_text("source,target\na cat,a dog\nalone\nthe river,a stream\n", encoding="utf-8")
    assert main(["batch", str(table), "--out", str(out)]) == 1
    captured = capsys.readouterr()
    assert "line 3: expected 2 cells, got 1" in captured.err
    assert "3 rows" in captured.out
    rows = records_of(out)
    assert [row["status"] for row in rows] == ["converged", "error", "converged"]
    assert main(["batch", str(table), "--out", str(table)]) == 2
    assert main(["batch", str(table), "--out", str(out), "--source", "nothing"]) == 2
    assert "source, target" in capsys.readouterr().err


def test_models_are_listed(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["models"]) == 0
    assert "all-MiniLM-L6-v2" in capsys.readouterr().out
    assert main(["models", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["embedding"][0]["default"]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["{0}", "/no/such/file"], "No such file"),
        (["-", "-"], "standard input"),
        (["{0}", "{0}", "--epsilon", "-1"], "epsilon"),
        (["{0}", "{0}", "--model", "nothing"], "all-MiniLM-L6-v2"),
        (["{0}", "{0}", "--layer", "99"], "layer"),
        (["{0}", "{0}", "--encoder", "nothing"], "model"),
        (["{0}", "{0}", "--out", "x.doc"], ".svg"),
        (["{0}", "{0}", "--out", "/no/such/folder/x.svg"], "folder"),
        (["{0}", "{0}", "--out", "/tmp/x.svg", "--width", "3"], "width"),
        (["{0}", "{0}", "--mechanism", "partial"], "null_cost"),
        (["{0}", "{0}", "--links", "-1"], "links"),
    ],
)
def test_what_cannot_be_done_is_said(
    arguments: list[str], message: str, files: tuple[str, str], capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["couple", *(argument.format(*files) for argument in arguments)]) == 2
    error = capsys.readouterr().err
    assert message in error
    assert error.startswith("sinkviz: ")


def test_other_encodings_are_refused(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "latin.txt"
    path.write_bytes("Grüße".encode("latin-1"))
    assert main(["couple", str(path), str(path)]) == 2
    assert "UTF-8" in capsys.readouterr().err


def test_standard_input_is_read(files: tuple[str, str]) -> None:
    result = run("couple", "-", files[1], "--links", "1", text="A small fish swam.")
    assert result.returncode == 0
    assert "fish" in result.stdout


def test_help_and_wrong_use() -> None:
    result = run("--help")
    for command in COMMANDS:
        assert command in result.stdout
    assert run().returncode == 2
    assert run("nothing").returncode == 2
    assert run("--version").stdout.startswith("sinkviz ")


def test_help_imports_nothing_heavy() -> None:
    heavy = "torch numpy transformers sentence_transformers streamlit sklearn ot plotly typst pandas"
    code = (
        "import sys; from sinkviz.cli import main\n"
        "for words in (['--help'], *([name, '--help'] for name in "
        f"{[name for name in COMMANDS if name not in ('train', 'evaluate', 'approximate')]!r})):\n"
        "    try: main(words)\n"
        "    except SystemExit: pass\n"
        f"print([m for m in '{heavy}'.split() if m in sys.modules])"
    )
    result = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, cwd=ROOT)
    assert result.stdout.splitlines()[-1] == "[]"


@pytest.mark.parametrize("command", [name for name in COMMANDS if name != "app"])
def test_every_command_explains_itself(command: str, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as stop:
        main([command, "--help"])
    assert stop.value.code == 0
    assert "usage: sinkviz" in capsys.readouterr().out


def test_the_app_is_found() -> None:
    assert app_file().name == "app.py"
    assert (app_file().parent / "pages" / "compare.py").exists()


def test_a_reader_that_leaves_is_no_error(files: tuple[str, str]) -> None:
    command = f'"{sys.executable}" -m sinkviz couple "{files[0]}" "{files[1]}" | head -n 1'
    result = subprocess.run(
        ["bash", "-c", f"set -o pipefail; {command}"], capture_output=True, text=True, check=False, cwd=ROOT
    )
    assert result.returncode == 0
    assert "Traceback" not in result.stderr
    assert len(result.stdout.splitlines()) == 1


class Terminal:
    def __init__(self) -> None:
        self.written = ""

    def isatty(self) -> bool:
        return True

    def write(self, text: str) -> None:
        self.written += text

    def flush(self) -> None:
        pass


def test_progress_is_for_terminals() -> None:
    screen = Terminal()
    progress = Progress(stream=screen)  # type: ignore[arg-type]
    progress.count(1, 2)
    progress.close()
    assert "50 %" in screen.written
    assert screen.written.endswith("\r")
    screen = Terminal()
    Progress(quiet=True, stream=screen).count(1, 2)  # type: ignore[arg-type]
    assert screen.written == ""


def test_nothing_in_a_text_steers_the_terminal() -> None:
    assert visible("\x1b]0;title\x07") == "\ufffd]0;title\ufffd"
    assert visible("\u202eabc") == "\ufffdabc"
    assert visible(" ") == "␣"
    assert cells("中文") == 4
    assert shorten("中文中文", 5) == "中文…"
    assert shorten("abc", 3) == "abc"
