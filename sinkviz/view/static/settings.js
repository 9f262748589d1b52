/** The settings, as sinkviz.view.settings describes them; "inf" stands for ∞ because JSON has no number for it. */

/**
 * @typedef {{preset: string, drop: string[], factors: Record<string, number>}} WeightChoice
 * @typedef {{source: [number, number] | null, target: [number, number] | null}} Pin
 * @typedef {object} Settings
 * @property {number} epsilon
 * @property {"steps" | "relaxation"} mode
 * @property {number | "inf"} steps
 * @property {number | "inf"} relaxation
 * @property {"token" | "word" | "sentence" | null} level
 * @property {"mass" | "lift" | "difference"} colour
 * @property {number} share
 * @property {[number, number] | null} source_range
 * @property {[number, number] | null} target_range
 * @property {boolean} renormalise
 * @property {Pin[]} pins
 * @property {{source: WeightChoice, target: WeightChoice}} weights
 */

export const LEVELS = ["token", "word", "sentence"];
export const MAXIMUM_PINS = 24;

/** @returns {WeightChoice} */
export function plainWeights() {
  return { preset: "given", drop: [], factors: {} };
}

/** @returns {Settings} */
export function defaultSettings() {
  return {
    epsilon: 0.35,
    mode: "steps",
    steps: "inf",
    relaxation: "inf",
    level: null,
    colour: "mass",
    share: 0.7,
    source_range: null,
    target_range: null,
    renormalise: false,
    pins: [],
    weights: { source: plainWeights(), target: plainWeights() },
  };
}

/** URL parameters that the settings use. */
export const QUERY_NAMES = [...Object.keys(defaultSettings()).filter((name) => name !== "weights"), "source_weights", "target_weights"];

/** @template T @param {T} value @returns {T} */
export function copy(value) {
  return JSON.parse(JSON.stringify(value));
}

/** @param {unknown} one @param {unknown} other */
export function same(one, other) {
  return JSON.stringify(one) === JSON.stringify(other);
}

/** @param {number | "inf"} value */
export function infinite(value) {
  return value === "inf" ? Infinity : value;
}

/** @param {[number, number] | null} range */
function rangeText(range) {
  return range ? `${range[0]}-${range[1]}` : "";
}

/** @param {WeightChoice} choice */
function weightsText({ preset, drop, factors }) {
  return [preset, ...drop, ...Object.entries(factors).map(([k, factor]) => `${k}*${brief(factor)}`)].join(",");
}

/** Twelve significant digits, as Python's `.12g`. @param {number} value */
function brief(value) {
  return String(Number(value.toPrecision(12)));
}

/**
 * The settings that differ from the defaults as URL parameters: the twin of sinkviz.view.settings.to_query.
 * @param {Settings} settings
 * @returns {Record<string, string>}
 */
export function toQuery(settings) {
  const plain = defaultSettings();
  /** @type {Record<string, string>} */
  const query = {};
  for (const [name, value] of Object.entries(settings)) {
    if (same(value, /** @type {any} */ (plain)[name])) continue;
    if (name === "weights") {
      for (const side of /** @type {const} */ (["source", "target"])) {
        if (!same(settings.weights[side], plainWeights())) query[`${side}_weights`] = weightsText(settings.weights[side]);
      }
    } else if (name === "pins") {
      query.pins = settings.pins.map((p) => `${rangeText(p.source)}:${rangeText(p.target)}`).join(",");
    } else if (name.endsWith("_range")) query[name] = rangeText(/** @type {[number, number] | null} */ (value));
    else if (typeof value === "boolean") query[name] = "1";
    else query[name] = typeof value === "number" ? brief(value) : String(value);
  }
  return query;
}

/** Settings back and forth: what undo needs. */
export class History {
  /** @param {Settings} first */
  constructor(first) {
    this.states = [copy(first)];
    this.at = 0;
  }

  /** @returns {Settings} */
  get present() {
    return this.states[this.at];
  }

  /** @param {Settings} settings @returns {boolean} whether anything changed */
  push(settings) {
    if (same(settings, this.present)) return false;
    this.states = this.states.slice(Math.max(0, this.at - 99), this.at + 1);
    this.states.push(copy(settings));
    this.at = this.states.length - 1;
    return true;
  }

  /** @param {-1 | 1} step @returns {Settings | null} */
  move(step) {
    const next = this.at + step;
    if (next < 0 || next >= this.states.length) return null;
    this.at = next;
    return copy(this.present);
  }
}
