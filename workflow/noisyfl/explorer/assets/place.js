// What is shown has a name, the fragment of the page's address: #cell?table=...&row=...&column=...
import { cellAt, placeOf } from "./data.js";

/** The view and what it shows, from the address. */
export function here() {
  const [view, query = ""] = location.hash.slice(1).split("?");
  return { view: view || "tables", query: new URLSearchParams(query) };
}

/** The address of a view; what is empty is left out. */
export function address(view, given = {}) {
  const shown = Object.entries(given).filter(([, value]) => value);
  const query = new URLSearchParams(shown).toString();
  return `#${view}${query ? `?${query}` : ""}`;
}

/** The address of a cell, and of a second one beside it. */
export function cellAddress(number, second = null) {
  const named = (cell, ending) => {
    const { table, row, column } = placeOf(cell);
    return {
      [`table${ending}`]: table.name,
      [`row${ending}`]: row.name,
      [`column${ending}`]: column.name,
    };
  };
  return address("cell", { ...named(number, ""), ...(second === null ? {} : named(second, "2")) });
}

/** The cell that an address names; -1 if there is none. `ending` is "2" of the second. */
export function cellOf(query, ending = "") {
  return cellAt(
    query.get(`table${ending}`),
    query.get(`row${ending}`),
    query.get(`column${ending}`),
  );
}

/** Change the address without a new entry in the history. */
export function rename(view, given) {
  history.replaceState(null, "", address(view, given));
}
