"""From a checked problem to plan, potentials and the proof of how good they are."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from sinkviz.transport import batched, single, small
from sinkviz.transport.problem import Problem, view
from sinkviz.transport.result import STATUSES, SinkhornResult, status_names
from sinkviz.transport.single import CONVERGED, MAX_ITERATIONS, STALLED, TINY, Solution, marginals, pull, row_softmin

SMALL = 128 * 128
"""Items of a batch with at most this many pairs are solved together; larger ones one after another, on the CPU."""
BUCKET = 32
"""Ragged items are solved with others of the same size, rounded up to this many atoms."""

EACH_ENTRIES, EACH_COUNT = 300, 48
"""On the CPU, balanced items of at least so many pairs, or so few items, are faster in turns by `small` (measured: 0.05
to 0.3 ms an item, against 2 to 25 ms for the operations of a batch of any size). The choice looks at shapes alone, so
that an item's answer does not depend on what its neighbours ask."""

Init = tuple[Tensor, Tensor] | None


@dataclass(slots=True)
class Outcome:
    """What a solve found; numbers for a single problem, tensors of the batch's shape for a batch."""

    plan: Tensor
    f: Tensor
    g: Tensor
    code: Any
    residual: Any
    row_error: Any
    column_error: Any
    duality_gap: Any
    iterations: Any

    def result(self, problem: Problem, plan: Tensor, f: Tensor, g: Tensor) -> SinkhornResult:
        """Return the public result, around a plan and potentials that may carry a gradient."""
        status = status_names(self.code) if problem.batch else STATUSES[self.code]
        epsilon = problem.epsilon
        return SinkhornResult(
            plan=plan,
            f=f,
            g=g,
            epsilon=epsilon.detach() if isinstance(epsilon, Tensor) else epsilon,
            status=status,
            residual=self.residual,
            row_error=self.row_error,
            column_error=self.column_error,
            duality_gap=self.duality_gap,
            iterations=self.iterations,
        )


def number(value: float | Tensor) -> float:
    return float(value.detach()) if isinstance(value, Tensor) else value


def solve(problem: Problem, init: Init, budget: int) -> Outcome:
    """Solve a problem or a batch, whichever it is."""
    if problem.batch or problem.cost.is_cuda:
        return solve_batch(problem, init, budget)
    epsilon = number(problem.epsilon)
    relaxation_a, relaxation_b = number(problem.row_relaxation), number(problem.column_relaxation)
    balanced = relaxation_a == math.inf and relaxation_b == math.inf
    sparse = problem.weightless or problem.forbidden
    used = 0
    if balanced and not sparse and is_small(problem.cost, problem.low, problem.high, problem.least):
        found = solve_small(problem, epsilon, init, budget)
        if isinstance(found, Outcome):
            return found
        used = found
    a, b = problem.a.detach(), problem.b.detach()
    solution = solve_single(
        problem.cost.detach(), a, b, epsilon, relaxation_a, relaxation_b,
        tolerance=problem.tolerance, budget=max(1, budget - used), low=problem.low, high=problem.high,
        sparse=sparse, init=init, masses=(problem.mass_a, problem.mass_b, problem.least), tried=used > 0,
    )  # fmt: skip
    solution.iterations += used
    plan, f, g = solution.plan, solution.f, solution.g
    mass = problem.mass_a
    if balanced:
        shift = float(torch.dot(b, g)) / problem.mass_b
        if shift:
            f.add_(shift)
            g.sub_(shift)
    rows, columns = marginals(plan)
    row_residual, row_error, row_gap = _side_single(rows, a, f, relaxation_a)
    column_residual, column_error, column_gap = _side_single(columns, b, g, relaxation_b)
    residual = max(row_residual, column_residual) / (mass if balanced else max(mass, float(rows.sum())))
    if not math.isfinite(residual):
        return _nothing(problem, plan, f, g, solution.iterations)
    code = solution.code
    if residual <= problem.tolerance:
        code = CONVERGED
    elif code == CONVERGED:
        code = STALLED
    return Outcome(plan, f, g, code, residual, row_error, column_error, row_gap + column_gap, solution.iterations)


def is_small(cost: Tensor, low: float, high: float, least: float) -> bool:
    """Whether `small` takes a balanced problem of positive weights and finite costs."""
    return (
        cost.numel() <= small.ENTRIES
        and min(cost.shape) > 1
        and -math.inf < low < high < math.inf
        and least > TINY[cost.dtype]
    )


