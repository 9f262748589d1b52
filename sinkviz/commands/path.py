"""`sinkviz path`: what ε does to one pair of texts."""

from __future__ import annotations

import argparse
import json
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

from sinkviz.commands.common import (
    Progress,
    add_embedding,
    add_pictures,
    one_standard_input,
    read_text,
    settings,
    table,
)

if TYPE_CHECKING:
    from sinkviz.coupling import Coupling

COLUMNS = (
    "epsilon",
    "epsilon_absolute",
    "transport_cost",
    "mutual_information",
    "mean_partners",
    "status",
    "residual",
    "iterations",
)
FORMATS = (".csv", ".tsv", ".json", ".npz", ".svg", ".pdf", ".png")


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the options of the command to a parser."""
    parser.description = "Solve two texts along a grid of ε and print cost, information and spread for each."
    parser.add_argument("source", help="a text file in UTF-8, or - for standard input")
    parser.add_argument("target", help="a text file in UTF-8, or - for standard input")
    parser.add_argument("--from", dest="high", type=float, default=10.0, help="largest ε, in units of the cost's scale")
    parser.add_argument("--to", dest="low", type=float, default=0.01, help="smallest ε")
    parser.add_argument("--count", type=int, default=41, help="how many, evenly on a logarithmic scale (default: 41)")
    parser.add_argument("--null-cost", type=float, help="price of having no partner")
    parser.add_argument("--json", action="store_true", help="print JSON instead of a table")
    parser.add_argument("--quiet", action="store_true", help="print errors only")
    parser.add_argument(
        "--out", action="append", default=[], metavar="FILE", help=f"write {', '.join(FORMATS)}; may be given again"
    )
    add_embedding(parser)
    add_pictures(parser)


def run(options: argparse.Namespace) -> int:
    """Run the command and return its exit code."""
    import numpy as np

    one_standard_input(options.source, options.target)
    if not 0 < options.low <= options.high < float("inf"):
        raise ValueError(f"--from, --to: expected 0 < to <= from, got from {options.high} to {options.low}")
    if not 1 <= options.count <= 1000:
        raise ValueError(f"--count: expected 1 to 1000, got {options.count}")
    for path in options.out:
        if Path(path).suffix.lower() not in FORMATS:
            raise ValueError(f"{path}: expected a name that ends in {', '.join(FORMATS)}, got another ending")
    if options.picture not in (None, ["curves"]):
        raise ValueError("--picture: the picture of a path is curves")
    from sinkviz.pipeline import epsilon_path

    chosen = settings(options)
    first, second = (chosen.embed(read_text(name)) for name in (options.source, options.target))
    progress = Progress(options.quiet)
    path = epsilon_path(
        first,
        second,
        np.geomspace(options.high, options.low, options.count),
        progress=progress.count,
        null_cost=options.null_cost,
    )
    progress.close()
    couplings = [path[k] for k in range(len(path))]
    rows = [
        (
            c.epsilon_relative,
            c.epsilon,
            c.transport_cost,
            c.mutual_information,
            c.mean_partners,
            c.status,
            c.residual,
            c.iterations,
        )
        for c in couplings
    ]
    records = [dict(zip(COLUMNS, row, strict=True)) for row in rows]
    if options.json:
        print(json.dumps(records, indent=2))
    elif not options.quiet:
        shown = [[f"{r[0]:.4g}", f"{r[2]:.4g}", f"{r[3]:.4g}", f"{r[4]:.3g}", r[5]] for r in rows]
        print(table(("ε / scale", "cost", "information", "partners", "status"), shown, left=(4,)))
    for name in options.out:
        _write(name, options, couplings, rows, records, path.epsilons)
        if not options.quiet:
            print(f"wrote {name}", file=sys.stderr)
    return 0 if all(c.converged for c in couplings) else 1


def _write(
    name: str,
    options: argparse.Namespace,
    couplings: list[Coupling],
    rows: list[tuple[Any, ...]],
    records: list[dict[str, Any]],
    epsilons: object,
) -> None:
    import io

    import numpy as np

    from sinkviz.files import write_whole

    suffix = Path(name).suffix.lower()
    if suffix == ".json":
        data = (json.dumps(records, indent=2) + "\n").encode()
    elif suffix in (".csv", ".tsv"):
        from sinkviz.export.tables import csv_text

        data = csv_text(COLUMNS, rows, separator="," if suffix == ".csv" else "\t").encode()
    elif suffix == ".npz":
        buffer = io.BytesIO()
        np.savez_compressed(
            buffer,
            epsilons=np.asarray(epsilons),
            plans=np.stack([c.plan for c in couplings]),
            f=np.stack([np.asarray(c.f) for c in couplings]),
            g=np.stack([np.asarray(c.g) for c in couplings]),
            cost=couplings[0].cost,
            status=np.asarray([c.status for c in couplings]),
            source_weights=couplings[0].source.weights,
            target_weights=couplings[0].target.weights,
        )
        data = buffer.getvalue()
    else:
        from sinkviz.export.convert import to_pdf, to_png
        from sinkviz.export.pictures import Size, compose
        from sinkviz.figures import epsilon_curves

        size = Size(width=options.width, width_mm=options.width_mm, font_pt=options.font_pt, height=options.height)
        extra: dict[str, Any] = {} if size.height is None else {"height": int(size.height)}
        figure = epsilon_curves(couplings, theme=options.theme, width=int(size.canvas(1)), **extra)
        drawn = compose([[figure]], size=size, theme=options.theme, font=options.font)
        if suffix == ".svg":
            data = drawn.svg.encode()
        else:
            data = to_pdf(drawn) if suffix == ".pdf" else to_png(drawn, dpi=options.dpi)
    write_whole(name, data)
