/**
 * What the pictures draw: a plan summed over the elements (tokens, words or sentences) of a range of both texts,
 * with everything that is read off it. Sums over blocks are exact; they are not the optimum of the coarse problem.
 */

import { HIGH_HALF, SMALLEST, logPositive } from "./numbers.js";

/**
 * The elements of one text at one level, inside a range.
 * @typedef {object} Elements
 * @property {number} count
 * @property {Int32Array} element of each atom, −1 outside the range
 * @property {Int32Array} first first atom of each element
 * @property {Int32Array} last one past its last atom
 * @property {Float64Array} weights sum of the atoms' weights
 * @property {string[]} labels
 * @property {Float64Array} x
 * @property {Float64Array} y
 * @property {boolean} single every element is one atom and all atoms are there
 */

/**
 * @param {object} side
 * @param {Int32Array} side.group unit of each atom at this level
 * @param {Float64Array} side.weights
 * @param {Float32Array} side.points projected, k numbers an atom
 * @param {number} side.dimensions
 * @param {(unit: number) => string} side.label
 * @param {[number, number] | null} range atoms [start, end)
 * @returns {Elements}
 */
export function elementsOf({ group, weights, points, dimensions, label }, range) {
  const n = group.length;
  const inside = new Set();
  for (let k = range ? range[0] : 0; k < (range ? range[1] : n); k++) inside.add(group[k]);
  const element = new Int32Array(n).fill(-1);
  /** @type {Map<number, number>} */
  const order = new Map();
  const first = [];
  const last = [];
  const units = [];
  for (let k = 0; k < n; k++) {
    if (!inside.has(group[k])) continue;
    let e = order.get(group[k]);
    if (e === undefined) {
      e = order.size;
      order.set(group[k], e);
      first.push(k);
      last.push(k + 1);
      units.push(group[k]);
    }
    element[k] = e;
    last[e] = k + 1;
  }
  const count = order.size;
  const total = new Float64Array(count);
  const x = new Float64Array(count);
  const y = new Float64Array(count);
  const share = new Float64Array(count);
  for (let k = 0; k < n; k++) if (element[k] >= 0) total[element[k]] += weights[k];
  for (let k = 0; k < n; k++) {
    const e = element[k];
    if (e < 0) continue;
    const w = total[e] > 0 ? weights[k] : 1;
    share[e] += w;
    if (dimensions > 0) x[e] += w * points[k * dimensions];
    if (dimensions > 1) y[e] += w * points[k * dimensions + 1];
  }
  for (let e = 0; e < count; e++) {
    x[e] /= share[e];
    y[e] /= share[e];
  }
  return {
    count,
    element,
    first: Int32Array.from(first),
    last: Int32Array.from(last),
    weights: total,
    labels: units.map(label),
    x,
    y,
    single: count === n,
  };
}

/** Row and column means of the cost under the weights: what double-centring subtracts. */
export class Centring {
  /** @param {import("./plan.js").Problem} problem */
  constructor({ n, m, cost, a, b }) {
    this.rows = new Float64Array(n);
    this.columns = new Float64Array(m);
    const rowMass = new Float64Array(n);
    const columnMass = new Float64Array(m);
    let total = 0;
    let mass = 0;
    for (let i = 0; i < n; i++) {
      for (let j = 0; j < m; j++) {
        const c = cost[i * m + j];
        if (c > 1e29) continue;
        const weight = a[i] * b[j];
        // A row or column of weight 0 still has a mean: under the other side's weights alone.
        this.rows[i] += b[j] * c;
        rowMass[i] += b[j];
        this.columns[j] += a[i] * c;
        columnMass[j] += a[i];
        total += weight * c;
        mass += weight;
      }
    }
    for (let i = 0; i < n; i++) this.rows[i] = rowMass[i] > 0 ? this.rows[i] / rowMass[i] : 0;
    for (let j = 0; j < m; j++) this.columns[j] = columnMass[j] > 0 ? this.columns[j] / columnMass[j] : 0;
    /** ⟨C, a⊗b⟩: the cost of independence. */
    this.mean = mass > 0 ? total / mass : 0;
  }
}

