/**
 * The problem at hand and its two plans: on the left the one that the dials ask for, on the right softmax attention
 * on the same scores and ε. No drawing here.
 */

import { HalfSteps, Plan, withNullPartner } from "./plan.js";
import { infinite } from "./settings.js";
import { Centring, Sheet, elementsOf } from "./sheet.js";
import { interpolate, solve, solvePath } from "./solver.js";

/**
 * @typedef {import("./payload.js").Payload} Payload
 * @typedef {import("./payload.js").Side} Side
 * @typedef {import("./settings.js").Settings} Settings
 * @typedef {import("./settings.js").WeightChoice} WeightChoice
 */

/** L1 error at which a plan counts as converged: the tolerance of the library's float64 solver. */
export const TOLERANCE = 1e-6;
/** From this many pairs on a plan takes longer than a frame; coarse views then run over kept block sums. */
const LARGE = 400_000;
const MOST_BLOCKS = 40_000;
const FLAGS = { punctuation: 1, stop_words: 2 };

/**
 * The weights that a choice gives: the twin of sinkviz.view.weights.chosen_weights.
 * @param {Side} side
 * @param {WeightChoice} choice
 * @returns {Float64Array | null} null when nothing is left
 */
export function chosenWeights(side, choice) {
  const weights = Float64Array.from(side.presets[choice.preset] ?? side.weights);
  for (const group of choice.drop) {
    const bit = FLAGS[/** @type {keyof typeof FLAGS} */ (group)];
    for (let k = 0; k < weights.length; k++) if (side.flags[k] & bit) weights[k] = 0;
  }
  for (const [k, factor] of Object.entries(choice.factors)) if (Number(k) < weights.length) weights[Number(k)] *= factor;
  let total = 0;
  for (const w of weights) total += w;
  if (!(total > 0) || !Number.isFinite(total)) return null;
  return weights.map((w) => w / total);
}

export class Model {
  /** @param {Payload} payload */
  constructor(payload) {
    this.payload = payload;
    const { header } = payload;
    this.unit = header.unit;
    this.partial = header.null_cost !== null;
    this.epsilons = payload.epsilons;
    this.sides = { source: payload.source, target: payload.target };
    /** @type {Record<"source" | "target", string[]>} */
    this.levels = { source: [], target: [] };
    this.rows = /** @type {any} */ (null);
    this.columns = /** @type {any} */ (null);
    this.setWeights(payload.source.solvedWeights, payload.target.solvedWeights);
    const n = payload.source.count;
    const m = payload.target.count;
    this.takePath();
    this.size = n * m;
  }

  /** The path that Python solved, where it belongs to the present weights. */
  takePath() {
    const { potentials } = this.payload;
    this.fromPython = Boolean(potentials);
    if (!potentials) return;
    const wide = this.solved.m;
    for (let k = 0; k < this.epsilons.length; k++) this.path[k] = potentials.subarray(k * wide, (k + 1) * wide);
  }

  /** Levels that both texts can be shown at, finest first. @returns {string[]} */
  get allowedLevels() {
    const order = ["token", "word", "sentence"];
    const from = Math.max(order.indexOf(this.payload.header.source.atoms), order.indexOf(this.payload.header.target.atoms));
    return order.slice(from);
  }

  /** @returns {string} the level to open at: short texts by word, long ones by sentence */
  get openingLevel() {
    return this.payload.header.opening_level;
  }

  /**
   * @param {Float64Array} a
   * @param {Float64Array} b
   */
  setWeights(a, b) {
    const { payload } = this;
    this.weights = { source: a, target: b };
    this.problem = { n: payload.source.count, m: payload.target.count, cost: payload.cost, a, b };
    this.solved = this.partial ? withNullPartner(this.problem, payload.header.null_cost) : this.problem;
    this.centring = new Centring(this.problem);
    const before = this.left;
    this.left = new Plan(this.solved);
    this.right = new Plan(this.solved);
    this.work = new Plan(this.solved);
    // Potentials of other weights are a good place to start from.
    if (before) this.left.g.set(before.g);
    /** @type {(ArrayLike<number> | null)[]} g of each ε of the grid */
    this.path = Array.from(this.epsilons, () => null);
    /** @type {HalfSteps | null} */
    this.halfSteps = null;
    this.potential = new Float64Array(this.solved.m);
    this.relaxedStart = { epsilon: 0, g: new Float64Array(this.solved.m) };
    /** Block sums over the grid, of large problems. @type {{level: string, weights: unknown, left: any[], right: any[]} | null} */
    this.kept = null;
    /** Whether the path is the one that came with the payload. */
    this.fromPython = false;
    this.exactAt = { epsilon: 0, relaxation: 0, g: new Float64Array(this.solved.m) };
    this.status = { kind: "pending", residual: NaN, shown: /** @type {number | null} */ (null) };
  }

