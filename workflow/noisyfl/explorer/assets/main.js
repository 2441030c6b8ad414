// Which view is shown: the address says so, and a click changes the address.
import { el, say } from "./dom.js";
import { readIndex } from "./data.js";
import { here } from "./place.js";
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

/** By address, how far a view that was left was scrolled. */
const left = new Map();

let shownAt = null;

function tabs(view) {
  const own = { cell: "tables", method: "methods", run: "runs" }[view] ?? view;
  const link = ([name, words]) =>
    el("a", { href: `#${name}`, "aria-current": name === own ? "page" : null }, words);
  document.querySelector("header nav").replaceChildren(...Object.entries(TABS).map(link));
}

async function show() {
  const asked = location.hash;
  const { view, query } = here();
  const main = document.getElementById("main");
  main.setAttribute("aria-busy", "true");
  const content = await (VIEWS[view] ?? tablesView)(query);
  if (asked !== location.hash) return; // another view was asked for meanwhile
  main.replaceChildren(...content.flat(Infinity).filter(Boolean));
  main.className = `view-${view}`;
  main.setAttribute("aria-busy", "false");
  tabs(view);
  const title = main.querySelector("h1").textContent;
  document.title = `${title} – noisyfl explorer`;
  if (shownAt !== null) {
    main.focus({ preventScroll: true });
    say(title);
  }
  shownAt = asked;
  const chosen = main.querySelector(".chosen");
  if (chosen) chosen.scrollIntoView({ block: "center" });
  else scrollTo(0, left.get(asked) ?? 0);
}

/** The link to the content is no view. */
function follow(event) {
  if (location.hash === "#main") return;
  left.set(new URL(event.oldURL).hash, lastScroll);
  show();
}

let lastScroll = 0;
addEventListener("scroll", () => requestAnimationFrame(() => (lastScroll = scrollY)), {
  passive: true,
});
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
