"""`python -m sinkviz approximate`: train against a coupling system and say how near it came."""

from __future__ import annotations

import argparse
import dataclasses
import json
import sys
import time
from pathlib import Path
from typing import Any

PRESETS = ("live", "capacity", "epsilon", "data", "points", "comparison")


def _size(text: str) -> tuple[int, int]:
    try:
        width, layers = text.lower().split("x")
        return int(width), int(layers)
    except ValueError:
        raise argparse.ArgumentTypeError(f"expected WIDTHxLAYERS such as 32x2, got {text!r}") from None


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of the command to a parser; nothing heavy is loaded."""
    parser.description = (
        "Train Sinkhorn Transformers to reproduce a coupling system and measure W1 on pairs they have not seen, beside "
        "softmax attention of equal size and budget and the independent coupling. Options that are not given keep the "
        "preset's value."
    )
    parser.add_argument("system", nargs="?", help="name of a coupling system, or leave it out to list them")
    parser.add_argument("--preset", choices=PRESETS, help="a ready experiment to start from")
    many: dict[str, Any] = {"nargs": "+", "default": None}
    parser.add_argument("--kinds", metavar="KIND", help="sinkhorn, softmax, independent", **many)
    parser.add_argument("--sizes", type=_size, metavar="WxL", help="width x layers, e.g. 8x1 32x2", **many)
    parser.add_argument("--epsilons", type=float, metavar="E", **many)
    parser.add_argument("--training-sizes", type=int, metavar="N", help="numbers of training pairs", **many)
    parser.add_argument("--seeds", type=int, metavar="SEED", **many)
    parser.add_argument("--learning-rates", type=float, metavar="RATE", help="the best on validation is taken", **many)
    parser.add_argument("--far-points", type=int, metavar="N", help="larger clouds tested besides", **many)
    pair: dict[str, Any] = {"nargs": 2, "type": int, "metavar": ("LOW", "HIGH"), "default": None}
    parser.add_argument("--train-points", help="sizes of the clouds trained on", **pair)
    parser.add_argument("--test-points", help="sizes of the clouds tested on", **pair)
    for name, what in (
        ("steps", "optimiser steps of each run"),
        ("batch", "pairs in a step"),
        ("search-steps", "steps of each trial of a learning rate"),
        ("held-out", "test pairs"),
        ("validation", "validation pairs"),
        ("far-pairs", "pairs of each larger size"),
        ("heads", "attention heads"),
        ("out", "coordinates of Q and K"),
    ):
        parser.add_argument(f"--{name}", type=int, default=None, metavar="N", help=what)
    parser.add_argument(
        "--out-file", type=Path, metavar="FILE", help="write the result as JSON; an unfinished one there is continued"
    )
    parser.add_argument(
        "--factors", action="store_true", help="step 3 of the proof instead: encoders learn the system's factor"
    )
    parser.add_argument("--models", type=Path, metavar="FOLDER", help="write the trained models there")
    parser.add_argument("--json", action="store_true", help="print the result as JSON")
    parser.add_argument("--quiet", action="store_true", help="no progress")


def run(args: argparse.Namespace) -> int:
    """Run the command; returns the exit code: 0 done, 1 a run diverged, 2 wrong arguments, 130 interrupted."""
    from sinkviz.approximation.experiment import Experiment, ExperimentConfig, load_result, preset
    from sinkviz.approximation.systems import SYSTEMS, get_system

    if not args.system:
        for system in SYSTEMS.values():
            print(f"{system.name:16} {system.title}\n{'':16} {system.formula}")
        return 0
    if args.factors:
        return _factors(args)
    try:
        start = (
            preset(args.preset, args.system)
            if args.preset
            else ExperimentConfig(args.system, epsilons=(get_system(args.system).epsilon,))
        )
        chosen: dict[str, Any] = {}
        for field in dataclasses.fields(ExperimentConfig):
            value = getattr(args, field.name, None)
            if field.name != "system" and value is not None:
                chosen[field.name] = tuple(value) if isinstance(value, list) else value
        config = dataclasses.replace(start, **chosen)
        earlier = load_result(args.out_file) if args.out_file and args.out_file.exists() else None
        if earlier is not None and earlier.config != config:
            print(
                f"{args.out_file} holds another experiment ({earlier.config.command}); choose another file",
                file=sys.stderr,
            )
            return 2
        experiment = Experiment(config, result=earlier)
    except ValueError as error:
        print(str(error), file=sys.stderr)
        return 2
    show = sys.stderr.isatty() and not args.quiet
    last, done = 0.0, len(experiment.rows)
    interrupted = False
    finished = earlier is not None and earlier.complete
    try:
        for report in () if finished else experiment.run():
            if args.out_file and len(report.result.rows) > done:
                done = len(report.result.rows)
                report.result.save(args.out_file)
            now = time.monotonic()
            if show and now - last > 0.2:
                last = now
                left = report.seconds_left
                rest = "" if left is None else f", about {left:.0f} s left"
                print(f"\r\x1b[K{report.share:4.0%} {report.label}{rest}", end="", file=sys.stderr, flush=True)
    except KeyboardInterrupt:
        interrupted = True
    if show:
        print("\r\x1b[K", end="", file=sys.stderr)
    result = earlier if earlier is not None and finished else experiment.result()
    if args.out_file and not finished:
        result.save(args.out_file)
    if args.models:
        for cell, model in experiment.models.items():
            size = f"{cell.width}x{cell.layers}-e{cell.epsilon:g}-n{cell.training_size}-s{cell.seed}"
            name = f"{config.system}-{cell.kind}-{size}"
            model.save(args.models / f"{name}.safetensors", about={"title": cell.label, "command": config.command})
    if args.json:
        print(json.dumps(result.as_dict(), allow_nan=False, ensure_ascii=False))
    else:
        print(table(result))
    if not result.complete:
        print("not finished; the same command with --out-file goes on from here", file=sys.stderr)
        return 130 if interrupted else 1
    return 1 if any(row.status == "diverged" for row in result.rows) else 0


def _factors(args: argparse.Namespace) -> int:
    """Run step 3: encoders of four sizes learn the factor H of a system."""
    from sinkviz.approximation.experiment import write_json
    from sinkviz.approximation.steps import FIT_SIZES, FactorFit, StoredFits, learn_factors
    from sinkviz.approximation.systems import get_system

    steps = 400 if args.steps is None else args.steps
    sizes = args.sizes or FIT_SIZES
    seed = args.seeds[0] if args.seeds else 0
    show = sys.stderr.isatty() and not args.quiet
    started = time.perf_counter()
    fits: list[FactorFit] = []
    try:
        system = get_system(args.system)
        for fit in learn_factors(system, sizes=sizes, steps=steps, seed=seed, report_every=max(5, steps // 20)):
            fits.append(fit)
            if show:
                line = f"width {fit.width}, layers {fit.layers}, step {fit.step} of {fit.steps}"
                print(f"\r\x1b[K{line}", end="", file=sys.stderr, flush=True)
    except ValueError as error:
        print(str(error), file=sys.stderr)
        return 2
    except KeyboardInterrupt:
        print("interrupted; nothing was written", file=sys.stderr)
        return 130
    if show:
        print("\r\x1b[K", end="", file=sys.stderr)
    stored = StoredFits(system.name, steps, seed, tuple(fits), time.perf_counter() - started)
    if args.out_file:
        write_json(args.out_file, stored.as_dict())
    if args.json:
        print(json.dumps(stored.as_dict(), allow_nan=False))
        return 0
    print(f"{'encoder':12} {'parameters':>10} {'mean error':>12} {'largest seen':>14} {'size of H':>11}")
    for fit in fits:
        if fit.finished:
            name = f"{fit.width}x{fit.layers}"
            print(f"{name:12} {fit.parameters:10,} {fit.mean_error:12.4f} {fit.largest_error:14.4f} {fit.scale:11.4f}")
    return 0


def table(result: Any) -> str:
    """Return an `ExperimentResult` as lines of text: each group over its seeds, then the ratios."""

    def interval(value: Any, digits: int = 4) -> str:
        half = "" if value.high is None else f" ± {value.high - value.mean:.{digits}f}"
        return f"{value.mean:.{digits}f}{half}"

    lines = [f"{'model':34} {'parameters':>10} {'mean W1':>18} {'largest W1 seen':>20}"]
    for group in result.summaries():
        name = (
            group.kind
            if group.kind == "independent"
            else f"{group.kind} {group.width}x{group.layers}, {group.training_size} pairs"
        )
        name += f", ε {group.epsilon:g}"
        lines.append(f"{name:34} {group.parameters:10,} {interval(group.mean):>18} {interval(group.largest):>20}")
        for points, mean in group.far_mean.items():
            lines.append(
                f"{f'  {points} points':34} {'':10} {interval(mean):>18} {interval(group.far_largest[points]):>20}"
            )
        if group.diverged:
            lines.append(f"  {group.diverged} of its runs diverged")
    for cell, ratio in result.ratios():
        span = "" if ratio.low is None else f" ({ratio.low:.1f} to {ratio.high:.1f})"
        lines.append(
            f"softmax over Sinkhorn, {cell.width}x{cell.layers}, ε {cell.epsilon:g}: {ratio.mean:.1f} times{span}"
        )
    return "\n".join(lines)
