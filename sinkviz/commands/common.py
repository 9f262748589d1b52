"""What the commands share: options, reading, progress, and how links and facts are printed."""

from __future__ import annotations

import argparse
import json
import sys
import time
import unicodedata
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, TextIO

if TYPE_CHECKING:
    from sinkviz.coupling import Coupling
    from sinkviz.settings import CouplingSettings

MECHANISMS = ("sinkhorn", "softmax", "relaxed", "partial", "exact")
UNITS = ("token", "word", "sentence")
PICTURES = ("lines", "heatmap", "lift", "difference", "clouds", "clouds3d", "received", "curves")
MAXIMUM_BYTES = 64 * 2**20


def add_embedding(parser: argparse.ArgumentParser) -> None:
    """Add the options that turn a text into a measure."""
    group = parser.add_argument_group("embedding")
    group.add_argument("--model", default=None, help="embedding model (`sinkviz models` lists them)")
    group.add_argument("--layer", type=int, help="hidden layer (default: the model's own)")
    group.add_argument("--unit", choices=UNITS, default=None, help="what is solved on (default: word)")
    group.add_argument("--centre", action="store_true", help="subtract the mean of each text's tokens")


def add_solving(parser: argparse.ArgumentParser) -> None:
    """Add the options that turn two measures into a coupling."""
    group = parser.add_argument_group("coupling")
    group.add_argument("--mechanism", choices=MECHANISMS, default="sinkhorn", help="which problem (default: sinkhorn)")
    group.add_argument("--epsilon", type=float, help="ε (default: 0.35 of the cost's scale, or the encoder's own)")
    group.add_argument("--epsilon-unit", choices=("scale", "absolute"), help="unit of ε and ρ (default: scale)")
    group.add_argument("--relaxation", type=float, help="ρ, for relaxed: 0 = softmax, inf = sinkhorn")
    group.add_argument("--null-cost", type=float, help="price of having no partner, for partial and softmax")
    group.add_argument("--encoder", help="a trained Sinkhorn Transformer (`sinkviz models` lists them)")


def settings(options: argparse.Namespace) -> CouplingSettings:
    """Return the settings that the options ask for."""
    from sinkviz.settings import CouplingSettings

    given = {
        name: getattr(options, name)
        for name in (
            "model",
            "layer",
            "unit",
            "mechanism",
            "epsilon",
            "epsilon_unit",
            "relaxation",
            "null_cost",
            "encoder",
        )
        if getattr(options, name, None) is not None
    }
    return CouplingSettings(centre=bool(getattr(options, "centre", False)), **given)


def add_output(parser: argparse.ArgumentParser, *, pictures: bool = True) -> None:
    """Add the options that say what is printed and written."""
    group = parser.add_argument_group("output")
    group.add_argument("--links", type=int, metavar="N", help="how many of the strongest links (default: 20 printed)")
    group.add_argument("--show-as", choices=UNITS, help="show by coarser units: exact block sums")
    group.add_argument("--json", action="store_true", help="print JSON instead of a table")
    group.add_argument("--quiet", action="store_true", help="print errors only")
    group.add_argument(
        "--out",
        action="append",
        default=[],
        metavar="FILE",
        help="write plan.npz, links.csv, links.tsv, session.json, figure.svg, .pdf, .png or .html; may be given again",
    )
    group.add_argument("--keep-plan", action="store_true", help="store the plan in the session file too")
    group.add_argument(
        "--spreadsheet-safe", action="store_true", help="mark cells that a spreadsheet takes for formulas"
    )
    if pictures:
        add_pictures(parser)


def add_pictures(parser: argparse.ArgumentParser) -> None:
    """Add the options of pictures."""
    group = parser.add_argument_group("pictures")
    group.add_argument(
        "--picture",
        action="append",
        choices=PICTURES,
        help="what .svg, .pdf and .png show (default: lines); may be repeated",
    )
    group.add_argument(
        "--with-attention", action="store_true", help="draw softmax attention on the same scores beside it"
    )
    group.add_argument("--share", type=float, help="share of the mass that lines carry (default: 0.7)")
    group.add_argument("--width", type=float, default=660, help="of a panel in pixels (default: 660)")
    group.add_argument("--width-mm", type=float, help="of the whole picture on paper")
    group.add_argument("--font-pt", type=float, help="size of the letters on paper (default: 8)")
    group.add_argument("--height", type=float, help="of a panel in pixels")
    group.add_argument("--dpi", type=float, help="dots per inch of .png (default: 300 on paper, else 192)")
    group.add_argument("--theme", choices=("light", "dark"), default="light")
    group.add_argument("--font", help="font family, if the system has it")


def picture_options(options: argparse.Namespace) -> dict[str, Any]:
    """Return the keywords of `sinkviz.export.export` for pictures."""
    return {
        "pictures": tuple(options.picture or ("lines",)),
        **{
            name: getattr(options, name)
            for name in ("width", "width_mm", "font_pt", "height", "dpi", "theme", "font", "share")
        },
    }


