// What is shown, as a file.
import { el, say } from "./dom.js";

/** Rows as CSV; the first has the headers. */
function csv(rows) {
  const field = (value) => {
    const text = value === null || value === undefined ? "" : String(value);
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
