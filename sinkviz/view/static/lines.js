/**
 * The hero: two running texts, the strongest pairs between them, and under each target element the mass it receives
 * beside its weight. Short texts are written out; long ones become two tracks on which names appear where they fit.
 */

import { direction, fit, h, setText, why } from "./dom.js";
import { percent, whole } from "./numbers.js";
import { CanvasPen } from "./pen.js";
import { strongest } from "./sheet.js";

const LEVEL_WORDS = { token: "tokens", word: "words", sentence: "sentences" };
const BUCKETS = 10;
/** Heights of the tracks of long texts, and the baseline of the names below. */
const TRACK_TOP = 34;
const TRACK_BOTTOM = 216;
const NAMES = 286;

export class Lines {
  /**
   * @param {import("./view.js").View} view
   * @param {"left" | "right"} side
   */
  constructor(view, side) {
    this.view = view;
    this.side = side;
    this.canvas = h("canvas", { class: "ink", "aria-hidden": "true" });
    this.top = h("div", { class: "text source" });
    this.gap = h("div", { class: "gap" });
    this.bottom = h("div", { class: "text target" });
    this.stage = h(
      "div",
      { class: "stage", tabindex: "0", role: "group", "aria-label": side === "left" ? "Transport lines of the coupling" : "Transport lines of attention" },
      [this.canvas, this.top, this.gap, this.bottom],
    );
    this.title = h("h2", { text: side === "left" ? "Coupling" : "Attention" });
    this.subtitle = h("span", { class: "muted" });
    this.check = h("span", { class: "check muted" });
    this.caption = h("p", { class: "caption" });
    this.node = h("section", { class: "card lines-card", "aria-label": side === "left" ? "Coupling" : "Attention" }, [
      h("header", {}, [
        this.title,
        this.subtitle,
        this.check,
        why(side === "left" ? "the coupling" : "attention", side === "left" ? WHY_LEFT : WHY_RIGHT),
      ]),
      this.stage,
      this.caption,
    ]);
    /** @type {HTMLElement[]} */
    this.sourceAtoms = [];
    /** @type {HTMLElement[]} */
    this.targetAtoms = [];
    /** @type {{pairs: Int32Array, mass: number, needed: number, total: number}} */
    this.links = { pairs: new Int32Array(0), mass: 0, needed: 0, total: 0 };
    this.hint = { total: 0, top: 0, floor: 1 };
    this.bind();
  }

  bind() {
    const { view, stage } = this;
    /** @type {{side: "source" | "target", from: number, to: number} | null} */
    let drag = null;
    /** @type {{side: "source" | "target", index: number} | null} */
    let pressed = null;
    const at = (/** @type {PointerEvent | MouseEvent} */ event) => this.hit(event);
    stage.onpointermove = (/** @type {PointerEvent} */ event) => {
      const found = at(event);
      if (drag && found && found.side === drag.side && found.index !== drag.to) {
        drag.to = found.index;
        view.preview(drag.side, drag.from, drag.to);
        return;
      }
      if (!drag) view.hover(found?.side === "source" ? found.index : -1, found?.side === "target" ? found.index : -1, event);
    };
    stage.onpointerleave = () => {
      if (!drag) view.hover(-1, -1);
    };
    stage.onpointerdown = (/** @type {PointerEvent} */ event) => {
      const found = at(event);
      if (found && event.button === 0) drag = { side: found.side, from: found.index, to: found.index };
    };
    stage.onpointerup = () => {
      if (!drag) return;
      const { side, from, to } = drag;
      drag = null;
      view.preview(side, -1, -1);
      if (from !== to) view.brush(side, Math.min(from, to), Math.max(from, to));
      else pressed = { side, index: from };
    };
    stage.onclick = (/** @type {MouseEvent} */ event) => {
      // The second click of a double click does not pin again.
      if (pressed && event.detail < 2) view.pin(pressed.side === "source" ? pressed.index : -1, pressed.side === "target" ? pressed.index : -1);
      pressed = null;
    };
    stage.onpointercancel = () => {
      drag = null;
      view.preview("source", -1, -1);
    };
    stage.ondblclick = (/** @type {MouseEvent} */ event) => {
      const found = at(event);
      if (!found) return;
      event.preventDefault();
      // The first click of the two has pinned: take that back.
      view.unpinLast();
      view.edit(found.side, found.index, event);
    };
  }

