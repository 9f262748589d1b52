"""Entropic transport: the Sinkhorn operator, its path over ε, attention as its first half-step, and the exact end.

The problem
-----------
    min_P ⟨C, P⟩ + ε KL(P ‖ a⊗b) + ρ₁ KL(P1 ‖ a) + ρ₂ KL(Pᵀ1 ‖ b),     KL(p ‖ q) = Σ p log(p/q) − p + q,

for a cost C (n, m), weights a, b, ε > 0, and ρ ∈ [0, ∞] for each marginal: ∞ fixes it, 0 frees it. The solution is
P_ij = a_i b_j exp((f_i + g_j − C_ij)/ε), where with τ = ρ/(ρ + ε) the potentials in units of the cost solve

    f_i = −τ₁ ε log Σ_j b_j exp((g_j − C_ij)/ε),     g_j = −τ₂ ε log Σ_i a_i exp((f_i − C_ij)/ε).

Both fixed: the Sinkhorn operator. Rows fixed, columns free: softmax attention on the scores −C. Sinkhorn's iteration
takes both equations in turn; its linear rate is τ₁τ₂σ₂², σ₂ the second singular value of diag(r)^-½ P diag(c)^-½,
which for ε a hundredth of max|C| is easily 0.999999. No first-order method is fast there, and that is where the
questions are.

The method
----------
1. Arguments are checked before any work; constant costs, single rows and columns and free marginals are closed forms;
   atoms of weight 0 are taken out, and get the potential that their equation gives them. A cost of +inf forbids a
   pair; a maximum flow decides whether the others leave a plan (`feasible`).
2. Range of C up to 48 ε: scaling, P = diag(u) K diag(v), two matrix–vector products an iteration, the column error
   free with each. From the rate measured over three iterations the heavy-ball method is tuned to the spectrum [0, ρ];
   where that predicts more than 30 further iterations, Newton takes over (`single.scaling_phase`).
3. Smaller ε: the cost is double-centred and ε comes down a ladder, by 3 a rung, each rung to an L1 error of 0.01
   only, from the secant through the last two potentials (`single.Homotopy`). On a rung: one Sinkhorn iteration, then
   Newton on the semi-dual in the log-scalings of the columns, the rows exact throughout:

       (diag(c)/τ₂ − τ₁ Pᵀ diag(1/r) P) Δ = b − c,

   by conjugate gradients with the Jacobi diagonal to a forcing tolerance that shrinks with the error, or by Cholesky
   once that is measured to be cheaper (small or ill-conditioned systems). Steps are cut by Armijo's rule on the dual.
   exp costs as much as 13 products with the matrix, so K is formed once for each ε and only rescaled by a step.
4. What small ε breaks, and the remedy. A plan falls into parts that only 1e-15 of its mass connects: the curvature
   between them is rounding. A relative ridge of 1e-10 keeps its sign, each column's step is clipped on its own, and
   where a solve stalls all the same the ladder is taken again by 2 a rung, every rung at the final tolerance, so that
   no mass is caught in the wrong part. A rung that fails is preceded by the geometric mean.
5. Every solve ends with one column and one row update. Marginals, residual of the problem that was posed (for a
   relaxed side P1 = a exp(−f/ρ)) and duality gap are recomputed from the plan, and the status follows from them
   alone.
6. float32: from 512×512 the kernel is float32 with potentials, scalings and exponents in float64; below, float64 is
   used.
7. Small balanced problems of finite cost on the CPU, up to 512×512: the same steps with the vectors in numpy on the
   tensors' own memory (`small`), because the calls, not their arithmetic, are what a small solve costs. It answers only
   within the tolerance; anything else starts afresh by 2 to 5. Small batches go through it item by item.
8. Batches (`batched`): the same method by masks, each item with a ladder, step and status of its own; ragged items in
   groups of like size. The same code runs on CUDA, where the host looks at the device once in eight iterations.
9. Gradients (`gradient`): the adjoint of the optimality conditions, one system with Newton's matrix. Off-grid ε of a
   path: interpolated potentials, and the same Newton.

Budgets bound each solve: the iterations (`max_iterations`), the rungs that may be inserted, and Newton steps without
progress. What remains is told by the status, never raised and never NaN.

Sources
-------
Cuturi, "Sinkhorn distances", NeurIPS 2013 (scaling). Chizat, Peyré, Schmitzer, Vialard, "Scaling algorithms for
unbalanced optimal transport problems", Math. Comp. 2018 (relaxed updates). Schmitzer, "Stabilized sparse scaling
algorithms for entropy regularized transport problems", SISC 2019 (absorption, ε-scaling). Thibault, Chizat, Dossal,
Papadakis, "Overrelaxed Sinkhorn–Knopp algorithm for regularized optimal transport", Algorithms 2021, and Polyak 1964
(heavy ball). Brauer, Clason, Lorenz, Wirth, "A Sinkhorn–Newton method for entropic optimal transport", arXiv
1710.06635 (Newton on the logarithmic scalings). Kemertas, Farahmand, Jepson, "A truncated Newton method for optimal
transport", arXiv 2504.02067, and Kemertas, Jepson, Farahmand, "Efficient and accurate optimal transport with mirror
descent and conjugate gradients", arXiv 2307.08507 (truncated Newton–CG under annealing). Feydy et al., "Interpolating
between optimal transport and MMD using Sinkhorn divergences", AISTATS 2019 (log domain, relaxed duals). Eisenberger
et al., "A unified framework for implicit Sinkhorn differentiation", CVPR 2022 (adjoint). Litman, arXiv 2508.08369
(attention as one-sided transport).
"""

from sinkviz.transport.exact import exact_plan
from sinkviz.transport.partner import with_null_partner
from sinkviz.transport.path import HalfSteps, SinkhornPath, half_steps, sinkhorn_path
from sinkviz.transport.result import SinkhornResult
from sinkviz.transport.scale import cost_scale
from sinkviz.transport.solver import sinkhorn, softmax_attention

__all__ = [
    "HalfSteps",
    "SinkhornPath",
    "SinkhornResult",
    "cost_scale",
    "exact_plan",
    "half_steps",
    "sinkhorn",
    "sinkhorn_path",
    "softmax_attention",
    "with_null_partner",
]
