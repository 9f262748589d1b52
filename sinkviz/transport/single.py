"""One problem on the CPU."""

from __future__ import annotations

import math
from dataclasses import dataclass

import torch
from torch import Tensor

CONVERGED, STALLED, MAX_ITERATIONS = 0, 1, 2


@dataclass(slots=True)
class Solution:
    plan: Tensor
    f: Tensor
    g: Tensor
    code: int
    iterations: int


def solve(cost, a, b, epsilon, rho_a, rho_b, tolerance, budget, init=None):
    C = cost.double()
    la, lb = a.log(), b.log()
    n, m = C.shape
    fin = C[C.isfinite()]
    balanced = rho_a == math.inf and rho_b == math.inf
    off_r = off_c = 0.0
    if balanced:
        Z = torch.where(C.isfinite(), C, fin.mean())
        off_r = Z.mean(1); off_c = (Z - off_r[:, None]).mean(0)
        C = C - off_r[:, None] - off_c
    rng = float(fin.max() - fin.min()) or 1.0
    g = torch.zeros_like(b) if init is None else init[1] - off_c
    eps = max(epsilon, rng if init is None else epsilon)
    ladder = []
    e = epsilon
    while e < rng and init is None:
        ladder.append(e); e *= 4
    ladder = ladder[::-1] or [epsilon]
    if rho_b == 0: g = torch.zeros_like(g)
    its = 0

    def rows(g, e):
        ta = 1.0 if rho_a == math.inf else rho_a / (rho_a + e)
        f = -ta * e * torch.logsumexp(lb + (g - C) / e, 1)
        return f
    def cols(f, e):
        tb = 1.0 if rho_b == math.inf else rho_b / (rho_b + e)
        return -tb * e * torch.logsumexp(la[:, None] + (f[:, None] - C) / e, 0)
    def plan(f, g, e):
        return torch.exp(la[:, None] + lb + (f[:, None] + g - C) / e)
    for e in ladder:
        last = e == ladder[-1]
        tol = tolerance * float(a.sum()) if last else max(tolerance, 1e-3)
        if rho_b != 0:
            g = cols(rows(g, e), e)
        best = math.inf; best_g = g; step = 1.0; bad = 0
        for k in range(200):
            f = rows(g, e)
            P = plan(f, g, e)
            c = P.sum(0); r = P.sum(1)
            target = b if rho_b == math.inf else (c if rho_b == 0 else b * torch.exp(-g / rho_b))
            res = float((c - target).abs().sum())
            its += 1
            if res < best: best = res; best_g = g
            else: bad += 1
            if res <= tol or rho_b == 0 or bad > 20: break
            ka = 1 + (0 if rho_a == math.inf else e / rho_a); kb = 1 + (0 if rho_b == math.inf else e / rho_b)
            A = torch.diag(c * kb) - P.t() @ (P / (r * ka).clamp_min(1e-300)[:, None])
            d = c.clamp_min(1e-300).sqrt()
            A = A / d[:, None] / d
            if balanced: A = A + d[:, None] * d / (d @ d)
            A = A + 1e-13 * torch.eye(m, dtype=torch.float64)
            x = torch.linalg.lstsq(A, ((target - c) / d)[:, None]).solution[:, 0] / d
            x = x * min(1.0, 3.0 / max(1e-300, float(x.abs().max()))) * e
            if bad % 2: x = cols(f, e) - g
            g = g + x
        g = best_g
    f = rows(g, epsilon)
    P = plan(f, g, epsilon)
    f = f + off_r; g = g + off_c
    return Solution(P.to(cost.dtype), f, g, CONVERGED if best <= tolerance * float(a.sum()) else STALLED, its)
