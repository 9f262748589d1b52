"""The solver for many problems at once, and for CUDA: the method of `single` without a branch on the data.

Every item carries its own ε-ladder, step length and status, and moves on by masks, so an item's result does not depend
on its neighbours, and a CUDA stream is asked for a number only once in `CHECK` iterations.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, fields

import torch
from torch import Tensor

from sinkviz.transport.single import (
    CAREFUL_RUNG,
    CONVERGED,
    DIRECT,
    FAST_RATE,
    MAX_ITERATIONS,
    MOST,
    RIDGE,
    RUNG,
    RUNG_TOLERANCE,
    STALLED,
    STEP,
    TINY,
)

CHECK = 8
"""Iterations between two looks at the device."""
DENSE = 128
"""Largest side for which Newton's system is factorised; beyond, conjugate gradients."""
INSERTED = 4
"""Rungs that may be put between two others."""
PATIENCE = 8
"""Newton iterations without progress after which a rung is given up."""


@dataclass(slots=True)
class Batch:
    """Problems of one shape: cost (B, n, m); weights (B, n), (B, m); everything else (B,). float64."""

    cost: Tensor
    a: Tensor
    b: Tensor
    epsilon: Tensor
    relaxation_a: Tensor
    relaxation_b: Tensor
    f: Tensor
    g: Tensor
    warm: Tensor

    def at(self, index: Tensor) -> Batch:
        return Batch(*(getattr(self, field.name)[index] for field in fields(self)))


@dataclass(slots=True)
class BatchSolution:
    """Plans (B, n, m), potentials (B, n) and (B, m), status codes and iterations (B,)."""

    plan: Tensor
    f: Tensor
    g: Tensor
    code: Tensor
    iterations: Tensor


def pull(relaxation: Tensor, epsilon: Tensor) -> Tensor:
    """ρ/(ρ + ε), and 1 for ρ = ∞."""
    return torch.where(relaxation == math.inf, 1.0, relaxation / (relaxation + epsilon))


def safe_log(weights: Tensor) -> Tensor:
    """log, with −inf for 0."""
    return weights.log()


def softmin(cost: Tensor, potential: Tensor, log_weights: Tensor, epsilon: Tensor, dim: int) -> Tensor:
    """−ε log Σ w exp((potential − C)/ε) over the last dimension (dim −1) or the one before (dim −2); +inf if empty."""
    shift = potential / epsilon.unsqueeze(-1) + log_weights
    shift = shift.unsqueeze(-2) if dim == -1 else shift.unsqueeze(-1)
    exponent = torch.sub(shift, cost / epsilon[..., None, None])
    return -epsilon.unsqueeze(-1) * torch.logsumexp(exponent, dim)


def kernel(batch: Batch, f: Tensor, g: Tensor, log_b: Tensor) -> Tensor:
    """K_ij = exp((f_i + g_j − C_ij)/ε) b_j."""
    inverse = 1.0 / batch.epsilon
    exponent = batch.cost * -inverse[:, None, None]
    exponent += (f * inverse[:, None]).unsqueeze(-1)
    exponent += (g * inverse[:, None] + log_b).unsqueeze(-2)
    return exponent.exp_()


def conjugate_gradients(
    factor: Tensor, diagonal: Tensor, right: Tensor, scale: Tensor, tolerance: Tensor, cap: int, singular: Tensor
) -> tuple[Tensor, Tensor]:
    """Solve (diag(d) − s KᵀK) x = right for each item, Jacobi-preconditioned; x and each item's iterations.

    Args:
        factor: K, (B, n, m). diagonal, right: (B, m). scale, tolerance: (B,). singular: (B,), whether constants are in
            the system's null space; the right side is then made orthogonal to them.
    """
    squares = torch.linalg.vector_norm(factor, dim=-2).square()
    jacobi = torch.maximum(diagonal - scale.unsqueeze(-1) * squares, 1e-12 * diagonal)
    inverse = torch.where(jacobi > 0, 1.0 / jacobi.clamp_min(1e-300), 0.0)
    transposed = factor.transpose(-1, -2)
    x = torch.zeros_like(right)
    residual = right.clone()
    z = inverse * residual
    p = z.clone()
    size = (residual * z).sum(-1)
    goal = size * tolerance.square()
    active = size > goal
    used = torch.zeros_like(size, dtype=torch.int64)
    for k in range(cap):
        if k % CHECK == 0 and not bool(active.any()):
            break
        s = (transposed @ (factor @ p.unsqueeze(-1))).squeeze(-1)
        full = diagonal * p
        curvature_full = (full * p).sum(-1)
        product = full - scale.unsqueeze(-1) * s
        curvature = (product * p).sum(-1)
        sound = curvature > 1e-15 * curvature_full
        if k == 0:
            x = torch.where((active & ~sound).unsqueeze(-1), p, x)
        active = active & sound
        used += active
        step = torch.where(active, size / curvature.clamp_min(1e-300), 0.0).unsqueeze(-1)
        x = x + step * p
        residual = residual - step * product
        z = inverse * residual
        new = (residual * z).sum(-1)
        active = active & (new > goal)
        ratio = torch.where(active, new / size.clamp_min(1e-300), 0.0).unsqueeze(-1)
        p = torch.where(active.unsqueeze(-1), z + ratio * p, p)
        size = torch.where(active, new, size)
    return x, used


