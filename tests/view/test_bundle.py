"""The view's program: one string, the same colours as everywhere, and no way out to the network."""

from __future__ import annotations

import dataclasses
import json
import re
import shutil
import subprocess

import pytest

from sinkviz.figures import palette
from sinkviz.view import bundle
from sinkviz.view.bundle import STATIC, component_javascript, program


def test_every_module_is_in_the_program_once() -> None:
    text = program()
    for file in STATIC.glob("*.js"):
        assert text.count(f"const ${file.stem} = (() => {{") == 1, file.name
    assert not re.search(r"^\s*(import|export)\s", text, re.MULTILINE)
    assert component_javascript().rstrip().endswith("export default sinkvizView();")


def test_the_program_can_stand_inside_a_script_element() -> None:
    assert "</script" not in program().lower()
    assert "<!--" not in program()


def test_the_program_loads_nothing() -> None:
    text = re.sub(r"http://www\.w3\.org/2000/svg", "", program())
    assert not re.search(r"https?://", text)
    for word in (
        "fetch(",
        "XMLHttpRequest",
        "WebSocket(",
        "importScripts",
        "sendBeacon",
        "innerHTML",
        "outerHTML",
        "insertAdjacentHTML",
        "eval(",
    ):
        assert word not in text, word


@pytest.mark.skipif(shutil.which("node") is None, reason="needs node")
def test_the_program_is_valid_javascript() -> None:
    done = subprocess.run(
        ["node", "--check", "--input-type=module", "-"],
        input=component_javascript(),
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr


def test_modules_keep_to_the_forms_that_are_joined(
    tmp_path: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch
) -> None:
    from pathlib import Path

    folder = Path(str(tmp_path))
    (folder / "index.js").write_text('import * as all from "./other.js";\nexport default function mount() {}\n')
    monkeypatch.setattr(bundle, "STATIC", folder)
    with pytest.raises(ValueError, match="plain import and export forms"):
        bundle._join("index.js", [], [], ())
    (folder / "index.js").write_text('import { a } from "./other.js";\nexport const b = a;\n')
    (folder / "other.js").write_text('import { b } from "./index.js";\nexport const a = b;\n')
    with pytest.raises(ValueError, match="without cycles"):
        bundle._join("index.js", [], [], ())


@pytest.mark.parametrize("name", ["light", "dark"])
def test_colours_are_those_of_the_figures(name: str) -> None:
    block = re.search(r"const palette = (\{.*\});", program())
    assert block
    ours = json.loads(block.group(1))[name]
    assert ours == json.loads(json.dumps(dataclasses.asdict(palette.palette(name))))  # type: ignore[arg-type]
    assert not re.search(r'"#[0-9a-fA-F]{6}"', (STATIC / "colour.js").read_text(encoding="utf-8"))


def test_css_names_no_colour_of_its_own() -> None:
    assert not re.search(r"#[0-9a-fA-F]{3,8}\b", (STATIC / "view.css").read_text(encoding="utf-8"))
