"""W1 between two couplings on the product space: exact for small ones, a bracket with two proofs beyond."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray

EXACT_CELLS = 32 * 32
Matrix = NDArray[np.float64]


@dataclass(frozen=True)
class Distance:
    """W1 of two couplings, or a bracket around it.

    Attributes:
        lower: value of a 1-Lipschitz potential, so never above W1.
        upper: cost of a feasible flow, so never below W1.
        exact: whether both are the optimum of the linear programme.
        moved: mass that is not common to both, ½‖P − F‖₁.
    """

    lower: float
    upper: float
    exact: bool
    moved: float

    @property
    def width(self) -> float:
        """upper − lower; 0 where exact."""
        return self.upper - self.lower

    def __float__(self) -> float:
        """Return the upper end: the careful side when an error is reported."""
        return self.upper


def _ground(points: Matrix) -> Matrix:
    squares = (points[:, None, :] - points[None, :, :]) ** 2
    return np.asarray(np.sqrt(squares.sum(-1)))


def _exact(positive: Matrix, negative: Matrix, x_ground: Matrix, y_ground: Matrix) -> float:
    import ot

    rows, columns = np.nonzero(positive), np.nonzero(negative)
    ground = x_ground[np.ix_(rows[0], columns[0])] + y_ground[np.ix_(rows[1], columns[1])]
    give, take = positive[rows], negative[columns]
    total = float(give.sum())
    flow, log = ot.emd(give / total, take / take.sum(), ground, numItermax=10_000_000, log=True)
    if log["warning"] is not None:
        raise RuntimeError(f"the linear programme of W1 was not solved: {log['warning']}")
    return total * float((flow * ground).sum())


def _flow_bounds(positive: Matrix, negative: Matrix, x_ground: Matrix, y_ground: Matrix) -> tuple[float, float]:
    """Bracket W1 of two non-negative matrices of equal mass on the grid of both clouds.

    exp(−(|x−x'| + |y−y'|)/η) is a product of two small kernels, so a Sinkhorn sweep over all (nm)² pairs costs only
    nm(n + m). The flow is rounded to a feasible one (Altschuler et al., arXiv 1705.09634, algorithm 2): upper end. The
    potential is made 1-Lipschitz by two inf-convolutions: lower end.
    """
    total = float(positive.sum())
    p, q = positive / total, negative / float(negative.sum())
    diameter = float(x_ground.max() + y_ground.max())
    # exp(−diameter/η) must stay a normal number: 600 leaves room for the scalings.
    finest = max(diameter / 600, 1e-12)
    lower, upper = 0.0, np.inf
    u, v = np.where(p > 0, 1.0, 0.0), np.where(q > 0, 1.0, 0.0)
    eta = max(diameter / 20, finest)
    previous = eta
    while True:
        kernel_x, kernel_y = np.exp(-x_ground / eta), np.exp(-y_ground / eta)
        with np.errstate(divide="ignore", over="ignore", invalid="ignore", under="ignore"):
            v = np.where(v > 0, np.clip(v, 1e-280, 1e280) ** (previous / eta), 0.0)
            v = np.clip(v, 0.0, 1e250)
            for _ in range(200):
                spread = kernel_x @ v @ kernel_y
                u = np.divide(p, spread, out=np.zeros_like(p), where=(p > 0) & (spread > 1e-290))
                received = kernel_x @ u @ kernel_y
                new = np.divide(q, received, out=np.zeros_like(q), where=(q > 0) & (received > 1e-290))
                error = float(np.abs(v * received - q).sum())
                v = new
                if error < 1e-4:
                    break
        if not (np.isfinite(u).all() and np.isfinite(v).all()):
            break
        upper = min(upper, _rounded_cost(u, v, p, q, kernel_x, kernel_y, x_ground, y_ground))
        lower = max(lower, _potential_value(v, p, q, kernel_x, kernel_y, x_ground, y_ground, eta))
        if eta <= finest or upper - lower <= 1e-3 * upper:
            break
        previous, eta = eta, max(eta / 2, finest)
    return lower * total, min(upper, diameter) * total


def _rounded_cost(
    u: Matrix,
    v: Matrix,
    p: Matrix,
    q: Matrix,
    kernel_x: Matrix,
    kernel_y: Matrix,
    x_ground: Matrix,
    y_ground: Matrix,
) -> float:
    rows = u * (kernel_x @ v @ kernel_y)
    u = u * np.divide(p, rows, out=np.ones_like(p), where=rows > p)
    columns = v * (kernel_x @ u @ kernel_y)
    v = v * np.divide(q, columns, out=np.ones_like(q), where=columns > q)
    rows, columns = u * (kernel_x @ v @ kernel_y), v * (kernel_x @ u @ kernel_y)
    cost = float((u * ((x_ground * kernel_x) @ v @ kernel_y + kernel_x @ v @ (y_ground * kernel_y))).sum())
    left, missing = np.clip(p - rows, 0, None), np.clip(q - columns, 0, None)
    rest = float(left.sum())
    if rest > 0:
        # What is left goes everywhere in proportion: a feasible flow whose cost splits into its two marginals.
        missing *= rest / max(float(missing.sum()), 1e-300)
        cost += float(left.sum(1) @ x_ground @ missing.sum(1) + left.sum(0) @ y_ground @ missing.sum(0)) / rest
    return cost


def _inf_convolution(values: Matrix, x_ground: Matrix, y_ground: Matrix) -> Matrix:
    """Return min over (k, l) of values_kl + |x_i − x_k| + |y_j − y_l|: the largest 1-Lipschitz minorant."""
    along = np.stack([(values + row[:, None]).min(0) for row in x_ground])
    return np.stack([(along + column[None, :]).min(1) for column in y_ground], axis=1)


def _potential_value(
    v: Matrix,
    p: Matrix,
    q: Matrix,
    kernel_x: Matrix,
    kernel_y: Matrix,
    x_ground: Matrix,
    y_ground: Matrix,
    eta: float,
) -> float:
    with np.errstate(divide="ignore"):
        potential = np.where(v > 0, -eta * np.log(v), np.inf)
    if not np.isfinite(potential).any():
        return 0.0
    # φ(z) = min over the receiving cells of d(z, z') − g(z'); any 1-Lipschitz φ gives a lower end.
    lipschitz = _inf_convolution(potential, x_ground, y_ground)
    return max(0.0, float((lipschitz * (p - q)).sum()))


def coupling_distance(plan: ArrayLike, other: ArrayLike, x: ArrayLike, y: ArrayLike) -> Distance:
    """Return W1(P, F) on the product space, ground distance |x − x'| + |y − y'|.

    W1 = min over couplings of P and F of the mean distance moved. It depends on P − F only, so the common mass is
    cancelled first. Up to 32×32 cells the linear programme is solved exactly (POT's network simplex); beyond, a
    bracket: upper end from a feasible flow, lower end from a 1-Lipschitz potential.

    Args:
        plan, other: P and F, shape (n, m), ≥ 0, equal sums.
        x, y: points, shapes (n, d) and (m, d').

    Returns:
        Distance, in the units of the points times the mass.

    Raises:
        ValueError: shapes that do not fit, negative or non-finite entries, or sums that differ by more than 1e-4.

    Source: Villani, "Optimal Transport", 5.16 (Kantorovich–Rubinstein); Fraiman, arXiv 2603.25860, theorem 3.1.

    Example:
        >>> identity, swap = [[0.5, 0.0], [0.0, 0.5]], [[0.0, 0.5], [0.5, 0.0]]
        >>> coupling_distance(identity, swap, [[0.0], [1.0]], [[0.0], [1.0]]).upper
        1.0
    """
    first, second = np.asarray(plan, dtype=np.float64), np.asarray(other, dtype=np.float64)
    source, target = np.asarray(x, dtype=np.float64), np.asarray(y, dtype=np.float64)
    if source.ndim != 2 or target.ndim != 2 or first.shape != (len(source), len(target)):
        raise ValueError(
            "coupling_distance: expected a plan of shape (n, m) with points (n, d) and (m, d'), got "
            f"{first.shape}, {source.shape} and {target.shape}"
        )
    if second.shape != first.shape:
        raise ValueError(f"coupling_distance: expected two plans of one shape, got {first.shape} and {second.shape}")
    for name, value in (("plan", first), ("other", second), ("x", source), ("y", target)):
        if not np.isfinite(value).all() or (name in ("plan", "other") and (value < 0).any()):
            raise ValueError(f"coupling_distance: expected finite numbers (>= 0 in the plans) in {name}")
    mass, mass_other = float(first.sum()), float(second.sum())
    if abs(mass - mass_other) > 1e-4 * max(mass, mass_other) or mass == 0:
        raise ValueError(f"coupling_distance: expected equal positive sums, got {mass:.6g} and {mass_other:.6g}")
    difference = first - second * (mass / mass_other)
    positive, negative = np.clip(difference, 0, None), np.clip(-difference, 0, None)
    moved = float(positive.sum())
    x_ground, y_ground = _ground(source), _ground(target)
    diameter = float(x_ground.max() + y_ground.max())
    if moved <= 1e-15 * mass or diameter == 0:
        return Distance(0.0, moved * diameter, moved * diameter == 0, moved)
    if first.size <= EXACT_CELLS:
        distance = _exact(positive, negative, x_ground, y_ground)
        return Distance(distance, distance, True, moved)
    low, high = _flow_bounds(positive, negative, x_ground, y_ground)
    return Distance(low, high, False, moved)
