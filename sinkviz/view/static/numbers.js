/**
 * Exponential and logarithm by table: the two functions that decide how many plans a second can be drawn.
 * Math.exp costs about 25 ns here, the table 5 ns; the relative error is below 1e-11, far under what a picture
 * or the printed errors can show.
 */

const EXP_SIZE = 2048;
export const EXP_SCALE = EXP_SIZE / Math.LN2;
export const EXP_STEP = Math.LN2 / EXP_SIZE;
export const EXP_MASK = EXP_SIZE - 1;
export const EXP_SHIFT = 11;
/** e^(k ln2 / 2048) for k = 0 … 2047. */
export const EXP_TABLE = Float64Array.from({ length: EXP_SIZE }, (_, k) => Math.exp(k * EXP_STEP));
/** 2^(k − 1100) for k = 0 … 2123; beyond the floats 0 and ∞ stand there by themselves. */
export const POWER_TABLE = Float64Array.from({ length: 2124 }, (_, k) => 2 ** (k - 1100));
export const POWER_ZERO = 1100;
/** Arguments below this give 0; above its negative the caller shifts first. */
export const EXP_FLOOR = -700;

/**
 * e^x for x ≤ 0.
 * @param {number} x
 * @returns {number}
 */
export function expNegative(x) {
  if (!(x > EXP_FLOOR)) return 0;
  const y = x * EXP_SCALE;
  const k = Math.floor(y);
  const r = (y - k) * EXP_STEP;
  return EXP_TABLE[k & EXP_MASK] * POWER_TABLE[POWER_ZERO + (k >> EXP_SHIFT)] * (1 + r * (1 + r * 0.5));
}

const LOG_BITS = 11;
const LOG_SIZE = 1 << LOG_BITS;
const LOG_TABLE = Float64Array.from({ length: LOG_SIZE }, (_, k) => Math.log1p(k / LOG_SIZE));
const word = new Float64Array(1);
const halves = new Uint32Array(word.buffer);
const LITTLE = new Uint8Array(new Uint32Array([1]).buffer)[0] === 1;
const HIGH = LITTLE ? 1 : 0;

/**
 * log x for normal positive x; absolute error below 1e-10.
 * @param {number} x
 * @returns {number}
 */
export function logPositive(x) {
  word[0] = x;
  const high = halves[HIGH];
  const exponent = (high >>> 20) - 1023;
  const k = (high >>> (20 - LOG_BITS)) & (LOG_SIZE - 1);
  halves[HIGH] = (high & 0xfffff) | 0x3ff00000;
  const node = 1 + k / LOG_SIZE;
  const r = (word[0] - node) / node;
  return exponent * Math.LN2 + LOG_TABLE[k] + r * (1 - r * (0.5 - r / 3));
}

/** Smallest number that logPositive takes. */
export const SMALLEST = 2.3e-308;

/** Index of the high half of a float64 in a Uint32Array over the same memory. */
export const HIGH_HALF = HIGH;

/**
 * A number as a person writes it: at most three digits, a true minus, no exponent between 0.001 and 10,000.
 * @param {number} value
 * @param {number} [digits]
 * @returns {string}
 */
export function format(value, digits = 3) {
  if (value === Infinity) return "∞";
  if (value === -Infinity) return "−∞";
  if (!Number.isFinite(value)) return "unknown";
  if (value === 0) return "0";
  const size = Math.abs(value);
  let text;
  if (size >= 1e4 || size < 1e-3) {
    const [mantissa, exponent] = value.toExponential(Math.max(0, digits - 2)).split("e");
    text = `${mantissa.replace(/\.0+$/, "")}·10${superscript(Number(exponent))}`;
  } else {
    const places = Math.max(0, digits - 1 - Math.floor(Math.log10(size)));
    text = value.toFixed(places);
    if (text.includes(".")) text = text.replace(/\.?0+$/, "");
  }
  return text.replace("-", "−");
}

/**
 * @param {number} whole
 * @returns {string}
 */
function superscript(whole) {
  const digits = "⁰¹²³⁴⁵⁶⁷⁸⁹";
  const text = String(Math.abs(whole)).replace(/\d/g, (d) => digits[Number(d)]);
  return whole < 0 ? `⁻${text}` : text;
}

/**
 * A share as a percentage with two digits, three from 100 % on.
 * @param {number} share
 * @returns {string}
 */
export function percent(share) {
  if (!Number.isFinite(share)) return format(share);
  const value = share * 100;
  if (value !== 0 && Math.abs(value) < 0.001) return value < 0 ? "> −0.001 %" : "< 0.001 %";
  return `${format(value, 2)} %`;
}

/**
 * A count with thin separators.
 * @param {number} count
 * @returns {string}
 */
export function whole(count) {
  return Math.round(count).toLocaleString("en-US");
}

/**
 * Read what a person typed: "0,35", "1e-2", "∞", "inf", "converged".
 * @param {string} text
 * @returns {number} NaN when it is no number
 */
export function parse(text) {
  const clean = text.trim().toLowerCase().replace("−", "-").replace(",", ".").replace(/\s*(σ|%|×)\s*$/, "");
  if (clean === "∞" || clean === "inf" || clean === "infinity" || clean === "converged") return Infinity;
  if (clean === "½") return 0.5;
  const half = /^(\d+)½$/.exec(clean);
  if (half) return Number(half[1]) + 0.5;
  return clean === "" ? NaN : Number(clean);
}
