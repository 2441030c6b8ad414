// Why a cell is what it is; and a second one beside it.
import { command, crumbs, el, facts } from "./dom.js";
import { cellAt, cellName, elsewhere, known, placeOf, readDetails } from "./data.js";
import { address, cellAddress, cellOf } from "./place.js";
import { badge, bytes, duration, measured, number, rankWords, scaleName } from "./names.js";
import { INKS, chart, keyOfLines, lines } from "./charts.js";
import { partitionOf, seriesOf, diagnosticsOf, seriesInWords } from "./diagnostics.js";
import { settingsOf } from "./settings.js";
import { download } from "./csv.js";

const COMPUTED = "Computed from other cells of its row; it has no runs of its own.";

/** The view of a cell, and of the one beside it. */
export async function cellView(query) {
  const numbers = [cellOf(query), cellOf(query, "2")].filter((one) => one >= 0);
  if (!numbers.length || cellOf(query) < 0) {
    return [
      el("h1", {}, "No such cell"),
      el(
        "p",
        {},
        "This scale has no cell of that name. ",
        el("a", { href: "#tables" }, "All tables"),
      ),
    ];
  }
  const details = await readDetails();
  const cells = numbers.map((one) => known.index.cells[one]);
  const trained = cells.some((cell) => cell.runs.length);
  const diagnostics = trained ? await diagnosticsOf(cells, details) : [];
  const names = numbers.length > 1 ? numbers.map((one, n) => `${"AB"[n]}: ${cellName(one)}`) : [""];
  const partitions = [];
  for (const [n, cell] of cells.entries()) {
    partitions.push(await partitionOf(cell, details, names[n] || "Classes by client"));
  }
  const { table, row, column } = placeOf(numbers[0]);
  const title = numbers.length > 1 ? "Two cells" : titleOf(numbers[0], row, column);
  return [
    crumbs(
      address("tables", {
        paper: table.experiment,
        scale: table.scale === known.index.scale ? "" : table.scale,
      }),
      "Tables",
      table.name,
    ),
    el("h1", {}, title),
    el(
      "div",
      { class: "heads" },
      numbers.map((one, n) => summary(one, n, numbers)),
    ),
    beside(numbers),
    part(
      "Learning curves",
      trained
        ? [await curves(cells, details)]
        : [el("p", {}, withoutRuns(cells))],
    ),
    part(
      "The method’s diagnostics",
      diagnostics.length
        ? [el("div", { class: "charts" }, diagnostics)]
        : [
            el(
              "p",
              {},
              trained
                ? "The method selects no samples and estimates nothing: it uses every given label."
                : "Without runs there is nothing to show.",
            ),
          ],
    ),
    part("Noisy partition", [el("div", { class: "charts wide" }, partitions)]),
    part("Settings", settingsOf(cells)),
    part(
      "Runs",
      cells.map((cell, n) => made(cell, names[n])),
    ),
    part(
      "Commands",
      numbers.map((one, n) => commands(one, names[n])),
    ),
  ];
}

/** A cell's row, dataset and column; the dataset once. */
function titleOf(one, row, column) {
  const { spec } = known.index.cells[one];
  const dataset = spec === null ? null : known.index.specs[spec].setting.dataset;
  const letters = (text) => text.toLowerCase().replace(/[^a-z0-9]/g, "");
  const named = dataset && !letters(column.name).includes(letters(dataset));
  return `${row.name}${named ? ` on ${dataset}` : ""}, ${column.name}`;
}

/** Why there are no curves. */
function withoutRuns(cells) {
  const computed = cells.filter((cell) => cell.computed).length;
  if (!computed) return "Not run yet: the commands are below.";
  if (computed === cells.length) return COMPUTED;
  return `One of the two is not run yet: its commands are below. The other: ${COMPUTED}`;
}

function part(title, content) {
  return el("section", { class: "part" }, el("h2", {}, title), content);
}

