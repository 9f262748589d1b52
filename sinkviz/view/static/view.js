/**
 * The live view: keeps the settings, decides what has to be computed and drawn again, and hands it to the pictures.
 * Everything between an input and the picture happens in one animation frame.
 */

import { Clouds } from "./clouds.js";
import { Theme, pageTheme } from "./colour.js";
import { Curves } from "./curves.js";
import { Dials } from "./dials.js";
import { h, isolate, setText } from "./dom.js";
import { Heatmap } from "./heatmap.js";
import { Lines, clip } from "./lines.js";
import { Model } from "./model.js";
import { format, parse, percent } from "./numbers.js";
import { decode } from "./payload.js";
import { History, MAXIMUM_PINS, QUERY_NAMES, copy, defaultSettings, infinite, plainWeights, same, toQuery } from "./settings.js";
import { Strip } from "./strip.js";
import { LinkTable, WeightTable } from "./tables.js";
import { Tasks } from "./tasks.js";
import { Tools } from "./tools.js";
import styles from "./view.css";

/** What may be out of date. */
const SHEETS = 1;
const ATTENTION = 2;
const COUPLING = 4;
const DRAW = 8;
const LIT = 16;
const LAYOUT = 32;
const PINS = 64;
const BARS = [1.25, 1.5, 2, 2.5, 3, 3.5, 4, 5, 6, 8, 10, 12, 15, 20, 30, 50, 80, 120, 200, 500, 1000];

/**
 * Where the user was when a page with these texts was left: Streamlit takes the view down on every page switch, and
 * mounts it again from the payload that it has kept.
 * @type {Map<string, {given: any, revision: number, settings: import("./settings.js").Settings, history: History}>}
 */
const lastSeen = new Map();

/**
 * @typedef {object} Component what Streamlit's components v2 hand over
 * @property {Uint8Array} data
 * @property {HTMLElement | ShadowRoot} parentElement
 * @property {(name: string, value: unknown) => void} [setStateValue]
 * @property {(name: string, value: unknown) => void} [setTriggerValue]
 * @property {Partial<import("./settings.js").Settings>} [settings] only in the offline file
 * @property {HTMLElement} [page] only in the offline file: the body, which takes the colours of the theme
 */

export class View {
  /** @param {Component} component @param {string} program */
  constructor(component, program) {
    this.component = component;
    this.style = h("style", { text: styles });
    this.root = h("div", { class: "sinkviz" });
    /** A way in for tests and the benchmark. */
    this.root.view = this;
    this.lit = { source: -1, target: -1 };
    this.brushed = /** @type {{side: string, from: number, to: number} | null} */ (null);
    this.settings = defaultSettings();
    this.history = new History(this.settings);
    this.tasks = new Tasks();
    this.dirty = 0;
    this.request = 0;
    this.key = "";
    this.toldAt = 0;
    /** Measured by the benchmark: milliseconds of script in the last frames. @type {number[]} */
    this.frames = [];
    this.theme = new Theme("light");
    this.dials = new Dials(this);
    this.tools = new Tools(this, program);
    this.strip = new Strip(this);
    this.links = new LinkTable(this);
    this.weightTable = new WeightTable(this);
    this.pictures = {
      lines: { left: new Lines(this, "left"), right: new Lines(this, "right") },
      heatmaps: { left: new Heatmap(this, "left"), right: new Heatmap(this, "right") },
      clouds: { left: new Clouds(this, "left"), right: new Clouds(this, "right") },
      curves: new Curves(this),
    };
    this.tip = h("div", { class: "tip", hidden: true });
    this.announce = h("div", { class: "unseen", role: "status", "aria-live": "polite" });
    this.message = h("p", { class: "message", role: "status" });
    this.editor = this.makeEditor();
    const { lines, heatmaps, clouds, curves } = this.pictures;
    this.help = h("p", { class: "caption keys", text: "Hover lights a token everywhere, click pins it, Escape clears. With the keyboard: Tab to a picture, arrows move, Enter pins, E edits a weight, O opens a pair of sentences. Drag across words or cells to look at a part." });
    this.body = h("div", { class: "body" }, [
      h("div", { class: "card panel" }, [this.dials.node, this.tools.node, this.tools.range, this.message]),
      this.strip.node,
      h("div", { class: "pair" }, [lines.left.node, lines.right.node, heatmaps.left.node, heatmaps.right.node, clouds.left.node, clouds.right.node]),
      curves.node,
      this.links.node,
      this.weightTable.node,
      this.help,
      this.tip,
      this.editor.node,
      this.announce,
    ]);
    this.root.append(this.body);
    component.parentElement.append(this.style, this.root);
    this.root.onkeydown = (/** @type {KeyboardEvent} */ event) => this.onKey(event);
    this.resize = new ResizeObserver(() => {
      const width = this.root.clientWidth;
      if (width && width !== this.width) {
        this.width = width;
        this.invalidate(LAYOUT);
      }
    });
    this.resize.observe(this.root);
    // Pictures outside the screen are not drawn while dragging; they catch up when they come into sight.
    this.hidden = new Set();
    const owners = new Map();
    for (const kind of /** @type {const} */ (["lines", "heatmaps", "clouds"])) {
      for (const side of /** @type {const} */ (["left", "right"])) owners.set(this.pictures[kind][side].node, this.pictures[kind][side]);
    }
    this.sight = new IntersectionObserver(
      (entries) => {
        for (const entry of entries) {
          const picture = owners.get(entry.target);
          if (entry.isIntersecting) {
            if (this.hidden.delete(picture)) this.invalidate(DRAW);
          } else this.hidden.add(picture);
        }
      },
      { rootMargin: "120px" },
    );
    for (const node of owners.keys()) this.sight.observe(node);
    this.preference = globalThis.matchMedia?.("(prefers-color-scheme: dark)");
    this.onPreference = () => this.readTheme();
    this.preference?.addEventListener("change", this.onPreference);
  }

