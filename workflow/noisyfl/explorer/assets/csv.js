// What is shown, as a file.
import { el, say } from "./dom.js";

const RUN = /^[=+\-@\t\r＝＋－＠']/;

/**
 * A text that no spreadsheet runs as a formula: with an apostrophe in front if it begins like one (or
 * with an apostrophe) and is no number, as in the files of tables (noisyfl.core.spreadsheet).
 */
function inert(text) {
  const numbers = text.trim().split(/\s+/).every((word) => word !== "" && !isNaN(word));
  return RUN.test(text) && !numbers ? `'${text}` : text;
}

/** Rows as CSV; the first has the headers. */
function csv(rows) {
  const field = (value) => {
    const text = inert(value === null || value === undefined ? "" : String(value));
    return /[",\n\r]/.test(text) ? `"${text.replaceAll('"', '""')}"` : text;
  };
  return rows.map((row) => row.map(field).join(",")).join("\n") + "\n";
}

/** A button that downloads what `rows` gives when it is pressed. */
export function download(name, rows) {
  const press = () => {
    const made = rows();
    const link = el("a", {
      href: URL.createObjectURL(new Blob([csv(made)], { type: "text/csv" })),
      download: name,
    });
    link.click();
    setTimeout(() => URL.revokeObjectURL(link.href), 1000);
    say(`${name}: ${made.length - 1} lines`);
  };
  return el("button", { type: "button", class: "download", onclick: press }, "Download as CSV");
}