  /**
   * The element under a pointer.
   * @param {MouseEvent} event
   * @returns {{side: "source" | "target", index: number} | null}
   */
  hit(event) {
    const node = /** @type {HTMLElement} */ (event.composedPath()[0]);
    if (node.dataset?.index) return { side: node.parentElement === this.top ? "source" : "target", index: Number(node.dataset.index) };
    if (this.mode === "track") {
      const box = this.stage.getBoundingClientRect();
      const x = event.clientX - box.left;
      const y = event.clientY - box.top;
      for (const side of /** @type {const} */ (["source", "target"])) {
        const band = this.bands[side];
        if (y >= band[0] && y <= band[1]) {
          const count = side === "source" ? this.sheet.n : this.sheet.m;
          const k = Math.floor(((x - this.left) / (this.width - 2 * this.left)) * count);
          if (k >= 0 && k < count) return { side, index: k };
        }
      }
    }
    return null;
  }

  /** Write the texts again: other elements, or another width. */
  layout() {
    const { view } = this;
    const { rows, columns } = view;
    this.sheet = view.sheets[this.side];
    this.width = this.stage.clientWidth || 520;
    this.left = 14;
    const ruler = new CanvasPen(fit(this.canvas, 1, 1, true), view.theme.font);
    const size = (/** @type {any} */ e, /** @type {number} */ gap) =>
      e.labels.reduce((/** @type {number} */ sum, /** @type {string} */ label) => sum + Math.min(190, ruler.measure(label.slice(0, 60), 13)) + gap, 0);
    const single = Math.max(size(rows, 5), size(columns, 5)) < this.width - (view.model.partial ? 90 : 8);
    const lines = Math.max(size(rows, 4), size(columns, 4)) / (this.width - 20);
    this.mode = lines > 8 || (view.level === "sentence" && Math.max(rows.count, columns.count) > 12) ? "track" : "text";
    this.stage.classList.toggle("track", this.mode === "track");
    this.stage.classList.toggle("single", this.mode === "text" && single);
    const write = this.mode === "text";
    this.sourceAtoms = this.write(this.top, "source", rows, write);
    this.targetAtoms = this.write(this.bottom, "target", columns, write);
    this.barHeight = single ? 46 : lines < 3 ? 22 : 14;
    this.bottom.style.setProperty("--bar", `${this.barHeight}px`);
    this.hint.floor = 1;
    this.named = false;
    this.measure();
  }

  /**
   * @param {HTMLElement} node
   * @param {"source" | "target"} name
   * @param {any} elements
   * @param {boolean} visible
   */
  write(node, name, elements, visible) {
    node.replaceChildren();
    if (!visible) return [];
    const text = this.view.model.sides[name].text;
    node.dir = direction(text);
    const atoms = [];
    const sentences = this.view.level === "sentence";
    for (let e = 0; e < elements.count; e++) {
      if (e > 0) {
        const between = text.slice(elements.ends[e - 1], elements.starts[e]);
        node.append(between.trim() === "" && between !== "" ? " " : between === "" ? "" : between);
        if (sentences) node.append(" ");
      }
      const long = sentences || elements.labels[e].length > 40;
      const span = h("span", { class: long ? "atom long" : "atom", "data-index": String(e), dir: "auto", text: elements.labels[e] });
      if (long) span.title = elements.labels[e];
      node.append(span);
      atoms.push(span);
    }
    if (this.view.model.partial) {
      node.append(" ");
      const none = h("span", { class: "atom none", text: "no partner" });
      node.append(none);
      atoms.push(none);
    }
    return atoms;
  }

