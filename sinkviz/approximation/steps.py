"""The four steps of the proof, each as a computation whose quantities can be looked at."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass
from typing import Any, Literal

import numpy as np
import torch
from numpy.typing import ArrayLike, NDArray

from sinkviz import transport
from sinkviz.approximation.distance import Distance, coupling_distance
from sinkviz.approximation.systems import CouplingSystem
from sinkviz.transformer.encoder import MeasureEncoder

Matrix = NDArray[np.float64]


def additive_distance(matrix: ArrayLike, *, sweeps: int = 2000) -> float:
    """Return min over r, s of max_ij |M_ij − r_i − s_j|, the size of a cost that a balanced plan can feel.

    Alternating midranges of rows and columns; every iterate is an upper bound, and they fall to the minimum.

    Args:
        matrix: M, shape (n, m), finite.

    Source: Diliberto and Straus, Pacific J. Math. 1 (1951) 195–210.

    >>> round(additive_distance([[1, 2], [3, 5]]), 12)
    0.25
    """
    rest = np.array(matrix, dtype=np.float64)
    if rest.size == 0:
        return 0.0
    best = float(np.abs(rest).max())
    for _ in range(sweeps):
        rest -= (rest.max(1, keepdims=True) + rest.min(1, keepdims=True)) / 2
        rest -= (rest.max(0, keepdims=True) + rest.min(0, keepdims=True)) / 2
        now = float(np.abs(rest).max())
        if best - now <= 1e-12 * max(best, 1.0):
            return min(best, now)
        best = now
    return best


def _solve(cost: Matrix, a: Matrix, b: Matrix, epsilon: float) -> tuple[Matrix, str]:
    with torch.no_grad():
        result = transport.sinkhorn(
            torch.from_numpy(np.ascontiguousarray(cost)),
            torch.from_numpy(np.ascontiguousarray(a)),
            torch.from_numpy(np.ascontiguousarray(b)),
            epsilon=epsilon,
            tolerance=1e-9,
        )
    return result.plan.numpy(), str(result.status)


def _check(matrix: ArrayLike, x: ArrayLike, y: ArrayLike, epsilon: float, name: str) -> tuple[Matrix, Matrix, Matrix]:
    given = np.asarray(matrix, dtype=np.float64)
    source, target = np.asarray(x, dtype=np.float64), np.asarray(y, dtype=np.float64)
    if given.ndim != 2 or source.ndim != 2 or target.ndim != 2 or given.shape != (len(source), len(target)):
        raise ValueError(
            f"{name}: expected shape (n, m) with points (n, d) and (m, d'), got {given.shape}, {source.shape} and "
            f"{target.shape}"
        )
    if not np.isfinite(given).all():
        raise ValueError(f"{name}: expected finite numbers")
    if not (np.isfinite(epsilon) and epsilon > 0):
        raise ValueError(f"epsilon: expected a finite number > 0, got {epsilon!r}")
    return given, source, target


@dataclass(frozen=True, eq=False)
class Recovery:
    """Step 1: a plan, the cost made for it, and what the Sinkhorn operator gives back.

    Attributes:
        target: π, shape (n, m), sum 1, with marginals a and b.
        a, b: its marginals.
        smoothing: δ in (0, 1].
        smoothed: π_δ = (1 − δ) π + δ a⊗b.
        epsilon: ε.
        cost: c = −ε log(π_δ / (a⊗b)); 0 where a or b is 0.
        recovered: S_{c,ε}(a, b).
        status: of that solve.
        smoothing_distance: W1(π, π_δ).
        independent_distance: W1(π, a⊗b).
        recovered_distance: W1(π, recovered).
        recovery_error: ‖recovered − π_δ‖₁.
    """

    target: Matrix
    a: Matrix
    b: Matrix
    smoothing: float
    smoothed: Matrix
    epsilon: float
    cost: Matrix
    recovered: Matrix
    status: str
    smoothing_distance: Distance
    independent_distance: Distance
    recovered_distance: Distance
    recovery_error: float

    @property
    def predicted_distance(self) -> float:
        """δ W1(π, a⊗b), which W1(π, π_δ) equals."""
        return self.smoothing * self.independent_distance.upper

    @property
    def cost_range(self) -> float:
        """Largest minus smallest cost: what a small δ costs."""
        return float(np.ptp(self.cost))


def recover_plan(plan: ArrayLike, x: ArrayLike, y: ArrayLike, *, epsilon: float, smoothing: float) -> Recovery:
    """Step 1, entropic plans are dense: make a cost whose Sinkhorn plan is a given plan, up to smoothing.

    π_δ = (1 − δ) π + δ a⊗b has the marginals of π and a positive density, so c = −ε log(dπ_δ/d(a⊗b)) makes
    a_i b_j exp(−c_ij/ε) = π_δ a coupling of exponential form with f = g = 0: it *is* S_{c,ε}(a, b). And because
    π_δ − π = δ (a⊗b − π), W1(π, π_δ) = δ W1(π, a⊗b) exactly.

    Args:
        plan: π, shape (n, m), ≥ 0, positive sum (normalised to 1); its sums are the marginals.
        x, y: points, shapes (n, d) and (m, d').
        epsilon: ε > 0. smoothing: δ in (0, 1].

    Raises:
        ValueError: shapes that do not fit, negative or non-finite entries, δ or ε out of range.

    Source: Fraiman, arXiv 2603.25860, lemma A.6 and theorem A.8.

    Example:
        >>> step = recover_plan(np.eye(3), np.eye(3), np.eye(3), epsilon=0.1, smoothing=0.1)
        >>> step.recovery_error < 1e-8, abs(step.smoothing_distance.upper - step.predicted_distance) < 1e-8
        (True, True)
    """
    given, source, target = _check(plan, x, y, epsilon, "plan")
    if (given < 0).any() or given.sum() <= 0:
        raise ValueError("plan: expected entries >= 0 with a positive sum")
    if not 0 < smoothing <= 1:
        raise ValueError(f"smoothing: expected a number in (0, 1], got {smoothing!r}")
    given = given / given.sum()
    a, b = given.sum(1), given.sum(0)
    independent = np.outer(a, b)
    smoothed = (1 - smoothing) * given + smoothing * independent
    present = independent > 0
    cost = np.where(present, -epsilon * np.log(np.where(present, smoothed, 1) / np.where(present, independent, 1)), 0.0)
    recovered, status = _solve(cost, a, b, epsilon)
    return Recovery(
        target=given,
        a=a,
        b=b,
        smoothing=smoothing,
        smoothed=smoothed,
        epsilon=epsilon,
        cost=cost,
        recovered=recovered,
        status=status,
        smoothing_distance=coupling_distance(given, smoothed, source, target),
        independent_distance=coupling_distance(given, independent, source, target),
        recovered_distance=coupling_distance(given, recovered, source, target),
        recovery_error=float(np.abs(recovered - smoothed).sum()),
    )


@dataclass(frozen=True, eq=False)
class RankStep:
    """A cost of rank r and what it does.

    Attributes:
        rank: r.
        cost: c_r, shape (n, m), double-centred.
        plan: S_{c_r,ε}(a, b). status: of that solve.
        sup_error: ‖c − c_r‖∞ at the best r_i + s_j, over atoms with mass.
        plan_change: ‖S_{c_r} − S_c‖₁.
        distance: W1(S_{c_r}, S_c).
    """

    rank: int
    cost: Matrix
    plan: Matrix
    status: str
    sup_error: float
    plan_change: float
    distance: Distance


@dataclass(frozen=True, eq=False)
class Factorisation:
    """Step 2: a cost and its best factors of every rank asked for.

    Attributes:
        cost: c as given, shape (n, m).
        centred: its double-centred form, which decides the plan.
        plan: S_{c,ε}(a, b). status: of that solve.
        epsilon: ε.
        singular_values: of √a · centred · √b, falling.
        steps: one for each rank.
    """

    cost: Matrix
    centred: Matrix
    plan: Matrix
    status: str
    epsilon: float
    singular_values: Matrix
    steps: tuple[RankStep, ...]

    @property
    def explained(self) -> Matrix:
        """Share of the squared weighted norm that the first k factors carry, k = 1, 2, …; ones for a constant cost."""
        squares = self.singular_values**2
        total = float(squares.sum())
        return np.asarray(np.cumsum(squares) / total if total > 0 else np.ones_like(squares))


def factor_cost(
    cost: ArrayLike,
    a: ArrayLike,
    b: ArrayLike,
    x: ArrayLike,
    y: ArrayLike,
    *,
    epsilon: float,
    ranks: Sequence[int] | None = None,
) -> Factorisation:
    """Step 2, the cost factors: c(x, y) ≈ Σ_{k≤r} G_k(x) H_k(y), by rank.

    The singular value decomposition of √a · C̃ · √b (C̃ double-centred) gives the best factors of rank r in weighted
    least squares. The plan feels a cost only up to r_i + s_j, so the largest error is taken at the best of those.

    Args:
        cost: shape (n, m), finite. a, b: weights, sum 1. x, y: points. epsilon: ε > 0.
        ranks: which; 0 … min(n, m, 8) if None.

    Raises:
        ValueError: shapes that do not fit, numbers out of range.

    Source: Fraiman, arXiv 2603.25860, appendix A (Stone–Weierstrass); Eckart and Young for the matrix form.

    Example:
        >>> points = np.random.default_rng(0).normal(size=(6, 2))
        >>> weights = np.full(6, 1 / 6)
        >>> step = factor_cost(-points @ points.T, weights, weights, points, points, epsilon=0.5, ranks=[0, 1, 2])
        >>> [round(rank.sup_error, 6) > 0 for rank in step.steps]
        [True, True, False]
    """
    given, source, target = _check(cost, x, y, epsilon, "cost")
    rows, columns = np.asarray(a, dtype=np.float64), np.asarray(b, dtype=np.float64)
    if rows.shape != given.shape[:1] or columns.shape != given.shape[1:]:
        raise ValueError(f"weights: expected shapes {given.shape[:1]} and {given.shape[1:]}")
    chosen = list(range(min(*given.shape, 8) + 1)) if ranks is None else list(ranks)
    if not chosen or any(rank < 0 for rank in chosen):
        raise ValueError(f"ranks: expected whole numbers >= 0, got {ranks!r}")
    centred = given - (given @ columns)[:, None] - (rows @ given)[None, :] + rows @ given @ columns
    root_a, root_b = np.sqrt(rows), np.sqrt(columns)
    left, values, right = np.linalg.svd(root_a[:, None] * centred * root_b[None, :], full_matrices=False)
    plan, status = _solve(given, rows, columns, epsilon)
    present = np.ix_(rows > 0, columns > 0)
    steps = []
    for rank in chosen:
        scaled = (left[:, :rank] * values[:rank]) @ right[:rank]
        weight = root_a[:, None] * root_b[None, :]
        factored = np.divide(scaled, weight, out=np.zeros_like(scaled), where=weight > 0)
        changed, solved = _solve(factored, rows, columns, epsilon)
        steps.append(
            RankStep(
                rank=rank,
                cost=factored,
                plan=changed,
                status=solved,
                sup_error=additive_distance((centred - factored)[present]),
                plan_change=float(np.abs(changed - plan).sum()),
                distance=coupling_distance(changed, plan, source, target),
            )
        )
    return Factorisation(given, centred, plan, status, epsilon, values, tuple(steps))


@dataclass(frozen=True)
class FactorFit:
    """Step 3: how well an encoder of one size has learned a factor of a system.

    Attributes:
        width, layers, parameters: the encoder's size.
        step, steps: training steps taken, and planned.
        loss: last training loss, mean squared distance.
        mean_error: weighted mean of |H(ν, y) − K(ν, y)| over held-out clouds; None before the end.
        largest_error: largest such distance seen, a lower bound of the sup; None before the end.
        scale: root of the mean of |H(ν, y)|², to judge the errors by; None before the end.
        seconds: spent on this size.
    """

    width: int
    layers: int
    parameters: int
    step: int
    steps: int
    loss: float
    mean_error: float | None
    largest_error: float | None
    scale: float | None
    seconds: float

    @property
    def finished(self) -> bool:
        """Whether the held-out errors are there."""
        return self.mean_error is not None


def learn_factors(
    system: CouplingSystem,
    *,
    side: Literal["source", "target"] = "target",
    sizes: Sequence[tuple[int, int]] = ((8, 1), (16, 2), (32, 2), (32, 3)),
    steps: int = 400,
    batch: int = 32,
    learning_rate: float = 3e-3,
    points: tuple[int, int] = (6, 20),
    held_out: int = 200,
    seed: int = 0,
    report_every: int = 50,
    cancelled: Callable[[], bool] | None = None,
) -> Iterator[FactorFit]:
    """Step 3, transformers approximate the factors: regression of G(μ, x) or H(ν, y) by measure encoders.

    Args:
        system: one whose factors are known (`system.factors`).
        side: "source" learns G, "target" learns H.
        sizes: (width, layers) of each encoder. steps, batch, learning_rate: of Adam with cosine decay.
        points: sizes of the clouds. held_out: clouds never trained on. seed: of data and weights.
        cancelled: asked at each report; the iterator ends when it says yes.

    Yields:
        reports while a size is trained, then one with its held-out errors, for each size.

    Raises:
        ValueError: a system without known factors.

    Source: Furuya, de Hoop, Peyré, arXiv 2408.01367, theorem 1; Fraiman, arXiv 2603.25860, appendix A.

    Example:
        >>> from sinkviz.approximation import SYSTEMS
        >>> fits = list(learn_factors(SYSTEMS["rotation"], sizes=[(8, 1)], steps=20, held_out=20))
        >>> fits[-1].finished, fits[-1].largest_error > fits[-1].mean_error
        (True, True)
    """
    if system.factors is None:
        raise ValueError(
            f"system {system.name!r}: its factors are not known; choose one whose cost is given by factors"
        )
    which = 0 if side == "source" else 1

    def data(count: int, seed: int) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
        clouds = system.clouds(count, points, seed=seed)
        assert system.factors is not None
        factor = system.factors(*(tensor.double() for tensor in clouds))[which].float()
        return clouds[2 * which], clouds[2 * which + 1].float(), factor

    train_points, train_weights, train_factor = data(batch * 64, seed)
    test_points, test_weights, test_factor = data(held_out, seed + 1_000_003)
    for width, layers in sizes:
        start = time.perf_counter()
        state = torch.random.get_rng_state()
        torch.manual_seed(seed)
        encoder = MeasureEncoder(
            system.dim, width=width, layers=layers, heads=_heads(width), out=train_factor.shape[-1]
        )
        torch.random.set_rng_state(state)
        size = sum(parameter.numel() for parameter in encoder.parameters())
        optimiser = torch.optim.Adam(encoder.parameters(), lr=learning_rate)
        schedule = torch.optim.lr_scheduler.OneCycleLR(optimiser, learning_rate, total_steps=steps)
        order = torch.Generator().manual_seed(seed)
        for step in range(1, steps + 1):
            index = torch.randint(len(train_points), (batch,), generator=order)
            weights = train_weights[index]
            error = (encoder(train_points[index], weights) - train_factor[index]).square().sum(-1)
            loss = (weights * error).sum(-1).mean()
            optimiser.zero_grad()
            torch.autograd.backward([loss])
            torch.nn.utils.clip_grad_norm_(encoder.parameters(), 1.0)
            optimiser.step()
            schedule.step()
            if step % report_every == 0 and step < steps:
                spent = time.perf_counter() - start
                yield FactorFit(width, layers, size, step, steps, float(loss.detach()), None, None, None, spent)
                if cancelled is not None and cancelled():
                    return
        with torch.no_grad():
            error = (encoder(test_points, test_weights) - test_factor).square().sum(-1).sqrt()
            mean = float((test_weights * error).sum(-1).mean())
            largest = float(torch.where(test_weights > 0, error, 0.0).max())
            scale = float((test_weights * test_factor.square().sum(-1)).sum(-1).mean().sqrt())
        spent = time.perf_counter() - start
        yield FactorFit(width, layers, size, steps, steps, float(loss.detach()), mean, largest, scale, spent)


FITS_FORMAT = "sinkviz.FactorFits"
FIT_SIZES = ((8, 1), (16, 2), (32, 2), (32, 3))
"""Sizes of the encoders that step 3 is shown with."""


@dataclass(frozen=True)
class StoredFits:
    """A finished run of step 3.

    Attributes:
        system: name of the coupling system. steps: training steps of each size. seed: of data and weights.
        fits: reports in the order they came, each size ending with its held-out errors.
        seconds: of the whole run.
    """

    system: str
    steps: int
    seed: int
    fits: tuple[FactorFit, ...]
    seconds: float

    @property
    def command(self) -> str:
        """The command line that makes it."""
        seed = f" --seeds {self.seed}" if self.seed else ""
        return f"python -m sinkviz approximate {self.system} --factors --steps {self.steps}{seed}"

    def as_dict(self) -> dict[str, Any]:
        """Return plain JSON values."""
        return {"format": FITS_FORMAT, "version": 1, "command": self.command, **asdict(self)}

    @classmethod
    def from_dict(cls, data: dict[str, Any]) -> StoredFits:
        """Read them back; ValueError if they are none."""
        try:
            if data["format"] != FITS_FORMAT or data["version"] != 1:
                raise ValueError(f"format {data['format']!r:.60}, version {data['version']!r:.20}")
            fits = tuple(FactorFit(**fit) for fit in data["fits"])
            return cls(str(data["system"]), int(data["steps"]), int(data["seed"]), fits, float(data["seconds"]))
        except (KeyError, TypeError, AttributeError, ValueError) as error:
            raise ValueError(f"factors: not a stored run of step 3 ({error!s:.160})") from error


def stored_fits() -> dict[str, StoredFits]:
    """Return the runs of step 3 that come with the package, by system."""
    from sinkviz.resources import ROOT

    found = {}
    for path in sorted((ROOT / "approximation" / "factors").glob("*.json")):
        fits = StoredFits.from_dict(json.loads(path.read_text(encoding="utf-8")))
        found[fits.system] = fits
    return found


def _heads(width: int) -> int:
    return next(heads for heads in (4, 2, 1) if width % heads == 0)


@dataclass(frozen=True, eq=False)
class Stability:
    """Step 4: two costs, their plans, and the bound between them.

    Attributes:
        plan, changed_plan: P of c and P' of c'. status, changed_status: of the solves.
        epsilon: ε.
        cost_change: ‖c − c'‖∞ at the best r_i + s_j, over atoms with mass.
        plan_change: ‖P − P'‖₁.
        distance: W1(P, P').
        diameter: of the product of both clouds.
    """

    plan: Matrix
    changed_plan: Matrix
    status: str
    changed_status: str
    epsilon: float
    cost_change: float
    plan_change: float
    distance: Distance
    diameter: float

    @property
    def bound(self) -> float:
        """cost_change / ε, which ‖P − P'‖₁ cannot exceed."""
        return self.cost_change / self.epsilon

    @property
    def ratio(self) -> float:
        """plan_change / bound, at most 1; 0 where nothing has changed."""
        return self.plan_change / self.bound if self.bound > 0 else 0.0

    @property
    def distance_bound(self) -> float:
        """diameter · ½ · min(bound, 2), which W1(P, P') cannot exceed."""
        return self.diameter * 0.5 * min(self.bound, 2.0)


def perturb_cost(
    cost: ArrayLike,
    change: ArrayLike,
    a: ArrayLike,
    b: ArrayLike,
    x: ArrayLike,
    y: ArrayLike,
    *,
    epsilon: float,
) -> Stability:
    """Step 4, stability: compare the plans of c and c' = c + change with the bound ‖P − P'‖₁ ≤ ‖c − c'‖∞ / ε.

    Proof. log P = (f + g − c)/ε + log a⊗b, and alike for P'. Both have the marginals a and b, so potentials and
    a⊗b drop out of KL(P‖P') + KL(P'‖P) = Σ (P − P')(log P − log P') = ⟨c' − c, P − P'⟩/ε, as does any r_i + s_j
    added to c' − c. The right side is at most ‖c − c'‖∞ ‖P − P'‖₁/ε with the norm at the best r_i + s_j. By Pinsker
    each KL is at least ½‖P − P'‖₁², so the left side is at least ‖P − P'‖₁². Divide. Moving mass ½‖P − P'‖₁ by no
    more than the diameter gives the bound on W1.

    Args:
        cost, change: shapes (n, m), finite. a, b: weights, sum 1. x, y: points. epsilon: ε > 0.

    Raises:
        ValueError: shapes that do not fit, numbers out of range.

    Source: proved here; for the Lipschitz property in general Eckstein and Nutz, arXiv 2110.06798.

    Example:
        >>> points, half = np.eye(2), np.array([0.5, 0.5])
        >>> step = perturb_cost(np.zeros((2, 2)), [[0.1, 0], [0, 0]], half, half, points, points, epsilon=0.5)
        >>> 0 < step.ratio <= 1
        True
    """
    given, source, target = _check(cost, x, y, epsilon, "cost")
    added, _, _ = _check(change, x, y, epsilon, "change")
    rows, columns = np.asarray(a, dtype=np.float64), np.asarray(b, dtype=np.float64)
    plan, status = _solve(given, rows, columns, epsilon)
    changed, changed_status = _solve(given + added, rows, columns, epsilon)

    def spread(points: Matrix) -> float:
        squares = ((points[:, None, :] - points[None, :, :]) ** 2).sum(-1)
        return float(np.sqrt(squares.max()))

    return Stability(
        plan=plan,
        changed_plan=changed,
        status=status,
        changed_status=changed_status,
        epsilon=epsilon,
        cost_change=additive_distance(added[np.ix_(rows > 0, columns > 0)]),
        plan_change=float(np.abs(plan - changed).sum()),
        distance=coupling_distance(plan, changed, source, target),
        diameter=spread(source) + spread(target),
    )


def random_changes(
    cost: ArrayLike,
    a: ArrayLike,
    b: ArrayLike,
    x: ArrayLike,
    y: ArrayLike,
    *,
    epsilon: float,
    sizes: Sequence[float],
    repeats: int = 8,
    seed: int = 0,
) -> list[Stability]:
    """Return `perturb_cost` for random changes of each size: Gaussian, of random rank, scaled to that size.

    Raises:
        ValueError: as `perturb_cost`; a size that is not positive.
    """
    given = np.asarray(cost, dtype=np.float64)
    random = np.random.default_rng(seed)
    steps = []
    for size in sizes:
        if not (np.isfinite(size) and size > 0):
            raise ValueError(f"sizes: expected finite numbers > 0, got {size!r}")
        for _ in range(repeats):
            rank = int(random.integers(1, min(given.shape) + 1))
            change = random.normal(size=(given.shape[0], rank)) @ random.normal(size=(rank, given.shape[1]))
            width = additive_distance(change)
            change *= size / width if width > 1e-12 else 0.0
            steps.append(perturb_cost(given, change, a, b, x, y, epsilon=epsilon))
    return steps
