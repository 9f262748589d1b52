/** Both clouds in one plane, with the strongest pairs: source discs, target squares. */

import { fit, h, setText, why } from "./dom.js";
import { clip } from "./lines.js";
import { percent } from "./numbers.js";
import { CanvasPen } from "./pen.js";

const HEIGHT = 330;

export class Clouds {
  /**
   * @param {import("./view.js").View} view
   * @param {"left" | "right"} side
   */
  constructor(view, side) {
    this.view = view;
    this.side = side;
    this.pairs = h("canvas", { class: "ink", "aria-hidden": "true" });
    this.points = h("canvas", { class: "ink", "aria-hidden": "true" });
    this.stage = h(
      "div",
      { class: "cloud", tabindex: "0", role: "group", "aria-label": side === "left" ? "Clouds with the coupling" : "Clouds with attention" },
      [this.pairs, this.points],
    );
    /** Where the points are on the card. */
    this.sx = new Float64Array(0);
    this.sy = new Float64Array(0);
    this.tx = new Float64Array(0);
    this.ty = new Float64Array(0);
    this.subtitle = h("span", { class: "muted" });
    this.node = h("section", { class: "card", "aria-label": side === "left" ? "Clouds, coupling" : "Clouds, attention" }, [
      h("header", {}, [
        h("h2", { text: "Clouds" }),
        this.subtitle,
        side === "left" ? why("the clouds", WHY) : null,
      ]),
      this.stage,
    ]);
    this.stage.onpointermove = (/** @type {PointerEvent} */ event) => {
      const found = this.hit(event);
      view.hover(found?.side === "source" ? found.index : -1, found?.side === "target" ? found.index : -1, event);
    };
    this.stage.onpointerleave = () => view.hover(-1, -1);
    this.stage.onclick = (/** @type {MouseEvent} */ event) => {
      const found = this.hit(event);
      if (found && event.detail < 2) view.pin(found.side === "source" ? found.index : -1, found.side === "target" ? found.index : -1);
    };
    this.stage.ondblclick = (/** @type {MouseEvent} */ event) => {
      const found = this.hit(event);
      if (!found) return;
      view.unpinLast();
      view.edit(found.side, found.index, event);
    };
  }

  /** @param {MouseEvent} event @returns {{side: "source" | "target", index: number} | null} */
  hit(event) {
    const box = this.stage.getBoundingClientRect();
    const x = event.clientX - box.left;
    const y = event.clientY - box.top;
    let best = 14 * 14;
    /** @type {{side: "source" | "target", index: number} | null} */
    let found = null;
    for (const side of /** @type {const} */ (["source", "target"])) {
      const [xs, ys] = side === "source" ? [this.sx, this.sy] : [this.tx, this.ty];
      for (let k = 0; k < xs.length; k++) {
        const d = (xs[k] - x) ** 2 + (ys[k] - y) ** 2;
        if (d < best) {
          best = d;
          found = { side, index: k };
        }
      }
    }
    return found;
  }

  layout() {
    const { view } = this;
    const { rows, columns } = view;
    this.width = this.stage.clientWidth || 520;
    this.height = HEIGHT;
    const margin = 26;
    let [x0, x1, y0, y1] = [Infinity, -Infinity, Infinity, -Infinity];
    for (const e of [rows, columns]) {
      for (let k = 0; k < e.count; k++) {
        x0 = Math.min(x0, e.x[k]);
        x1 = Math.max(x1, e.x[k]);
        y0 = Math.min(y0, e.y[k]);
        y1 = Math.max(y1, e.y[k]);
      }
    }
    // One scale for both axes: distances in the plane mean what they are.
    const scale = Math.min((this.width - 2 * margin - 40) / Math.max(x1 - x0, 1e-9), (this.height - 2 * margin) / Math.max(y1 - y0, 1e-9));
    const cx = (x0 + x1) / 2;
    const cy = (y0 + y1) / 2;
    const place = (/** @type {any} */ e) => [
      Float64Array.from({ length: e.count }, (_, k) => this.width / 2 - 16 + (e.x[k] - cx) * scale),
      Float64Array.from({ length: e.count }, (_, k) => this.height / 2 - (e.y[k] - cy) * scale),
    ];
    [this.sx, this.sy] = place(rows);
    [this.tx, this.ty] = place(columns);
    // Only the part of the card that the clouds cover: what changes at every frame should be small.
    const left = Math.max(0, Math.floor(Math.min(...ends(this.sx), ...ends(this.tx)) - 12));
    const right = Math.min(this.width, Math.ceil(Math.max(...ends(this.sx), ...ends(this.tx)) + 12));
    this.pairBox = [left, right - left];
    this.pairContext = fit(this.pairs, right - left, this.height, true);
    this.pairs.style.transform = `translateX(${left}px)`;
    this.pairContext.translate(-left, 0);
    this.pairPen = new CanvasPen(this.pairContext, view.theme.font);
    this.pointContext = fit(this.points, this.width, this.height);
    this.pointPen = new CanvasPen(this.pointContext, view.theme.font);
    this.stage.style.height = `${this.height}px`;
    this.drawPoints();
    const kept = view.model.payload.header.kept_variance.slice(0, 2).reduce((/** @type {number} */ s, /** @type {number} */ v) => s + v, 0);
    setText(this.subtitle, this.side === "left" ? `shared PCA, ${percent(kept)} of the variance kept · ● source ■ target${view.model.partial ? " · grey halo: no partner" : ""}` : "same plane, attention");
  }

  drawPoints() {
    this.pointContext.clearRect(0, 0, this.width, this.height);
    this.paintPoints(this.pointPen, true);
  }