def solve_small(problem: Problem, epsilon: float, init: Init, budget: int) -> Outcome | int:
    """Solve by `small` and judge the plan, on the tensors' own memory.

    Returns:
        The outcome if it is within the tolerance, or the number of iterations spent.
    """
    dtype = problem.cost.dtype
    a, b, cost = view(problem.a), view(problem.b), view(problem.cost)
    found = small.solve(
        cost if dtype == torch.float64 else cost.astype(np.float64),
        a,
        b if problem.mass_a == problem.mass_b else b * (problem.mass_a / problem.mass_b),
        epsilon,
        tolerance=problem.tolerance, budget=budget, low=problem.low, high=problem.high, mass=problem.mass_a,
        init=None if init is None else (init[0].numpy(), init[1].numpy()),
    )  # fmt: skip
    if isinstance(found, int):
        return found
    plan = values = found.plan
    if dtype != torch.float64:
        plan = plan.astype(np.float32)
        values = plan.astype(np.float64)
    f, g = found.f, found.g
    shift = float(b.dot(g)) / problem.mass_b
    f += shift
    g -= shift
    rows, columns = np.add.reduce(values, 1), np.add.reduce(values, 0)
    rows -= a
    columns -= b
    row_error, column_error = float(np.abs(rows).sum()), float(np.abs(columns).sum())
    residual = max(row_error, column_error) / problem.mass_a
    if not residual <= problem.tolerance:
        return found.iterations
    gap = float(rows.dot(f) + columns.dot(g))
    return Outcome(
        torch.from_numpy(plan), torch.from_numpy(f), torch.from_numpy(g), CONVERGED, residual, row_error,
        column_error, gap, found.iterations,
    )  # fmt: skip


def _nothing(problem: Problem, plan: Tensor, f: Tensor, g: Tensor, iterations: int) -> Outcome:
    """The outcome where the answer is outside float64, such as a relaxed plan of mass e^1000: zeros, and no claim."""
    a, b = problem.a.detach(), problem.b.detach()
    return Outcome(
        torch.zeros_like(plan), torch.zeros_like(f), torch.zeros_like(g), STALLED, math.inf,
        float(a.sum()), float(b.sum()), math.inf, iterations,
    )  # fmt: skip


def _side_single(sums: Tensor, weights: Tensor, potential: Tensor, relaxation: float) -> tuple[float, float, float]:
    """Residual, marginal error and part of the duality gap of one side."""
    difference = sums - weights
    error = float(torch.linalg.vector_norm(difference, 1))
    if relaxation == math.inf:
        gap = float(torch.dot(difference, potential))
        if not math.isfinite(gap):
            gap = float((difference * potential)[difference != 0].sum())
        return error, error, gap
    if relaxation == 0.0:
        return 0.0, error, 0.0
    target = weights * (-potential / relaxation).exp()
    residual = float(torch.linalg.vector_norm(sums - target, 1))
    gap = relaxation * float((torch.special.xlogy(sums, sums / target.clamp_min(1e-300)) - sums + target).sum())
    return residual, error, gap


