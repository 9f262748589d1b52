"""The method of `single` for small balanced problems on the CPU, with its vectors in numpy.

A solve of 32×32 entries is some hundred operations on vectors of 32 numbers. The call of each costs more than its
arithmetic: 1 to 2 µs in torch, 0.4 µs in numpy (2 to 5 and 1 µs on a busy core). So the vectors here are numpy arrays
on the tensors' own memory. Products with the matrix go through numpy up to `UNTHREADED` entries; beyond, through torch,
whose number of threads is the caller's to choose, unlike that of numpy's BLAS.

Only balanced problems with finite costs and positive weights, and only answers within the tolerance: for anything else
`solve` gives up and `single` starts afresh, with its finer means. Names and steps are those of `single`.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from sinkviz.transport.single import (
    CHUNK,
    DIRECT,
    FAST_RATE,
    PATIENT,
    RIDGE,
    RUNG,
    RUNG_TOLERANCE,
    STEP,
    dense_worth,
)

Array = NDArray[np.float64]

ENTRIES = 262_144
"""Largest number of pairs that is solved here; beyond, memory and not calls are what costs."""
UNTHREADED = 9_216
"""Entries of a matrix up to which OpenBLAS computes a matrix–vector product in the calling thread."""
CHOLESKY = 60
"""Columns up to which a system is factorised at once."""


def absolute_sum(x: Array) -> float:
    """Return ‖x‖₁."""
    return float(np.add.reduce(np.abs(x)))


@dataclass(slots=True)
class Found:
    """Plan, potentials in units of the cost, and iterations."""

    plan: Array
    f: Array
    g: Array
    iterations: int


class Kernel:
    """K, its scalings u and v in fixed buffers, and the potentials absorbed in it."""

    def __init__(self, cost: Array, a: Array, b: Array, mass: float) -> None:
        self.cost, self.a, self.b, self.mass = cost, a, b, mass
        rows, columns = cost.shape
        self.k: Array = np.empty((rows, columns))
        self.u, self.w = np.empty(rows), np.empty(rows)
        self.v, self.q = np.empty(columns), np.empty(columns)
        self.chunk = rows if cost.size <= CHUNK else max(1, CHUNK // columns)
        self.into_w = self.bind(self.v, self.w)
        self.into_q = self.bind(self.u, self.q, transposed=True)
        self.iterations = 0
        self.epsilon = math.nan
        self.phi, self.psi = self.u, self.v

    def prepare(self) -> None:
        """What only Newton's method needs."""
        self.log_a, self.log_b, self.root_a = np.log(self.a), np.log(self.b), np.sqrt(self.a)
        rows, columns = self.k.shape
        self.p, self.t, self.s = np.empty(columns), np.empty(rows), np.empty(columns)
        self.into_t = self.bind(self.p, self.t)
        self.into_s = self.bind(self.t, self.s, transposed=True)

    def bind(self, x: Array, y: Array, *, transposed: bool = False) -> Callable[[], Any]:
        """Return the function that sets y = K x, or y = Kᵀ x."""
        if self.k.size <= UNTHREADED:
            return partial(np.dot, x, self.k, y) if transposed else partial(np.dot, self.k, x, y)
        k = torch.from_numpy(self.k)
        return partial(torch.mv, k.t() if transposed else k, torch.from_numpy(x), out=torch.from_numpy(y))

    def build(self, f: Array, g: Array, epsilon: float) -> None:
        """Fill K from potentials, v = 1 and u such that the rows are exact."""
        self.epsilon = epsilon
        self.phi, self.psi = f / epsilon + self.log_a, g / epsilon + self.log_b
        size = self.chunk
        for start in range(0, len(self.k), size):
            block = self.k[start : start + size]
            np.multiply(self.cost[start : start + size], -1.0 / epsilon, out=block)
            block += self.psi
            block += self.phi[start : start + size, None]
            np.exp(block, out=block)
        self.v.fill(1.0)
        self.update_rows()

    def update_rows(self) -> None:
        self.into_w()
        np.divide(self.a, self.w, out=self.u)

    def update_columns(self) -> None:
        self.into_q()
        np.divide(self.b, self.q, out=self.v)

    def column_sums(self) -> Array:
        self.into_q()
        return self.q * self.v

    def potentials(self) -> tuple[Array, Array]:
        f = np.log(self.u)
        f += self.phi
        f -= self.log_a
        f *= self.epsilon
        g = np.log(self.v)
        g += self.psi
        g -= self.log_b
        g *= self.epsilon
        return f, g

    def absorb(self) -> None:
        """Multiply the scalings into K, so that K = diag(a)^-½ P; u becomes a^½, v becomes 1."""
        change = self.u / self.root_a
        self.multiply(change)
        np.log(change, out=change)
        self.phi = self.phi + change
        self.psi = self.psi + np.log(self.v)
        self.u[:] = self.root_a
        self.v.fill(1.0)

    def multiply(self, u: Array) -> None:
        """K ← diag(u) K diag(v)."""
        size = self.chunk
        for start in range(0, len(self.k), size):
            block = self.k[start : start + size]
            block *= u[start : start + size, None]
            block *= self.v

    def healthy(self) -> bool:
        total = float(self.u.sum() + self.v.sum())
        return total < math.inf and float(self.u.min()) > 0.0 and float(self.v.min()) > 0.0


