"""Texts too long for a matrix: solved on every atom within bounded memory, shown by sentences, opened pair by pair.

The cost is C_ij = −cos(x_i, y_j). What a coupling of long texts keeps is its potentials: every block of the plan

    P_ij = a_i b_j exp((f_i + g_j − C_ij)/ε)

follows from them, so that the plan of a pair of sentences is there as soon as somebody opens it. Where the matrix fits
into the memory that is allowed, `sinkviz.transport.sinkhorn` solves it in float32. Where it does not, Sinkhorn's
solver runs over tiles of rows, each made from the points, used and thrown away: a pass makes the rows exact and sums
the columns, or multiplies a vector by the Hessian of the dual. Newton's method on the columns' potentials, with
conjugate gradients and from a ladder of ε, takes 60 to 300 such passes.

Sources: Feydy, "Geometric data analysis, beyond convolutions" (2020), section 3.2 (potentials with kernels made on the
fly); Brauer et al., "A Sinkhorn-Newton method for entropic optimal transport" (2017) for the Hessian.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, cast

import numpy as np
from numpy.typing import NDArray

from sinkviz.coupling import DEFAULT_EPSILON, Coupling, Mechanism
from sinkviz.measure import Measure, Unit

if TYPE_CHECKING:
    import torch

Matrix = NDArray[np.float64]
Progress = Callable[[float, str], None]

MEMORY = 2**30
"""Bytes that the matrices of a solve may take by default."""
DENSE_BYTES = 12
"""Bytes a pair of the dense solve: cost, kernel and plan in float32."""
TILE_BYTES = 2**26
"""Bytes of a tile and of its exponentials together."""
TOLERANCE = 1e-5
"""Largest L1 error of a marginal, as a share of the mass: what float32 can be held to at this size."""
MOST_PASSES = 400
MOST_INNER = 60
"""Conjugate-gradient iterations of one Newton step."""
PATIENCE = 8
"""Newton steps without a gain of a tenth after which a solve counts as stalled."""
STEP = 20.0
"""Largest change of g/ε in one Newton step."""


class StoppedError(RuntimeError):
    """The solve was asked to stop."""


@dataclass(frozen=True)
class Plan:
    """What a solve will need, said before it starts.

    Attributes:
        pairs: atoms of the source times atoms of the target.
        tiled: whether the matrix is made in tiles.
        memory: bytes of its matrices.
        seconds: estimate for one core of an ordinary laptop, within a factor of two or three.
    """

    pairs: int
    tiled: bool
    memory: int
    seconds: float


def foresee(source: Measure, target: Measure, *, epsilon: float = DEFAULT_EPSILON, memory: int = MEMORY) -> Plan:
    """Return what `couple_long` will need for two measures.

    >>> x = Measure.from_points(np.eye(3), labels=["a", "b", "c"])
    >>> foresee(x, x).tiled, foresee(x, x, memory=100).tiled
    (False, True)
    """
    pairs = len(source) * len(target)
    # Measured on two texts of 5,000 words: iterations grow as ε falls, those of a tiled solve more slowly.
    cold = max(1.0, DEFAULT_EPSILON / epsilon)
    if pairs * DENSE_BYTES <= memory:
        return Plan(pairs, False, pairs * DENSE_BYTES, 2 + pairs * 4e-7 * cold**2)
    # A pass is a product of the points and an exponential for each pair.
    one = pairs * (source.dimension * 3.3e-11 + 3e-9)
    return Plan(pairs, True, min(memory, TILE_BYTES), 130 * cold**0.6 * one)


@dataclass(frozen=True, eq=False)
class LongCoupling:
    """The entropic coupling of two long texts, solved on their atoms and kept as potentials.

    Attributes:
        source, target: the measures, with weights a and b.
        epsilon, cost_scale: ε, absolute, and the weighted standard deviation of the double-centred cost.
        f, g: potentials, shape (n,) and (m,), in units of the cost.
        sentence_plan, sentence_attention: sums of the coupling and of softmax attention over pairs of sentences.
        transport_cost, attention_cost: ⟨C, P⟩ of both, on the atoms.
        row_error, column_error: L1 errors of the coupling's marginals, recomputed from the plan.
        attention_received: mass that attention gives each target atom, shape (m,).
        status: "converged", "stalled" or "max_iterations".
        iterations: passes over all pairs, or iterations of the dense solver.
        tiled: whether the matrix was made in tiles.
    """

    source: Measure
    target: Measure
    epsilon: float
    cost_scale: float
    f: NDArray[np.float64]
    g: NDArray[np.float64]
    sentence_plan: Matrix
    sentence_attention: Matrix
    transport_cost: float
    attention_cost: float
    row_error: float
    column_error: float
    attention_received: NDArray[np.float64]
    status: str
    iterations: int
    tiled: bool

    @property
    def converged(self) -> bool:
        """Whether both marginals are within the tolerance."""
        return self.status == "converged"

    @property
    def epsilon_relative(self) -> float:
        """ε in units of `cost_scale`; 0 where the scale is 0."""
        return self.epsilon / self.cost_scale if self.cost_scale > 0 else 0.0

    @property
    def mutual_information(self) -> float:
        """KL(P ‖ a⊗b) of the coupling on the atoms, in nat: (⟨f, a⟩ + ⟨g, b⟩ − ⟨C, P⟩)/ε."""
        gain = float(self.f @ self.source.weights + self.g @ self.target.weights) - self.transport_cost
        return max(0.0, gain / self.epsilon)

    @property
    def received_distance(self) -> float:
        """Total variation between the mass that attention gives the target's atoms and their weights."""
        return 0.5 * float(np.abs(self.attention_received - self.target.weights).sum())

    @cached_property
    def _directions(self) -> tuple[NDArray[np.float32], NDArray[np.float32]]:
        return _directions(self.source), _directions(self.target)

    def sentences(self) -> Coupling:
        """Return the coupling by sentences: exact sums over their atoms, with mean costs."""
        return self._by_sentence(self.sentence_plan, attention=False)

    def attention(self) -> Coupling:
        """Return softmax attention on the same scores and ε, by sentences."""
        return self._by_sentence(self.sentence_attention, attention=True)

    def _by_sentence(self, plan: Matrix, *, attention: bool) -> Coupling:
        means = []
        for measure, points in zip((self.source, self.target), self._directions, strict=True):
            group, spans = measure.group("sentence")
            total = np.zeros((len(spans), points.shape[1]))
            np.add.at(total, group, points * measure.weights[:, None])
            mass = np.bincount(group, weights=measure.weights, minlength=len(spans))[:, None]
            means.append(np.divide(total, mass, out=np.zeros_like(total), where=mass > 0))
        return Coupling(
            plan=plan,
            source=self.source.coarsen("sentence"),
            target=self.target.coarsen("sentence"),
            # The cost is bilinear in the directions, so its mean over a block is that of the means.
            cost=-(means[0] @ means[1].T),
            cost_scale=self.cost_scale,
            epsilon=self.epsilon,
            f=None,
            g=None,
            mechanism="softmax" if attention else "sinkhorn",
            status="converged" if attention else self.status,
            residual=0.0 if attention else self.row_error + self.column_error,
            iterations=1 if attention else self.iterations,
        )

    def block(self, source_sentence: int, target_sentence: int, unit: Unit = "word") -> tuple[Matrix, Matrix]:
        """Return coupling and attention between the words of two sentences: a block of each whole plan, exactly.

        Args:
            source_sentence, target_sentence: indices as in `sentences()`.
            unit: "token" or "word".

        Returns:
            Two matrices of the mass between the units that the sentences are made of; each sums to what the pair of
            sentences carries.

        Raises:
            ValueError: a sentence that is not there, or a unit finer than the atoms.
        """
        chosen, groups = [], []
        for name, measure, sentence in (
            ("source_sentence", self.source, source_sentence),
            ("target_sentence", self.target, target_sentence),
        ):
            of, spans = measure.group("sentence")
            if not 0 <= sentence < len(spans):
                raise ValueError(f"{name}: expected 0 to {len(spans) - 1}, got {sentence}")
            atoms = np.flatnonzero(of == sentence)
            units, _ = measure.group(unit)
            chosen.append(atoms)
            groups.append(np.unique(units[atoms], return_inverse=True)[1])
        rows, columns = chosen
        x, y = self._directions
        scores = (x[rows].astype(np.float64) @ y[columns].T.astype(np.float64)) / self.epsilon
        a, b = self.source.weights[rows], self.target.weights[columns]
        plan = np.exp(scores + (self.f[rows, None] + self.g[None, columns]) / self.epsilon) * np.outer(a, b)
        # Attention's rows are normalised over the whole text, not over this sentence.
        attention = np.exp(scores + self._attention_shift(rows)[:, None]) * np.outer(a, b)
        return _sum_blocks(plan, *groups), _sum_blocks(attention, *groups)

    def pair(self, source_sentence: int, target_sentence: int, unit: Unit = "word") -> tuple[Coupling, Coupling]:
        """Return how two sentences' words share the mass that flows between them: coupling and attention.

        Each is the law of a pair of words given the pair of sentences: the block of the whole plan over its sum, with
        its own marginals as weights.

        Raises:
            ValueError: as `block`; a pair between which no mass flows.
        """
        found = []
        for plan, mechanism in zip(
            self.block(source_sentence, target_sentence, unit), ("sinkhorn", "softmax"), strict=True
        ):
            total = float(plan.sum())
            if not total > 1e-290:
                raise ValueError("pair: expected two sentences with mass between them, got a pair without any")
            law = plan / total
            source = _words_of(self.source, source_sentence, unit, law.sum(1))
            target = _words_of(self.target, target_sentence, unit, law.sum(0))
            found.append(
                Coupling(
                    plan=law,
                    source=source,
                    target=target,
                    cost=-(_directions(source).astype(np.float64) @ _directions(target).T.astype(np.float64)),
                    cost_scale=self.cost_scale,
                    epsilon=self.epsilon,
                    f=None,
                    g=None,
                    mechanism=cast("Mechanism", mechanism),
                    status=self.status if mechanism == "sinkhorn" else "converged",
                    residual=self.row_error + self.column_error if mechanism == "sinkhorn" else 0.0,
                    iterations=self.iterations,
                )
            )
        return found[0], found[1]

    def _attention_shift(self, rows: NDArray[np.int64]) -> NDArray[np.float64]:
        x, y = self._directions
        scores = (x[rows].astype(np.float64) @ y.T.astype(np.float64)) / self.epsilon
        scores += np.log(self.target.weights, out=np.full(len(y), -np.inf), where=self.target.weights > 0)
        top = scores.max(1)
        return np.asarray(-(top + np.log(np.exp(scores - top[:, None]).sum(1))))