  /** New data, a new theme, or both. @param {Component} component */
  update(component) {
    this.component = component;
    const { data } = component;
    if (data !== this.data) {
      this.data = data;
      try {
        this.take(decode(data));
      } catch (error) {
        this.root.classList.add("failed");
        setText(this.message, `These pictures cannot be drawn. ${error instanceof Error ? error.message : error}`);
        return;
      }
    }
    this.readTheme();
  }

  /** @param {import("./payload.js").Payload} payload */
  take(payload) {
    const { header } = payload;
    const given = { ...header.settings, ...(this.component.settings ?? {}) };
    const sameTexts = header.texts_key === this.textsKey;
    const sameProblem = header.key === this.key;
    this.root.classList.remove("failed");
    const asked = !this.given || !same(given, this.given);
    this.given = copy(given);
    if (sameProblem && !asked && header.revision === this.revision) {
      setText(this.message, "");
      return;
    }
    this.key = header.key;
    this.textsKey = header.texts_key;
    this.bytes = this.data;
    this.root.classList.remove("old");
    setText(this.message, "");
    if (!sameTexts) {
      // Other texts: everything starts anew.
      this.model = new Model(payload);
      const before = lastSeen.get(header.texts_key);
      const back = before && before.revision === header.revision && same(before.given, given);
      this.settings = { ...defaultSettings(), ...copy(back ? before.settings : given) };
      this.clampSettings();
      this.history = back ? before.history : new History(this.settings);
      this.sent = copy(this.settings);
      this.opened = null;
    } else {
      if (!sameProblem) this.model = new Model(payload);
      // Settings that come with new weights are those the view sent; it may have moved on since. What it did not send
      // comes from a link or from Back.
      const elsewhere = header.revision !== this.revision || (sameProblem && asked);
      if (elsewhere && !same(given, this.settings)) {
        this.settings = { ...defaultSettings(), ...copy(given) };
        this.clampSettings();
        this.history.push(this.settings);
        this.sent = copy(this.settings);
      }
    }
    this.revision = header.revision;
    this.tip.hidden = true;
    this.lit = { source: -1, target: -1 };
    this.tasks.stop();
    this.pictures.curves.reset();
    if (this.model.chooseWeights(this.settings) === "empty") this.settings.weights = { source: plainWeights(), target: plainWeights() };
    this.invalidate(SHEETS | ATTENTION | COUPLING);
    this.background();
    this.weightTable.draw();
  }

  /** Settings that do not fit these texts (a link made for others) lose the part that does not fit. */
  clampSettings() {
    const { settings, model } = this;
    for (const side of /** @type {const} */ (["source", "target"])) {
      const count = model.sides[side].count;
      const name = /** @type {"source_range" | "target_range"} */ (`${side}_range`);
      const range = settings[name];
      if (range && range[0] >= count) settings[name] = null;
      else if (range && range[1] > count) settings[name] = [range[0], count];
      settings.pins = settings.pins.filter((pin) => !pin[side] || pin[side][0] < count);
      for (const k of Object.keys(settings.weights[side].factors)) if (Number(k) >= count) delete settings.weights[side].factors[k];
    }
    const [low, high] = this.dials.epsilonRange();
    settings.epsilon = Math.min(high, Math.max(low, settings.epsilon));
  }

  readTheme() {
    const name = pageTheme(this.root);
    const font = getComputedStyle(this.root).fontFamily || "sans-serif";
    if (this.theme.name !== name || !this.themed || this.theme.font !== font) {
      if (this.theme.name !== name) this.theme = new Theme(name);
      this.theme.font = font;
      this.themed = true;
      const { colours } = this.theme;
      for (const key of /** @type {const} */ (["page", "card", "border", "text", "muted", "source", "target", "source_text", "target_text", "good", "wrong", "no_mass"])) {
        this.root.style.setProperty(`--${key.replace("_", "-")}`, colours[key]);
      }
      if (this.component.page) Object.assign(this.component.page.style, { background: colours.page, color: colours.text });
      this.root.dataset.theme = name;
      this.invalidate(LAYOUT);
    }
  }

  /** @param {number} what */
  invalidate(what) {
    this.dirty |= what;
    if (!this.request) this.request = requestAnimationFrame(() => this.frame());
  }

