"""`sinkviz matrix`: a cost, plan or attention matrix of one's own."""

from __future__ import annotations

import argparse
from typing import Any

from sinkviz.commands.common import add_output, read_data, read_text, report


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the options of the command to a parser."""
    parser.description = (
        "Look at a matrix of your own: a cost is solved, a plan is taken as it stands, attention weights become a plan."
    )
    parser.add_argument("matrix", help="CSV, TSV, blank-separated text, NPZ or NPY; - for standard input")
    parser.add_argument(
        "--kind", choices=("cost", "plan", "attention"), help="what it is (NPZ files may say so themselves)"
    )
    parser.add_argument("--layer", type=int, help="of attention with layers, from 0 (default: mean)")
    parser.add_argument("--head", type=int, help="of attention with heads, from 0 (default: mean)")
    parser.add_argument("--source-labels", metavar="FILE", help="one label a line")
    parser.add_argument("--target-labels", metavar="FILE", help="one label a line")
    parser.add_argument(
        "--mechanism", choices=("sinkhorn", "softmax", "relaxed", "partial", "exact"), help="for a cost"
    )
    parser.add_argument("--epsilon", type=float, help="ε, for a cost (default: 0.35 of its scale)")
    parser.add_argument("--epsilon-unit", choices=("scale", "absolute"))
    parser.add_argument("--relaxation", type=float)
    parser.add_argument("--null-cost", type=float)
    add_output(parser)


def run(options: argparse.Namespace) -> int:
    """Run the command and return its exit code."""
    from dataclasses import replace

    from sinkviz.own import couple_own, read_matrix

    own = read_matrix(read_data(options.matrix), name=options.matrix)
    for side in ("source", "target"):
        name = getattr(options, f"{side}_labels")
        if name is not None:
            changed: dict[str, Any] = {f"{side}_labels": tuple(read_text(name).splitlines())}
            own = replace(own, **changed)
    given: dict[str, Any] = {
        name: getattr(options, name)
        for name in ("mechanism", "epsilon", "epsilon_unit", "relaxation", "null_cost")
        if getattr(options, name) is not None
    }
    return report(couple_own(own, options.kind, layer=options.layer, head=options.head, **given), options)
