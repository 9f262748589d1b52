"""A table of pairs, judged against what a text has with itself and with a stranger.

python examples/many_pairs.py [folder for the result]
"""

from __future__ import annotations

import sys
from pathlib import Path

from sinkviz.batch import BatchRow, batch, pair_table

PAIRS = [
    ("The ship sailed at dawn.", "At daybreak the vessel left the harbour."),
    ("The ship sailed at dawn.", "Prices rose again in March."),
    ("She opened the letter slowly.", "Slowly, she unsealed the envelope."),
    ("She opened the letter slowly.", "The engine needs a new belt."),
    ("Rain fell all night.", "It rained until the morning."),
    ("Rain fell all night.", "Our team won the final."),
]


def main(folder: Path) -> list[BatchRow]:
    """Couple every pair, print how alike they are, and write the table."""
    rows: list[BatchRow] = []
    report = batch(pair_table(PAIRS), folder / "result.csv", finished_rows=rows.extend)
    print("like itself = 1, like a random pair = 0")
    for row, (source, target) in zip(rows, PAIRS, strict=True):
        print(f"{row.likeness:6.2f}  {source} | {target}")
    print(f"{report.path}: {report.done} rows in {report.seconds:.1f} s")
    return rows


if __name__ == "__main__":
    where = Path(sys.argv[1] if len(sys.argv) > 1 else ".")
    where.mkdir(parents=True, exist_ok=True)
    main(where)
