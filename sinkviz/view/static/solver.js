/**
 * Newton's method on the semi-dual, for everything that is not on the grid that Python solved: other weights,
 * relaxed columns, an ε between two grid points once the dial rests.
 *
 * Maximised over g: D(g) = ⟨a, f(g)⟩ + ⟨b, g⟩ (balanced) or ⟨a, f(g)⟩ − ρ ⟨b, e^(−g/ρ) − 1⟩ (columns relaxed with
 * weight ρ), f(g) the exact row update. Gradient: t − c with t = b, or b e^(−g/ρ), and c the column sums. The system
 * (diag(c + (ε/ρ) t) − Pᵀ diag(1/a) P) d = ε (t − c) is solved by conjugate gradients with a Jacobi preconditioner.
 * Prior art: Sinkhorn–Newton, arXiv 1710.06635; arXiv 2307.08507.
 *
 * The functions are generators: every `yield` is a place to stop, so that a frame is never missed.
 */

import { Plan } from "./plan.js";

/**
 * @typedef {import("./plan.js").Problem} Problem
 * @typedef {{status: "converged" | "stalled" | "max_iterations", residual: number, iterations: number}} Outcome
 */

/**
 * Column sums that the optimum has.
 * @param {Plan} plan
 * @param {number} relaxation
 * @param {Float64Array} target
 */
function wanted(plan, relaxation, target) {
  const { b, m } = plan.problem;
  for (let j = 0; j < m; j++) target[j] = relaxation === Infinity ? b[j] : b[j] * Math.exp(-plan.g[j] / relaxation);
}

/**
 * @param {Plan} plan
 * @param {number} relaxation
 */
function dual(plan, relaxation) {
  const { a, b, n, m } = plan.problem;
  let value = 0;
  for (let i = 0; i < n; i++) value += a[i] * plan.f[i];
  for (let j = 0; j < m; j++) {
    if (b[j] > 0) value += relaxation === Infinity ? b[j] * plan.g[j] : -relaxation * b[j] * Math.expm1(-plan.g[j] / relaxation);
  }
  return value;
}

/**
 * Solve for one ε and ρ, starting from `plan.g`; the plan holds the result, rows exact.
 * @param {Plan} plan
 * @param {number} epsilon
 * @param {number} [relaxation] ρ; Infinity = balanced
 * @param {number} [tolerance] L1 error of the optimality conditions
 * @returns {Generator<number, Outcome, void>} yields the residual
 */
export function* solve(plan, epsilon, relaxation = Infinity, tolerance = 1e-9) {
  const { n, m, a } = plan.problem;
  const target = new Float64Array(m);
  const step = new Float64Array(m);
  const residual = new Float64Array(m);
  const direction = new Float64Array(m);
  const image = new Float64Array(m);
  const shift = new Float64Array(m);
  const start = new Float64Array(m);
  if (relaxation === 0) {
    plan.evaluate(epsilon, start);
    return { status: "converged", residual: 0, iterations: 0 };
  }
  const ratio = relaxation === Infinity ? 0 : epsilon / relaxation;
  const measure = () => {
    wanted(plan, relaxation, target);
    let sum = 0;
    for (let j = 0; j < m; j++) sum += Math.abs(target[j] - plan.received[j]);
    return sum;
  };
  plan.evaluate(epsilon, Float64Array.from(plan.g));
  let error = measure();
  let best = error;
  let idle = 0;
  let iterations = 0;
  for (; iterations < 200; iterations++) {
    if (error <= tolerance) return { status: "converged", residual: error, iterations };
    if (error > 0.05 || needsSweep(plan)) {
      // Far away Sinkhorn's own update is safer than Newton's; in the log domain where a column underflowed.
      if (needsSweep(plan)) {
        const g = plan.nextPotential();
        if (ratio > 0) for (let j = 0; j < m; j++) g[j] /= 1 + ratio;
        plan.evaluate(epsilon, g);
      } else plan.sweep(2, relaxation);
      error = measure();
      yield error;
    }
    // Conjugate gradients on the Newton system.
    start.set(plan.g);
    const before = dual(plan, relaxation);
    let rho = 0;
    for (let j = 0; j < m; j++) {
      const diagonal = plan.received[j] + ratio * target[j];
      step[j] = 0;
      residual[j] = epsilon * (target[j] - plan.received[j]);
      direction[j] = diagonal > 0 ? residual[j] / diagonal : 0;
      rho += residual[j] * direction[j];
    }
    const goal = rho * Math.min(0.01, error) ** 2;
    const rounds = Math.min(2 * m + 10, 400);
    for (let round = 0; round < rounds && rho > goal && rho > 0; round++) {
      for (let j = 0; j < m; j++) image[j] = (plan.received[j] + ratio * target[j]) * direction[j];
      for (let i = 0; i < n; i++) {
        if (!(a[i] > 0)) continue;
        const base = i * m;
        let sum = 0;
        for (let j = 0; j < m; j++) sum += plan.mass[base + j] * direction[j];
        sum /= a[i];
        for (let j = 0; j < m; j++) image[j] -= sum * plan.mass[base + j];
      }
      let curvature = 0;
      for (let j = 0; j < m; j++) curvature += direction[j] * image[j];
      if (!(curvature > 0)) break;
      const length = rho / curvature;
      let fresh = 0;
      for (let j = 0; j < m; j++) {
        step[j] += length * direction[j];
        residual[j] -= length * image[j];
        const diagonal = plan.received[j] + ratio * target[j];
        if (diagonal > 0) fresh += (residual[j] * residual[j]) / diagonal;
      }
      const turn = fresh / rho;
      rho = fresh;
      for (let j = 0; j < m; j++) {
        const diagonal = plan.received[j] + ratio * target[j];
        direction[j] = (diagonal > 0 ? residual[j] / diagonal : 0) + turn * direction[j];
      }
      if (round % 8 === 7) yield error;
    }
    let slope = 0;
    for (let j = 0; j < m; j++) slope += step[j] * (target[j] - plan.received[j]);
    let size = 1;
    let moved = false;
    for (let attempt = 0; attempt < 12 && slope > 0; attempt++) {
      for (let j = 0; j < m; j++) shift[j] = start[j] + size * step[j];
      plan.evaluate(epsilon, shift);
      yield error;
      const gained = dual(plan, relaxation) - before;
      if (gained >= 1e-4 * size * slope - 1e-14 * Math.abs(before)) {
        moved = true;
        break;
      }
      size /= 2;
    }
    if (!moved) {
      plan.evaluate(epsilon, start);
      plan.sweep(1, relaxation);
    }
    error = measure();
    yield error;
    if (error < 0.9 * best) {
      best = error;
      idle = 0;
    } else if (++idle > 8) return { status: "stalled", residual: error, iterations };
  }
  return { status: "max_iterations", residual: error, iterations };
}

