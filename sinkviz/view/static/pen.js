/**
 * One set of drawing words with two backends, canvas and SVG text: what is exported is drawn by the same lines of
 * code as what is seen.
 */

import { direction } from "./dom.js";

/**
 * @typedef {{fill?: string, size?: number, anchor?: "start" | "middle" | "end", rotate?: number, weight?: number, alpha?: number, italic?: boolean, width?: number}} TextStyle
 */

/** Draws on a canvas. */
export class CanvasPen {
  /**
   * @param {CanvasRenderingContext2D} context
   * @param {string} font
   */
  constructor(context, font) {
    this.context = context;
    this.font = font;
  }

  /**
   * Set fill and opacity only where they change: a row of bars sets them once. Everything else leaves opacity at 1.
   * @param {string} fill
   * @param {number} alpha
   */
  use(fill, alpha) {
    const c = this.context;
    if (this.fill !== fill) c.fillStyle = this.fill = fill;
    if (this.alpha !== alpha) c.globalAlpha = this.alpha = alpha;
  }

  /** @param {number} x @param {number} y @param {number} w @param {number} h @param {string} fill @param {number} [alpha] */
  rect(x, y, w, h, fill, alpha = 1) {
    this.use(fill, alpha);
    this.context.fillRect(x, y, w, h);
  }

  /** @param {number} x @param {number} y @param {number} w @param {number} h @param {string} stroke @param {number} [width] */
  frame(x, y, w, h, stroke, width = 1) {
    const c = this.context;
    c.strokeStyle = stroke;
    c.lineWidth = width;
    c.setLineDash([]);
    c.strokeRect(x, y, w, h);
  }

  /** @param {number} x @param {number} y @param {number} r @param {string} fill @param {string} [stroke] @param {number} [alpha] */
  disc(x, y, r, fill, stroke, alpha = 1) {
    const c = this.context;
    this.use(fill, alpha);
    c.beginPath();
    c.arc(x, y, r, 0, 2 * Math.PI);
    c.fill();
    if (stroke) {
      c.strokeStyle = stroke;
      c.lineWidth = 1;
      c.setLineDash([]);
      c.stroke();
    }
  }

  /**
   * Several curves in one stroke. Numbers come eight a curve (two end points, two handles) or four a straight line.
   * @param {number[]} numbers
   * @param {string} stroke
   * @param {number} width
   * @param {number} alpha
   * @param {{curved?: boolean, dash?: number[]}} [options]
   */
  strokes(numbers, stroke, width, alpha, { curved = false, dash = [] } = {}) {
    if (!numbers.length) return;
    if (dash.length === 2 && !curved && numbers[1] === numbers[3]) return this.dashes(numbers, stroke, width, alpha, dash);
    const c = this.context;
    if (this.alpha !== alpha) c.globalAlpha = this.alpha = alpha;
    c.strokeStyle = stroke;
    c.lineWidth = width;
    c.setLineDash(dash);
    c.beginPath();
    if (curved) {
      for (let k = 0; k < numbers.length; k += 8) {
        c.moveTo(numbers[k], numbers[k + 1]);
        c.bezierCurveTo(numbers[k + 2], numbers[k + 3], numbers[k + 4], numbers[k + 5], numbers[k + 6], numbers[k + 7]);
      }
    } else {
      for (let k = 0; k < numbers.length; k += 4) {
        c.moveTo(numbers[k], numbers[k + 1]);
        c.lineTo(numbers[k + 2], numbers[k + 3]);
      }
    }
    c.stroke();
    c.setLineDash([]);
  }

  /**
   * Level dashed lines as rectangles: a dashed path is many times dearer, and these are drawn in every frame.
   * @param {number[]} numbers
   * @param {string} fill
   * @param {number} width
   * @param {number} alpha
   * @param {number[]} dash drawn, left out
   */
  dashes(numbers, fill, width, alpha, [drawn, left]) {
    for (let k = 0; k < numbers.length; k += 4) {
      const end = numbers[k + 2];
      for (let x = numbers[k]; x < end; x += drawn + left) this.rect(x, numbers[k + 1] - width / 2, Math.min(drawn, end - x), width, fill, alpha);
    }
  }

