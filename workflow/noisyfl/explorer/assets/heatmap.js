// The noisy partition: of each client and class the samples, the wrong ones dark.
import { whole } from "./data.js";

/** A grid with more cells than this shows clients alone. */
const MOST = 6000;

/** What the numbers of a partition say: {clients, classes, cells: [{client, label, count, wrong}]}. */
export function counted(partition) {
  const counts = whole(partition.counts);
  const wrong = partition.wrong === null ? null : whole(partition.wrong);
  const classes = partition.classes.length;
  const cells = counts
    .map((count, n) => ({
      client: Math.floor(n / classes),
      label: n % classes,
      count,
      wrong: wrong ? wrong[n] : 0,
    }))
    .filter((cell) => cell.count > 0);
  if (cells.length <= MOST) return { ...partition, cells, known: wrong !== null, byClass: true };
  const sums = Array.from({ length: partition.clients }, (_, client) => ({
    client,
    label: 0,
    count: 0,
    wrong: 0,
  }));
  for (const cell of cells) {
    sums[cell.client].count += cell.count;
    sums[cell.client].wrong += cell.wrong;
  }
  return { ...partition, cells: sums, known: wrong !== null, byClass: false };
}

/** Draws a partition that is counted: a cell is as full as it has samples. */
export function heatmap(partition) {
  const most = Math.max(...partition.cells.map((cell) => cell.count));
  const rows = partition.byClass ? partition.classes.length : 1;
  const tall = partition.byClass ? (rows > 20 ? 8 : 24) : 140;
  const bar = (part) => ({
    x1: (d) => d.client + 0.06,
    x2: (d) => d.client + 0.94,
    y1: (d) => d.label,
    y2: (d) => d.label + (0.92 * d[part]) / most,
  });
  const name = (label) => partition.classes[label] ?? "";
  const words = (d) =>
    [
      `client ${d.client}${partition.byClass ? `, ${name(d.label)}` : ""}`,
      `${d.count} samples`,
      ...(partition.known ? [`${d.wrong} wrongly labelled`] : []),
    ].join("\n");
  return (library, width) =>
    library.plot({
      width,
      height: rows * tall + 44,
      marginLeft: partition.byClass ? (rows > 20 ? 24 : 82) : 24,
      marginRight: 8,
      marginBottom: 36,
      style: { background: "transparent", fontSize: "12px" },
      x: { label: "client", domain: [0, partition.clients], ticks: 0 },
      y: { domain: [0, rows], ticks: 0, label: null },
      marks: [
        library.gridY(
          Array.from({ length: rows + 1 }, (_, n) => n),
          { strokeOpacity: 0.15 },
        ),
        library.rect(partition.cells, { ...bar("count"), fill: "var(--sample)" }),
        library.rect(partition.cells, { ...bar("wrong"), fill: "var(--wrong)" }),
        partition.byClass && rows <= 20
          ? library.text(partition.classes, {
              x: 0,
              y: (_, n) => n + 0.5,
              text: (text) => (text.length > 11 ? `${text.slice(0, 10)}…` : text),
              textAnchor: "end",
              dx: -6,
            })
          : null,
        library.axisX(ticks(partition.clients, width), {
          tickFormat: (x) => String(x - 0.5),
          label: "client",
          labelAnchor: "center",
          tickSize: 3,
        }),
        library.tip(
          partition.cells,
          library.pointer({
            x: (d) => d.client + 0.5,
            y: (d) => d.label + 0.5,
            title: words,
            fill: "var(--panel)",
          }),
        ),
      ],
    });
}

function ticks(clients, width) {
  const step = Math.ceil(clients / Math.max(4, Math.floor(width / 36)));
  const places = [];
  for (let n = 0; n < clients; n += step) places.push(n + 0.5);
  return places;
}

/** A partition in words. */
export function inWords(partition) {
  const total = partition.cells.reduce((sum, cell) => sum + cell.count, 0);
  const wrong = partition.cells.reduce((sum, cell) => sum + cell.wrong, 0);
  const share = partition.known
    ? `${wrong} of ${total} labels are wrong (${((100 * wrong) / total).toFixed(1)} %)`
    : `${total} labels, of which nobody knows how many are wrong`;
  return `${partition.clients} clients, ${partition.classes.length} classes; ${share}`;
}
