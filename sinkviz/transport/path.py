"""The whole path over ε, and Sinkhorn's iteration step by step."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from sinkviz.transport import single, small
from sinkviz.transport.outcome import Outcome, is_small, solve
from sinkviz.transport.problem import Problem, check_grid, prepare
from sinkviz.transport.result import STATUSES, SinkhornResult
from sinkviz.transport.single import CONVERGED, Homotopy, Kernel, centre
from sinkviz.transport.solver import MAX_ITERATIONS, sinkhorn


@dataclass(frozen=True, eq=False, slots=True)
class SinkhornPath:
    """Balanced solutions along a grid of ε, kept as potentials: n + m numbers an ε.

    Attributes:
        cost, a, b: the problem, (n, m), (n,), (m,), float64.
        epsilons: the grid that was solved, in the order given, (E,).
        f, g: potentials in units of the cost, (E, n) and (E, m), ⟨b, g⟩ = 0.
        status: (E,) array of strings, as in `SinkhornResult`.
        residual: (E,) largest L1 error of a marginal, as a share of the mass.
        iterations: (E,) iterations spent on each.
        tolerance: the L1 residual that counts as converged.
    """

    cost: Tensor
    a: Tensor
    b: Tensor
    epsilons: Tensor
    f: Tensor
    g: Tensor
    status: NDArray[np.str_]
    residual: Tensor
    iterations: Tensor
    tolerance: float

    def __len__(self) -> int:
        return len(self.epsilons)

    def plan(self, k: int) -> Tensor:
        """Return the plan of the k-th ε, (n, m), float64: one pass of exp."""
        return _plan(self.cost, self.a, self.b, self.f[k], self.g[k], float(self.epsilons[k]))

    def at(self, epsilon: float) -> SinkhornResult:
        """Solve at any ε from the potentials of its neighbours: interpolation and mostly one or two Newton steps.

        Raises:
            ValueError: an ε that is not finite and positive, or an empty path.

        Example:
            >>> path = sinkhorn_path([[0.0, 1.0], [1.0, 0.0]], epsilons=[1.0, 0.5])
            >>> path.at(0.7).status
            'converged'
        """
        if len(self) == 0:
            raise ValueError("at: expected a path with at least one ε, got an empty one (it was cancelled at once)")
        order = torch.argsort(self.epsilons)
        grid = self.epsilons[order]
        start = None
        if isinstance(epsilon, (int, float)) and 0 < epsilon < math.inf:
            right = int(torch.searchsorted(grid, epsilon))
            low, high = int(order[max(right - 1, 0)]), int(order[min(right, len(grid) - 1)])
            width = float(self.epsilons[high] - self.epsilons[low])
            t = (epsilon - float(self.epsilons[low])) / width if width > 0 else 0.0
            start = torch.lerp(self.f[low], self.f[high], t), torch.lerp(self.g[low], self.g[high], t)
        return sinkhorn(self.cost, self.a, self.b, epsilon=epsilon, tolerance=self.tolerance, init=start)


def _plan(cost: Tensor, a: Tensor, b: Tensor, f: Tensor, g: Tensor, epsilon: float) -> Tensor:
    # Weights inside the exponent: a potential may be large where a weight is tiny. −inf − inf stays −inf.
    phi, psi = f / epsilon + a.log(), g / epsilon + b.log()
    plan = torch.empty_like(cost)
    single.fill(plan, cost, phi, psi, epsilon)
    return plan


def sinkhorn_path(
    cost: Any,
    a: Any = None,
    b: Any = None,
    *,
    epsilons: Iterable[float] | Tensor,
    tolerance: float | None = None,
    progress: Callable[[int, int], None] | None = None,
    cancelled: Callable[[], bool] | None = None,
) -> SinkhornPath:
    """Solve the balanced problem for a whole grid of ε, each from its neighbours.

    From the largest ε to the smallest: the secant through the last two potentials starts Newton's method, which then
    needs one or two steps. Not differentiable; use `sinkhorn` with init=(f[k], g[k]) for a gradient.

    Args:
        cost: (n, m); +inf forbids a pair. a, b: weights (n,), (m,); uniform if None.
        epsilons: the grid, in units of the cost, in any order.
        tolerance: as for `sinkhorn`.
        progress: called with (solved, total) after each ε.
        cancelled: asked before each ε; True ends the path with what is done.

    Returns:
        SinkhornPath in the order of the grid; where it was cancelled, of the (largest) ε that were solved.

    Raises:
        ValueError: an empty grid, a batch, or anything that `sinkhorn` would refuse.

    Example:
        >>> path = sinkhorn_path([[0.0, 1.0], [1.0, 0.0]], epsilons=[1.0, 0.1])
        >>> path.status.tolist(), path.plan(1).round(decimals=4).tolist()
        (['converged', 'converged'], [[0.5, 0.0], [0.0, 0.5]])
    """
    with torch.no_grad():
        return _path(cost, a, b, epsilons, tolerance, progress, cancelled)


def _path(
    cost: Any,
    a: Any,
    b: Any,
    epsilons: Any,
    tolerance: float | None,
    progress: Callable[[int, int], None] | None,
    cancelled: Callable[[], bool] | None,
) -> SinkhornPath:
    problem = prepare(cost, a, b, 1.0, tolerance=tolerance)
    if problem.batch:
        raise ValueError(
            f"cost: expected one problem, shape (n, m), got a batch of shape {tuple(problem.batch)}; "
            "call sinkhorn_path for each"
        )
    grid = check_grid(epsilons, problem.cost)
    order = sorted(range(len(grid)), key=lambda k: -grid[k])
    problem.cost = problem.cost.detach().double()
    problem.a, problem.b = problem.a.detach(), problem.b.detach()
    outcomes: dict[int, Outcome] = {}
    solver = _Walk(problem)
    for count, k in enumerate(order):
        if cancelled is not None and cancelled():
            break
        outcomes[k] = solver.solve(grid[k])
        if progress is not None:
            progress(count + 1, len(grid))
    done = [k for k in range(len(grid)) if k in outcomes]
    found = [outcomes[k] for k in done]
    rows, columns = problem.cost.shape
    empty = problem.cost.new_zeros
    return SinkhornPath(
        cost=problem.cost,
        a=problem.a,
        b=problem.b,
        epsilons=torch.tensor([grid[k] for k in done], dtype=torch.float64, device=problem.cost.device),
        f=torch.stack([x.f for x in found]) if found else empty((0, rows)),
        g=torch.stack([x.g for x in found]) if found else empty((0, columns)),
        status=np.array([STATUSES[x.code] for x in found], dtype=np.str_),
        residual=torch.tensor([x.residual for x in found], dtype=torch.float64),
        iterations=torch.tensor([x.iterations for x in found], dtype=torch.int64),
        tolerance=problem.tolerance,
    )


class _Walk:
    """Walks down the grid; keeps the kernel's memory and the last two solutions."""

    def __init__(self, problem: Problem) -> None:
        self.problem = problem
        cost, a, b = problem.cost, problem.a, problem.b
        self.homotopy: Homotopy | small.Homotopy | None = None
        self.last: Outcome | None = None
        plain = min(cost.shape) > 1 and problem.high > problem.low
        if cost.is_cuda or not plain or problem.weightless or problem.forbidden:
            return
        if problem.least <= single.TINY[torch.float64]:
            return
        mass = problem.mass_a
        b = b * (mass / problem.mass_b)
        zeros = torch.zeros_like(a), torch.zeros_like(b)
        if is_small(cost, problem.low, problem.high, problem.least):
            arrays = cost.numpy(), a.numpy(), b.numpy()
            centred, offset_a, offset_b, self.range = small.centre(*arrays, mass)
            self.offset_a, self.offset_b = torch.from_numpy(offset_a), torch.from_numpy(offset_b)
            kernel = small.Kernel(centred, *arrays[1:], mass)
            self.homotopy = small.Homotopy(kernel, MAX_ITERATIONS, *(x.numpy() for x in zeros))
        else:
            values, self.offset_a, self.offset_b, self.range = centre(cost, a, b, problem.low, problem.high)
            self.homotopy = Homotopy(Kernel(values, a, b, math.inf, math.inf), MAX_ITERATIONS, *zeros)

    def solve(self, epsilon: float) -> Outcome:
        homotopy = self.homotopy
        if homotopy is None:
            return self.cold(epsilon)
        homotopy.kernel.iterations = 0
        with np.errstate(all="ignore"):
            if self.reach(homotopy, epsilon):
                return self.outcome(homotopy.kernel)
        outcome = self.cold(epsilon)
        homotopy.before = None
        f, g = outcome.f - self.offset_a, outcome.g - self.offset_b
        if isinstance(homotopy, small.Homotopy):
            homotopy.f, homotopy.g = f.numpy(), g.numpy()
        else:
            homotopy.f, homotopy.g = f, g
        homotopy.epsilon = epsilon
        return outcome

    def reach(self, homotopy: Homotopy | small.Homotopy, epsilon: float) -> bool:
        tolerance = self.problem.tolerance
        if math.isnan(homotopy.epsilon):
            if isinstance(homotopy, small.Homotopy):
                return homotopy.descend(epsilon, tolerance, self.range)
            single.descend(homotopy, epsilon, tolerance, self.range, False)
            return homotopy.epsilon == epsilon
        reached = homotopy.solve_at(epsilon, tolerance)
        while not reached and not homotopy.exhausted and homotopy.epsilon > 1.05 * epsilon:
            # The grid is too coarse here: go half the way first.
            homotopy.before = None
            half = math.sqrt(epsilon * homotopy.epsilon)
            if not homotopy.solve_at(half, max(tolerance, single.RUNG_TOLERANCE)):
                break
            reached = homotopy.solve_at(epsilon, tolerance)
        return reached

    def outcome(self, kernel: Kernel | small.Kernel) -> Outcome:
        """One column and one row update more, and the errors of that plan, from its scalings."""
        problem = self.problem
        kernel.update_columns()
        kernel.update_rows()
        # torch's view of either kind of kernel.
        c, rows, f, g = (torch.as_tensor(x) for x in (kernel.column_sums(), kernel.u * kernel.w, *kernel.potentials()))
        column_error = float(torch.linalg.vector_norm(c - problem.b, 1))
        row_error = float(torch.linalg.vector_norm(rows - problem.a, 1))
        f, g = f + self.offset_a, g + self.offset_b
        shift = float(torch.dot(problem.b, g)) / problem.mass_b
        residual = max(row_error, column_error) / kernel.mass
        code = CONVERGED if residual <= problem.tolerance else single.STALLED
        return Outcome(
            torch.as_tensor(kernel.k), f.add_(shift), g.sub_(shift), code, residual, row_error, column_error, 0.0,
            kernel.iterations,
        )  # fmt: skip

    def cold(self, epsilon: float) -> Outcome:
        problem = self.problem
        problem.epsilon = epsilon
        init = None if self.last is None else (self.last.f, self.last.g)
        outcome = solve(problem, init, MAX_ITERATIONS)
        if self.homotopy is None:
            self.last = outcome
        return outcome


