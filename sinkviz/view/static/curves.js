/** Curves over ε, coupling beside attention, with a mark at the present ε. */

import { fit, h, isolate, setText, why } from "./dom.js";
import { clip } from "./lines.js";
import { format, percent } from "./numbers.js";
import { CanvasPen } from "./pen.js";

const HEIGHT = 150;
const MARGIN = { left: 46, right: 10, top: 10, bottom: 24 };

/** @typedef {{xs: number[], ys: number[], colour: string, dash: number[], width: number}} Line */

class Chart {
  /** @param {string} title @param {(value: number) => string} write */
  constructor(title, write) {
    this.write = write;
    this.canvas = h("canvas", { class: "ink", "aria-hidden": "true" });
    this.mark = h("div", { class: "mark" });
    this.dot = h("div", { class: "dot coupling" });
    this.other = h("div", { class: "dot attention" });
    this.value = h("span", { class: "muted" });
    this.stage = h("div", { class: "chart" }, [this.canvas, this.mark, this.dot, this.other]);
    this.node = h("div", { class: "chart-block" }, [h("h3", {}, [h("span", { text: title }), this.value]), this.stage]);
    /** @type {Line[]} */
    this.lines = [];
  }

  /** @param {any} view @param {[number, number]} domain ε in units, smallest and largest */
  layout(view, domain) {
    this.width = this.stage.clientWidth || 260;
    this.height = HEIGHT;
    this.domain = domain.map(Math.log);
    this.context = fit(this.canvas, this.width, HEIGHT, true);
    this.pen = new CanvasPen(this.context, view.theme.font);
    this.stage.style.height = `${HEIGHT}px`;
    this.mark.style.height = `${HEIGHT - MARGIN.top - MARGIN.bottom}px`;
  }

  /** @param {number} epsilon */
  x(epsilon) {
    const [from, to] = this.domain;
    return MARGIN.left + ((Math.log(epsilon) - from) / Math.max(to - from, 1e-9)) * (this.width - MARGIN.left - MARGIN.right);
  }

  /** @param {number} value */
  y(value) {
    const [low, high] = this.range;
    const t = (value - low) / Math.max(high - low, 1e-300);
    return HEIGHT - MARGIN.bottom - Math.min(1.02, Math.max(-0.02, t)) * (HEIGHT - MARGIN.top - MARGIN.bottom);
  }

  /** @param {Line[]} lines @param {any} theme @param {boolean} fromZero */
  show(lines, theme, fromZero) {
    this.lines = lines;
    let low = Infinity;
    let high = -Infinity;
    for (const { ys } of lines) {
      for (const y of ys) {
        if (!Number.isFinite(y)) continue;
        low = Math.min(low, y);
        high = Math.max(high, y);
      }
    }
    if (!(high >= low)) [low, high] = [0, 1];
    if (fromZero) low = Math.min(0, low);
    if (high - low < 1e-9) high = low + Math.max(1e-9, Math.abs(low) * 0.1);
    this.range = [low, high];
    this.pen.rect(0, 0, this.width, HEIGHT, theme.colours.card);
    this.paint(this.pen, theme);
  }

  /** @param {any} pen @param {any} theme */
  paint(pen, theme) {
    const { colours } = theme;
    const [low, high] = this.range ?? [0, 1];
    const right = this.width - MARGIN.right;
    for (const value of [low, (low + high) / 2, high]) {
      pen.strokes([MARGIN.left, this.y(value), right, this.y(value)], colours.border, 1, 1);
      pen.text(this.write(value), MARGIN.left - 5, this.y(value) + 4, { size: 10, anchor: "end", fill: colours.muted });
    }
    const decades = [];
    for (let p = -6; p <= 6; p++) if (p * Math.LN10 >= this.domain[0] - 1e-6 && p * Math.LN10 <= this.domain[1] + 1e-6) decades.push(10 ** p);
    for (const tick of decades) pen.text(format(tick), this.x(tick), HEIGHT - 8, { size: 10, anchor: "middle", fill: colours.muted });
    for (const { xs, ys, colour, dash, width } of this.lines) {
      const px = [];
      const py = [];
      for (let k = 0; k < xs.length; k++) {
        if (!Number.isFinite(ys[k])) continue;
        px.push(this.x(xs[k]));
        py.push(this.y(ys[k]));
      }
      if (px.length > 1) pen.polyline(px, py, colour, width, dash);
    }
  }

  /** @param {number} epsilon @param {number} coupling @param {number} attention */
  moveMark(epsilon, coupling, attention) {
    const x = this.x(epsilon);
    this.mark.style.transform = `translate(${x}px, ${MARGIN.top}px)`;
    const place = (/** @type {HTMLElement} */ node, /** @type {number} */ value) => {
      node.hidden = !Number.isFinite(value) || !this.range;
      if (!node.hidden) node.style.transform = `translate(${x}px, ${this.y(value)}px)`;
    };
    place(this.dot, coupling);
    place(this.other, attention);
  }
}