def scaling_phase(kernel: Kernel, tolerance: float, budget: int) -> bool:
    """`single.scaling_phase`: plain for three iterations, then heavy-ball with the measured rate."""
    limit = tolerance * kernel.mass
    a, b, u, v, w, q = kernel.a, kernel.b, kernel.u, kernel.v, kernel.w, kernel.q
    into_w, into_q = kernel.into_w, kernel.into_q
    divide, multiply, subtract = np.divide, np.multiply, np.subtract
    plain, pushed, old = np.empty_like(v), np.empty_like(v), np.empty_like(v)
    before, rate, start, begin = math.inf, 0.0, 0.0, 0
    alpha = beta = 0.0
    reached = False
    for k in range(budget):
        into_q()
        multiply(q, v, pushed)
        subtract(pushed, b, pushed)
        error = absolute_sum(pushed)
        if not error > limit or k == budget - 1:
            reached = error <= limit
            break
        rate_before, rate, before = rate, error / before, error
        if alpha == 0.0:
            if k >= 2:
                spectrum = rate + 2.0 * max(0.0, rate - rate_before)
                root = math.sqrt(max(0.0, 1.0 - spectrum))
                ahead = math.log(limit / error) / math.log(max(1e-3, (1.0 - root) / (1.0 + root + 1e-9)))
                if spectrum > FAST_RATE or ahead > PATIENT:
                    break
                if spectrum > 0.12 and error < 0.2 * kernel.mass:
                    alpha, beta = 4.0 / (1.0 + root) ** 2, ((1.0 - root) / (1.0 + root)) ** 2
                    begin, start = k, error
                    old[:] = v
        elif k - begin >= 8:
            if (error / start) ** (1.0 / (k - begin)) > 0.75:
                break
            begin, start = k, error
        if alpha == 0.0:
            divide(b, q, v)
        else:
            # v + α (b/q − v) + β (v − old), never below a fifth of b/q.
            divide(b, q, plain)
            subtract(v, old, pushed)
            pushed *= beta / alpha
            pushed += plain
            pushed -= v
            pushed *= alpha
            old[:] = v
            pushed += v
            plain *= 0.2
            np.maximum(pushed, plain, out=v)
        into_w()
        divide(a, w, u)
    divide(b, q, v)
    into_w()
    divide(a, w, u)
    kernel.iterations += k + 1
    return reached


