"""One scale for every panel that is compared: equal colour, thickness and length must mean equal mass."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from sinkviz.coupling import Coupling

SMALLEST_LIFT = 0.01
LOWEST_LIFT = float(np.log(1e4))


@dataclass(frozen=True)
class Scale:
    """The ends of the scales that panels side by side share.

    Attributes:
        mass: mass of a pair at the dark end of the colour map and at the widest line, > 0.
        lift: log P/(a b) at the upper end of the diverging map, in nat, > 0.
        lift_below: −log P/(a b) at its lower end, in nat, > 0; cells below take the colour of that end.
        given, received: mass of a source or target atom at the longest bar or the largest mark, > 0.
    """

    mass: float
    lift: float
    lift_below: float
    given: float
    received: float

    def __post_init__(self) -> None:
        for name in ("mass", "lift", "lift_below", "given", "received"):
            value = getattr(self, name)
            if not (np.isfinite(value) and value > 0):
                raise ValueError(f"{name}: expected a finite number > 0, got {value!r}")


def shared_scale(*couplings: Coupling) -> Scale:
    """Return the one scale on which several couplings can be compared: the largest value that occurs in any.

    Log-lift cannot exceed −log of a weight, but has no lower bound (it is −∞ without mass): the two arms of its
    scale end where the values do, the lower one at 1/10,000 of the independent mass at the latest and never before
    the upper one.

    Raises:
        ValueError: no coupling given.
    """
    if not couplings:
        raise ValueError("shared_scale: expected at least one coupling, got none")
    mass = max(
        max(c.plan.max(), c.null_source.max(), c.null_target.max(), np.finfo(np.float64).tiny) for c in couplings
    )
    lift = max(SMALLEST_LIFT, *(float(c.log_lift[np.isfinite(c.log_lift)].max(initial=0.0)) for c in couplings))
    below = max(float(-c.log_lift[np.isfinite(c.log_lift)].min(initial=0.0)) for c in couplings)
    return Scale(
        mass=float(mass),
        # An independent coupling has no lift at all; on a scale of one per cent it shows as the background.
        lift=lift,
        lift_below=max(lift, min(below, LOWEST_LIFT)),
        given=float(max(max(c.given.max(), c.source.weights.max()) for c in couplings)),
        received=float(max(max(c.received.max(), c.target.weights.max()) for c in couplings)),
    )
