"""A table of sentence pairs, end to end: pairs a second, where the time goes, and the same work one pair at a time.

    python benchmarks/batch.py                     # 2,000 pairs, 1 and 2 processes
    python benchmarks/batch.py --pairs 10000       # the whole job

Sentences are drawn from a small vocabulary, about 25 tokens each; MiniLM, words, Sinkhorn at the default ε, with
self and shuffled baselines. Times are of one process in one run, so that they can be compared; the machine's other
load shows in the difference between wall and processor time.
"""

from __future__ import annotations

import argparse
import random
import tempfile
import time
from pathlib import Path

from sinkviz.process import prepare

prepare()

from sinkviz.batch import BatchSettings, PairTable, Stages, batch, pair_table  # noqa: E402
from sinkviz.settings import CouplingSettings  # noqa: E402

VOCABULARY = (
    "the a old young man woman child river bank fish boat water small great stream lake evening morning light wind "
    "over under near beside sat stood walked counted caught waited spoke wrote read opened closed was had been of and "
    "but while because his her their few many three letter garden house window street market train station music "
    "kitchen table teacher doctor fisherman angler summer winter quietly slowly again always never almost"
)
WORDS = VOCABULARY.split()


def sentence(source: random.Random) -> str:
    """Return a line of about 25 tokens."""
    words = [source.choice(WORDS) for _ in range(source.randint(20, 28))]
    return " ".join(words).capitalize() + "."


def table(pairs: int, seed: int = 0) -> PairTable:
    """Return a table of random sentence pairs."""
    source = random.Random(seed)
    return pair_table([(sentence(source), sentence(source)) for _ in range(pairs)], name=f"{pairs} pairs")


def measure(pairs: PairTable, workers: int, baselines: bool) -> tuple[float, Stages]:
    """Return wall seconds of one run, and the processor time of its stages (one worker only)."""
    stages = Stages()
    with tempfile.TemporaryDirectory() as folder:
        start = time.perf_counter()
        report = batch(
            pairs,
            Path(folder) / "result.csv",
            BatchSettings(CouplingSettings(), baselines=baselines),
            workers=workers,
            stages=stages,
        )
        seconds = time.perf_counter() - start
    assert report.finished
    assert report.bad == 0
    print(f"  not converged: {report.not_converged} of {report.rows}")
    return seconds, stages


def main() -> None:
    """Run and print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--pairs", type=int, default=2000)
    parser.add_argument("--workers", type=int, nargs="+", default=[1, 2])
    parser.add_argument("--alone", type=int, default=64, help="pairs of the comparison one by one; 0 leaves it out")
    options = parser.parse_args()
    pairs = table(options.pairs)
    settings = CouplingSettings()
    settings.couple("warm", "up")
    for workers in options.workers:
        for baselines in (True, False):
            seconds, stages = measure(pairs, workers, baselines)
            rate = options.pairs / seconds
            print(f"{workers} process(es), {'with' if baselines else 'without'} baselines: {rate:.1f} pairs/s wall")
            total = sum(stages.seconds.values())
            if total:
                shares = ", ".join(f"{name} {100 * value / total:.0f} %" for name, value in stages.seconds.items())
                print(f"  processor: {options.pairs / total:.1f} pairs/s on one core; {shares}")
    if options.alone:
        start = time.process_time()
        for row in pairs.rows[: options.alone]:
            settings.couple(str(row.source), str(row.target))
        alone = (time.process_time() - start) / options.alone
        stages = Stages()
        with tempfile.TemporaryDirectory() as folder:
            few = PairTable("few", pairs.rows[: options.alone], pairs.columns)
            batch(few, Path(folder) / "r.csv", BatchSettings(settings, baselines=False), stages=stages)
        together = sum(stages.seconds.values()) / options.alone
        ratio = alone / together
        print(f"one pair at a time: {1e3 * alone:.1f} ms; in a batch: {1e3 * together:.1f} ms ({ratio:.1f} x)")


if __name__ == "__main__":
    main()