  /**
   * @param {ArrayLike<number>} xs
   * @param {ArrayLike<number>} ys
   * @param {string} stroke
   * @param {number} width
   * @param {number[]} [dash]
   */
  polyline(xs, ys, stroke, width, dash = []) {
    const c = this.context;
    if (this.alpha !== 1) c.globalAlpha = this.alpha = 1;
    c.strokeStyle = stroke;
    c.lineWidth = width;
    c.setLineDash(dash);
    c.lineJoin = "round";
    c.beginPath();
    for (let k = 0; k < xs.length; k++) k ? c.lineTo(xs[k], ys[k]) : c.moveTo(xs[k], ys[k]);
    c.stroke();
    c.setLineDash([]);
  }

  /** @param {string} text @param {number} x @param {number} y @param {TextStyle} [style] */
  text(text, x, y, { fill = "#000", size = 11, anchor = "start", rotate = 0, weight = 400, alpha = 1, italic = false } = {}) {
    const c = this.context;
    c.save();
    this.use(fill, alpha);
    c.font = `${italic ? "italic " : ""}${weight} ${size}px ${this.font}`;
    // Anchors name sides of the picture; "start" in a right-to-left run would be its other end.
    c.textAlign = anchor === "middle" ? "center" : anchor === "end" ? "right" : "left";
    c.textBaseline = "alphabetic";
    c.translate(x, y);
    if (rotate) c.rotate((rotate * Math.PI) / 180);
    c.fillText(text, 0, 0);
    c.restore();
    // What was set inside is gone with it.
    this.fill = this.alpha = undefined;
  }

  /** @param {string} text @param {number} size @param {number} [weight] @returns {number} */
  measure(text, size, weight = 400) {
    this.context.font = `${weight} ${size}px ${this.font}`;
    return this.context.measureText(text).width;
  }
}

