"""Where the files live that the library ships: beside the package in a checkout, inside it once installed."""

from __future__ import annotations

from pathlib import Path

_HERE = Path(__file__).resolve().parent
_INSTALLED = _HERE / "assets"
ROOT = _INSTALLED if _INSTALLED.is_dir() else _HERE.parent / "assets"


def asset_path(name: str) -> Path:
    """Return the path of a shipped file.

    Raises:
        FileNotFoundError: there is no such file, which means that the installation is damaged.

    >>> asset_path("examples.json").name
    'examples.json'
    """
    path = ROOT / name
    if not path.exists():
        raise FileNotFoundError(f"expected {name} among the files of sinkviz in {ROOT}; install sinkviz again")
    return path
