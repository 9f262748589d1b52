/** The quiet row under the dials: what is coloured, at which level, how many lines; undo, export, link. */

import { download, h, segments, setText, uniqueId } from "./dom.js";
import { csv, fileStem, html, png, svg } from "./export.js";
import { percent, whole } from "./numbers.js";
import { LEVELS } from "./settings.js";

export class Tools {
  /** @param {import("./view.js").View} view @param {string} program source of the view, for the offline file */
  constructor(view, program) {
    this.view = view;
    this.colour = segments(
      "colour",
      [
        { value: "mass", text: "mass", title: "Mass between two elements" },
        { value: "lift", text: "lift", title: "log P/(ab): 0 is independence" },
        { value: "difference", text: "difference", title: "Coupling − attention" },
      ],
      (value) => view.set({ colour: /** @type {any} */ (value) }, true),
    );
    this.level = segments(
      "zoom",
      LEVELS.map((value) => ({ value, text: value, title: `Exact sums over ${value}s` })),
      (value) => view.zoom(value),
    );
    const id = uniqueId();
    this.share = h("input", { type: "range", min: "5", max: "100", step: "1", id, class: "slider small" });
    this.share.oninput = () => view.set({ share: Number(this.share.value) / 100 }, false);
    this.share.onchange = () => view.set({ share: Number(this.share.value) / 100 }, true);
    this.shareText = h("label", { for: id, class: "muted" });
    const button = (/** @type {string} */ text, /** @type {() => void} */ act, /** @type {string} */ title) => h("button", { type: "button", text, title, onclick: act });
    this.undo = button("undo", () => view.travel(-1), "Take back the last change (Ctrl+Z)");
    this.redo = button("redo", () => view.travel(1), "Do it again (Ctrl+Shift+Z)");
    this.reset = button("reset", () => view.reset(), "All settings as they were when the texts came");
    const guarded = (/** @type {() => unknown} */ act) => async () => {
      this.menu.open = false;
      try {
        await act();
      } catch (error) {
        view.say(`Export failed: ${error instanceof Error ? error.message : error}`);
      }
    };
    this.menu = h("details", { class: "menu" }, [
      h("summary", { text: "export" }),
      h("div", { class: "menu-items" }, [
        button("SVG, vector figure", guarded(() => download(svg(view).text, "image/svg+xml", `${fileStem(view)}.svg`)), "The pictures as they are now, with settings and legend"),
        button("PNG, picture", guarded(async () => download(await png(view), "image/png", `${fileStem(view)}.png`)), "The same as a bitmap, double resolution"),
        button("CSV, links", guarded(() => download(csv(view), "text/csv", `${fileStem(view)}.csv`)), "The drawn links with all digits"),
        button("HTML, works offline", guarded(() => download(html(view, program), "text/html", `${fileStem(view)}.html`)), "One file with these dials and pictures"),
      ]),
    ]);
    this.link = button("copy link", guarded(() => this.copyLink()), "Settings, and the texts while they are short");
    this.range = h("div", { class: "range-note", hidden: true });
    this.rangeText = h("span", {});
    this.renormalise = h("input", { type: "checkbox", onchange: () => view.set({ renormalise: this.renormalise.checked }, true) });
    this.range.append(
      this.rangeText,
      h("label", { title: "Divide by the mass inside the range, so that it sums to 1" }, [this.renormalise, h("span", { text: "renormalise" })]),
      h("button", { type: "button", text: "show whole texts", onclick: () => view.whole() }),
    );
    this.status = h("span", { class: "status", role: "status" });
    this.node = h("div", { class: "tools" }, [
      this.colour.node,
      this.level.node,
      h("div", { class: "share" }, [this.shareText, this.share]),
      h("div", { class: "buttons" }, [this.undo, this.redo, this.reset, this.menu, this.link]),
      this.status,
    ]);
  }

  show() {
    const { view } = this;
    const { settings } = view;
    this.colour.show(settings.colour);
    this.level.show(view.model.levelOf(settings));
    this.level.allow(view.model.allowedLevels);
    const share = String(Math.round(settings.share * 100));
    if (this.share.value !== share) this.share.value = share;
    this.share.style.setProperty("--at", `${((Number(share) - 5) / 95) * 100}%`);
    setText(this.shareText, `lines: ${percent(settings.share)} of the mass`);
    this.undo.disabled = view.history.at === 0;
    this.redo.disabled = view.history.at >= view.history.states.length - 1;
    this.renormalise.checked = settings.renormalise;
    const restricted = Boolean(settings.source_range || settings.target_range);
    this.range.hidden = !restricted;
    if (restricted) {
      const part = (/** @type {any} */ e, /** @type {"source" | "target"} */ name) =>
        `${name} ${whole(e.count)} of ${whole(view.countOf(name))} ${view.level}s`;
      const total = view.sheets.left.total;
      setText(this.rangeText, `Shown: ${part(view.rows, "source")} × ${part(view.columns, "target")}, ${percent(total)} of the coupling's mass`);
    }
  }

  async copyLink() {
    const { view } = this;
    const { link } = view.model.payload.header.facts;
    const url = view.linkTo(link);
    const words = link
      ? "Link copied: settings and both texts are in it."
      : "Link copied: the settings are in it, the texts are not (too long, or this page has none to give).";
    try {
      await navigator.clipboard.writeText(url);
      view.say(words);
    } catch {
      view.say(`The browser did not allow copying. ${url}`);
    }
  }
}