/** One panel's plan at the chosen level and range. */
export class Sheet {
  /**
   * @param {Elements} rows
   * @param {Elements} columns
   */
  constructor(rows, columns) {
    this.rows = rows;
    this.columns = columns;
    this.n = rows.count;
    this.m = columns.count;
    this.own = new Float64Array(0);
    /** P, n·m: mass between elements. */
    this.mass = this.own;
    this.given = new Float64Array(this.n);
    this.received = new Float64Array(this.m);
    this.nullSource = new Float64Array(this.n);
    this.nullTarget = new Float64Array(this.m);
    this.price = new Float64Array(this.n);
    this.partners = new Float64Array(this.n);
    this.entropy = new Float64Array(this.n);
    /** Mass between the elements drawn; 1 when all is drawn and nothing is without a partner. */
    this.total = 0;
    /** ⟨C, P⟩ of the whole problem. */
    this.cost = 0;
    this.information = 0;
    this.meanPartners = 0;
    /** ½ Σ |received + null − b| over the columns drawn. */
    this.missed = 0;
    this.rowError = 0;
    this.columnError = 0;
    this.buffer = new Float64Array(0);
  }

  /**
   * @param {import("./plan.js").Plan} plan the plan of the real or of the extended problem
   * @param {object} base
   * @param {import("./plan.js").Problem} base.problem the real problem
   * @param {Centring} base.centring
   * @param {boolean} base.partial the plan has a null row and column
   */
  update(plan, { problem, centring, partial }) {
    const { n, m, cost, a } = problem;
    const wide = plan.problem.m;
    const factor = partial ? 2 : 1;
    const rowOf = this.rows.element;
    const columnOf = this.columns.element;
    const direct = !partial && this.rows.single && this.columns.single;
    const source = plan.mass;
    const { given, received, price, nullSource, nullTarget, entropy } = this;
    given.fill(0);
    received.fill(0);
    price.fill(0);
    nullSource.fill(0);
    nullTarget.fill(0);
    this.cost = 0;
    if (direct) this.mass = source;
    else {
      if (this.own.length !== this.n * this.m) this.own = new Float64Array(this.n * this.m);
      else this.own.fill(0);
      this.mass = this.own;
    }
    const mass = this.mass;
    const shift = centring.columns;
    const inverse = 1 / plan.epsilon;
    const logs = this.logs(plan);
    let rowError = 0;
    for (let i = 0; i < n; i++) {
      const from = i * wide;
      const at = i * m;
      let paid = 0;
      let moved = 0;
      let row = 0;
      let log = 0;
      for (let j = 0; j < m; j++) {
        const p = source[from + j];
        row += p;
        paid += p * cost[at + j];
        moved += p * shift[j];
        log += p * logs[j];
      }
      // log P_ij = log a_i + log b_j + (f_i + g_j − C_ij)/ε, so that Σ_j P log P needs no logarithm of its own.
      if (direct) entropy[i] = row > 0 ? row * (Math.log(a[i]) + plan.f[i] * inverse) + log - paid * inverse : 0;
      row *= factor;
      paid *= factor;
      moved *= factor;
      this.cost += paid;
      const lost = partial ? factor * source[from + m] : 0;
      rowError += Math.abs(row + lost - a[i]);
      const e = rowOf[i];
      if (e < 0) continue;
      price[e] += paid - moved - row * (centring.rows[i] - centring.mean);
      nullSource[e] += lost;
      if (direct) given[e] = row;
      else {
        const base = e * this.m;
        for (let j = 0; j < m; j++) if (columnOf[j] >= 0) mass[base + columnOf[j]] += factor * source[from + j];
      }
    }
    this.rowError = rowError;
    this.columnError = 0;
    for (let j = 0; j < m; j++) {
      const lost = partial ? factor * source[n * wide + j] : 0;
      const column = factor * plan.received[j];
      this.columnError += Math.abs(column - problem.b[j]);
      if (columnOf[j] >= 0) nullTarget[columnOf[j]] += lost;
    }
    for (let e = 0; e < this.n; e++) {
      const weight = this.rows.weights[e];
      price[e] = weight > 0 ? price[e] / weight : 0;
    }
    if (direct) received.set(plan.received);
    else this.sum();
    this.summarise();
  }

  /** g/ε + log b, 0 where there is no weight and so no mass. @param {import("./plan.js").Plan} plan */
  logs(plan) {
    const { m, b } = plan.problem;
    if (this.buffer.length !== m) this.buffer = new Float64Array(m);
    for (let j = 0; j < m; j++) this.buffer[j] = b[j] > 0 ? plan.g[j] / plan.epsilon + plan.logB[j] : 0;
    return this.buffer;
  }