class Homotopy:
    """`single.Homotopy` for a balanced problem: follows the solution from ε to ε, large to small."""

    def __init__(self, kernel: Kernel, budget: int, f: Array, g: Array) -> None:
        self.kernel, self.budget = kernel, budget
        kernel.prepare()
        self.f, self.g = f, g
        self.epsilon = math.nan
        self.before: tuple[Array, Array, float] | None = None
        columns = len(kernel.b)
        self.worth = dense_worth(columns)
        self.use_dense = columns <= CHOLESKY
        self.error = math.inf

    @property
    def exhausted(self) -> bool:
        return self.kernel.iterations >= self.budget

    def solve_at(self, epsilon: float, tolerance: float) -> bool:
        """Solve at one ε from the secant through the last two; True if reached, and then it is kept."""
        f, g, kernel = self.f, self.g, self.kernel
        if self.before is not None:
            old_f, old_g, old = self.before
            t = (epsilon - self.epsilon) / (self.epsilon - old)
            f, g = f + t * (f - old_f), g + t * (g - old_g)
        kernel.build(f, g, epsilon)
        kernel.update_columns()
        kernel.update_rows()
        kernel.iterations += 1
        if not kernel.healthy() or not self.newton(tolerance):
            return False
        self.keep()
        return True

    def descend(self, epsilon: float, tolerance: float, spread: float) -> bool:
        """Go down the ladder from the cost's range to the target; whether it was reached."""
        self.f, self.g = np.zeros_like(self.f), np.zeros_like(self.g)
        self.before, self.epsilon = None, math.nan
        ladder = [epsilon]
        while ladder[-1] * DIRECT < spread:
            ladder.append(ladder[-1] * RUNG)
        loose = max(RUNG_TOLERANCE, tolerance)
        return all(self.solve_at(rung, tolerance if rung == epsilon else loose) for rung in reversed(ladder))

    def keep(self) -> None:
        if not math.isnan(self.epsilon) and self.epsilon != self.kernel.epsilon:
            self.before = (self.f, self.g, self.epsilon)
        self.f, self.g = self.kernel.potentials()
        self.epsilon = self.kernel.epsilon

    def newton(self, tolerance: float) -> bool:
        kernel = self.kernel
        limit = tolerance * kernel.mass
        best, since = math.inf, 0
        while True:
            c = kernel.column_sums()
            right = kernel.b - c
            error = self.error = float(absolute_sum(right))
            if error <= limit:
                return True
            if not error < math.inf or self.exhausted:
                return False
            if error < 0.7 * best:
                best, since = error, 0
            else:
                since += 1
                if since > 12:
                    return False
            kernel.absorb()
            kernel.iterations += 1
            step = self.dense(c, right) if self.use_dense else None
            if step is None:
                forcing = min(0.1, max(0.3 * math.sqrt(error / kernel.mass), 0.1 * limit / error))
                step = self.conjugate_gradients(c, right, forcing)
            self.advance(step, right)

    def dense(self, c: Array, right: Array) -> Array | None:
        """The step by Cholesky, with the constant shift filled in; None if the arithmetic finds no factor."""
        kernel = self.kernel
        columns = len(c)
        system = np.multiply.outer(c, c / kernel.mass)
        k, matrix = torch.from_numpy(kernel.k), torch.from_numpy(system)
        matrix.addmm_(k.t(), k, alpha=-1.0)
        system.ravel()[:: columns + 1] += c * (1.0 + RIDGE)
        factor, failed = torch.linalg.cholesky_ex(matrix)
        if int(failed):
            return None
        solution: Array = torch.cholesky_solve(torch.from_numpy(right).unsqueeze(1), factor).squeeze(1).numpy()
        return solution

    def conjugate_gradients(self, c: Array, right: Array, tolerance: float) -> Array:
        """Solve (diag(c) − KᵀK) x = right, Jacobi-preconditioned."""
        kernel = self.kernel
        p, s, into_t, into_s = kernel.p, kernel.s, kernel.into_t, kernel.into_s
        cap = min(5 * len(c) + 20, max(1, self.budget - kernel.iterations))
        # The diagonal of KᵀK, by a product instead of a pass: einsum reads the matrix once.
        inverse = 1.0 / np.maximum(c - np.einsum("ij,ij->j", kernel.k, kernel.k), c * 1e-12)
        x, residual = np.zeros_like(right), right.copy()
        z = inverse * residual
        p[:] = z
        size = float(residual.dot(z))
        goal = size * tolerance * tolerance
        used = 0
        while used < cap and size > 0.0:
            used += 1
            into_t()
            into_s()
            np.multiply(c, p, z)
            full = z.dot(p)
            z -= s
            curvature = z.dot(p)
            if not curvature > 1e-15 * full:
                # Rounding has eaten the curvature: see `single.conjugate_gradients`.
                x += p * (STEP / float(np.abs(p).max()))
                break
            step = size / curvature
            np.multiply(p, step, s)
            x += s
            z *= step
            residual -= z
            np.multiply(inverse, residual, z)
            previous, size = size, residual.dot(z)
            if size <= goal:
                break
            p *= size / previous
            p += z
        kernel.iterations += used
        if used > self.worth:
            self.use_dense = True
        return x

    def advance(self, step: Array, right: Array) -> None:
        """Take as much of a step as raises the dual, each column clipped on its own."""
        kernel = self.kernel
        mean = float(step.dot(kernel.b)) / kernel.mass
        if not math.isfinite(mean):
            kernel.update_columns()
            kernel.update_rows()
            return
        step = step - mean
        np.minimum(step, STEP, out=step)
        np.maximum(step, -STEP, out=step)
        slope, gain = float(right.dot(step)), float(kernel.b.dot(step))
        # After `absorb` the scaling u is a^½.
        t = 1.0
        for _ in range(8):
            np.exp(step if t == 1.0 else step * t, out=kernel.v)
            kernel.update_rows()
            kernel.iterations += 1
            change = t * gain + float(kernel.a.dot(np.log(kernel.u / kernel.root_a)))
            if change >= 1e-4 * t * slope or slope <= 1e-13 * kernel.mass:
                return
            t *= 0.4
        # No step along this direction helps: a Sinkhorn iteration always does.
        kernel.v.fill(1.0)
        kernel.u[:] = kernel.root_a
        kernel.update_columns()
        kernel.update_rows()


