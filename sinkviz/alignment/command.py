"""`python -m sinkviz evaluate`: methods compared on gold links, from the command line."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from sinkviz.alignment.evaluation import EvaluationResult

DESCRIPTION = (
    "Find word links by several methods and compare them with links that people made. Settings are tuned on other "
    "folds than those reported (or on --dev). Without files: the set of short pairs that comes with sinkviz."
)


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the options of the command to a parser."""
    parser.add_argument(
        "gold",
        nargs="*",
        metavar="FILE",
        help="one file (sinkviz JSON, Edinburgh++ JSON, tab-separated), two (Edinburgh++ sure, then possible), three "
        "(Pharaoh source, target, links), or a folder that holds a set",
    )
    parser.add_argument("--model", help="embedding model (default: by the set's languages)")
    parser.add_argument("--layer", type=int, help="hidden layer (default: the model's own default)")
    parser.add_argument("--centre", action="store_true", help="subtract the mean over each text's tokens")
    parser.add_argument(
        "--methods",
        default="",
        metavar="NAMES",
        help='names separated by commas, or "all" (default: softmax,bidirectional,cosine,sinkhorn,partial)',
    )
    parser.add_argument(
        "--orders",
        default="0",
        metavar="NUMBERS",
        help="weights of word order to choose among, separated by commas (default: 0, no word order)",
    )
    parser.add_argument(
        "--neighbours",
        default="0",
        metavar="NUMBERS",
        help="weights of the words before and after to choose among (default: 0, words alone)",
    )
    parser.add_argument("--folds", type=int, default=5, help="parts of the cross-validation (default: 5)")
    parser.add_argument("--seed", type=int, default=0, help="of the folds (default: 0)")
    parser.add_argument("--dev", nargs="+", metavar="FILE", help="a gold set to tune on instead of folds")
    parser.add_argument("--index-base", type=int, default=0, choices=(0, 1), help="first word's index in Pharaoh links")
    parser.add_argument("--pairs", type=int, metavar="N", help="use the first N pairs only")
    parser.add_argument("--reference", default="cosine", help="method that the others are compared with")
    parser.add_argument("--curves", action="store_true", help="also F1 against epsilon and against the layer")
    parser.add_argument("--out", type=Path, metavar="FILE", help="write the whole result as JSON")
    parser.add_argument("--json", action="store_true", help="print the whole result as JSON instead of a table")
    parser.add_argument("--quiet", action="store_true", help="no progress")


def run(args: argparse.Namespace) -> int:
    """Run the command; returns 0, 2 for input that cannot be used, 130 when it was interrupted."""
    from sinkviz.alignment.evaluation import evaluate
    from sinkviz.alignment.gold import mini_gold, read_gold
    from sinkviz.alignment.methods import FIVE, methods

    try:
        gold = read_gold(*args.gold, index_base=args.index_base) if args.gold else mini_gold()
        if args.pairs is not None:
            if not 1 <= args.pairs <= len(gold):
                raise ValueError(f"--pairs: expected 1 to {len(gold)} (pairs in the set), got {args.pairs}")
            gold = gold.subset(range(args.pairs))
        names = list(methods()) if args.methods == "all" else [n for n in args.methods.split(",") if n] or list(FIVE)
        result = evaluate(
            gold,
            model=args.model,
            layer=args.layer,
            centre=args.centre,
            orders=_numbers("--orders", args.orders),
            neighbours=_numbers("--neighbours", args.neighbours),
            method_names=names,
            folds=args.folds,
            seed=args.seed,
            dev=read_gold(*args.dev) if args.dev else None,
            epsilon_curve=args.curves,
            layer_curve=args.curves,
            progress=None if args.quiet else _terminal_progress(),
        )
        if args.out is not None:
            args.out.write_text(result.to_json() + "\n", encoding="utf-8")
        reference = args.reference if args.reference in {method.name for method in result.methods} else None
        print(result.to_json() if args.json else report(result, reference))
    except (ValueError, OSError) as error:
        print(f"sinkviz evaluate: {error}", file=sys.stderr)
        return 2
    except KeyboardInterrupt:
        print("sinkviz evaluate: interrupted", file=sys.stderr)
        return 130
    return 0


def _numbers(option: str, text: str) -> tuple[float, ...]:
    try:
        return tuple(float(number) for number in text.split(","))
    except ValueError:
        raise ValueError(f"{option}: expected numbers separated by commas, got {text!r}") from None


def _terminal_progress() -> Callable[[float, str], None] | None:
    if not sys.stderr.isatty():
        return None

    def show(share: float, line: str) -> None:
        end = "\n" if share >= 1 else ""
        print(f"\r\x1b[2K{share:4.0%} {line}", end=end, file=sys.stderr, flush=True)

    return show


def report(result: EvaluationResult, reference: str | None = None) -> str:
    """Return a result as plain text: a table of methods in percent, the settings chosen, and the curves."""
    from sinkviz.alignment.evaluation import describe

    lines = [
        f"{result.data}: {result.pairs} pairs, {result.links} sure links; {result.model} layer {result.layer}"
        f"{', centred' if result.centred else ''}; tuned on {result.tuned_on}; {result.seconds:.1f} s",
        "percent; 95 % bootstrap intervals over sentence pairs"
        + (f"; difference in F1 to {reference} and p of a paired bootstrap test" if reference else ""),
        "",
    ]
    header = ["method", "F1", "", "precision", "recall", "AER", "AP"] + (["difference", "", "p"] if reference else [])
    table = [header]
    for row in result.table(reference):
        cells = [
            row["name"],
            f"{100 * row['F1']:.1f}",
            f"[{100 * row['F1 low']:.1f}, {100 * row['F1 high']:.1f}]",
            f"{100 * row['precision']:.1f}",
            f"{100 * row['recall']:.1f}",
            f"{100 * row['AER']:.1f}",
            f"{100 * row['AP']:.1f}",
        ]
        if reference == row["name"]:
            cells += ["", "", ""]
        elif reference:
            cells += [
                f"{100 * row['difference']:+.1f}",
                f"[{100 * row['difference low']:+.1f}, {100 * row['difference high']:+.1f}]",
                f"{row['p']:.4f}",
            ]
        table.append(cells)
    widths = [max(len(row[k]) for row in table) for k in range(len(header))]
    lines += ["  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip() for row in table]
    lines += ["", "settings chosen (one for each fold, repeated ones once)"]
    for method in result.methods:
        lines.append(f"  {method.name}: {' | '.join(dict.fromkeys(describe(one) for one in method.chosen))}")
    for title, points in (("epsilon", result.epsilon_curve), ("layer", result.layer_curve)):
        if points:
            lines += ["", f"F1 against {title}"]
            names = list(dict.fromkeys(point.method for point in points))
            for name in names:
                shown = [f"{point.at:g}: {100 * point.f1.value:.1f}" for point in points if point.method == name]
                lines.append(f"  {name}: {', '.join(shown)}")
    if result.unsolved:
        lines += ["", f"{result.unsolved} solves stopped before their tolerance"]
    return "\n".join(lines)