  frame() {
    this.request = 0;
    if (!this.model || !this.root.isConnected) return;
    const start = performance.now();
    const { pictures, settings, model } = this;
    let dirty = this.dirty;
    this.dirty = 0;
    if (dirty & SHEETS) {
      const { level, left, right } = model.sheets(settings);
      this.level = level;
      this.sheets = { left, right };
      this.rows = model.rows;
      this.columns = model.columns;
      this.resolvePins();
      this.fixedTops();
      this.lit = { source: -1, target: -1 };
      dirty |= LAYOUT | PINS;
    }
    if (!this.sheets) return;
    const epsilon = model.epsilon(settings);
    const gliding = this.moving && dirty & ATTENTION && !(dirty & SHEETS) && model.glide(settings, this.sheets);
    if (gliding) {
      // The plan itself once the dial rests.
      clearTimeout(this.exactTimer);
      this.exactTimer = setTimeout(() => {
        this.moving = false;
        this.invalidate(ATTENTION | COUPLING);
      }, 160);
    } else if (dirty & ATTENTION) model.attention(epsilon);
    if (dirty & COUPLING && !gliding) {
      const done = model.couple(settings, start + 9);
      if (model.status.kind === "pending") this.root.classList.add("old");
      else this.root.classList.remove("old");
      if (!done) {
        if (model.status.kind === "steps") this.invalidate(COUPLING);
        else this.settle(model.status.kind === "pending" ? 0 : 140);
      }
    }
    const pending = model.status.kind === "pending";
    if (dirty & (ATTENTION | SHEETS) && !gliding) model.read(this.sheets.right, model.right);
    if (dirty & (COUPLING | SHEETS) && !pending && !gliding) model.read(this.sheets.left, model.left);
    if (dirty & (ATTENTION | COUPLING | SHEETS)) dirty |= DRAW;
    if (dirty & DRAW) this.movingTops();
    if (dirty & LAYOUT) {
      this.width = this.root.clientWidth;
      for (const side of /** @type {const} */ (["left", "right"])) {
        pictures.lines[side].layout();
        pictures.heatmaps[side].layout();
        pictures.clouds[side].layout();
        pictures.heatmaps[side].describe();
      }
      pictures.curves.layout();
      dirty |= DRAW | PINS;
      this.tools.show();
    }
    if (dirty & PINS) {
      for (const side of /** @type {const} */ (["left", "right"])) {
        pictures.heatmaps[side].markPins();
        pictures.clouds[side].drawPoints();
      }
      pictures.curves.drawPairs();
      dirty |= DRAW;
    }
    if (dirty & (DRAW | LIT)) {
      for (const side of /** @type {const} */ (["left", "right"])) {
        // The right panel follows ε alone: the second dial leaves it as it is.
        const numbers = side === "left" || dirty & (ATTENTION | SHEETS | LAYOUT);
        if (!numbers && !(dirty & (PINS | LIT)) && !this.scaleMoved) continue;
        if (dirty & DRAW && numbers) pictures.lines[side].choose();
        if (!this.hidden.has(pictures.lines[side])) pictures.lines[side].draw(!(dirty & (LIT | LAYOUT | PINS)));
        if (!this.hidden.has(pictures.clouds[side])) pictures.clouds[side].draw();
        if (dirty & DRAW && !this.hidden.has(pictures.heatmaps[side])) pictures.heatmaps[side].draw();
        if (dirty & (LIT | LAYOUT | PINS)) {
          pictures.lines[side].mark();
          pictures.heatmaps[side].mark();
          if (dirty & LIT) pictures.clouds[side].mark();
        }
      }
    }
    if (dirty & DRAW) {
      this.dials.show();
      pictures.curves.mark();
      // Nobody reads words at sixty a second: while a dial moves they follow ten times a second, and at the end.
      if (start - this.toldAt > 100 || dirty & (LAYOUT | PINS)) this.words(start);
      else {
        clearTimeout(this.wordTimer);
        this.wordTimer = setTimeout(() => this.words(performance.now()), 110);
      }
    }
    this.frames.push(performance.now() - start);
    if (this.frames.length > 600) this.frames.shift();
  }

  /** The sentences and figures around the pictures. @param {number} now */
  words(now) {
    if (!this.sheets) return;
    clearTimeout(this.wordTimer);
    this.toldAt = now;
    const moved = this.legendKey !== this.legendOf();
    this.legendKey = this.legendOf();
    for (const side of /** @type {const} */ (["left", "right"])) {
      this.pictures.lines[side].describe();
      if (moved) this.pictures.heatmaps[side].drawLegend();
    }
    this.strip.draw();
    this.tell();
    this.restSoon();
  }

  legendOf() {
    return `${this.theme.name} ${this.settings.colour} ${this.topWeight} ${this.topLift} ${this.level}`;
  }

  /** Ends of the scales that stay while the dials move. */
  fixedTops() {
    const { rows, columns } = this;
    const sum = (/** @type {Float64Array} */ w) => w.reduce((s, v) => s + v, 0);
    const { settings } = this;
    const restricted = settings.renormalise && (settings.source_range || settings.target_range);
    this.rowNorm = restricted && sum(rows.weights) > 0 ? 1 / sum(rows.weights) : 1;
    this.columnNorm = restricted && sum(columns.weights) > 0 ? 1 / sum(columns.weights) : 1;
    this.restricted = Boolean(restricted);
    // No pair can carry more than its source weighs: one scale for both panels and every ε.
    this.topWeight = Math.max(...chunkMax(rows.weights), 1e-12) * this.rowNorm;
    this.topPair = Math.max(...chunkMax(rows.weights), ...chunkMax(columns.weights));
    this.heaviest = Math.max(...chunkMax(columns.weights), 1e-12) * this.columnNorm;
    this.topLift = Math.max(1, Math.ceil(2 * Math.log(Math.max(rows.count, columns.count))) / 2);
    this.renorm = { left: 1, right: 1 };
    this.liftShift = { left: 0, right: 0 };
  }

