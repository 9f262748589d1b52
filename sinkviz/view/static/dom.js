/** Small helpers for the DOM. Text goes in through textContent only: tokens are hostile until shown otherwise. */

/**
 * @param {string} tag
 * @param {Record<string, any>} [attributes] `class`, `text`, `on…` handlers are assigned, the rest become attributes
 * @param {(Node | null | undefined)[]} [children]
 * @returns {any}
 */
export function h(tag, attributes = {}, children = []) {
  const node = document.createElement(tag);
  for (const [name, value] of Object.entries(attributes)) {
    if (value === undefined || value === null || value === false) continue;
    if (name === "text") node.textContent = value;
    else if (name === "class") node.className = value;
    else if (name.startsWith("on")) /** @type {any} */ (node)[name] = value;
    else node.setAttribute(name, value === true ? "" : String(value));
  }
  for (const child of children) if (child) node.append(child);
  return node;
}

/**
 * Set text only where it changed: an equal write still costs a layout.
 * @param {Node} node
 * @param {string} text
 */
export function setText(node, text) {
  if (node.textContent !== text) node.textContent = text;
}

let serial = 0;
/** @returns {string} an id that is unique on the page */
export function uniqueId() {
  serial += 1;
  return `sinkviz-${serial}`;
}

/**
 * A radio group drawn as one quiet row of words.
 * @param {string} label
 * @param {{value: string, text: string, title?: string}[]} options
 * @param {(value: string) => void} choose
 */
export function segments(label, options, choose) {
  const name = uniqueId();
  /** @type {Map<string, HTMLInputElement>} */
  const inputs = new Map();
  const row = h("div", { class: "segments", role: "radiogroup", "aria-label": label }, [
    h("span", { class: "caption", text: label, "aria-hidden": "true" }),
    ...options.map(({ value, text, title }) => {
      const input = h("input", { type: "radio", name, value, onchange: () => choose(value) });
      inputs.set(value, input);
      return h("label", { title }, [input, h("span", { text })]);
    }),
  ]);
  return {
    node: row,
    /** @param {string} value */
    show(value) {
      for (const [key, input] of inputs) input.checked = key === value;
    },
    /** @param {string[]} values */
    allow(values) {
      for (const [key, input] of inputs) {
        input.disabled = !values.includes(key);
        const label = /** @type {HTMLElement} */ (input.parentElement);
        label.hidden = !values.includes(key);
      }
    },
  };
}

/**
 * The small "?" that opens a formula.
 * @param {string} subject
 * @param {string[]} paragraphs
 */
export function why(subject, paragraphs) {
  return h("details", { class: "why" }, [
    h("summary", { "aria-label": `What is shown: ${subject}`, text: "?" }),
    h(
      "div",
      { class: "why-text" },
      paragraphs.map((text) => h("p", { text })),
    ),
  ]);
}

/**
 * A token inside a sentence of ours: its direction must not turn the words around it.
 * @param {string} text
 */
export function isolate(text) {
  return `\u2068${text}\u2069`;
}

/**
 * Direction of a text: that of its first strong letter, as `dir="auto"` has it.
 * @param {string} text
 * @returns {"rtl" | "ltr"}
 */
export function direction(text) {
  const strong = /\p{L}/u.exec(text);
  return strong && /[\u0590-\u08ff\ufb1d-\ufdff\ufe70-\ufefc\u{10800}-\u{10fff}\u{1e800}-\u{1efff}]/u.test(strong[0]) ? "rtl" : "ltr";
}

/**
 * Offer a file for download.
 * @param {BlobPart} content
 * @param {string} type
 * @param {string} name
 */
export function download(content, type, name) {
  const url = URL.createObjectURL(content instanceof Blob ? content : new Blob([content], { type }));
  const link = h("a", { href: url, download: name });
  link.click();
  setTimeout(() => URL.revokeObjectURL(url), 60_000);
}

/**
 * Make a canvas `width` × `height` CSS pixels at the screen's resolution.
 * @param {HTMLCanvasElement} canvas
 * @param {number} width
 * @param {number} height
 * @param {boolean} [opaque] no transparency: the compositor copies it instead of blending, and skips what is below
 * @returns {CanvasRenderingContext2D}
 */
export function fit(canvas, width, height, opaque = false) {
  const ratio = Math.min(2, globalThis.devicePixelRatio || 1);
  const w = Math.max(1, Math.round(width * ratio));
  const k = Math.max(1, Math.round(height * ratio));
  if (canvas.width !== w || canvas.height !== k) {
    canvas.width = w;
    canvas.height = k;
    canvas.style.width = `${width}px`;
    canvas.style.height = `${height}px`;
  }
  const context = /** @type {CanvasRenderingContext2D} */ (canvas.getContext("2d", { alpha: !opaque }));
  context.setTransform(ratio, 0, 0, ratio, 0, 0);
  return context;
}
