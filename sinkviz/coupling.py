"""The result of a comparison: a joint law of two texts, with everything that can be read off it."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from sinkviz.measure import Measure, Unit

Mechanism = Literal["sinkhorn", "softmax", "relaxed", "partial", "exact"]
MECHANISMS: tuple[Mechanism, ...] = ("sinkhorn", "softmax", "relaxed", "partial", "exact")
Matrix = NDArray[np.float64]
DEFAULT_EPSILON = 0.35
"""Default ε in units of the cost's scale: a word spreads over two or three partners in ordinary paraphrases."""


@dataclass(frozen=True)
class Link:
    """One pair of atoms and the mass between them.

    Attributes:
        source_index, target_index: positions of the atoms.
        source_label, target_label: their slices of the texts.
        mass: P_ij.
        share_of_row, share_of_column: P_ij over the row's or the column's sum; 0 where that is 0.
        lift: log(P_ij / (a_i b_j)), in nat; −inf where no mass flows.
    """

    source_index: int
    target_index: int
    source_label: str
    target_label: str
    mass: float
    share_of_row: float
    share_of_column: float
    lift: float


def _frozen(array: NDArray[np.generic]) -> Matrix:
    owned = np.array(array, dtype=np.float64)
    owned.flags.writeable = False
    return owned


def _block_sums(matrix: Matrix, rows: NDArray[np.int64], columns: NDArray[np.int64], shape: tuple[int, int]) -> Matrix:
    by_rows = np.zeros((shape[0], matrix.shape[1]))
    np.add.at(by_rows, rows, matrix)
    blocks = np.zeros((shape[1], shape[0]))
    np.add.at(blocks, columns, by_rows.T)
    return blocks.T


def cost_unit(cost: Matrix, scale: float, a: NDArray[np.float64], b: NDArray[np.float64]) -> float:
    """Return the unit of relative ε: the cost's scale, or where that is 0 the spread of the cost itself.

    When one side has a single atom the coupling is a⊗b for every ε and the scale is 0, while attention still depends
    on ε; there the unit is the weighted standard deviation of the finite cost. 0 for a constant cost.
    """
    if scale > 0:
        return float(scale)
    pair = np.outer(a, b) * np.isfinite(cost)
    finite = np.where(np.isfinite(cost), cost, 0.0)
    mean = float((pair * finite).sum() / pair.sum()) if pair.sum() > 0 else 0.0
    spread = float(np.sqrt((pair * (finite - mean) ** 2).sum()))
    return spread if spread > 1e-12 * max(1.0, float(np.abs(finite).max())) else 0.0


def double_centred(cost: Matrix, a: NDArray[np.float64], b: NDArray[np.float64]) -> Matrix:
    """Return C − row means − column means + mean, with the means taken under the weights a and b.

    Balanced plans depend on the cost through this matrix only. Entries of +inf (forbidden pairs) stay +inf and
    take no part in the means.
    """
    finite = np.isfinite(cost)
    if finite.all():
        rows = cost @ b
        columns = a @ cost
        return np.asarray(cost - rows[:, None] - columns[None, :] + a @ rows)
    pair = np.where(finite, np.outer(a, b), 0.0)
    known = np.where(finite, cost, 0.0)

    def mean(total: NDArray[np.float64], mass: NDArray[np.float64]) -> NDArray[np.float64]:
        return np.divide(total, mass, out=np.zeros_like(total), where=mass > 0)

    rows = mean((pair * known).sum(1), pair.sum(1))
    columns = mean((pair * known).sum(0), pair.sum(0))
    middle = float((pair * known).sum() / pair.sum()) if pair.sum() > 0 else 0.0
    return np.asarray(np.where(finite, known - rows[:, None] - columns[None, :] + middle, np.inf))


