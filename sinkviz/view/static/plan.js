/**
 * One transport problem and its plans: P_ij = a_i b_j exp((f_i + g_j − C_ij) / ε).
 *
 * A plan is determined by g: f_i = −ε log Σ_j b_j exp((g_j − C_ij)/ε) makes the rows exact, so a plan is one pass of
 * exponentials over the cost. g = 0 is softmax attention, the first half-step of Sinkhorn's algorithm.
 */

import { EXP_FLOOR, EXP_MASK, EXP_SCALE, EXP_SHIFT, EXP_STEP, EXP_TABLE, POWER_TABLE, POWER_ZERO, expNegative } from "./numbers.js";

/** Stands for +∞ (a forbidden pair): finite, so that 0 × cost stays 0. */
export const FORBIDDEN = 1e30;
const LOST = 1e-250;

/**
 * @typedef {object} Problem
 * @property {number} n rows
 * @property {number} m columns
 * @property {Float32Array} cost n·m, row by row
 * @property {Float64Array} a weights of the rows, sum 1
 * @property {Float64Array} b weights of the columns, sum 1
 */

/**
 * The problem with a null partner on each side: price z, marginals (a,1)/2 and (b,1)/2, corner price 0.
 * @param {Problem} problem
 * @param {number} price
 * @returns {Problem}
 */
export function withNullPartner({ n, m, cost, a, b }, price) {
  const wide = new Float32Array((n + 1) * (m + 1));
  for (let i = 0; i < n; i++) {
    wide.set(cost.subarray(i * m, (i + 1) * m), i * (m + 1));
    wide[i * (m + 1) + m] = price;
  }
  wide.fill(price, n * (m + 1), n * (m + 1) + m);
  const half = (/** @type {Float64Array} */ w) => Float64Array.from([...w, 1], (v) => v / 2);
  return { n: n + 1, m: m + 1, cost: wide, a: half(a), b: half(b) };
}

/** A plan in its own memory, moved from ε to ε without allocating. */
export class Plan {
  /** @param {Problem} problem */
  constructor(problem) {
    const { n, m } = problem;
    this.problem = problem;
    this.epsilon = 1;
    this.mass = new Float64Array(n * m);
    this.f = new Float64Array(n);
    this.g = new Float64Array(m);
    /** Column sums: mass received. */
    this.received = new Float64Array(m);
    this.logB = Float64Array.from(problem.b, (v) => (v > 0 ? Math.log(v) : -Infinity));
    this.shifted = new Float64Array(m);
    this.scale = new Float64Array(m);
    this.next = new Float64Array(m);
  }

  /**
   * Set the plan whose rows are exact for this g.
   * @param {number} epsilon
   * @param {ArrayLike<number>} g
   */
  evaluate(epsilon, g) {
    const { n, m, cost, a } = this.problem;
    const { mass, f, received, logB, shifted } = this;
    const inverse = 1 / epsilon;
    this.epsilon = epsilon;
    this.g.set(g);
    for (let j = 0; j < m; j++) shifted[j] = g[j] * inverse + logB[j];
    received.fill(0);
    for (let i = 0; i < n; i++) {
      const base = i * m;
      // The last f of the row is close to the next one, so it keeps the exponents small without a pass for the maximum.
      let shift = f[i] * inverse;
      let sum = this.exponentials(i, inverse, shift);
      if (!(sum > 1e-200 && sum < 1e200)) {
        let top = -Infinity;
        for (let j = 0; j < m; j++) {
          const t = shifted[j] - cost[base + j] * inverse;
          if (t > top) top = t;
        }
        if (top === -Infinity) {
          mass.fill(0, base, base + m);
          f[i] = 0;
          continue;
        }
        shift = -top;
        sum = this.exponentials(i, inverse, shift);
      }
      f[i] = epsilon * (shift - Math.log(sum));
      const weight = a[i] / sum;
      for (let j = 0; j < m; j++) {
        const value = mass[base + j] * weight;
        mass[base + j] = value;
        received[j] += value;
      }
    }
  }

