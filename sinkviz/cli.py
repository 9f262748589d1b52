"""The command line: `sinkviz app`, `sinkviz couple A B`, and the rooms that bring commands of their own."""

from __future__ import annotations

import argparse
import importlib
import json
import os
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from sinkviz import __version__
from sinkviz.process import prepare

_ROOMS = {
    "approximate": ("sinkviz.approximation.command", "run the experiments on the approximation theorem"),
    "evaluate": ("sinkviz.alignment.command", "measure word links against human alignments"),
}


def main(arguments: Sequence[str] | None = None) -> int:
    """Run a command and return its exit code: 0 done, 1 not possible, 2 wrong use."""
    prepare()
    words = list(sys.argv[1:] if arguments is None else arguments)
    options = _parser(words[0] if words else "").parse_args(words)
    try:
        return int(options.run(options))
    except (ValueError, OSError) as error:
        print(f"sinkviz: {error}", file=sys.stderr)
        return 1
    except BrokenPipeError:
        return 0


def _parser(wanted: str) -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="sinkviz", description="Two texts, one coupling: the Sinkhorn Transformer beside softmax attention."
    )
    parser.add_argument("--version", action="version", version=f"sinkviz {__version__}")
    commands = parser.add_subparsers(required=True, metavar="command")
    app = commands.add_parser("app", help="start the page in the browser")
    app.add_argument("options", nargs="*", help="options of `streamlit run`, after --")
    app.set_defaults(run=_app)
    couple = commands.add_parser("couple", help="print the strongest links of two texts")
    couple.add_argument("source", help="a text file in UTF-8, or - for standard input")
    couple.add_argument("target", help="a text file in UTF-8, or - for standard input")
    couple.add_argument("--mechanism", default="sinkhorn", choices=("sinkhorn", "softmax", "relaxed", "partial", "exact"))
    couple.add_argument("--epsilon", type=float, help="in units of the cost's scale (default 0.35)")
    couple.add_argument("--relaxation", type=float, help='weight ρ for "relaxed", in the same units')
    couple.add_argument("--null-cost", type=float, help='price of no partner for "partial", in units of the cost')
    couple.add_argument("--model", help="embedding model")
    couple.add_argument("--layer", type=int, help="hidden layer (default: the model's own)")
    couple.add_argument("--unit", default="word", choices=("token", "word", "sentence"), help="what is solved on")
    couple.add_argument("--links", type=int, default=20, help="how many links to print (default 20)")
    couple.add_argument("--json", action="store_true", help="print JSON instead of a table")
    couple.set_defaults(run=_couple)
    for name, (module, words) in _ROOMS.items():
        command = commands.add_parser(name, help=words)
        if wanted == name:  # Only the command that runs is imported: help stays instant.
            room = importlib.import_module(module)
            room.add_arguments(command)
            command.set_defaults(run=room.run)
    return parser


def app_file() -> Path:
    """Return where app.py lives: beside the package in a checkout, inside it once installed."""
    package = Path(__file__).resolve().parent
    installed = package / "app" / "app.py"
    return installed if installed.exists() else package.parent / "app.py"


def _app(options: argparse.Namespace) -> int:
    command = [sys.executable, "-m", "streamlit", "run", str(app_file()), *options.options]
    try:
        return subprocess.run(command, env=os.environ, check=False).returncode
    except KeyboardInterrupt:
        return 0


def _read(name: str) -> str:
    try:
        if name == "-":
            return sys.stdin.buffer.read().decode("utf-8-sig")
        return Path(name).read_bytes().decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise ValueError(f"{name}: expected text in UTF-8, got other bytes; save the file as UTF-8") from error


def _couple(options: argparse.Namespace) -> int:
    if options.source == options.target == "-":
        raise ValueError("source and target: only one of them can be standard input")
    source, target = _read(options.source), _read(options.target)
    from sinkviz.pipeline import couple

    given: dict[str, Any] = {
        name: getattr(options, name)
        for name in ("epsilon", "relaxation", "null_cost", "model", "layer")
        if getattr(options, name) is not None
    }
    coupling = couple(source, target, mechanism=options.mechanism, unit=options.unit, **given)
    links = coupling.top_links(options.links)
    facts = {
        "mechanism": coupling.mechanism,
        "status": coupling.status,
        "epsilon": coupling.epsilon,
        "cost_scale": coupling.cost_scale,
        "transport_cost": coupling.transport_cost,
        "mutual_information": coupling.mutual_information,
        "mean_partners": coupling.mean_partners,
        "row_error": coupling.row_error,
        "column_error": coupling.column_error,
    }
    if options.json:
        rows = [
            {
                "source": link.source_index,
                "target": link.target_index,
                "source_label": link.source_label,
                "target_label": link.target_label,
                "mass": link.mass,
                "share_of_row": link.share_of_row,
            }
            for link in links
        ]
        print(json.dumps({**facts, "links": rows}, ensure_ascii=False, indent=2))
    else:
        width = max([len(repr(link.source_label)) for link in links], default=0)
        print(f"{'mass %':>7}  {'of source %':>11}  link")
        for link in links:
            label = f"{link.source_label!r:>{width}} → {link.target_label!r}"
            print(f"{100 * link.mass:7.2f}  {100 * link.share_of_row:11.1f}  {label}")
        print(
            f"{coupling.status}; mutual information {coupling.mutual_information:.3g} nat, transport cost "
            f"{coupling.transport_cost:.3g}, {coupling.mean_partners:.3g} effective partners"
        )
    if not coupling.converged:
        print(
            f"sinkviz: the solver stopped early ({coupling.status}): errors of the marginals "
            f"{coupling.row_error:.1e} and {coupling.column_error:.1e}; a larger epsilon converges sooner",
            file=sys.stderr,
        )
        return 1
    return 0