def solve_single(
    cost: Tensor,
    a: Tensor,
    b: Tensor,
    epsilon: float,
    relaxation_a: float,
    relaxation_b: float,
    *,
    tolerance: float,
    budget: int,
    low: float,
    high: float,
    sparse: bool,
    init: Init,
    masses: tuple[float, float, float] | None = None,
    tried: bool = False,
) -> Solution:
    """Deal with what needs no solver, take atoms out that have no part in the plan, and solve for the others."""
    rows, columns = cost.shape
    balanced = relaxation_a == math.inf and relaxation_b == math.inf
    if masses is None:
        # As `prepare` does it, to the last bit: an item of a batch is solved as if it were alone.
        mass_a, mass_b = float(np.add.reduce(view(a))), float(np.add.reduce(view(b)))
        least = min(float(a.min()) / mass_a, float(b.min()) / mass_b)
    else:
        mass_a, mass_b, least = masses
    if balanced:
        if not sparse and (rows == 1 or columns == 1 or high == low):
            return _closed_form(cost, a, b, epsilon, mass_a)
        if mass_a != mass_b:
            b = b * (mass_a / mass_b)
    tiny = TINY[cost.dtype]
    if sparse or least <= tiny:
        alive_a, alive_b = a > tiny * mass_a, b > tiny * mass_b
        allowed = cost < math.inf
        alive_a = alive_a & (allowed & alive_b).any(1)
        alive_b = alive_b & (allowed & alive_a.unsqueeze(1)).any(0)
        if not (bool(alive_a.all()) and bool(alive_b.all())):
            return _without(
                alive_a, alive_b, cost, a, b, epsilon, relaxation_a, relaxation_b,
                tolerance=tolerance, budget=budget, init=init,
            )  # fmt: skip
    used = 0
    if balanced and not tried and is_small(cost, low, high, least) and not (sparse and bool(cost.amax() == math.inf)):
        found = small.solve(
            cost.double().numpy(), a.numpy(), b.numpy(), epsilon,
            tolerance=tolerance, budget=budget, low=low, high=high, mass=mass_a,
            init=None if init is None else (init[0].numpy(), init[1].numpy()),
        )  # fmt: skip
        if isinstance(found, small.Found):
            plan, f, g = (torch.from_numpy(x) for x in (found.plan, found.f, found.g))
            return Solution(plan.to(cost.dtype), f, g, CONVERGED, found.iterations)
        used = found
    solution = single.solve(
        cost, a, b, epsilon, relaxation_a, relaxation_b,
        tolerance=tolerance, budget=max(1, budget - used), low=low, high=high, mass=mass_a, init=init,
    )  # fmt: skip
    solution.iterations += used
    return solution


def _closed_form(cost: Tensor, a: Tensor, b: Tensor, epsilon: float, mass: float) -> Solution:
    """a⊗b over the mass: one row, one column, or a constant cost."""
    values = cost.double()
    shift = epsilon * math.log(mass)
    if len(a) == 1:
        plan, f, g = b.unsqueeze(0), torch.zeros_like(a), values[0] - shift
    else:
        f, g = values[:, 0] - shift, torch.zeros_like(b)
        plan = a.unsqueeze(1) if len(b) == 1 else torch.outer(a, b / mass)
    return Solution(plan.to(cost.dtype, copy=True), f, g, CONVERGED, 0)


def _without(
    alive_a: Tensor,
    alive_b: Tensor,
    cost: Tensor,
    a: Tensor,
    b: Tensor,
    epsilon: float,
    relaxation_a: float,
    relaxation_b: float,
    *,
    tolerance: float,
    budget: int,
    init: Init,
) -> Solution:
    """Solve for the atoms that take part; the others get the potentials that their formula gives them."""
    index_a, index_b = alive_a.nonzero().squeeze(1), alive_b.nonzero().squeeze(1)
    plan = torch.zeros_like(cost)
    if len(index_a) == 0 or len(index_b) == 0:
        # Only a problem relaxed on both sides can be left without any pair: the empty plan is then the answer.
        infinite = torch.where(a > 0, math.inf, 0.0), torch.where(b > 0, math.inf, 0.0)
        return Solution(plan, *infinite, CONVERGED, 0)
    part = cost[index_a][:, index_b].contiguous()
    finite = part[part.isfinite()]
    solution = solve_single(
        part, a[index_a], b[index_b], epsilon, relaxation_a, relaxation_b,
        tolerance=tolerance, budget=budget, low=float(finite.min()), high=float(finite.max()),
        sparse=finite.numel() < part.numel(),
        init=None if init is None else (init[0][index_a], init[1][index_b]),
    )  # fmt: skip
    f = row_softmin(cost[:, index_b], solution.g, b[index_b].log(), epsilon) * pull(relaxation_a, epsilon)
    g = row_softmin(cost[index_a].t(), solution.f, a[index_a].log(), epsilon) * pull(relaxation_b, epsilon)
    f, g = _extended(f, a, relaxation_a), _extended(g, b, relaxation_b)
    f[index_a], g[index_b] = solution.f, solution.g
    plan[index_a.unsqueeze(1), index_b] = solution.plan
    for weights, alive, axis in ((a, alive_a, 0), (b, alive_b, 1)):
        # Weights too small for the solve: their rows follow from the potentials.
        rest = ((weights > 0) & ~alive).nonzero().squeeze(1)
        if len(rest):
            chosen = (rest.unsqueeze(1), index_b) if axis == 0 else (index_a.unsqueeze(1), rest)
            f_part, g_part = f[chosen[0]], g[chosen[1]]
            weight = a[chosen[0]].log() + b[chosen[1]].log()
            exponent = (f_part + g_part - cost[chosen].double()) / epsilon + weight
            plan[chosen] = torch.where(cost[chosen] < math.inf, exponent.exp(), 0.0).to(plan.dtype)
    return Solution(plan, f, g, solution.code, solution.iterations)