  /** Ends of the scales that follow the numbers: in steps, so that bars do not tremble. */
  movingTops() {
    const { left, right } = this.sheets;
    if (this.restricted) {
      for (const side of /** @type {const} */ (["left", "right"])) {
        const { total } = this.sheets[side];
        this.renorm[side] = total > 0 ? 1 / total : 1;
        this.liftShift[side] = Math.log(this.renorm[side] / (this.rowNorm * this.columnNorm));
      }
    }
    let most = this.heaviest;
    for (const side of /** @type {const} */ (["left", "right"])) {
      const sheet = this.sheets[side];
      for (let j = 0; j < sheet.m; j++) most = Math.max(most, (sheet.received[j] + sheet.nullTarget[j]) * this.renorm[side]);
    }
    const topBar = this.heaviest * (BARS.find((b) => b * this.heaviest >= most * 0.999) ?? most / this.heaviest);
    let given = this.topWeight;
    for (const side of /** @type {const} */ (["left", "right"])) {
      const sheet = this.sheets[side];
      for (let i = 0; i < sheet.n; i++) given = Math.max(given, (sheet.given[i] + sheet.nullSource[i]) * this.renorm[side]);
    }
    let price = 1e-12;
    for (const sheet of [left, right]) for (let i = 0; i < sheet.n; i++) price = Math.max(price, Math.abs(sheet.price[i]));
    const step = 2 ** Math.ceil(Math.log2(price));
    const topRow = this.topWeight * (BARS.find((b) => b * this.topWeight >= given * 0.999) ?? given / this.topWeight);
    this.scaleMoved = topBar !== this.topBar || step !== this.topPrice || topRow !== this.topRow;
    this.topBar = topBar;
    this.topPrice = step;
    this.topRow = topRow;
  }

  /** Words beside the dials, and the status. */
  tell() {
    const { model, sheets, settings } = this;
    const { status } = model;
    // A plan that misses its columns may cost less than the optimum: no share of it to speak of.
    const share = sheets.left.columnError < 1e-3 ? model.optimumShare(sheets.left.cost) : null;
    let optimum = "";
    if (share) {
      const close = share[1] - share[0] < 0.005;
      optimum = close ? ` · ${percent((share[0] + share[1]) / 2)} of the optimum` : ` · ${percent(share[0])} to ${percent(share[1])} of the optimum`;
    }
    const mixed = settings.source_range || settings.target_range ? "" : ` a ${this.level}`;
    const first = status.kind === "pending" ? "being solved" : `${format(sheets.left.meanPartners, 2)} partners${mixed}${optimum}`;
    const end = settings.mode === "steps" ? "→ Sinkhorn" : "→ ∞, Sinkhorn";
    this.dials.tell(first, end);
    const { node } = { node: this.tools.status };
    const error = `columns off by ${percent(status.residual / 2)}`;
    const words = {
      pending: "old picture: being solved again",
      converged: `converged, ${format(status.residual, 2)}`,
      gliding: "between values of the grid while the dial moves",
      interpolated: `close: ${settings.mode === "relaxation" ? "residual" : "columns off by"} ${format(status.residual, 2)}`,
      relaxed: `relaxed solve converged, ${format(status.residual, 2)}`,
      steps: status.shown === settings.steps ? `half-step ${format(status.shown ?? 0, 5)}, ${error}` : `at half-step ${format(status.shown ?? 0, 5)} of ${format(infinite(settings.steps), 5)}`,
    }[status.kind];
    setText(node, `${status.kind === "converged" || status.kind === "relaxed" ? "● " : "○ "}${words}`);
    node.classList.toggle("good", status.kind === "converged" || status.kind === "relaxed");
  }

  leftName() {
    const { settings, model } = this;
    const kind = model.partial ? "with a null partner" : "";
    if (settings.mode === "relaxation" && settings.relaxation !== "inf") {
      return settings.relaxation === 0 ? "ρ = 0: softmax" : `columns relaxed, ρ = ${format(settings.relaxation)} ${kind}`.trim();
    }
    if (settings.mode === "steps" && settings.steps !== "inf") {
      return settings.steps === 0.5 ? "half-step ½: softmax" : `half-step ${format(model.status.shown ?? settings.steps, 5)} of Sinkhorn ${kind}`.trim();
    }
    return `Sinkhorn: both marginals hold ${kind}`.trim();
  }

  /** After the dials have come to rest. */
  restSoon() {
    clearTimeout(this.restTimer);
    this.restTimer = setTimeout(() => {
      this.links.draw();
      this.tools.show();
      this.describeForReaders();
    }, 180);
  }

  describeForReaders() {
    const { left, right } = this.sheets;
    const name = `${this.rows.count} by ${this.columns.count} ${this.level}s`;
    for (const side of /** @type {const} */ (["left", "right"])) {
      const sheet = side === "left" ? left : right;
      const what = side === "left" ? `Coupling, ${this.leftName()}` : "Attention, softmax";
      const facts = `${name}. Mutual information ${format(sheet.information)} nat, ${percent(sheet.missed)} of the mass misses the target's weights.`;
      this.pictures.lines[side].stage.setAttribute("aria-label", `Transport lines. ${what}. ${facts} The links are in the table below.`);
      this.pictures.heatmaps[side].stage.setAttribute("aria-label", `Heatmap. ${what}. ${facts}`);
      this.pictures.clouds[side].stage.setAttribute("aria-label", `Clouds in the plane. ${what}. ${facts}`);
    }
  }

  /** Solve the present setting to the end once the dial rests. @param {number} wait */
  settle(wait) {
    clearTimeout(this.settleTimer);
    this.settleTimer = setTimeout(() => {
      this.tasks.start("refine", this.model.refine(copy(this.settings)), {
        first: true,
        done: () => {
          this.invalidate(COUPLING);
          this.background();
        },
      });
    }, wait);
    this.tasks.yieldTo(wait);
  }