def row_softmin(cost: Array, g: Array, b: Array, epsilon: float) -> Array:
    """Return −ε log Σ_j b_j exp((g_j − C_ij)/ε) for each row."""
    if len(cost) == 0:
        return np.empty(0)
    exponent = cost * (-1.0 / epsilon)
    exponent += g / epsilon + np.log(b)
    peak = np.maximum.reduce(exponent, 1, keepdims=True)
    exponent -= peak
    np.exp(exponent, out=exponent)
    total = np.log(np.add.reduce(exponent, 1))
    total += peak[:, 0]
    total *= -epsilon
    return total


def centre(cost: Array, a: Array, b: Array, mass: float) -> tuple[Array, Array, Array, float]:
    """Return the double-centred cost, both offsets, and the range that is left."""
    rows = cost.dot(b) / mass
    columns = a.dot(cost) / mass
    columns -= rows.dot(a) / mass
    centred = cost - columns
    centred -= rows[:, None]
    return centred, rows, columns, float(centred.max() - centred.min())


def solve(
    cost: Array,
    a: Array,
    b: Array,
    epsilon: float,
    *,
    tolerance: float,
    budget: int,
    low: float,
    high: float,
    mass: float,
    init: tuple[Array, Array] | None = None,
) -> Found | int:
    """Solve a balanced problem of finite cost and positive weights of equal sums.

    Returns:
        The solution, or the number of iterations spent without getting there.
    """
    rows, columns = cost.shape
    if 2 * rows <= columns and rows <= 128:
        # Newton's unknown lives on the columns: let them be the fewer.
        other = None if init is None else (init[1], init[0])
        found = solve(
            np.ascontiguousarray(cost.T), b, a, epsilon,
            tolerance=tolerance, budget=budget, low=low, high=high, mass=mass, init=other,
        )  # fmt: skip
        return found if isinstance(found, int) else Found(found.plan.T, found.g, found.f, found.iterations)
    with np.errstate(all="ignore"):
        return _solve(cost, a, b, epsilon, tolerance, budget, low, high, mass, init)


def _solve(
    cost: Array,
    a: Array,
    b: Array,
    epsilon: float,
    tolerance: float,
    budget: int,
    low: float,
    high: float,
    mass: float,
    init: tuple[Array, Array] | None,
) -> Found | int:
    offset_a = offset_b = None
    if init is None and high - low <= DIRECT * epsilon:
        kernel = Kernel(cost, a, b, mass)
        k = kernel.k
        np.subtract(low, cost, out=k)
        k *= 1.0 / epsilon
        np.exp(k, out=k)
        kernel.epsilon = epsilon
        kernel.v[:] = b
        kernel.update_rows()
        if scaling_phase(kernel, tolerance, budget):
            # v = b/q and u = a/w: the potentials without a logarithm of the weights.
            f = np.log(kernel.w)
            f *= -epsilon
            f += low
            g = np.log(kernel.q)
            g *= -epsilon
            kernel.multiply(kernel.u)
            return Found(k, f, g, kernel.iterations)
        homotopy = Homotopy(kernel, budget, kernel.a, kernel.b)
        kernel.phi, kernel.psi = np.full_like(a, low / epsilon), np.zeros_like(b)
        if not homotopy.newton(tolerance):
            return kernel.iterations
    else:
        centred, offset_a, offset_b, spread = centre(cost, a, b, mass)
        kernel = Kernel(centred, a, b, mass)
        f, g = np.zeros_like(a), np.zeros_like(b)
        if init is not None:
            f, g = init[0] - offset_a, init[1] - offset_b
        homotopy = Homotopy(kernel, budget, f, g)
        warm = init is not None and homotopy.solve_at(epsilon, tolerance)
        if not warm and not homotopy.descend(epsilon, tolerance, spread):
            return kernel.iterations
    kernel.update_columns()
    kernel.update_rows()
    f, g = kernel.potentials()
    if offset_a is not None and offset_b is not None:
        f += offset_a
        g += offset_b
    kernel.multiply(kernel.u)
    return Found(kernel.k, f, g, kernel.iterations)