/** @param {Plan} plan */
function needsSweep(plan) {
  const { b, m } = plan.problem;
  for (let j = 0; j < m; j++) if (b[j] > 0 && !(plan.received[j] > 1e-12 * b[j])) return true;
  return false;
}

/**
 * Solve the balanced problem along a grid of ε, largest first, each from its neighbour.
 * @param {Problem} problem
 * @param {ArrayLike<number>} epsilons
 * @param {number} [tolerance]
 * @returns {Generator<{index: number, g: Float64Array, outcome: Outcome} | null, void, void>} null between results
 */
export function* solvePath(problem, epsilons, tolerance = 1e-9) {
  const plan = new Plan(problem);
  let before = null;
  let last = null;
  for (let index = 0; index < epsilons.length; index++) {
    const start = Float64Array.from(plan.g);
    if (before && last) {
      // Secant extrapolation in log ε.
      const ratio = Math.log(epsilons[index] / epsilons[index - 1]) / Math.log(epsilons[index - 1] / epsilons[index - 2]);
      for (let j = 0; j < problem.m; j++) start[j] = last[j] + ratio * (last[j] - before[j]);
    }
    plan.g.set(start);
    const work = solve(plan, epsilons[index], Infinity, tolerance);
    let state = work.next();
    while (!state.done) {
      yield null;
      state = work.next();
    }
    before = last;
    last = Float64Array.from(plan.g);
    yield { index, g: last, outcome: state.value };
  }
}

/**
 * Run a generator to its end.
 * @template T
 * @param {Generator<unknown, T, void>} work
 * @returns {T}
 */
export function finish(work) {
  let state = work.next();
  while (!state.done) state = work.next();
  return state.value;
}

/**
 * Potentials between grid points: cubic Lagrange interpolation in log ε through the four nearest ones.
 * @param {ArrayLike<number>} epsilons decreasing
 * @param {(index: number) => ArrayLike<number> | null} potential null where it is not solved yet
 * @param {number} epsilon
 * @param {Float64Array} out
 * @returns {boolean} false where no neighbour is solved
 */
export function interpolate(epsilons, potential, epsilon, out) {
  const known = [];
  for (let k = 0; k < epsilons.length; k++) if (potential(k)) known.push(k);
  if (!known.length) return false;
  const x = Math.log(epsilon);
  let at = 0;
  while (at < known.length - 1 && Math.log(epsilons[known[at]]) > x) at++;
  const from = Math.max(0, Math.min(at - 2, known.length - 4));
  const used = known.slice(from, from + 4);
  const nodes = used.map((k) => Math.log(epsilons[k]));
  out.fill(0);
  used.forEach((k, p) => {
    let weight = 1;
    nodes.forEach((node, q) => {
      if (q !== p) weight *= (x - node) / (nodes[p] - node);
    });
    const g = potential(k);
    if (g) for (let j = 0; j < out.length; j++) out[j] += weight * g[j];
  });
  return true;
}
