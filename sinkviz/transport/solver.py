"""v1"""
from __future__ import annotations
import math
import torch
from sinkviz.transport.problem import prepare, check_grid
from sinkviz.transport.result import SinkhornResult, STATUSES
from sinkviz.transport.single import solve, row_softmin, Solution, CONVERGED, TINY
import numpy as np
from dataclasses import dataclass

def _at(x, k):
    return float(x.reshape(-1)[k]) if isinstance(x, torch.Tensor) else x

def solve_one(cost, a, b, epsilon, ra, rb, tolerance, budget, low, high, weightless, init):
    n, m = cost.shape
    mass = float(a.sum())
    balanced = ra == math.inf and rb == math.inf
    if balanced: b = b * (mass / float(b.sum()))
    if balanced and (high == low and not (cost == math.inf).any() or n == 1 or m == 1):
        C = cost.double()
        g = C[0] if n == 1 else torch.zeros_like(b)
        f = C[:, 0].clone() if m == 1 else C.new_full((n,), low)
        if n == 1:
            f = f*0
        f = f - epsilon * math.log(mass)
        return Solution(torch.outer(a, b/mass).to(cost.dtype), f, g, CONVERGED, 0)
    tiny = TINY[cost.dtype]
    if weightless or min(float(a.min()), float(b.min())) < tiny * mass:
        ia, ib = (a > tiny*mass).nonzero().squeeze(1), (b > tiny*mass).nonzero().squeeze(1)
        if len(ia) < n or len(ib) < m:
            sub = solve_one(cost[ia][:, ib].contiguous(), a[ia], b[ib], epsilon, ra, rb, tolerance, budget, low, high, False, None if init is None else (init[0][ia], init[1][ib]))
            from sinkviz.transport.single import _pull
            f = row_softmin(cost[:, ib], sub.g, b[ib].log(), epsilon) * _pull(ra, epsilon)
            g = row_softmin(cost[ia].t(), sub.f, a[ia].log(), epsilon) * _pull(rb, epsilon)
            f[ia] = sub.f; g[ib] = sub.g
            plan = torch.zeros_like(cost); plan[ia[:,None], ib] = sub.plan
            return Solution(plan, f, g, sub.code, sub.iterations)
    return solve(cost, a, b, epsilon, ra, rb, tolerance=tolerance, budget=budget, low=low, high=high, init=init)

def sinkhorn(cost, a=None, b=None, *, epsilon, tolerance=None, max_iterations=10_000, init=None, row_relaxation=None, column_relaxation=None):
    p = prepare(cost, a, b, epsilon, tolerance=tolerance, row_relaxation=row_relaxation, column_relaxation=column_relaxation)
    n, m = p.cost.shape[-2:]
    C = p.cost.reshape(-1, n, m); a = p.a.reshape(-1, n); b = p.b.reshape(-1, m)
    plans=[];fs=[];gs=[];codes=[];its=[];re=[];ce=[];res=[];gap=[]
    for k in range(len(C)):
        with torch.no_grad():
            s = solve_one(C[k].detach(), a[k].detach(), b[k].detach(), _at(p.epsilon,k), _at(p.row_relaxation,k), _at(p.column_relaxation,k), p.tolerance, max_iterations, p.low, p.high, p.weightless, None if init is None else (init[0].reshape(-1,n)[k].double(), init[1].reshape(-1,m)[k].double()))
        P = s.plan; f=s.f; g=s.g
        if p.needs_gradient:
            # unrolled for now
            e = p.epsilon.reshape(-1)[k] if isinstance(p.epsilon, torch.Tensor) else p.epsilon
            P = torch.exp((f[:,None]+g-C[k])/e)*a[k][:,None]*b[k]
            for _ in range(20):
                P = P * (b[k]/P.sum(0)); P = P*(a[k]/P.sum(1))[:,None]
            P = P.to(C.dtype)
        plans.append(P); its.append(s.iterations)
        if p.row_relaxation == math.inf and p.column_relaxation == math.inf:
            sh = float(b[k].detach() @ g) / float(b[k].sum()); f = f + sh; g = g - sh
        fs.append(f); gs.append(g)
        r=P.detach().sum(1,dtype=torch.float64); c=P.detach().sum(0,dtype=torch.float64)
        re.append(float((r-a[k]).abs().sum())); ce.append(float((c-b[k]).abs().sum())); gap.append(0.)
        def rs(x, w, f, rho):
            return float((x - (w if rho == math.inf else w*torch.exp(-f/rho) if rho else x)).abs().sum())
        res.append(max(rs(r,a[k].detach(),f,_at(p.row_relaxation,k)), rs(c,b[k].detach(),g,_at(p.column_relaxation,k))))
        codes.append(s.code if s.code else (0 if res[-1] <= p.tolerance * float(a[k].sum()) else 1))
    sh = lambda x: torch.tensor(x).reshape(p.batch) if p.batch else x[0]
    status = np.array(STATUSES)[np.array(codes)].reshape(tuple(p.batch)) if p.batch else STATUSES[codes[0]]
    return SinkhornResult(torch.stack(plans).reshape(*p.batch,n,m), torch.stack(fs).reshape(*p.batch,n), torch.stack(gs).reshape(*p.batch,m), p.epsilon, status, sh(res), sh(re), sh(ce), sh(gap), sh(its))

def softmax_attention(cost, a=None, b=None, *, epsilon):
    return sinkhorn(cost, a, b, epsilon=epsilon, column_relaxation=0.0)

@dataclass
class SinkhornPath:
    f: torch.Tensor; g: torch.Tensor; status: np.ndarray; iterations: torch.Tensor; epsilons: torch.Tensor
    cost: torch.Tensor; a: torch.Tensor; b: torch.Tensor
    def plan(self, k):
        return torch.exp((self.f[k][:,None]+self.g[k]-self.cost)/self.epsilons[k])*self.a[:,None]*self.b

def sinkhorn_path(cost, a=None, b=None, *, epsilons, tolerance=None, progress=None, cancelled=None):
    p = prepare(cost, a, b, 1.0, tolerance=tolerance)
    grid = check_grid(epsilons, p.cost)
    out=[]
    for k,e in enumerate(grid):
        if cancelled is not None and cancelled(): break
        out.append(sinkhorn(p.cost,p.a,p.b,epsilon=e,tolerance=tolerance))
        if progress is not None: progress(k+1,len(grid))
    return SinkhornPath(torch.stack([o.f for o in out]), torch.stack([o.g for o in out]), np.array([o.status for o in out]), torch.tensor([o.iterations for o in out]), torch.tensor(grid,dtype=torch.float64)[:len(out)], p.cost,p.a,p.b)

def half_steps(cost, a=None, b=None, *, epsilon, steps):
    raise NotImplementedError
