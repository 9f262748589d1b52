"""Coupling systems: maps F that send two measures to a coupling of them, which a Sinkhorn Transformer may learn."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Protocol

import numpy as np
import torch
from torch import Tensor

from sinkviz import transport
from sinkviz.transformer.pairs import Pairs

Plan = Callable[[Tensor, Tensor, Tensor, Tensor, float], Tensor]
Factors = Callable[[Tensor, Tensor, Tensor, Tensor], tuple[Tensor, Tensor]]
Sampler = Callable[[np.random.Generator, int], tuple[np.ndarray, np.ndarray]]


class PairPlan(Protocol):
    """A coupling of one pair: x (n, d), a (n,), y (m, d), b (m,) arrays and ε, to a plan (n, m)."""

    def __call__(self, x: np.ndarray, a: np.ndarray, y: np.ndarray, b: np.ndarray, epsilon: float, /) -> np.ndarray:
        """Return the plan."""


def _weights(random: np.random.Generator, count: int) -> np.ndarray:
    weights = random.uniform(0.5, 1.5, count)
    return np.asarray(weights / weights.sum())


def sample_cloud(random: np.random.Generator, count: int) -> tuple[np.ndarray, np.ndarray]:
    """Draw a tilted Gaussian cloud in the plane, clipped to [−2.5, 2.5]², weights from 0.5 to 1.5 over their sum.

    Centre, tilt and both widths (0.33 to 1.05) are drawn anew for each cloud, so its moments carry information.
    """
    tilt = random.uniform(0, math.pi)
    axes = np.array([[math.cos(tilt), -math.sin(tilt)], [math.sin(tilt), math.cos(tilt)]])
    points = random.normal(size=(count, 2)) * random.uniform(0.33, 1.05, 2) @ axes.T
    points = np.clip(points + random.uniform(-0.5, 0.5, 2), -2.5, 2.5)
    return points, _weights(random, count)


def sample_clusters(random: np.random.Generator, count: int) -> tuple[np.ndarray, np.ndarray]:
    """Draw one or two tight clusters (width 0.2) in [−2, 2]², centres 1 to 2.4 apart, weights as in `sample_cloud`."""
    points = random.normal(size=(count, 2)) * 0.2
    if count > 1 and random.uniform() < 0.5:
        angle = random.uniform(0, 2 * math.pi)
        step = random.uniform(0.5, 1.2) * np.array([math.cos(angle), math.sin(angle)])
        points += np.where(np.arange(count)[:, None] % 2 == 0, step, -step)
    return np.clip(points + random.uniform(-0.3, 0.3, 2), -2, 2), _weights(random, count)


@dataclass(frozen=True, eq=False)
class CouplingSystem:
    """A map F: (μ, ν) ↦ F(μ, ν) ∈ Π(μ, ν) on clouds in R^dim, with the words to explain it.

    Attributes:
        name: key in `SYSTEMS`.
        title: a few words for a heading.
        formula: the definition as plain text.
        explanation: two or three sentences for someone new to it.
        plan_function: batched plan, (x (…, n, d), a (…, n), y (…, m, d), b (…, m), ε) ↦ (…, n, m), float64.
        contextual: whether the law of a cloud decides how its points are matched.
        continuous: whether F is continuous in the weak topology, which the theorem assumes.
        epsilon: ε at which the system is usually taken, absolute.
        sampler: draws one cloud, (random generator, number of points) ↦ (points, weights).
        factors: exact factors (G (…, n, r), H (…, m, r)) with cost −⟨G, H⟩, where they are known.
        dim: coordinates of a point.
    """

    name: str
    title: str
    formula: str
    explanation: str
    plan_function: Plan = field(repr=False)
    contextual: bool = False
    continuous: bool = True
    epsilon: float = 0.1
    sampler: Sampler = field(default=sample_cloud, repr=False)
    factors: Factors | None = field(default=None, repr=False)
    dim: int = 2

    def plan(self, x: Tensor, a: Tensor, y: Tensor, b: Tensor, epsilon: float | None = None) -> Tensor:
        """Return F(μ, ν) for one pair or a batch, checked to be a coupling.

        Args:
            x, y: points, shapes (…, n, d) and (…, m, d). a, b: weights, shapes (…, n) and (…, m), 0 = absent.
            epsilon: ε > 0, absolute; the system's own if None.

        Returns:
            shape (…, n, m), float64.

        Raises:
            ValueError: what the system returned has another shape, a negative or non-finite entry, or marginals that
                miss a or b by more than 1e-4 (L1).
        """
        x, a, y, b = x.double(), a.double(), y.double(), b.double()
        plan = self.plan_function(x, a, y, b, self.epsilon if epsilon is None else epsilon)
        if plan.shape != (*a.shape, b.shape[-1]):
            raise ValueError(
                f"system {self.name!r}: expected a plan of shape {(*a.shape, b.shape[-1])}, got {tuple(plan.shape)}"
            )
        if not bool(torch.isfinite(plan).all()) or bool((plan < 0).any()):
            raise ValueError(f"system {self.name!r}: expected finite entries >= 0 in the plan")
        rows = float((plan.sum(-1) - a).abs().sum(-1).max())
        columns = float((plan.sum(-2) - b).abs().sum(-1).max())
        if max(rows, columns) > 1e-4:
            raise ValueError(
                f"system {self.name!r}: expected a coupling of the two measures, but row sums miss a by {rows:.1e} and "
                f"column sums miss b by {columns:.1e} (L1); end with `entropic_plan`, or project the plan"
            )
        return plan

    def clouds(
        self, count: int, sizes: tuple[int, int] = (6, 20), *, seed: int
    ) -> tuple[Tensor, Tensor, Tensor, Tensor]:
        """Draw `count` pairs of clouds, uncoupled: x, a, y, b as in `Pairs`; the rest as in `sample`."""
        low, high = sizes
        if count < 1 or not 1 <= low <= high:
            raise ValueError(f"sample: expected count >= 1 and sizes 1 <= low <= high, got {count} and {sizes}")
        random = np.random.default_rng([seed, count, low, high])
        x = np.zeros((count, high, self.dim))
        y = np.zeros((count, high, self.dim))
        a = np.zeros((count, high))
        b = np.zeros((count, high))
        for k in range(count):
            n, m = random.integers(low, high + 1, 2)
            x[k, :n], a[k, :n] = self.sampler(random, int(n))
            y[k, :m], b[k, :m] = self.sampler(random, int(m))
        # Rounded first, so that a plan belongs to the very points that a float32 model sees.
        return (
            torch.from_numpy(x.astype(np.float32)),
            torch.from_numpy(a),
            torch.from_numpy(y.astype(np.float32)),
            torch.from_numpy(b),
        )

    def sample(
        self,
        count: int,
        sizes: tuple[int, int] = (6, 20),
        *,
        seed: int,
        epsilon: float | None = None,
        batch: int = 128,
    ) -> Pairs:
        """Draw `count` pairs of clouds of `sizes[0]` to `sizes[1]` points and couple them.

        Equal seeds give equal pairs; the sizes of both clouds are drawn independently.

        Raises:
            ValueError: a count or sizes below 1, or what `plan` raises.

        >>> pairs = SYSTEMS["independent"].sample(3, (2, 4), seed=0)
        >>> len(pairs), bool(torch.allclose(pairs.plan.sum(2), pairs.a))
        (3, True)
        """
        x, a, y, b = self.clouds(count, sizes, seed=seed)
        parts = [slice(start, start + batch) for start in range(0, count, batch)]
        plans = [self.plan(x[part], a[part], y[part], b[part], epsilon) for part in parts]
        return Pairs(x, a, y, b, torch.cat(plans))


SYSTEMS: dict[str, CouplingSystem] = {}


def get_system(name: str) -> CouplingSystem:
    """Return a registered system.

    Raises:
        ValueError: an unknown name, with the known ones.
    """
    if name not in SYSTEMS:
        raise ValueError(f"system: expected one of {', '.join(SYSTEMS)}, got {name!r}")
    return SYSTEMS[name]


def _per_pair(function: PairPlan) -> Plan:
    def plan(x: Tensor, a: Tensor, y: Tensor, b: Tensor, epsilon: float) -> Tensor:
        if a.ndim == 1:
            rows, columns = a > 0, b > 0
            full = torch.zeros(len(a), len(b), dtype=torch.float64)
            given = function(x[rows].numpy(), a[rows].numpy(), y[columns].numpy(), b[columns].numpy(), epsilon)
            inner = torch.as_tensor(np.asarray(given, dtype=np.float64))
            if inner.shape != (int(rows.sum()), int(columns.sum())):
                raise ValueError(
                    f"expected a plan of shape {(int(rows.sum()), int(columns.sum()))}, got {tuple(inner.shape)}"
                )
            full[rows[:, None] & columns[None, :]] = inner.flatten()
            return full
        return torch.stack([plan(*pair, epsilon) for pair in zip(x, a, y, b, strict=True)])

    return plan


def coupling_system(
    name: str,
    *,
    title: str,
    explanation: str,
    formula: str = "",
    contextual: bool = False,
    continuous: bool = True,
    epsilon: float = 0.1,
    sampler: Sampler = sample_cloud,
    dim: int = 2,
) -> Callable[[PairPlan], PairPlan]:
    """Register a function of one pair as a coupling system (a decorator).

    The function gets float64 arrays x (n, d), a (n,), y (m, d), b (m,) and ε, and returns the plan (n, m). It then
    stands beside the built-in ones in gallery, experiments and command line.

    Raises:
        ValueError: a name that is taken.

    Example:
        >>> @coupling_system("mirror", title="Mirror", explanation="Each point looks for its mirror image.")
        ... def mirror(x, a, y, b, epsilon):
        ...     return entropic_plan(-(x * [1, -1]) @ y.T, a, b, epsilon)
        >>> SYSTEMS["mirror"].sample(2, (3, 3), seed=0).plan.shape
        torch.Size([2, 3, 3])
        >>> _ = SYSTEMS.pop("mirror")
    """

    def register(function: PairPlan) -> PairPlan:
        _add(
            CouplingSystem(
                name=name,
                title=title,
                formula=formula,
                explanation=explanation,
                plan_function=_per_pair(function),
                contextual=contextual,
                continuous=continuous,
                epsilon=epsilon,
                sampler=sampler,
                dim=dim,
            )
        )
        return function

    return register


def _add(system: CouplingSystem) -> None:
    if system.name in SYSTEMS:
        raise ValueError(f"system: the name {system.name!r} is taken; choose another")
    SYSTEMS[system.name] = system


def entropic_plan(cost: np.ndarray, a: np.ndarray, b: np.ndarray, epsilon: float) -> np.ndarray:
    """Return S_{C,ε}(a, b) of one cost matrix (n, m) as an array; the last line of most systems.

    Raises:
        ValueError: what `transport.sinkhorn` raises, or a solve that did not converge.
    """
    matrix, rows, columns = (torch.as_tensor(np.asarray(value, dtype=np.float64)) for value in (cost, a, b))
    return _solve(matrix, rows, columns, epsilon).numpy()


def _solve(cost: Tensor, a: Tensor, b: Tensor, epsilon: float) -> Tensor:
    with torch.no_grad():
        result = transport.sinkhorn(cost, a, b, epsilon=epsilon, tolerance=1e-8)
    worst = float(torch.as_tensor(result.residual).max())
    if worst > 1e-5:
        raise ValueError(
            f"coupling system: the plan of its cost did not converge at epsilon {epsilon} (L1 error {worst:.1e}); "
            "take a larger epsilon"
        )
    return result.plan


def _rotate(points: Tensor, angle: Tensor | float) -> Tensor:
    angle = torch.as_tensor(angle, dtype=points.dtype)
    cosine, sine = angle.cos(), angle.sin()
    return torch.stack(
        (cosine * points[..., 0] - sine * points[..., 1], sine * points[..., 0] + cosine * points[..., 1]), dim=-1
    )


def _centre(points: Tensor, weights: Tensor) -> Tensor:
    return points - (weights[..., None] * points).sum(-2, keepdim=True)


def second_moment(points: Tensor, weights: Tensor) -> Tensor:
    """Return Σ a_i |x_i − mean|², shape (…)."""
    return (weights * _centre(points, weights).square().sum(-1)).sum(-1)


def cluster_count(points: Tensor, weights: Tensor, distance: float) -> Tensor:
    """Return the number of clusters, shape (…): components of the graph that joins atoms nearer than `distance`."""
    count = points.shape[-2]
    present = weights > 0
    near = (torch.cdist(points, points) < distance) & present[..., None] & present[..., None, :]
    reach = near.double()
    for _ in range(max(1, math.ceil(math.log2(count)))):
        reach = ((reach @ reach) > 0).double()
    first = torch.where(reach > 0, torch.arange(count), count).amin(-1)
    return ((first == torch.arange(count)) & present).sum(-1)


def _independent(x: Tensor, a: Tensor, y: Tensor, b: Tensor, epsilon: float) -> Tensor:
    return a[..., :, None] * b[..., None, :]


def _from_factors(factors: Factors) -> Plan:
    def plan(x: Tensor, a: Tensor, y: Tensor, b: Tensor, epsilon: float) -> Tensor:
        g, h = factors(x, a, y, b)
        return _solve(-g @ h.transpose(-1, -2), a, b, epsilon)

    return plan


def _fixed_rotation(x: Tensor, a: Tensor, y: Tensor, b: Tensor) -> tuple[Tensor, Tensor]:
    return x, _rotate(y, math.pi / 3)


def _moment_rotation(x: Tensor, a: Tensor, y: Tensor, b: Tensor) -> tuple[Tensor, Tensor]:
    moment = second_moment(y, b)[..., None]
    return _centre(x, a), _rotate(_centre(y, b), math.pi * moment / (1 + moment))


def _cluster_rotation(x: Tensor, a: Tensor, y: Tensor, b: Tensor) -> tuple[Tensor, Tensor]:
    clusters = cluster_count(y, b, 0.6)[..., None]
    return 3 * _centre(x, a), _rotate(_centre(y, b), torch.where(clusters > 1, math.pi, 0.0))


_DIRECTION = torch.tensor([math.cos(math.pi / 6), math.sin(math.pi / 6)], dtype=torch.float64)


def _along_direction(x: Tensor, a: Tensor, y: Tensor, b: Tensor) -> tuple[Tensor, Tensor]:
    return (x @ _DIRECTION)[..., None], (y @ _DIRECTION)[..., None]


def _centred_distance(x: Tensor, a: Tensor, y: Tensor, b: Tensor, epsilon: float) -> Tensor:
    return _solve(torch.cdist(_centre(x, a), _centre(y, b)), a, b, epsilon)


def _two_rotations(x: Tensor, a: Tensor, y: Tensor, b: Tensor, epsilon: float) -> Tensor:
    plans = [_solve(-x @ _rotate(y, sign * math.pi / 3).transpose(-1, -2), a, b, epsilon) for sign in (1, -1)]
    return (plans[0] + plans[1]) / 2


for _system in (
    CouplingSystem(
        "independent",
        "Independent",
        "F(μ, ν) = μ ⊗ ν",
        "Every point sends its mass to all points of the other cloud alike. It is the coupling of two texts that have "
        "nothing to say to each other, and the one that a constant cost gives.",
        _independent,
    ),
    CouplingSystem(
        "rotation",
        "Fixed rotation",
        "F(μ, ν) = S_{c,ε}(μ, ν), c(x, y) = −⟨x, R y⟩, R = rotation by 60°",
        "One cloud is turned by the same angle every time, then points near each other are matched. The cost does not "
        "look at the clouds, only at the two points: no context.",
        _from_factors(_fixed_rotation),
        factors=_fixed_rotation,
    ),
    CouplingSystem(
        "moment-rotation",
        "Rotation by the second moment",
        "F(μ, ν) = S_{c,ε}(μ, ν), c(x, y) = −⟨x − m(μ), R_θ (y − m(ν))⟩, θ = π s/(1 + s), s = ∫|y − m(ν)|² dν",
        "The wider the second cloud, the further it is turned before it is matched. The same two points are partners "
        "in one context and strangers in another: the law of a cloud decides.",
        _from_factors(_moment_rotation),
        contextual=True,
        factors=_moment_rotation,
    ),
    CouplingSystem(
        "centring",
        "Matching after centring",
        "F(μ, ν) = S_{c,ε}(μ, ν), c(x, y) = |(x − m(μ)) − (y − m(ν))|",
        "Both clouds are moved to a common centre, then near points are matched by distance. Where the centre lies is "
        "a property of the whole cloud, so a point cannot be matched on its own. (With the squared distance centring "
        "would change the cost by r(x) + s(y) only, and a balanced plan not at all.)",
        _centred_distance,
        contextual=True,
    ),
    CouplingSystem(
        "monotone",
        "Monotone along a direction",
        "F(μ, ν) = S_{c,ε}(μ, ν), c(x, y) = −⟨x, u⟩⟨y, u⟩, u at 30°",
        "Both clouds are read along one line, and the order on it is kept as far as ε allows: first to first, last to "
        "last. As ε → 0 it is the monotone rearrangement.",
        _from_factors(_along_direction),
        factors=_along_direction,
    ),
    CouplingSystem(
        "mixture",
        "Mixture of two plans",
        "F(μ, ν) = ½ S_{c₊,ε}(μ, ν) + ½ S_{c₋,ε}(μ, ν), c_±(x, y) = −⟨x, R_{±60°} y⟩",
        "Half of the mass follows a turn to the left, half a turn to the right: each point has two partners. The "
        "average of two entropic plans is a coupling, but its cost is no longer a product of two small factors.",
        _two_rotations,
        contextual=True,
    ),
    CouplingSystem(
        "cluster-count",
        "The number of clusters decides (not continuous)",
        "F(μ, ν) = S_{c,ε}(μ, ν), c(x, y) = −3⟨x − m(μ), R (y − m(ν))⟩, R = identity for one cluster of ν, "
        "half a turn for more (atoms nearer than 0.6 are joined)",
        "One cluster is matched straight, two are matched crosswise. Moving one atom a little can join two clusters "
        "and turn the plan over, so F jumps: the theorem assumes continuity and promises nothing here.",
        _from_factors(_cluster_rotation),
        contextual=True,
        continuous=False,
        sampler=sample_clusters,
        factors=_cluster_rotation,
    ),
):
    _add(_system)


def with_epsilon(system: CouplingSystem, epsilon: float) -> CouplingSystem:
    """Return the same system at another default ε."""
    return replace(system, epsilon=epsilon)