def newton_step(
    plan: Tensor, rows: Tensor, diagonal: Tensor, c: Tensor, right: Tensor, scale: Tensor, singular: Tensor,
    tolerance: Tensor,
) -> tuple[Tensor, Tensor]:  # fmt: skip
    """Solve (diag(diagonal) − s Pᵀ diag(1/r) P) x = right for each item; x and the iterations it took."""
    root = torch.where(rows > 0, rows.clamp_min(1e-300).rsqrt(), 0.0)
    factor = plan * root.unsqueeze(-1)
    size = plan.shape[-1]
    if size > DENSE:
        x, used = conjugate_gradients(factor, diagonal, right, scale, tolerance, 5 * size, singular)
        return x, used + 1
    # The system in the variable c^½ x, where its diagonal is near 1; the constant shift fills the null space.
    column = torch.where(c > 0, c.clamp_min(1e-300).sqrt(), 0.0)
    inverse = torch.where(c > 0, 1.0 / column.clamp_min(1e-300), 0.0)
    factor = factor * inverse.unsqueeze(-2)
    filled = torch.where(singular.unsqueeze(-1), column / c.sum(-1, keepdim=True).clamp_min(1e-300).sqrt(), 0.0)
    system = torch.bmm(factor.transpose(-1, -2) * -scale[:, None, None], factor)
    system += filled.unsqueeze(-1) * filled.unsqueeze(-2)
    ratio = torch.where(c > 0, diagonal / c.clamp_min(1e-300), 1.0)
    system.diagonal(dim1=-2, dim2=-1).add_(ratio * (1 + RIDGE))
    lower, info = torch.linalg.cholesky_ex(system)
    solution = torch.cholesky_solve((right * inverse).unsqueeze(-1), lower).squeeze(-1) * inverse
    plain = right / diagonal.clamp_min(1e-300)
    sound = (info == 0).unsqueeze(-1) & solution.isfinite().all(-1, keepdim=True)
    return torch.where(sound, solution, plain), torch.ones_like(scale, dtype=torch.int64)


