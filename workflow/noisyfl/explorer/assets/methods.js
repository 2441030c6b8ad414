// A page for each method: what it is, its source and options, where it ranks, and its cells.
import { crumbs, disclosure, el, facts, listing, prose, row } from "./dom.js";
import { known, placeOf } from "./data.js";
import { address, cellAddress } from "./place.js";
import { badge, literal, number } from "./names.js";
import { download } from "./csv.js";

/** The cells of a method that have a number of ours, alone or combined with another. */
function cellsOf(name) {
  return known.index.cells
    .map((_, n) => n)
    .filter((n) => placeOf(n).row.trained && placeOf(n).row.method.split("+").includes(name))
    .filter((n) => known.index.cells[n].rank !== null);
}

/** The metrics in which methods are rivals. */
const ACCURACY = ["test_accuracy", "top1_accuracy"];

/**
 * The mean of the share of its rivals that a method beats in a column of test accuracy, and in how
 * many of them it is first. Of several rows in a column the best counts.
 */
function standing(cells) {
  const columns = new Map();
  const own = cells.filter((n) => placeOf(n).table.scale === known.index.scale);
  for (const { table, at, metric, rank } of own.map((n) => known.index.cells[n])) {
    if (!ACCURACY.includes(metric)) continue;
    const place = `${table} ${at[1]}`;
    const beaten = (rank[1] - rank[0]) / (rank[1] - 1);
    columns.set(place, Math.max(columns.get(place) ?? 0, beaten));
  }
  const shares = [...columns.values()];
  if (!shares.length) return null;
  return {
    beaten: (100 * shares.reduce((sum, share) => sum + share, 0)) / shares.length,
    first: shares.filter((share) => share === 1).length,
    columns: shares.length,
  };
}

/** The list of methods. */
export function methodsView() {
  const lines = Object.entries(known.index.methods).map(([name, method]) => {
    const found = standing(cellsOf(name));
    return { name, method, found };
  });
  const ordered = lines.toSorted(
    (a, b) => (b.found?.beaten ?? -1) - (a.found?.beaten ?? -1) || a.name.localeCompare(b.name),
  );
  const rows = () => [
    ["method", "reference", "rivals beaten (%)", "first", "columns"],
    ...ordered.map((one) => [
      one.name,
      one.method.reference,
      one.found && number(one.found.beaten),
      one.found?.first,
      one.found?.columns,
    ]),
  ];
  return [
    el("h1", {}, "Methods"),
    el(
      "p",
      { class: "intro" },
      "In order of the share of its rivals that a method beats, a mean over the columns of this scale’s tables in which it has a test accuracy beside others’.",
    ),
    el(
      "div",
      { class: "row" },
      el("p", { class: "tally" }, `${lines.length} methods`),
      download("methods.csv", rows),
    ),
    listing(
      "list",
      ["Method", "Source", "Rivals beaten", "First"],
      ordered.map(({ name, method, found }) =>
        row(
          el("a", { href: address("method", { name }) }, name),
          method.reference,
          found ? bar(found.beaten) : "not ranked",
          found ? `${found.first} of ${found.columns}` : "",
        ),
      ),
    ),
  ];
}

function bar(share) {
  return el(
    "span",
    { class: "bar" },
    el("span", { class: "fill", style: `width:${Math.max(2, share * 0.6)}%` }),
    `${number(share, 0)} %`,
  );
}

/** The page of a method; of a combination those of its parts. */
export function methodView(query) {
  const names = (query.get("name") ?? "").split("+").filter((name) => known.index.methods[name]);
  if (!names.length)
    return [
      el("h1", {}, "No such method"),
      el("p", {}, el("a", { href: "#methods" }, "All methods")),
    ];
  return [
    crumbs("#methods", "Methods", names.join(" + ")),
    ...names.flatMap((name, n) => page(name, n, query.get("option"))),
  ];
}

function page(name, n, option) {
  const method = known.index.methods[name];
  const cells = cellsOf(name);
  const found = standing(cells);
  const paragraphs = method.about.split("\n\n");
  const { fidelity } = known.index;
  const choices = method.title && `Fidelity, ${method.title}`;
  return [
    el(n ? "h2" : "h1", {}, name),
    el("p", { class: "lead" }, prose(paragraphs[0].replaceAll("\n", " "))),
    facts([
      ["Source", method.reference],
      ["Sides", method.sides.join(" and ")],
      ["Revision", method.revision],
      ["Code", method.file],
      [
        "Standing",
        found &&
          `beats ${number(found.beaten, 0)} % of its rivals; first in ${found.first} of ${found.columns} columns`,
      ],
      ["Choices", choices && fidelity ? el("a", { href: fidelity }, choices) : choices],
    ]),
    paragraphs.length > 1
      ? disclosure(
          "More about it",
          paragraphs.slice(1).map((text) => el("p", { class: "pre" }, prose(text))),
        )
      : null,
    el("h2", {}, "Options"),
    method.options.length ? options(method, option) : el("p", {}, "It has none."),
    ...(Object.keys(method.variants).length ? variants(method) : []),
    el("h2", {}, "Cells"),
    cells.length
      ? ranks(cells)
      : el("p", {}, "It is ranked in no table of this scale."),
  ];
}

/** A line for each option, with what people wrote about it. */
function options(method, chosen) {
  const heads = [...new Set(method.options.flatMap((option) => Object.keys(option.why)))];
  return listing(
    "list",
    ["Option", "Default", "May be", "What it decides", ...heads],
    method.options.map((option) =>
      el(
        "tr",
        {
          id: `option-${option.name}`,
          class: option.name === chosen ? "chosen" : null,
          tabindex: option.name === chosen ? -1 : null,
        },
        el("th", { scope: "row" }, el("code", {}, option.name)),
        el(
          "td",
          {},
          el("code", {}, option.default),
        ),
        el("td", {}, prose(option.allowed)),
        el("td", {}, option.meaning),
        heads.map((head) => el("td", {}, prose(option.why[head] ?? ""))),
      ),
    ),
  );
}

function variants(method) {
  const sets = (given) =>
    Object.entries(given)
      .map(([key, value]) => `${key}=${literal(value)}`)
      .join(", ");
  return [
    el("h2", {}, "Variants"),
    facts(
      Object.entries(method.variants).map(([name, given]) => [name, el("code", {}, sets(given))]),
    ),
  ];
}

function ranks(cells) {
  return listing(
    "list",
    ["Cell", "Ours", "Published", "Verdict", "Rank"],
    cells.map((n) => {
      const cell = known.index.cells[n];
      const place = placeOf(n);
      const link = el("a", { href: cellAddress(n) }, `${place.row.name}, ${place.column.name}`);
      return row(
        [link, el("small", {}, place.table.name)],
        `${cell.ours} ${cell.unit}`,
        cell.spread || "–",
        cell.verdict ? badge(cell.verdict) : "–",
        `${cell.rank[0]} of ${cell.rank[1]}`,
      );
    }),
  );
}
