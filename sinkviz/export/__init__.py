"""What leaves the house: pictures as SVG, PDF and PNG, offline HTML, links as CSV, everything as NPZ.

The names load on first use.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from sinkviz.export.convert import to_pdf as to_pdf
    from sinkviz.export.convert import to_png as to_png
    from sinkviz.export.files import FORMATS as FORMATS
    from sinkviz.export.files import export as export
    from sinkviz.export.pictures import PICTURES as PICTURES
    from sinkviz.export.pictures import Picture as Picture
    from sinkviz.export.pictures import Size as Size
    from sinkviz.export.pictures import compose as compose
    from sinkviz.export.pictures import figures as figures
    from sinkviz.export.pictures import picture as picture
    from sinkviz.export.pictures import picture_of_difference as picture_of_difference
    from sinkviz.export.tables import coupling_from_npz as coupling_from_npz
    from sinkviz.export.tables import csv_text as csv_text
    from sinkviz.export.tables import links_csv as links_csv
    from sinkviz.export.tables import plan_npz as plan_npz
    from sinkviz.export.tables import spreadsheet_safe as spreadsheet_safe

_HOME = {
    "FORMATS": "files",
    "PICTURES": "pictures",
    "Picture": "pictures",
    "Size": "pictures",
    "compose": "pictures",
    "coupling_from_npz": "tables",
    "csv_text": "tables",
    "export": "files",
    "figures": "pictures",
    "links_csv": "tables",
    "picture": "pictures",
    "picture_of_difference": "pictures",
    "plan_npz": "tables",
    "spreadsheet_safe": "tables",
    "to_pdf": "convert",
    "to_png": "convert",
}
__all__ = list(_HOME)


def __getattr__(name: str) -> object:
    if name not in _HOME:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}; names: {', '.join(__all__)}")
    value = getattr(importlib.import_module(f"{__name__}.{_HOME[name]}"), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return list(__all__)
