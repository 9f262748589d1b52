/**
 * Read the binary payload that sinkviz.view.payload writes: "SKVZ", version, length of the JSON header, the header,
 * then the arrays it lists (little-endian, each aligned to 8 bytes).
 */

import { FORBIDDEN } from "./plan.js";

const TYPES = { float32: Float32Array, float64: Float64Array, int32: Int32Array, uint8: Uint8Array };
export const VERSION = 1;

/**
 * @typedef {object} Side
 * @property {string} text
 * @property {number} count
 * @property {Int32Array} spans [start, end) of each atom in UTF-16 units
 * @property {Int32Array} words word of each atom
 * @property {Int32Array} wordSpans
 * @property {Int32Array} sentences
 * @property {Int32Array} sentenceSpans
 * @property {Float64Array} weights as embedded
 * @property {Float64Array} solvedWeights the weights that the path was solved for
 * @property {Float32Array} points projected
 * @property {Record<string, Float64Array>} presets
 * @property {Uint8Array} flags 1 = punctuation, 2 = stop word
 */

/**
 * @typedef {object} Payload
 * @property {any} header
 * @property {Side} source
 * @property {Side} target
 * @property {Float32Array} cost
 * @property {Float64Array} epsilons
 * @property {Float32Array | null} potentials g over the grid, E rows
 */

/**
 * @param {Uint8Array} bytes
 * @returns {Payload}
 */
export function decode(bytes) {
  // A copy: the bytes may be a window, at any offset, into a message.
  const data = bytes.slice();
  const view = new DataView(data.buffer);
  if (data.length < 12 || String.fromCharCode(...data.subarray(0, 4)) !== "SKVZ") {
    throw new Error("sinkviz view: expected a payload of sinkviz.view.payload, got other bytes");
  }
  const version = view.getUint32(4, true);
  if (version !== VERSION) throw new Error(`sinkviz view: expected payload version ${VERSION}, got ${version}`);
  const length = view.getUint32(8, true);
  const header = JSON.parse(new TextDecoder().decode(data.subarray(12, 12 + length)));
  const start = Math.ceil((12 + length) / 8) * 8;
  /** @type {Record<string, any>} */
  const arrays = {};
  for (const { name, type, offset, length: count } of header.arrays) {
    const Type = TYPES[/** @type {keyof typeof TYPES} */ (type)];
    arrays[name] = new Type(data.buffer, start + offset, count);
  }
  const cost = arrays.cost;
  for (let k = 0; k < cost.length; k++) if (cost[k] === Infinity) cost[k] = FORBIDDEN;
  /** @returns {Side} */
  const side = (/** @type {"source" | "target"} */ name) => {
    const count = arrays[`${name}.spans`].length / 2;
    /** @type {Record<string, Float64Array>} */
    const presets = {};
    for (const preset of header.presets) presets[preset] = Float64Array.from(arrays[`${name}.preset.${preset}`]);
    return {
      text: header[name].text,
      count,
      spans: arrays[`${name}.spans`],
      words: arrays[`${name}.words`],
      wordSpans: arrays[`${name}.word_spans`],
      sentences: arrays[`${name}.sentences`],
      sentenceSpans: arrays[`${name}.sentence_spans`],
      weights: arrays[`${name}.weights`],
      solvedWeights: arrays[`${name}.solved_weights`] ?? arrays[`${name}.weights`],
      points: arrays[`${name}.points`],
      presets,
      flags: arrays[`${name}.flags`],
    };
  };
  return {
    header,
    source: side("source"),
    target: side("target"),
    cost,
    epsilons: Float64Array.from(header.epsilons),
    potentials: arrays.potentials ?? null,
  };
}