  /** The rest of the path, then the curves. */
  background() {
    const { model } = this;
    if (model.status.kind === "pending" && !model.path.some(Boolean) && model.exactAt.epsilon === 0) return;
    if (!model.pathComplete) {
      if (!this.tasks.has("path")) this.tasks.start("path", model.fillPath(), { done: () => this.background() });
      return;
    }
    const { curves } = this.pictures;
    if (curves.data.filter(Boolean).length === model.epsilons.length && this.curveLevel === model.levelOf(this.settings)) return;
    this.curveLevel = model.levelOf(this.settings);
    curves.reset();
    let drawn = 0;
    this.tasks.start("curves", model.curves(copy(this.settings)), {
      each: (point) => {
        if (!point) return;
        curves.add(point);
        if (performance.now() - drawn > 250) {
          drawn = performance.now();
          curves.draw();
        }
      },
      done: () => curves.draw(),
    });
  }

  /**
   * Change settings.
   * @param {Partial<import("./settings.js").Settings>} patch
   * @param {boolean} final whether the gesture is over: only then Python hears of it
   */
  set(patch, final) {
    const before = this.settings;
    this.settings = { ...before, ...patch };
    const changed = (/** @type {keyof import("./settings.js").Settings} */ name) => name in patch && !same(before[name], this.settings[name]);
    if (changed("epsilon")) this.invalidate(ATTENTION | COUPLING);
    if (changed("steps") || changed("relaxation") || changed("mode")) this.invalidate(COUPLING);
    if (changed("colour") || changed("share")) this.invalidate(DRAW | LAYOUT);
    if (changed("level") || changed("source_range") || changed("target_range") || changed("renormalise")) this.invalidate(SHEETS | ATTENTION | COUPLING);
    if (changed("pins")) {
      this.resolvePins();
      this.invalidate(PINS | LIT);
    }
    this.tasks.yieldTo();
    this.moving = !final;
    if (final) this.commit();
  }

  /** Remember the settings for undo, and tell Python. */
  commit() {
    if (this.history.push(this.settings)) this.tools.show();
    if (same(this.settings, this.sent)) return;
    this.sent = copy(this.settings);
    this.component.setStateValue?.("settings", copy(this.settings));
  }

  /** @param {-1 | 1} step */
  travel(step) {
    const settings = this.history.move(step);
    if (settings) this.replace(settings);
  }

  reset() {
    const plain = { ...defaultSettings(), level: null };
    this.history.push(plain);
    this.replace(plain);
  }

  /** @param {import("./settings.js").Settings} settings */
  replace(settings) {
    const weights = !same(settings.weights, this.settings.weights);
    this.settings = copy(settings);
    if (weights) this.followWeights();
    this.invalidate(SHEETS | ATTENTION | COUPLING);
    this.weightTable.draw();
    this.say("");
    this.commit();
    this.tools.show();
  }

  /** @param {string} level */
  zoom(level) {
    this.set({ level: /** @type {any} */ (level) }, true);
    this.background();
  }

  whole() {
    const back = this.opened && this.model.allowedLevels.includes(this.opened) ? { level: /** @type {any} */ (this.opened) } : {};
    this.opened = null;
    this.set({ source_range: null, target_range: null, ...back }, true);
  }

  /** @param {"source" | "target"} name */
  countOf(name) {
    return this.model.elements(name, this.level, null).count;
  }

  canOpen() {
    return this.model.allowedLevels.some((level) => level !== "sentence");
  }

  /** Open a pair of sentences: its words alone. @param {number} i @param {number} j */
  open(i, j) {
    this.opened = this.level;
    const level = this.model.allowedLevels.includes("word") ? "word" : this.model.allowedLevels[0];
    this.set(
      {
        level: /** @type {any} */ (level),
        source_range: [this.rows.first[i], this.rows.last[i]],
        target_range: [this.columns.first[j], this.columns.last[j]],
      },
      true,
    );
  }

  /** @param {"source" | "target"} side @param {number} from @param {number} to */
  brush(side, from, to) {
    const elements = side === "source" ? this.rows : this.columns;
    this.set({ [`${side}_range`]: [elements.first[from], elements.last[to]] }, true);
  }

  /** @param {number} i0 @param {number} i1 @param {number} j0 @param {number} j1 inclusive; −1 leaves a side alone */
  brushBlock(i0, i1, j0, j1) {
    /** @type {any} */
    const patch = {};
    if (i0 >= 0) patch.source_range = [this.rows.first[i0], this.rows.last[i1]];
    if (j0 >= 0) patch.target_range = [this.columns.first[j0], this.columns.last[j1]];
    this.set(patch, true);
  }

  /** @param {string} side @param {number} from @param {number} to */
  preview(side, from, to) {
    this.brushed = from < 0 ? null : { side, from: Math.min(from, to), to: Math.max(from, to) };
    this.invalidate(LIT);
  }

  /** Atoms of an element. @param {"source" | "target"} side @param {number} index @returns {[number, number] | null} */
  atoms(side, index) {
    const e = side === "source" ? this.rows : this.columns;
    return index >= 0 && index < e.count ? [e.first[index], e.last[index]] : null;
  }

  /** @param {number} source @param {number} target */
  pin(source, target) {
    const pin = { source: this.atoms("source", source), target: this.atoms("target", target) };
    if (!pin.source && !pin.target) return;
    const pins = this.settings.pins.filter((p) => !same(p, pin));
    if (pins.length === this.settings.pins.length) {
      if (pins.length >= MAXIMUM_PINS) return this.say(`At most ${MAXIMUM_PINS} pins; Escape clears them.`);
      pins.push(pin);
    }
    this.set({ pins }, true);
    this.speak(this.describePair(source, target, pins.length > this.settings.pins.length ? "Unpinned" : "Pinned"));
  }

  unpinLast() {
    this.set({ pins: this.settings.pins.slice(0, -1) }, false);
  }

