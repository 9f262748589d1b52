"""Numbers out: links as CSV, everything as NPZ, and back."""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np

from sinkviz.coupling import Coupling, Link
from sinkviz.measure import Measure, Origin

LINK_COLUMNS = (
    "source_index",
    "target_index",
    "source",
    "target",
    "mass",
    "share_of_row",
    "share_of_column",
    "lift",
)
LONGEST_LABEL = 1000
_FORMULA = ("=", "+", "-", "@", "\t", "\r")


def spreadsheet_safe(cell: str) -> str:
    """Return a text cell that no spreadsheet takes for a formula: an apostrophe goes before =, +, - and @.

    >>> spreadsheet_safe("=1+1"), spreadsheet_safe("fish")
    ("'=1+1", 'fish')
    """
    return f"'{cell}" if cell.startswith(_FORMULA) else cell


def csv_text(columns: Sequence[str], rows: Iterable[Sequence[Any]], *, separator: str = ",", safe: bool = False) -> str:
    """Return a table as CSV (RFC 4180, with plain line ends); numbers keep every digit.

    Args:
        columns: names.
        rows: cells; None is an empty cell.
        separator: "," or a tab.
        safe: keep spreadsheets from taking text for formulas; it changes such cells.
    """
    buffer = io.StringIO(newline="")
    writer = csv.writer(buffer, delimiter=separator, lineterminator="\n")
    writer.writerow(columns)
    for row in rows:
        writer.writerow(
            ["" if cell is None else spreadsheet_safe(cell) if safe and isinstance(cell, str) else cell for cell in row]
        )
    return buffer.getvalue()


def links_csv(links: Iterable[Link], *, separator: str = ",", safe: bool = False) -> str:
    """Return links as CSV: positions from 0, labels, mass, shares, and lift in nat.

    Args:
        links: from `Coupling.links` or `Coupling.top_links`.
        separator, safe: as in `csv_text`.

    >>> links_csv([Link(0, 1, "a, b", "c", 0.5, 1.0, 0.5, 0.0)]).splitlines()[1]
    '0,1,"a, b",c,0.5,1.0,0.5,0.0'
    """
    rows = (
        (
            link.source_index,
            link.target_index,
            link.source_label,
            link.target_label,
            link.mass,
            link.share_of_row,
            link.share_of_column,
            link.lift,
        )
        for link in links
    )
    return csv_text(LINK_COLUMNS, rows, separator=separator, safe=safe)


def plan_npz(coupling: Coupling) -> bytes:
    """Return a coupling as a compressed NPZ file, read back exactly by `coupling_from_npz`.

    Arrays: plan, cost, null_source, null_target, f and g (empty where there are none); for each side points, weights,
    text, spans, word_of, sentence_of, word_spans, sentence_spans, and labels (unless one is longer than 1,000
    characters; the spans always say them); and facts, a JSON text.
    """
    arrays: dict[str, Any] = {
        "plan": coupling.plan,
        "cost": coupling.cost,
        "null_source": coupling.null_source,
        "null_target": coupling.null_target,
        "f": np.zeros(0) if coupling.f is None else coupling.f,
        "g": np.zeros(0) if coupling.g is None else coupling.g,
    }
    facts: dict[str, Any] = {
        "format": "sinkviz plan",
        "version": 1,
        **{
            name: getattr(coupling, name)
            for name in (
                "mechanism",
                "status",
                "residual",
                "iterations",
                "epsilon",
                "cost_scale",
                "relaxation",
                "null_cost",
                "device",
            )
        },
        "shown_coarser": coupling.solved is not None,
    }
    if facts["relaxation"] == float("inf"):
        facts["relaxation"] = "inf"
    for side in ("source", "target"):
        measure: Measure = getattr(coupling, side)
        arrays[f"{side}_points"] = measure.points
        arrays[f"{side}_weights"] = measure.weights
        arrays[f"{side}_text"] = _bytes(measure.text)
        for name in ("spans", "word_spans", "sentence_spans"):
            arrays[f"{side}_{name}"] = np.asarray(getattr(measure, name), dtype=np.int64).reshape(-1, 2)
        arrays[f"{side}_word_of"] = measure.word_of
        arrays[f"{side}_sentence_of"] = measure.sentence_of
        labels = measure.labels
        if max(map(len, labels)) <= LONGEST_LABEL and not any("\0" in label for label in labels):
            arrays[f"{side}_labels"] = np.asarray(labels, dtype=np.str_)
        facts[f"{side}_unit"] = measure.unit
        origin = measure.origin
        facts[f"{side}_origin"] = {
            "model": origin.model,
            "layer": origin.layer,
            "device": origin.device,
            "windows": origin.windows,
            "centred": origin.centred,
            "notes": list(origin.notes),
        }
    arrays["facts"] = np.asarray(json.dumps(facts))
    buffer = io.BytesIO()
    np.savez_compressed(buffer, **arrays)
    return buffer.getvalue()


