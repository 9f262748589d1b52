/** Export of exactly what is seen: SVG and PNG, the links as CSV, and one HTML file that works offline. */

import { css } from "./colour.js";
import { format } from "./numbers.js";
import { CanvasPen, SvgPen, escapeXml } from "./pen.js";
import template from "./offline.html";

/**
 * The pictures as one SVG document.
 * @param {import("./view.js").View} view
 * @returns {{text: string, width: number, height: number}}
 */
export function svg(view) {
  const { theme, pictures } = view;
  const { colours } = theme;
  const context = /** @type {CanvasRenderingContext2D} */ (document.createElement("canvas").getContext("2d"));
  const ruler = new CanvasPen(context, theme.font);
  const pen = new SvgPen(ruler, theme.font);
  const gap = 16;
  const pad = 14;
  const column = Math.max(pictures.lines.left.width, pictures.heatmaps.left.width, pictures.clouds.left.width) + 2 * pad;
  const width = 2 * column + 3 * gap;
  let y = gap;
  pen.parts.push(`<rect width="100%" height="100%" fill="${colours.page}"/>`);
  const say = (/** @type {string} */ text, /** @type {any} */ style = {}) => {
    pen.origin(0, 0);
    for (const line of wrap(text, width - 2 * gap, ruler, style.size ?? 11)) {
      pen.text(line, gap, y + 12, { fill: colours.muted, size: 11, ...style });
      y += 17;
    }
  };
  say(view.title(), { fill: colours.text, size: 16, weight: 700 });
  y += 4;
  for (const line of view.settingsWords()) say(line);
  y += 8;
  const card = (/** @type {number} */ x, /** @type {number} */ top, /** @type {number} */ height) => {
    pen.origin(0, 0);
    pen.parts.push(
      `<rect x="${x}" y="${top}" width="${column}" height="${height}" rx="10" fill="${colours.card}" stroke="${colours.border}"/>`,
    );
  };
  const sides = /** @type {("left" | "right")[]} */ (["left", "right"]);
  const row = (/** @type {number} */ height, /** @type {(side: "left" | "right", x: number, top: number) => void} */ paint) => {
    sides.forEach((side, k) => {
      const x = gap + k * (column + gap);
      card(x, y, height);
      paint(side, x + pad, y + pad);
    });
    y += height + gap;
  };
  const heading = (/** @type {number} */ x, /** @type {number} */ top, /** @type {string} */ title, /** @type {string} */ subtitle) => {
    pen.origin(0, 0);
    pen.text(title, x, top + 10, { size: 14, weight: 700, fill: colours.text });
    pen.text(subtitle, x + ruler.measure(title, 14, 700) + 10, top + 10, { size: 11, fill: colours.muted });
  };
  const caption = (/** @type {number} */ x, /** @type {number} */ top, /** @type {string} */ text) => {
    pen.origin(0, 0);
    wrap(text, column - 2 * pad, ruler, 10.5).forEach((line, k) => pen.text(line, x, top + 10 + 14 * k, { size: 10.5, fill: colours.muted }));
  };
  row(Math.max(pictures.lines.left.height, pictures.lines.right.height) + 78, (side, x, top) => {
    const lines = pictures.lines[side];
    heading(x, top, side === "left" ? "Coupling" : "Attention", `${lines.subtitle.textContent} · ${lines.check.textContent}`);
    pen.origin(x, top + 20);
    lines.paint(pen, false);
    writeTexts(view, lines, pen, theme);
    caption(x, top + 26 + lines.height, lines.caption.textContent ?? "");
  });
  row(Math.max(pictures.heatmaps.left.height, pictures.heatmaps.right.height) + 78, (side, x, top) => {
    const map = pictures.heatmaps[side];
    pen.origin(x, top);
    map.paintLabels(pen);
    paintCells(view, map, pen);
    map.paintRight(pen, map.x + map.w, map.y);
    map.paintBelow(pen, map.x, map.y + map.h);
    pen.origin(x, top + map.height + 4);
    map.paintLegend(pen, 120, 10);
    caption(x + 130, top + map.height, map.legendWords());
    caption(x, top + map.height + 24, map.caption.textContent ?? "");
  });
  row(Math.max(pictures.clouds.left.height, pictures.clouds.right.height) + 48, (side, x, top) => {
    const cloud = pictures.clouds[side];
    heading(x, top, "Clouds", cloud.subtitle.textContent ?? "");
    pen.origin(x, top + 20);
    cloud.paintPairs(pen, false);
    cloud.paintPoints(pen, false);
  });
  const { charts } = pictures.curves;
  const chartWidth = Math.max(...charts.map((/** @type {any} */ c) => c.width)) + 20;
  const perRow = Math.max(1, Math.floor((width - 2 * gap) / chartWidth));
  charts.forEach((/** @type {any} */ chart, /** @type {number} */ k) => {
    const x = gap + (k % perRow) * chartWidth;
    const top = y + Math.floor(k / perRow) * (chart.height + 34);
    pen.origin(x, top + 22);
    pen.text(chart.node.querySelector("h3 span").textContent, 0, -8, { size: 12, weight: 700, fill: colours.text });
    chart.paint(pen, theme);
    const at = chart.x(view.model.epsilon(view.settings) / view.model.unit);
    pen.strokes([at, 10, at, chart.height - 24], colours.text, 1, 0.7, { dash: [2, 2] });
  });
  y += Math.ceil(charts.length / perRow) * (charts[0].height + 34);
  pen.origin(0, 0);
  pen.text("Made with sinkviz. Full line: coupling, dashed: attention.", gap, y + 12, { size: 10, fill: colours.muted });
  y += 24;
  return { text: pen.document(width, y, view.title(), view.settingsWords().join(" ")), width, height: y };
}