def _extended(potential: Tensor, weights: Tensor, relaxation: float) -> Tensor:
    """Potentials of atoms without a part: +inf without a partner, but 0 where there is no weight or no marginal."""
    empty = potential.isinf() | potential.isnan()
    return torch.where(empty, torch.where((weights > 0) & (relaxation > 0), math.inf, 0.0), potential)


def solve_batch(problem: Problem, init: Init, budget: int) -> Outcome:
    """Solve a batch, each item as if it were alone."""
    rows, columns = problem.cost.shape[-2:]
    cost = problem.cost.detach().reshape(-1, rows, columns)
    a = problem.a.detach().reshape(-1, rows)
    b = problem.b.detach().reshape(-1, columns)
    count = len(cost)

    def flat(value: float | Tensor) -> Tensor:
        if isinstance(value, Tensor):
            return value.detach().reshape(-1)
        return a.new_full((count,), value)

    epsilon = flat(problem.epsilon)
    relaxation_a, relaxation_b = flat(problem.row_relaxation), flat(problem.column_relaxation)
    if init is not None:
        init = init[0].reshape(-1, rows), init[1].reshape(-1, columns)
    together = cost.is_cuda or rows * columns <= SMALL
    arguments = (cost, a, b, epsilon, relaxation_a, relaxation_b)
    solver = _together if together else _one_by_one
    solution = solver(*arguments, problem.tolerance, budget, init, problem.weightless or problem.forbidden)
    return _judge(problem, solution, *arguments)


def _together(
    cost: Tensor,
    a: Tensor,
    b: Tensor,
    epsilon: Tensor,
    relaxation_a: Tensor,
    relaxation_b: Tensor,
    tolerance: float,
    budget: int,
    init: Init,
    sparse: bool,
) -> batched.BatchSolution:
    """Solve in groups of like size; on CUDA all at once."""
    rows, columns = cost.shape[-2:]
    solve_a, solve_b = a, b
    empty = None
    if sparse and bool(cost.amax() == math.inf):
        allowed = cost < math.inf
        partner_a = (allowed & (b > 0).unsqueeze(-2)).any(-1)
        partner_b = (allowed & (a > 0).unsqueeze(-1)).any(-2)
        solve_a, solve_b = torch.where(partner_a, a, 0.0), torch.where(partner_b, b, 0.0)
        empty = (solve_a.sum(-1) == 0) | (solve_b.sum(-1) == 0)
        # Nothing left to carry, which only relaxation on both sides allows: a stand-in keeps the arithmetic alive.
        solve_a = torch.where(empty.unsqueeze(-1), torch.ones_like(a), solve_a)
        solve_b = torch.where(empty.unsqueeze(-1), torch.ones_like(b), solve_b)
        cost = torch.where(empty[:, None, None], torch.zeros_like(cost), cost)
    arguments = (cost, solve_a, solve_b, epsilon, relaxation_a, relaxation_b)
    if (
        not cost.is_cuda
        and (rows * columns >= EACH_ENTRIES or len(cost) <= EACH_COUNT)
        and empty is None
        and bool(torch.minimum(relaxation_a, relaxation_b).amin() == math.inf)
    ):
        return _each(*arguments, tolerance, budget, init, sparse)
    if not sparse or cost.is_cuda or (rows <= BUCKET and columns <= BUCKET):
        solution = batched.solve(*arguments, tolerance=tolerance, budget=budget, init=init)
    else:
        solution = _in_groups(arguments, tolerance, budget, init)
    if not cost.is_cuda:
        _alone(solution, arguments, tolerance, budget, sparse)
    if empty is not None:
        solution.plan = torch.where(empty[:, None, None], 0.0, solution.plan)
    if sparse:
        _extend_batch(solution, cost, a, b, solve_a, solve_b, epsilon, relaxation_a, relaxation_b)
    return solution