  /** @param {any} pen @param {boolean} live */
  paintPoints(pen, live) {
    const { view } = this;
    const { colours } = view.theme;
    const many = view.rows.count + view.columns.count;
    const size = many > 400 ? 2 : many > 150 ? 3 : 4.2;
    /** @type {{x: number, y: number, label: string, strong: boolean, colour: string}[]} */
    const names = [];
    const lit = live ? view.lit : { source: -1, target: -1 };
    for (const side of /** @type {const} */ (["source", "target"])) {
      const e = side === "source" ? view.rows : view.columns;
      const [xs, ys] = side === "source" ? [this.sx, this.sy] : [this.tx, this.ty];
      for (let k = 0; k < e.count; k++) {
        const pin = side === "source" ? view.pinned.row(k) : view.pinned.column(k);
        const on = (side === "source" ? lit.source : lit.target) === k;
        const colour = pin >= 0 ? view.theme.pin(pin) : side === "source" ? colours.source : colours.target;
        const r = on || pin >= 0 ? size + 1.5 : size;
        const alpha = e.weights[k] > 0 ? 1 : 0.3;
        if (side === "source") pen.disc(xs[k], ys[k], r, colour, colours.card, alpha);
        else pen.rect(xs[k] - r * 0.9, ys[k] - r * 0.9, r * 1.8, r * 1.8, colour, alpha);
        names.push({ x: xs[k], y: ys[k], label: clip(e.labels[k], 20), strong: on || pin >= 0, colour: pin >= 0 ? colour : colours.text });
      }
    }
    // Names where there is room, what is lit or pinned first.
    names.sort((p, q) => Number(q.strong) - Number(p.strong));
    /** @type {[number, number, number, number][]} */
    const taken = [];
    for (const { x, y, label, strong, colour } of names.slice(0, 260)) {
      const width = pen.measure(label, 11, strong ? 700 : 400);
      const start = x + size + 4 + width > this.width - 2 ? x - size - 4 - width : x + size + 4;
      const box = /** @type {[number, number, number, number]} */ ([start - 1, y - 7, start + width + 1, y + 6]);
      if (!strong && taken.some((t) => box[0] < t[2] && box[2] > t[0] && box[1] < t[3] && box[3] > t[1])) continue;
      taken.push(box);
      pen.text(label, start, y + 4, { size: 11, weight: strong ? 700 : 400, fill: colour });
    }
  }

  draw() {
    this.pairPen.rect(this.pairBox[0], 0, this.pairBox[1], this.height, this.view.theme.colours.card);
    this.paintPairs(this.pairPen, true);
  }

  /** @param {any} pen @param {boolean} live */
  paintPairs(pen, live) {
    const { view } = this;
    const lines = view.pictures.lines[this.side];
    const { links } = lines;
    const sheet = view.sheets[this.side];
    const { colours } = view.theme;
    const m = sheet.m;
    const top = view.topWeight;
    const lit = live ? view.lit : { source: -1, target: -1 };
    const focused = lit.source >= 0 || lit.target >= 0;
    const count = Math.min(links.pairs.length, 160);
    /** @type {number[][]} */
    const buckets = Array.from({ length: 5 }, () => []);
    for (let k = 0; k < count; k++) {
      const i = Math.floor(links.pairs[k] / m);
      const j = links.pairs[k] - i * m;
      const strength = Math.min(1, (sheet.mass[links.pairs[k]] * view.renorm[this.side]) / top);
      const pin = view.pinned.colour(i, j);
      const numbers = [this.sx[i], this.sy[i], this.tx[j], this.ty[j]];
      if (pin >= 0) pen.strokes(numbers, view.theme.pin(pin), 1 + 2.5 * strength, 0.9);
      else buckets[Math.min(4, Math.floor(strength * 5))].push(...numbers);
    }
    buckets.forEach((numbers, b) => {
      const strength = (b + 0.5) / 5;
      const width = 0.7 + 2.6 * strength;
      pen.strokes(numbers, colours.source, width < 1.6 ? 1 : width, (0.25 + 0.45 * strength) * (focused ? 0.3 : 1));
    });
    if (view.model.partial) {
      // Mass without a partner: a grey halo, as wide as its share of the weight.
      const halo = (/** @type {number} */ x, /** @type {number} */ y, /** @type {number} */ lost, /** @type {number} */ weight) => {
        if (weight > 0 && lost > 0.02 * weight) pen.disc(x, y, 5 + 7 * Math.min(1, lost / weight), colours.no_mass, undefined, 0.55);
      };
      for (let i = 0; i < sheet.n; i++) halo(this.sx[i], this.sy[i], sheet.nullSource[i], view.rows.weights[i]);
      for (let j = 0; j < sheet.m; j++) halo(this.tx[j], this.ty[j], sheet.nullTarget[j], view.columns.weights[j]);
    }
    if (focused) {
      for (const [i, j, p] of lines.partners(lit.source, lit.target)) {
        const strength = Math.min(1, (p * view.renorm[this.side]) / top);
        pen.strokes([this.sx[i], this.sy[i], this.tx[j], this.ty[j]], colours.source, 0.8 + 3 * strength, 0.4 + 0.6 * strength);
      }
    }
  }

  mark() {
    this.drawPoints();
  }
}

/** Smallest and largest number. @param {Float64Array} values @returns {[number, number]} */
function ends(values) {
  let low = Infinity;
  let high = -Infinity;
  for (const v of values) {
    if (v < low) low = v;
    if (v > high) high = v;
  }
  return [low, high];
}

const WHY = [
  "Both texts live in one embedding space. The plane is the principal component analysis of both clouds together, each point counting with its weight; the share of the variance that the plane keeps is printed.",
  "A line joins a source disc to a target square; its thickness is the mass between them.",
];