  /**
   * Follow a choice of weights.
   * @param {Settings} settings
   * @returns {"same" | "changed" | "empty"}
   */
  chooseWeights(settings) {
    const a = chosenWeights(this.payload.source, settings.weights.source);
    const b = chosenWeights(this.payload.target, settings.weights.target);
    if (!a || !b) return "empty";
    const near = (/** @type {Float64Array} */ x, /** @type {Float64Array} */ y) => x.every((v, k) => Math.abs(v - y[k]) < 1e-7);
    if (near(a, this.weights.source) && near(b, this.weights.target)) return "same";
    const { payload } = this;
    const solved = near(a, payload.source.solvedWeights) && near(b, payload.target.solvedWeights);
    this.setWeights(solved ? payload.source.solvedWeights : a, solved ? payload.target.solvedWeights : b);
    if (solved) this.takePath();
    return "changed";
  }

  /** @param {Settings} settings @returns {number} absolute ε */
  epsilon(settings) {
    const grid = this.epsilons;
    return Math.min(grid[0], Math.max(grid[grid.length - 1], settings.epsilon * this.unit));
  }

  /** @param {number} epsilon */
  attention(epsilon) {
    this.potential.fill(0);
    this.right.evaluate(epsilon, this.potential);
  }

  /**
   * Set the left plan as far as it can be had at once.
   * @param {Settings} settings
   * @param {number} until performance.now() to stop at
   * @returns {boolean} whether that is what the dials ask for; false: call `refine` or come back for more half-steps
   */
  couple(settings, until) {
    const epsilon = this.epsilon(settings);
    const { left } = this;
    const relaxation = settings.mode === "relaxation" ? infinite(settings.relaxation) * this.unit : Infinity;
    if (settings.mode === "steps" && settings.steps !== "inf") {
      if (!this.halfSteps || this.halfSteps.epsilon !== epsilon) this.halfSteps = new HalfSteps(this.solved, epsilon);
      const shown = this.halfSteps.show(left, settings.steps, until);
      this.status = { kind: "steps", residual: left.columnError(), shown };
      return shown === settings.steps;
    }
    this.halfSteps = null;
    if (relaxation === 0) {
      left.evaluate(epsilon, this.potential.fill(0));
      this.status = { kind: "relaxed", residual: 0, shown: null };
      return true;
    }
    if (this.exactAt.epsilon === epsilon && this.exactAt.relaxation === relaxation) {
      left.evaluate(epsilon, this.exactAt.g);
      this.status = { kind: relaxation === Infinity ? "converged" : "relaxed", residual: this.residual(left, relaxation), shown: null };
      return true;
    }
    if (relaxation === Infinity) {
      if (!interpolate(this.epsilons, (k) => this.path[k], epsilon, this.potential)) {
        this.status = { kind: "pending", residual: NaN, shown: null };
        return false;
      }
      if (this.right.epsilon === epsilon) left.evaluateFrom(this.right, this.potential);
      else left.evaluate(epsilon, this.potential);
      left.sweep(1);
      if (left.columnError() > 1e-5) left.sweep(1);
      const residual = left.columnError();
      this.status = { kind: residual <= TOLERANCE ? "converged" : "interpolated", residual, shown: null };
      return residual <= TOLERANCE;
    }
    // Relaxed columns: from the last relaxed potentials, or from the balanced ones damped as if in one update.
    if (this.relaxedStart.epsilon > 0) this.potential.set(this.relaxedStart.g);
    else if (interpolate(this.epsilons, (k) => this.path[k], epsilon, this.potential)) {
      for (let j = 0; j < this.potential.length; j++) this.potential[j] *= relaxation / (relaxation + epsilon);
    }
    left.evaluate(epsilon, this.potential);
    left.sweep(4, relaxation);
    this.relaxedStart.epsilon = epsilon;
    this.relaxedStart.g.set(left.g);
    const residual = this.residual(left, relaxation);
    this.status = { kind: residual <= TOLERANCE ? "relaxed" : "interpolated", residual, shown: null };
    return residual <= TOLERANCE;
  }

