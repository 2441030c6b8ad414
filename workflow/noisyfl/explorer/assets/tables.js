// The tables as the papers print them, with search and filters; each cell leads to what is behind it.
import { anyOf, bullets, choice, controls, disclosure, el, prose, say } from "./dom.js";
import { known, placeOf, traits } from "./data.js";
import { address, cellAddress, cellOf, rename } from "./place.js";
import { colour, scaleName } from "./names.js";
import { download } from "./csv.js";

const FILTERS = {
  method: "Method",
  dataset: "Dataset",
  partition: "Partition",
  noise: "Noise",
  verdict: "Verdict",
  trained: "Run",
};

/** Cells that are drawn in one go. */
const AT_ONCE = 300;

const CSV = [
  ...["table", "row", "column", "metric", "unit", "statistic", "ours", "std", "trials", "diverged"],
  ...["published", "difference", "verdict", "as published", "runs"],
];

/** The view of the tables, drawn at once at least up to the table `left`. */
export function tablesView(query, left) {
  const asked = Object.fromEntries(query);
  const first = query.get("table") === null ? -1 : cellOf(query);
  const list = el("div", { class: "tables" });
  const tally = el("p", { class: "tally" });
  let shown = [];
  const draw = () => {
    const found = chosen(asked);
    const parts = known.index.tables
      .filter((table) => table.scale === scaleOf(asked))
      .filter((table) => !asked.paper || table.experiment === asked.paper)
      .map((table) => partOf(table, found))
      .filter((part) => part.cells.length);
    shown = parts.flatMap((part) => part.cells);
    build(list, parts, first, left);
    const words = `${count(shown.length, "cell")} in ${count(parts.length, "table")}`;
    tally.textContent = parts.length ? words : "Nothing fits. Take a filter away.";
    say(tally.textContent);
  };
  let chips = [scales(asked), papers(asked)];
  const change = (name) => (value) => {
    asked[name] = value;
    rename("tables", asked);
    const made = [scales(asked), papers(asked)];
    chips.forEach((one, n) => one?.replaceWith(made[n]));
    chips = made;
    draw();
  };
  draw();
  return [
    el("h1", {}, first < 0 ? "Tables" : "Tables: choose the cell to compare with"),
    first < 0 ? introduction(scaleOf(asked)) : comparing(first),
    chips,
    filters(asked, change),
    el(
      "div",
      { class: "row" },
      tally,
      download("tables.csv", () => rows(shown)),
    ),
    list,
  ];
}

function introduction(scale) {
  const { index } = known;
  const { note } = index.scales[scale];
  const cells = cellsAt(scale).map((n) => index.cells[n]);
  const none = index.runs.length
    ? null
    : el(
        "p",
        { class: "warning" },
        "This scale has no runs yet; each cell shows its commands.",
      );
  return el(
    "div",
    { class: "intro" },
    note ? el("p", {}, `Scale “${scale}”: ${note}`) : null,
    el(
      "p",
      {},
      cells.some((cell) => cell.published !== null)
        ? `Our number, the published one in brackets${verdicts(cells)}. `
        : "",
      "Choose a cell to see how it was computed.",
    ),
    none,
  );
}

/** The numbers of the cells of a scale. */
function cellsAt(scale) {
  return known.index.tables
    .filter((table) => table.scale === scale)
    .flatMap((table) => table.rows.flatMap((row) => row.cells));
}

/** The signs of the verdicts of some cells, and what they mean. */
function verdicts(cells) {
  const occur = new Set(cells.map((cell) => cell.verdict));
  const signs = Object.entries(known.index.signs).filter(([verdict]) => occur.has(verdict));
  return signs.length
    ? `, and how they compare: ${signs.map(([verdict, sign]) => `${sign} ${verdict}`).join(", ")}`
    : "";
}

function comparing(first) {
  const { table, row, column } = placeOf(first);
  return el(
    "p",
    { class: "warning" },
    `Beside ${row.name}, ${column.name} of ${table.name}. `,
    el("a", { href: cellAddress(first) }, "Back to it"),
  );
}

function scaleOf(asked) {
  return asked.scale || known.index.scale;
}

/** A link to the tables of each scale; null if there is one scale. */
function scales(asked) {
  const names = Object.keys(known.index.scales);
  if (names.length < 2) return null;
  const link = (name) =>
    el(
      "a",
      {
        href: address("tables", { ...asked, paper: "", scale: name === known.index.scale ? "" : name }),
        "aria-current": scaleOf(asked) === name ? "true" : null,
      },
      scaleName(name),
    );
  return el("nav", { class: "chips", "aria-label": "Scales" }, names.map(link));
}