def _bytes(text: str) -> np.ndarray[Any, np.dtype[np.uint8]]:
    return np.frombuffer(text.encode("utf-8"), dtype=np.uint8)


def coupling_from_npz(data: bytes, *, name: str = "plan") -> Coupling:
    """Return the coupling that `plan_npz` wrote.

    Raises:
        ValueError: another kind of file, a damaged or an oversized one.
    """
    from sinkviz.own import read_npz

    arrays = read_npz(data, name=name)
    try:
        facts = json.loads(str(arrays["facts"]))
        if facts["format"] != "sinkviz plan":
            raise ValueError(f"format {facts['format']!r:.40}")
        if facts["version"] != 1:
            raise ValueError(f"version {facts['version']!r:.40}; install a newer sinkviz")
        sides = {}
        for side in ("source", "target"):
            origin = facts[f"{side}_origin"]
            sides[side] = Measure(
                points=arrays[f"{side}_points"],
                weights=arrays[f"{side}_weights"],
                text=arrays[f"{side}_text"].tobytes().decode("utf-8"),
                spans=_spans(arrays[f"{side}_spans"]),
                word_of=arrays[f"{side}_word_of"],
                sentence_of=arrays[f"{side}_sentence_of"],
                word_spans=_spans(arrays[f"{side}_word_spans"]),
                sentence_spans=_spans(arrays[f"{side}_sentence_spans"]),
                unit=facts[f"{side}_unit"],
                origin=Origin(**{**origin, "notes": tuple(map(str, origin["notes"]))}),
            )
        return Coupling(
            plan=arrays["plan"],
            cost=arrays["cost"],
            source=sides["source"],
            target=sides["target"],
            cost_scale=float(facts["cost_scale"]),
            epsilon=float(facts["epsilon"]),
            f=arrays["f"] if arrays["f"].size else None,
            g=arrays["g"] if arrays["g"].size else None,
            mechanism=facts["mechanism"],
            status=str(facts["status"]),
            residual=float(facts["residual"]),
            iterations=int(facts["iterations"]),
            null_source=arrays["null_source"],
            null_target=arrays["null_target"],
            relaxation=None if facts["relaxation"] is None else float(facts["relaxation"]),
            null_cost=None if facts["null_cost"] is None else float(facts["null_cost"]),
            device=str(facts["device"]),
        )
    except (
        KeyError,
        TypeError,
        AttributeError,
        IndexError,
        json.JSONDecodeError,
        UnicodeDecodeError,
        RecursionError,
    ) as error:
        raise ValueError(f"{name}: expected a plan that sinkviz wrote, got another or a damaged file") from error
    except ValueError as error:
        raise ValueError(
            f"{name}: expected a plan that sinkviz wrote, got a damaged or another file: {error}"
        ) from error


def _spans(array: np.ndarray[Any, Any]) -> tuple[tuple[int, int], ...]:
    return tuple((int(start), int(end)) for start, end in array)