/** @param {string} text */
export function escapeXml(text) {
  // Characters that XML forbids cannot be escaped; a text may hold none of them but tab and line ends.
  return text
    .replace(/[\u0000-\u0008\u000b\u000c\u000e-\u001f\ufffe\uffff]/g, "\ufffd")
    .replace(/&/g, "&amp;")
    .replace(/</g, "&lt;")
    .replace(/>/g, "&gt;")
    .replace(/"/g, "&quot;");
}

const short = (/** @type {number} */ v) => String(Math.round(v * 100) / 100);

/** Writes SVG elements. */
export class SvgPen {
  /**
   * @param {CanvasPen} ruler measures text
   * @param {string} font
   */
  constructor(ruler, font) {
    this.ruler = ruler;
    this.font = font;
    /** @type {string[]} */
    this.parts = [];
    this.x = 0;
    this.y = 0;
  }

  /** @param {number} x @param {number} y */
  origin(x, y) {
    this.x = x;
    this.y = y;
  }

  /** @param {number} x @param {number} y @param {number} w @param {number} h @param {string} fill @param {number} [alpha] */
  rect(x, y, w, h, fill, alpha = 1) {
    if (h < 0) [y, h] = [y + h, -h];
    this.parts.push(
      `<rect x="${short(x + this.x)}" y="${short(y + this.y)}" width="${short(w)}" height="${short(h)}" fill="${fill}"${alpha < 1 ? ` fill-opacity="${short(alpha)}"` : ""}/>`,
    );
  }

  /** @param {number} x @param {number} y @param {number} w @param {number} h @param {string} stroke @param {number} [width] @param {number} [radius] */
  frame(x, y, w, h, stroke, width = 1, radius = 0) {
    this.parts.push(
      `<rect x="${short(x + this.x)}" y="${short(y + this.y)}" width="${short(w)}" height="${short(h)}" rx="${radius}" fill="none" stroke="${stroke}" stroke-width="${width}"/>`,
    );
  }

  /** @param {number} x @param {number} y @param {number} r @param {string} fill @param {string} [stroke] @param {number} [alpha] */
  disc(x, y, r, fill, stroke, alpha = 1) {
    this.parts.push(
      `<circle cx="${short(x + this.x)}" cy="${short(y + this.y)}" r="${short(r)}" fill="${fill}"${stroke ? ` stroke="${stroke}"` : ""}${alpha < 1 ? ` opacity="${short(alpha)}"` : ""}/>`,
    );
  }

  /** @param {number[]} numbers @param {string} stroke @param {number} width @param {number} alpha @param {{curved?: boolean, dash?: number[]}} [options] */
  strokes(numbers, stroke, width, alpha, { curved = false, dash = [] } = {}) {
    if (!numbers.length) return;
    const path = [];
    const point = (/** @type {number} */ k) => `${short(numbers[k] + this.x)} ${short(numbers[k + 1] + this.y)}`;
    for (let k = 0; k < numbers.length; k += curved ? 8 : 4) {
      path.push(curved ? `M${point(k)}C${point(k + 2)} ${point(k + 4)} ${point(k + 6)}` : `M${point(k)}L${point(k + 2)}`);
    }
    this.parts.push(
      `<path d="${path.join("")}" fill="none" stroke="${stroke}" stroke-width="${short(width)}" stroke-opacity="${short(alpha)}"${dash.length ? ` stroke-dasharray="${dash.join(" ")}"` : ""}/>`,
    );
  }

  /** @param {ArrayLike<number>} xs @param {ArrayLike<number>} ys @param {string} stroke @param {number} width @param {number[]} [dash] */
  polyline(xs, ys, stroke, width, dash = []) {
    const points = Array.from(xs, (x, k) => `${short(x + this.x)},${short(ys[k] + this.y)}`).join(" ");
    this.parts.push(
      `<polyline points="${points}" fill="none" stroke="${stroke}" stroke-width="${width}"${dash.length ? ` stroke-dasharray="${dash.join(" ")}"` : ""}/>`,
    );
  }

  /** @param {string} text @param {number} x @param {number} y @param {TextStyle} [style] */
  text(text, x, y, { fill = "#000", size = 11, anchor = "start", rotate = 0, weight = 400, alpha = 1, italic = false } = {}) {
    const at = `x="${short(x + this.x)}" y="${short(y + this.y)}"`;
    const turn = rotate ? ` transform="rotate(${rotate} ${short(x + this.x)} ${short(y + this.y)})"` : "";
    // A right-to-left run starts at its right end: name the side that is meant.
    const rtl = direction(text) === "rtl";
    const side = rtl && anchor !== "middle" ? (anchor === "start" ? "end" : "start") : anchor;
    this.parts.push(
      `<text ${at} fill="${fill}" font-size="${size}" text-anchor="${side}"${rtl ? ' direction="rtl"' : ""}${weight !== 400 ? ` font-weight="${weight}"` : ""}${italic ? ' font-style="italic"' : ""}${alpha < 1 ? ` fill-opacity="${short(alpha)}"` : ""}${turn}>${escapeXml(text)}</text>`,
    );
  }

  /** @param {string} href @param {number} x @param {number} y @param {number} w @param {number} h */
  image(href, x, y, w, h) {
    this.parts.push(
      `<image href="${href}" x="${short(x + this.x)}" y="${short(y + this.y)}" width="${short(w)}" height="${short(h)}" preserveAspectRatio="none" style="image-rendering:pixelated"/>`,
    );
  }

  /** @param {string} text @param {number} size @param {number} [weight] @returns {number} */
  measure(text, size, weight = 400) {
    return this.ruler.measure(text, size, weight);
  }

  /** @param {number} width @param {number} height @param {string} title @param {string} description */
  document(width, height, title, description) {
    return (
      `<svg xmlns="http://www.w3.org/2000/svg" width="${Math.ceil(width)}" height="${Math.ceil(height)}" viewBox="0 0 ${Math.ceil(width)} ${Math.ceil(height)}" font-family="${escapeXml(this.font)}" role="img">` +
      `<title>${escapeXml(title)}</title><desc>${escapeXml(description)}</desc>${this.parts.join("")}</svg>`
    );
  }
}
