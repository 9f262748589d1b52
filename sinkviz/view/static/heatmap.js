/** The plan as a matrix with its marginals at the edges: one pixel a cell, scaled by the browser. */

import { SCALES, css } from "./colour.js";
import { fit, h, setText, why } from "./dom.js";
import { clip } from "./lines.js";
import { SMALLEST, format, logPositive, percent, whole } from "./numbers.js";
import { CanvasPen } from "./pen.js";

/** More cells than this along a side are summed in blocks, which the caption says. */
const MOST = 640;

export class Heatmap {
  /**
   * @param {import("./view.js").View} view
   * @param {"left" | "right"} side
   */
  constructor(view, side) {
    this.view = view;
    this.side = side;
    this.cells = h("canvas", { class: "cells", "aria-hidden": "true" });
    this.rightEdge = h("canvas", { class: "ink", "aria-hidden": "true" });
    this.bottomEdge = h("canvas", { class: "ink", "aria-hidden": "true" });
    this.labels = h("canvas", { class: "ink", "aria-hidden": "true" });
    this.row = h("div", { class: "band", hidden: true });
    this.column = h("div", { class: "band", hidden: true });
    this.pins = h("div", { class: "pins" });
    this.brush = h("div", { class: "brush", hidden: true });
    this.stage = h(
      "div",
      { class: "matrix", tabindex: "0", role: "group", "aria-label": side === "left" ? "Heatmap of the coupling" : "Heatmap of attention" },
      [this.labels, this.rightEdge, this.bottomEdge, this.cells, this.row, this.column, this.pins, this.brush],
    );
    this.legend = h("canvas", { class: "legend", "aria-hidden": "true" });
    this.legendText = h("span", { class: "caption" });
    this.caption = h("p", { class: "caption" });
    this.node = h("section", { class: "card", "aria-label": side === "left" ? "Coupling as a matrix" : "Attention as a matrix" }, [
      this.stage,
      h("div", { class: "legend-row" }, [this.legend, this.legendText, side === "left" ? why("the colours and edges", WHY) : null]),
      this.caption,
    ]);
    this.bind();
  }

  bind() {
    const { view, stage } = this;
    /** @type {{i: number, j: number} | null} */
    let drag = null;
    /** @type {{i: number, j: number} | null} */
    let last = null;
    stage.onpointermove = (/** @type {PointerEvent} */ event) => {
      const cell = this.hit(event);
      if (drag && cell && (drag.i !== cell.i || drag.j !== cell.j)) {
        last = cell;
        this.showBrush(drag, cell);
        return;
      }
      if (!drag) view.hover(cell ? cell.i : -1, cell ? cell.j : -1, event);
    };
    stage.onpointerleave = () => {
      if (!drag) view.hover(-1, -1);
    };
    stage.onpointerdown = (/** @type {PointerEvent} */ event) => {
      if (event.button !== 0) return;
      drag = this.hit(event);
      last = drag;
      if (drag && drag.i >= 0 && drag.j >= 0) stage.setPointerCapture(event.pointerId);
    };
    stage.onpointerup = (/** @type {PointerEvent} */ event) => {
      const from = drag;
      const to = last;
      drag = null;
      this.brush.hidden = true;
      if (!from || !to) return;
      if (from.i === to.i && from.j === to.j) {
        if (view.level === "sentence" && from.i >= 0 && from.j >= 0 && !event.shiftKey && view.canOpen()) view.open(from.i, from.j);
        else view.pin(from.i, from.j);
      } else view.brushBlock(Math.min(from.i, to.i), Math.max(from.i, to.i), Math.min(from.j, to.j), Math.max(from.j, to.j));
    };
    stage.onpointercancel = () => {
      drag = null;
      this.brush.hidden = true;
    };
  }

