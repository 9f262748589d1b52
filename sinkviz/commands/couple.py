"""`sinkviz couple`: two texts, one coupling, its strongest links."""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING

from sinkviz.commands.common import (
    add_embedding,
    add_output,
    add_solving,
    one_standard_input,
    read_data,
    read_text,
    report,
    settings,
)

if TYPE_CHECKING:
    from sinkviz.coupling import Coupling
    from sinkviz.measure import Measure


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the options of the command to a parser."""
    parser.description = "Couple two texts and print the strongest links; --out writes files."
    parser.add_argument("source", help="a text file in UTF-8, or - for standard input")
    parser.add_argument("target", help="a text file in UTF-8, or - for standard input")
    form = parser.add_mutually_exclusive_group()
    form.add_argument(
        "--words", action="store_true", help="the files hold words between blanks; keep them as they stand"
    )
    form.add_argument(
        "--points", action="store_true", help="the files hold points (CSV or NPZ: label, weight, coordinates), no text"
    )
    parser.add_argument("--pharaoh", action="store_true", help="print word links as i-j in one line, counted from 0")
    add_embedding(parser)
    add_solving(parser)
    add_output(parser)


def run(options: argparse.Namespace) -> int:
    """Run the command and return its exit code."""
    one_standard_input(options.source, options.target)
    chosen = settings(options)
    if options.points:
        from sinkviz.own import read_points

        if any(getattr(options, name) is not None for name in ("model", "layer", "unit")) or options.centre:
            raise ValueError("--points: --model, --layer, --unit and --centre belong to texts; leave them out")
        measures = [read_points(read_data(name), name=name) for name in (options.source, options.target)]
        coupling = chosen.couple(*measures)
        return report(coupling, options, encoder=chosen.encoder)
    texts: list[str | list[str]] = [read_text(name) for name in (options.source, options.target)]
    if options.words:
        texts = [str(text).split() for text in texts]
    for name, text in zip((options.source, options.target), texts, strict=True):
        if not text:
            raise ValueError(f"{name}: expected a text, got an empty file")
    coupling = chosen.couple(*texts)
    if options.pharaoh:
        print(" ".join(f"{i}-{j}" for i, j in word_links(coupling, texts[0], texts[1])))
        options.quiet = True
    return report(coupling, options, encoder=chosen.encoder)


def word_links(coupling: Coupling, source: str | list[str], target: str | list[str]) -> list[tuple[int, int]]:
    """Return word links of a coupling, numbered by the words of the texts (a word without a token has none)."""
    from sinkviz.alignment.links import links_from_coupling

    rows, columns = (_numbers(*side) for side in ((source, coupling.source), (target, coupling.target)))
    links = links_from_coupling(coupling, rule="null" if coupling.mechanism == "partial" else "mutual")
    return [(rows[i], columns[j]) for i, j in links]


def _numbers(text: str | list[str], measure: Measure) -> list[int]:
    from sinkviz.text import join_words, word_spans

    spans = word_spans(text) if isinstance(text, str) else join_words(text)[1]
    number = {start: index for index, (start, _) in enumerate(spans)}
    return [number[start] for start, _ in measure.word_spans]
