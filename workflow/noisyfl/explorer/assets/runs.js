// Every run, to be sorted and searched, with all of its facts.
import { anyOf, bullets, choice, controls, crumbs, el, say } from "./dom.js";
import { cellName, known } from "./data.js";
import { address, cellAddress, rename } from "./place.js";
import { duration, number } from "./names.js";
import { card } from "./cell.js";
import { download } from "./csv.js";

/** How many lines are drawn before more are asked for. */
const MOST = 200;

const COLUMNS = {
  id: ["Run", (run) => run.id],
  method: [
    "Method",
    (run) =>
      spec(run)
        .methods.map((one) => one.name)
        .join("+"),
  ],
  dataset: ["Dataset", (run) => spec(run).dataset],
  partition: ["Partition", (run) => spec(run).words.partition],
  noise: ["Noise", (run) => spec(run).words.noise],
  seed: ["Seed", (run) => run.seed],
  status: ["Status", (run) => run.made.status],
  best: ["Best %", (run) => run.statistics.best, number],
  last: ["Last %", (run) => run.statistics.last, number],
  mean10: ["Last ten %", (run) => run.statistics.mean_last_10, number],
  rounds: ["Rounds", (run) => run.rounds],
  seconds: ["Training", (run) => run.made.training_seconds, duration],
};

/** Columns of the CSV alone; the page of a run shows them too. */
const MORE = {
  memory: ["MiB", (run) => run.made.peak_memory_mb],
  down: ["Down", (run) => run.totals.bytes_down],
  up: ["Up", (run) => run.totals.bytes_up],
  device: ["Hardware", (run) => run.made.device],
  torch: ["torch", (run) => run.made.torch],
};

const NUMBERS = new Set([
  "seed",
  "best",
  "last",
  "mean10",
  "rounds",
  "seconds",
]);

/** Columns whose text may break into lines. */
const LONG = new Set(["method", "partition", "noise"]);

function spec(run) {
  return known.index.specs[run.spec];
}

/** The view of the runs. */
export function runsView(query) {
  const { runs } = known.index;
  if (!runs.length) {
    return [
      el("h1", {}, "Runs"),
      el(
        "p",
        {},
        "This scale has no runs yet. ",
        el("a", { href: "#tables" }, "Choose a cell"),
        " to see its commands.",
      ),
    ];
  }
  const asked = { sort: "method", ...Object.fromEntries(query) };
  let most = MOST;
  let shown = [];
  const body = el("tbody");
  const tally = el("p", { class: "tally" });
  const heads = Object.entries(COLUMNS).map(([name, [words]]) =>
    el(
      "th",
      { scope: "col", class: NUMBERS.has(name) ? "right" : null },
      el("button", { type: "button", onclick: () => sort(name), "data-name": name }, words),
    ),
  );
  const more = el(
    "button",
    {
      type: "button",
      onclick: () => {
        most += 1000;
        draw();
      },
    },
    "Show more",
  );
  const sort = (name) => {
    asked.down = asked.sort === name && !asked.down ? "1" : "";
    asked.sort = name;
    rename("runs", asked);
    draw();
  };
  const draw = () => {
    shown = sorted(
      runs.filter((run) => fits(run, asked)),
      asked,
    );
    body.replaceChildren(...shown.slice(0, most).map(line));
    more.hidden = shown.length <= most;
    tally.textContent = `${shown.length} of ${runs.length} runs`;
    for (const head of heads) {
      const own = head.firstChild.dataset.name === asked.sort;
      head.setAttribute("aria-sort", own ? (asked.down ? "descending" : "ascending") : "none");
    }
    say(tally.textContent);
  };
  const change = (name) => (value) => {
    asked[name] = value;
    rename("runs", asked);
    draw();
  };
  const any = (name) => anyOf([...new Set(runs.map(COLUMNS[name][1]))].toSorted());
  draw();
  return [
    el("h1", {}, "Runs"),
    controls(
      asked.q,
      "id, method, noise",
      change("q"),
      ["method", "dataset", "status"].map((name) =>
        choice(COLUMNS[name][0], any(name), asked[name] ?? "", change(name)),
      ),
    ),
    el(
      "div",
      { class: "row" },
      tally,
      download("runs.csv", () => rows(shown)),
    ),
    el(
      "div",
      { class: "scroll" },
      el(
        "table",
        { class: "list runs" },
        el("caption", { class: "unseen" }, "Runs; a header sorts by its column"),
        el("thead", {}, el("tr", {}, heads)),
        body,
      ),
    ),
    more,
  ];
}

function fits(run, asked) {
  const words = (asked.q ?? "").toLowerCase().split(/\s+/).filter(Boolean);
  const text = `${run.id} ${run.words}`.toLowerCase();
  const same = ["method", "dataset", "status"].every(
    (name) => !asked[name] || COLUMNS[name][1](run) === asked[name],
  );
  return same && words.every((word) => text.includes(word));
}

function sorted(runs, asked) {
  const [, value] = COLUMNS[asked.sort] ?? COLUMNS.id;
  const sign = asked.down ? -1 : 1;
  const key = (run) => value(run) ?? -Infinity;
  const order = (a, b) => (a < b ? -1 : a > b ? 1 : 0);
  return runs.toSorted((a, b) => sign * order(key(a), key(b)) || order(a.id, b.id));
}

function line(run) {
  return el(
    "tr",
    { class: run.made.status === "finished" ? null : "ill" },
    Object.entries(COLUMNS).map(([name, [, value, words]]) => {
      const text = words ? words(value(run)) : String(value(run) ?? "–");
      if (name === "id")
        return el(
          "th",
          { scope: "row" },
          el("a", { href: address("run", { id: run.id }) }, el("code", {}, text)),
        );
      return el("td", { class: NUMBERS.has(name) ? "right" : LONG.has(name) ? "long" : null }, text);
    }),
  );
}

function rows(shown) {
  const keys = [...new Set(shown.flatMap((run) => Object.keys(run.made)))].toSorted();
  const columns = Object.entries({ ...COLUMNS, ...MORE });
  const field = (value) =>
    value !== null && typeof value === "object" ? JSON.stringify(value) : value;
  return [
    [...columns.map(([name]) => name), ...keys],
    ...shown.map((run) => [
      ...columns.map(([, [, value]]) => value(run)),
      ...keys.map((key) => field(run.made[key])),
    ]),
  ];
}

/** The view of a run: its facts, and the cells that it is in. */
export function runView(query) {
  const n = known.index.runs.findIndex((run) => run.id === query.get("id"));
  if (n < 0)
    return [el("h1", {}, "No such run"), el("p", {}, el("a", { href: "#runs" }, "All runs"))];
  const run = known.index.runs[n];
  const cells = known.index.cells.flatMap((cell, at) => (cell.runs.includes(n) ? [at] : []));
  return [
    crumbs("#runs", "Runs", run.id),
    el("h1", {}, run.words),
    card(run),
    el("h2", {}, "Its cells"),
    bullets(cells.map((cell) => el("a", { href: cellAddress(cell) }, cellName(cell)))),
  ];
}
