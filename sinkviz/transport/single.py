"""The solver for one problem on the CPU: kernel scaling at large ε, annealed Newton–CG at small ε.

Throughout, a plan is held as P = diag(u) K diag(v): K is the kernel exp((f_i + g_j − C_ij)/ε) with the weights and the
potentials of the last *absorption* multiplied in, so that u and v stay near 1 and nothing under- or overflows. As long
as ε stays the same, K is only rescaled: exp is the dearest operation here (13 matrix–vector products), so it runs once
for each ε. Rows are the side that is kept exact; Newton's unknown is the scaling v of the columns.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property

import torch
from torch import Tensor

CONVERGED, STALLED, MAX_ITERATIONS = 0, 1, 2

CHUNK = 32_768
"""Entries of a matrix that one fused pass touches at a time: 256 KB in float64, which stays in the cache."""
SINGLE = 262_144
"""A float32 cost with fewer entries is solved in float64: the kernel then costs less than its rounding."""
DIRECT = 48.0
"""Largest range of the cost, in ε, at which scaling starts at the target ε itself."""
RUNG = 3.0
"""Factor between two ε of the ladder."""
RUNG_TOLERANCE = 0.01
"""L1 error at which a rung is left. At 0.1 Newton's basin is lost on hard problems, at 0.001 it costs 10 % more."""
CAREFUL_RUNG = 2.0
"""The factor on a second try, with every rung at the final tolerance: mass that a rung leaves in a part of the plan
where it does not belong can hardly leave it later, when nothing connects the parts any more."""
STEP = 20.0
"""Largest change of a log-scaling in one Newton step."""
LEAST, MOST = 1e-300, 600.0
"""Bounds of a relaxed side's sums and log-scalings: there, unlike on a fixed side, rows may carry no mass at all."""
TINY = {torch.float64: 1e-280, torch.float32: 1e-25}
"""Weights below this share of the mass take no part in the solve: their whole row is below the plan's rounding."""


@dataclass(slots=True)
class Solution:
    """Plan (n, m), potentials in units of the cost, status code, and iterations of one solve."""

    plan: Tensor
    f: Tensor
    g: Tensor
    code: int
    iterations: int


