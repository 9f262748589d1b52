"""`sinkviz batch`: a table of pairs, row by row, resumable."""

from __future__ import annotations

import argparse
import json
import sys
from pathlib import Path

from sinkviz.commands.common import Progress, add_embedding, add_solving, duration, settings

SHOWN = 20


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the options of the command to a parser."""
    parser.description = (
        "Couple every pair of a table and write a table of results. Stopped or killed, the same command goes on where "
        "it was. Bad rows are reported with their line and do not stop the rest."
    )
    parser.add_argument("table", help=".csv, .tsv, .jsonl or .parquet")
    parser.add_argument("--out", required=True, metavar="FILE", help=".csv, .tsv, .jsonl or .parquet")
    parser.add_argument("--source", metavar="COLUMN", help="column of the source texts (default: source, or the first)")
    parser.add_argument(
        "--target", metavar="COLUMN", help="column of the target texts (default: target, or the second)"
    )
    parser.add_argument("--gold", metavar="COLUMN", help="column of gold links i-j; words then stand between blanks")
    parser.add_argument("--no-baselines", action="store_true", help="leave out self and shuffled pairs")
    parser.add_argument("--no-texts", action="store_true", help="leave the texts out of the result")
    parser.add_argument("--seed", type=int, default=0, help="of the shuffled pairs (default: 0)")
    parser.add_argument("--engine", choices=("local", "ray"), default="local", help="where (ray: optional extra)")
    parser.add_argument("--workers", type=int, default=1, help="processes of the local engine (default: 1)")
    parser.add_argument(
        "--spreadsheet-safe", action="store_true", help="mark cells that a spreadsheet takes for formulas"
    )
    parser.add_argument("--json", action="store_true", help="print the report as JSON")
    parser.add_argument("--quiet", action="store_true", help="print errors only")
    add_embedding(parser)
    add_solving(parser)


def run(options: argparse.Namespace) -> int:
    """Run the command and return its exit code."""
    from sinkviz.batch import BatchRow, BatchSettings, batch, partial_path, read_pairs

    if Path(options.out).absolute() == Path(options.table).absolute():
        raise ValueError(f"--out: {options.out} is the table itself; choose another name")
    table = read_pairs(Path(options.table), source=options.source, target=options.target, gold=options.gold)
    progress = Progress(options.quiet)
    shown = 0

    def report_bad(rows: object) -> None:
        nonlocal shown
        assert isinstance(rows, list)
        bad: list[BatchRow] = [row for row in rows if row.status == "error"]
        for row in bad[: max(0, SHOWN - shown)]:
            progress.close()
            print(f"sinkviz: {options.table}, line {row.line}: {row.problem}", file=sys.stderr)
        shown += len(bad)

    try:
        report = batch(
            table,
            options.out,
            BatchSettings(settings(options), baselines=not options.no_baselines, seed=options.seed),
            engine=options.engine,
            workers=options.workers,
            texts=not options.no_texts,
            spreadsheet_safe=options.spreadsheet_safe,
            progress=progress.count,
            finished_rows=report_bad,
        )
    except KeyboardInterrupt:
        progress.close()
        print(
            f"sinkviz: stopped; finished rows are in {partial_path(options.out)}, the same command goes on from there",
            file=sys.stderr,
        )
        return 130
    progress.close()
    if shown > SHOWN:
        print(f"sinkviz: {shown - SHOWN:,} more bad rows; the column problem of the result says why", file=sys.stderr)
    if options.json:
        print(json.dumps(vars(report), indent=2))
    elif not options.quiet:
        new = report.done - report.resumed
        rate = f", {new / report.seconds:.0f} a second" if report.seconds > 0.5 and new else ""
        print(
            f"{report.path}: {report.done:,} rows ({report.resumed:,} from an earlier run), {report.bad:,} bad, "
            f"{report.not_converged:,} not converged, {duration(report.seconds)}{rate}"
        )
    return 1 if report.bad or report.not_converged else 0
