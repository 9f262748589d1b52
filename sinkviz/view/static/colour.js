/**
 * Colours of both themes: the same values as sinkviz.figures.palette (a test compares them), and look-up tables for
 * the two colour maps.
 */

/** @typedef {typeof PALETTE.light} Palette */

export const PALETTE = {
  "light": {
    "page": "#fbfbfd", "card": "#ffffff", "border": "#e3e7ef", "text": "#1a2233", "muted": "#5b6577",
    "source": "#2f6fde", "target": "#d9730d", "source_text": "#245bbd", "target_text": "#a34a06",
    "pins": ["#c2255c", "#6741d9", "#0b7285", "#5f6b00"],
    "good": "#22752f", "wrong": "#c92a2a", "no_mass": "#c3c8d2",
    "sequential": [[0.0, "#f7fbff"], [0.125, "#deebf7"], [0.25, "#c6dbef"], [0.375, "#9ecae1"], [0.5, "#6baed6"], [0.625, "#4292c6"], [0.75, "#2171b5"], [0.875, "#08519c"], [1.0, "#08306b"]],
    "diverging": [[0.0, "#6b3c05"], [0.125, "#8c510a"], [0.25, "#bf812d"], [0.375, "#e3c78f"], [0.5, "#fbfbfd"], [0.625, "#9fd8cf"], [0.75, "#35978f"], [0.875, "#01665e"], [1.0, "#014a43"]]
  },
  "dark": {
    "page": "#0f1420", "card": "#161d2c", "border": "#2a3550", "text": "#e8ecf5", "muted": "#a0a9bd",
    "source": "#7fb0ff", "target": "#ffb066", "source_text": "#7fb0ff", "target_text": "#ffb066",
    "pins": ["#ff7aa8", "#b197fc", "#3bc9db", "#c6d15a"],
    "good": "#5fd07a", "wrong": "#ff8787", "no_mass": "#4a536a",
    "sequential": [[0.0, "#101827"], [0.125, "#13253f"], [0.25, "#17365c"], [0.375, "#1f4d80"], [0.5, "#2e6aa6"], [0.625, "#4a8dc6"], [0.75, "#74b1de"], [0.875, "#a4d3f0"], [1.0, "#d8effc"]],
    "diverging": [[0.0, "#ffd49a"], [0.125, "#e0a95a"], [0.25, "#a8742a"], [0.375, "#5a421f"], [0.5, "#0f1420"], [0.625, "#164a4a"], [0.75, "#23857d"], [0.875, "#4fbdb0"], [1.0, "#a5ece0"]]
  }
};

const LITTLE = new Uint8Array(new Uint32Array([1]).buffer)[0] === 1;

/** @param {string} hex @returns {[number, number, number]} */
export function rgb(hex) {
  return [1, 3, 5].map((k) => parseInt(hex.slice(k, k + 2), 16));
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