def _words_of(measure: Measure, sentence: int, unit: Unit, weights: NDArray[np.float64]) -> Measure:
    of, _ = measure.group("sentence")
    units, _ = measure.group(unit)
    chosen = np.unique(units[of == sentence])
    coarse = measure.coarsen(unit)
    labels = [measure.text[slice(*coarse.spans[int(k)])] for k in chosen]
    return Measure.from_points(coarse.points[chosen], labels=labels, weights=weights)


def _sum_blocks(matrix: Matrix, rows: NDArray[np.int64], columns: NDArray[np.int64]) -> Matrix:
    out = np.zeros((int(rows.max()) + 1, int(columns.max()) + 1))
    np.add.at(out, (rows[:, None], columns[None, :]), matrix)
    return out


def _directions(measure: Measure) -> NDArray[np.float32]:
    exact = measure.points.astype(np.float64)
    lengths = np.linalg.norm(exact, axis=1, keepdims=True)
    return np.asarray(np.divide(exact, lengths, out=np.zeros_like(exact), where=lengths > 0), dtype=np.float32)


def _scale(x: NDArray[np.float32], a: NDArray[np.float64], y: NDArray[np.float32], b: NDArray[np.float64]) -> float:
    """Weighted standard deviation of the double-centred −⟨x_i, y_j⟩: √tr(Σ_x Σ_y), without the matrix."""
    covariances = []
    for points, weights in ((x, a), (y, b)):
        exact = points.astype(np.float64)
        centred = exact - weights @ exact
        covariances.append((centred * weights[:, None]).T @ centred)
    variance = float((covariances[0] * covariances[1]).sum())
    return math.sqrt(variance) if variance > 1e-24 else 0.0