function summary(one, n, numbers) {
  const cell = known.index.cells[one];
  const { table, row, column } = placeOf(one);
  const measure = `${measured(cell)}, ${known.index.statistics[cell.statistic]}`;
  const letter = numbers.length > 1 ? el("i", { class: `letter ${"ab"[n]}` }, "AB"[n]) : null;
  return el(
    "div",
    { class: "head" },
    numbers.length > 1
      ? el("h2", {}, letter, el("a", { href: cellAddress(one) }, `${row.name}, ${column.name}`))
      : null,
    el(
      "p",
      { class: "big" },
      el("b", {}, cell.ours || "–"),
      cell.spread ? el("span", {}, ` published ${cell.spread}`) : null,
      " ",
      cell.verdict ? badge(cell.verdict) : null,
    ),
    facts([
      ["Metric", measure],
      [
        "Difference",
        cell.difference === null
          ? null
          : `${cell.difference > 0 ? "+" : ""}${number(cell.difference, 2)}`,
      ],
      ["Setting", setting(cell, table)],
      ["Rank", cell.rank && `${rankWords(cell)}, among the rows of its kind in its column`],
      [
        "Seeds",
        cell.seeds.length ? `${cell.seeds.join(", ")}: those that all ranked rows of its kind have in its column` : null,
      ],
      ["Spread", cell.averages ? "± is over the averaged columns, which are settings, not over seeds" : null],
      [
        "Trials",
        cell.runs.length
          ? `${cell.runs.length}${cell.diverged ? `, of which ${cell.diverged} diverged` : ""}`
          : null,
      ],
      ["Table", `${table.title} (${table.name})`],
      ...elsewhere(one).map((other) => [scaleName(placeOf(other).table.scale), linked(other)]),
    ]),
    Object.entries(cell.failed).map(([run, error]) =>
      el("p", { class: "warning" }, el("b", {}, `Run ${run} failed: `), error),
    ),
  );
}

/** The number of a cell at another scale, and what is published, as a link to it. */
function linked(number) {
  const { ours, spread, verdict } = known.index.cells[number];
  const words = [ours || "–", spread ? `published ${spread}` : "", verdict].filter(Boolean);
  return el("a", { href: cellAddress(number) }, words.join(", "));
}

function setting(cell, table) {
  if (cell.spec === null) return null;
  const whose = table.compared ? "the paper’s" : "the experiment’s own";
  return cell.paper ? `exactly ${whose}` : `not ${whose}: compare with our other numbers`;
}

/** Choices of the cell beside the first: of its column, its row, or any in the tables. */
function beside(numbers) {
  const [first, second] = numbers;
  const { table, row, column } = placeOf(first);
  const shown = (one) => one !== first && one >= 0 && known.index.cells[one].runs.length > 0;
  const group = (label, found) =>
    found.length
      ? el(
          "optgroup",
          { label },
          found.map((one) => option(first, one, second)),
        )
      : null;
  const rows = table.rows.map((one) => cellAt(table.name, one.name, column.name)).filter(shown);
  const columns = row.cells.filter(shown);
  const others = known.index.tables
    .filter((one) => one !== table)
    .flatMap((one) =>
      one.rows.filter((line) => line.name === row.name).flatMap((line) => line.cells),
    )
    .filter(shown);
  const list = el(
    "select",
    { onchange: (event) => (location.hash = event.target.value) },
    el("option", { value: cellAddress(first), selected: second === undefined }, "nothing"),
    group("The same setting", rows),
    group("The same method", columns),
    group("Other tables", others.slice(0, 200)),
  );
  return el(
    "div",
    { class: "controls" },
    el("label", { class: "choice search" }, el("span", {}, "Compare with"), list),
    el(
      "a",
      { class: "button", href: cellAddress(first).replace("#cell", "#tables") },
      "Choose in the tables",
    ),
    second === undefined
      ? null
      : el("a", { class: "button", href: cellAddress(second, first) }, "Swap"),
  );
}

function option(first, one, second) {
  return el("option", { value: cellAddress(first, one), selected: one === second }, cellName(one));
}

async function curves(cells, details) {
  const metric = cells[0].metric;
  const name = details.runs[cells[0].runs[0] ?? 0]?.curves[metric] ? metric : "test_accuracy";
  const shown = known.index.metrics[name];
  const series = seriesOf(cells, (run) => details.runs[run].curves[name]);
  if (!series.length) return el("p", {}, "The run ended before its first evaluation.");
  const levels = cells.flatMap((cell, n) =>
    cell.published === null || cell.metric !== name
      ? []
      : [
          {
            ink: INKS[n],
            value: cell.published,
            below: n === 1,
            words: `${cells.length > 1 ? `${"AB"[n]} ` : ""}published ${cell.printed}`,
          },
        ],
  );
  const frame = await chart(
    `${shown.label} by round`,
    seriesInWords(series, shown.unit),
    lines(series, levels, { x: "rounds", y: measured(shown) }),
  );
  const rows = () => [
    ["cell", "seed", "rounds", measured(shown)],
    ...series.flatMap((one) =>
      one.x.map((x, i) => [
        cellName(known.index.cells.indexOf(one.cell)),
        known.index.runs[one.run].seed,
        x,
        one.y[i],
      ]),
    ),
  ];
  const seeds = cells.flatMap((cell, n) => (cells.length > 1 ? [key(n, cell)] : []));
  if (seeds.length) frame.querySelector("figcaption").append(el("span", { class: "key" }, seeds));
  frame.append(keyOfLines(series, levels), el("p", {}, download("curves.csv", rows)));
  return el("div", { class: "charts wide" }, frame);
}

