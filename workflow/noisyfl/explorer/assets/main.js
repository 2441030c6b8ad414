// Which view is shown: the address says so, and a click changes the address.
import { el, say } from "./dom.js";
import { known, placeOf, readIndex } from "./data.js";
import { cellOf, here } from "./place.js";
import { scaleName } from "./names.js";
import { tablesView } from "./tables.js";
import { cellView } from "./cell.js";
import { claimsView } from "./claims.js";
import { methodView, methodsView } from "./methods.js";
import { runView, runsView } from "./runs.js";

const TABS = { tables: "Tables", claims: "Claims", methods: "Methods", runs: "Runs" };

const VIEWS = {
  tables: tablesView,
  cell: cellView,
  claims: claimsView,
  methods: methodsView,
  method: methodView,
  runs: runsView,
  run: runView,
};

/** By address, where a view was left: how far it was scrolled, and the part that was on top. */
const left = new Map();

let shownAt = null;

history.scrollRestoration = "manual"; // the browser would scroll before a view is drawn

function tabs(view) {
  const own = { cell: "tables", method: "methods", run: "runs" }[view] ?? view;
  const link = ([name, words]) =>
    el("a", { href: `#${name}`, "aria-current": name === own ? "page" : null }, words);
  document.querySelector("header nav").replaceChildren(...Object.entries(TABS).map(link));
}

/** The scale that is shown, in the page's head. */
function nameScale(view, query) {
  const cell = view === "cell" ? cellOf(query) : -1;
  const own = query.get("scale") || known.index.scale;
  document.querySelector(".scale").textContent = scaleName(cell < 0 ? own : placeOf(cell).table.scale);
}

/** Where the view is that is shown now: a part's name and distance from the top, and the scroll. */
function spot() {
  const parts = [...document.querySelectorAll("main [aria-labelledby]")];
  const part = parts.findLast((one) => one.getBoundingClientRect().top <= 0);
  const name = part?.getAttribute("aria-labelledby");
  return { y: scrollY, name, top: part?.getBoundingClientRect().top };
}

/** Scroll to where a view was left. A part has its height once it is near, so it takes some frames. */
function scrollBack({ y, name, top }, frames = 3) {
  const part = name && document.querySelector(`main [aria-labelledby="${CSS.escape(name)}"]`);
  scrollTo(0, part ? scrollY + part.getBoundingClientRect().top - top : y);
  if (part && frames) requestAnimationFrame(() => scrollBack({ y, name, top }, frames - 1));
}

async function show() {
  const asked = location.hash;
  const { view, query } = here();
  const back = left.get(asked) ?? { y: 0 };
  const main = document.getElementById("main");
  main.setAttribute("aria-busy", "true");
  const content = await (VIEWS[view] ?? tablesView)(query, back.name);
  if (asked !== location.hash) return; // another view was asked for meanwhile
  main.replaceChildren(...content.flat(Infinity).filter(Boolean));
  main.className = `view-${view}`;
  main.setAttribute("aria-busy", "false");
  tabs(view);
  nameScale(view, query);
  const title = main.querySelector("h1").textContent;
  document.title = `${title} – noisyfl explorer`;
  if (shownAt !== null) {
    main.focus({ preventScroll: true });
    say(title);
  }
  shownAt = asked;
  const chosen = main.querySelector(".chosen");
  if (chosen) chosen.scrollIntoView({ block: "center" });
  else scrollBack(back);
}

/** The link to the content is no view. */
function follow(event) {
  if (location.hash === "#main") return;
  left.set(new URL(event.oldURL).hash, spot());
  show();
}

addEventListener("hashchange", follow);

document.querySelector(".skip").addEventListener("click", (event) => {
  event.preventDefault();
  document.getElementById("main").focus();
});

readIndex()
  .then(show)
  .catch((error) => {
    document
      .getElementById("main")
      .replaceChildren(
        el(
          "p",
          { class: "warning" },
          `This page cannot be read: ${error.message}. It needs a browser of 2023 or newer.`,
        ),
      );
    throw error;
  });