  /**
   * L1 error of the optimality conditions: column sums against b, or b e^(−g/ρ).
   * @param {Plan} plan
   * @param {number} relaxation
   */
  residual(plan, relaxation) {
    if (relaxation === Infinity) return plan.columnError();
    let error = 0;
    for (let j = 0; j < this.solved.m; j++) {
      const b = this.solved.b[j];
      if (b > 0) error += Math.abs(plan.received[j] - b * Math.exp(-plan.g[j] / relaxation));
    }
    return error;
  }

  /**
   * Solve the present ε (and ρ) to the end, from what is shown.
   * @param {Settings} settings
   * @returns {Generator<unknown, void, void>}
   */
  *refine(settings) {
    const epsilon = this.epsilon(settings);
    const relaxation = settings.mode === "relaxation" ? infinite(settings.relaxation) * this.unit : Infinity;
    const { work } = this;
    const target = this.exactAt;
    if (this.status.kind === "pending" && !this.path.some(Boolean)) {
      // Nothing to start from: come down from a large ε.
      work.g.fill(0);
      const top = this.epsilons[0];
      for (let e = top; e > epsilon * 1.0001; e = Math.max(epsilon, e / 4)) yield* solve(work, e, relaxation, 1e-3);
    } else work.g.set(this.left.g);
    const outcome = yield* solve(work, epsilon, relaxation, 1e-10);
    target.epsilon = epsilon;
    target.relaxation = relaxation;
    target.g.set(work.g);
    this.lastOutcome = outcome;
    if (relaxation !== Infinity) {
      this.relaxedStart.epsilon = epsilon;
      this.relaxedStart.g.set(work.g);
    }
  }

  /** Solve what is missing of the path. @returns {Generator<number, void, void>} yields the number solved */
  *fillPath() {
    const { path } = this;
    for (const state of solvePath(this.solved, this.epsilons, 1e-8)) {
      if (state) path[state.index] = state.g;
      yield path.filter(Boolean).length;
    }
  }

  /** @returns {boolean} */
  get pathComplete() {
    return this.path.every(Boolean);
  }

  /**
   * Elements of a side at a level, in a range of atoms.
   * @param {"source" | "target"} name
   * @param {string} level
   * @param {[number, number] | null} range
   */
  elements(name, level, range) {
    const side = this.sides[name];
    const atoms = this.payload.header[name].atoms;
    const order = ["token", "word", "sentence"];
    const identity = order.indexOf(level) <= order.indexOf(atoms);
    const group = identity ? Int32Array.from({ length: side.count }, (_, k) => k) : level === "word" ? side.words : side.sentences;
    const spans = identity ? side.spans : level === "word" ? side.wordSpans : side.sentenceSpans;
    const clipped = range ? /** @type {[number, number]} */ ([Math.min(range[0], side.count - 1), Math.min(range[1], side.count)]) : null;
    const elements = elementsOf(
      {
        group,
        weights: this.weights[name],
        points: side.points,
        dimensions: this.payload.header.dimensions,
        label: (unit) => side.text.slice(spans[2 * unit], spans[2 * unit + 1]),
      },
      clipped && clipped[0] < clipped[1] ? clipped : null,
    );
    const unitOf = (/** @type {number} */ e) => group[elements.first[e]];
    const starts = Int32Array.from({ length: elements.count }, (_, e) => spans[2 * unitOf(e)]);
    const ends = Int32Array.from({ length: elements.count }, (_, e) => spans[2 * unitOf(e) + 1]);
    return { ...elements, starts, ends };
  }

  /** @param {Settings} settings */
  sheets(settings) {
    const level = this.levelOf(settings);
    this.rows = this.elements("source", level, settings.source_range);
    this.columns = this.elements("target", level, settings.target_range);
    return { level, left: new Sheet(this.rows, this.columns), right: new Sheet(this.rows, this.columns) };
  }

  /** @param {Sheet} sheet @param {Plan} plan */
  read(sheet, plan) {
    sheet.update(plan, { problem: this.problem, centring: this.centring, partial: this.partial });
  }

  /**
   * Share of the way from independence to the exact optimum, as a bracket; null where there is none to speak of.
   * @param {number} cost ⟨C, P⟩
   * @returns {[number, number] | null}
   */
  optimumShare(cost) {
    const { optimum } = this.payload.header;
    const independent = this.centring.mean;
    if (!optimum || this.partial || this.payload.source.solvedWeights !== this.weights.source) return null;
    if (!(independent - optimum[1] > 1e-9 * Math.max(1, Math.abs(independent)))) return null;
    const share = optimum.map((/** @type {number} */ end) => Math.min(1, (independent - cost) / (independent - end)));
    return [Math.min(...share), Math.max(...share)];
  }