@dataclass(frozen=True, eq=False)
class Coupling:
    """A joint law P of a source and a target measure, and how it was found.

    The problem behind it is min_P ⟨C, P⟩ + ε KL(P ‖ a⊗b), with both marginals fixed ("sinkhorn"), the rows only
    ("softmax"), the columns softly ("relaxed"), a null partner on both sides ("partial"), or ε = 0 ("exact").

    Attributes:
        plan: P, shape (n, m), float64; for "partial" the mass between real atoms.
        source, target: the measures, with weights a and b.
        cost: C, shape (n, m), in the units of the score (a cosine has none).
        cost_scale: weighted standard deviation of the double-centred cost; the unit in which ε is given.
        epsilon: ε, absolute (in the units of the cost); 0 for "exact".
        f, g: dual potentials of the problem that was solved, in cost units, or None where there are none.
            They keep the atoms of the *solved* problem when the coupling is shown coarser.
        mechanism: which problem was solved.
        status: "converged", "stalled", "max_iterations", "closed_form" or "exact".
        residual: L1 error of the optimality conditions of the problem that was posed.
        iterations: iterations of the solver.
        null_source, null_target: shape (n,) and (m,), mass without a partner; zeros except for "partial".
        relaxation: weight ρ of the KL term on the columns, absolute; None unless "relaxed".
        null_cost: price of having no partner; None unless "partial".
        device: where it was solved.
        solved: the coupling that was solved, when this one shows it coarser; None when it is that one.

    Source: Fraiman, arXiv 2603.25860, section 2; Litman, arXiv 2508.08369 for softmax as one-sided transport.
    """

    plan: Matrix
    source: Measure
    target: Measure
    cost: Matrix
    cost_scale: float
    epsilon: float
    f: NDArray[np.float64] | None
    g: NDArray[np.float64] | None
    mechanism: Mechanism
    status: str
    residual: float
    iterations: int
    null_source: NDArray[np.float64] = field(default_factory=lambda: np.zeros(0))
    null_target: NDArray[np.float64] = field(default_factory=lambda: np.zeros(0))
    relaxation: float | None = None
    null_cost: float | None = None
    device: str = "cpu"
    solved: Coupling | None = None

    def __post_init__(self) -> None:
        shape = (len(self.source), len(self.target))
        if self.mechanism not in MECHANISMS:
            raise ValueError(f"mechanism: expected one of {', '.join(MECHANISMS)}, got {self.mechanism!r}")
        for name in ("plan", "cost"):
            given = np.shape(getattr(self, name))
            if given != shape:
                raise ValueError(f"{name}: expected shape {shape} (source, target), got {given}")
            object.__setattr__(self, name, _frozen(getattr(self, name)))
        for name, length in (("null_source", shape[0]), ("null_target", shape[1])):
            value = np.asarray(getattr(self, name), dtype=np.float64)
            if value.size == 0:
                value = np.zeros(length)
            if value.shape != (length,):
                raise ValueError(f"{name}: expected {length} numbers, got shape {value.shape}")
            object.__setattr__(self, name, _frozen(value))

    @property
    def shape(self) -> tuple[int, int]:
        """(n, m): atoms of the source and of the target."""
        return self.plan.shape[0], self.plan.shape[1]

    @property
    def converged(self) -> bool:
        """Whether the solver reached its tolerance (closed forms and exact plans did)."""
        return self.status in ("converged", "closed_form", "exact")

    @property
    def epsilon_relative(self) -> float:
        """ε in units of `cost_scale`; 0 where the scale is 0."""
        scale = self.cost_scale
        return self.epsilon / scale if scale > 0 else 0.0

    @cached_property
    def given(self) -> NDArray[np.float64]:
        """Mass that each source atom gives away to real atoms: row sums, shape (n,)."""
        return np.asarray(self.plan.sum(axis=1))

    @cached_property
    def received(self) -> NDArray[np.float64]:
        """Mass that each target atom receives from real atoms: column sums, shape (m,)."""
        return np.asarray(self.plan.sum(axis=0))

    @property
    def mass(self) -> float:
        """Total mass between real atoms; 1 unless some of it has no partner."""
        return float(self.plan.sum())

    @property
    def row_error(self) -> float:
        """L1 distance between the source's weights and what the plan accounts for, recomputed from the plan."""
        return float(np.abs(self.given + self.null_source - self.source.weights).sum())

    @property
    def column_error(self) -> float:
        """L1 distance between the target's weights and what the plan accounts for, recomputed from the plan."""
        return float(np.abs(self.received + self.null_target - self.target.weights).sum())

    @property
    def received_distance(self) -> float:
        """Total variation between the mass received and the target's weights: share of the mass that misses."""
        return 0.5 * float(np.abs(self.received + self.null_target - self.target.weights).sum())

    @property
    def transport_cost(self) -> float:
        """⟨C, P⟩ of the problem that was solved, in units of the cost; forbidden pairs without mass cost nothing."""
        origin = self.solved or self
        used = origin.plan > 0
        return float((origin.plan[used] * origin.cost[used]).sum())

    @cached_property
    def mutual_information(self) -> float:
        """Mutual information of P / mass against its *own* marginals, in nat."""
        mass = self.mass
        if mass <= 0:
            return 0.0
        plan = self.plan / mass
        used = plan > 0
        # Logarithms apart: the product of two small marginals may underflow.
        rows, columns = np.nonzero(used)
        logs = np.log(plan[used]) - np.log(plan.sum(axis=1)[rows]) - np.log(plan.sum(axis=0)[columns])
        return max(0.0, float((plan[used] * logs).sum()))

    @cached_property
    def log_lift(self) -> Matrix:
        """log(P_ij / (a_i b_j)) in nat, shape (n, m): 0 = independence, −inf where no mass flows."""
        with np.errstate(divide="ignore", invalid="ignore"):
            lift = np.log(self.plan) - np.log(self.source.weights)[:, None] - np.log(self.target.weights)[None, :]
        lift[self.plan <= 0] = -np.inf
        return np.asarray(lift)

    @cached_property
    def effective_partners(self) -> NDArray[np.float64]:
        """exp of the entropy of each row, shape (n,): among how many targets an atom spreads; 0 without mass."""
        rows = self.given
        share = np.divide(self.plan, rows[:, None], out=np.zeros(self.shape), where=rows[:, None] > 0)
        logs = np.log(share, out=np.zeros(self.shape), where=share > 0)
        return np.asarray(np.where(rows > 0, np.exp(-(share * logs).sum(axis=1)), 0.0))

    @property
    def mean_partners(self) -> float:
        """Mean of `effective_partners` under the mass that each row gives away."""
        return float(self.given @ self.effective_partners / self.mass) if self.mass > 0 else 0.0

    @cached_property
    def price(self) -> NDArray[np.float64]:
        """What each source atom pays, shape (n,): Σ_j P_ij C̃_ij / a_i on the double-centred cost C̃.

        0 is the price of independence; negative is cheaper. 0 at zero weight. Shown coarser, it is the mean over
        the atoms of the block under their weights.
        """
        if self.solved is not None:
            group, spans = self.solved.source.group(self.source.unit)
            paid = np.bincount(group, weights=self.solved.price * self.solved.source.weights, minlength=len(spans))
        else:
            centred = double_centred(self.cost, self.source.weights, self.target.weights)
            paid = (self.plan * np.where(self.plan > 0, centred, 0.0)).sum(axis=1)
        weights = self.source.weights
        return np.divide(paid, weights, out=np.zeros(len(weights)), where=weights > 0)

    def _repr_html_(self) -> str:
        """Return the live view for notebooks: one offline document in a frame."""
        from sinkviz.view.html import notebook_html

        return notebook_html(self)

    def words(self) -> Coupling:
        """Return the coupling of words: exact sums over the blocks of their tokens."""
        return self.coarsen("word")

    def sentences(self) -> Coupling:
        """Return the coupling of sentences: exact sums over the blocks of their atoms."""
        return self.coarsen("sentence")

    def coarsen(self, unit: Unit) -> Coupling:
        """Show this coupling by coarser units: P summed over blocks, its marginals with it.

        That is exact bookkeeping, not the optimum of the coarse problem. The cost of a block is its mean under
        a⊗b; `transport_cost` and `price` stay those of the problem that was solved.

        Raises:
            ValueError: a unit finer than the atoms that were solved on.
        """
        origin = self.solved or self
        if unit == self.source.unit == self.target.unit:
            return self
        rows, row_spans = origin.source.group(unit)
        columns, column_spans = origin.target.group(unit)
        if unit == origin.source.unit == origin.target.unit:
            return origin
        shape = (len(row_spans), len(column_spans))
        pair = np.outer(origin.source.weights, origin.target.weights)
        finite = np.isfinite(origin.cost)
        mass = _block_sums(np.where(finite, pair, 0.0), rows, columns, shape)
        total = _block_sums(np.where(finite, pair * np.where(finite, origin.cost, 0.0), 0.0), rows, columns, shape)
        cost = np.divide(total, mass, out=np.zeros(shape), where=mass > 0)
        return replace(
            origin,
            plan=_block_sums(origin.plan, rows, columns, shape),
            cost=cost,
            source=origin.source.coarsen(unit),
            target=origin.target.coarsen(unit),
            null_source=np.bincount(rows, weights=origin.null_source, minlength=shape[0]).astype(np.float64),
            null_target=np.bincount(columns, weights=origin.null_target, minlength=shape[1]).astype(np.float64),
            solved=origin,
        )

    def _link(self, i: int, j: int) -> Link:
        mass = float(self.plan[i, j])
        return Link(
            source_index=i,
            target_index=j,
            source_label=self.source.text[slice(*self.source.spans[i])],
            target_label=self.target.text[slice(*self.target.spans[j])],
            mass=mass,
            share_of_row=mass / float(self.given[i]) if self.given[i] > 0 else 0.0,
            share_of_column=mass / float(self.received[j]) if self.received[j] > 0 else 0.0,
            lift=float(self.log_lift[i, j]),
        )

    def top_links(self, count: int) -> list[Link]:
        """Return the `count` pairs with most mass, largest first; ties in reading order; no empty pairs.

        Raises:
            ValueError: a negative count.
        """
        if count < 0:
            raise ValueError(f"count: expected a number of links >= 0, got {count}")
        flat = self.plan.ravel()
        order = np.argsort(-flat, kind="stable")[:count]
        return [self._link(*divmod(int(k), self.shape[1])) for k in order if flat[k] > 0]

    def links(self, share: float = 0.1) -> list[Link]:
        """Return every pair that carries at least `share` of its row's mass, in reading order.

        Raises:
            ValueError: share outside (0, 1].
        """
        if not 0 < share <= 1:
            raise ValueError(f"share: expected a share of the row's mass in (0, 1], got {share}")
        chosen = (self.plan >= share * self.given[:, None]) & (self.plan > 0)
        return [self._link(int(i), int(j)) for i, j in np.argwhere(chosen)]