@dataclass(frozen=True, eq=False, slots=True)
class HalfSteps:
    """Sinkhorn's iteration stopped at chosen half-steps: from attention (0.5) towards the coupling.

    Attributes:
        cost, a, b: the problem. epsilon: ε.
        steps: the half-steps, (S,): k + 0.5 has exact rows, a whole k exact columns.
        f, g: potentials after each, in units of the cost, (S, n) and (S, m).
        row_error, column_error: L1 errors of the marginals after each, (S,).
    """

    cost: Tensor
    a: Tensor
    b: Tensor
    epsilon: float
    steps: Tensor
    f: Tensor
    g: Tensor
    row_error: Tensor
    column_error: Tensor

    def __len__(self) -> int:
        return len(self.steps)

    def plan(self, k: int) -> Tensor:
        """Return the plan after the k-th of the chosen half-steps, (n, m), float64."""
        return _plan(self.cost, self.a, self.b, self.f[k], self.g[k], self.epsilon)


MAX_HALF_STEP = 1_000_000


def half_steps(cost: Any, a: Any = None, b: Any = None, *, epsilon: float, steps: Iterable[float]) -> HalfSteps:
    """Run Sinkhorn's plain iteration from g = 0 and keep it after chosen half-steps.

    Half-step 0.5 makes the rows exact (softmax attention), 1 the columns, 1.5 the rows again, … without end; `sinkhorn`
    gives what it converges to. The balanced problem only.

    Args:
        cost: (n, m). a, b: weights with equal sums, uniform if None. epsilon: ε > 0.
        steps: multiples of 0.5 from 0.5 to 1,000,000, in any order.

    Returns:
        HalfSteps in the order of `steps`.

    Raises:
        ValueError: steps that are not such multiples, a batch, or anything that `sinkhorn` would refuse.

    Example:
        >>> run = half_steps([[0.0, 1.0], [1.0, 1.0]], epsilon=0.5, steps=[0.5, 1, 50])
        >>> [f"{x:.2f}" for x in run.column_error]
        ['0.38', '0.00', '0.00']
    """
    with torch.no_grad():
        return _half_steps(cost, a, b, epsilon, steps)