  /** Where lines begin and end. One read of the layout, none while dragging. */
  measure() {
    const { view } = this;
    const { rows, columns } = view;
    const extra = view.model.partial ? 1 : 0;
    const n = rows.count + extra;
    const m = columns.count + extra;
    this.sx = new Float64Array(n);
    this.sy = new Float64Array(n);
    this.tx = new Float64Array(m);
    this.ty = new Float64Array(m);
    this.tw = new Float64Array(m);
    this.tb = new Float64Array(m);
    this.sw = new Float64Array(n);
    if (this.mode === "text") {
      const origin = this.stage.getBoundingClientRect();
      this.sourceAtoms.forEach((span, k) => {
        const box = span.getBoundingClientRect();
        this.sx[k] = box.left - origin.left + box.width / 2;
        this.sy[k] = box.bottom - origin.top - 1;
        this.sw[k] = box.width;
      });
      this.targetAtoms.forEach((span, k) => {
        const box = span.getBoundingClientRect();
        this.tx[k] = box.left - origin.left + box.width / 2;
        this.ty[k] = box.top - origin.top + 1;
        this.tb[k] = box.bottom - origin.top + 2;
        this.tw[k] = box.width;
      });
      this.height = origin.height;
    } else {
      this.height = 300;
      const place = (/** @type {Float64Array} */ xs, /** @type {number} */ count) => {
        for (let k = 0; k < count; k++) xs[k] = this.left + ((k + 0.5) / count) * (this.width - 2 * this.left);
      };
      place(this.sx, n);
      place(this.tx, m);
      this.sy.fill(TRACK_TOP + 4);
      this.ty.fill(TRACK_BOTTOM);
      this.tb.fill(TRACK_BOTTOM + 6);
      this.tw.fill(Math.max(1, (this.width - 2 * this.left) / m - (m < 200 ? 1 : 0)));
      this.sw.fill(Math.max(1, (this.width - 2 * this.left) / n - (n < 200 ? 1 : 0)));
      this.bands = { source: [0, 60], target: [200, 300] };
    }
    this.context = fit(this.canvas, this.width, this.height, true);
    this.pen = new CanvasPen(this.context, view.theme.font);
  }

  /** Choose the pairs that are drawn. */
  choose() {
    const { view } = this;
    this.sheet = view.sheets[this.side];
    const limit = Math.min(400, Math.max(60, Math.floor(this.width / 1.6)));
    this.hint.top = Math.max(view.topPair, 1e-300);
    this.hint.total = this.sheet.total;
    this.links = strongest(this.sheet.mass, view.settings.share, limit, this.hint);
  }

  /** @param {boolean} [numbersOnly] the names and tracks of long texts stay as they are */
  draw(numbersOnly = false) {
    const { card } = this.view.theme.colours;
    const kept = numbersOnly && this.mode === "track" && this.named;
    if (kept) {
      this.pen.rect(0, TRACK_TOP + 4, this.width, TRACK_BOTTOM - TRACK_TOP - 4, card);
      this.pen.rect(0, TRACK_BOTTOM + 4, this.width, NAMES - TRACK_BOTTOM - 16, card);
    } else this.pen.rect(0, 0, this.width, this.height, card);
    this.paint(this.pen, true, !kept);
    this.named = true;
  }

