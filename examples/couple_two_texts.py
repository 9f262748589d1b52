"""Two texts, one coupling, and what softmax attention makes of the same scores.

python examples/couple_two_texts.py [folder for the figures]
"""

from __future__ import annotations

import sys
from pathlib import Path

import sinkviz
from sinkviz.export import export

SOURCE = "The old fisherman sat on the bank of the river and counted his few fish."
TARGET = "Beside the stream an elderly angler was counting the small catch he had made."


def main(folder: Path) -> None:
    """Compare, print, and write figures for a paper and for the screen."""
    source, target = (sinkviz.embed(text, unit="word") for text in (SOURCE, TARGET))
    coupling = sinkviz.couple(source, target)
    attention = sinkviz.couple(source, target, mechanism="softmax")

    for link in coupling.top_links(5):
        print(f"{link.source_label:>10} → {link.target_label:<10} {100 * link.mass:.1f} %")
    for name, one in (("coupling", coupling), ("attention", attention)):
        print(f"{name}: {100 * one.received_distance:.0f} % of the mass misses the target's weights, {one.status}")

    # 85 mm is one column of most journals; the letters are 7 pt there.
    print(export(coupling, folder / "coupling.pdf", width_mm=85, font_pt=7))
    print(export(coupling, folder / "both.svg", attention=attention, pictures=["lines", "heatmap"]))
    print(export(coupling, folder / "explorer.html"))


if __name__ == "__main__":
    where = Path(sys.argv[1] if len(sys.argv) > 1 else ".")
    where.mkdir(parents=True, exist_ok=True)
    main(where)