/** A link to the tables of each paper, with the filters as they are; null if there is one paper. */
function papers(asked) {
  const shown = known.index.tables.filter((table) => table.scale === scaleOf(asked));
  const names = [...new Set(shown.map((table) => table.experiment))];
  if (names.length < 2) return null;
  const link = (name, words) =>
    el(
      "a",
      {
        href: address("tables", { ...asked, paper: name }),
        "aria-current": (asked.paper ?? "") === name ? "true" : null,
      },
      words,
    );
  return el(
    "nav",
    { class: "chips", "aria-label": "Papers" },
    link("", "All"),
    names.map((n) => link(n, n)),
  );
}

function filters(asked, change) {
  const every = cellsAt(scaleOf(asked)).map(traits);
  // A value that was chosen at another scale stays, so that it is seen and can be taken away.
  const values = (name) => {
    const found = new Set([...every.map((one) => one[name]), asked[name]]);
    return anyOf([...found].filter(Boolean).toSorted());
  };
  let timer = 0;
  const later = (text) => {
    clearTimeout(timer);
    timer = setTimeout(() => change("q")(text), 200);
  };
  const choices = Object.entries(FILTERS).map(([name, words]) =>
    choice(words, values(name), asked[name] ?? "", change(name)),
  );
  return controls(asked.q, "method, setting, table", later, choices);
}

/** The numbers of the cells that fit; null if all do. */
function chosen(asked) {
  const words = (asked.q ?? "").toLowerCase().split(/\s+/).filter(Boolean);
  const names = Object.keys(FILTERS).filter((name) => asked[name]);
  if (!words.length && !names.length) return null;
  const found = new Set();
  known.index.cells.forEach((_, n) => {
    const { table, row, column } = placeOf(n);
    const facts = traits(n);
    const text =
      `${table.name} ${table.title} ${row.group} ${row.name} ${row.method} ${column.name} ${facts.dataset}`.toLowerCase();
    const fits = names.every((name) => facts[name] === asked[name]);
    if (fits && words.every((word) => text.includes(word))) found.add(n);
  });
  return found;
}

/** What of a table fits: its lines and columns, and the cells where they meet. */
function partOf(table, found) {
  const fits = (n) => found === null || found.has(n);
  const lines = table.rows.filter((row) => row.cells.some(fits));
  const columns = table.columns
    .map((_, c) => c)
    .filter((c) => lines.some((row) => fits(row.cells[c])));
  const cells = lines.flatMap((row) => columns.map((c) => row.cells[c]).filter(fits));
  return { table, lines, columns, cells, fits };
}

/** Draw what is seen first at once, with the table `left`; the rest when the browser has time. */
function build(list, parts, first, left) {
  let next = 0;
  const more = (least) => {
    const sections = [];
    for (let drawn = 0; next < parts.length && (drawn < AT_ONCE || next <= least); next += 1) {
      sections.push(section(parts[next], first));
      drawn += parts[next].cells.length;
    }
    list.append(...sections);
  };
  const later = () => {
    if (list.parts !== parts || next === parts.length) return;
    more(-1);
    setTimeout(later);
  };
  list.parts = parts;
  list.replaceChildren();
  more(parts.findIndex(({ table }) => table.name === left));
  setTimeout(later);
}

function count(n, noun) {
  return `${n} ${noun}${n === 1 ? "" : "s"}`;
}

function section({ table, lines, columns, fits }, first) {
  const groups = lines.some((row) => row.group);
  const trials = mostTrials(table);
  const made = el(
    "section",
    { "aria-labelledby": table.name },
    el("h2", { id: table.name }, table.title, " ", el("small", {}, table.name)),
    el("p", { class: "paper" }, table.paper),
    table.warning
      ? el(
          "div",
          { class: "warning" },
          table.warning,
          table.details.length
            ? disclosure("What differs", bullets(table.details))
            : null,
        )
      : null,
    el(
      "div",
      { class: "scroll" },
      el(
        "table",
        { class: "numbers", onkeydown: arrows, "aria-label": table.title },
        head(table, columns),
        el(
          "tbody",
          {},
          lines.map((row, r) =>
            line(row, r ? lines[r - 1] : null, columns, fits, groups, first, trials),
          ),
        ),
      ),
    ),
    el(
      "details",
      { class: "notes" },
      el("summary", {}, "How to read it"),
      bullets(table.notes.map(prose)),
    ),
  );
  made.querySelector("td a")?.setAttribute("tabindex", "0");
  return made;
}

/** Whether a column is a mean of others. */
function isMean(table, c) {
  return table.rows.some((row) => known.index.cells[row.cells[c]].averages);
}

