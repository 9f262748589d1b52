/** Work in slices between frames: long solves never hold up a drag. */

const SLICE = 7;

export class Tasks {
  constructor() {
    /** @type {{name: string, work: Generator<unknown, unknown, void>, each?: (value: any) => void, done?: () => void}[]} */
    this.queue = [];
    this.timer = 0;
    this.busyUntil = 0;
  }

  /**
   * Start work under a name; work of that name that has not ended is dropped.
   * @param {string} name
   * @param {Generator<unknown, unknown, void>} work
   * @param {{each?: (value: any) => void, done?: () => void, first?: boolean}} [then]
   */
  start(name, work, { each, done, first = false } = {}) {
    this.cancel(name);
    const entry = { name, work, each, done };
    if (first) this.queue.unshift(entry);
    else this.queue.push(entry);
    this.schedule();
  }

  /** @param {string} name */
  cancel(name) {
    this.queue = this.queue.filter((entry) => entry.name !== name);
  }

  /** @param {string} name */
  has(name) {
    return this.queue.some((entry) => entry.name === name);
  }

  /** Leave the machine to the pictures for a while. @param {number} [ms] */
  yieldTo(ms = 120) {
    this.busyUntil = performance.now() + ms;
  }

  schedule() {
    if (this.timer || !this.queue.length) return;
    const wait = Math.max(0, this.busyUntil - performance.now());
    this.timer = setTimeout(() => this.run(), wait);
  }

  run() {
    this.timer = 0;
    if (performance.now() < this.busyUntil) return this.schedule();
    const until = performance.now() + SLICE;
    while (this.queue.length && performance.now() < until) {
      const entry = this.queue[0];
      const state = entry.work.next();
      if (state.done) {
        this.queue = this.queue.filter((other) => other !== entry);
        entry.done?.();
      } else entry.each?.(state.value);
    }
    this.schedule();
  }

  stop() {
    clearTimeout(this.timer);
    this.timer = 0;
    this.queue = [];
  }
}