  /** Row sums, column sums and Σ P log P of the block sums. */
  sum() {
    const { n, m, mass, given, received, entropy } = this;
    given.fill(0);
    received.fill(0);
    for (let i = 0; i < n; i++) {
      const base = i * m;
      let row = 0;
      let log = 0;
      for (let j = 0; j < m; j++) {
        const p = mass[base + j];
        row += p;
        received[j] += p;
        if (p > SMALLEST) log += p * logPositive(p);
      }
      given[i] = row;
      entropy[i] = log;
    }
  }

  /** Everything that follows from the sums. */
  summarise() {
    const { n, m, given, received, partners, entropy, nullTarget } = this;
    let total = 0;
    let joint = 0;
    for (let i = 0; i < n; i++) {
      const row = given[i];
      partners[i] = row > 0 ? Math.exp(Math.log(row) - entropy[i] / row) : 0;
      total += row;
      joint += entropy[i];
    }
    this.total = total;
    let own = 0;
    let mean = 0;
    for (let i = 0; i < n; i++) {
      if (given[i] > 0) own += given[i] * Math.log(given[i]);
      mean += given[i] * partners[i];
    }
    let missed = 0;
    for (let j = 0; j < m; j++) {
      if (received[j] > 0) own += received[j] * Math.log(received[j]);
      missed += Math.abs(received[j] + nullTarget[j] - this.columns.weights[j]);
    }
    // Against its own marginals, both divided by the total.
    this.information = total > 0 ? Math.max(0, (joint - own) / total + Math.log(total)) : 0;
    this.meanPartners = total > 0 ? mean / total : 0;
    this.missed = missed / 2;
  }

  /** What a frame needs, small enough to keep for each ε of the grid. */
  snapshot() {
    return {
      mass: Float32Array.from(this.mass),
      price: Float32Array.from(this.price),
      nullSource: Float32Array.from(this.nullSource),
      nullTarget: Float32Array.from(this.nullTarget),
      cost: this.cost,
      rowError: this.rowError,
      columnError: this.columnError,
    };
  }

  /**
   * Block sums between two values of the grid: their logarithms run almost straight in log ε. For long texts while a
   * dial moves; at rest the plan itself is summed again.
   * @param {ReturnType<Sheet["snapshot"]>} one
   * @param {ReturnType<Sheet["snapshot"]>} other
   * @param {number} t 0 at the first, 1 at the second
   */
  between(one, other, t) {
    if (this.own.length !== this.n * this.m) this.own = new Float64Array(this.n * this.m);
    this.mass = this.own;
    const mix = (/** @type {number} */ p, /** @type {number} */ q) =>
      p > 0 && q > 0 ? Math.exp((1 - t) * logPositive(p) + t * logPositive(q)) : (1 - t) * p + t * q;
    for (let k = 0; k < this.own.length; k++) this.own[k] = mix(one.mass[k], other.mass[k]);
    for (const name of /** @type {const} */ (["price", "nullSource", "nullTarget"])) {
      for (let k = 0; k < this[name].length; k++) this[name][k] = (1 - t) * one[name][k] + t * other[name][k];
    }
    for (const name of /** @type {const} */ (["cost", "rowError", "columnError"])) this[name] = (1 - t) * one[name] + t * other[name];
    this.sum();
    this.summarise();
  }

  /**
   * log(P_ij / (a_i b_j)); −∞ where no mass flows. The factor 1/renorm turns a restricted view into a law of its own.
   * @param {number} i
   * @param {number} j
   * @returns {number}
   */
  lift(i, j) {
    const p = this.mass[i * this.m + j];
    const independent = this.rows.weights[i] * this.columns.weights[j];
    return p > 0 && independent > 0 ? Math.log(p / independent) : -Infinity;
  }
}

const SPAN = 40;
const BINS = SPAN * 32;
const sums = new Float64Array(BINS + 1);
const counts = new Int32Array(BINS + 1);

/**
 * The strongest pairs until they make `share` of the mass, but at most `limit`.
 *
 * No sort of n·m numbers: a histogram over the leading bits says where to cut, and only what lies above is sorted.
 * `hint` keeps the place of the last cut, so that while a dial moves one comparison a pair is enough.
 * @param {ArrayLike<number> & {buffer: ArrayBufferLike, byteOffset: number, length: number}} mass
 * @param {number} share of the total
 * @param {number} limit
 * @param {{total: number, top: number, floor: number}} [hint] sum of the mass, a number that no pair exceeds, and the
 *   leading bits of the last cut (changed here)
 * @returns {{pairs: Int32Array, mass: number, needed: number, total: number}} flat indices, strongest first; the mass
 *   they make; how many pairs the share would need
 */
