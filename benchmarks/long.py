"""Two texts of thousands of words, solved on their tokens: time and memory, dense and in tiles.

    python benchmarks/long.py                                   # 5,000 words each, made up
    python benchmarks/long.py --source a.txt --target b.txt     # texts of your own

Prints embedding, solve and memory for the dense solve, the tiled one, and how far their sentence sums are apart.
"""

from __future__ import annotations

import argparse
import random
import resource
import time
from pathlib import Path

from sinkviz.process import prepare

prepare()

import numpy as np  # noqa: E402

from benchmarks.batch import sentence  # noqa: E402
from sinkviz.long import couple_long, foresee  # noqa: E402
from sinkviz.pipeline import embed  # noqa: E402


def made_up(words: int, seed: int) -> str:
    """Return sentences of random words until there are enough."""
    source = random.Random(seed)
    found: list[str] = []
    while sum(len(one.split()) for one in found) < words:
        found.append(sentence(source))
    return " ".join(found)


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
    print("| ε in σ | way | seconds | foreseen | status, column error | iterations or passes | peak memory |")
    print("|---|---|---|---|---|---|---|")
    for epsilon in options.epsilons:
        plans = []
        for memory in (2**33, 2**26):
            foreseen = foresee(source, target, epsilon=epsilon, memory=memory)
            start = time.perf_counter()
            found = couple_long(source, target, epsilon=epsilon, memory=memory)
            seconds = time.perf_counter() - start
            peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
            plans.append(found.sentence_plan)
            print(
                f"| {epsilon:g} | {'tiles' if found.tiled else 'dense'} | {seconds:.1f} | {foreseen.seconds:.0f} | "
                f"{found.status}, {found.column_error:.0e} | {found.iterations} | {peak:.0f} MB |",
                flush=True,
            )
        apart = np.abs(plans[0] - plans[1]).max() / plans[0].max()
        print(f"| {epsilon:g} | sentence sums apart by {apart:.0e} of the largest | | | | | |", flush=True)


if __name__ == "__main__":
    main()