  /** @param {MouseEvent} event @returns {{i: number, j: number} | null} −1 on the labels of the other side */
  hit(event) {
    const box = this.stage.getBoundingClientRect();
    const x = event.clientX - box.left - this.x;
    const y = event.clientY - box.top - this.y;
    const j = Math.floor((x / this.w) * this.m);
    const i = Math.floor((y / this.h) * this.n);
    const insideX = j >= 0 && j < this.m;
    const insideY = i >= 0 && i < this.n;
    if (insideX && insideY) return { i, j };
    if (insideY && (x < 0 || x > this.w)) return { i, j: -1 };
    if (insideX && (y < 0 || y > this.h)) return { i: -1, j };
    return null;
  }

  /** @param {{i: number, j: number}} from @param {{i: number, j: number}} to */
  showBrush(from, to) {
    const i0 = Math.min(from.i, to.i);
    const i1 = Math.max(from.i, to.i) + 1;
    const j0 = Math.min(from.j, to.j);
    const j1 = Math.max(from.j, to.j) + 1;
    this.place(this.brush, this.x + (j0 / this.m) * this.w, this.y + (i0 / this.n) * this.h, ((j1 - j0) / this.m) * this.w, ((i1 - i0) / this.n) * this.h);
  }

  /** @param {HTMLElement} node @param {number} x @param {number} y @param {number} w @param {number} height */
  place(node, x, y, w, height) {
    node.hidden = false;
    node.style.transform = `translate(${x}px, ${y}px)`;
    node.style.width = `${w}px`;
    node.style.height = `${height}px`;
  }

  layout() {
    const { view } = this;
    this.n = view.rows.count;
    this.m = view.columns.count;
    const width = this.stage.clientWidth || 520;
    const context = fit(this.labels, 1, 1, true);
    const ruler = new CanvasPen(context, view.theme.font);
    const widest = (/** @type {string[]} */ labels) => labels.reduce((w, label) => Math.max(w, ruler.measure(clip(label, 22), 11)), 0);
    const few = this.n <= 400;
    this.x = Math.ceil(Math.max(54, Math.min(width * 0.3, 118, few ? widest(view.rows.labels) + 8 : 90)));
    this.y = Math.ceil(Math.min(96, (this.m <= 400 ? widest(view.columns.labels) : 90) * 0.72 + 16));
    // A null partner has a column and a row of its own, apart from the words.
    this.extra = view.model.partial ? 18 : 0;
    const margin = 76 + this.extra;
    const room = Math.max(60, width - this.x - margin);
    const pitch = Math.min(36, room / this.m, 560 / Math.max(1, this.n));
    this.w = Math.max(pitch * this.m, Math.min(room, 60));
    this.h = Math.max(pitch * this.n, Math.min(420, 40));
    // Very unequal lengths: fill the width, keep rows readable.
    if (this.w < room * 0.6) this.w = Math.min(room, Math.max(this.w, Math.min(room, 36 * this.m)));
    // Whole pixels for large cells: the grid between them must fall on their edges.
    if (this.w / this.m > 7 && this.h / this.n > 7) {
      this.w = Math.floor(this.w / this.m) * this.m;
      this.h = Math.floor(this.h / this.n) * this.n;
    }
    this.bottom = 46 + this.extra;
    this.width = width;
    this.height = this.y + this.h + this.bottom;
    this.stage.style.height = `${this.height}px`;
    this.blockRows = Math.ceil(this.n / MOST);
    this.blockColumns = Math.ceil(this.m / MOST);
    this.pixelRows = Math.ceil(this.n / this.blockRows);
    this.pixelColumns = Math.ceil(this.m / this.blockColumns);
    this.cells.width = this.pixelColumns;
    this.cells.height = this.pixelRows;
    this.cells.style.cssText = `left:${this.x}px;top:${this.y}px;width:${this.w}px;height:${this.h}px`;
    this.cellContext = /** @type {CanvasRenderingContext2D} */ (this.cells.getContext("2d", { alpha: false }));
    this.image = this.cellContext.createImageData(this.pixelColumns, this.pixelRows);
    this.pixels = new Uint32Array(this.image.data.buffer);
    this.otherBlocks = /** @type {Float64Array | null} */ (null);
    this.blocks = this.blockRows > 1 || this.blockColumns > 1 ? new Float64Array(this.pixelRows * this.pixelColumns) : null;
    // Two narrow canvases: what changes at every frame should cover little.
    this.right = { context: fit(this.rightEdge, margin, this.h, true), pen: /** @type {any} */ (null) };
    this.below = { context: fit(this.bottomEdge, this.w, this.bottom, true), pen: /** @type {any} */ (null) };
    for (const edge of [this.right, this.below]) edge.pen = new CanvasPen(edge.context, view.theme.font);
    this.givenState = "";
    this.rightEdge.style.transform = `translate(${this.x + this.w}px, ${this.y}px)`;
    this.bottomEdge.style.transform = `translate(${this.x}px, ${this.y + this.h}px)`;
    this.drawLabels();
  }

