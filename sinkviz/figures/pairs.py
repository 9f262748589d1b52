"""Which pairs are drawn as lines: the strongest, until a share of the mass is reached, and what is left out."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from sinkviz.coupling import Coupling
from sinkviz.figures.labels import count, full, percent

DEFAULT_SHARE = 0.7
DEFAULT_LIMIT = 400
NO_PARTNER = "no partner"
PAIR_HOVER = (
    "<b>%{customdata[0]}</b> → <b>%{customdata[1]}</b><br>mass %{customdata[2]:.3~g} % of the whole<extra></extra>"
)


@dataclass(frozen=True, eq=False)
class Pairs:
    """The strongest pairs of a coupling, largest mass first, ties in reading order.

    Attributes:
        source, target: indices of the atoms; −1 is the null partner.
        mass: mass of each pair.
        possible: number of pairs there are, those with a null partner included.
        total: mass of all of them.
        mass_name: what `total` is, in words.
        wanted: the share of the mass that was asked for.
        needed: number of pairs that carry that share; more than are drawn when the limit cut them off.
    """

    source: NDArray[np.int64]
    target: NDArray[np.int64]
    mass: NDArray[np.float64]
    possible: int
    total: float
    wanted: float
    needed: int
    mass_name: str = "the mass"

    def __len__(self) -> int:
        return len(self.mass)

    @property
    def share(self) -> float:
        """Share of the mass that the drawn pairs really carry."""
        return float(self.mass.sum()) / self.total if self.total > 0 else 0.0

    @property
    def sentence(self) -> str:
        """What is drawn and what is not, for the foot of a picture."""
        pairs = "pair" if self.possible == 1 else "pairs"
        line = f"{count(len(self))} of {count(self.possible)} {pairs} drawn = {percent(self.share)} of {self.mass_name}"
        if self.needed > len(self):
            line += f" (limit reached; {percent(self.wanted)} needs {count(self.needed)})"
        return line

    def facts(self, coupling: Coupling) -> list[list[object]]:
        """Return for each pair what is said on hover: both tokens whole, escaped, and the mass in per cent."""
        rows, columns = coupling.source.labels, coupling.target.labels
        return [
            [full(rows[i]) if i >= 0 else NO_PARTNER, full(columns[j]) if j >= 0 else NO_PARTNER, 100 * mass]
            for i, j, mass in zip(self.source.tolist(), self.target.tolist(), self.mass.tolist(), strict=True)
        ]


def strongest_pairs(
    coupling: Coupling, share: float = DEFAULT_SHARE, limit: int = DEFAULT_LIMIT, *, nulls: bool = True
) -> Pairs:
    """Return the fewest strongest pairs that carry at least `share` of the mass, at most `limit` of them.

    For "partial", mass without a partner competes with the rest, as a pair whose other end is −1, unless `nulls` is
    False; then the share is one of the mass that has a partner.

    Raises:
        ValueError: share outside [0, 1] or a limit below 1.
    """
    if not 0 <= share <= 1:
        raise ValueError(f"share: expected a share of the mass in [0, 1], got {share!r}")
    if limit < 1:
        raise ValueError(f"limit: expected at least 1 line, got {limit!r}")
    n, m = coupling.shape
    partial = coupling.mechanism == "partial"
    mass = coupling.plan.ravel()
    mass_name = "the mass that has a partner" if partial else "the mass"
    if partial and nulls:
        mass_name = "the mass, that without partner included"
        mass = np.concatenate([mass, coupling.null_source, coupling.null_target])
    order = np.argsort(-mass, kind="stable")
    running = np.cumsum(mass[order])
    total = float(running[-1])
    # Relative slack: 70 % must not ask for one more pair because a sum ends in …99.
    needed = int(np.searchsorted(running, share * total * (1 - 1e-12))) + 1 if share > 0 and total > 0 else 0
    needed = min(needed, int((mass > 0).sum()))
    chosen = order[: min(needed, limit)]
    real = chosen < n * m
    to_null = ~real & (chosen < n * m + n)
    source = np.where(real, chosen // m, np.where(to_null, chosen - n * m, -1))
    target = np.where(real, chosen % m, np.where(real | to_null, -1, chosen - n * m - n))
    return Pairs(source, target, mass[chosen], len(mass), total, share, needed, mass_name)