  /** Pins as elements of the present level; their colours keep the order in which they were pinned. */
  resolvePins() {
    const { rows, columns } = this;
    if (!rows) return;
    const within = (/** @type {any} */ e, /** @type {[number, number] | null} */ range) => {
      if (!range) return null;
      let from = -1;
      let to = -1;
      for (let k = 0; k < e.count; k++) {
        if (e.first[k] < range[1] && e.last[k] > range[0]) {
          if (from < 0) from = k;
          to = k + 1;
        }
      }
      return from < 0 ? undefined : /** @type {[number, number]} */ ([from, to]);
    };
    const list = [];
    const rowPins = new Int8Array(rows.count).fill(-1);
    const columnPins = new Int8Array(columns.count).fill(-1);
    for (const [index, pin] of this.settings.pins.entries()) {
      const r = within(rows, pin.source);
      const c = within(columns, pin.target);
      if (r === undefined || c === undefined) continue;
      list.push({ pin, index, rows: r, columns: c });
      if (r) rowPins.fill(index, r[0], r[1]);
      if (c) columnPins.fill(index, c[0], c[1]);
    }
    this.pinned = {
      list,
      row: (/** @type {number} */ i) => rowPins[i],
      column: (/** @type {number} */ j) => columnPins[j],
      colour: (/** @type {number} */ i, /** @type {number} */ j) => {
        for (let k = list.length - 1; k >= 0; k--) {
          const { rows: r, columns: c, index } = list[k];
          if ((!r || (i >= r[0] && i < r[1])) && (!c || (j >= c[0] && j < c[1]))) return index;
        }
        return -1;
      },
    };
  }

  /** @param {number} source @param {number} target @param {MouseEvent} [event] */
  hover(source, target, event) {
    if (source !== this.lit.source || target !== this.lit.target) {
      this.lit = { source, target };
      this.invalidate(LIT);
      this.fillTip();
    }
    if (event && (source >= 0 || target >= 0)) this.placeTip(event.clientX, event.clientY);
    else this.tip.hidden = true;
  }

  /** @param {number} x @param {number} y */
  placeTip(x, y) {
    const box = this.root.getBoundingClientRect();
    this.tip.hidden = false;
    const width = 250;
    const left = Math.min(x - box.left + 16, Math.max(0, box.width - width - 8));
    const below = y + 150 < globalThis.innerHeight;
    this.tip.style.transform = `translate(${Math.max(4, left)}px, ${y - box.top + (below ? 18 : -12)}px)${below ? "" : " translateY(-100%)"}`;
  }

  fillTip() {
    const { source, target } = this.lit;
    if (source < 0 && target < 0) return;
    const { left, right } = this.sheets;
    const { renorm } = this;
    const name = [source >= 0 ? this.rows.labels[source] : null, target >= 0 ? this.columns.labels[target] : null].filter((t) => t !== null);
    const title = h("div", { class: "tip-title" }, [
      source >= 0 ? h("bdi", { class: "source-text", text: clip(name[0] ?? "", 120) }) : null,
      source >= 0 && target >= 0 ? h("span", { text: " → " }) : null,
      target >= 0 ? h("bdi", { class: "target-text", text: clip(name[name.length - 1] ?? "", 120) }) : null,
    ]);
    /** @type {[string, string, string][]} */
    const lines = [];
    if (source >= 0 && target >= 0) {
      const p = left.mass[source * left.m + target];
      const q = right.mass[source * right.m + target];
      lines.push(["mass", percent(p * renorm.left), percent(q * renorm.right)]);
      lines.push(["of the source word", share(p, left.given[source]), share(q, right.given[source])]);
      lines.push(["of the target word", share(p, left.received[target]), share(q, right.received[target])]);
      lines.push(["log-lift, nat", format(left.lift(source, target) + this.liftShift.left), format(right.lift(source, target) + this.liftShift.right)]);
    } else if (source >= 0) {
      lines.push(["weight", percent(this.rows.weights[source] * this.rowNorm), ""]);
      lines.push(["given", percent(left.given[source] * renorm.left), percent(right.given[source] * renorm.right)]);
      if (this.model.partial) lines.push(["no partner", percent(left.nullSource[source] * renorm.left), percent(right.nullSource[source] * renorm.right)]);
      lines.push(["effective partners", format(left.partners[source]), format(right.partners[source])]);
      lines.push(["price", format(left.price[source]), format(right.price[source])]);
    } else {
      lines.push(["weight", percent(this.columns.weights[target] * this.columnNorm), ""]);
      lines.push(["received", percent(left.received[target] * renorm.left), percent(right.received[target] * renorm.right)]);
      lines.push(["of its weight", share(left.received[target], this.columns.weights[target]), share(right.received[target], this.columns.weights[target])]);
      if (this.model.partial) lines.push(["no partner", percent(left.nullTarget[target] * renorm.left), percent(right.nullTarget[target] * renorm.right)]);
    }
    this.tip.replaceChildren(
      title,
      h("div", { class: "tip-grid" }, [
        h("span"),
        h("span", { class: "muted", text: "coupling" }),
        h("span", { class: "muted", text: "attention" }),
        ...lines.flatMap(([what, one, other]) => [h("span", { class: "muted", text: what }), h("span", { text: one }), h("span", { text: other })]),
      ]),
    );
  }

  /** @param {number} source @param {number} target @param {string} verb */
  describePair(source, target, verb = "") {
    const { left, right } = this.sheets;
    const s = source >= 0 ? isolate(this.rows.labels[source]) : "";
    const t = target >= 0 ? isolate(this.columns.labels[target]) : "";
    if (source >= 0 && target >= 0) {
      const k = source * left.m + target;
      return `${verb} ${s} to ${t}: coupling ${percent(left.mass[k] * this.renorm.left)}, attention ${percent(right.mass[k] * this.renorm.right)} of the mass`;
    }
    if (source >= 0) return `${verb} source ${s}, weight ${percent(this.rows.weights[source])}, ${format(left.partners[source], 2)} partners`;
    return `${verb} target ${t}, weight ${percent(this.columns.weights[target])}, received ${percent(left.received[target])}, from attention ${percent(right.received[target])}`;
  }