  /**
   * Numbers over the grid of ε, one generator step each: cost, information and partners of coupling and attention.
   * @param {Settings} settings
   * @returns {Generator<{index: number, coupling: number[], attention: number[]} | null, void, void>} null in between
   */
  *curves(settings) {
    const level = this.levelOf(settings);
    const sheet = new Sheet(this.elements("source", level, null), this.elements("target", level, null));
    const keep = this.size >= LARGE && sheet.n * sheet.m <= MOST_BLOCKS;
    this.kept = { level, weights: this.weights, left: /** @type {any[]} */ ([]), right: /** @type {any[]} */ ([]) };
    const { kept } = this;
    const plan = new Plan(this.solved);
    const zero = new Float64Array(this.solved.m);
    const read = () => {
      this.read(sheet, plan);
      return [sheet.cost, sheet.information, sheet.meanPartners];
    };
    for (let index = 0; index < this.epsilons.length; index++) {
      const g = this.path[index];
      if (!g) return;
      plan.evaluate(this.epsilons[index], g);
      const coupling = read();
      if (keep) kept.left[index] = sheet.snapshot();
      yield null;
      plan.evaluate(this.epsilons[index], zero);
      const attention = read();
      if (keep) kept.right[index] = sheet.snapshot();
      yield { index, coupling, attention };
    }
  }

  /**
   * Show block sums between the grid's values, where they are kept for this view.
   * @param {Settings} settings
   * @param {{left: Sheet, right: Sheet}} sheets
   * @returns {boolean} false where the plan itself is needed
   */
  glide(settings, sheets) {
    const { kept, epsilons } = this;
    if (!kept || kept.weights !== this.weights || kept.left.length < epsilons.length || kept.level !== this.levelOf(settings)) return false;
    if (settings.source_range || settings.target_range) return false;
    const converged = settings.mode === "steps" ? settings.steps === "inf" : settings.relaxation === "inf";
    if (!converged) return false;
    const epsilon = this.epsilon(settings);
    let at = 0;
    while (at < epsilons.length - 2 && epsilons[at + 1] > epsilon) at++;
    const t = epsilons.length > 1 ? Math.log(epsilon / epsilons[at]) / Math.log(epsilons[at + 1] / epsilons[at]) : 0;
    for (const side of /** @type {const} */ (["left", "right"])) sheets[side].between(kept[side][at], kept[side][Math.min(at + 1, epsilons.length - 1)], t);
    this.halfSteps = null;
    this.status = { kind: "gliding", residual: sheets.left.columnError, shown: null };
    return true;
  }

  /** @param {Settings} settings @returns {string} */
  levelOf(settings) {
    return settings.level && this.allowedLevels.includes(settings.level) ? settings.level : this.openingLevel;
  }

  /**
   * Mass of a block of atoms at each ε of the grid: coupling and attention.
   * @param {[number, number]} rows
   * @param {[number, number]} columns
   */
  pairCurve(rows, columns) {
    const { n, m, cost, a, b } = this.solved;
    const factor = this.partial ? 2 : 1;
    const row = new Float64Array(m);
    const mass = (/** @type {number} */ epsilon, /** @type {ArrayLike<number> | null} */ g) => {
      let sum = 0;
      for (let i = rows[0]; i < Math.min(rows[1], n); i++) {
        let top = -Infinity;
        for (let j = 0; j < m; j++) {
          row[j] = b[j] > 0 ? ((g ? g[j] : 0) - cost[i * m + j]) / epsilon + Math.log(b[j]) : -Infinity;
          if (row[j] > top) top = row[j];
        }
        let total = 0;
        let inside = 0;
        for (let j = 0; j < m; j++) {
          const value = Math.exp(row[j] - top);
          total += value;
          if (j >= columns[0] && j < columns[1]) inside += value;
        }
        sum += (a[i] * inside) / total;
      }
      return sum * factor;
    };
    return {
      coupling: Array.from(this.epsilons, (e, k) => (this.path[k] ? mass(e, this.path[k]) : NaN)),
      attention: Array.from(this.epsilons, (e) => mass(e, null)),
    };
  }
}