function key(n, cell) {
  return el(
    "span",
    {},
    el("i", { class: `letter ${"ab"[n]}` }, "AB"[n]),
    cellName(known.index.cells.indexOf(cell)),
  );
}

/** Hardware, versions, times and bytes of each run of a cell. */
function made(cell, name) {
  if (!cell.runs.length) {
    const words = cell.computed ? COMPUTED : "There is no run.";
    return el("p", {}, name ? `${name}: ${words}` : words);
  }
  const runs = cell.runs.map((run) => known.index.runs[run]);
  return el(
    "div",
    {},
    name ? el("h3", {}, name) : null,
    el("div", { class: "charts" }, runs.map(card)),
  );
}

/** All of a run's facts. */
export function card(run) {
  const { made: by } = run;
  const gpu = by.peak_gpu_memory_mb ? `${number(by.peak_gpu_memory_mb, 0)} MiB` : null;
  return el(
    "div",
    { class: "card" },
    el("h3", {}, `Seed ${run.seed} `, el("code", {}, run.id)),
    facts([
      ["Status", by.status],
      [
        "Best, last",
        `${number(run.statistics.best, 2)}, ${number(run.statistics.last, 2)} % test accuracy`,
      ],
      ["Rounds", roundsOf(run)],
      [
        "Wrong labels",
        by.realised_noise === undefined || by.realised_noise === null
          ? null
          : `${number(100 * by.realised_noise)} %`,
      ],
      ["Hardware", by.device],
      [
        "Versions",
        `noisyfl ${by.noisyfl}, torch ${by.torch}, Python ${by.python}, numpy ${by.numpy ?? "?"}`,
      ],
      ["Executor", [by.executor, by.precision, by.layout].filter(Boolean).join(", ")],
      ["Training", `${duration(by.training_seconds)}, set-up ${duration(by.setup_seconds)}`],
      [
        "Memory",
        by.peak_memory_mb && `${number(by.peak_memory_mb, 0)} MiB${gpu ? `, GPU ${gpu}` : ""}`,
      ],
      [
        "Sent down, up",
        run.totals.bytes_down === undefined
          ? null
          : `${bytes(run.totals.bytes_down)}, ${bytes(run.totals.bytes_up)}`,
      ],
      [
        "Sources",
        by.source_digest &&
          `${by.source_digest.slice(0, 16)}${by.commit ? `, commit ${by.commit.slice(0, 10)}` : ""}`,
      ],
      ["Fallbacks", (by.fallbacks ?? []).join("; ") || null],
      ["Partition", run.partition],
      ["Folder", `${run.folder}/${run.id}/`],
    ]),
  );
}

/** How many rounds a run had, and why that is another number than its schedule's. */
function roundsOf(run) {
  const planned = Number(known.index.specs[run.spec].setting.rounds);
  if (run.rounds === planned || run.made.status !== "finished") return run.rounds;
  const made = number(run.ordinary_rounds);
  const all = run.ordinary_rounds === planned ? `the ${planned}` : `${made} of the ${planned}`;
  return `${run.rounds}: a stage of the method has rounds of another size; together they make as many local updates as ${all} rounds of the schedule`;
}

/** What the command of a run does; `run` is missing if it is not trained. */
function runWords(id, run) {
  if (!run) return `Run ${id}, which is missing:`;
  return run.stored
    ? `Run ${id} is stored in ${run.folder}, and the table uses it. To retrain it (docs/artifacts.md):`
    : `Run ${id} alone, if it is missing:`;
}

function commands(one, name) {
  const { index } = known;
  const cell = index.cells[one];
  const { table } = placeOf(one);
  const scale = index.scales[table.scale];
  // The target comes first: --config and --configfile take lists, and would take it for another item.
  const typed = (target, options) => `snakemake --cores all ${target} ${options}`.trim();
  const trained = cell.runs.map((run) => index.runs[run]);
  const ids = [...trained.map((run) => run.id), ...cell.missing];
  // Of two --config only the last counts.
  const options = table.missing
    ? `--config train_missing=true ${scale.options.replace(/^--config /, "")}`
    : scale.options;
  const [snakefile] = scale.options.match(/--snakefile .*/) ?? [""];
  return el(
    "div",
    {},
    name ? el("h3", {}, name) : null,
    ids.map((id, n) => [
      el(
        "p",
        {},
        runWords(id, trained[n]),
      ),
      command(typed(`${index.results}/runs/${id}/provenance.json`, scale.options)),
    ]),
    el("p", {}, "The table:"),
    command(typed(table.target, options)),
    table.compared && !cell.paper && table.scale !== "paper"
      ? [
          el("p", {}, "The table in the paper’s own setting (docs/commands.md says what it costs):"),
          command(typed(table.target, "--config scale=paper", snakefile)),
        ]
      : null,
  );
}