def read_text(name: str) -> str:
    """Return the text of a file, or of standard input for "-".

    Raises:
        ValueError: not UTF-8, or larger than 64 MB.
        OSError: it cannot be read.
    """
    data = read_data(name)
    try:
        return data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise ValueError(f"{name}: expected text in UTF-8, got other bytes; save the file as UTF-8") from error


def read_data(name: str) -> bytes:
    """Return the bytes of a file, or of standard input for "-"."""
    if name == "-":
        data = sys.stdin.buffer.read(MAXIMUM_BYTES + 1)
    else:
        with open(name, "rb") as file:
            data = file.read(MAXIMUM_BYTES + 1)
    if len(data) > MAXIMUM_BYTES:
        raise ValueError(f"{name}: expected at most {MAXIMUM_BYTES // 2**20} MB, got more")
    return data


def one_standard_input(*names: str) -> None:
    """Refuse to read standard input twice."""
    if names.count("-") > 1:
        raise ValueError("source and target: only one of them can be standard input")


class Progress:
    """A line on the terminal that is overwritten: share done and time left. Silent in pipes and with --quiet."""

    def __init__(self, quiet: bool = False, stream: TextIO | None = None) -> None:
        self.stream = sys.stderr if stream is None else stream
        self.on = not quiet and self.stream.isatty()
        self.start = time.monotonic()
        self.last = 0.0
        self.length = 0

    def __call__(self, share: float, line: str = "") -> None:
        """Show that a share in [0, 1] is done."""
        now = time.monotonic()
        if not self.on or (now - self.last < 0.1 and share < 1):
            return
        self.last = now
        left = ""
        if 0.02 < share < 1 and now - self.start > 2:
            left = f", {duration((now - self.start) * (1 - share) / share)} left"
        text = f"{100 * share:3.0f} %{left}  {line}"[:100]
        self.stream.write("\r" + text + " " * max(0, self.length - len(text)))
        self.stream.flush()
        self.length = len(text)

    def count(self, done: int, total: int) -> None:
        """Show that `done` of `total` steps are done."""
        self(done / total if total else 1.0)

    def close(self) -> None:
        """Leave the terminal clean."""
        if self.on and self.length:
            self.stream.write("\r" + " " * self.length + "\r")
            self.stream.flush()


def duration(seconds: float) -> str:
    """Return a time in words.

    >>> duration(8), duration(200), duration(9000)
    ('8 s', '3 min 20 s', '2 h 30 min')
    """
    whole = round(seconds)
    if whole < 60:
        return f"{whole} s"
    if whole < 3600:
        return f"{whole // 60} min {whole % 60} s"
    return f"{whole // 3600} h {whole % 3600 // 60} min"


def visible(text: str) -> str:
    """Return text as one line without anything that could steer a terminal.

    >>> visible("a\\x1b[31m\\nb")
    'a\ufffd[31m↵b'
    """
    shown = []
    for character in text.replace("\r\n", "\n"):
        if character in "\n\r":
            shown.append("↵")
        elif character == "\t":
            shown.append("⇥")
        elif (
            unicodedata.category(character) in ("Cc", "Cs")
            or character in "\u202a\u202b\u202c\u202d\u202e\u2066\u2067\u2068\u2069\u2028\u2029"
        ):
            shown.append("\ufffd")
        else:
            shown.append(character)
    return "".join(shown) if text.strip() else "␣" * max(1, len(text))


def cells(text: str) -> int:
    """Return how many cells of a terminal a text takes."""
    return sum(
        0
        if unicodedata.combining(c) or unicodedata.category(c) in ("Cf", "Mn")
        else 2
        if unicodedata.east_asian_width(c) in "WF"
        else 1
        for c in text
    )


def shorten(text: str, limit: int) -> str:
    """Return a text of at most `limit` cells, marked by an ellipsis where it was cut."""
    if cells(text) <= limit:
        return text
    kept, used = [], 1
    for character in text:
        used += cells(character)
        if used > limit:
            break
        kept.append(character)
    return "".join(kept) + "…"


def table(head: Sequence[str], rows: Sequence[Sequence[str]], *, left: Sequence[int] = ()) -> str:
    """Return rows as a table with aligned columns; `left` names the columns that are not numbers."""
    every = [list(head), *map(list, rows)]
    widths = [max(cells(row[k]) for row in every) for k in range(len(head))]
    lines = []
    for row in every:
        parts = []
        for k, cell in enumerate(row):
            pad = " " * (widths[k] - cells(cell))
            parts.append(cell + pad if k in left else pad + cell)
        lines.append("  ".join(parts).rstrip())
    return "\n".join(lines)


