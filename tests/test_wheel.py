"""What `pip install .` brings: the library, the app and the assets."""

import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("wheel")
    code = f"from hatchling.build import build_wheel; print(build_wheel({str(folder)!r}))"
    subprocess.run([sys.executable, "-c", code], check=True, cwd=ROOT, capture_output=True)
    (built,) = folder.glob("*.whl")
    return built


def test_the_wheel_carries_everything_that_the_app_reads(wheel: Path) -> None:
    names = set(zipfile.ZipFile(wheel).namelist())
    assert {"sinkviz/py.typed", "sinkviz/app/app.py", "sinkviz/app/.streamlit/config.toml"} <= names
    for folder, inside in (("assets", "sinkviz/assets"), ("pages", "sinkviz/app/pages"), ("sinkviz", "sinkviz")):
        for path in (ROOT / folder).rglob("*"):
            if path.is_file() and "__pycache__" not in path.parts:
                assert f"{inside}/{path.relative_to(ROOT / folder)}" in names


def test_an_installed_copy_finds_its_app_and_assets(wheel: Path, tmp_path: Path) -> None:
    zipfile.ZipFile(wheel).extractall(tmp_path)
    code = (
        "import sinkviz, sinkviz.cli, sinkviz.resources as r; print(sinkviz.__file__); "
        "print(sinkviz.cli.app_file()); print(r.asset_path('examples.json'))"
    )
    result = subprocess.run(
        [sys.executable, "-c", code], cwd=tmp_path, capture_output=True, text=True, check=True, env={"PYTHONPATH": ""}
    )
    for line in result.stdout.split():
        assert Path(line).is_relative_to(tmp_path)
        assert Path(line).exists()