  /**
   * @param {any} pen
   * @param {boolean} live with what the pointer lights
   * @param {boolean} [names] with the tracks and their names
   */
  paint(pen, live, names = true) {
    const { view, sheet, links } = this;
    const { theme, pinned } = view;
    const { colours } = theme;
    const hover = live ? view.lit : { source: -1, target: -1 };
    const focused = hover.source >= 0 || hover.target >= 0;
    const m = sheet.m;
    const widest = Math.min(7, Math.max(1.5, 130 / Math.max(sheet.n, m)));
    const top = view.topWeight;
    /** @type {number[][]} */
    const buckets = Array.from({ length: BUCKETS }, () => []);
    /** @type {[number, number, string][]} */
    const special = [];
    const test = (/** @type {number} */ i, /** @type {number} */ j) =>
      (hover.source < 0 || hover.source === i) && (hover.target < 0 || hover.target === j);
    for (let k = 0; k < links.pairs.length; k++) {
      const i = Math.floor(links.pairs[k] / m);
      const j = links.pairs[k] - i * m;
      const strength = Math.min(1, (sheet.mass[links.pairs[k]] * view.renorm[this.side]) / top);
      const pin = pinned.colour(i, j);
      if (pin >= 0) special.push([i, j, theme.pin(pin)]);
      else if (focused && test(i, j)) continue;
      else this.curve(buckets[Math.min(BUCKETS - 1, Math.floor(strength * BUCKETS))], i, j);
    }
    const dim = focused ? 0.22 : 1;
    buckets.forEach((numbers, b) => {
      const strength = (b + 0.5) / BUCKETS;
      // One pixel is what a rasteriser draws several times faster than any other width; opacity tells thin lines apart.
      const width = widest * strength;
      pen.strokes(numbers, colours.source, width < 1.35 ? 1 : width, (0.28 + 0.5 * strength) * dim, { curved: true });
    });
    if (view.model.partial) this.paintNone(pen, widest, top, dim);
    // A pinned pair is drawn however thin it is.
    for (const { rows, columns, index } of pinned.list) {
      if (!rows || !columns || (rows[1] - rows[0]) * (columns[1] - columns[0]) > 64) continue;
      for (let i = rows[0]; i < rows[1]; i++) {
        for (let j = columns[0]; j < columns[1]; j++) {
          if (sheet.mass[i * m + j] > 0 && !special.some((s) => s[0] === i && s[1] === j)) special.push([i, j, theme.pin(index)]);
        }
      }
    }
    for (const [i, j, colour] of special) {
      const strength = Math.min(1, (sheet.mass[i * m + j] * view.renorm[this.side]) / top);
      pen.strokes(this.curve([], i, j), colour, Math.max(1, widest * strength), 0.8, { curved: true });
    }
    if (focused) {
      // All partners of what the pointer is on, down to a hundredth of its mass: more than the share draws.
      const list = this.partners(hover.source, hover.target);
      for (const [i, j, p] of list) {
        const strength = Math.min(1, (p * view.renorm[this.side]) / top);
        const pin = pinned.colour(i, j);
        pen.strokes(this.curve([], i, j), pin >= 0 ? theme.pin(pin) : colours.source, Math.max(0.8, widest * strength), 0.35 + 0.6 * strength, { curved: true });
      }
    }
    this.paintBars(pen);
    if (names && this.mode === "track") this.paintTracks(pen, live);
  }

  /**
   * @param {number} source
   * @param {number} target
   * @returns {[number, number, number][]}
   */
  partners(source, target) {
    const { sheet } = this;
    /** @type {[number, number, number][]} */
    const list = [];
    if (source >= 0 && target >= 0) return [[source, target, sheet.mass[source * sheet.m + target]]];
    if (source >= 0) {
      const floor = sheet.given[source] * 0.01;
      for (let j = 0; j < sheet.m; j++) if (sheet.mass[source * sheet.m + j] > floor) list.push([source, j, sheet.mass[source * sheet.m + j]]);
    } else if (target >= 0) {
      const floor = sheet.received[target] * 0.01;
      for (let i = 0; i < sheet.n; i++) if (sheet.mass[i * sheet.m + target] > floor) list.push([i, target, sheet.mass[i * sheet.m + target]]);
    }
    return list.sort((p, q) => q[2] - p[2]).slice(0, 100);
  }

  /** @param {number[]} numbers @param {number} i @param {number} j */
  curve(numbers, i, j) {
    const x0 = this.sx[i];
    const y0 = this.sy[i];
    const x1 = this.tx[j];
    const y1 = this.ty[j];
    const bend = (y1 - y0) * 0.5;
    numbers.push(x0, y0, x0, y0 + bend, x1, y1 - bend, x1, y1);
    return numbers;
  }

  /** Mass without a partner: dashed lines to the last chip. @param {any} pen @param {number} widest @param {number} top @param {number} dim */
  paintNone(pen, widest, top, dim) {
    const { sheet, view } = this;
    const weakest = this.links.pairs.length ? sheet.mass[this.links.pairs[this.links.pairs.length - 1]] : 0;
    const lost = (/** @type {number} */ i, /** @type {number} */ j, /** @type {number} */ p) => {
      if (p < weakest || !(p > 0)) return;
      const strength = Math.min(1, (p * view.renorm[this.side]) / top);
      pen.strokes(this.curve([], i, j), view.theme.colours.muted, Math.max(0.8, widest * strength), (0.3 + 0.5 * strength) * dim, { curved: true, dash: [5, 4] });
    };
    for (let i = 0; i < sheet.n; i++) lost(i, sheet.m, sheet.nullSource[i]);
    for (let j = 0; j < sheet.m; j++) lost(sheet.n, j, sheet.nullTarget[j]);
  }

