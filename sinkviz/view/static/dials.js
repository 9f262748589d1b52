/** The dials: ε, and the way from softmax to Sinkhorn. Drag, arrow keys, or type a number. */

import { h, setText, segments, uniqueId, why } from "./dom.js";
import { format, parse } from "./numbers.js";
import { infinite } from "./settings.js";

const TRACK = 1000;
/** Positions from here on mean "converged" or ρ = ∞. */
const END = 965;
const START = 25;

/** One dial: a range for hands and keys, a field for a typed number. */
class Dial {
  /**
   * @param {object} options
   * @param {string} options.label
   * @param {Node} options.name
   * @param {(position: number) => any} options.read value at a position 0 … 1000
   * @param {(value: any) => number} options.place
   * @param {(value: any, step: number) => any} options.step the neighbour for a key
   * @param {(value: any) => string} options.write
   * @param {(text: string) => any} options.parse undefined when it is no value
   * @param {(value: any, final: boolean) => void} options.change
   * @param {(value: any) => string} options.say for a screen reader
   */
  constructor(options) {
    this.options = options;
    const id = uniqueId();
    this.range = h("input", { type: "range", min: "0", max: String(TRACK), step: "any", id, "aria-label": options.label, class: "slider" });
    this.field = h("input", { type: "text", class: "number", inputmode: "decimal", "aria-label": `${options.label}, typed`, autocomplete: "off", spellcheck: "false" });
    this.left = h("span", { class: "dial-left" }, [options.name, this.field]);
    this.unit = h("span", { class: "muted" });
    this.left.append(this.unit);
    this.right = h("span", { class: "dial-right muted" });
    // A mark that can be clicked: the value that is recommended, where there is one.
    this.mark = h("button", { type: "button", class: "mark", hidden: true, onclick: () => this.take(this.marked, true) });
    this.marked = /** @type {any} */ (null);
    this.share = -1;
    this.node = h("div", { class: "dial" }, [h("div", { class: "dial-text" }, [this.left, this.right]), this.range, this.mark]);
    this.value = /** @type {any} */ (null);
    this.range.oninput = () => this.take(options.read(Number(this.range.value)), false);
    this.range.onchange = () => this.take(options.read(Number(this.range.value)), true);
    this.range.onkeydown = (/** @type {KeyboardEvent} */ event) => {
      const fine = event.shiftKey ? 0.1 : 1;
      const move = { ArrowRight: 1, ArrowUp: 1, ArrowLeft: -1, ArrowDown: -1, PageUp: 10, PageDown: -10 }[event.key];
      let next;
      if (move) next = options.step(this.value, move * fine);
      else if (event.key === "Home") next = options.read(0);
      else if (event.key === "End") next = options.read(TRACK);
      else return;
      event.preventDefault();
      event.stopPropagation();
      this.keyed = true;
      this.take(next, false);
    };
    this.range.onkeyup = () => {
      if (this.keyed) options.change(this.value, true);
      this.keyed = false;
    };
    this.field.onchange = () => {
      const value = options.parse(this.field.value);
      if (value === undefined) this.field.classList.add("wrong");
      else this.take(value, true);
    };
    this.field.onkeydown = (/** @type {KeyboardEvent} */ event) => {
      event.stopPropagation();
      if (event.key === "Escape") {
        this.show(this.value);
        this.field.blur();
      }
    };
    this.field.onfocus = () => this.field.select();
    this.field.onblur = () => this.show(this.value);
  }

  /** @param {any} value @param {boolean} final */
  take(value, final) {
    this.show(value);
    this.options.change(value, final);
  }

  /** @param {any} value */
  show(value) {
    this.value = value;
    const position = String(this.options.place(value));
    if (this.range.value !== position) this.range.value = position;
    this.range.style.setProperty("--at", `${Number(position) / 10}%`);
    const text = this.options.write(value);
    if (this.field.value !== text && (this.field.getRootNode()).activeElement !== this.field) this.field.value = text;
    if (this.field.className !== "number") this.field.className = "number";
  }

  /** Mark a value under the track; null takes the mark away. @param {any} value */
  recommend(value) {
    const share = value === null ? 0 : this.options.place(value) / TRACK;
    // Called in every frame of a drag: an equal write still costs a layout.
    if (value === this.marked && share === this.share) return;
    this.marked = value;
    this.share = share;
    this.mark.hidden = value === null;
    if (value === null) return;
    // The middle of the thumb, 16 pixels wide, does not reach the ends of the track.
    this.mark.style.setProperty("--at", `calc(8px + (100% - 16px) * ${share.toFixed(4)})`);
    this.mark.style.setProperty("--shift", `${(-100 * share).toFixed(2)}%`);
    setText(this.mark, `${this.options.write(value)} recommended`);
  }

  /** The value in words, for a screen reader. */
  speak() {
    const words = this.options.say(this.value);
    if (this.range.getAttribute("aria-valuetext") !== words) this.range.setAttribute("aria-valuetext", words);
  }
}