def centre(cost: Tensor, a: Tensor, b: Tensor, balanced: Tensor) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """Take row and column means off the balanced items; the cost, both offsets, and the range that is left.

    Entries without weight are set to 0 and forbidden pairs stay +inf; neither counts in means or range.
    """
    if bool(cost.sum().isfinite()):
        # A cost of weight 0 has no part in the means, and 0 always lies in the range that is left.
        first = torch.bmm(cost, b.unsqueeze(-1)).squeeze(-1) / b.sum(-1, keepdim=True)
        second = torch.bmm(a.unsqueeze(-2), cost).squeeze(-2) / a.sum(-1, keepdim=True)
        second = second - (second * b).sum(-1, keepdim=True) / b.sum(-1, keepdim=True)
        first = torch.where(balanced.unsqueeze(-1), first, 0.0)
        second = torch.where(balanced.unsqueeze(-1), second, 0.0)
        centred = torch.sub(cost, first.unsqueeze(-1)).sub_(second.unsqueeze(-2))
        for dead, dim in ((a == 0, -1), (b == 0, -2)):
            if bool(dead.any()):
                centred.masked_fill_(dead.unsqueeze(dim), 0.0)
        return centred, first, second, centred.amax((-2, -1)) - centred.amin((-2, -1))
    alive = (a > 0).unsqueeze(-1) & (b > 0).unsqueeze(-2)
    counted = alive & cost.isfinite()
    values = torch.where(counted, cost, 0.0)
    # The largest cost stands in for forbidden pairs, so that a row of them does not pull its mean.
    least = torch.where(counted, cost, math.inf).amin((-2, -1), keepdim=True)
    least = torch.where(least.isfinite(), least, 0.0)
    values = torch.where(counted, values - least, 0.0)
    weight = b.unsqueeze(-2) * counted
    rows = (values * weight).sum(-1) / weight.sum(-1).clamp_min(1e-300)
    values = torch.where(counted, values - rows.unsqueeze(-1), 0.0)
    weight = a.unsqueeze(-1) * counted
    columns = (values * weight).sum(-2) / weight.sum(-2).clamp_min(1e-300)
    rows = torch.where(balanced.unsqueeze(-1), rows + least.squeeze(-1), 0.0)
    columns = torch.where(balanced.unsqueeze(-1), columns, 0.0)
    centred = cost - rows.unsqueeze(-1) - columns.unsqueeze(-2)
    centred = torch.where(alive, centred, 0.0)
    high = torch.where(counted, centred, -math.inf).amax((-2, -1))
    low = torch.where(counted, centred, math.inf).amin((-2, -1))
    spread = torch.where(high >= low, high - low, 0.0)
    return centred, rows, columns, spread


def scaling_phase(batch: Batch, tolerance: float, rounds: int) -> tuple[Tensor, Tensor, Tensor, Tensor, Tensor]:
    """Sinkhorn scaling of balanced items at their target ε; plan, f, g, who converged, and iterations.

    As in `single`: plain for three iterations, heavy-ball with the measured rate afterwards.
    """
    log_a, log_b = safe_log(batch.a), safe_log(batch.b)
    mass = batch.a.sum(-1)
    limit = tolerance * mass
    low = batch.cost.amin((-2, -1))
    plan = kernel(batch, low[:, None].expand_as(batch.a), torch.zeros_like(batch.b), log_b)
    transposed = plan.transpose(-1, -2)

    def divide(top: Tensor, below: Tensor) -> Tensor:
        return top / below.clamp_min(1e-300)

    v = torch.ones_like(batch.b)
    u = divide(batch.a, (plan @ v.unsqueeze(-1)).squeeze(-1))
    done = torch.zeros_like(mass, dtype=torch.bool)
    left = torch.zeros_like(done)
    used = torch.zeros_like(mass, dtype=torch.int64)
    alpha, beta = torch.ones_like(mass), torch.zeros_like(mass)
    rate = torch.zeros_like(mass)
    before, old = torch.full_like(mass, math.inf), v
    look = CHECK if plan.is_cuda else 1
    for k in range(rounds):
        active = ~(done | left)
        if k % look == 0 and not bool(active.any()):
            break
        used += active
        q = (transposed @ u.unsqueeze(-1)).squeeze(-1)
        error = (v * q - batch.b).abs().sum(-1)
        done = done | (active & (error <= limit))
        rate_before, rate = rate, error / before
        if k == 2:
            spectrum = rate + 2.0 * (rate - rate_before).clamp_min(0)
            slow = ~(spectrum <= FAST_RATE)
            root = (1 - spectrum.clamp(0, FAST_RATE)).sqrt()
            push = (spectrum > 0.12) & (error < 0.2 * mass) & ~slow
            alpha = torch.where(push, 4 / (1 + root).square(), 1.0)
            beta = torch.where(push, ((1 - root) / (1 + root)).square(), 0.0)
            left = left | (active & slow & ~done)
        elif k > 2:
            left = left | (active & ~done & ~(rate <= 1.0))
        before = error
        plain = divide(batch.b, q)
        pushed = v + alpha.unsqueeze(-1) * (plain - v) + beta.unsqueeze(-1) * (v - old)
        # A small column may be far off while the L1 error is small: its push must stay positive.
        pushed = torch.maximum(pushed, 0.2 * plain)
        going = (active & ~done & ~left).unsqueeze(-1)
        # An item that stops here takes one plain iteration more.
        new = torch.where(going, pushed, torch.where(active.unsqueeze(-1), plain, v))
        old, v = v, new
        u = torch.where(active.unsqueeze(-1), divide(batch.a, (plan @ v.unsqueeze(-1)).squeeze(-1)), u)
    plan *= u.unsqueeze(-1)
    plan *= v.unsqueeze(-2)
    scale = batch.epsilon.unsqueeze(-1)
    f = torch.where(
        batch.a > 0, low[:, None] + scale * (u.clamp_min(1e-300).log() - torch.where(batch.a > 0, log_a, 0.0)), 0.0
    )
    g = torch.where(batch.b > 0, scale * v.clamp_min(1e-300).log(), 0.0)
    return plan, f, g, done, used


