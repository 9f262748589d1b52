// Reads problems as JSON from stdin, computes them with the view's own modules, writes JSON to stdout.
import { readFileSync } from "node:fs";
import { pathToFileURL } from "node:url";

const folder = pathToFileURL(process.argv[2] + "/");
const load = (name) => import(new URL(name, folder));
const { Plan, HalfSteps, withNullPartner, FORBIDDEN } = await load("plan.js");
const { solve, solvePath, finish, interpolate } = await load("solver.js");
const { Sheet, Centring, elementsOf, strongest } = await load("sheet.js");
const { Model, chosenWeights } = await load("model.js");
const { defaultSettings, toQuery } = await load("settings.js");
const { expNegative, logPositive, format, percent, parse } = await load("numbers.js");
const { decode } = await load("payload.js");

const rows = (flat, n, m) => Array.from({ length: n }, (_, i) => Array.from(flat.subarray(i * m, (i + 1) * m)));
const problem = ({ cost, a, b }) => ({
  n: a.length,
  m: b.length,
  cost: Float32Array.from(cost.flat(), (c) => (c === "inf" ? FORBIDDEN : c)),
  a: Float64Array.from(a),
  b: Float64Array.from(b),
});
const matrix = (plan) => rows(plan.mass, plan.problem.n, plan.problem.m);

const tasks = {
  solve({ epsilon, relaxation, ...given }) {
    const plan = new Plan(problem(given));
    const outcome = finish(solve(plan, epsilon, relaxation === "inf" ? Infinity : relaxation, 1e-10));
    return { plan: matrix(plan), ...outcome };
  },
  softmax({ epsilon, ...given }) {
    const plan = new Plan(problem(given));
    plan.evaluate(epsilon, new Float64Array(plan.problem.m));
    return { plan: matrix(plan) };
  },
  halfSteps({ epsilon, steps, ...given }) {
    const work = problem(given);
    const iterations = new HalfSteps(work, epsilon);
    const plan = new Plan(work);
    // Out of order, as a dial is dragged.
    const shown = {};
    for (const step of steps) {
      const at = iterations.show(plan, step, Infinity);
      shown[step] = { at, plan: matrix(plan) };
    }
    return shown;
  },
  dial({ epsilons, potentials, epsilon, ...given }) {
    const plan = new Plan(problem(given));
    const out = new Float64Array(plan.problem.m);
    interpolate(Float64Array.from(epsilons), (k) => potentials[k], epsilon, out);
    plan.evaluate(epsilon, out);
    // From attention's plan at the same ε, as while a dial moves: the same numbers.
    const attention = new Plan(plan.problem);
    attention.evaluate(epsilon, new Float64Array(plan.problem.m));
    const scaled = new Plan(plan.problem);
    scaled.evaluateFrom(attention, out);
    const apart = (x, y) => x.reduce((most, v, k) => Math.max(most, Math.abs(v - y[k])), 0);
    const fromAttention = { mass: apart(scaled.mass, plan.mass), f: apart(scaled.f, plan.f) / epsilon, received: apart(scaled.received, plan.received) };
    plan.sweep(2);
    return { plan: matrix(plan), columnError: plan.columnError(), rowError: plan.rowError(), fromAttention };
  },
  path({ epsilons, ...given }) {
    const work = problem(given);
    const found = [];
    for (const state of solvePath(work, Float64Array.from(epsilons), 1e-9)) if (state) found.push(state);
    return found.map(({ g, outcome }) => ({ g: Array.from(g), ...outcome }));
  },
  partial({ epsilon, price, ...given }) {
    const wide = withNullPartner(problem(given), price);
    const plan = new Plan(wide);
    finish(solve(plan, epsilon, Infinity, 1e-11));
    return { plan: matrix(plan) };
  },
  // A whole payload through the model: what the pictures show.
  view({ payload, settings, refine }) {
    const model = new Model(decode(Uint8Array.from(Buffer.from(payload, "base64"))));
    const full = { ...defaultSettings(), ...settings };
    model.chooseWeights(full);
    const { level, left, right } = model.sheets(full);
    model.attention(model.epsilon(full));
    let done = model.couple(full, Infinity);
    const status = { ...model.status };
    if (!done && refine) {
      finish(model.refine(full));
      done = model.couple(full, Infinity);
    }
    model.read(right, model.right);
    model.read(left, model.left);
    const read = (sheet) => ({
      plan: rows(sheet.mass, sheet.n, sheet.m),
      lift: Array.from({ length: sheet.n }, (_, i) =>
        Array.from({ length: sheet.m }, (_, j) => (Number.isFinite(sheet.lift(i, j)) ? sheet.lift(i, j) : null)),
      ),
      received: Array.from(sheet.received),
      given: Array.from(sheet.given),
      price: Array.from(sheet.price),
      partners: Array.from(sheet.partners),
      nullSource: Array.from(sheet.nullSource),
      nullTarget: Array.from(sheet.nullTarget),
      information: sheet.information,
      meanPartners: sheet.meanPartners,
      cost: sheet.cost,
      missed: sheet.missed,
      total: sheet.total,
      rowError: sheet.rowError,
      columnError: sheet.columnError,
      weights: [Array.from(sheet.rows.weights), Array.from(sheet.columns.weights)],
      labels: [sheet.rows.labels, sheet.columns.labels],
    });
    const share = model.optimumShare(left.cost);
    return { level, status, done, left: read(left), right: read(right), share };
  },
  pair({ payload, rows: r, columns: c }) {
    const model = new Model(decode(Uint8Array.from(Buffer.from(payload, "base64"))));
    return model.pairCurve(r, c);
  },
  curves({ payload, settings }) {
    const model = new Model(decode(Uint8Array.from(Buffer.from(payload, "base64"))));
    return [...model.curves({ ...defaultSettings(), ...settings })].filter(Boolean);
  },
  strongest({ mass, share, limit }) {
    const found = strongest(Float64Array.from(mass), share, limit);
    return { ...found, pairs: Array.from(found.pairs) };
  },
  elements({ group, weights, points, range }) {
    const e = elementsOf(
      { group: Int32Array.from(group), weights: Float64Array.from(weights), points: Float32Array.from(points.flat()), dimensions: 2, label: String },
      range,
    );
    return { count: e.count, element: Array.from(e.element), weights: Array.from(e.weights), x: Array.from(e.x), y: Array.from(e.y), single: e.single };
  },
  numbers({ exps, logs, formats, percents, parses }) {
    return {
      exps: exps.map(expNegative),
      logs: logs.map(logPositive),
      formats: formats.map((v) => format(v)),
      percents: percents.map(percent),
      parses: parses.map((t) => String(parse(t))),
    };
  },
  query(settings) {
    return toQuery({ ...defaultSettings(), ...settings });
  },
  weights({ payload, choice }) {
    const { source } = decode(Uint8Array.from(Buffer.from(payload, "base64")));
    const weights = chosenWeights(source, choice);
    return weights && Array.from(weights);
  },
};
void [Sheet, Centring];

const jobs = JSON.parse(readFileSync(0, "utf8"));
process.stdout.write(JSON.stringify(jobs.map(({ task, ...given }) => tasks[task](given))));