export class Curves {
  /** @param {import("./view.js").View} view */
  constructor(view) {
    this.view = view;
    this.cost = new Chart("Cost ⟨C, P⟩", format);
    this.information = new Chart("Mutual information, nat", format);
    this.partners = new Chart("Effective partners", format);
    this.pairs = new Chart("Mass of each pinned pair", percent);
    this.charts = [this.cost, this.information, this.partners, this.pairs];
    this.note = h("span", { class: "muted" });
    this.node = h("section", { class: "card curves", "aria-label": "Curves over ε" }, [
      h("header", {}, [
        h("h2", { text: "Over ε" }),
        h("span", { class: "muted", text: "full line: converged coupling, dashed: attention, dots: as shown now" }),
        this.note,
        why("the curves", WHY),
      ]),
      h("div", { class: "charts" }, this.charts.map((chart) => chart.node)),
    ]);
    this.reset();
  }

  /** Forget the numbers: other weights, other texts or another level. */
  reset() {
    /** @type {({coupling: number[], attention: number[]} | null)[]} */
    this.data = [];
  }

  layout() {
    const { view } = this;
    const grid = view.model.epsilons;
    /** @type {[number, number]} */
    const domain = [grid[grid.length - 1] / view.model.unit, grid[0] / view.model.unit];
    for (const chart of this.charts) chart.layout(view, domain);
    this.draw();
  }

  /** @param {{index: number, coupling: number[], attention: number[]}} point */
  add(point) {
    this.data[point.index] = point;
  }

  /** @param {number} which @returns {Line[]} */
  lines(which) {
    const { colours } = this.view.theme;
    const known = this.data.map((d, k) => [d, k]).filter(([d]) => d);
    const xs = known.map(([, k]) => this.view.model.epsilons[Number(k)] / this.view.model.unit);
    return [
      { xs, ys: known.map(([d]) => /** @type {any} */ (d).attention[which]), colour: colours.muted, dash: [4, 3], width: 1.5 },
      { xs, ys: known.map(([d]) => /** @type {any} */ (d).coupling[which]), colour: colours.source, dash: [], width: 2 },
    ];
  }

  draw() {
    const { view } = this;
    // Numbers may be there before the first frame has made room for them.
    if (!this.cost.context) return;
    this.cost.show(this.lines(0), view.theme, false);
    this.information.show(this.lines(1), view.theme, true);
    this.partners.show(this.lines(2), view.theme, true);
    this.drawPairs();
    this.mark();
  }

  drawPairs() {
    const { view } = this;
    const xs = Array.from(view.model.epsilons, (e) => e / view.model.unit);
    const pairs = view.pinned.list.filter((pin) => pin.rows && pin.columns);
    /** @type {Line[]} */
    const lines = [];
    for (const { pin, index } of pairs) {
      const { coupling, attention } = view.model.pairCurve(/** @type {[number, number]} */ (pin.source), /** @type {[number, number]} */ (pin.target));
      lines.push({ xs, ys: attention, colour: view.theme.pin(index), dash: [4, 3], width: 1.5 });
      lines.push({ xs, ys: coupling, colour: view.theme.pin(index), dash: [], width: 2 });
    }
    this.pairs.show(lines, view.theme, true);
    if (pairs.length === 0) setText(this.pairs.value, "pin a pair: click a cell");
    else
      setText(
        this.pairs.value,
        pairs
          .slice(0, 3)
          .map(({ rows, columns }) => `${isolate(clip(view.rows.labels[/** @type {any} */ (rows)[0]] ?? "", 12))} → ${isolate(clip(view.columns.labels[/** @type {any} */ (columns)[0]] ?? "", 12))}`)
          .join(", ") + (pairs.length > 3 ? ` and ${pairs.length - 3} more` : ""),
      );
  }

  /** The mark and the dots: moved, not drawn again. */
  mark() {
    const { view } = this;
    const epsilon = view.model.epsilon(view.settings) / view.model.unit;
    const { left, right } = view.sheets;
    const whole = !view.settings.source_range && !view.settings.target_range;
    this.cost.moveMark(epsilon, left.cost, right.cost);
    this.information.moveMark(epsilon, whole ? left.information : NaN, whole ? right.information : NaN);
    this.partners.moveMark(epsilon, whole ? left.meanPartners : NaN, whole ? right.meanPartners : NaN);
    this.pairs.moveMark(epsilon, NaN, NaN);
    const solved = this.data.filter(Boolean).length;
    const all = view.model.epsilons.length;
    const { facts, statuses } = view.model.payload.header;
    const missed = (statuses ?? []).filter((/** @type {string} */ s) => s !== "converged" && s !== "closed_form").length;
    const device = facts.device ? ` on ${facts.device}` : "";
    const time = facts.seconds > 0 ? ` in ${facts.seconds < 1 ? `${format(facts.seconds * 1000, 2)} ms` : `${format(facts.seconds, 2)} s`}` : "";
    setText(
      this.note,
      solved < all
        ? `${solved} of ${all} values of ε`
        : `${all} values of ε${view.model.fromPython ? ` solved${device}${time}` : " solved in the browser"}${missed && view.model.fromPython ? `, ${missed} short of the tolerance` : ""}`,
    );
  }
}

const WHY = [
  "Large ε spreads the mass: at ε → ∞ the plan is a⊗b, mutual information 0. Small ε sharpens it: at ε → 0 it is a cheapest plan, and 0 ≤ ⟨C, P⟩ − optimum ≤ ε·min(H(a), H(b)).",
  "Mutual information is that of P against its own marginals, so that attention and coupling compare. Effective partners: exp of the entropy of a row, mean over the mass.",
];