class Machine:
    """The annealed Newton iteration on a batch, one evaluation of every active item at a time."""

    def __init__(
        self, batch: Batch, spread: Tensor, tolerance: float, budget: int, factor: float = RUNG,
        loose: float = RUNG_TOLERANCE,
    ) -> None:  # fmt: skip
        self.whole = batch
        self.tolerance, self.budget = tolerance, budget
        self.factor, self.loose = factor, max(loose, tolerance)
        self.prepare(batch)
        goal = batch.epsilon
        rungs = (spread / (DIRECT * goal)).clamp_min(1).log().div(math.log(factor)).ceil()
        rungs = torch.where(batch.warm, 0.0, rungs)
        self.epsilon = goal * factor**rungs

    def prepare(self, batch: Batch) -> None:
        self.batch = batch
        self.log_a, self.log_b = safe_log(batch.a), safe_log(batch.b)
        self.mass = batch.a.sum(-1)
        self.fixed_a = batch.relaxation_a == math.inf
        self.fixed_b = batch.relaxation_b == math.inf
        self.singular = self.fixed_a & self.fixed_b

    def evaluate(self, g: Tensor, epsilon: Tensor) -> tuple[Tensor, Tensor, Tensor, Tensor]:
        """Make the rows exact; the plan, f, row sums, and column sums."""
        batch = self.batch
        inverse = 1.0 / epsilon
        exponent = batch.cost * -inverse[:, None, None]
        exponent += (g * inverse[:, None] + self.log_b).unsqueeze(-2)
        peak = exponent.amax(-1, keepdim=True).clamp_min(-1e300)
        exponent -= peak
        plan = exponent.exp_()
        total = plan.sum(-1)
        level = peak.squeeze(-1) + total.clamp_min(1e-300).log()
        f = -(pull(batch.relaxation_a, epsilon) * epsilon).unsqueeze(-1) * level
        rows = torch.where(
            self.fixed_a.unsqueeze(-1), batch.a, batch.a * (f * inverse[:, None] + level).clamp_max(MOST).exp()
        )
        plan *= (rows / total.clamp_min(1e-300)).unsqueeze(-1)
        return plan, f, rows, plan.sum(-2)

    def column_update(self, g: Tensor, c: Tensor, epsilon: Tensor) -> Tensor:
        """g such that the columns meet their condition for the present f."""
        change = torch.where(self.batch.b > 0, self.log_b - c.clamp_min(1e-300).log(), 0.0)
        return pull(self.batch.relaxation_b, epsilon).unsqueeze(-1) * (g + epsilon.unsqueeze(-1) * change)

    def target(self, g: Tensor) -> Tensor:
        relaxed = self.batch.b * (-g / self.batch.relaxation_b.clamp_min(1e-300).unsqueeze(-1)).clamp_max(MOST).exp()
        return torch.where(self.fixed_b.unsqueeze(-1), self.batch.b, relaxed)

    def dual(self, f: Tensor, g: Tensor, rows: Tensor, target: Tensor, epsilon: Tensor) -> Tensor:
        """The dual value, over ε and up to a constant; the rows are exact."""
        batch = self.batch
        inverse = 1.0 / epsilon.unsqueeze(-1)
        f_part = torch.where(
            self.fixed_a.unsqueeze(-1),
            torch.where(batch.a > 0, batch.a * f * inverse, 0.0),
            -(batch.relaxation_a.unsqueeze(-1) * inverse + 1.0) * rows,
        ).sum(-1)
        g_part = torch.where(
            self.fixed_b.unsqueeze(-1), batch.b * g * inverse, -batch.relaxation_b.unsqueeze(-1) * inverse * target
        ).sum(-1)
        return f_part + g_part

    def solve(self) -> BatchSolution:
        """Run every item to its end; potentials after one more column and row update."""
        batch, mass = self.batch, self.mass
        count = len(mass)
        device = mass.device
        zeros = torch.zeros_like(mass)
        never = torch.zeros(count, dtype=torch.bool, device=device)
        g_out = batch.g.clone()
        code = torch.full((count,), STALLED, dtype=torch.int64, device=device)
        iterations = torch.zeros(count, dtype=torch.int64, device=device)
        index = torch.arange(count, device=device)
        # Everything that belongs to an item and changes; the names are kept in one dictionary so that finished items
        # can be dropped from all of it at once.
        s: dict[str, Tensor] = {
            "g": batch.g, "epsilon": self.epsilon, "finished": never.clone(),
            "base": batch.g, "step": torch.zeros_like(batch.g), "length": zeros + 1, "slope": zeros.clone(),
            "dual": zeros - math.inf, "error": zeros + math.inf, "trial": never.clone(), "fresh": never | True,
            "cuts": zeros.clone(), "best": zeros + math.inf, "best_g": batch.g, "since": zeros.clone(),
            "good_g": batch.g, "good_epsilon": zeros + math.nan,
            "inserted": zeros.clone(), "used": iterations.clone(), "index": index,
        }  # fmt: skip
        look = CHECK if mass.is_cuda else 1
        for k in range(self.budget + look):
            self.iterate(s)
            if (k + 1) % look:
                continue
            finished = s["finished"]
            done = int(finished.sum())
            if not done:
                continue
            alive = len(finished) - done
            if alive and 4 * alive > 3 * len(finished):
                continue
            where = s["index"][finished]
            g_out[where] = s["best_g"][finished]
            code[where] = s["code"][finished]
            iterations[where] = s["used"][finished]
            if not alive:
                break
            keep = ~finished
            s = {name: value[keep] for name, value in s.items()}
            self._keep(keep)
        self.prepare(self.whole)
        plan, f_out, _, _ = self.evaluate(g_out, self.whole.epsilon)
        return BatchSolution(plan, f_out, g_out, code, iterations)

    def _keep(self, keep: Tensor) -> None:
        self.batch = self.batch.at(keep)
        for name in ("log_a", "log_b", "mass", "fixed_a", "fixed_b", "singular"):
            setattr(self, name, getattr(self, name)[keep])

    def iterate(self, s: dict[str, Tensor]) -> None:
        """One evaluation, and what follows from it for each item: advance, cut the step, or take a new one."""
        batch, mass = self.batch, self.mass
        epsilon, goal = s["epsilon"], batch.epsilon
        going = ~s["finished"]
        plan, f, rows, c = self.evaluate(s["g"], epsilon)
        target = self.target(s["g"])
        difference = target - c
        error = difference.abs().sum(-1)
        error = torch.where(error.isfinite(), error, math.inf)
        dual = self.dual(f, s["g"], rows, target, epsilon)
        last = epsilon <= goal
        limit = torch.where(last, self.tolerance, self.loose) * mass
        s["used"] = s["used"] + going
        polished = self.column_update(s["g"], c, epsilon)

        reached = going & (error <= limit)
        better = going & last & (error < s["best"])
        s["best_g"] = torch.where((better & ~reached).unsqueeze(-1), s["g"], s["best_g"])
        ended = reached & last
        s["best_g"] = torch.where(ended.unsqueeze(-1), polished, s["best_g"])
        advance = reached & ~last

        # A trial step that raised neither the dual nor lowered the error is cut.
        enough = dual >= s["dual"] + 1e-4 * s["length"] * s["slope"]
        rejected = going & ~reached & s["trial"] & ~enough & ~(error < 0.9 * s["error"])
        give_up = rejected & (s["cuts"] >= 7)
        cut = rejected & ~give_up
        take = going & ~reached & ~rejected

        progress = take & (error < 0.7 * s["best"])
        s["since"] = torch.where(progress | advance, 0.0, s["since"] + going)
        s["best"] = torch.where(progress, error, s["best"])
        stuck = take & ((s["since"] > PATIENCE) | ~error.isfinite())
        can_insert = (
            stuck & s["good_epsilon"].isfinite() & (s["inserted"] < INSERTED) & (s["good_epsilon"] > 1.05 * epsilon)
        )
        dead = stuck & ~can_insert & last
        skip = stuck & ~can_insert & ~last
        take = take & ~stuck

        # Newton's step where it is wanted; a Sinkhorn update of the columns on a fresh rung or after too many cuts.
        diagonal = torch.where(
            self.fixed_b.unsqueeze(-1), c, c / pull(batch.relaxation_b, epsilon).clamp_min(1e-300).unsqueeze(-1)
        )
        log_form = torch.where(c > 0, c * (target.clamp_min(1e-300) / c.clamp_min(1e-300)).log(), 0.0)
        right = torch.where(self.fixed_b.unsqueeze(-1), difference, log_form)
        right = torch.where(batch.b > 0, right, 0.0)
        share = error / mass
        forcing = torch.maximum(0.3 * share.sqrt(), 0.1 * limit / error.clamp_min(1e-300)).clamp(1e-8, 0.1)
        step, used = newton_step(
            plan, rows, diagonal, c, right, pull(batch.relaxation_a, epsilon), self.singular, forcing
        )
        s["used"] = s["used"] + torch.where(take, used, 0)
        mean = (step * batch.b).sum(-1, keepdim=True) / batch.b.sum(-1, keepdim=True)
        usable = mean.squeeze(-1).isfinite()
        # Each column is clipped on its own, the common shift not at all: see `single.Homotopy.advance`.
        step = (step - mean).clamp(-STEP, STEP) + torch.where(self.singular.unsqueeze(-1), 0.0, mean)
        step = torch.where(batch.b > 0, step, 0.0)
        length = torch.ones_like(error)
        sinkhorn = (take & (s["fresh"] | ~usable)) | give_up
        newton = take & ~sinkhorn

        scale = epsilon.unsqueeze(-1)
        g = s["g"]
        g = torch.where(
            newton.unsqueeze(-1),
            s["g"] + (length.unsqueeze(-1) * scale) * torch.where(usable.unsqueeze(-1), step, 0.0),
            g,
        )
        g = torch.where(sinkhorn.unsqueeze(-1), polished, g)
        shorter = s["length"] * 0.4
        g = torch.where(cut.unsqueeze(-1), s["base"] + (shorter.unsqueeze(-1) * scale) * s["step"], g)
        s["length"] = torch.where(newton, length, torch.where(cut, shorter, s["length"]))
        s["cuts"] = torch.where(cut, s["cuts"] + 1, torch.where(newton | sinkhorn, 0.0, s["cuts"]))
        s["base"] = torch.where(newton.unsqueeze(-1), s["g"], s["base"])
        s["step"] = torch.where(newton.unsqueeze(-1), step, s["step"])
        s["slope"] = torch.where(newton, (right * step).sum(-1), s["slope"])
        s["dual"] = torch.where(newton, dual, s["dual"])
        s["error"] = torch.where(newton, error, s["error"])
        s["trial"] = torch.where(newton, True, torch.where(sinkhorn | advance | stuck, False, s["trial"]))

        # Down the ladder: from the secant through the last two solutions.
        lower = torch.maximum(epsilon / self.factor, goal)
        lower = torch.where(lower < 1.2 * goal, goal, lower)
        slope = (lower - epsilon) / (epsilon - s["good_epsilon"])
        slope = torch.where(slope.isfinite() & (s["good_epsilon"] > epsilon), slope, 0.0)
        ahead = polished + slope.unsqueeze(-1) * (polished - s["good_g"])
        g = torch.where((advance | skip).unsqueeze(-1), torch.where(advance.unsqueeze(-1), ahead, polished), g)
        s["good_g"] = torch.where(advance.unsqueeze(-1), polished, s["good_g"])
        s["good_epsilon"] = torch.where(advance, epsilon, s["good_epsilon"])
        between = (epsilon * s["good_epsilon"]).sqrt()
        g = torch.where(can_insert.unsqueeze(-1), s["good_g"], g)
        s["inserted"] = s["inserted"] + can_insert
        s["epsilon"] = torch.where(advance | skip, lower, torch.where(can_insert, between, epsilon))
        moved = advance | skip | can_insert
        s["best"] = torch.where(moved, math.inf, s["best"])
        s["since"] = torch.where(moved, 0.0, s["since"])
        s["fresh"] = torch.where(take, False, s["fresh"]) | moved
        s["g"] = g

        exhausted = going & ~ended & ~dead & (s["used"] >= self.budget)
        result = torch.where(ended, CONVERGED, torch.where(exhausted, MAX_ITERATIONS, STALLED))
        stop = ended | dead | exhausted
        s["code"] = torch.where(stop, result, s.get("code", result))
        # Out of budget on the way down: what is known best at the target ε is the last potential seen.
        lost = exhausted & ~s["best"].isfinite()
        s["best_g"] = torch.where(lost.unsqueeze(-1), g, s["best_g"])
        s["finished"] = s["finished"] | stop


