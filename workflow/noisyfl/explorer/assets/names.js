// Numbers and verdicts in words.
import { el } from "./dom.js";
import { known } from "./data.js";

const CLASSES = {
  supported: "good",
  "mostly supported": "good",
  "partly supported": "near",
  "hardly supported": "bad",
  "not supported": "bad",
  diverged: "bad",
};

/** The class of a verdict's colour. */
export function colour(verdict) {
  return CLASSES[verdict] ?? "open";
}

/** A verdict as a sign and a word. */
export function badge(verdict) {
  const sign = known.index.signs[verdict];
  return el("span", { class: `badge ${colour(verdict)}` }, sign ? `${sign} ${verdict}` : verdict);
}

/** A number with so many decimals; a dash if there is none. */
export function number(value, decimals = 1) {
  return value === null || value === undefined ? "–" : value.toFixed(decimals);
}

/** What is measured, with its unit if it has one. */
export function measured({ label, unit }) {
  return unit ? `${label} (${unit})` : label;
}

/** A cell's rank in its column; null without one. */
export function rankWords({ rank }) {
  return rank && `${rank[0]} of ${rank[1]}`;
}

/** A time in its two largest units. */
export function duration(seconds) {
  if (seconds === null || seconds === undefined) return "";
  const s = Math.round(seconds);
  if (s >= 86400) return `${Math.floor(s / 86400)} d ${Math.floor((s % 86400) / 3600)} h`;
  if (s >= 3600) return `${Math.floor(s / 3600)} h ${Math.floor((s % 3600) / 60)} min`;
  return s >= 60 ? `${Math.floor(s / 60)} min ${s % 60} s` : `${s} s`;
}

/** Bytes in a unit that suits them. */
export function bytes(count) {
  if (count === null || count === undefined) return "";
  const units = ["bytes", "kB", "MB", "GB", "TB"];
  let n = 0;
  let value = count;
  while (value >= 1000 && n < units.length - 1) {
    value /= 1000;
    n += 1;
  }
  return n ? `${value.toFixed(1)} ${units[n]}` : `${value} bytes`;
}

/** An option's value as a configuration writes it. */
export function literal(value) {
  return value === undefined ? "–" : JSON.stringify(value);
}

/** What a scale of the page is called: its own one, or that of the runs at paper scale. */
export function scaleName(name) {
  return name === known.index.scale ? `Scale ${name}` : `Paper scale (${name})`;
}