  drawLabels() {
    const context = fit(this.labels, this.width, this.height, true);
    const pen = new CanvasPen(context, this.view.theme.font);
    pen.rect(0, 0, this.width, this.height, this.view.theme.colours.card);
    this.paintLabels(pen);
    // The grid is drawn over the cells by CSS, so it costs nothing while dragging.
    const gapped = this.w / this.m > 11 && this.h / this.n > 11;
    this.cells.style.setProperty("--grid", gapped ? "1" : "0");
    this.stage.classList.toggle("gapped", gapped);
    this.stage.style.setProperty("--cell-w", `${this.w / this.m}px`);
    this.stage.style.setProperty("--cell-h", `${this.h / this.n}px`);
    this.pins.style.cssText = `left:${this.x}px;top:${this.y}px;width:${this.w}px;height:${this.h}px`;
  }

  /** Row and column names; where they would touch, every k-th. @param {any} pen */
  paintLabels(pen) {
    const { view } = this;
    const { colours } = view.theme;
    const rowStep = Math.ceil(12 / (this.h / this.n));
    const columnStep = Math.ceil(13 / (this.w / this.m));
    for (let i = 0; i < this.n; i += rowStep) {
      const pin = view.pinned.row(i);
      pen.text(clip(view.rows.labels[i], 18), this.x - 6, this.y + ((i + 0.5) / this.n) * this.h + 4, {
        size: 11,
        anchor: "end",
        fill: pin >= 0 ? view.theme.pin(pin) : colours.source_text,
        weight: pin >= 0 ? 700 : 400,
      });
    }
    for (let j = 0; j < this.m; j += columnStep) {
      const pin = view.pinned.column(j);
      pen.text(clip(view.columns.labels[j], 18), this.x + ((j + 0.5) / this.m) * this.w + 3, this.y - 6, {
        size: 11,
        rotate: -50,
        fill: pin >= 0 ? view.theme.pin(pin) : colours.target_text,
        weight: pin >= 0 ? 700 : 400,
      });
    }
    if (this.extra) {
      pen.text("no partner", this.x - 6, this.y + this.h + 15, { size: 10, anchor: "end", fill: colours.muted, italic: true });
      pen.text("no partner", this.x + this.w + 14, this.y - 6, { size: 10, rotate: -50, fill: colours.muted, italic: true });
    }
    pen.text("received", this.x - 6, this.y + this.h + this.extra + 16, { size: 10, anchor: "end", fill: colours.muted });
    pen.text("given", this.x + this.w + this.extra + 6, this.y - 6, { size: 10, fill: colours.muted });
    pen.text("price", this.x + this.w + this.extra + 54, this.y - 6, { size: 10, anchor: "middle", fill: colours.muted });
    this.labelStep = { row: rowStep, column: columnStep };
  }

  draw() {
    this.drawCells();
    const { card } = this.view.theme.colours;
    // Exact rows give the same at every ε: then only the price moves.
    const sheet = this.view.sheets[this.side];
    const state = sheet.rowError < 1e-9 && !this.view.model.partial ? `${this.view.topRow} ${this.view.renorm[this.side]}` : "";
    const kept = state !== "" && state === this.givenState;
    this.givenState = state;
    this.right.pen.rect(kept ? 34 : 0, 0, 76 + this.extra, this.h, card);
    this.below.pen.rect(0, 0, this.w, this.bottom, card);
    this.paintRight(this.right.pen, 0, 0, !kept);
    this.paintBelow(this.below.pen, 0, 0);
  }