  /** @param {string} text for screen readers */
  speak(text) {
    setText(this.announce, text.trim());
  }

  /** @param {string} text for everyone */
  say(text) {
    setText(this.message, text);
  }

  /** @param {KeyboardEvent} event */
  onKey(event) {
    if (event.key === "Escape") {
      if (!this.editor.node.hidden) return this.editor.close();
      this.hover(-1, -1);
      if (this.settings.pins.length) this.set({ pins: [] }, true);
      else if (this.settings.source_range || this.settings.target_range) this.whole();
      return;
    }
    if ((event.ctrlKey || event.metaKey) && event.key.toLowerCase() === "z") {
      event.preventDefault();
      this.travel(event.shiftKey ? 1 : -1);
      return;
    }
    if (event.ctrlKey || event.metaKey || event.altKey) return;
    const stage = /** @type {HTMLElement} */ (event.composedPath()[0]);
    const isMatrix = stage.classList?.contains("matrix");
    const isText = stage.classList?.contains("stage") || stage.classList?.contains("cloud");
    if (!isMatrix && !isText) return;
    const { n, m } = this.sheets.left;
    let { source, target } = this.lit;
    const bound = (/** @type {number} */ v, /** @type {number} */ count) => Math.min(count - 1, Math.max(0, v));
    if (isMatrix) {
      const [di, dj] = { ArrowUp: [-1, 0], ArrowDown: [1, 0], ArrowLeft: [0, -1], ArrowRight: [0, 1] }[event.key] ?? [0, 0];
      if (di || dj) {
        source = source < 0 ? 0 : bound(source + di, n);
        target = target < 0 ? 0 : bound(target + dj, m);
        event.preventDefault();
        return this.point(source, target, stage);
      }
    } else {
      const step = { ArrowLeft: -1, ArrowRight: 1 }[event.key];
      if (step) {
        event.preventDefault();
        if (target >= 0 && source < 0) return this.point(-1, bound(target + step, m), stage);
        return this.point(source < 0 ? 0 : bound(source + step, n), -1, stage);
      }
      if (event.key === "ArrowDown" || event.key === "ArrowUp") {
        event.preventDefault();
        const down = event.key === "ArrowDown";
        const at = Math.max(source, target, 0);
        return down ? this.point(-1, bound(at, m), stage) : this.point(bound(at, n), -1, stage);
      }
    }
    if (source < 0 && target < 0) return;
    if (event.key === "Enter" || event.key === " ") {
      event.preventDefault();
      this.pin(source, target);
    } else if (event.key.toLowerCase() === "o" && this.level === "sentence" && source >= 0 && target >= 0) this.open(source, target);
    else if (event.key.toLowerCase() === "e") {
      event.preventDefault();
      const box = stage.getBoundingClientRect();
      this.edit(source >= 0 ? "source" : "target", source >= 0 ? source : target, { clientX: box.left + 40, clientY: box.top + 40 });
    }
  }

  /** Light something by keyboard, and say it. @param {number} source @param {number} target @param {HTMLElement} stage */
  point(source, target, stage) {
    const box = stage.getBoundingClientRect();
    const x = box.left + box.width * (target >= 0 ? (target + 0.5) / this.sheets.left.m : (source + 0.5) / this.sheets.left.n);
    this.hover(source, target, /** @type {any} */ ({ clientX: x, clientY: box.top + Math.min(box.height - 10, 80) }));
    this.speak(this.describePair(source, target));
  }

  /** The small box that edits one weight. */
  makeEditor() {
    const title = h("label", { for: "sinkviz-factor" });
    const field = h("input", { type: "text", inputmode: "decimal", class: "number", "aria-label": "Factor of the weight" });
    const node = h("div", { class: "editor", hidden: true, role: "dialog", "aria-label": "Edit a weight" });
    /** @type {{side: "source" | "target", from: number, to: number, back: Element | null}} */
    const at = { side: "source", from: 0, to: 0, back: null };
    const close = () => {
      node.hidden = true;
      /** @type {any} */ (at.back)?.focus?.();
    };
    const apply = (/** @type {number} */ factor) => {
      if (!(factor >= 0) || !Number.isFinite(factor)) {
        field.classList.add("wrong");
        return;
      }
      close();
      this.setFactor(at.side, at.from, at.to, factor);
    };
    field.onkeydown = (/** @type {KeyboardEvent} */ event) => {
      event.stopPropagation();
      if (event.key === "Enter") apply(parse(field.value));
      if (event.key === "Escape") close();
    };
    title.removeAttribute("for");
    node.append(
      title,
      field,
      h("button", { type: "button", text: "set", onclick: () => apply(parse(field.value)) }),
      h("button", { type: "button", text: "leave out", onclick: () => apply(0) }),
      h("button", { type: "button", text: "× 1", title: "The weight as chosen above", onclick: () => apply(1) }),
      h("button", { type: "button", text: "cancel", onclick: close }),
    );
    return {
      node,
      close,
      /** @param {"source" | "target"} side @param {number} from @param {number} to @param {string} label @param {number} factor @param {number} x @param {number} y @param {string} words */
      open: (side, from, to, label, factor, x, y, words) => {
        Object.assign(at, { side, from, to, back: /** @type {any} */ (this.root.getRootNode()).activeElement });
        title.replaceChildren(h("bdi", { class: `${side}-text`, text: clip(label, 40) }), h("span", { class: "muted", text: ` ${words} × ` }));
        field.value = format(factor, 6);
        field.classList.remove("wrong");
        node.hidden = false;
        node.style.transform = `translate(${x}px, ${y}px)`;
        field.focus();
        field.select();
      },
    };
  }

