"""`sinkviz align`: word links of parallel lines in Pharaoh format, as translation pipelines read them."""

from __future__ import annotations

import argparse
import sys

from sinkviz.commands.common import Progress, one_standard_input, read_text


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the options of the command to a parser."""
    parser.description = (
        "Align the words of parallel lines and print links i-j, counted from 0: one line for each pair, an empty line "
        "for an empty one. Words stand between blanks, unless --raw."
    )
    parser.add_argument("source", help="one sentence a line; or, alone, lines of the form: source ||| target")
    parser.add_argument("target", nargs="?", help="as many lines; - for standard input")
    parser.add_argument("--raw", action="store_true", help="find the words by Unicode's rules (punctuation is a word)")
    parser.add_argument("--model", help="embedding model (`sinkviz models` lists them)")
    parser.add_argument("--layer", type=int, help="hidden layer")
    parser.add_argument(
        "--mechanism", default="partial", help="partial (default), sinkhorn, relaxed, softmax, bidirectional, cosine"
    )
    parser.add_argument("--epsilon", type=float)
    parser.add_argument("--null-cost", type=float)
    parser.add_argument("--threshold", type=float, help="share that two words must exchange, 0 to 1")
    parser.add_argument("--index-base", type=int, choices=(0, 1), default=0, help="first word's number (default: 0)")
    parser.add_argument("--quiet", action="store_true", help="no progress")


def run(options: argparse.Namespace) -> int:
    """Run the command and return its exit code."""
    from sinkviz.alignment.align import align

    if options.target is None:
        pairs = []
        for number, line in enumerate(_lines(read_text(options.source)), start=1):
            parts = line.split(" ||| ") if line.strip() else ["", ""]
            if len(parts) != 2:
                raise ValueError(
                    f"{options.source}, line {number}: expected one ' ||| ' between the texts, got {len(parts) - 1}"
                )
            pairs.append((parts[0], parts[1]))
    else:
        one_standard_input(options.source, options.target)
        left, right = (_lines(read_text(name)) for name in (options.source, options.target))
        if len(left) != len(right):
            raise ValueError(
                f"expected equally many lines, got {len(left)} in {options.source} and {len(right)} in {options.target}"
            )
        pairs = list(zip(left, right, strict=True))
    progress = Progress(options.quiet)
    chosen = {
        name: getattr(options, name)
        for name in ("model", "layer", "mechanism", "epsilon", "null_cost", "threshold")
        if getattr(options, name) is not None
    }
    failed = 0
    base = options.index_base
    for number, (source, target) in enumerate(pairs, start=1):
        if source.strip() and target.strip():
            try:
                texts = (source, target) if options.raw else (source.split(), target.split())
                links = align(*texts, **chosen)
                print(" ".join(f"{i + base}-{j + base}" for i, j in links), flush=number % 50 == 0)
            except ValueError as error:
                if number == 1 or "model" in str(error) or "mechanism" in str(error):
                    raise
                failed += 1
                progress.close()
                print(f"sinkviz: line {number}: {error}", file=sys.stderr)
                print()
        else:
            print()
        progress.count(number, len(pairs))
    progress.close()
    return 1 if failed else 0


def _lines(text: str) -> list[str]:
    lines = text.split("\n")
    if lines and lines[-1] == "":
        lines.pop()
    return [line.removesuffix("\r") for line in lines]