def facts(coupling: Coupling) -> dict[str, Any]:
    """Return what is said of a coupling beside its links, as JSON values."""
    return {
        "mechanism": coupling.mechanism,
        "status": coupling.status,
        "residual": coupling.residual,
        "iterations": coupling.iterations,
        "shape": list(coupling.shape),
        "unit": coupling.source.unit,
        "model": coupling.source.origin.model,
        "layer": coupling.source.origin.layer,
        "epsilon": coupling.epsilon,
        "epsilon_relative": coupling.epsilon_relative,
        "cost_scale": coupling.cost_scale,
        "transport_cost": coupling.transport_cost,
        "mutual_information": coupling.mutual_information,
        "mean_partners": coupling.mean_partners,
        "received_distance": coupling.received_distance,
        "mass": coupling.mass,
        "row_error": coupling.row_error,
        "column_error": coupling.column_error,
    }


def report(coupling: Coupling, options: argparse.Namespace, *, encoder: str | None = None) -> int:
    """Print a coupling and write the files that were asked for; return the exit code."""
    from sinkviz.export.files import check_format

    for path in options.out:
        check_format(path)
        if not Path(path).absolute().parent.is_dir():
            raise ValueError(f"{path}: expected a folder that exists, got {Path(path).parent}; make it first")
    if options.links is not None and options.links < 0:
        raise ValueError(f"--links: expected a number >= 0, got {options.links}")
    if options.show_as is not None:
        coupling = coupling.coarsen(options.show_as)
    links = coupling.top_links(20 if options.links is None else options.links)
    if options.json:
        rows = [
            {
                "source": link.source_index,
                "target": link.target_index,
                "source_label": link.source_label,
                "target_label": link.target_label,
                "mass": link.mass,
                "share_of_row": link.share_of_row,
                "share_of_column": link.share_of_column,
                "lift": link.lift,
            }
            for link in links
        ]
        notes = list(dict.fromkeys((*coupling.source.origin.notes, *coupling.target.origin.notes)))
        print(json.dumps({**facts(coupling), "notes": notes, "links": rows}, ensure_ascii=False, indent=2))
    elif not options.quiet:
        body = [
            [
                f"{100 * link.mass:.2f}",
                f"{100 * link.share_of_row:.1f}",
                f"{100 * link.share_of_column:.1f}",
                shorten(visible(link.source_label), 40),
                shorten(visible(link.target_label), 40),
            ]
            for link in links
        ]
        print(table(("mass %", "of row %", "of column %", "source", "target"), body, left=(3, 4)))
        shown = sum(link.mass for link in links)
        print(f"{len(links)} of {coupling.plan.size:,} pairs = {100 * shown:.3g} % of the mass")
        print(
            f"{coupling.status}; mutual information {coupling.mutual_information:.3g} nat, transport cost "
            f"{coupling.transport_cost:.3g}, {coupling.mean_partners:.3g} effective partners"
        )
    if not options.quiet:
        for note in dict.fromkeys((*coupling.source.origin.notes, *coupling.target.origin.notes)):
            print(f"sinkviz: {note}", file=sys.stderr)
    write(coupling, options, encoder=encoder)
    return converged(coupling)


def write(coupling: Coupling, options: argparse.Namespace, *, encoder: str | None = None) -> None:
    """Write every file that --out names, and say so."""
    from sinkviz.export.files import export

    attention = (
        attention_of(coupling)
        if getattr(options, "with_attention", False) or "difference" in (options.picture or ())
        else None
    )
    for path in options.out:
        line = export(
            coupling,
            path,
            attention=attention,
            links=options.links,
            keep_plan=options.keep_plan,
            spreadsheet_safe=options.spreadsheet_safe,
            encoder=encoder,
            **picture_options(options),
        )
        if not options.quiet:
            print(f"wrote {line}", file=sys.stderr)


def attention_of(coupling: Coupling) -> Coupling:
    """Return softmax attention on the scores of a coupling, at the same ε (the default one for an exact coupling)."""
    from sinkviz.coupling import DEFAULT_EPSILON
    from sinkviz.pipeline import couple_cost

    solved = coupling.solved or coupling
    exact = solved.epsilon == 0
    attention = couple_cost(
        solved.cost,
        solved.source,
        solved.target,
        mechanism="softmax",
        epsilon=DEFAULT_EPSILON if exact else solved.epsilon,
        epsilon_unit="scale" if exact else "absolute",
        null_cost=solved.null_cost,
    )
    return attention if coupling.solved is None else attention.coarsen(coupling.source.unit)


def converged(coupling: Coupling) -> int:
    """Return 0, or say that the solver stopped early and return 1."""
    if coupling.converged:
        return 0
    print(
        f"sinkviz: the solver stopped early ({coupling.status}): errors of the marginals "
        f"{coupling.row_error:.1e} and {coupling.column_error:.1e}; a larger epsilon converges sooner",
        file=sys.stderr,
    )
    return 1
