/** Colours of both themes, which sinkviz.figures.palette decides, and look-up tables for the two colour maps. */

import palette from "./palette.json";

/**
 * @typedef {{page: string, card: string, border: string, text: string, muted: string, source: string, target: string,
 *   source_text: string, target_text: string, pins: string[], good: string, wrong: string, no_mass: string,
 *   sequential: [number, string][], diverging: [number, string][]}} Palette
 */

/** @type {{light: Palette, dark: Palette}} */
export const PALETTE = palette;

const LITTLE = new Uint8Array(new Uint32Array([1]).buffer)[0] === 1;

/** @param {string} hex @returns {[number, number, number]} */
export function rgb(hex) {
  const [r, g, b] = [1, 3, 5].map((k) => parseInt(hex.slice(k, k + 2), 16));
  return [r, g, b];
}

/**
 * 256 colours of a map as pixels for ImageData.
 * @param {(string | number)[][]} stops
 * @returns {Uint32Array}
 */
export function lookup(stops) {
  const table = new Uint32Array(256);
  for (let k = 0; k < 256; k++) {
    const x = k / 255;
    let s = 1;
    while (s < stops.length - 1 && Number(stops[s][0]) < x) s++;
    const [x0, c0] = stops[s - 1];
    const [x1, c1] = stops[s];
    const t = (x - Number(x0)) / (Number(x1) - Number(x0));
    const from = rgb(String(c0));
    const to = rgb(String(c1));
    const [r, g, b] = from.map((v, i) => Math.round(v + (to[i] - v) * t));
    table[k] = LITTLE ? (255 << 24) | (b << 16) | (g << 8) | r : (r << 24) | (g << 16) | (b << 8) | 255;
  }
  return table;
}

/** @param {number} pixel @returns {string} */
export function css(pixel) {
  const bytes = new Uint8Array(new Uint32Array([pixel]).buffer);
  const [r, g, b] = LITTLE ? [bytes[0], bytes[1], bytes[2]] : [bytes[3], bytes[2], bytes[1]];
  return `rgb(${r},${g},${b})`;
}

/** The colours of the theme at hand, with the tables that the heatmaps read. */
export class Theme {
  /** @param {"light" | "dark"} name */
  constructor(name) {
    this.name = name;
    this.colours = PALETTE[name];
    this.sequential = lookup(this.colours.sequential);
    this.diverging = lookup(this.colours.diverging);
    this.font = "sans-serif";
  }

  /** @param {number} index of the pin */
  pin(index) {
    return this.colours.pins[index % this.colours.pins.length];
  }
}

/**
 * The theme of the page: Streamlit's background where it says one, else what the system prefers.
 * @param {Element} root
 * @returns {"light" | "dark"}
 */
export function pageTheme(root) {
  const background = getComputedStyle(root).getPropertyValue("--st-background-color").trim();
  const parts = /^#[0-9a-f]{6}/i.test(background)
    ? rgb(background)
    : (background.match(/[\d.]+/g) ?? []).slice(0, 3).map(Number);
  if (parts.length === 3 && parts.every(Number.isFinite)) {
    return 0.2126 * parts[0] + 0.7152 * parts[1] + 0.0722 * parts[2] < 128 ? "dark" : "light";
  }
  return globalThis.matchMedia?.("(prefers-color-scheme: dark)").matches ? "dark" : "light";
}

/**
 * Where a value lies on the colour scale of a mode, 0 … 255.
 * Mass: square root of P over the largest weight, so that thin and thick pairs are both seen. Lift and difference:
 * symmetric around the middle.
 */
export const SCALES = {
  mass: (/** @type {number} */ p, /** @type {number} */ top) => Math.min(255, (255 * Math.sqrt(Math.max(0, p) / top) + 0.5) | 0),
  lift: (/** @type {number} */ x, /** @type {number} */ top) =>
    x <= -top ? 0 : x >= top ? 255 : Math.round(127.5 + (127.5 * x) / top),
  difference: (/** @type {number} */ d, /** @type {number} */ top) => {
    const t = Math.sqrt(Math.min(1, Math.abs(d) / top));
    return Math.round(127.5 + (d < 0 ? -127.5 : 127.5) * t);
  },
};
