"""`python -m sinkviz train`: a Sinkhorn Transformer learned from gold word links, on a frozen embedding model."""

from __future__ import annotations

import argparse
import json
import shlex
import sys
from collections.abc import Callable
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from sinkviz.alignment.training import CrossValidation, HeadConfig

DESCRIPTION = (
    "Learn encoders Q and K on top of a frozen embedding model from gold word links, and write a checkpoint that "
    "couple(encoder=…) and the pages can use. With --cross-validate: report on held-out folds instead."
)

_OWN = ("width", "layers", "neighbours", "refinement", "linked_null", "noise", "epochs")
"""Options that are fields of HeadConfig by the same name."""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the options of the command to a parser."""
    parser.add_argument("--data", nargs="+", required=True, metavar="FILE", help="gold set, as for `evaluate`")
    parser.add_argument("--pairs", type=int, metavar="N", help="use the first N pairs only")
    parser.add_argument("--model", help="embedding model (default: by the set's languages)")
    parser.add_argument("--layer", type=int, help="hidden layer (default: the model's own default)")
    parser.add_argument(
        "--centre",
        action="store_true",
        help="subtract the mean over each text's tokens; for several languages, whose cosines differ in level",
    )
    parser.add_argument(
        "--head",
        default="sinkhorn",
        choices=("sinkhorn", "bidirectional", "softmax", "scalars"),
        help="what is made of the score (default: sinkhorn)",
    )
    parser.add_argument("--width", type=int, help="coordinates inside the encoders")
    parser.add_argument("--layers", type=int, help="layers of each encoder")
    parser.add_argument(
        "--neighbours", type=int, help="words before and after a word that enter its point (default: 2)"
    )
    parser.add_argument(
        "--refinement",
        type=int,
        help="hidden width of the network that corrects scores by the words around; 0 = none "
        "(default: 16, 0 without neighbours)",
    )
    parser.add_argument(
        "--linked-null",
        type=float,
        help="what a linked word gives to the null partner in the target, against 1 for a link (default: 0)",
    )
    parser.add_argument(
        "--noise", type=float, help="noise on the points in training, in their lengths; 0.6 for links across languages"
    )
    parser.add_argument("--epochs", type=int, help="most passes over the pairs")
    parser.add_argument("--rates", metavar="NUMBERS", help="learning rates to choose among, by commas")
    parser.add_argument("--seed", type=int, default=0, help="of weights, order and held-back parts (default: 0)")
    parser.add_argument(
        "--evaluate", nargs="+", default=[], metavar="FILE", help="report on these sets, nothing retuned"
    )
    parser.add_argument("--cross-validate", type=int, metavar="FOLDS", help="report on held-out folds, write no model")
    parser.add_argument("--seeds", default="0", metavar="NUMBERS", help="seeds of the cross-validation (default: 0)")
    parser.add_argument(
        "--data-name", metavar="TEXT", help="what the checkpoint calls the data (default: the file's name)"
    )
    parser.add_argument("--data-licence", metavar="TEXT", help="the data's licence, stated in the checkpoint")
    parser.add_argument("--title", default="Word alignment", help="what pages call the model")
    parser.add_argument(
        "--out", type=Path, metavar="FILE", help="the checkpoint, safetensors; or JSON with --cross-validate"
    )
    parser.add_argument("--quiet", action="store_true", help="no progress")


def _config(args: argparse.Namespace) -> HeadConfig:
    from sinkviz.alignment.training import HeadConfig

    given: dict[str, Any] = {"head": args.head, "seed": args.seed}
    for name in _OWN:
        if getattr(args, name) is not None:
            given[name] = getattr(args, name)
    if args.neighbours == 0:
        given.setdefault("refinement", 0)
    if args.rates is not None:
        try:
            given["learning_rates"] = tuple(float(rate) for rate in args.rates.split(","))
        except ValueError:
            raise ValueError(f"--rates: expected numbers separated by commas, got {args.rates!r}") from None
    return HeadConfig(**given)


def run(args: argparse.Namespace) -> int:
    """Run the command; returns 0, 2 for input that cannot be used, 130 when it was interrupted."""
    try:
        return _run(args)
    except (ValueError, OSError) as error:
        print(f"sinkviz train: {error}", file=sys.stderr)
        return 2
    except KeyboardInterrupt:
        print("sinkviz train: interrupted, nothing was written", file=sys.stderr)
        return 130


def _run(args: argparse.Namespace) -> int:
    from sinkviz.alignment.gold import read_gold
    from sinkviz.alignment.metrics import total_scores
    from sinkviz.alignment.training import KINDS, cross_validate, train_head, transfer, word_pairs
    from sinkviz.alignment.words import default_model
    from sinkviz.embedding import load_model

    if args.cross_validate is None and args.out is None and not args.evaluate:
        raise ValueError("--out: expected a file for the checkpoint (or --evaluate, or --cross-validate)")
    config = _config(args)
    gold = read_gold(*args.data)
    if args.pairs is not None:
        if not 1 <= args.pairs <= len(gold):
            raise ValueError(f"--pairs: expected 1 to {len(gold)} (pairs in the set), got {args.pairs}")
        gold = gold.subset(range(args.pairs))
    progress = None if args.quiet else _terminal_progress()
    model = default_model(gold) if args.model is None else args.model
    layer = load_model(model).info.layer(args.layer)
    pairs = word_pairs(gold, model=model, layer=layer, centre=args.centre, progress=progress)
    if args.cross_validate is not None:
        seeds = tuple(int(seed) for seed in args.seeds.split(","))
        found = cross_validate(pairs, config, folds=args.cross_validate, seeds=seeds, progress=progress)
        print(cross_validation_report(found))
        if args.out is not None:
            args.out.write_text(json.dumps(cross_validation_dict(found)) + "\n", encoding="utf-8")
        return 0
    trained = train_head(pairs, config, progress=progress)
    figures: dict[str, Any] = {"held back": {"data": gold.name, "pairs": len(gold), "f1": trained.dev_f1}}
    print(f"{gold.name}: {len(gold)} pairs, {model} layer {layer}, {config.head} head, {trained.seconds:.0f} s")
    print(f"chosen on pairs that were held back in turn: rate {trained.learning_rate:g}, epoch {trained.epoch}")
    print("F1 on pairs that were held back (they chose these settings):", _percent(trained.dev_f1))
    for name in args.evaluate:
        other = read_gold(name)
        counts = transfer(trained, word_pairs(other, model=model, layer=layer, centre=args.centre, progress=progress))
        scores = {kind: total_scores(counts[kind]).f1 for kind in KINDS}
        figures[other.name] = {"pairs": len(other), "f1": scores}
        print(f"F1 on {other.name}, {len(other)} pairs, nothing retuned:", _percent(scores))
    if args.out is not None:
        about = {
            "title": args.title,
            "command": _command(args, model, layer),
            "task": "word alignment",
            "embedding": {"model": model, "layer": layer, "unit": "word", "centre": args.centre},
            "data": {
                "name": args.data_name or gold.name,
                "pairs": len(gold),
                "licence": args.data_licence or gold.licence,
            },
            "training": asdict(config),
            "chosen": {"learning_rate": trained.learning_rate, "epoch": trained.epoch},
            "null_cost": float(trained.head.null_cost.detach()),
            "decoding": {kind: asdict(decoding) for kind, decoding in trained.decodings.items()},
            "figures": figures,
        }
        trained.head.transformer().save(args.out, about=about)
        print(f"wrote {args.out} ({args.out.stat().st_size / 2**20:.2f} MB)")
    return 0


def _command(args: argparse.Namespace, model: str, layer: int) -> str:
    """Return a command that makes the same checkpoint; files by their names, not by where they lay."""
    words = ["python", "-m", "sinkviz", "train", "--data", *(Path(name).name for name in args.data)]
    if args.pairs is not None:
        words += ["--pairs", str(args.pairs)]
    words += ["--model", model, "--layer", str(layer)]
    words += (["--centre"] if args.centre else []) + ["--head", args.head]
    for name in (*_OWN, "rates", "data_name", "data_licence"):
        if getattr(args, name) is not None:
            words += [f"--{name.replace('_', '-')}", str(getattr(args, name))]
    words += ["--seed", str(args.seed), "--title", args.title, "--out", args.out.name]
    return shlex.join(words)


def _percent(values: dict[str, float]) -> str:
    return ", ".join(f"{kind} {100 * value:.1f}" for kind, value in values.items())


def cross_validation_report(found: CrossValidation) -> str:
    """Return a cross-validation as plain text: F1 over all pairs, for each kind of decoding and seed."""
    from sinkviz.alignment.metrics import f1_interval, total_scores

    lines = [f"{found.head} head, {found.parameters} trained numbers, {sum(found.seconds):.0f} s of training"]
    for kind, tables in found.counts.items():
        values = [total_scores(table).f1 for table in tables]
        first = f1_interval(tables[0])
        lines.append(
            f"  {kind}: F1 {100 * sum(values) / len(values):.2f} (seeds {', '.join(f'{100 * v:.2f}' for v in values)}; "
            f"first seed [{100 * first.low:.1f}, {100 * first.high:.1f}])"
        )
    return "\n".join(lines)


def cross_validation_dict(found: CrossValidation) -> dict[str, Any]:
    """Return a cross-validation as plain JSON values."""
    return {
        "format": "sinkviz-cross-validation",
        "version": 1,
        "head": found.head,
        "linked_null": found.linked_null,
        "seeds": list(found.seeds),
        "parameters": found.parameters,
        "seconds": list(found.seconds),
        "chosen": list(found.chosen),
        "counts": {kind: table.tolist() for kind, table in found.counts.items()},
    }


def _terminal_progress() -> Callable[[float, str], None] | None:
    if not sys.stderr.isatty():
        return None

    def show(share: float, line: str) -> None:
        print(f"\r\x1b[2K{share:4.0%} {line}", end="\n" if share >= 1 else "", file=sys.stderr, flush=True)

    return show