  drawCells() {
    const { view, pixels } = this;
    const sheet = view.sheets[this.side];
    const mode = this.mode();
    const top = this.top();
    const { n, m } = this;
    let values = sheet.mass;
    let rows = n;
    let columns = m;
    const weightsA = sheet.rows.weights;
    const weightsB = sheet.columns.weights;
    if (this.blocks) {
      values = this.sumBlocks(sheet.mass);
      rows = this.pixelRows;
      columns = this.pixelColumns;
    }
    const table = mode === "mass" ? view.theme.sequential : view.theme.diverging;
    if (mode === "mass") {
      const scale = (255 * 255 * view.renorm[this.side]) / top;
      for (let k = 0; k < rows * columns; k++) {
        const level = Math.sqrt(values[k] * scale);
        pixels[k] = table[level < 255 ? (level + 0.5) | 0 : 255];
      }
    } else if (mode === "lift") {
      const logA = new Float64Array(rows);
      const logB = new Float64Array(columns);
      for (let i = 0; i < n; i++) logA[Math.floor(i / this.blockRows)] += weightsA[i];
      for (let j = 0; j < m; j++) logB[Math.floor(j / this.blockColumns)] += weightsB[j];
      for (let i = 0; i < rows; i++) logA[i] = logA[i] > 0 ? Math.log(logA[i]) : 0;
      for (let j = 0; j < columns; j++) logB[j] = logB[j] > 0 ? Math.log(logB[j]) : 0;
      const shift = view.liftShift[this.side];
      for (let i = 0; i < rows; i++) {
        for (let j = 0; j < columns; j++) {
          const p = values[i * columns + j];
          pixels[i * columns + j] = table[p > SMALLEST ? SCALES.lift(logPositive(p) - logA[i] - logB[j] + shift, top) : 0];
        }
      }
    } else {
      const other = this.blocks ? this.sumBlocks(view.sheets.right.mass, true) : view.sheets.right.mass;
      for (let k = 0; k < rows * columns; k++) pixels[k] = table[SCALES.difference(values[k] * view.renorm.left - other[k] * view.renorm.right, top)];
    }
    this.cellContext.putImageData(this.image, 0, 0);
  }

  /** @param {ArrayLike<number>} mass @param {boolean} [second] */
  sumBlocks(mass, second = false) {
    const out = second ? (this.otherBlocks ??= new Float64Array(this.pixelRows * this.pixelColumns)) : this.blocks;
    if (!out) return /** @type {any} */ (mass);
    out.fill(0);
    for (let i = 0; i < this.n; i++) {
      const base = Math.floor(i / this.blockRows) * this.pixelColumns;
      for (let j = 0; j < this.m; j++) out[base + Math.floor(j / this.blockColumns)] += mass[i * this.m + j];
    }
    return out;
  }

  /** What this panel's colours mean: attention stays mass while the left panel shows the difference. */
  mode() {
    const { colour } = this.view.settings;
    return colour === "difference" && this.side === "right" ? "mass" : colour;
  }

  /** The value at the end of the colour scale. */
  top() {
    const { view } = this;
    if (this.mode() === "lift") return view.topLift;
    return view.topWeight * (this.blockRows ?? 1);
  }