  /**
   * Set the plan whose rows are exact for this g from the one of another g at the same ε: its columns are multiplied
   * by e^((g − g')/ε) and its rows made exact again, without an exponential for each pair.
   * @param {Plan} other
   * @param {ArrayLike<number>} g
   */
  evaluateFrom(other, g) {
    const { n, m, a, b } = this.problem;
    const { mass, f, received, scale } = this;
    const { epsilon } = other;
    let low = Infinity;
    let high = -Infinity;
    for (let j = 0; j < m; j++) {
      const exponent = (g[j] - other.g[j]) / epsilon;
      scale[j] = exponent;
      if (!(b[j] > 0)) continue;
      if (exponent < low) low = exponent;
      if (exponent > high) high = exponent;
    }
    // What underflowed in the other plan may count in this one where the columns are far apart; and a row without
    // weight keeps no trace of its potential there.
    if (!(high - low < 400) || a.includes(0)) {
      this.evaluate(epsilon, g);
      return;
    }
    this.epsilon = epsilon;
    this.g.set(g);
    for (let j = 0; j < m; j++) scale[j] = b[j] > 0 ? Math.exp(scale[j] - high) : 0;
    received.fill(0);
    for (let i = 0; i < n; i++) {
      const base = i * m;
      let sum = 0;
      for (let j = 0; j < m; j++) {
        const value = other.mass[base + j] * scale[j];
        mass[base + j] = value;
        sum += value;
      }
      if (!(sum > 1e-200)) {
        this.evaluate(epsilon, g);
        return;
      }
      const factor = a[i] / sum;
      f[i] = other.f[i] + epsilon * (Math.log(factor) - high);
      for (let j = 0; j < m; j++) {
        const value = mass[base + j] * factor;
        mass[base + j] = value;
        received[j] += value;
      }
    }
  }

  /**
   * Write exp(g_j/ε + log b_j − C_ij/ε + shift) into row i.
   * @param {number} i
   * @param {number} inverse 1/ε
   * @param {number} shift
   * @returns {number} their sum; not finite or far from 1 where the shift did not fit
   */
  exponentials(i, inverse, shift) {
    const { m, cost } = this.problem;
    const { mass, shifted } = this;
    const base = i * m;
    let sum = 0;
    for (let j = 0; j < m; j++) {
      const x = shifted[j] - cost[base + j] * inverse + shift;
      let value = 0;
      if (x > EXP_FLOOR) {
        // Too large for the table: the caller takes the maximum first.
        if (x > 700) return Infinity;
        const y = x * EXP_SCALE;
        const k = Math.floor(y);
        const r = (y - k) * EXP_STEP;
        value = EXP_TABLE[k & EXP_MASK] * POWER_TABLE[POWER_ZERO + (k >> EXP_SHIFT)] * (1 + r * (1 + r * 0.5));
      }
      mass[base + j] = value;
      sum += value;
    }
    return sum;
  }

  /**
   * Factor that the column update multiplies column j with; 1 where the column has no weight.
   * For relaxed columns (weight ρ) g ← ρ/(ρ+ε) × the balanced update.
   * @param {number} j
   * @param {number} total present sum of column j
   * @param {number} g present potential of column j
   * @param {number} relaxation
   */
  columnFactor(j, total, g, relaxation) {
    const weight = this.problem.b[j];
    if (!(weight > 0) || !(total > 0)) return 1;
    if (relaxation === Infinity) return weight / total;
    const balanced = g + this.epsilon * Math.log(weight / total);
    return Math.exp(((relaxation / (relaxation + this.epsilon)) * balanced - g) / this.epsilon);
  }