def _each(
    cost: Tensor,
    a: Tensor,
    b: Tensor,
    epsilon: Tensor,
    relaxation_a: Tensor,
    relaxation_b: Tensor,
    tolerance: float,
    budget: int,
    init: Init,
    sparse: bool,
) -> batched.BatchSolution:
    """Solve balanced items of finite cost one by one in `small`; what it gives up, in `single`."""
    count, rows, columns = cost.shape
    plan = np.zeros((count, rows, columns))
    f, g = np.zeros((count, rows)), np.zeros((count, columns))
    codes, iterations = [CONVERGED] * count, [0] * count
    costs, weights_a, weights_b = cost.double().numpy(), a.numpy(), b.numpy()
    starts = None if init is None else (init[0].numpy(), init[1].numpy())
    tiny = TINY[cost.dtype]
    for k, each in enumerate(epsilon.tolist()):
        values, one, other = costs[k], weights_a[k], weights_b[k]
        where: Any = ...
        start = None if starts is None else (starts[0][k], starts[1][k])
        if sparse:
            index_a, index_b = _positive(one), _positive(other)
            where = (
                (index_a, index_b)
                if isinstance(index_a, slice) and isinstance(index_b, slice)
                else np.ix_(one.nonzero()[0], other.nonzero()[0])
            )
            values, one, other = values[where], one[index_a], other[index_b]
            start = None if start is None else (start[0][index_a], start[1][index_b])
        mass, mass_b = float(np.add.reduce(one)), float(np.add.reduce(other))
        low, high = float(np.minimum.reduce(values, None)), float(np.maximum.reduce(values, None))
        found: small.Found | int = 0
        if min(values.shape) > 1 and low < high and min(one.min() / mass, other.min() / mass_b) > tiny:
            found = small.solve(
                values, one, other * (mass / mass_b), each,
                tolerance=tolerance, budget=budget, low=low, high=high, mass=mass, init=start,
            )  # fmt: skip
        if isinstance(found, small.Found):
            error_a = float(np.abs(np.add.reduce(found.plan, 1) - one).sum())
            error_b = float(np.abs(np.add.reduce(found.plan, 0) - other).sum())
            if max(error_a, error_b) <= tolerance * mass:
                plan[k][where], iterations[k] = found.plan, found.iterations
                if sparse:
                    f[k, index_a], g[k, index_b] = found.f, found.g
                    dead_a, dead_b = weights_a[k] == 0, weights_b[k] == 0
                    f[k, dead_a] = small.row_softmin(costs[k][dead_a][:, index_b], found.g, other, each)
                    g[k, dead_b] = small.row_softmin(costs[k][:, dead_b][index_a].T, found.f, one, each)
                else:
                    f[k], g[k] = found.f, found.g
                continue
            found = found.iterations
        solution = solve_single(
            cost[k], a[k], b[k], each, math.inf, math.inf, tolerance=tolerance, budget=max(1, budget - found),
            low=low, high=high, sparse=sparse, tried=found > 0,
            init=None if init is None else (init[0][k], init[1][k]),
        )  # fmt: skip
        plan[k], f[k], g[k] = solution.plan.numpy(), solution.f.numpy(), solution.g.numpy()
        codes[k], iterations[k] = solution.code, solution.iterations + found
    return batched.BatchSolution(
        torch.from_numpy(plan),
        torch.from_numpy(f),
        torch.from_numpy(g),
        torch.tensor(codes),
        torch.tensor(iterations),
    )


def _positive(weights: NDArray[np.float64]) -> slice | NDArray[np.int64]:
    """Index the weights above 0; a slice, which copies nothing, if the others are padding at the end."""
    index = weights.nonzero()[0]
    return slice(0, len(index)) if index[-1] + 1 == len(index) else index


def _alone(
    solution: batched.BatchSolution, arguments: tuple[Tensor, ...], tolerance: float, budget: int, sparse: bool
) -> None:
    """Solve again, one by one, the items that stalled in the batch: `single` has finer means."""
    for k in (solution.code == STALLED).nonzero().squeeze(1).tolist():
        cost, a, b, epsilon, relaxation_a, relaxation_b = (x[k : k + 1] for x in arguments)
        part = _one_by_one(cost, a, b, epsilon, relaxation_a, relaxation_b, tolerance, budget, None, sparse)
        solution.plan[k], solution.f[k], solution.g[k] = part.plan[0], part.f[0], part.g[0]
        solution.code[k] = part.code[0]
        solution.iterations[k] += part.iterations[0]


