// Charts, drawn by Observable Plot, which is read when the first is drawn.
import { el } from "./dom.js";
import { unpack, values } from "./data.js";

/** Of the first and the second cell. */
export const INKS = ["var(--first)", "var(--second)"];

/** Of a cell's seeds, in order. */
const DASHES = ["", "6 3", "2 3", "8 3 2 3", "1 4"];

/** Of a published number: longer than those of any seed. */
const PUBLISHED = "18 6";

/** The library. */
async function plot() {
  if (!window.Plot) {
    const text = await unpack("library");
    if (!window.Plot) document.head.append(Object.assign(el("script"), { textContent: text }));
  }
  return window.Plot;
}

/** A chart in its frame, with what it says in words; `draw` gets the library and a width. */
export async function chart(title, words, draw) {
  const library = await plot();
  const place = el("div", { class: "drawing", role: "img", "aria-label": `${title}. ${words}` });
  const frame = el("figure", {}, el("figcaption", {}, el("b", {}, title)), place);
  let width = 0;
  const fit = () => {
    const room = Math.floor(place.clientWidth);
    if (room < 40 || room === width) return;
    width = room;
    place.replaceChildren(draw(library, width));
  };
  new ResizeObserver(fit).observe(place);
  return frame;
}

/** A key of lines: which dashes are whose. */
export function keyOfLines(series, levels) {
  const sample = (ink, dashes) => {
    const line = document.createElementNS("http://www.w3.org/2000/svg", "line");
    const place = { x2: 44, y1: 6, y2: 6, stroke: ink, "stroke-width": 1.8, "stroke-dasharray": dashes };
    for (const [name, value] of Object.entries(place)) line.setAttribute(name, value);
    const drawing = document.createElementNS("http://www.w3.org/2000/svg", "svg");
    drawing.setAttribute("width", 44);
    drawing.setAttribute("height", 12);
    drawing.setAttribute("aria-hidden", "true");
    drawing.append(line);
    return drawing;
  };
  const entry = (ink, dashes, words) => el("span", {}, sample(ink, dashes), words);
  return el(
    "p",
    { class: "key" },
    series.map((one) => entry(one.ink, dashesOf(one), one.name)),
    levels.map((level) => entry(level.ink, PUBLISHED, level.words)),
  );
}

function dashesOf({ seed }) {
  return DASHES[seed % DASHES.length];
}

/** Lines of the same kind: `series` are {ink, name, seed, x, y}; `levels` {ink, value, words}. */
export function lines(series, levels, axes) {
  const points = series.flatMap((one, n) =>
    one.x.map((x, i) => ({ x, y: one.y[i], n, name: one.name })),
  );
  return (library, width) =>
    library.plot({
      width,
      height: Math.min(340, Math.max(220, width * 0.5)),
      marginLeft: 46,
      marginRight: 16,
      marginBottom: 44,
      style: { background: "transparent", fontSize: "12px", overflow: "visible" },
      x: {
        label: axes.x,
        labelOffset: 40,
        ticks: whole(points, width < 420 ? 4 : 8),
        tickFormat: String,
      },
      y: { label: axes.y, grid: true, nice: true, domain: axes.domain },
      marks: [
        ...levels.flatMap((level) => [
          library.ruleY([level.value], {
            stroke: level.ink,
            strokeDasharray: PUBLISHED,
            strokeWidth: 1.5,
          }),
          library.text([level], {
            y: "value",
            text: "words",
            frameAnchor: "right",
            textAnchor: "end",
            dy: level.below ? 8 : -8,
            fill: level.ink,
            stroke: "var(--ground)",
            strokeWidth: 4,
          }),
        ]),
        ...series.map((one, n) =>
          library.line(
            points.filter((point) => point.n === n),
            {
              x: "x",
              y: "y",
              stroke: one.ink,
              strokeWidth: 1.8,
              strokeDasharray: dashesOf(one),
            },
          ),
        ),
        ...series
          .filter((one) => one.x.length < 3)
          .map((one) => library.dot(one.x, { x: one.x, y: one.y, fill: one.ink, r: 3 })),
        library.dot(
          points,
          library.pointer({ x: "x", y: "y", fill: (d) => series[d.n].ink, r: 4 }),
        ),
        library.tip(
          points,
          library.pointer({
            x: "x",
            y: "y",
            title: (d) => `${d.name}\n${axes.x} ${d.x}: ${d.y.toFixed(series[d.n].decimals)}`,
            fill: "var(--panel)",
          }),
        ),
      ],
    });
}

/** Whole numbers to mark on the axis of rounds, at most so many of them and one more. */
function whole(points, most) {
  const [low, high] = [Math.min, Math.max].map((end) => end(...points.map((point) => point.x)));
  const steps = [1, 2, 5].flatMap((digit) => [1, 10, 100, 1000].map((ten) => digit * ten));
  const step = steps.toSorted((a, b) => a - b).find((one) => (high - low) / one <= most) ?? 10000;
  const places = [];
  for (let n = Math.ceil(low / step) * step; n <= high; n += step) places.push(n);
  return places;
}

/** What clients' noise was estimated at, against what it is; `words` say what the estimate is. */
export function estimates(points, words) {
  return (library, width) =>
    library.plot({
      width,
      height: Math.min(340, Math.max(240, width * 0.8)),
      marginLeft: 46,
      marginRight: 16,
      marginBottom: 44,
      style: { background: "transparent", fontSize: "12px" },
      x: { label: "true share of wrong labels (%)", labelOffset: 40, domain: [0, 100] },
      y: { label: `${words} (%)`, domain: [0, 100], grid: true },
      marks: [
        library.line(
          [
            [0, 0],
            [100, 100],
          ],
          { stroke: "currentColor", strokeOpacity: 0.4, strokeDasharray: "4 4" },
        ),
        library.dot(points, {
          x: "x",
          y: "y",
          stroke: (d) => d.ink,
          symbol: (d) => (d.ink === INKS[0] ? "circle" : "triangle"),
          fill: (d) => d.ink,
          fillOpacity: 0.25,
          r: 4,
        }),
        library.tip(
          points,
          library.pointer({
            x: "x",
            y: "y",
            fill: "var(--panel)",
            title: (d) => `${d.name}\nclient ${d.client}: ${d.x} % wrong, ${words} ${d.y} %`,
          }),
        ),
      ],
    });
}

/** A packed curve as x and y, and how many decimals of y to write. */
export function curve([x, y, finer = 1]) {
  return { x: values(x), y: values(y).map((one) => one / finer), decimals: finer > 1 ? 3 : 1 };
}
