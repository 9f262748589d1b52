"""`sinkviz diff`: what changed between two sessions."""

from __future__ import annotations

import argparse
import json
import sys
from pathlib import Path

from sinkviz.commands.common import add_pictures, shorten, table, visible

FORMATS = (".csv", ".tsv", ".svg", ".pdf", ".png")


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the options of the command to a parser."""
    parser.description = (
        "Compare two sessions: the same texts with other settings, or two targets of one source. Prints the facts of "
        "both and the tokens whose mass moved most."
    )
    parser.add_argument("first", help="a session file")
    parser.add_argument("second", help="a session file")
    parser.add_argument("--show-as", choices=("token", "word", "sentence"), help="compare by coarser units")
    parser.add_argument("--count", type=int, default=10, help="how many tokens of each side (default: 10)")
    parser.add_argument("--json", action="store_true", help="print JSON instead of tables")
    parser.add_argument("--quiet", action="store_true", help="print errors only")
    parser.add_argument(
        "--out",
        action="append",
        default=[],
        metavar="FILE",
        help="write the matrix (.csv, .tsv) or its picture (.svg, .pdf, .png)",
    )
    add_pictures(parser)


def run(options: argparse.Namespace) -> int:
    """Run the command and return its exit code."""
    from sinkviz.session import difference, load

    for path in options.out:
        if Path(path).suffix.lower() not in FORMATS:
            raise ValueError(f"{path}: expected a name that ends in {', '.join(FORMATS)}, got another ending")
    couplings = [load(name).run() for name in (options.first, options.second)]
    if options.show_as:
        couplings = [coupling.coarsen(options.show_as) for coupling in couplings]
    change = difference(*couplings)
    moved = {side: change.most_moved(side, options.count) for side in ("source", "target")}
    if options.json:
        document = {
            "distance": change.distance,
            "facts": [{"name": name, "first": one, "second": other} for name, one, other in change.facts],
            **{f"{side}_moved": [vars(one) for one in moved[side]] for side in moved},
        }
        print(json.dumps(document, ensure_ascii=False, indent=2))
    elif not options.quiet:
        print(
            f"{100 * change.distance:.3g} % of the mass moved, on {len(change.source_pairs)} × "
            f"{len(change.target_pairs)} common atoms"
        )
        rows = [[name, f"{one:.4g}", f"{other:.4g}", f"{other - one:+.3g}"] for name, one, other in change.facts]
        print(table(("", "first", "second", "change"), rows, left=(0,)))
        for side, ones in moved.items():
            print()
            body = [
                [
                    f"{100 * one.mass:.2f}",
                    f"{100 * one.share:.1f}",
                    shorten(visible(one.label), 30),
                    shorten(visible(one.lost), 30) if one.lost else "",
                    shorten(visible(one.gained), 30) if one.gained else "",
                ]
                for one in ones
            ]
            print(table(("moved %", "of its mass %", side, "away from", "towards"), body, left=(2, 3, 4)))
    for name in options.out:
        _write(name, options, change)
        if not options.quiet:
            print(f"wrote {name}", file=sys.stderr)
    return 0 if all(coupling.converged for coupling in couplings) else 1


def _write(name: str, options: argparse.Namespace, change: object) -> None:
    from sinkviz.files import write_whole
    from sinkviz.session import Difference

    assert isinstance(change, Difference)
    suffix = Path(name).suffix.lower()
    if suffix in (".csv", ".tsv"):
        from sinkviz.export.tables import csv_text

        rows = [[label, *row] for label, row in zip(change.source_labels, change.matrix.tolist(), strict=True)]
        write_whole(
            name, csv_text(["", *change.target_labels], rows, separator="," if suffix == ".csv" else "\t").encode()
        )
        return
    from sinkviz.export.convert import to_pdf, to_png
    from sinkviz.export.pictures import Size, picture_of_difference

    size = Size(width=options.width, width_mm=options.width_mm, font_pt=options.font_pt, height=options.height)
    drawn = picture_of_difference(change, size=size, theme=options.theme, font=options.font)
    if suffix == ".svg":
        write_whole(name, drawn.svg.encode())
    else:
        write_whole(name, to_pdf(drawn) if suffix == ".pdf" else to_png(drawn, dpi=options.dpi))
