"""The command line: `sinkviz couple A B` and its neighbours; only the command that runs is imported."""

from __future__ import annotations

import argparse
import importlib
import os
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

from sinkviz import __version__
from sinkviz.process import prepare

COMMANDS = {
    "app": ("sinkviz.cli", "start the page in the browser"),
    "couple": (
        "sinkviz.commands.couple",
        "print the strongest links of two texts, write plan, links, session, figures",
    ),
    "path": ("sinkviz.commands.path", "what ε does: cost, information and spread along a grid"),
    "align": ("sinkviz.commands.align", "word links of parallel lines in Pharaoh format"),
    "batch": ("sinkviz.commands.batch", "couple a table of pairs, resumable"),
    "matrix": ("sinkviz.commands.matrix", "look at a cost, plan or attention matrix of your own"),
    "open": ("sinkviz.commands.session", "open a session file and compute it again"),
    "diff": ("sinkviz.commands.diff", "what changed between two sessions"),
    "models": ("sinkviz.commands.models", "list what can be chosen by name"),
    "train": ("sinkviz.alignment.train_command", "train a Sinkhorn Transformer to align words"),
    "evaluate": ("sinkviz.alignment.command", "measure word links against human alignments"),
    "approximate": ("sinkviz.approximation.command", "run the experiments on the approximation theorem"),
}


def main(arguments: Sequence[str] | None = None) -> int:
    """Run a command and return its exit code.

    0 done; 1 done, but not all of it worked; 2 wrong use, or input that cannot be used; 130 interrupted.
    """
    prepare()
    words = list(sys.argv[1:] if arguments is None else arguments)
    wanted = next((word for word in words if not word.startswith("-")), "")
    options = _parser(wanted).parse_args(words)
    try:
        code = int(options.run(options))
        sys.stdout.flush()
        return code
    except BrokenPipeError:
        # The reader has gone (`| head`); python would complain once more when it closes the stream.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 0
    except (ValueError, OSError) as error:
        print(f"sinkviz: {error}", file=sys.stderr)
        return 2
    except KeyboardInterrupt:
        print("sinkviz: interrupted", file=sys.stderr)
        return 130


def _parser(wanted: str) -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="sinkviz", description="Two texts, one coupling: the Sinkhorn Transformer beside softmax attention."
    )
    parser.add_argument("--version", action="version", version=f"sinkviz {__version__}")
    commands = parser.add_subparsers(required=True, metavar="command")
    for name, (module, words) in COMMANDS.items():
        command = commands.add_parser(name, help=words)
        if wanted == name:  # Only the command that runs is imported: help stays instant.
            room = sys.modules[__name__] if module == __name__ else importlib.import_module(module)
            room.add_arguments(command)
            command.set_defaults(run=room.run)
    return parser


def app_file() -> Path:
    """Return where app.py lives: beside the package in a checkout, inside it once installed."""
    package = Path(__file__).resolve().parent
    installed = package / "app" / "app.py"
    return installed if installed.exists() else package.parent / "app.py"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of `app`."""
    parser.add_argument("options", nargs="*", help="options of `streamlit run`, after --")


def run(options: argparse.Namespace) -> int:
    """Start the page."""
    command = [sys.executable, "-m", "streamlit", "run", str(app_file()), *options.options]
    try:
        return subprocess.run(command, env=os.environ, check=False).returncode
    except KeyboardInterrupt:
        return 0