def _in_groups(arguments: tuple[Tensor, ...], tolerance: float, budget: int, init: Init) -> batched.BatchSolution:
    cost, a, b = arguments[:3]
    count, rows, columns = cost.shape

    def used(weights: Tensor) -> Tensor:
        last = (weights > 0) * torch.arange(1, weights.shape[-1] + 1)
        return last.amax(-1).add(BUCKET - 1).div(BUCKET, rounding_mode="floor") * BUCKET

    size_a, size_b = used(a).clamp_max(rows), used(b).clamp_max(columns)
    plan = torch.zeros(count, rows, columns, dtype=torch.float64)
    f, g = torch.zeros_like(a), torch.zeros_like(b)
    code = torch.zeros(count, dtype=torch.int64)
    iterations = torch.zeros_like(code)
    sizes = torch.stack([size_a, size_b], 1)
    for n, m in sizes.unique(dim=0).tolist():
        where = ((size_a == n) & (size_b == m)).nonzero().squeeze(1)
        part = batched.solve(
            cost[where, :n, :m], a[where, :n], b[where, :m], *(x[where] for x in arguments[3:]),
            tolerance=tolerance, budget=budget,
            init=None if init is None else (init[0][where, :n], init[1][where, :m]),
        )  # fmt: skip
        plan[where, :n, :m] = part.plan
        f[where, :n], g[where, :m] = part.f, part.g
        code[where], iterations[where] = part.code, part.iterations
    return batched.BatchSolution(plan, f, g, code, iterations)


def _extend_batch(
    solution: batched.BatchSolution,
    cost: Tensor,
    a: Tensor,
    b: Tensor,
    solve_a: Tensor,
    solve_b: Tensor,
    epsilon: Tensor,
    relaxation_a: Tensor,
    relaxation_b: Tensor,
) -> None:
    """Give atoms that took no part the potentials that their formula gives them."""
    f, g = solution.f.clone(), solution.g.clone()
    for potential, other, weights, solved, other_weights, relaxation, costs in (
        (f, solution.g, a, solve_a, solve_b, relaxation_a, cost),
        (g, solution.f, b, solve_b, solve_a, relaxation_b, cost.transpose(-1, -2)),
    ):
        item, atom = (solved == 0).nonzero().unbind(1)
        if len(item) == 0:
            continue
        values = batched.softmin(
            costs[item, atom].double().unsqueeze(-2), other[item], other_weights[item].log(), epsilon[item], -1
        ).squeeze(-1)
        values = values * batched.pull(relaxation[item], epsilon[item])
        empty = ~values.isfinite()
        infinite = torch.where((weights[item, atom] > 0) & (relaxation[item] > 0), math.inf, 0.0)
        potential[item, atom] = torch.where(empty, infinite, values)
    solution.f, solution.g = f, g


def _one_by_one(
    cost: Tensor,
    a: Tensor,
    b: Tensor,
    epsilon: Tensor,
    relaxation_a: Tensor,
    relaxation_b: Tensor,
    tolerance: float,
    budget: int,
    init: Init,
    sparse: bool,
) -> batched.BatchSolution:
    parts = []
    for k in range(len(cost)):
        finite = cost[k][cost[k].isfinite()] if sparse else cost[k]
        low, high = (0.0, 0.0) if finite.numel() == 0 else (float(x) for x in torch.aminmax(finite))
        parts.append(
            solve_single(
                cost[k], a[k], b[k], float(epsilon[k]), float(relaxation_a[k]), float(relaxation_b[k]),
                tolerance=tolerance, budget=budget, low=low, high=high, sparse=sparse,
                init=None if init is None else (init[0][k], init[1][k]),
            )
        )  # fmt: skip
    return batched.BatchSolution(
        torch.stack([part.plan for part in parts]),
        torch.stack([part.f for part in parts]),
        torch.stack([part.g for part in parts]),
        torch.tensor([part.code for part in parts]),
        torch.tensor([part.iterations for part in parts]),
    )