  /** Edit the weight of an element. @param {"source" | "target"} side @param {number} index @param {{clientX: number, clientY: number}} place */
  edit(side, index, place) {
    const elements = side === "source" ? this.rows : this.columns;
    const from = elements.first[index];
    const to = elements.last[index];
    const box = this.root.getBoundingClientRect();
    const x = Math.max(4, Math.min(place.clientX - box.left, box.width - 300));
    const factors = this.settings.weights[side].factors;
    this.tip.hidden = true;
    this.editor.open(side, from, to, elements.labels[index], factors[from] ?? 1, x, place.clientY - box.top + 14, `weighs ${percent(elements.weights[index])},`);
  }

  /** @param {"source" | "target"} side @param {number} from @param {number} to @param {number} factor */
  setFactor(side, from, to, factor) {
    const weights = copy(this.settings.weights);
    for (let k = from; k < to; k++) {
      if (factor === 1) delete weights[side].factors[k];
      else weights[side].factors[k] = factor;
    }
    this.setWeights(weights);
  }

  /** @param {import("./settings.js").Settings["weights"]} weights */
  setWeights(weights) {
    const before = this.settings.weights;
    this.settings = { ...this.settings, weights };
    if (!this.followWeights()) {
      this.settings = { ...this.settings, weights: before };
      this.say("At least one token of each text must keep some weight; nothing was changed.");
      this.weightTable.draw();
      return;
    }
    this.say("");
    this.commit();
    this.weightTable.draw();
  }

  /** @returns {boolean} false when nothing would be left */
  followWeights() {
    const outcome = this.model.chooseWeights(this.settings);
    if (outcome === "empty") return false;
    if (outcome === "changed") {
      this.tasks.stop();
      this.pictures.curves.reset();
      this.invalidate(SHEETS | ATTENTION | COUPLING);
    }
    return true;
  }

  title() {
    const { facts } = this.model.payload.header;
    const { source, target } = this.model.payload.header;
    return facts.title || `${isolate(clip(source.text.trim().replace(/\s+/g, " "), 60))} × ${isolate(clip(target.text.trim().replace(/\s+/g, " "), 60))}`;
  }

  /** The settings in words, for exported figures. @returns {string[]} */
  settingsWords() {
    const { settings, model, sheets } = this;
    const { facts, unit_name: unit } = model.payload.header;
    const weights = /** @type {("source" | "target")[]} */ (["source", "target"])
      .filter((side) => !same(settings.weights[side], plainWeights()))
      .map((side) => {
        const { preset, drop, factors } = settings.weights[side];
        return `${side} weights ${preset.replace("_", " ")}${drop.length ? ` without ${drop.join(" and ").replace("_", " ")}` : ""}${Object.keys(factors).length ? `, ${Object.keys(factors).length} edited` : ""}`;
      });
    return [
      [
        `ε = ${format(settings.epsilon)}${unit ? ` ${unit} of the cost` : ""}`,
        `left: ${this.leftName()}`,
        "right: softmax on the same scores and ε",
        `shown by ${this.level}`,
        settings.source_range || settings.target_range ? `a range of the texts${settings.renormalise ? ", renormalised" : ""}` : "",
        `lines: ${percent(settings.share)} of the mass`,
        ...weights,
        facts.model ? `model ${facts.model}` : "",
      ]
        .filter(Boolean)
        .join(" · "),
      `Mutual information ${format(sheets.left.information)} nat (attention ${format(sheets.right.information)}) · transport cost ${format(sheets.left.cost)} (attention ${format(sheets.right.cost)}) · ${percent(sheets.right.missed)} of attention's mass misses the target's weights.`,
    ];
  }

  /** Address of this page with the settings, and the texts where Python gave them. @param {string} [texts] */
  linkTo(texts) {
    const url = new URL(globalThis.location.href);
    for (const name of QUERY_NAMES) url.searchParams.delete(name);
    for (const [name, value] of Object.entries(toQuery(this.settings))) url.searchParams.set(name, value);
    if (texts) for (const [name, value] of new URLSearchParams(texts)) url.searchParams.set(name, value);
    return url.href;
  }

  /** Give everything back: listeners, observers, timers, nodes. */
  destroy() {
    if (this.model) {
      lastSeen.delete(this.textsKey);
      lastSeen.set(this.textsKey, { given: this.given, revision: this.revision, settings: this.settings, history: this.history });
      if (lastSeen.size > 4) lastSeen.delete(lastSeen.keys().next().value ?? "");
    }
    cancelAnimationFrame(this.request);
    this.dials.stop();
    this.tasks.stop();
    clearTimeout(this.restTimer);
    clearTimeout(this.wordTimer);
    clearTimeout(this.settleTimer);
    clearTimeout(this.exactTimer);
    this.resize.disconnect();
    this.sight.disconnect();
    this.preference?.removeEventListener("change", this.onPreference);
    this.root.remove();
    this.style.remove();
  }
}

/** @param {number} part @param {number} all */
function share(part, all) {
  return all > 0 ? percent(part / all) : "none";
}

/** Largest value, without spreading a long array. @param {Float64Array} values */
function chunkMax(values) {
  let top = 0;
  for (const v of values) if (v > top) top = v;
  return [top];
}
