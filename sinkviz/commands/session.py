"""`sinkviz open`: a session file, computed again."""

from __future__ import annotations

import argparse
import sys

from sinkviz.commands.common import add_output, report


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the options of the command to a parser."""
    parser.description = "Open a session file, compute it again, print the strongest links; --out writes other formats."
    parser.add_argument("session", help="a .json file that the page or `couple --out` wrote")
    add_output(parser)


def run(options: argparse.Namespace) -> int:
    """Run the command and return its exit code."""
    from sinkviz.session import current_versions, load

    session = load(options.session)
    coupling = session.run()
    stored = session.result
    if stored is not None and not options.quiet:
        away = abs(stored.transport_cost - coupling.transport_cost)
        if away > 1e-3 * max(1e-9, abs(stored.transport_cost)):
            changed = [
                f"{name} {version} then, {now} now"
                for name, version in session.versions.items()
                if (now := current_versions().get(name)) != version
            ]
            print(
                f"sinkviz: the transport cost was {stored.transport_cost:.6g} when the session was written and is "
                f"{coupling.transport_cost:.6g} now" + (f" ({'; '.join(changed)})" if changed else ""),
                file=sys.stderr,
            )
    return report(coupling, options, encoder=session.settings.encoder)