export function strongest(mass, share, limit, hint) {
  const bits = new Uint32Array(mass.buffer, mass.byteOffset, mass.length * 2);
  let top = hint ? hint.top : 0;
  let total = hint ? hint.total : 0;
  if (!hint) {
    for (let k = 0; k < mass.length; k++) {
      const p = mass[k];
      total += p;
      if (p > top) top = p;
    }
  }
  if (!(top > 0) || !(total > 0)) return { pairs: new Int32Array(0), mass: 0, needed: 0, total: 0 };
  const goal = share * total * (1 - 1e-12);
  let floor = hint ? hint.floor : 1;
  if (candidates.length < mass.length) candidates = new Int32Array(mass.length);
  for (;;) {
    let count = 0;
    let sum = 0;
    // Without a branch, which would be guessed wrong at every other pair: each is written, and counted if it is large.
    const below = floor - 1;
    for (let k = 0; k < mass.length; k++) {
      candidates[count] = k;
      count += (below - bits[2 * k + HIGH_HALF]) >>> 31;
    }
    for (let c = 0; c < count; c++) sum += mass[candidates[c]];
    if (sum >= goal || floor <= 1) return cut(mass, bits, count, { goal, total, limit, top, hint });
    // Four octaves further down; in the end everything that is not 0.
    floor = Math.max(1, floor - (4 << 20));
    if (floor < 0x30000000) floor = 1;
  }
}

let candidates = new Int32Array(4096);
let keys = new Float64Array(4096);

/**
 * @param {ArrayLike<number>} mass
 * @param {Uint32Array} bits
 * @param {number} count
 * @param {{goal: number, total: number, limit: number, top: number, hint?: {floor: number}}} wanted
 */
function cut(mass, bits, count, { goal, total, limit, top, hint }) {
  const word = new Uint32Array(Float64Array.of(top * (1 + 1e-9)).buffer);
  // Exponent and five bits of the mantissa: 32 bins an octave, 40 octaves below the largest.
  const high = word[HIGH_HALF] >>> 15;
  sums.fill(0);
  counts.fill(0);
  for (let c = 0; c < count; c++) {
    const k = candidates[c];
    const below = high - (bits[2 * k + HIGH_HALF] >>> 15);
    const bin = below < BINS ? below : BINS;
    sums[bin] += mass[k];
    counts[bin]++;
  }
  let bin = 0;
  let reached = 0;
  let needed = 0;
  let edge = -1;
  while (bin <= BINS && reached < goal) {
    reached += sums[bin];
    needed += counts[bin];
    if (edge < 0 && needed >= limit) edge = bin;
    bin++;
  }
  // The place where the share is reached, with half an octave to spare.
  if (hint) hint.floor = bin > BINS ? 1 : Math.max(1, (high - bin - 16) << 15);
  if (edge < 0) edge = bin - 1;
  const floor = edge >= BINS ? 1 : (high - edge) << 15;
  const found = sorted(mass, bits, count, floor);
  let drawn = 0;
  let kept = 0;
  while (kept < found.length && kept < limit && drawn < goal) drawn += mass[found[kept++]];
  // Where the share asks for more than the limit, the histogram says how many (exact up to its last bin).
  return { pairs: found.slice(0, kept), mass: drawn, needed: drawn < goal ? needed : kept, total };
}

/** More than a matrix of two texts has pairs; times the leading bits of a number up to 2 it is exact. */
const PLACES = 2 ** 23;

/**
 * The candidates from `floor` on, strongest first, equal ones in the order of the matrix.
 * @param {ArrayLike<number>} mass
 * @param {Uint32Array} bits
 * @param {number} count
 * @param {number} floor
 * @returns {Int32Array}
 */
function sorted(mass, bits, count, floor) {
  if (keys.length < count) keys = new Float64Array(candidates.length);
  let size = 0;
  // Leading bits and place among the candidates as one number, sorted without a comparison in JavaScript.
  for (let c = 0; c < count; c++) {
    const high = bits[2 * candidates[c] + HIGH_HALF];
    if (high >= floor) keys[size++] = c - high * PLACES;
  }
  const range = keys.subarray(0, size).sort();
  const found = new Int32Array(size);
  for (let c = 0; c < size; c++) found[c] = candidates[range[c] - Math.floor(range[c] / PLACES) * PLACES];
  // The other bits move a pair by a place or two.
  for (let c = 1; c < size; c++) {
    const pair = found[c];
    let at = c;
    while (at > 0 && mass[found[at - 1]] < mass[pair]) found[at] = found[--at];
    found[at] = pair;
  }
  return found;
}