def _judge(
    problem: Problem,
    solution: batched.BatchSolution,
    cost: Tensor,
    a: Tensor,
    b: Tensor,
    epsilon: Tensor,
    relaxation_a: Tensor,
    relaxation_b: Tensor,
) -> Outcome:
    """Fix the gauge, recompute both marginals from the plan, and say what is true."""
    plan = solution.plan.to(problem.cost.dtype)
    f, g = solution.f, solution.g
    balanced = (relaxation_a == math.inf) & (relaxation_b == math.inf)
    shift = torch.where(balanced, torch.where(b > 0, b * g, 0.0).sum(-1) / b.sum(-1), 0.0).unsqueeze(-1)
    f, g = f + shift, g - shift
    rows, columns = plan.sum(-1, dtype=torch.float64), plan.sum(-2, dtype=torch.float64)
    row_residual, row_error, row_gap = _side(rows, a, f, relaxation_a)
    column_residual, column_error, column_gap = _side(columns, b, g, relaxation_b)
    mass = a.sum(-1)
    mass = torch.where(balanced, mass, torch.maximum(mass, rows.sum(-1)))
    residual = torch.maximum(row_residual, column_residual) / mass
    lost = ~residual.isfinite()
    residual = torch.where(lost, math.inf, residual)
    gap = torch.where(lost, math.inf, row_gap + column_gap)
    # Outside float64, such as a relaxed plan of mass e^1000: zeros, and no claim.
    if bool(lost.any()):
        plan = torch.where(lost[:, None, None], 0.0, plan)
        f, g = torch.where(lost.unsqueeze(-1), 0.0, f), torch.where(lost.unsqueeze(-1), 0.0, g)
    good = residual <= problem.tolerance
    code = torch.where(good, CONVERGED, torch.where(solution.code == MAX_ITERATIONS, MAX_ITERATIONS, STALLED))
    shape = problem.batch
    if not shape:
        return Outcome(
            plan[0], f[0], g[0], int(code[0]), float(residual[0]), float(row_error[0]), float(column_error[0]),
            float(gap[0]), int(solution.iterations[0]),
        )  # fmt: skip
    return Outcome(
        plan.reshape(*shape, *plan.shape[1:]),
        f.reshape(*shape, -1),
        g.reshape(*shape, -1),
        code.reshape(shape),
        residual.reshape(shape),
        row_error.reshape(shape),
        column_error.reshape(shape),
        gap.reshape(shape),
        solution.iterations.reshape(shape),
    )


def _side(sums: Tensor, weights: Tensor, potential: Tensor, relaxation: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    difference = sums - weights
    error = difference.abs().sum(-1)
    fixed = relaxation == math.inf
    free = relaxation == 0
    fixed_gap = torch.where(difference == 0, 0.0, difference * potential).sum(-1)
    weight = relaxation.unsqueeze(-1).clamp_min(1e-300)
    target = torch.where(weights > 0, weights * (-potential / weight).exp(), 0.0)
    target = torch.where((fixed | free).unsqueeze(-1), weights, target)
    ratio = sums / target.clamp_min(1e-300)
    relaxed_gap = relaxation * (torch.special.xlogy(sums, ratio) - sums + target).sum(-1)
    residual = torch.where(free, 0.0, (sums - target).abs().sum(-1))
    gap = torch.where(fixed, fixed_gap, torch.where(free, 0.0, relaxed_gap))
    return residual, error, gap


def check_init(init: Any, problem: Problem) -> Init:
    """Return a warm start in the batch's shape.

    Raises:
        ValueError: not a pair of potentials of the right shapes, or not finite.
    """
    if init is None:
        return None
    rows, columns = problem.cost.shape[-2:]
    expected = f"expected (f, g) of shapes (…, {rows}) and (…, {columns}), in units of the cost"
    try:
        first, second = init
        f = torch.as_tensor(first, dtype=torch.float64, device=problem.cost.device).detach()
        g = torch.as_tensor(second, dtype=torch.float64, device=problem.cost.device).detach()
        f = f.expand(*problem.batch, rows)
        g = g.expand(*problem.batch, columns)
    except (TypeError, ValueError, RuntimeError) as error:
        got = [tuple(np.shape(x)) for x in init] if isinstance(init, (tuple, list)) else type(init).__name__
        raise ValueError(f"init: {expected}, got {got}") from error
    if bool(f.isnan().any()) or bool(g.isnan().any()):
        raise ValueError(f"init: {expected}, got NaN; leave init out to start cold")
    f = torch.where(f.isfinite(), f, 0.0)
    g = torch.where(g.isfinite(), g, 0.0)
    return f, g