/** @param {import("./view.js").View} view @param {any} lines @param {SvgPen} pen @param {any} theme */
function writeTexts(view, lines, pen, theme) {
  if (lines.mode !== "text") return;
  const { colours } = theme;
  const size = parseFloat(getComputedStyle(lines.stage).fontSize) || 13;
  const write = (/** @type {HTMLElement[]} */ atoms, /** @type {Float64Array} */ xs, /** @type {Float64Array} */ ys, /** @type {number} */ shift, /** @type {"row" | "column"} */ which, /** @type {string} */ fill, /** @type {Float64Array} */ ws) => {
    atoms.forEach((span, k) => {
      const index = span.dataset.index;
      const pin = index ? view.pinned[which](k) : -1;
      let label = span.textContent ?? "";
      while (span.classList.contains("long") && label.length > 1 && pen.measure(label, size) > ws[k]) label = `${[...label].slice(0, -2).join("")}…`;
      pen.text(label, xs[k], ys[k] + shift, {
        size,
        anchor: "middle",
        fill: pin >= 0 ? theme.pin(pin) : index ? fill : colours.muted,
        weight: pin >= 0 ? 700 : 400,
        italic: !index,
      });
    });
  };
  write(lines.sourceAtoms, lines.sx, lines.sy, -4, "row", colours.source_text, lines.sw);
  write(lines.targetAtoms, lines.tx, lines.tb, -6, "column", colours.target_text, lines.tw);
}

/** Cells as rectangles up to a size that vector programs can open, beyond as one exact bitmap. @param {import("./view.js").View} view @param {any} map @param {SvgPen} pen */
function paintCells(view, map, pen) {
  const { pixelRows, pixelColumns, pixels } = map;
  if (pixelRows * pixelColumns > 20_000) {
    pen.image(map.cells.toDataURL("image/png"), map.x, map.y, map.w, map.h);
    return;
  }
  const w = map.w / pixelColumns;
  const height = map.h / pixelRows;
  const gap = w > 11 && height > 11 ? 1 : 0;
  for (let i = 0; i < pixelRows; i++) {
    for (let j = 0; j < pixelColumns; j++) {
      pen.rect(map.x + j * w, map.y + i * height, w - gap + (gap ? 0 : 0.3), height - gap + (gap ? 0 : 0.3), css(pixels[i * pixelColumns + j]));
    }
  }
  for (const { rows, columns, index } of view.pinned.list) {
    const i0 = rows ? rows[0] : 0;
    const i1 = rows ? rows[1] : map.n;
    const j0 = columns ? columns[0] : 0;
    const j1 = columns ? columns[1] : map.m;
    pen.frame(map.x + (j0 / map.m) * map.w, map.y + (i0 / map.n) * map.h, ((j1 - j0) / map.m) * map.w, ((i1 - i0) / map.n) * map.h, view.theme.pin(index), 2);
  }
}

