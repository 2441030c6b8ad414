// What the page knows: the index is read at once, details and the library when they are needed.

const kept = new Map();

/** What shows at once; filled in by `readIndex`. */
export const known = { index: null };

/** The text in one of the page's packed scripts, which is unpacked once. */
export function unpack(id) {
  if (!kept.has(id)) kept.set(id, unpacked(document.getElementById(id).textContent));
  return kept.get(id);
}

async function unpacked(text) {
  const letters = atob(text.trim());
  const bytes = new Uint8Array(letters.length);
  for (let n = 0; n < letters.length; n += 1) bytes[n] = letters.charCodeAt(n);
  const stream = new Blob([bytes]).stream().pipeThrough(new DecompressionStream("gzip"));
  return new Response(stream).text();
}

/** Read the index. */
export async function readIndex() {
  known.index = JSON.parse(await unpack("index"));
}

/** Curves, estimates and partitions. */
export async function readDetails() {
  if (!kept.has("read details")) kept.set("read details", unpack("details").then(JSON.parse));
  return kept.get("read details");
}

/** The values of a series of steps in hundredths. */
export function values(steps) {
  let sum = 0;
  return steps.split(",").map((step) => (sum += Number(step)) / 100);
}

/** The whole numbers of a list in which zeros are empty. */
export function whole(text) {
  return text.split(",").map(Number);
}

/** Where a cell stands: its table, row and column. */
export function placeOf(number) {
  const cell = known.index.cells[number];
  const table = known.index.tables[cell.table];
  const [r, c] = cell.at;
  return { table, row: table.rows[r], column: table.columns[c] };
}

/** The number of the cell of a table, row and column; -1 if there is none. */
export function cellAt(name, row, column) {
  const table = known.index.tables.find((one) => one.name === name);
  const line = table?.rows.find((one) => one.name === row);
  const c = table ? table.columns.findIndex((one) => one.name === column) : -1;
  return line && c >= 0 ? line.cells[c] : -1;
}

/** The numbers of the cells with runs that are the same cell at other scales. */
export function elsewhere(number) {
  const { table, row, column } = placeOf(number);
  return known.index.tables
    .filter((one) => one.target === table.target && one.scale !== table.scale)
    .map((one) => cellAt(one.name, row.name, column.name))
    .filter((one) => one >= 0 && known.index.cells[one].runs.length);
}

/** What a cell is called where tables are mixed. */
export function cellName(number) {
  const { table, row, column } = placeOf(number);
  return `${row.name}, ${column.name} (${table.name})`;
}

/** The spec of a cell's runs, or null. */
function specOf(cell) {
  return cell.spec === null ? null : known.index.specs[cell.spec];
}

/** Whether a cell has runs, `yes` or `no`; `computed` if its number is computed from other cells. */
function trained(cell) {
  if (cell.computed) return "computed";
  return cell.runs.length ? "yes" : "no";
}

/** What filters know of a cell. */
export function traits(number) {
  const cell = known.index.cells[number];
  const spec = specOf(cell);
  const { row } = placeOf(number);
  const kind = (text) => text.split("(")[0];
  return {
    method: row.method,
    dataset: spec?.dataset ?? cell.setting.dataset,
    partition: spec?.partition ?? kind(cell.setting.partition),
    noise: spec?.noise ?? kind(cell.setting.noise),
    verdict: cell.verdict || (trained(cell) === "no" ? "not run" : "no published number"),
    trained: trained(cell),
  };
}