  /** Mass given beside the weight, and the price: left of its line is cheaper than independence. @param {any} pen @param {number} left @param {number} top @param {boolean} [given] */
  paintRight(pen, left, top, given = true) {
    const { view } = this;
    const { colours } = view.theme;
    const sheet = view.sheets[this.side];
    const cell = this.h / this.n;
    const gap = cell > 4 ? 1 : 0;
    const size = Math.max(0.5, cell - 2 * gap);
    const scale = (22 / view.topRow) * view.renorm[this.side];
    const tick = (22 / view.topRow) * view.rowNorm;
    const x = left + this.extra + 6;
    const none = view.renorm[this.side] / view.topWeight;
    for (let i = 0; this.extra && i < this.n; i++) {
      const share = Math.min(1, sheet.nullSource[i] * none);
      pen.rect(left + 4, top + i * cell + gap, this.extra - 4, size, colours.no_mass, 0.08 + 0.92 * Math.sqrt(share));
    }
    /** @type {number[]} */
    const ticks = [];
    for (let i = 0; given && i < this.n; i++) {
      const y = top + i * cell;
      const pin = view.pinned.row(i);
      pen.rect(x, y + gap, sheet.given[i] * scale, size, pin >= 0 ? view.theme.pin(pin) : colours.source, 0.75);
      if (sheet.nullSource[i] > 0) pen.rect(x + sheet.given[i] * scale, y + gap, sheet.nullSource[i] * scale, size, colours.no_mass, 0.9);
      const at = x + sheet.rows.weights[i] * tick;
      ticks.push(at, y, at, y + cell);
    }
    pen.strokes(ticks, colours.muted, 1, 0.9);
    const middle = x + 48;
    const reach = 18 / view.topPrice;
    pen.strokes([middle, top, middle, top + this.h], colours.border, 1, 1);
    if (cell < 3) {
      // One line through all prices, where marks of their own would touch.
      const ys = Float64Array.from({ length: this.n }, (_, i) => top + (i + 0.5) * cell);
      pen.polyline(Float64Array.from(sheet.price, (price) => middle + price * reach), ys, colours.text, 1);
      for (const { rows, index } of view.pinned.list) {
        for (let i = rows ? rows[0] : 0; rows && i < rows[1]; i++) pen.disc(middle + sheet.price[i] * reach, ys[i], 2.5, view.theme.pin(index));
      }
      return;
    }
    for (let i = 0; i < this.n; i++) {
      const y = top + (i + 0.5) * cell;
      const px = middle + sheet.price[i] * reach;
      const pin = view.pinned.row(i);
      const colour = pin >= 0 ? view.theme.pin(pin) : colours.text;
      pen.rect(Math.min(px, middle), y - 0.5, Math.abs(px - middle), 1, colour, 0.5);
      // Many small marks are squares: a disc is a path, which costs more than all else in this edge.
      if (cell > 12) pen.disc(px, y, 2.5, colour, undefined, 0.8);
      else if (cell > 5) pen.rect(px - 1.5, y - 1.5, 3, 3, colour, 0.8);
    }
  }

  /** Mass received beside the weight. @param {any} pen @param {number} left @param {number} top */
  paintBelow(pen, left, top) {
    const { view } = this;
    const { colours } = view.theme;
    const sheet = view.sheets[this.side];
    const cell = this.w / this.m;
    const gap = cell > 4 ? 1 : 0;
    const size = Math.max(0.5, cell - 2 * gap);
    const scale = (32 / view.topBar) * view.renorm[this.side];
    const tick = (32 / view.topBar) * view.columnNorm;
    const y0 = top + this.extra + 6;
    const none = view.renorm[this.side] / view.topWeight;
    for (let j = 0; this.extra && j < this.m; j++) {
      const share = Math.min(1, sheet.nullTarget[j] * none);
      pen.rect(left + j * cell + gap, top + 4, size, this.extra - 4, colours.no_mass, 0.08 + 0.92 * Math.sqrt(share));
    }
    /** @type {number[]} */
    const ticks = [];
    for (let j = 0; j < this.m; j++) {
      const at = left + j * cell;
      const pin = view.pinned.column(j);
      pen.rect(at + gap, y0, size, sheet.received[j] * scale, pin >= 0 ? view.theme.pin(pin) : colours.target, 0.85);
      if (sheet.nullTarget[j] > 0) pen.rect(at + gap, y0 + sheet.received[j] * scale, size, sheet.nullTarget[j] * scale, colours.no_mass, 0.9);
      const y = y0 + sheet.columns.weights[j] * tick;
      ticks.push(at, y, at + cell, y);
    }
    pen.strokes(ticks, colours.muted, 1, 0.9);
  }

