/** Numbers as tables: the links for a screen reader or a sheet, and the weights to edit. */

import { h, setText, why } from "./dom.js";
import { format, parse, percent, whole } from "./numbers.js";
import { copy } from "./settings.js";

const PRESET_WORDS = {
  given: "as embedded",
  uniform: "uniform",
  length: "by length",
  inverse_frequency: "by inverse frequency",
};

/** The links that are drawn, as a table. */
export class LinkTable {
  /** @param {import("./view.js").View} view */
  constructor(view) {
    this.view = view;
    this.summary = h("summary", { text: "Links as a table" });
    this.body = h("tbody");
    this.note = h("p", { class: "caption" });
    const heads = ["source", "target", "coupling, mass", "share of source", "share of target", "log-lift, nat", "attention, mass"];
    this.node = h("details", { class: "card table-card" }, [
      this.summary,
      this.note,
      h("div", { class: "scroll", tabindex: "0", role: "region", "aria-label": "Links" }, [
        h("table", {}, [
          h("caption", { class: "unseen", text: "Strongest pairs of the coupling with their mass in attention" }),
          h("thead", {}, [h("tr", {}, heads.map((text) => h("th", { scope: "col", text })))]),
          this.body,
        ]),
      ]),
    ]);
    this.node.ontoggle = () => this.draw();
  }

  /** @returns {{i: number, j: number, mass: number, row: number, column: number, lift: number, attention: number}[]} */
  links() {
    const { view } = this;
    const { left, right } = view.sheets;
    const { pairs } = view.pictures.lines.left.links;
    return Array.from(pairs, (flat) => {
      const i = Math.floor(flat / left.m);
      const j = flat - i * left.m;
      const mass = left.mass[flat];
      return {
        i,
        j,
        mass: mass * view.renorm.left,
        row: left.given[i] > 0 ? mass / left.given[i] : 0,
        column: left.received[j] > 0 ? mass / left.received[j] : 0,
        lift: left.lift(i, j) + view.liftShift.left,
        attention: right.mass[flat] * view.renorm.right,
      };
    });
  }

  draw() {
    const { view } = this;
    setText(this.summary, `Links as a table (${whole(view.pictures.lines.left.links.pairs.length)})`);
    if (!this.node.open) return;
    setText(this.note, view.pictures.lines.left.caption.textContent ?? "");
    this.body.replaceChildren(
      ...this.links().map(({ i, j, mass, row, column, lift, attention }) =>
        h("tr", {}, [
          h("th", { scope: "row", class: "source-text", dir: "auto", text: view.rows.labels[i] }),
          h("td", { class: "target-text", dir: "auto", text: view.columns.labels[j] }),
          ...[percent(mass), percent(row), percent(column), format(lift), percent(attention)].map((text) => h("td", { class: "figure-cell", text })),
        ]),
      ),
    );
  }
}

/** Weights of both texts: presets, groups to drop, and a factor for each atom. */
export class WeightTable {
  /** @param {import("./view.js").View} view */
  constructor(view) {
    this.view = view;
    this.message = h("p", { class: "message", role: "status" });
    this.sides = h("div", { class: "pair" });
    this.node = h("details", { class: "card table-card" }, [
      h("summary", { text: "Weights" }),
      h("p", { class: "caption" }, [
        h("span", { text: "How much each token counts. Double-click a token in the pictures, or type a factor here: 0 leaves it out, 2 counts it twice. The coupling is solved again at once." }),
        why("weights", [
          "The measures are μ = Σ aᵢ δ at the tokens of the source and ν = Σ bⱼ δ at those of the target, each with sum 1. A factor multiplies a weight, and all of them are divided by their sum again.",
        ]),
      ]),
      this.message,
      this.sides,
    ]);
    this.node.ontoggle = () => this.draw();
  }

  draw() {
    if (!this.node.open) return;
    this.sides.replaceChildren(this.side("source"), this.side("target"));
  }

  /** @param {"source" | "target"} name */
  side(name) {
    const { view } = this;
    const side = view.model.sides[name];
    const choice = view.settings.weights[name];
    const change = (/** @type {(choice: any) => void} */ edit) => {
      const weights = copy(view.settings.weights);
      edit(weights[name]);
      view.setWeights(weights);
    };
    const preset = h(
      "select",
      {
        "aria-label": `Weights of the ${name}`,
        onchange: () => change((c) => (c.preset = preset.value)),
      },
      Object.entries(PRESET_WORDS).map(([value, text]) => h("option", { value, text, selected: value === choice.preset })),
    );
    const language = view.model.payload.header[name].stop_words;
    const flags = side.flags;
    const box = (/** @type {string} */ group, /** @type {string} */ text, /** @type {number} */ bit, /** @type {string} */ hint) => {
      const found = flags.some((f) => f & bit);
      const input = h("input", {
        type: "checkbox",
        checked: choice.drop.includes(group),
        disabled: !found,
        onchange: () => change((c) => (c.drop = ["punctuation", "stop_words"].filter((g) => (g === group ? input.checked : c.drop.includes(g))))),
      });
      return h("label", { title: hint }, [input, h("span", { text: found ? text : `${text} (${language || bit === 1 ? "none found" : "no list for this language"})` })]);
    };
    const rows = Array.from({ length: side.count }, (_, k) => {
      const label = side.text.slice(side.spans[2 * k], side.spans[2 * k + 1]);
      const field = h("input", {
        type: "text",
        inputmode: "decimal",
        class: "number",
        "aria-label": `Factor of ${label}`,
        value: format(choice.factors[k] ?? 1, 6),
        onchange: () => {
          const factor = parse(field.value);
          if (factor >= 0 && Number.isFinite(factor)) view.setFactor(name, k, k + 1, factor);
          else field.classList.add("wrong");
        },
      });
      return h("tr", {}, [
        h("th", { scope: "row", class: `${name}-text`, dir: "auto", text: label }),
        h("td", { class: "figure-cell", text: percent(view.model.weights[name][k]) }),
        h("td", {}, [field]),
      ]);
    });
    return h("div", {}, [
      h("div", { class: "controls" }, [
        h("b", { class: `${name}-text`, text: name === "source" ? "Source" : "Target" }),
        preset,
        box("punctuation", "drop punctuation", 1, "Tokens without a letter or digit"),
        box("stop_words", "drop stop words", 2, "The commonest function words of the text's language"),
      ]),
      h("div", { class: "scroll", tabindex: "0", role: "region", "aria-label": `Weights of the ${name}` }, [
        h("table", {}, [
          h("caption", { class: "unseen", text: `Weights of the ${name}` }),
          h("thead", {}, [h("tr", {}, ["token", "weight", "factor"].map((text) => h("th", { scope: "col", text })))]),
          h("tbody", {}, rows),
        ]),
      ]),
    ]);
  }

  /** @param {string} text */
  say(text) {
    setText(this.message, text);
  }
}