def marginals(plan: Tensor) -> tuple[Tensor, Tensor]:
    """Return row and column sums of a matrix in float64, without a float64 copy of it."""
    if plan.dtype == torch.float64:
        return plan.sum(1), plan.sum(0)
    rows = torch.empty(len(plan), dtype=torch.float64)
    columns = torch.zeros(plan.shape[1], dtype=torch.float64)
    size = max(1, CHUNK // plan.shape[1])
    for start in range(0, len(plan), size):
        block = plan[start : start + size].double()
        torch.sum(block, 1, out=rows[start : start + size])
        columns += block.sum(0)
    return rows, columns


def row_softmin(cost: Tensor, g: Tensor, log_b: Tensor, epsilon: float) -> Tensor:
    """Return −ε log Σ_j b_j exp((g_j − C_ij)/ε) for each row, by a pass that cannot under- or overflow."""
    shift = g / epsilon + log_b
    rows, columns = cost.shape
    result = torch.empty(rows, dtype=torch.float64)
    size = max(1, CHUNK // columns)
    for start in range(0, rows, size):
        block = torch.sub(shift, cost[start : start + size].double(), alpha=1.0 / epsilon)
        torch.logsumexp(block, 1, out=result[start : start + size])
    return result.mul_(-epsilon)


class Kernel:
    """K, its scalings u and v, and the potentials absorbed in it, for one cost and a changing ε."""

    def __init__(
        self,
        cost: Tensor,
        a: Tensor,
        b: Tensor,
        relaxation_a: float,
        relaxation_b: float,
        k: Tensor | None = None,
        mass: float | None = None,
    ) -> None:
        self.cost = cost
        self.a, self.b = a, b
        self.mass = float(a.sum()) if mass is None else mass
        self.relaxation_a, self.relaxation_b = relaxation_a, relaxation_b
        self.balanced = relaxation_a == math.inf and relaxation_b == math.inf
        self.k = torch.empty_like(cost) if k is None else k
        self.kt = self.k.t()
        self.single = cost.dtype == torch.float32
        self.epsilon = math.nan
        self.pull_a = self.pull_b = 1.0
        self.u = self.v = self.phi = self.psi = a
        self.w = torch.empty_like(a)
        self.q = torch.empty_like(b)
        self.iterations = 0

    @cached_property
    def log_a(self) -> Tensor:
        return self.a.log()

    @cached_property
    def log_b(self) -> Tensor:
        return self.b.log()

    # --- products -----------------------------------------------------------------------------------------------

    def times(self, vector: Tensor, out: Tensor) -> Tensor:
        if self.single:
            return out.copy_(torch.mv(self.k, vector.float()))
        return torch.mv(self.k, vector, out=out)

    def times_transposed(self, vector: Tensor, out: Tensor) -> Tensor:
        if self.single:
            return out.copy_(torch.mv(self.kt, vector.float()))
        return torch.mv(self.kt, vector, out=out)

    def normal(self, vector: Tensor, q: Tensor, out: Tensor) -> Tensor:
        """Return KᵀK vector, block by block where K does not stay in the cache."""
        if self.single:
            return out.copy_(_normal_blocks(self.k, vector.float()))
        torch.mv(self.k, vector, out=q)
        return torch.mv(self.kt, q, out=out)

    # --- kernel and scalings --------------------------------------------------------------------------------------

    def build(self, f: Tensor, g: Tensor, epsilon: float) -> None:
        """Fill K from potentials without the offsets that the cost was centred by."""
        self.epsilon = epsilon
        self.pull_a = pull(self.relaxation_a, epsilon)
        self.pull_b = pull(self.relaxation_b, epsilon)
        self.phi = f / epsilon + self.log_a
        self.psi = g / epsilon + self.log_b
        fill(self.k, self.cost, self.phi, self.psi, epsilon)
        self.v = self.ones
        self.update_rows()

    def update_rows(self) -> None:
        """u such that the rows meet their condition exactly."""
        w = self.times(self.v, self.w)
        if self.pull_a == 1.0:
            self.u = self.a / w
        else:
            w.clamp_min_(LEAST)
            log_u = (self.log_a - w.log()) * self.pull_a + (self.phi - self.log_a) * (self.pull_a - 1.0)
            self.u = log_u.clamp_(-MOST, MOST).exp_()

    def update_columns(self) -> None:
        """v such that the columns meet their condition exactly."""
        q = self.times_transposed(self.u, self.q)
        if self.pull_b == 1.0:
            self.v = self.b / q
        else:
            q.clamp_min_(LEAST)
            log_v = (self.log_b - q.log()) * self.pull_b + (self.psi - self.log_b) * (self.pull_b - 1.0)
            self.v = log_v.clamp_(-MOST, MOST).exp_()

    def column_sums(self) -> Tensor:
        c = self.times_transposed(self.u, self.q) * self.v
        return c if self.balanced else c.clamp_min_(LEAST)

    def column_target(self, c: Tensor) -> Tensor:
        if self.pull_b == 1.0:
            return self.b
        if self.pull_b == 0.0:
            return c
        log_target = self.log_b - (self.psi - self.log_b + self.v.log()) * (1.0 / self.pull_b - 1.0)
        return log_target.clamp_(max=MOST).exp_()

    def potentials(self) -> tuple[Tensor, Tensor]:
        f = (self.phi + self.u.log() - self.log_a) * self.epsilon
        g = (self.psi + self.v.log() - self.log_b) * self.epsilon
        return f, g

    @cached_property
    def mass_b(self) -> float:
        return float(self.b.sum())

    @cached_property
    def ones(self) -> Tensor:
        return torch.ones_like(self.b)

    @cached_property
    def root_a(self) -> Tensor:
        return self.a.sqrt()

    def absorb(self, root: Tensor) -> None:
        """Multiply the scalings into K, so that K = diag(1/root) P with root² = P1; u becomes root, v becomes 1."""
        u = self.u / root
        scale(self.k, u, self.v)
        # phi stands for the potential in K·diag(root): the scaling u carries the root from here on.
        self.phi = u.log_().add_(self.phi)
        self.psi = self.v.log().add_(self.psi)
        self.u = root
        self.v = self.ones

    def healthy(self) -> bool:
        """Whether every scaling is a positive number that the next product can take."""
        total = float(self.u.sum() + self.v.sum())
        return math.isfinite(total) and float(self.u.min()) > 0 and float(self.v.min()) > 0


def pull(relaxation: float, epsilon: float) -> float:
    """Return ρ/(ρ + ε), the share of the balanced update that a relaxed side takes; 1 for ρ = ∞."""
    return 1.0 if relaxation == math.inf else relaxation / (relaxation + epsilon)


def fill(k: Tensor, cost: Tensor, phi: Tensor, psi: Tensor, epsilon: float) -> None:
    """K_ij = exp(phi_i + psi_j − C_ij/ε), in cache-sized blocks; the exponent in float64 for any dtype of K."""
    rows, columns = cost.shape
    size = max(1, CHUNK // columns)
    inverse = 1.0 / epsilon
    column = phi.unsqueeze(1)
    if k.dtype == torch.float64:
        if size >= rows:
            torch.sub(psi, cost, alpha=inverse, out=k).add_(column).exp_()
            return
        for start in range(0, rows, size):
            block = k[start : start + size]
            torch.sub(psi, cost[start : start + size], alpha=inverse, out=block)
            block.add_(column[start : start + size]).exp_()
        return
    exponent = torch.empty(min(size, rows), columns, dtype=torch.float64)
    for start in range(0, rows, size):
        block = k[start : start + size]
        part = exponent[: len(block)]
        part.copy_(cost[start : start + size])
        torch.sub(psi, part, alpha=inverse, out=part).add_(column[start : start + size])
        block.copy_(part).exp_()


def scale(k: Tensor, u: Tensor, v: Tensor) -> None:
    """K ← diag(u) K diag(v), in cache-sized blocks."""
    rows, columns = k.shape
    size = max(1, CHUNK // columns)
    if k.dtype != u.dtype:
        u, v = u.to(k.dtype), v.to(k.dtype)
    column = u.unsqueeze(1)
    if size >= rows:
        k.mul_(column).mul_(v)
        return
    for start in range(0, rows, size):
        k[start : start + size].mul_(column[start : start + size]).mul_(v)


def column_squares(k: Tensor) -> Tensor:
    """Return Σ_i K_ij² in float64, in cache-sized blocks: a norm down the columns misses the cache at every row."""
    size = max(1, CHUNK // k.shape[1])
    if size >= len(k):
        return torch.linalg.vector_norm(k, dim=0).double().square_()
    total = torch.zeros(k.shape[1], dtype=torch.float64)
    for start in range(0, len(k), size):
        total += k[start : start + size].square().sum(0)
    return total


def _normal_blocks(k: Tensor, vector: Tensor) -> Tensor:
    rows, columns = k.shape
    size = max(1, 1_048_576 // columns)
    if size >= rows:
        return torch.mv(k.t(), torch.mv(k, vector))
    out = torch.zeros_like(vector)
    for start in range(0, rows, size):
        block = k[start : start + size]
        out.addmv_(block.t(), torch.mv(block, vector))
    return out


def conjugate_gradients(
    kernel: Kernel, diagonal: Tensor, jacobi: Tensor, right: Tensor, share: float, tolerance: float, budget: int
) -> tuple[Tensor, int]:
    """Solve (diag(diagonal) − share KᵀK) x = right, Jacobi-preconditioned; x and the iterations it took."""
    inverse = 1.0 / jacobi
    x = torch.zeros_like(right)
    residual = right.clone()
    z = inverse * residual
    p = z.clone()
    q = torch.empty(len(kernel.a), dtype=torch.float64)
    s = torch.empty_like(right)
    size = float(torch.dot(residual, z))
    goal = size * tolerance * tolerance
    used = 0
    while used < budget and size > 0:
        used += 1
        kernel.normal(p, q, s)
        torch.mul(diagonal, p, out=z)
        curvature_full = float(torch.dot(z, p))
        z.sub_(s, alpha=share)
        curvature = float(torch.dot(z, p))
        if not curvature > 1e-15 * curvature_full:
            # Rounding has eaten the curvature: p shifts parts of the plan that hardly any pair connects, and the dual
            # rises along it for as far as a step may go.
            x.add_(p, alpha=STEP / float(p.abs().max()))
            break
        step = size / curvature
        x.add_(p, alpha=step)
        residual.sub_(z, alpha=step)
        torch.mul(inverse, residual, out=z)
        previous, size = size, float(torch.dot(residual, z))
        if size <= goal:
            break
        torch.add(z, p, alpha=size / previous, out=p)
    return x, used


DENSE_COST = ((32, 3), (64, 5), (128, 18), (256, 60), (512, 110), (1024, 250), (2048, 500))
"""How many conjugate-gradient iterations one dense factorisation costs, by its size (measured)."""


ALWAYS_DENSE = 40
"""Systems up to this size are factorised at once."""


def dense_worth(columns: int) -> int:
    for size, worth in DENSE_COST:
        if columns <= size:
            return worth
    return 1 << 30


RIDGE = 1e-10
"""Added to the system's relative diagonal: a part of the plan that only smaller shares of its mass connect with the
rest is moved in the right direction, by a step that is then clipped, instead of by the rounding of that share."""


def dense_step(kernel: Kernel, diagonal: Tensor, right: Tensor, share: float, singular: bool) -> Tensor | None:
    """Solve the same system by Cholesky; None if the matrix is not positive definite in this arithmetic."""
    k = kernel.k
    if singular:
        # The constant shift is the kernel of the system: fill it in.
        system = torch.outer(diagonal, diagonal / kernel.mass)
        system.addmm_(kernel.kt, k, alpha=-share)
    else:
        system = torch.mm(kernel.kt, k).mul_(-share)
    system.diagonal().add_(diagonal, alpha=1 + RIDGE)
    factor, info = torch.linalg.cholesky_ex(system)
    if int(info):
        return None
    return torch.cholesky_solve(right.unsqueeze(1), factor).squeeze(1)


class Homotopy:
    """Follows the solution from ε to ε, large to small, each solve from an extrapolation of the last two."""

    def __init__(self, kernel: Kernel, budget: int, f: Tensor, g: Tensor) -> None:
        self.kernel = kernel
        self.budget = budget
        self.f, self.g = f, g
        self.epsilon = math.nan
        self.before: tuple[Tensor, Tensor, float] | None = None
        self.use_dense = len(kernel.b) <= ALWAYS_DENSE
        self.error = math.inf

    @property
    def exhausted(self) -> bool:
        return self.kernel.iterations >= self.budget

    def solve_at(self, epsilon: float, tolerance: float) -> bool:
        """Solve at one ε from the present potentials; True if the tolerance was reached, and then they are kept."""
        f, g = self.f, self.g
        if self.before is not None:
            old_f, old_g, old = self.before
            t = (epsilon - self.epsilon) / (self.epsilon - old)
            f, g = torch.lerp(f, old_f, -t), torch.lerp(g, old_g, -t)
        kernel = self.kernel
        kernel.build(f, g, epsilon)
        kernel.update_columns()
        kernel.update_rows()
        kernel.iterations += 1
        if not kernel.healthy() and not self.restart(epsilon, g):
            return False
        reached = self.newton(tolerance)
        if reached:
            self.keep()
        return reached

    def keep(self) -> None:
        if not math.isnan(self.epsilon) and self.epsilon != self.kernel.epsilon:
            self.before = (self.f, self.g, self.epsilon)
        self.f, self.g = self.kernel.potentials()
        self.epsilon = self.kernel.epsilon

    def restart(self, epsilon: float, g: Tensor) -> bool:
        """Start the kernel at this ε from Sinkhorn iterations in the log domain."""
        kernel = self.kernel
        if not math.isfinite(float(g.sum())):
            g = torch.zeros_like(g)
        for _ in range(2):
            f = row_softmin(kernel.cost, g, kernel.log_b, epsilon) * pull(kernel.relaxation_a, epsilon)
            g = row_softmin(kernel.cost.t(), f, kernel.log_a, epsilon) * pull(kernel.relaxation_b, epsilon)
        f = row_softmin(kernel.cost, g, kernel.log_b, epsilon) * pull(kernel.relaxation_a, epsilon)
        kernel.build(f, g, epsilon)
        kernel.iterations += 3
        return kernel.healthy()

    def newton(self, tolerance: float) -> bool:
        """Newton's method on the columns' condition at the kernel's ε; whether it reached the tolerance."""
        kernel = self.kernel
        balanced = kernel.balanced
        best, since = math.inf, 0
        limit = tolerance * kernel.mass
        columns = len(kernel.b)
        worth = dense_worth(columns)
        while True:
            c = kernel.column_sums()
            target = kernel.column_target(c)
            right = target - c
            error = float(torch.linalg.vector_norm(right, 1))
            self.error = error
            if not balanced:
                # A relaxed plan can carry far more mass than the weights do.
                limit = tolerance * max(kernel.mass, float(c.sum()))
            if error <= limit:
                return True
            if not math.isfinite(error) or self.exhausted:
                return False
            if error < 0.7 * best:
                best, since = error, 0
            else:
                since += 1
                if since > 12:
                    return False
            kernel.absorb(kernel.root_a if kernel.pull_a == 1.0 else (kernel.u * kernel.w).clamp_min_(LEAST).sqrt_())
            kernel.iterations += 1
            diagonal = c
            if kernel.pull_b != 1.0:
                right = (target.clamp_min(LEAST) / c).log_() * c
                diagonal = c / kernel.pull_b
            step = None
            if self.use_dense:
                step = dense_step(kernel, diagonal, right, kernel.pull_a, balanced)
            if step is None:
                squares = column_squares(kernel.k)
                jacobi = torch.maximum(diagonal - squares * kernel.pull_a, diagonal * 1e-12)
                forcing = min(0.1, max(0.3 * math.sqrt(error / kernel.mass), 0.1 * limit / error))
                cap = min(5 * columns + 20, max(1, self.budget - kernel.iterations))
                step, used = conjugate_gradients(kernel, diagonal, jacobi, right, kernel.pull_a, forcing, cap)
                kernel.iterations += used
                if used > worth:
                    self.use_dense = True
            self.advance(step, right, error)

    def advance(self, step: Tensor, right: Tensor, error: float) -> None:
        """Take as much of a Newton step as raises the dual (or, for a relaxed problem, lowers the residual)."""
        kernel = self.kernel
        mean = float(torch.dot(step, kernel.b)) / kernel.mass_b
        if not math.isfinite(mean):
            kernel.update_columns()
            kernel.update_rows()
            return
        # Each column on its own: a part that hardly anything connects must not hold the others back. The common shift
        # needs no bound: it changes no balanced plan, and of a relaxed one only what (1 − τ) lets through.
        step = step.sub_(mean).clamp_(-STEP, STEP)
        if kernel.balanced:
            shift = 0.0
        else:
            shift = mean * kernel.pull_a
            step = step.add_(max(-STEP, min(STEP, mean - shift)))
        slope = float(torch.dot(right, step))
        gain = float(torch.dot(kernel.b, step))
        u, phi, psi = kernel.u, kernel.phi, kernel.psi
        t = 1.0
        for _ in range(8):
            kernel.v = (step * t).exp_() if t != 1.0 else step.exp()
            if shift:
                kernel.phi, kernel.psi = phi - shift * t, psi + shift * t
            kernel.update_rows()
            kernel.iterations += 1
            if kernel.balanced:
                change = t * gain + float(torch.dot(kernel.a, (kernel.u / u).log_()))
                if change >= 1e-4 * t * slope or slope <= 1e-13 * kernel.mass:
                    return
            else:
                c = kernel.column_sums()
                if float(torch.linalg.vector_norm(kernel.column_target(c) - c, 1)) < error:
                    return
            t *= 0.4
        # No step along this direction helps: a Sinkhorn iteration always does.
        kernel.v = kernel.ones
        kernel.u, kernel.phi, kernel.psi = u, phi, psi
        kernel.update_columns()
        kernel.update_rows()


def centre(cost: Tensor, a: Tensor, b: Tensor, low: float, high: float) -> tuple[Tensor, Tensor, Tensor, float]:
    """Return the double-centred cost, the offsets taken off, and its finite range.

    A float32 cost keeps its own array unless the offsets dominate it: a copy would be a third matrix.
    """
    mass = float(a.sum())
    finite = math.isfinite(float(cost.sum()))
    values = cost if finite else torch.where(cost.isfinite(), cost, high)
    weights_a, weights_b = a.to(cost.dtype), b.to(cost.dtype)
    rows = torch.mv(values, weights_b).double() / mass
    columns = torch.mv(values.t(), weights_a).double() / mass - float(torch.dot(rows, a)) / mass
    if cost.dtype == torch.float32:
        low_c, high_c = math.inf, -math.inf
        size = max(1, CHUNK // cost.shape[1])
        for start in range(0, len(cost), size):
            part = values[start : start + size].double() - rows[start : start + size, None] - columns
            low_p, high_p = (float(x) for x in torch.aminmax(part))
            low_c, high_c = min(low_c, low_p), max(high_c, high_p)
        if 8 * (high_c - low_c) > max(high - low, abs(low), abs(high)):
            # Offsets stay in the cost; the potentials start from them.
            return cost, torch.zeros_like(rows), torch.zeros_like(columns), high_c - low_c
        centred = (values.double() - rows[:, None] - columns).float()
    else:
        centred = torch.sub(values, columns).sub_(rows.unsqueeze(1))
    low_t, high_t = torch.aminmax(centred)
    if not finite:
        centred = torch.where(cost.isfinite(), centred, math.inf)
    return centred, rows, columns, float(high_t) - float(low_t)


def fill_shifted(cost: Tensor, low: float, epsilon: float) -> Tensor:
    """Return K_ij = exp((low − C_ij)/ε), in cache-sized blocks."""
    rows, columns = cost.shape
    size = max(1, CHUNK // columns)
    if size >= rows and cost.dtype == torch.float64:
        return torch.sub(cost, low).mul_(-1.0 / epsilon).exp_()
    k = torch.empty_like(cost)
    for start in range(0, rows, size):
        block = k[start : start + size]
        if k.dtype == torch.float64:
            torch.sub(cost[start : start + size], low, out=block).mul_(-1.0 / epsilon).exp_()
        else:
            block.copy_(cost[start : start + size].double().sub_(low).mul_(-1.0 / epsilon)).exp_()
    return k


FAST_RATE = 0.9
"""Largest measured rate of Sinkhorn's iteration at which over-relaxed scaling is tried before Newton."""
PATIENT = 30
"""Iterations of scaling that may lie ahead; beyond, Newton is faster."""


def scaling_phase(kernel: Kernel, tolerance: float, budget: int) -> bool:
    """Sinkhorn scaling at the kernel's ε, over-relaxed once the rate is known; whether it got there.

    After three iterations the measured rate ρ tells the spectrum of the iteration, [0, ρ]; the heavy-ball method then
    reaches (1 − √(1−ρ))/(1 + √(1−ρ)) an iteration. Newton takes over when even that would be slow.
    """
    limit = tolerance * kernel.mass
    a, b = kernel.a, kernel.b
    u, v, old = kernel.u, kernel.v, None
    before, start, rate, begin = math.inf, 0.0, 0.0, 0
    alpha, beta = 1.0, 0.0
    reached = False
    for k in range(budget):
        q = kernel.times_transposed(u, kernel.q)
        plain = b / q
        error = torch.linalg.vector_norm(torch.mul(q, v).sub_(b), 1).item()
        if not error > limit or k == budget - 1:
            reached = error <= limit
            v = plain
            break
        rate_before, rate, before = rate, error / before, error
        if alpha == 1.0 and k >= 2:
            # The measured rate still grows by about half as much each time.
            spectrum = rate + 2.0 * max(0.0, rate - rate_before)
            root = math.sqrt(max(0.0, 1.0 - spectrum))
            ahead = math.log(limit / error) / math.log(max(1e-3, (1.0 - root) / (1.0 + root + 1e-9)))
            if spectrum > FAST_RATE or ahead > PATIENT:
                v = plain
                break
            if spectrum > 0.12 and error < 0.2 * kernel.mass:
                alpha, beta = 4.0 / (1.0 + root) ** 2, ((1.0 - root) / (1.0 + root)) ** 2
                begin, start = k, error
        elif alpha != 1.0 and k - begin >= 8:
            # The guess was too low if this is slow.
            if (error / start) ** (1.0 / (k - begin)) > 0.75:
                v = plain
                break
            begin, start = k, error
        if alpha != 1.0:
            pushed = torch.lerp(v, plain, alpha)
            if old is not None:
                pushed.add_(v - old, alpha=beta)
            old = v
            # A small column may be far off while the L1 error is small: its push must stay positive.
            v = torch.maximum(pushed, plain.mul_(0.2))
        else:
            v = plain
        u = a / kernel.times(v, kernel.w)
    kernel.iterations += k + 1
    kernel.v = v
    kernel.u = a / kernel.times(v, kernel.w)
    return reached


def solve(
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
    mass: float,
    init: tuple[Tensor, Tensor] | None = None,
) -> Solution:
    """Solve one problem whose weights are all positive."""
    dtype = cost.dtype
    if dtype == torch.float32 and cost.numel() < SINGLE:
        cost = cost.double()
    rows, columns = cost.shape
    balanced = relaxation_a == math.inf and relaxation_b == math.inf
    if balanced and 2 * rows <= columns and rows <= 128:
        solution = solve(
            cost.t().contiguous(), b, a, epsilon, relaxation_b, relaxation_a, tolerance=tolerance, budget=budget,
            low=low, high=high, mass=mass, init=None if init is None else (init[1], init[0]),
        )  # fmt: skip
        return Solution(solution.plan.t(), solution.g, solution.f, solution.code, solution.iterations)
    offset_a = offset_b = None
    code = CONVERGED
    if balanced and init is None and high - low <= DIRECT * epsilon:
        kernel = Kernel(cost, a, b, relaxation_a, relaxation_b, fill_shifted(cost, low, epsilon), mass)
        kernel.epsilon = epsilon
        kernel.v = b
        kernel.u = a / kernel.times(b, kernel.w)
        if scaling_phase(kernel, tolerance, budget):
            # v = b/q and u = a/w: the potentials without a logarithm of the weights.
            f = kernel.w.log().mul_(-epsilon).add_(low)
            g = kernel.q.log().mul_(-epsilon)
            scale(kernel.k, kernel.u, kernel.v)
            return Solution(kernel.k.to(dtype), f, g, CONVERGED, kernel.iterations)
        kernel.phi, kernel.psi = torch.full_like(a, low / epsilon), torch.zeros_like(b)
        homotopy = Homotopy(kernel, budget, kernel.phi, kernel.psi)
        if homotopy.newton(tolerance) or homotopy.exhausted:
            code = MAX_ITERATIONS if homotopy.exhausted and homotopy.error > tolerance * kernel.mass else CONVERGED
            return finish(kernel, code, dtype, None, None)
        used, kernel = kernel.iterations, Kernel(cost, a, b, relaxation_a, relaxation_b, kernel.k, mass)
        kernel.iterations = used
    else:
        kernel = Kernel(cost, a, b, relaxation_a, relaxation_b)
    if relaxation_b == 0.0 or relaxation_a == 0.0:
        zero_a, zero_b = torch.zeros_like(a), torch.zeros_like(b)
        if relaxation_b == 0.0:
            f = row_softmin(cost, zero_b, kernel.log_b, epsilon) * pull(relaxation_a, epsilon)
            kernel.build(f, zero_b, epsilon)
        else:
            g = row_softmin(cost.t(), zero_a, kernel.log_a, epsilon) * pull(relaxation_b, epsilon)
            kernel.build(zero_a, g, epsilon)
            kernel.update_columns()
        kernel.iterations = 1
    else:
        range_ = high - low
        if balanced:
            kernel.cost, offset_a, offset_b, range_ = centre(cost, a, b, low, high)
        f, g = torch.zeros_like(a), torch.zeros_like(b)
        if init is not None:
            f, g = init
            if balanced and offset_a is not None and offset_b is not None:
                f, g = f - offset_a, g - offset_b
        homotopy = Homotopy(kernel, budget, f, g)
        code = descend(homotopy, epsilon, tolerance, range_, init is not None)
    return finish(kernel, code, dtype, offset_a, offset_b)


def descend(homotopy: Homotopy, epsilon: float, tolerance: float, range_: float, warm: bool) -> int:
    """Go down the ladder of ε to the target; the status code."""
    if warm and homotopy.solve_at(epsilon, tolerance):
        return CONVERGED
    for factor, loose in ((RUNG, RUNG_TOLERANCE), (CAREFUL_RUNG, tolerance)):
        code = walk(homotopy, epsilon, tolerance, range_, factor, max(loose, tolerance))
        if code != STALLED:
            break
    return code


def walk(homotopy: Homotopy, epsilon: float, tolerance: float, range_: float, factor: float, loose: float) -> int:
    """Go down one ladder, from the cost's range to the target ε; the status code."""
    kernel = homotopy.kernel
    ladder = [epsilon]
    while ladder[-1] * DIRECT < range_:
        ladder.append(ladder[-1] * factor)
    homotopy.f, homotopy.g = torch.zeros_like(homotopy.f), torch.zeros_like(homotopy.g)
    homotopy.before, homotopy.epsilon = None, math.nan
    if len(ladder) > 1 or not kernel.balanced:
        # The first rung starts in the log domain: it has no neighbour to start from.
        kernel.epsilon = ladder[-1]
        homotopy.restart(ladder[-1], homotopy.g)
        homotopy.f, homotopy.g = kernel.potentials()
    inserted = 0
    while ladder:
        rung = ladder[-1]
        if homotopy.solve_at(rung, tolerance if len(ladder) == 1 else loose):
            ladder.pop()
            continue
        if homotopy.exhausted:
            return MAX_ITERATIONS
        if math.isnan(homotopy.epsilon) and rung * DIRECT < 100 * range_:
            # The top itself is too cold.
            ladder.append(rung * factor)
            continue
        if math.isnan(homotopy.epsilon) or inserted >= 10 or homotopy.epsilon / rung < 1.05:
            if len(ladder) == 1:
                return STALLED
            homotopy.keep()
            ladder.pop()
            continue
        # Too far from the last solution: go half the way first.
        inserted += 1
        homotopy.before = None
        ladder.append(math.sqrt(rung * homotopy.epsilon))
    return CONVERGED


def finish(kernel: Kernel, code: int, dtype: torch.dtype, offset_a: Tensor | None, offset_b: Tensor | None) -> Solution:
    """One exact column and one exact row update, then the plan in K's own memory."""
    if kernel.pull_b > 0:
        kernel.update_columns()
    kernel.update_rows()
    f, g = kernel.potentials()
    if not kernel.balanced:
        # Sums that underflow leave a scaling behind that means nothing; its potential follows from the other side's.
        if 0.0 < kernel.pull_b < 1.0:
            lost = kernel.q <= LEAST
            if bool(lost.any()):
                g[lost] = row_softmin(kernel.cost[:, lost].t(), f, kernel.log_a, kernel.epsilon) * kernel.pull_b
        if 0.0 < kernel.pull_a < 1.0:
            lost = kernel.w <= LEAST
            if bool(lost.any()):
                f[lost] = row_softmin(kernel.cost[lost], g, kernel.log_b, kernel.epsilon) * kernel.pull_a
    if offset_a is not None and offset_b is not None:
        f, g = f + offset_a, g + offset_b
    scale(kernel.k, kernel.u, kernel.v)
    return Solution(kernel.k.to(dtype), f, g, code, kernel.iterations)