def _half_steps(cost: Any, a: Any, b: Any, epsilon: Any, steps: Iterable[float]) -> HalfSteps:
    problem = prepare(cost, a, b, epsilon)
    if problem.batch or isinstance(problem.epsilon, Tensor):
        raise ValueError(
            f"cost: expected one problem, shape (n, m), and one ε, got a batch of shape {tuple(problem.batch)}; "
            "call half_steps for each"
        )
    doubled = []
    for step in steps:
        twice = 2 * float(step)
        if not (1 <= twice <= 2 * MAX_HALF_STEP) or twice != round(twice):
            raise ValueError(f"steps: expected multiples of 0.5 from 0.5 to {MAX_HALF_STEP:,}, got {step}")
        doubled.append(round(twice))
    if not doubled:
        raise ValueError("steps: expected at least one half-step, got none")
    device = problem.cost.device
    # Small matrix–vector products, one after another: the CPU's work.
    cost64 = problem.cost.detach().cpu().double()
    weight_a, weight_b = problem.a.detach().cpu(), problem.b.detach().cpu()
    run = _Iteration(cost64, weight_a, weight_b * (float(weight_a.sum()) / float(weight_b.sum())), problem.epsilon)
    kept: dict[int, tuple[Tensor, Tensor]] = {}
    wanted = set(doubled)
    for k in range(1, max(doubled) + 1):
        run.half_step()
        if k in wanted:
            kept[k] = run.potentials()
    f = torch.stack([kept[k][0] for k in doubled])
    g = torch.stack([kept[k][1] for k in doubled])
    errors = []
    for k in range(len(doubled)):
        plan = _plan(cost64, weight_a, weight_b, f[k], g[k], problem.epsilon)
        errors.append([float((plan.sum(1) - weight_a).abs().sum()), float((plan.sum(0) - weight_b).abs().sum())])
    table = torch.tensor(errors, dtype=torch.float64, device=device)
    return HalfSteps(
        cost=cost64.to(device),
        a=weight_a.to(device),
        b=weight_b.to(device),
        epsilon=problem.epsilon,
        steps=torch.tensor(doubled, dtype=torch.float64, device=device) / 2,
        f=f.to(device),
        g=g.to(device),
        row_error=table[:, 0],
        column_error=table[:, 1],
    )


