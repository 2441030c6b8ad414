// What a method made of the labels: how well it separated clean from wrong, and what it estimated.
import { el } from "./dom.js";
import { known } from "./data.js";
import { INKS, chart, curve, estimates, keyOfLines, lines } from "./charts.js";
import { counted, heatmap, inWords } from "./heatmap.js";

const PAIRS = [
  ["Samples selected as clean", ["label_precision", "label_recall"]],
  ["Samples flagged as noisy", ["noise_detection_precision", "noise_detection_recall", "open_set_recall"]],
  ["Labels that clients train on", ["label_accuracy"]],
];

/** Charts of the diagnostics of the methods of cells; empty if they have none. */
export async function diagnosticsOf(cells, details) {
  const found = [];
  const { metrics } = known.index;
  for (const [title, names] of PAIRS) {
    for (const name of names) {
      const series = seriesOf(cells, (run) => details.runs[run].curves[name]);
      if (series.length) found.push(await shares(`${title}: ${metrics[name].label}`, series));
    }
  }
  for (const [name, words] of Object.entries(details.relabelled)) {
    const series = seriesOf(cells, (run) => details.runs[run].relabelled[name]);
    if (series.length) found.push(await shares(`Relabelled: ${words}`, series));
  }
  for (const [name, words] of Object.entries(details.estimates)) {
    const points = pointsOf(cells, details, name);
    if (points.length) {
      const summary = `${points.length} estimates of clients, ${mean(points)}`;
      found.push(await chart(`Clients: ${words}, and the truth`, summary, estimates(points, words)));
    }
  }
  return found;
}

function mean(points) {
  const off = points.reduce((sum, point) => sum + Math.abs(point.y - point.x), 0) / points.length;
  return `off by ${off.toFixed(1)} points on average`;
}

/** The curves of all seeds of cells, where `found` gives one. */
export function seriesOf(cells, found) {
  return cells.flatMap((cell, n) =>
    cell.runs.flatMap((run, seed) => {
      const packed = found(run);
      if (!packed) return [];
      const name = `${cells.length > 1 ? `${"AB"[n]}, ` : ""}seed ${known.index.runs[run].seed}`;
      return [{ ink: INKS[n], name, seed, cell, run, ...curve(packed) }];
    }),
  );
}

/** Series in words, for those who cannot see them. */
export function seriesInWords(series, unit) {
  return series
    .map((one) => `${one.name} ends at ${one.y.at(-1).toFixed(one.decimals)} ${unit}`.trim())
    .join("; ");
}

async function shares(title, series) {
  const axes = { x: "rounds", y: "%", domain: [0, 100] };
  const frame = await chart(title, seriesInWords(series, "%"), lines(series, [], axes));
  frame.append(keyOfLines(series, []));
  return frame;
}

function pointsOf(cells, details, name) {
  return cells.flatMap((cell, n) =>
    cell.runs.flatMap((run) => {
      const facts = known.index.runs[run];
      const estimate = details.runs[run].estimates[name];
      const noise = details.partitions[facts.partition]?.noise;
      if (!estimate || !noise) return [];
      const values = estimate.values.split(",").map(Number);
      return estimate.clients.split(",").map((client, at) => ({
        client,
        x: noise[client],
        y: values[at],
        ink: INKS[n],
        name: `${cells.length > 1 ? `${"AB"[n]}, ` : ""}seed ${facts.seed}`,
      }));
    }),
  );
}

/** The noisy partition of a cell's first run. */
export async function partitionOf(cell, details, title) {
  const run = known.index.runs[cell.runs[0]];
  const found = run && details.partitions[run.partition];
  if (!found) {
    const words = run
      ? `The noisy partition ${run.partition} is not there: results that were copied, or the tracked runs, may come without it. Training the run alone makes it.`
      : cell.computed
        ? "The cell has no noisy partition of its own: it is computed from other cells of its row."
        : "Without a run there is no noisy partition yet.";
    return el("figure", {}, el("figcaption", {}, el("b", {}, title)), el("p", {}, words));
  }
  const partition = counted(found);
  const frame = await chart(title, inWords(partition), heatmap(partition));
  const key = (name, words) =>
    el("span", {}, el("i", { class: `swatch ${name}`, "aria-hidden": "true" }), words);
  frame
    .querySelector("figcaption")
    .append(
      el(
        "span",
        { class: "key" },
        key("sample", partition.known ? "right label" : "label"),
        partition.known ? key("wrong", "wrong label") : null,
      ),
    );
  frame.append(
    el(
      "p",
      { class: "legend" },
      `${inWords(partition)}. By given class; the height of a bar is the number of samples. Seed ${run.seed}.`,
    ),
  );
  return frame;
}
