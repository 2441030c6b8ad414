// Elements of the page. Text is always text: nothing here reads HTML.

/** An element with attributes, handlers (onclick: function) and children; null is left out. */
export function el(tag, attributes = {}, ...children) {
  const element = document.createElement(tag);
  for (const [name, value] of Object.entries(attributes)) {
    if (value === null || value === undefined || value === false) continue;
    if (typeof value === "function") element.addEventListener(name.slice(2), value);
    else element.setAttribute(name, value === true ? "" : String(value));
  }
  element.append(
    ...children.flat(Infinity).filter((child) => child !== null && child !== undefined),
  );
  return element;
}

/** A text with code in backticks and links in Markdown, as elements; links keep their words. */
export function prose(text) {
  const plain = text.replace(/\[([^\]]*)\]\([^)]*\)/g, "$1").replace(/\\\|/g, "|");
  return plain.split("`").map((part, n) => (n % 2 ? el("code", {}, part) : part));
}

/** A table of facts: pairs of a name and its value. */
export function facts(pairs) {
  const lines = pairs.filter(([, value]) => value !== null && value !== undefined && value !== "");
  return el(
    "dl",
    { class: "facts" },
    lines.map(([name, value]) => el("div", {}, el("dt", {}, name), el("dd", {}, value))),
  );
}

/** A table of a class, with a header of texts; it scrolls where the page is narrow. */
export function listing(kind, heads, lines) {
  const header = heads.map((text) => el("th", { scope: "col" }, text));
  const table = [el("thead", {}, el("tr", {}, header)), el("tbody", {}, lines)];
  return el("div", { class: "scroll" }, el("table", { class: kind }, table));
}

/** A line of a table: its name, and what stands in its cells. */
export function row(name, ...cells) {
  const head = el("th", { scope: "row" }, name);
  return el("tr", {}, head, ...cells.map((cell) => el("td", {}, cell)));
}

/** A list with an entry for each item. */
export function bullets(items) {
  return el("ul", {}, ...items.map((item) => el("li", {}, item)));
}

/** What is shown once its summary is opened. */
export function disclosure(summary, ...children) {
  return el("details", {}, el("summary", {}, summary), ...children);
}

/** The way to a page: the view that it belongs to, and its name. */
export function crumbs(href, view, name) {
  return el("p", { class: "crumbs" }, el("a", { href }, view), " › ", name);
}

/** The values of a choice, after one that stands for any of them. */
export function anyOf(values) {
  return [["", "any"], ...values.map((value) => [value, value])];
}

/** The form above a list: a field to search by, whose every new text `changed` gets, and choices. */
export function controls(value, placeholder, changed, ...choices) {
  const field = el("input", {
    type: "search",
    value: value ?? "",
    placeholder,
    oninput: (event) => changed(event.target.value),
  });
  return el(
    "form",
    { class: "controls", role: "search", onsubmit: (event) => event.preventDefault() },
    el("label", { class: "choice search" }, el("span", {}, "Search"), field),
    choices,
  );
}

/** A labelled choice; `chosen` gets the new value. */
export function choice(label, values, value, chosen) {
  const list = el(
    "select",
    { onchange: (event) => chosen(event.target.value) },
    values.map(([key, words]) => el("option", { value: key, selected: key === value }, words)),
  );
  return el("label", { class: "choice" }, el("span", {}, label), list);
}

/** A command that can be copied. */
export function command(text) {
  const copy = async (event) => {
    const button = event.target;
    try {
      await navigator.clipboard.writeText(text);
      button.textContent = "Copied";
    } catch {
      getSelection().selectAllChildren(button.previousSibling);
      button.textContent = "Selected";
    }
    setTimeout(() => (button.textContent = "Copy"), 2000);
  };
  return el(
    "div",
    { class: "command" },
    el("pre", { tabindex: 0 }, text),
    el(
      "button",
      { type: "button", onclick: copy, "aria-label": `Copy the command ${text}` },
      "Copy",
    ),
  );
}

/** Tell those who listen to the page what has changed. */
export function say(text) {
  document.getElementById("said").textContent = text;
}