  /**
   * Column update, row update, `count` times; the rows are exact afterwards.
   * @param {number} count
   * @param {number} [relaxation] weight ρ of relaxed columns; Infinity = balanced
   */
  sweep(count, relaxation = Infinity) {
    if (count <= 0) return;
    const { n, m, a } = this.problem;
    const { mass, scale, next, received, g, f, epsilon } = this;
    scale.fill(1);
    next.set(received);
    for (let round = 0; round < count; round++) {
      for (let j = 0; j < m; j++) {
        const factor = this.columnFactor(j, next[j], g[j], relaxation);
        scale[j] *= factor;
        g[j] += epsilon * Math.log(factor);
      }
      next.fill(0);
      if (round === count - 1) break;
      for (let i = 0; i < n; i++) {
        const base = i * m;
        let sum = 0;
        for (let j = 0; j < m; j++) sum += mass[base + j] * scale[j];
        const factor = sum > 0 ? a[i] / sum : 1;
        for (let j = 0; j < m; j++) next[j] += factor * mass[base + j] * scale[j];
      }
    }
    // The last round writes the plan on its way.
    for (let i = 0; i < n; i++) {
      const base = i * m;
      let sum = 0;
      for (let j = 0; j < m; j++) sum += mass[base + j] * scale[j];
      const factor = sum > 0 ? a[i] / sum : 1;
      f[i] += epsilon * Math.log(factor);
      for (let j = 0; j < m; j++) {
        const value = factor * mass[base + j] * scale[j];
        mass[base + j] = value;
        next[j] += value;
      }
    }
    received.set(next);
  }

  /**
   * log Σ_i P_ij for a column whose sum underflowed.
   * @param {number} j
   * @returns {number}
   */
  logReceived(j) {
    const { n, m, cost, a } = this.problem;
    const inverse = 1 / this.epsilon;
    let top = -Infinity;
    for (let i = 0; i < n; i++) {
      if (a[i] > 0) top = Math.max(top, Math.log(a[i]) + (this.f[i] - cost[i * m + j]) * inverse);
    }
    if (top === -Infinity) return -Infinity;
    let sum = 0;
    for (let i = 0; i < n; i++) {
      if (a[i] > 0) sum += expNegative(Math.log(a[i]) + (this.f[i] - cost[i * m + j]) * inverse - top);
    }
    return top + Math.log(sum) + this.g[j] * inverse + this.logB[j];
  }

  /** Column update alone, in place: the columns are exact afterwards, the rows are not (a whole number of steps). */
  columnStep() {
    const { n, m, cost, a, b } = this.problem;
    const { mass, scale, received, epsilon, g, f, logB } = this;
    const inverse = 1 / epsilon;
    for (let j = 0; j < m; j++) {
      scale[j] = 1;
      if (!(b[j] > 0)) continue;
      if (received[j] > LOST) {
        scale[j] = b[j] / received[j];
        g[j] += epsilon * Math.log(scale[j]);
        continue;
      }
      const log = this.logReceived(j);
      if (log === -Infinity) continue;
      g[j] += epsilon * (logB[j] - log);
      for (let i = 0; i < n; i++) {
        const x = a[i] > 0 ? Math.log(a[i]) + (f[i] + g[j] - cost[i * m + j]) * inverse + logB[j] : -Infinity;
        mass[i * m + j] = expNegative(Math.min(0, x));
      }
    }
    received.fill(0);
    for (let i = 0; i < n; i++) {
      const base = i * m;
      for (let j = 0; j < m; j++) {
        const value = mass[base + j] * scale[j];
        mass[base + j] = value;
        received[j] += value;
      }
    }
  }

  /**
   * g after one more column update, without touching the plan.
   * @returns {Float64Array}
   */
  nextPotential() {
    const { m, b } = this.problem;
    const g = Float64Array.from(this.g);
    for (let j = 0; j < m; j++) {
      if (!(b[j] > 0)) continue;
      const log = this.received[j] > LOST ? Math.log(this.received[j]) : this.logReceived(j);
      if (log > -Infinity) g[j] += this.epsilon * (this.logB[j] - log);
    }
    return g;
  }

  /** @returns {number} L1 distance between the column sums and the weights */
  columnError() {
    let error = 0;
    for (let j = 0; j < this.problem.m; j++) error += Math.abs(this.received[j] - this.problem.b[j]);
    return error;
  }