export class Dials {
  /** @param {import("./view.js").View} view */
  constructor(view) {
    this.view = view;
    this.epsilon = new Dial({
      label: "Epsilon, strength of the entropy",
      name: h("b", { text: "ε =" }),
      read: (position) => this.epsilonAt(position / TRACK),
      place: (value) => this.epsilonPlace(value) * TRACK,
      step: (value, step) => this.epsilonAt(this.epsilonPlace(value) + step / 100),
      write: (value) => format(value),
      parse: (text) => {
        const value = parse(text);
        const [low, high] = this.epsilonRange();
        return value > 0 && Number.isFinite(value) ? Math.min(high, Math.max(low, value)) : undefined;
      },
      change: (value, final) => this.view.set({ epsilon: value }, final),
      say: (value) => `${format(value)}${this.view.model?.payload.header.unit_name === "σ" ? " standard deviations of the cost" : ""}`,
    });
    this.steps = new Dial({
      label: "Half-steps from softmax to Sinkhorn",
      name: h("span", { text: "softmax →" }),
      read: (position) => stepAt(position),
      place: (value) => stepPlace(value),
      step: (value, step) => nextStep(value, step),
      write: (value) => (value === "inf" ? "converged" : halves(value)),
      parse: (text) => {
        const value = parse(text);
        if (value === Infinity) return "inf";
        return value > 0 ? Math.min(1e6, Math.max(0.5, Math.round(value * 2) / 2)) : undefined;
      },
      change: (value, final) => this.view.set({ steps: value }, final),
      say: (value) => (value === "inf" ? "Sinkhorn, converged" : value === 0.5 ? "softmax, half-step one half" : `half-step ${value}`),
    });
    this.relaxation = new Dial({
      label: "Column relaxation rho, from softmax to Sinkhorn",
      name: h("span", { text: "softmax → ρ =" }),
      read: (position) => this.relaxationAt(position),
      place: (value) => this.relaxationPlace(value),
      step: (value, step) => {
        const place = this.relaxationPlace(value);
        const edge = place > END ? END : place < START ? START : place;
        // The ends are wide on the track; one key press leaves them.
        if (edge !== place && step > 0 === place < START) return this.relaxationAt(edge);
        return this.relaxationAt(place + step * 10);
      },
      write: (value) => format(infinite(value)),
      parse: (text) => {
        const value = parse(text);
        return value === Infinity ? "inf" : value >= 0 ? value : undefined;
      },
      change: (value, final) => this.view.set({ relaxation: value }, final),
      say: (value) => (value === "inf" ? "infinite: Sinkhorn" : value === 0 ? "zero: softmax" : format(value)),
    });
    setText(this.steps.unit, "of Sinkhorn");
    this.modes = segments(
      "by",
      [
        { value: "steps", text: "half-steps", title: "Stop Sinkhorn's algorithm after some half-steps" },
        { value: "relaxation", text: "relaxed columns", title: "Weigh the columns' error by ρ" },
      ],
      (value) => this.view.set({ mode: /** @type {any} */ (value) }, true),
    );
    this.play = h("button", { type: "button", class: "play", "aria-label": "Play: move the dial used last", "aria-pressed": "false", text: "▶", onclick: () => this.toggle() });
    this.second = h("div", { class: "second" }, [this.steps.node, this.relaxation.node, this.modes.node]);
    this.node = h("div", { class: "dials", role: "group", "aria-label": "Dials" }, [this.play, this.epsilon.node, this.second, why("the dials", WHY)]);
    this.active = "epsilon";
    this.epsilon.node.onpointerdown = this.epsilon.node.onfocus = () => (this.active = "epsilon");
    this.second.onpointerdown = () => (this.active = "second");
    this.epsilon.node.addEventListener("focusin", () => (this.active = "epsilon"));
    this.second.addEventListener("focusin", () => (this.active = "second"));
    this.playing = 0;
  }

  /** @returns {[number, number]} smallest and largest ε, in units */
  epsilonRange() {
    const { model } = this.view;
    if (!model) return [0.01, 10];
    const grid = model.epsilons;
    return [grid[grid.length - 1] / model.unit, grid[0] / model.unit];
  }

  /** @returns {number | null} the ε that the payload recommends, where the dial reaches it */
  recommended() {
    const value = this.view.model?.payload.header.recommended ?? null;
    const [low, high] = this.epsilonRange();
    return value !== null && value >= low && value <= high ? value : null;
  }

  /** @param {number} t */
  epsilonAt(t) {
    const [low, high] = this.epsilonRange();
    const value = Math.exp(Math.log(low) + Math.min(1, Math.max(0, t)) * Math.log(high / low));
    return Number(Math.min(high, Math.max(low, value)).toPrecision(6));
  }

  /** @param {number} value */
  epsilonPlace(value) {
    const [low, high] = this.epsilonRange();
    return high > low ? Math.min(1, Math.max(0, Math.log(value / low) / Math.log(high / low))) : 0;
  }

  /** Ends of the logarithmic part of ρ: a hundredth and a thousand times ε. */
  relaxationEnds() {
    const { epsilon } = this.view.settings;
    return [epsilon / 100, epsilon * 1000];
  }