def couple_long(
    source: Measure,
    target: Measure,
    *,
    epsilon: float = DEFAULT_EPSILON,
    memory: int = MEMORY,
    progress: Progress | None = None,
    cancelled: Callable[[], bool] | None = None,
) -> LongCoupling:
    """Couple two long texts on their atoms: min_P ⟨C, P⟩ + ε KL(P ‖ a⊗b) with both marginals fixed, C = −cosine.

    Args:
        source, target: measures of one model and layer, of any length.
        epsilon: ε in units of the cost's scale.
        memory: bytes that the matrices may take; a larger problem is solved in tiles.
        progress: called with a share from 0 to 1 and what is being done.
        cancelled: asked between passes.

    Returns:
        LongCoupling; its status says whether both marginals are within 1e-5.

    Raises:
        ValueError: an ε or a memory that is not positive, measures of different dimensions.
        StoppedError: `cancelled` said so.

    Example:
        >>> x = Measure.from_points([[1.0, 0.0], [0.6, 0.8], [0.0, 1.0]], labels=["a", "b", "c"])
        >>> whole = couple_long(x, x, memory=1)
        >>> whole.tiled, whole.status, whole.sentences().plan.round(3).tolist()
        (True, 'converged', [[1.0]])
    """
    import torch

    if not (math.isfinite(epsilon) and epsilon > 0):
        raise ValueError(f"epsilon: expected a finite number > 0, got {epsilon}")
    if memory <= 0:
        raise ValueError(f"memory: expected a number of bytes > 0, got {memory}")
    if source.dimension != target.dimension:
        raise ValueError(
            f"points: expected the same dimension on both sides, got {source.dimension} and {target.dimension}; "
            "embed both texts with one model"
        )
    x, y = _directions(source), _directions(target)
    scale = _scale(x, source.weights, y, target.weights)
    with torch.no_grad():
        tiles = _Tiles(source, target, x, y, epsilon * (scale or 1.0), memory, progress, cancelled)
        foreseen = foresee(source, target, memory=memory)
        if foreseen.tiled:
            g, status, iterations = tiles.solve()
        else:
            tiles.report(0.1, "Solving on all pairs")
            g, status, iterations = tiles.solve_dense()
        return tiles.result(g, status, iterations, scale, foreseen.tiled)