  /** @param {any} pen */
  paintBars(pen) {
    const { sheet, view } = this;
    const { colours } = view.theme;
    const height = this.mode === "text" ? this.barHeight : 44;
    const scale = height / view.topBar;
    const weights = sheet.columns.weights;
    const norm = view.renorm[this.side];
    /** @type {number[]} */
    const ticks = [];
    for (let j = 0; j < sheet.m; j++) {
      const width = this.mode === "text" ? Math.min(this.tw[j], 14) : this.tw[j];
      const pin = view.pinned.column(j);
      pen.rect(this.tx[j] - width / 2, this.tb[j], width, Math.max(0.5, sheet.received[j] * norm * scale), pin >= 0 ? view.theme.pin(pin) : colours.target, 0.85);
      if (view.model.partial && sheet.nullTarget[j] > 0) {
        pen.rect(this.tx[j] - width / 2, this.tb[j] + sheet.received[j] * norm * scale, width, sheet.nullTarget[j] * norm * scale, colours.no_mass, 0.9);
      }
      const y = this.tb[j] + weights[j] * view.columnNorm * scale;
      const half = this.mode === "text" ? Math.max(9, Math.min(this.tw[j] / 2 + 4, 26)) : this.tw[j] / 2 + 0.5;
      ticks.push(this.tx[j] - half, y, this.tx[j] + half, y);
    }
    pen.strokes(ticks, colours.muted, 1, 0.9, this.mode === "text" ? { dash: [3, 2] } : {});
  }

  /** Tracks with the names that fit. @param {any} pen @param {boolean} live */
  paintTracks(pen, live) {
    const { view } = this;
    const { colours } = view.theme;
    for (const name of /** @type {const} */ (["source", "target"])) {
      const isSource = name === "source";
      const elements = isSource ? view.rows : view.columns;
      const xs = isSource ? this.sx : this.tx;
      const y = isSource ? TRACK_TOP : TRACK_BOTTOM;
      const ws = isSource ? this.sw : this.tw;
      const fill = isSource ? colours.source : colours.target;
      const text = isSource ? colours.source_text : colours.target_text;
      const dense = ws[0] < 3;
      if (dense) pen.rect(this.left, y, this.width - 2 * this.left, 4, fill, 0.55);
      for (let k = 0; k < elements.count; k++) {
        const pin = isSource ? view.pinned.row(k) : view.pinned.column(k);
        const lit = live && (isSource ? view.lit.source : view.lit.target) === k;
        if (dense && pin < 0 && !lit) continue;
        pen.rect(xs[k] - ws[k] / 2, y, ws[k], 4, pin >= 0 ? view.theme.pin(pin) : fill, pin >= 0 || lit ? 1 : 0.55);
      }
      const wanted = this.chooseNames(elements, isSource, live);
      let end = -Infinity;
      const baseline = isSource ? TRACK_TOP - 8 : NAMES;
      for (const { k, strong } of wanted) {
        const label = clip(elements.labels[k], 24);
        const width = pen.measure(label, 11, strong ? 700 : 400);
        const start = Math.min(Math.max(2, xs[k] - width / 2), this.width - width - 2);
        if (start < end + 6) continue;
        end = start + width;
        const pin = isSource ? view.pinned.row(k) : view.pinned.column(k);
        pen.text(label, start, baseline, { size: 11, weight: strong ? 700 : 400, fill: pin >= 0 ? view.theme.pin(pin) : text });
      }
    }
  }

  /**
   * Names to write on a track, in order: what is lit or pinned first, then every k-th.
   * @param {any} elements
   * @param {boolean} isSource
   * @param {boolean} live
   */
  chooseNames(elements, isSource, live) {
    const { view } = this;
    const important = [];
    for (let k = 0; k < elements.count; k++) {
      const lit = live && (isSource ? view.lit.source : view.lit.target) === k;
      if (lit || (isSource ? view.pinned.row(k) : view.pinned.column(k)) >= 0) important.push(k);
    }
    const gap = (this.width - 28) / elements.count;
    const step = Math.max(1, Math.ceil((view.level === "sentence" ? 145 : 62) / gap));
    const all = important.map((k) => ({ k, strong: true }));
    for (let k = Math.floor(step / 2); k < elements.count; k += step) {
      if (important.every((p) => Math.abs(p - k) * gap > 70)) all.push({ k, strong: false });
    }
    return all.sort((p, q) => p.k - q.k);
  }