  /** @returns {number} L1 distance between the row sums and the weights */
  rowError() {
    const { n, m, a } = this.problem;
    let error = 0;
    for (let i = 0; i < n; i++) {
      let sum = 0;
      for (let j = 0; j < m; j++) sum += this.mass[i * m + j];
      error += Math.abs(sum - a[i]);
    }
    return error;
  }
}

/**
 * Sinkhorn's iterations from g = 0, kept at a few stops so that a dial can go back and forth.
 * k column updates give the potentials of the half-steps k + ½ (rows exact) and k + 1 (columns exact).
 */
export class HalfSteps {
  /**
   * @param {Problem} problem
   * @param {number} epsilon
   */
  constructor(problem, epsilon) {
    this.problem = problem;
    this.epsilon = epsilon;
    /** @type {Map<number, Float64Array>} */
    this.stops = new Map([[0, new Float64Array(problem.m)]]);
    this.reached = 0;
    this.work = new Plan(problem);
    this.work.evaluate(epsilon, this.stops.get(0) ?? []);
    this.columns = Float64Array.from(this.work.received);
    this.scale = new Float64Array(problem.m).fill(1);
    this.sums = new Float64Array(problem.m);
  }

  /**
   * Go on until `updates` column updates are done or the time is over.
   * @param {number} updates
   * @param {number} until performance.now() to stop at
   * @returns {boolean} whether they are done
   */
  advance(updates, until) {
    const { n, m, a, b } = this.problem;
    const { work, scale, columns, sums } = this;
    while (this.reached < updates) {
      let wide = false;
      for (let j = 0; j < m; j++) {
        if (b[j] > 0 && !(columns[j] > LOST && scale[j] < 1e100 && scale[j] > 1e-100)) wide = true;
      }
      if (wide) this.absorb();
      else {
        for (let j = 0; j < m; j++) if (b[j] > 0) scale[j] *= b[j] / columns[j];
        sums.fill(0);
        for (let i = 0; i < n; i++) {
          const base = i * m;
          let sum = 0;
          for (let j = 0; j < m; j++) sum += work.mass[base + j] * scale[j];
          const factor = sum > 0 ? a[i] / sum : 1;
          for (let j = 0; j < m; j++) sums[j] += factor * work.mass[base + j] * scale[j];
        }
        columns.set(sums);
      }
      this.reached++;
      this.keep(this.reached);
      if (performance.now() > until) break;
    }
    return this.reached >= updates;
  }

  /** One column update in the log domain: where a column underflowed, or its scale is about to leave the floats. */
  absorb() {
    const { work, scale, columns, epsilon } = this;
    work.evaluate(epsilon, this.potential());
    work.evaluate(epsilon, work.nextPotential());
    scale.fill(1);
    columns.set(work.received);
  }

  /** @param {number} k */
  keep(k) {
    // All of the first 16, then about 30 a decade: what a dial's pixels can tell apart.
    const stop = k <= 16 || Math.floor(Math.log10(k) * 30) !== Math.floor(Math.log10(k - 1) * 30);
    if (!stop) return;
    this.stops.set(k, this.potential());
  }

  /** @returns {Float64Array} g at the furthest step */
  potential() {
    return Float64Array.from(this.work.g, (v, j) => v + this.epsilon * Math.log(this.scale[j]));
  }

  /**
   * Show half-step `steps` (½, 1, 1½, …) in `plan`; goes as far as the time allows.
   * @param {Plan} plan
   * @param {number} steps
   * @param {number} until
   * @returns {number} the half-step that is shown
   */
  show(plan, steps, until) {
    const wanted = Math.ceil(steps) - 1;
    const done = wanted <= this.reached || this.advance(wanted, until);
    const shown = done ? wanted : this.reached;
    let from = shown;
    while (!this.stops.has(from) && from !== this.reached) from--;
    plan.evaluate(this.epsilon, this.stops.get(from) ?? this.potential());
    if (from < shown) plan.sweep(shown - from);
    if (Number.isInteger(done ? steps : shown + 0.5)) plan.columnStep();
    return done ? steps : shown + 0.5;
  }
}
