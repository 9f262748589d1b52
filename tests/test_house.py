"""Who may know whom, and what an import may cost."""

import ast
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
PACKAGE = ROOT / "sinkviz"

ALLOWED: dict[str, set[str]] = {
    "process": set(),
    "resources": set(),
    "language": set(),
    "transport": set(),
    "text": {"language"},
    "measure": set(),
    "embedding": {"text", "measure", "language", "process", "resources"},
    "transformer": {"transport", "measure", "resources"},
    "coupling": {"measure", "transport"},
    "projection": {"measure"},
    "pipeline": {"embedding", "transport", "transformer", "coupling", "measure"},
    "approximation": {"transformer", "transport", "measure", "resources"},
    "alignment": {
        "embedding",
        "coupling",
        "projection",
        "measure",
        "pipeline",
        "text",
        "resources",
        "transport",
        "transformer",
    },
    "figures": {"coupling", "projection", "measure", "text"},
    "view": {"coupling", "projection", "measure", "text", "language", "figures"},
}
"""What each room may import; the rest (ui, cli) may import everything below it."""


def rooms() -> list[tuple[str, Path]]:
    found = []
    for path in sorted(PACKAGE.rglob("*.py")):
        part = path.relative_to(PACKAGE).parts[0]
        found.append((part.removesuffix(".py"), path))
    return [(room, path) for room, path in found if room not in ("__init__", "__main__")]


def imports(path: Path, *, top_level: bool = False) -> set[str]:
    """Return the modules that a file imports, without those for type checkers only."""
    tree = ast.parse(path.read_text(encoding="utf-8"))
    found: set[str] = set()

    def visit(nodes: list[ast.stmt]) -> None:
        for node in nodes:
            if isinstance(node, ast.If) and "TYPE_CHECKING" in ast.dump(node.test):
                continue
            if isinstance(node, ast.Import):
                found.update(alias.name for alias in node.names)
            elif isinstance(node, ast.ImportFrom) and node.module:
                found.add(node.module)
                if node.module == "sinkviz":
                    found.update(f"sinkviz.{alias.name}" for alias in node.names)
            elif not (top_level and isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef))):
                visit([child for child in ast.walk(node) if isinstance(child, (ast.Import, ast.ImportFrom))])

    visit(tree.body)
    return found


@pytest.mark.parametrize(("room", "path"), rooms(), ids=lambda value: str(value).split("sinkviz/")[-1])
def test_imports_flow_one_way(room: str, path: Path) -> None:
    if room not in ALLOWED:
        return
    used = {name.split(".")[1] for name in imports(path) if name.startswith("sinkviz.") and name.count(".") >= 1}
    if room == "coupling":
        used.discard("view")  # the one late import upwards: a coupling shows itself in notebooks
    assert used <= ALLOWED[room] | {room}, f"{path.relative_to(ROOT)} must not import {used - ALLOWED[room] - {room}}"


@pytest.mark.parametrize(("room", "path"), rooms(), ids=lambda value: str(value).split("sinkviz/")[-1])
def test_streamlit_stays_in_its_room(room: str, path: Path) -> None:
    if room != "ui":
        assert not {name for name in imports(path) if name.split(".")[0] == "streamlit"}


def test_the_transport_room_is_torch_alone() -> None:
    for room, path in rooms():
        if room == "transport":
            outside = {name.split(".")[0] for name in imports(path, top_level=True)} - set(sys.stdlib_module_names)
            assert outside <= {"torch", "numpy", "sinkviz"}, path


def test_importing_sinkviz_is_instant() -> None:
    heavy = "torch numpy transformers sentence_transformers streamlit sklearn ot plotly"
    code = f"import sys, sinkviz; print([m for m in '{heavy}'.split() if m in sys.modules])"
    result = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, cwd=ROOT)
    assert result.stdout.strip() == "[]"


def test_every_public_name_is_there() -> None:
    import sinkviz

    for name in sinkviz.__all__:
        assert getattr(sinkviz, name) is not None
    assert set(sinkviz.__all__) <= set(dir(sinkviz))
    with pytest.raises(AttributeError, match="public names"):
        sinkviz.nothing  # noqa: B018


def test_pages_are_thin() -> None:
    for path in [ROOT / "app.py", *(ROOT / "pages").glob("*.py")]:
        assert len(path.read_text(encoding="utf-8").splitlines()) <= 15, path
