"""Two texts of thousands of words, solved on their tokens: time and memory, dense and in tiles.

    python benchmarks/long.py                                   # 5,000 words each, made up
    python benchmarks/long.py --source a.txt --target b.txt     # texts of your own

Prints embedding, solve and memory for the dense solve, the tiled one, and how far their sentence sums are apart. Each
solve has a process of its own, since the peak of a process never falls. Memory is read from /proc (Linux): getrusage hands
a parent's peak down to its children.
"""

from __future__ import annotations

import argparse
import multiprocessing
import random
import time
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path

from sinkviz.process import prepare

prepare()

import numpy as np  # noqa: E402

from benchmarks.batch import sentence  # noqa: E402
from sinkviz import transport  # noqa: E402
from sinkviz.long import LongCoupling, couple_long, foresee  # noqa: E402
from sinkviz.measure import Measure  # noqa: E402
from sinkviz.pipeline import embed  # noqa: E402


def made_up(words: int, seed: int) -> str:
    """Return sentences of random words until there are enough."""
    source = random.Random(seed)
    found: list[str] = []
    while sum(len(one.split()) for one in found) < words:
        found.append(sentence(source))
    return " ".join(found)


def memory_of_process(field: str) -> float:
    """Return VmRSS (now) or VmHWM (the most so far) of this process, in MB."""
    lines = Path("/proc/self/status").read_text(encoding="ascii").splitlines()
    return next(int(line.split()[1]) / 1024 for line in lines if line.startswith(f"{field}:"))


def solve(source: Measure, target: Measure, epsilon: float, memory: int) -> tuple[LongCoupling, float, float, float]:
    """Return the coupling, its seconds, memory before it and the most during it, in MB."""
    transport.sinkhorn([[0.0]], epsilon=1.0)  # loads torch
    Path("/proc/self/clear_refs").write_text("5", encoding="ascii")  # the peak counts from here
    before, start = memory_of_process("VmRSS"), time.perf_counter()
    found = couple_long(source, target, epsilon=epsilon, memory=memory)
    return found, time.perf_counter() - start, before, memory_of_process("VmHWM")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--words", type=int, default=5000)
    parser.add_argument("--source", type=Path)
    parser.add_argument("--target", type=Path)
    parser.add_argument("--epsilons", type=float, nargs="+", default=[1.0, 0.35, 0.1])
    options = parser.parse_args()
    texts = [
        path.read_text(encoding="utf-8") if path else made_up(options.words, seed)
        for seed, path in enumerate((options.source, options.target))
    ]
    start = time.perf_counter()
    source, target = (embed(text) for text in texts)
    print(
        f"{len(source):,} × {len(target):,} tokens, {len(source.word_spans):,} and {len(target.word_spans):,} words; "
        f"embedded in {time.perf_counter() - start:.1f} s"
    )
    print("| ε in σ | way | seconds | foreseen | status, column error | iterations or passes | memory before | peak |")
    print("|---|---|---|---|---|---|---|---|")
    for epsilon in options.epsilons:
        plans = []
        for memory in (2**33, 2**26):
            foreseen = foresee(source, target, epsilon=epsilon, memory=memory)
            with ProcessPoolExecutor(1, mp_context=multiprocessing.get_context("spawn")) as own:
                found, seconds, before, after = own.submit(solve, source, target, epsilon, memory).result()
            plans.append(found.sentence_plan)
            print(
                f"| {epsilon:g} | {'tiles' if found.tiled else 'dense'} | {seconds:.1f} | {foreseen.seconds:.0f} | "
                f"{found.status}, {found.column_error:.0e} | {found.iterations} | {before:.0f} MB | {after:.0f} MB |",
                flush=True,
            )
        apart = np.abs(plans[0] - plans[1]).max() / plans[0].max()
        print(f"| {epsilon:g} | sentence sums apart by {apart:.0e} of the largest | | | | | | |", flush=True)


if __name__ == "__main__":
    main()
