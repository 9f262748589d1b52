/** Five figures in plain words. */

import { h, isolate, setText } from "./dom.js";
import { quoted } from "./lines.js";
import { format, percent } from "./numbers.js";

export class Strip {
  /** @param {import("./view.js").View} view */
  constructor(view) {
    this.view = view;
    this.cards = Array.from({ length: 5 }, () => {
      const value = h("b", {});
      const words = h("span", {});
      const other = h("span", { class: "muted" });
      return { node: h("div", { class: "figure" }, [value, words, other]), value, words, other };
    });
    this.node = h("div", { class: "strip", role: "group", "aria-label": "Figures" }, this.cards.map((c) => c.node));
  }

  /** @param {number} k @param {string} value @param {string} words @param {string} other */
  set(k, value, words, other) {
    setText(this.cards[k].value, value);
    setText(this.cards[k].words, words);
    setText(this.cards[k].other, other);
  }

  draw() {
    const { view } = this;
    const { left, right } = view.sheets;
    const unit = view.level;
    this.set(0, `${format(left.information)} nat`, `mutual information of ${unit}s`, `attention ${format(right.information)}`);
    this.set(1, format(left.cost), "mean transport cost", `attention ${format(right.cost)}`);
    this.set(2, percent(right.missed), `of attention's mass misses the target's weights`, `coupling ${percent(left.missed)}`);
    const { least, most } = extremes(right);
    if (least >= 0) {
      const share = right.received[least] / right.columns.weights[least];
      this.set(3, isolate(quoted(right.columns.labels[least], 18)), `gets ${percent(share)} of its weight from attention`, `most: ${isolate(quoted(right.columns.labels[most], 14))}, ${percent(right.received[most] / right.columns.weights[most])}`);
    } else this.set(3, "none", "no target word has weight", "");
    if (view.model.partial) {
      let lost = 0;
      let other = 0;
      for (const p of left.nullSource) lost += p;
      for (const p of right.nullSource) other += p;
      this.set(4, percent(lost), "of the source has no partner", `attention ${percent(other)}`);
    } else {
      const worst = dearest(left);
      this.set(
        4,
        worst >= 0 ? isolate(quoted(left.rows.labels[worst], 18)) : "none",
        worst >= 0 ? `pays most: ${format(left.price[worst])} above independence` : "nothing is paid",
        "negative is cheaper",
      );
      if (worst >= 0 && left.price[worst] <= 0) setText(this.cards[4].words, `pays most: ${format(left.price[worst])} against independence`);
    }
  }
}

/** @param {import("./sheet.js").Sheet} sheet */
function extremes(sheet) {
  let least = -1;
  let most = -1;
  const ratio = (/** @type {number} */ j) => sheet.received[j] / sheet.columns.weights[j];
  for (let j = 0; j < sheet.m; j++) {
    if (!(sheet.columns.weights[j] > 0)) continue;
    if (least < 0 || ratio(j) < ratio(least)) least = j;
    if (most < 0 || ratio(j) > ratio(most)) most = j;
  }
  return { least, most };
}

/** @param {import("./sheet.js").Sheet} sheet */
function dearest(sheet) {
  let at = -1;
  for (let i = 0; i < sheet.n; i++) {
    if (sheet.rows.weights[i] > 0 && (at < 0 || sheet.price[i] > sheet.price[at])) at = i;
  }
  return at;
}
