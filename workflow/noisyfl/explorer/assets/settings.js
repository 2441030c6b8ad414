// Settings and options of one cell or two, beside the paper's, with the reason of what differs.
import { disclosure, el, listing, prose } from "./dom.js";
import { known } from "./data.js";
import { address } from "./place.js";
import { literal } from "./names.js";

/** The settings; `cells` are one or two. */
export function settingsOf(cells) {
  const specs = cells.map((cell) => (cell.spec === null ? null : known.index.specs[cell.spec]));
  const theirs = cells.map((cell) =>
    cell.theirs === null ? null : known.index.specs[cell.theirs],
  );
  if (specs.every((spec) => spec === null)) {
    return [
      el(
        "p",
        {},
        "The cell has no setting of its own: it is computed from other cells, or only the paper has it.",
      ),
    ];
  }
  const names = [...new Set(specs.flatMap((spec) => Object.keys(spec?.setting ?? {})))];
  const lines = names.map((name) => {
    const ours = specs.map((spec) => spec?.setting[name]);
    const paper = theirs.map((spec) => spec?.setting[name]);
    return { name, ours, paper, note: why(cells, name, ours, paper) };
  });
  const source = cells.some((cell) => known.index.tables[cell.table].compared)
    ? "The paper"
    : "The experiment";
  return [
    el(
      "p",
      { class: "legend" },
      "Marked ",
      el("mark", {}, "≠"),
      `: differs from the setting of ${source.toLowerCase()}.`,
    ),
    comparison("Setting", source, lines, cells.length),
    ...options(specs, theirs, source, scaleOf(cells)),
  ];
}

function why(cells, name, ours, paper) {
  const differs = ours.some(
    (value, n) => paper[n] !== undefined && value !== undefined && value !== paper[n],
  );
  if (!differs) return null;
  if (name === "precision") return ["How precisely a device computes, which no paper says."];
  const { name: scale, note, reasons } = scaleOf(cells);
  const reason = reasons[name.replaceAll(" ", "_")];
  if (reason) return [reason];
  return [`The scale “${scale}” overrides the paper’s value.`, note ? disclosure("Why", note) : null];
}

/** What the page says of the scale of the first cell. */
function scaleOf(cells) {
  return known.index.scales[known.index.tables[cells[0].table].scale];
}

/** A table of lines {name, ours, paper, note}, `paper` being what the source has; of two cells a column each. */
function comparison(head, source, lines, count) {
  const marked = (line, n) => {
    const differs =
      line.ours[n] !== undefined && line.paper[n] !== undefined && line.ours[n] !== line.paper[n];
    const words = line.ours[n] ?? "–";
    return el(
      "td",
      { "data-head": count > 1 ? `Cell ${"AB"[n]}` : "Ours" },
      differs ? el("mark", {}, "≠ ", words) : words,
    );
  };
  const apart = (line) => count > 1 && line.ours[0] !== line.ours[1];
  const heads = [head, ...(count > 1 ? ["Cell A", "Cell B"] : ["Ours"]), source, "Why"];
  const theirs = (line) => {
    const values = [...new Set(line.paper.filter((value) => value !== undefined))];
    return values.length ? values.join(" / ") : "–";
  };
  return listing(
    "settings",
    heads,
    lines.map((line) =>
      el(
        "tr",
        { class: apart(line) ? "apart" : null },
        el(
          "th",
          { scope: "row" },
          line.link ? el("a", { href: line.link }, line.name) : line.name,
        ),
        line.ours.map((_, n) => marked(line, n)),
        el("td", { "data-head": source }, theirs(line)),
        el("td", { "data-head": "Why" }, line.note),
      ),
    ),
  );
}

/** The options of each method: of two cells with the same methods side by side. */
function options(specs, theirs, source, scale) {
  const names = [...new Set(specs.flatMap((spec) => (spec?.methods ?? []).map((one) => one.name)))];
  return names.flatMap((name) => {
    const of = (spec) => spec?.methods.find((one) => one.name === name);
    const ours = specs.map(of);
    const paper = theirs.map(of);
    const described = known.index.methods[name];
    const keys = described?.options.map((option) => option.name) ?? [];
    const revision = ours.find(Boolean).revision;
    const title = el(
      "h3",
      {},
      "Options of ",
      el("a", { href: address("method", { name }) }, name),
      el("small", {}, ` revision ${revision}`),
    );
    if (!keys.length) return [title, el("p", {}, "It has none.")];
    const lines = keys.map((key) => ({
      name: key,
      link: address("method", { name, option: key }),
      ours: ours.map((one) => one && literal(one.options[key])),
      paper: paper.map((one) => one && literal(one.options[key])),
      note: reason(described, key, ours, paper, scale),
    }));
    return [title, comparison("Option", source, lines, specs.length)];
  });
}

/** Why an option has its value: what overrides the paper's, or what people wrote. */
function reason(described, key, ours, paper, scale) {
  const option = described.options.find((one) => one.name === key);
  const why = Object.values(option.why).at(-1);
  const own = ours.find(Boolean);
  const differs = ours.some(
    (one, n) => one && paper[n] && literal(one.options[key]) !== literal(paper[n].options[key]),
  );
  const changed = own && key in own.defaults;
  const parts = [];
  if (differs) parts.push(`${scale.reasons.options ?? `The scale “${scale.name}” overrides the paper’s value.`} `);
  else if (changed)
    parts.push(`Set by the experiment’s file; the default is ${literal(own.defaults[key])}. `);
  if (why) parts.push(disclosure("Fidelity", el("span", {}, prose(why))));
  return parts;
}