function head(table, columns) {
  const tops = [];
  for (const c of columns) {
    const { group } = table.columns[c];
    if (tops.length && tops.at(-1).group === group) tops.at(-1).span += 1;
    else tops.push({ group, span: 1 });
  }
  const grouped = tops.some((top) => top.group);
  return el(
    "thead",
    {},
    grouped
      ? el(
          "tr",
          {},
          el("td", {}),
          tops.map((top) => el("th", { colspan: top.span, scope: "colgroup" }, top.group)),
        )
      : null,
    el(
      "tr",
      {},
      el("th", { scope: "col" }, "Method"),
      columns.map((c) =>
        el(
          "th",
          { scope: "col" },
          table.columns[c].label,
          isMean(table, c) ? el("span", { class: "group" }, "± over columns, not seeds") : null,
        ),
      ),
    ),
  );
}

/** By column of a table, the most trials that a cell has. */
function mostTrials(table) {
  const trials = (row, c) => known.index.cells[row.cells[c]].runs.length;
  return table.columns.map((_, c) => Math.max(0, ...table.rows.map((row) => trials(row, c))));
}

function line(row, before, columns, fits, groups, first, trials) {
  const name = groups && row.group ? row.label : row.name;
  const opens = groups && row.group !== (before?.group ?? "");
  const method = known.index.methods[row.method] ? address("method", { name: row.method }) : null;
  const head = method ? el("a", { href: method, class: "plain" }, name) : name;
  return el(
    "tr",
    { class: [row.trained ? "" : "theirs", opens ? "opens" : ""].join(" ").trim() || null },
    el(
      "th",
      { scope: "row" },
      opens && row.group ? el("span", { class: "group" }, row.group) : null,
      head,
    ),
    columns.map((c) =>
      el("td", { class: fits(row.cells[c]) ? null : "off" }, content(row.cells[c], first, trials[c])),
    ),
  );
}

/** What stands in a cell: a link, unless there is nothing at all. Fewer trials than `most` are said. */
function content(number, first, most) {
  const cell = known.index.cells[number];
  if (!cell.ours && !cell.printed) return null;
  const { length } = cell.runs;
  const fewer = length && length < most ? count(length, "trial") : "";
  const words = [
    el(
      "span",
      { class: cell.best ? "ours best" : cell.mean === null ? "ours none" : "ours" },
      cell.ours || "–",
      cell.dagger ? "†" : "",
    ),
    cell.printed ? el("span", { class: "printed" }, `(${cell.printed})`) : null,
    cell.against ? el("span", { class: `against ${colour(cell.verdict)}` }, cell.against) : null,
    fewer ? el("span", { class: "trials" }, fewer) : null,
  ];
  const failed = Object.keys(cell.failed).length;
  const { row, column } = placeOf(number);
  const parts = [
    `${row.name}, ${column.name}: ${cell.ours || "not run"}`,
    cell.printed ? `published ${cell.printed}` : "",
    cell.difference === null ? "" : `difference ${cell.against.split(" ")[0]}`,
    cell.verdict,
    fewer,
    failed ? `${failed} failed` : "",
  ];
  return el(
    "a",
    {
      href: first < 0 ? cellAddress(number) : cellAddress(first, number),
      tabindex: -1,
      "aria-label": parts.filter(Boolean).join(", "),
    },
    words,
    failed ? el("span", { class: "against bad" }, `✗ ${failed} failed`) : null,
  );
}

/**
 * One cell of a table is reached with the tabulator, the others from it with the arrows, and with
 * Home and End, which go to the ends of its row.
 */
function arrows(event) {
  const steps = {
    ...{ ArrowRight: [0, 1], ArrowLeft: [0, -1], ArrowDown: [1, 0], ArrowUp: [-1, 0] },
    ...{ Home: [0, 1], End: [0, -1] },
  };
  const step = steps[event.key];
  const cell = event.target.closest?.("td");
  if (!step || !cell || event.altKey || event.ctrlKey || event.metaKey) return;
  const body = [...cell.closest("tbody").rows];
  let [r, c] = [body.indexOf(cell.parentNode), cell.cellIndex];
  if (event.key === "Home") c = 0;
  if (event.key === "End") c = cell.parentNode.cells.length;
  for (;;) {
    r += step[0];
    c += step[1];
    const next = body[r]?.cells[c];
    if (!next || c < 1) return;
    const link = next.querySelector("a");
    if (link) {
      event.preventDefault();
      event.target.closest("a").tabIndex = -1;
      link.tabIndex = 0;
      link.focus();
      return;
    }
  }
}

function rows(shown) {
  const { runs, cells } = known.index;
  const line = (number) => {
    const cell = cells[number];
    const { table, row, column } = placeOf(number);
    return [
      ...[table.name, row.name, column.name, cell.metric, cell.unit, cell.statistic],
      ...[cell.mean, cell.std, cell.runs.length, cell.diverged, cell.published, cell.difference],
      ...[cell.verdict, cell.paper, cell.runs.map((run) => runs[run].id).join(" ")],
    ];
  };
  return [CSV, ...shown.map(line)];
}