  /** Words in the text that are lit, pinned or brushed. */
  mark() {
    const { view } = this;
    const paint = (/** @type {HTMLElement[]} */ atoms, /** @type {boolean} */ isSource) => {
      atoms.forEach((span, k) => {
        if (!span.dataset.index) return;
        const lit = (isSource ? view.lit.source : view.lit.target) === k;
        const pin = isSource ? view.pinned.row(k) : view.pinned.column(k);
        const brushed = view.brushed && view.brushed.side === (isSource ? "source" : "target") && k >= view.brushed.from && k <= view.brushed.to;
        const dead = !((isSource ? view.rows : view.columns).weights[k] > 0);
        const name = `atom${span.title ? " long" : ""}${lit ? " lit" : ""}${pin >= 0 ? " pinned" : ""}${brushed ? " brushed" : ""}${dead ? " dead" : ""}`;
        if (span.className !== name) span.className = name;
        const colour = pin >= 0 ? view.theme.pin(pin) : "";
        if (span.style.color !== colour) span.style.color = colour;
      });
    };
    paint(this.sourceAtoms, true);
    paint(this.targetAtoms, false);
  }

  /** The sentences around the picture. */
  describe() {
    const { view, sheet, links } = this;
    const words = LEVEL_WORDS[/** @type {keyof typeof LEVEL_WORDS} */ (view.level)];
    const { atoms } = view.model.payload.header.target;
    const by = atoms === view.level || (sheet.rows.single && sheet.columns.single) ? "" : ` by ${atoms}`;
    const rowsRight = sheet.rowError < 1e-5;
    const columnsRight = sheet.columnError < 1e-5;
    setText(
      this.check,
      `rows ${rowsRight ? "✓" : `off by ${percent(sheet.rowError / 2)}`} · columns ${columnsRight ? "✓" : `off by ${percent(sheet.columnError / 2)}${by}`}`,
    );
    this.check.classList.toggle("good", rowsRight && columnsRight);
    setText(this.subtitle, this.side === "left" ? view.leftName() : "softmax on the same scores and ε");
    const total = sheet.n * sheet.m;
    const share = links.total > 0 ? links.mass / links.total : 0;
    const asked = view.settings.share;
    const capped = share < asked - 1e-9 && links.needed > links.pairs.length;
    const bars = `bars: mass received, ${capped || this.mode === "track" ? "line" : "dashes"}: weight`;
    setText(
      this.caption,
      `${whole(links.pairs.length)} of ${whole(total)} pairs of ${words} drawn = ${percent(share)} of the mass` +
        (capped ? ` (${percent(asked)} would take ${whole(links.needed)}, more than fit)` : "") +
        ` · ${bars}`,
    );
  }
}

/** A token among words of ours: marks alone get quotes. @param {string} label @param {number} length */
export function quoted(label, length) {
  const text = clip(label, length);
  return /[\p{L}\p{N}]/u.test(text) ? text : `“${text}”`;
}

/** @param {string} label @param {number} length */
export function clip(label, length) {
  const characters = [...label];
  return characters.length > length ? `${characters.slice(0, length - 1).join("")}…` : label;
}

const WHY_LEFT = [
  "A coupling is a joint law P of both texts: every word gives away exactly its weight aᵢ and every word receives exactly its weight bⱼ.",
  "Sinkhorn: Pᵢⱼ = aᵢ bⱼ exp((fᵢ + gⱼ − Cᵢⱼ)/ε), with f and g such that P1 = a and Pᵀ1 = b. It minimises ⟨C, P⟩ + ε KL(P ‖ a⊗b).",
  "The second dial goes there step by step: half-step ½ is softmax, each further half-step makes the columns and then the rows exact again. Or it weighs the columns softly, g ← ρ/(ρ+ε) × the update: ρ = 0 is softmax, ρ = ∞ is Sinkhorn.",
];
const WHY_RIGHT = [
  "Softmax attention on the same scores −C and the same ε: Pᵢⱼ = aᵢ · bⱼ exp(−Cᵢⱼ/ε) / Σₗ bₗ exp(−Cᵢₗ/ε).",
  "Each source word spreads its whole weight over the target. What a target word receives is left free: the bars show it beside its weight.",
];