/** @param {string} text @param {number} width @param {CanvasPen} ruler @param {number} size @returns {string[]} */
function wrap(text, width, ruler, size) {
  const lines = [];
  let line = "";
  for (const word of text.split(" ")) {
    const next = line ? `${line} ${word}` : word;
    if (line && ruler.measure(next, size) > width) {
      lines.push(line);
      line = word;
    } else line = next;
  }
  if (line) lines.push(line);
  return lines;
}

/**
 * @param {import("./view.js").View} view
 * @returns {Promise<Blob>}
 */
export async function png(view) {
  const { text, width, height } = svg(view);
  const url = URL.createObjectURL(new Blob([text], { type: "image/svg+xml" }));
  try {
    const image = new Image();
    await new Promise((resolve, reject) => {
      image.onload = resolve;
      image.onerror = () => reject(new Error("The picture could not be drawn."));
      image.src = url;
    });
    const canvas = document.createElement("canvas");
    canvas.width = Math.ceil(width * 2);
    canvas.height = Math.ceil(height * 2);
    const context = /** @type {CanvasRenderingContext2D} */ (canvas.getContext("2d"));
    context.scale(2, 2);
    context.drawImage(image, 0, 0);
    return await new Promise((resolve, reject) => canvas.toBlob((blob) => (blob ? resolve(blob) : reject(new Error("The picture is too large for a PNG; take the SVG."))), "image/png"));
  } finally {
    URL.revokeObjectURL(url);
  }
}

/** One cell of a CSV file. A text that a spreadsheet would take for a formula gets an apostrophe. @param {string | number} value */
export function csvCell(value) {
  let text = String(value);
  if (typeof value === "string" && /^[=+\-@\t\r]/.test(text) && text.length > 1) text = `'${text}`;
  return /[",\r\n;]/.test(text) ? `"${text.replace(/"/g, '""')}"` : text;
}

/** The drawn links, all digits. @param {import("./view.js").View} view */
export function csv(view) {
  const rows = [
    ["source_index", "target_index", "source", "target", "coupling_mass", "share_of_source", "share_of_target", "log_lift", "attention_mass"],
    ...view.links.links().map(({ i, j, mass, row, column, lift, attention }) => [
      view.rows.first[i],
      view.columns.first[j],
      view.rows.labels[i],
      view.columns.labels[j],
      mass,
      row,
      column,
      lift,
      attention,
    ]),
  ];
  return `\ufeff${rows.map((row) => row.map(csvCell).join(",")).join("\r\n")}\r\n`;
}

/** @param {Uint8Array} bytes */
function base64(bytes) {
  const parts = [];
  for (let k = 0; k < bytes.length; k += 0x8000) parts.push(String.fromCharCode(...bytes.subarray(k, k + 0x8000)));
  return btoa(parts.join(""));
}

/**
 * One file with the payload, the settings and this program: the twin of sinkviz.view.html.offline_html.
 * @param {import("./view.js").View} view
 * @param {string} program
 */
export function html(view, program) {
  const fill = {
    TITLE: escapeXml(view.title()),
    SETTINGS: JSON.stringify(view.settings).replace(/</g, "\\u003c"),
    PAYLOAD: base64(view.bytes),
    VIEW: program.replace(/<(?=\/script|!--)/gi, "\\x3c"),
  };
  return template.replace(/\{\{(TITLE|SETTINGS|PAYLOAD|VIEW)\}\}/g, (_, name) => fill[/** @type {keyof typeof fill} */ (name)]);
}

/** @param {import("./view.js").View} view */
export function fileStem(view) {
  const { epsilon } = view.settings;
  return `sinkviz-${view.level}-epsilon-${format(epsilon).replace("−", "-").replace(/[^\w.-]/g, "")}`;
}