  mark() {
    const { view } = this;
    const { source, target } = view.lit;
    const cellH = this.h / this.n;
    const cellW = this.w / this.m;
    if (source >= 0 && source < this.n) this.place(this.row, this.x, this.y + source * cellH, this.w, cellH);
    else this.row.hidden = true;
    if (target >= 0 && target < this.m) this.place(this.column, this.x + target * cellW, this.y, cellW, this.h);
    else this.column.hidden = true;
  }

  /** Frames around pinned rows, columns and pairs. */
  markPins() {
    const { view } = this;
    this.pins.replaceChildren(
      ...view.pinned.list.map(({ rows, columns, index }) => {
        const i0 = rows ? rows[0] : 0;
        const i1 = rows ? rows[1] : this.n;
        const j0 = columns ? columns[0] : 0;
        const j1 = columns ? columns[1] : this.m;
        const box = h("div", { class: "pin" });
        box.style.cssText = `left:${(j0 / this.m) * 100}%;top:${(i0 / this.n) * 100}%;width:${((j1 - j0) / this.m) * 100}%;height:${((i1 - i0) / this.n) * 100}%;border-color:${view.theme.pin(index)}`;
        return box;
      }),
    );
    this.givenState = "";
    this.drawLabels();
  }

  drawLegend() {
    const { view } = this;
    const context = fit(this.legend, 120, 10);
    this.paintLegend(new CanvasPen(context, view.theme.font), 120, 10);
    setText(this.legendText, this.legendWords());
  }

  /** @param {any} pen @param {number} width @param {number} height */
  paintLegend(pen, width, height) {
    const table = this.mode() === "mass" ? this.view.theme.sequential : this.view.theme.diverging;
    for (let k = 0; k < 60; k++) pen.rect((k * width) / 60, 0, width / 60 + 0.5, height, css(table[Math.round((k * 255) / 59)]));
  }

  legendWords() {
    const top = this.top();
    const mode = this.mode();
    if (mode === "mass") return `mass of a pair: 0 · ${percent(top / 4)} in the middle · ${percent(top)} (square-root scale)`;
    if (mode === "lift") return `log-lift: −${format(top)} or less · 0 = independence · +${format(top)} nat or more`;
    return `coupling − attention: −${percent(top)} · 0 · +${percent(top)} of all mass (square-root scale)`;
  }

  describe() {
    const cells =
      this.blockRows > 1 || this.blockColumns > 1
        ? `${whole(this.n)} × ${whole(this.m)}, each cell sums ${this.blockRows} × ${this.blockColumns}`
        : `${whole(this.n)} × ${whole(this.m)} cells`;
    const names =
      this.labelStep && (this.labelStep.row > 1 || this.labelStep.column > 1)
        ? ` · names: every ${this.labelStep.row > 1 ? `${ordinal(this.labelStep.row)} row` : "row"}, every ${this.labelStep.column > 1 ? `${ordinal(this.labelStep.column)} column` : "column"}`
        : "";
    setText(this.caption, `${cells}${names} · edges: mass given and received, grey line: weight${this.extra ? ", grey cells and bars: no partner" : ""} · price: cost against independence, left is cheaper`);
  }
}

/** @param {number} k */
function ordinal(k) {
  const tail = k % 10 === 1 && k % 100 !== 11 ? "st" : k % 10 === 2 && k % 100 !== 12 ? "nd" : k % 10 === 3 && k % 100 !== 13 ? "rd" : "th";
  return `${k}${tail}`;
}

const WHY = [
  "Mass: Pᵢⱼ, the part of the whole mass that goes from source element i to target element j. Both panels share one scale, which ends at the largest weight of a source element: no pair can carry more.",
  "Lift: log(Pᵢⱼ / (aᵢ bⱼ)). 0 is independence, positive more than by chance, negative less. Difference: coupling minus attention.",
  "Price of a source element: Σⱼ Pᵢⱼ C̃ᵢⱼ / aᵢ on the double-centred cost C̃ = C − row mean − column mean + mean. 0 is what it would pay under independence.",
];
