// A page for each method: what it is, its source and options, where it ranks, and its cells.
import { crumbs, disclosure, el, facts, listing, prose, row } from "./dom.js";
import { known, placeOf } from "./data.js";
import { address, cellAddress } from "./place.js";
import { badge, literal, number, rankWords } from "./names.js";
import { download } from "./csv.js";

/** The ranked cells of a method, alone or combined with another. */
function cellsOf(name) {
  return known.index.cells
    .map((_, n) => n)
    .filter((n) => placeOf(n).row.trained && placeOf(n).row.method.split("+").includes(name))
    .filter((n) => known.index.cells[n].rank !== null);
}

/** The metrics in which methods are rivals. */
const ACCURACY = ["test_accuracy", "top1_accuracy"];

/** The best rank of each method and combination, column by column; bounds have none. */
function columnsOfRivals() {
  const columns = new Map();
  for (const [n, { table, at, metric, rank }] of known.index.cells.entries()) {
    const place = placeOf(n);
    const parts = place.row.method.split("+");
    const bound = parts.some((part) => known.index.methods[part]?.bound);
    if (place.table.scale !== known.index.scale || !rank || bound) continue;
    if (!ACCURACY.includes(metric)) continue;
    const key = JSON.stringify([table, at[1], metric, place.row.group]);
    if (!columns.has(key)) columns.set(key, new Map());
    const best = columns.get(key);
    // A client side alone is averaged as in FedAvg.
    const name = parts.length > 1 && parts[0] === "fedavg" ? parts[1] : place.row.method;
    best.set(name, Math.min(best.get(name) ?? Infinity, rank[0]));
  }
  return [...columns.values()];
}

/**
 * By method and combination: the mean share of its rivals, the other methods of a column of test
 * accuracy, that it beats, and in how many of the columns it is first. A tie counts half.
 */
function standings() {
  const found = {};
  for (const best of columnsOfRivals()) {
    if (best.size < 2) continue;
    for (const [name, own] of best) {
      const others = [...best].filter(([other]) => other !== name);
      const won = others.map(([, rank]) => (rank === own ? 0.5 : Number(rank > own)));
      const share = won.reduce((sum, one) => sum + one) / others.length;
      const one = (found[name] ??= { beaten: 0, first: 0, columns: 0 });
      one.beaten = (one.beaten * one.columns + 100 * share) / (one.columns + 1);
      one.first += Math.min(...won);
      one.columns += 1;
    }
  }
  return found;
}

function standingWords({ beaten, first, columns }) {
  return `beats ${number(beaten, 0)} % of its rivals; first in ${first} of ${columns} columns`;
}

/** The list of methods. */
export function methodsView() {
  const found = standings();
  const { methods } = known.index;
  const lines = [...new Set([...Object.keys(methods), ...Object.keys(found)])].map((name) => ({
    name,
    reference: methods[name]?.reference ?? "a combination",
    bound: methods[name]?.bound,
    found: found[name],
  }));
  const ordered = lines.toSorted(
    (a, b) => (b.found?.beaten ?? -1) - (a.found?.beaten ?? -1) || a.name.localeCompare(b.name),
  );
  const rows = () => [
    ["method", "reference", "rivals beaten (%)", "first", "columns"],
    ...ordered.map((one) => [
      one.name,
      one.reference,
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
      "Ordered by the share of its rivals that a method beats: the mean over the columns of test accuracy in this scale’s tables. Rivals are the other methods and combinations in the column. A tie counts half, and of several rows of a method the best counts. Bounds are not ranked: the oracle and methods that pool all samples.",
    ),
    el(
      "div",
      { class: "row" },
      el("p", { class: "tally" }, `${Object.keys(methods).length} methods`),
      download("methods.csv", rows),
    ),
    listing(
      "list",
      ["Method", "Source", "Rivals beaten", "First"],
      ordered.map(({ name, reference, bound, found }) =>
        row(
          el("a", { href: address("method", { name }) }, name),
          reference,
          found ? bar(found.beaten) : bound ? "a bound" : "not ranked",
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
  const found = standings();
  const together = names.length > 1 && found[names.join("+")];
  return [
    crumbs("#methods", "Methods", names.join(" + ")),
    together ? facts([["Standing of both", standingWords(together)]]) : null,
    ...names.flatMap((name, n) => page(name, n, query.get("option"), found[name])),
  ];
}

function page(name, n, option, found) {
  const method = known.index.methods[name];
  const cells = cellsOf(name);
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
      ["Standing", found ? standingWords(found) : method.bound ? "a bound, not ranked" : null],
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
        `${cell.ours} ${cell.unit}`.trim(),
        cell.spread || "–",
        cell.verdict ? badge(cell.verdict) : "–",
        rankWords(cell),
      );
    }),
  );
}