  /** @param {number} position */
  relaxationAt(position) {
    if (position < START) return 0;
    if (position > END) return "inf";
    const [low, high] = this.relaxationEnds();
    return Number((low * (high / low) ** ((position - START) / (END - START))).toPrecision(4));
  }

  /** @param {number | "inf"} value */
  relaxationPlace(value) {
    if (value === "inf") return TRACK;
    if (value === 0) return 0;
    const [low, high] = this.relaxationEnds();
    return START + (END - START) * Math.min(1, Math.max(0, Math.log(value / low) / Math.log(high / low)));
  }

  /** Show the settings. */
  show() {
    const { settings } = this.view;
    this.epsilon.show(settings.epsilon);
    setText(this.epsilon.unit, this.view.model.payload.header.unit_name === "σ" ? "σ(cost)" : "absolute");
    this.epsilon.recommend(this.recommended());
    this.steps.show(settings.steps);
    this.relaxation.show(settings.relaxation);
    this.modes.show(settings.mode);
    this.steps.node.hidden = settings.mode !== "steps";
    this.relaxation.node.hidden = settings.mode !== "relaxation";
  }

  /** Numbers beside the dials. @param {string} epsilon @param {string} second */
  tell(epsilon, second) {
    for (const one of [this.epsilon, this.steps, this.relaxation]) one.speak();
    setText(this.epsilon.right, epsilon);
    setText(this.steps.right, second);
    setText(this.relaxation.right, second);
  }

  toggle() {
    if (this.playing) return this.stop();
    const still = globalThis.matchMedia?.("(prefers-reduced-motion: reduce)").matches;
    const dial = this.active === "epsilon" ? this.epsilon : this.view.settings.mode === "steps" ? this.steps : this.relaxation;
    let place = dial.options.place(dial.value);
    let direction = place >= TRACK - 1 ? -1 : 1;
    let before = performance.now();
    let rest = 0;
    setText(this.play, "❚❚");
    this.play.setAttribute("aria-pressed", "true");
    this.play.setAttribute("aria-label", "Pause");
    const step = (/** @type {number} */ now) => {
      this.playing = requestAnimationFrame(step);
      const passed = Math.min(100, now - before);
      before = now;
      rest += passed;
      // Without motion the dial moves in few, slow steps.
      if (still && rest < 900) return;
      place += direction * (still ? TRACK / 12 : (TRACK * passed) / 9000);
      rest = 0;
      if (place >= TRACK || place <= 0) {
        direction = -direction;
        place = Math.min(TRACK, Math.max(0, place));
        rest = still ? 0 : -900;
      }
      dial.take(dial.options.read(place), false);
    };
    this.playing = requestAnimationFrame(step);
  }

  stop() {
    if (!this.playing) return;
    cancelAnimationFrame(this.playing);
    this.playing = 0;
    setText(this.play, "▶");
    this.play.setAttribute("aria-pressed", "false");
    this.play.setAttribute("aria-label", "Play: move the dial used last");
    this.view.commit();
  }
}

/** @param {number} value */
function halves(value) {
  const whole = Math.floor(value);
  return value === whole ? String(whole) : whole === 0 ? "½" : `${whole}½`;
}

/** Half-step at a position: logarithmic from ½ to 1,000. @param {number} position @returns {number | "inf"} */
export function stepAt(position) {
  if (position > END) return "inf";
  return Math.max(0.5, Math.round(2 * 0.5 * 2000 ** (position / END)) / 2);
}

/** @param {number | "inf"} value */
export function stepPlace(value) {
  if (value === "inf") return TRACK;
  return Math.min(END, (END * Math.log(value / 0.5)) / Math.log(2000));
}

/** @param {number | "inf"} value @param {number} step @returns {number | "inf"} */
export function nextStep(value, step) {
  if (value === "inf") return step < 0 ? 1000 : "inf";
  const size = Math.abs(step) > 1 ? 10 : 1;
  const direction = Math.sign(step);
  // At least one half-step, and far out as much as the dial's pixels can show.
  const next = Math.round((value + direction * Math.max(0.5, size === 10 ? 5 : value * 0.03)) * 2) / 2;
  if (next > 1000) return "inf";
  return Math.max(0.5, next);
}

const WHY = [
  "ε weighs the entropy in min ⟨C, P⟩ + ε KL(P ‖ a⊗b): large ε spreads the mass, small ε sharpens it. It is given in σ, the standard deviation of the double-centred cost, because a balanced plan depends on the cost only through that. The mark under the dial is the ε recommended to start from: most words then have two or three partners (for a trained model, the ε it was trained with).",
  "Effective partners: exp of the entropy of a row, averaged over the mass. Share of the optimum: (independent cost − ⟨C, P⟩) / (independent cost − least possible cost).",
  "Half-steps: ½ makes the rows exact, which is softmax attention; 1 the columns, 1½ the rows again, and so on to Sinkhorn's limit. Relaxed columns: their error is weighed by ρ instead, from 0 (softmax) to ∞ (Sinkhorn).",
];
