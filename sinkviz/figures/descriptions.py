"""Each picture in one plain sentence, for those who hear the page instead of seeing it."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

import numpy as np

from sinkviz.coupling import Coupling
from sinkviz.figures.labels import factor, number, percent, plural, spoken
from sinkviz.figures.pairs import DEFAULT_LIMIT, DEFAULT_SHARE, Pairs, strongest_pairs

if TYPE_CHECKING:
    from sinkviz.projection import Projection

_NAMES = {
    "sinkhorn": "coupling",
    "softmax": "attention",
    "relaxed": "relaxed coupling",
    "partial": "coupling with a null partner",
    "exact": "exact coupling",
}


def describe(
    coupling: Coupling,
    *,
    share: float = DEFAULT_SHARE,
    limit: int = DEFAULT_LIMIT,
    projection: Projection | None = None,
    path: Iterable[Coupling] | None = None,
) -> dict[str, str]:
    """Return one plain sentence for each picture of a coupling, by the name of the picture.

    The sentences are plain text, not markup; each figure carries its own in `layout.meta["description"]`.

    Args:
        coupling: what is drawn.
        share, limit: as given to `lines` and `clouds`.
        projection: adds "clouds".
        path: couplings over ε; adds "epsilon_curves".

    Raises:
        ValueError: share or limit out of range.
    """
    pairs = strongest_pairs(coupling, share, limit)
    sentences = {
        "heatmap": heatmap(coupling, "mass"),
        "lines": lines(coupling, pairs),
        "received": received(coupling),
    }
    if projection is not None:
        sentences["clouds"] = clouds(coupling, projection, strongest_pairs(coupling, share, limit, nulls=False))
    if path is not None:
        sentences["epsilon_curves"] = epsilon_curves(path)
    return sentences


def heatmap(coupling: Coupling, colour: str) -> str:
    """Say what the matrix shows."""
    n, m = coupling.shape
    matrix = coupling.plan if colour == "mass" else coupling.log_lift
    i, j = divmod(int(matrix.argmax()), m)
    what = (
        f"{percent(float(coupling.plan[i, j]))} of the mass"
        if colour == "mass"
        else f"{factor(float(np.exp(coupling.log_lift[i, j])))} as much mass as by independence"
    )
    return (
        f"Matrix of the {_NAMES[coupling.mechanism]} of {plural(n, 'source ' + coupling.source.unit)} and "
        f"{plural(m, 'target ' + coupling.target.unit)}: the strongest cell is "
        f"{spoken(coupling.source.labels, i)} with {spoken(coupling.target.labels, j)}, {what}{_unmatched(coupling)}."
    )


def difference(coupling: Coupling, attention: Coupling) -> str:
    """Say where two plans differ most."""
    gap = coupling.plan - attention.plan
    m = coupling.shape[1]
    more, less = divmod(int(gap.argmax()), m), divmod(int(gap.argmin()), m)
    first, second = _NAMES[coupling.mechanism], _NAMES[attention.mechanism]
    rows, columns = coupling.source.labels, coupling.target.labels
    if not np.abs(gap).max() > 0:
        return f"Difference of {first} and {second}: the two are equal."
    return (
        f"Difference of {first} and {second}: "
        f"{percent(0.5 * float(np.abs(gap).sum()))} of the mass lies elsewhere; the {first} gains most at "
        f"{spoken(rows, more[0])} with {spoken(columns, more[1])} and loses most at "
        f"{spoken(rows, less[0])} with {spoken(columns, less[1])}."
    )


def lines(coupling: Coupling, pairs: Pairs) -> str:
    """Say which pairs the lines join."""
    rows, columns = coupling.source.labels, coupling.target.labels

    def end(labels: list[str], k: int) -> str:
        return spoken(labels, k) if k >= 0 else "no partner"

    strongest = "; ".join(
        f"{end(rows, int(i))} to {end(columns, int(j))}, {percent(float(mass))}"
        for i, j, mass in zip(pairs.source[:3], pairs.target[:3], pairs.mass[:3], strict=True)
    )
    line = f"Lines between the two texts, {_NAMES[coupling.mechanism]}: {pairs.sentence}"
    return f"{line}; the strongest: {strongest}." if strongest else f"{line}."


def received(coupling: Coupling) -> str:
    """Say how the mass received compares with the target's weights."""
    least, most = extremes(coupling)
    labels, weights = coupling.target.labels, coupling.target.weights
    share = coupling.received_distance
    line = (
        f"Mass received by each target {coupling.target.unit}, {_NAMES[coupling.mechanism]}: "
        f"{percent(share) if share >= 1e-4 else 'under 0.01 %'} of the mass misses the target's weights"
    )
    if share < 1e-4:
        return line + _unmatched(coupling) + "."
    return (
        f"{line}; {spoken(labels, most)} receives {number(float(coupling.received[most] / weights[most]))} times "
        f"its weight and {spoken(labels, least)} {percent(float(coupling.received[least] / weights[least]))} of it"
        f"{_unmatched(coupling)}."
    )


def clouds(coupling: Coupling, projection: Projection, pairs: Pairs) -> str:
    """Say what the clouds show."""
    n, m = coupling.shape
    space = "plane" if projection.dimensions == 2 else "space"
    return (
        f"{plural(n, 'source ' + coupling.source.unit)} as discs and {plural(m, 'target ' + coupling.target.unit)} "
        f"as squares in one {space} that keeps {percent(projection.kept)} of the variance, "
        f"{_NAMES[coupling.mechanism]} as lines: {pairs.sentence}."
    )


def epsilon_curves(path: Iterable[Coupling]) -> str:
    """Say how cost, information and spread change along ε."""
    ordered = sorted(path, key=lambda c: c.epsilon)
    low, high = ordered[0], ordered[-1]
    unit = " σ" if low.cost_scale > 0 else ""

    def values(c: Coupling) -> tuple[str, str, str]:
        return number(c.transport_cost), number(c.mutual_information), number(c.mean_partners)

    first, last = values(low), values(high)
    ends = [number(c.epsilon_relative if c.cost_scale > 0 else c.epsilon) for c in (low, high)]
    return (
        f"From ε = {ends[0]}{unit} to {ends[1]}{unit} the transport cost goes from {first[0]} to {last[0]}, "
        f"mutual information from {first[1]} to {last[1]} nat, "
        f"effective partners from {first[2]} to {last[2]} a {low.source.unit}."
    )


def extremes(coupling: Coupling) -> tuple[int, int]:
    """Return the target atoms that receive least and most for their weight; atoms of weight 0 are left out."""
    weights = coupling.target.weights
    ratio = np.divide(coupling.received, weights, out=np.full(len(weights), np.nan), where=weights > 0)
    return int(np.nanargmin(ratio)), int(np.nanargmax(ratio))


def _unmatched(coupling: Coupling) -> str:
    if coupling.mechanism != "partial":
        return ""
    return (
        f"; {percent(float(coupling.null_source.sum()))} of the source and "
        f"{percent(float(coupling.null_target.sum()))} of the target have no partner"
    )