class _Iteration:
    """Sinkhorn's iteration, as scalings of a kernel that is refilled whenever they drift from 1."""

    DRIFT = 1e100

    def __init__(self, cost: Tensor, a: Tensor, b: Tensor, epsilon: float) -> None:
        self.cost, self.a, self.b, self.epsilon = cost, a, b, epsilon
        self.log_a, self.log_b = a.log(), b.log()
        self.f, self.g = torch.zeros_like(a), torch.zeros_like(b)
        self.rows_next = True
        self.kernel: Tensor | None = None
        self.u, self.v = torch.ones_like(a), torch.ones_like(b)

    def potentials(self) -> tuple[Tensor, Tensor]:
        if self.kernel is None:
            return self.f, self.g
        return self.f + self.epsilon * self.u.log(), self.g + self.epsilon * self.v.log()

    def half_step(self) -> None:
        if self.kernel is not None:
            new = self.kernel @ (self.v * self.b) if self.rows_next else self.kernel.t() @ (self.u * self.a)
            low, high = (float(x) for x in torch.aminmax(new))
            if low > 1 / self.DRIFT and high < self.DRIFT:
                if self.rows_next:
                    self.u = 1.0 / new
                else:
                    self.v = 1.0 / new
                self.rows_next = not self.rows_next
                return
            self.f, self.g = self.potentials()
            self.kernel = None
        if self.rows_next:
            self.f = single.row_softmin(self.cost, self.g, self.log_b, self.epsilon)
        else:
            self.g = single.row_softmin(self.cost.t(), self.f, self.log_a, self.epsilon)
        self.f = torch.where(self.f.isfinite(), self.f, 0.0)
        self.g = torch.where(self.g.isfinite(), self.g, 0.0)
        self.rows_next = not self.rows_next
        if self.rows_next:
            # Both potentials are known: from here on the kernel's density exp((f + g − C)/ε) is only scaled.
            density = torch.empty_like(self.cost)
            single.fill(density, self.cost, self.f / self.epsilon, self.g / self.epsilon, self.epsilon)
            if bool(density.isfinite().all()):
                self.kernel = density
                self.u, self.v = torch.ones_like(self.a), torch.ones_like(self.b)