@dataclass(frozen=True, eq=False, slots=True)
class _State:
    """What one pass tells about g: column sums of the plan with exact rows, Σ_i P_ij²/a_i, dual value, L1 error."""

    g: torch.Tensor
    sums: torch.Tensor
    squares: torch.Tensor
    dual: float
    error: float


class _Tiles:
    """The solver over tiles of rows; a pass goes over all of them."""

    def __init__(
        self,
        source: Measure,
        target: Measure,
        x: NDArray[np.float32],
        y: NDArray[np.float32],
        epsilon: float,
        memory: int,
        progress: Progress | None,
        cancelled: Callable[[], bool] | None,
    ) -> None:
        import torch

        self.source, self.target = source, target
        self.x, self.y = torch.from_numpy(x.copy()), torch.from_numpy(y.copy())
        self.a = torch.from_numpy(source.weights.copy())
        self.b = torch.from_numpy(target.weights.copy())
        self.log_b = torch.where(self.b > 0, self.b, 1.0).log().masked_fill(self.b <= 0, -math.inf)
        self.epsilon = epsilon
        self.progress, self.cancelled = progress, cancelled
        self.rows = max(1, min(TILE_BYTES, memory) // (8 * len(target)))
        self.passes = 0

    def report(self, share: float, line: str) -> None:
        if self.progress is not None:
            self.progress(share, line)
        if self.cancelled is not None and self.cancelled():
            raise StoppedError("the solve was stopped")

    def tiles(self, g: torch.Tensor, epsilon: float) -> Iterator[tuple[int, torch.Tensor, torch.Tensor]]:
        """Yield first row, plan in float32 with exact rows, and f of each tile for potentials g."""
        import torch

        shift = (g / epsilon + self.log_b).float()
        inverse = 1.0 / epsilon
        for first in range(0, len(self.x), self.rows):
            block = torch.addmm(shift.unsqueeze(0), self.x[first : first + self.rows], self.y.T, alpha=inverse)
            top = block.amax(1, keepdim=True)
            block.sub_(top).exp_()
            total = block.sum(1, dtype=torch.float64)
            weight = self.a[first : first + self.rows]
            block.mul_((weight / total).float().unsqueeze(1))
            f = -epsilon * (top.squeeze(1).double() + total.log())
            yield first, block, f
            if self.cancelled is not None and self.cancelled():
                raise StoppedError("the solve was stopped")

    def state(self, g: torch.Tensor, epsilon: float) -> _State:
        """Return the column sums of the plan with exact rows, the dual value and Σ_i P_ij²/a_i: one pass."""
        import torch

        sums = torch.zeros(len(self.y), dtype=torch.float64)
        squares = torch.zeros_like(sums)
        dual = float(self.b @ torch.where(self.b > 0, g, 0.0))
        for first, block, f in self.tiles(g, epsilon):
            sums += block.sum(0, dtype=torch.float64)
            a = self.a[first : first + len(block)]
            dual += float(a @ f)
            inverse = torch.where(a > 0, 1.0 / a, 0.0).float()
            squares += torch.mv(block.square_().T, inverse)
        self.passes += 1
        return _State(g, sums, squares, dual, float((sums - self.b).abs().sum()))

    def normal(self, g: torch.Tensor, epsilon: float, vector: torch.Tensor) -> torch.Tensor:
        """Return Pᵀ diag(1/a) P vector: one pass."""
        import torch

        out = torch.zeros_like(vector)
        single = vector.float()
        for first, block, _ in self.tiles(g, epsilon):
            a = self.a[first : first + len(block)]
            inner = torch.mv(block, single).double() * torch.where(a > 0, 1.0 / a, 0.0)
            out += torch.mv(block.T, inner.float())
        self.passes += 1
        return out

    def solve(self) -> tuple[torch.Tensor, str, int]:
        """Come down a ladder of ε by passes over tiles; g, status and the number of passes."""
        import torch

        ladder = [self.epsilon]
        # Costs lie in [−1, 1]: from ε = 1/8 on, the iteration contracts from any start.
        while ladder[-1] < 0.125:
            ladder.append(min(0.125, 3 * ladder[-1]))
        g, above = torch.zeros(len(self.y), dtype=torch.float64), math.inf
        before: tuple[torch.Tensor, float] | None = None
        status = "max_iterations"
        for rung in reversed(ladder):
            start = g
            if before is not None:
                old, of = before
                # Potentials run almost straight in ε.
                start = g + (g - old) * ((rung - above) / (above - of))
            last = rung == self.epsilon
            found, status = self.newton(start, rung, TOLERANCE if last else 0.03, last)
            before = (g, above) if rung != ladder[-1] else None
            g, above = found, rung
        return g, status, self.passes

    def newton(self, g: torch.Tensor, epsilon: float, tolerance: float, last: bool) -> tuple[torch.Tensor, str]:
        """Newton's method on the dual at one ε, its systems by conjugate gradients, each iteration of them a pass."""

        self.say(epsilon, math.inf, tolerance, last)
        now = self.state(g, epsilon)
        for _ in range(3):
            if now.error > tolerance:
                now = self.state(now.g + self.sinkhorn_step(now, epsilon), epsilon)
        best, waited = now, 0
        while now.error > tolerance:
            if self.passes >= MOST_PASSES:
                return best.g, "max_iterations"
            if waited >= PATIENCE:
                return best.g, "stalled"
            step = self.newton_step(now, epsilon, tolerance, last)
            slope = float((self.b - now.sums) @ step)
            share, reached = 1.0, None
            for _ in range(4):
                trial = self.state(now.g + epsilon * share * step, epsilon)
                gain = (trial.dual - now.dual) / epsilon
                if trial.error < 0.9 * now.error or (gain > 1e-3 * share * slope and trial.error < 3 * now.error):
                    reached = trial
                    break
                share *= 0.3
            # Where no step along that direction helps, a Sinkhorn iteration always does.
            now = reached or self.state(now.g + self.sinkhorn_step(now, epsilon), epsilon)
            waited = 0 if now.error < 0.9 * best.error else waited + 1
            if now.error < best.error:
                best = now
            self.say(epsilon, best.error, tolerance, last)
        return now.g, "converged"

    def sinkhorn_step(self, now: _State, epsilon: float) -> torch.Tensor:
        import torch

        return torch.where(self.b > 0, epsilon * (self.log_b - now.sums.clamp_min(1e-300).log()), 0.0)

    def newton_step(self, now: _State, epsilon: float, tolerance: float, last: bool) -> torch.Tensor:
        """Solve (diag(Pᵀ1) − Pᵀ diag(1/a) P) x = b − Pᵀ1 as far as the outer iteration can use it; x = Δg/ε."""
        import torch

        right = self.b - now.sums
        diagonal = now.sums
        jacobi = torch.maximum(diagonal - now.squares, 1e-4 * diagonal)
        inverse = torch.where(diagonal > 0, 1.0 / jacobi.clamp_min(1e-300), 0.0)
        x = torch.zeros_like(right)
        residual = right.clone()
        z = inverse * residual
        direction = z.clone()
        size = float(residual @ z)
        goal = size * max(min(0.1, math.sqrt(now.error)), 0.1 * tolerance / now.error) ** 2
        for _ in range(MOST_INNER):
            if size <= goal or self.passes >= MOST_PASSES:
                break
            product = diagonal * direction - self.normal(now.g, epsilon, direction)
            curvature = float(direction @ product)
            if not curvature > 0:
                break
            x += direction * (size / curvature)
            residual -= product * (size / curvature)
            z = inverse * residual
            before, size = size, float(residual @ z)
            direction = z + direction * (size / before)
            self.say(epsilon, now.error, tolerance, last)
        if not bool(x.any()):
            return torch.where(self.b > 0, self.log_b - now.sums.clamp_min(1e-300).log(), 0.0)
        return torch.where(self.b > 0, (x - float(self.b @ x)).clamp(-STEP, STEP), 0.0)

    def say(self, epsilon: float, error: float, tolerance: float, last: bool) -> None:
        """Report how far the solve is: the error falls almost straight on a logarithmic axis."""
        line = f"Pass {self.passes + 1} over all pairs at ε = {epsilon:.3g}"
        if error < math.inf:
            line += f", marginals off by {error:.1g}"
        done = math.log(max(min(error, 1.0), tolerance)) / math.log(tolerance) if last else 0.0
        self.report(0.05 + 0.85 * done, line)

    def solve_dense(self) -> tuple[torch.Tensor, str, int]:
        """Solve with the whole matrix in float32."""
        import torch

        from sinkviz.transport import sinkhorn

        cost = torch.mm(self.x, self.y.T).neg_()
        result = sinkhorn(cost, self.a, self.b, epsilon=self.epsilon, tolerance=TOLERANCE)
        return result.g, str(result.status), int(result.iterations)

    def result(self, g: torch.Tensor, status: str, iterations: int, scale: float, tiled: bool) -> LongCoupling:
        """One pass for the coupling and one for attention: block sums, costs and marginals."""
        import torch

        f = torch.empty(len(self.x), dtype=torch.float64)
        found = []
        for k, potential in enumerate((g, torch.zeros_like(g))):
            group_x, spans_x = self.source.group("sentence")
            group_y, spans_y = self.target.group("sentence")
            by_column = torch.tensor(group_y, dtype=torch.int64)
            by_row = torch.tensor(group_x, dtype=torch.int64)
            blocks = torch.zeros(len(spans_x), len(spans_y), dtype=torch.float64)
            received = torch.zeros(len(self.y), dtype=torch.float64)
            given = torch.zeros(len(self.x), dtype=torch.float64)
            cost = 0.0
            name = ("coupling", "attention")[k]
            self.report(0.9 + 0.05 * k, f"Adding up the {name} by sentences")
            for first, block, part in self.tiles(potential, self.epsilon):
                rows = slice(first, first + len(block))
                exact = block.double()
                summed = torch.zeros(len(block), len(spans_y), dtype=torch.float64).index_add_(1, by_column, exact)
                blocks.index_add_(0, by_row[rows], summed)
                received += exact.sum(0)
                given[rows] = exact.sum(1)
                # Σ_ij P_ij ⟨x_i, y_j⟩ without the matrix of scores.
                cost -= float((self.x[rows].double() * (exact @ self.y.double())).sum())
                if k == 0:
                    f[rows] = part
            found.append((blocks.numpy(), cost, received, given))
        (plan, cost, received, given), (attention, attention_cost, attention_received, _) = found
        row_error = float((given - self.a).abs().sum())
        column_error = float((received - self.b).abs().sum())
        if status == "converged" and max(row_error, column_error) > 3 * TOLERANCE:
            status = "stalled"
        # The gauge of the library: the target's potentials have mean 0.
        mean = float(self.b @ torch.where(self.b > 0, g, 0.0))
        return LongCoupling(
            source=self.source,
            target=self.target,
            epsilon=self.epsilon,
            cost_scale=scale,
            f=(f + mean).numpy(),
            g=(g - mean).numpy(),
            sentence_plan=plan,
            sentence_attention=attention,
            transport_cost=cost,
            attention_cost=attention_cost,
            row_error=row_error,
            column_error=column_error,
            attention_received=attention_received.numpy(),
            status=status,
            iterations=iterations,
            tiled=tiled,
        )