def solve(
    cost: Tensor,
    a: Tensor,
    b: Tensor,
    epsilon: Tensor,
    relaxation_a: Tensor,
    relaxation_b: Tensor,
    *,
    tolerance: float,
    budget: int,
    init: tuple[Tensor, Tensor] | None = None,
) -> BatchSolution:
    """Solve a batch (B, n, m); weights may be 0, and every row with weight has an allowed partner."""
    floor = TINY[torch.float64]
    a = torch.where(a > floor * a.sum(-1, keepdim=True), a, 0.0)
    b = torch.where(b > floor * b.sum(-1, keepdim=True), b, 0.0)
    cost = cost.double()
    fixed = (relaxation_a == math.inf) & (relaxation_b == math.inf)
    b = torch.where(fixed.unsqueeze(-1), b * (a.sum(-1) / b.sum(-1)).unsqueeze(-1), b)
    centred, offset_a, offset_b, spread = centre(cost, a, b, fixed)
    f, g = torch.zeros_like(a), torch.zeros_like(b)
    warm = torch.zeros_like(fixed)
    if init is not None:
        f = torch.where(a > 0, init[0] - offset_a, 0.0)
        g = torch.where(b > 0, init[1] - offset_b, 0.0)
        warm = f.isfinite().all(-1) & g.isfinite().all(-1)
        g = torch.where(warm.unsqueeze(-1), g, 0.0)
    batch = Batch(centred, a, b, epsilon, relaxation_a, relaxation_b, f, g, warm)
    plan = torch.empty_like(centred)
    code = torch.zeros_like(fixed, dtype=torch.int64)
    iterations = torch.zeros_like(code)
    free = (relaxation_a == 0) | (relaxation_b == 0)
    direct = fixed & ~warm & (spread <= DIRECT * epsilon)
    rest = ~(direct | free)
    f_out, g_out = f.clone(), g.clone()
    if bool(free.any()):
        where = free.nonzero().squeeze(-1)
        part = batch.at(where)
        one_sided = softmin(part.cost, torch.zeros_like(part.a), safe_log(part.a), part.epsilon, -2)
        one_sided = torch.where(part.b > 0, one_sided * pull(part.relaxation_b, part.epsilon).unsqueeze(-1), 0.0)
        g_out[where] = torch.where((part.relaxation_b == 0).unsqueeze(-1), 0.0, one_sided)
        plan[where], f_out[where], _, _ = Machine(part, spread[where], tolerance, 1).evaluate(
            g_out[where], part.epsilon
        )
        iterations[where] = 1
    if bool(direct.any()):
        where = direct.nonzero().squeeze(-1)
        part = batch.at(where)
        plan_p, f_p, g_p, done, used = scaling_phase(part, tolerance, min(30, budget))
        plan[where], f_out[where], g_out[where] = plan_p, f_p, g_p
        iterations[where] = used
        again = where[~done]
        rest[again] = True
        batch.g[again] = g_out[again]
        batch.warm[again] = True
    if bool(rest.any()):
        where = rest.nonzero().squeeze(-1)
        solution = Machine(batch.at(where), spread[where], tolerance, budget).solve()
        plan[where], f_out[where], g_out[where] = solution.plan, solution.f, solution.g
        code[where] = solution.code
        iterations[where] += solution.iterations
    if bool((code == STALLED).any()):
        # Once more, carefully: see `single.descend`.
        where = (code == STALLED).nonzero().squeeze(-1)
        part = batch.at(where)
        part.g, part.warm = torch.zeros_like(part.g), torch.zeros_like(part.warm)
        solution = Machine(part, spread[where], tolerance, budget, CAREFUL_RUNG, tolerance).solve()
        plan[where], f_out[where], g_out[where] = solution.plan, solution.f, solution.g
        code[where] = solution.code
        iterations[where] += solution.iterations
    return BatchSolution(plan, f_out + offset_a, g_out + offset_b, code, iterations)
