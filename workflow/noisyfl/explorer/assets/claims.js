// The papers' claims: what their own numbers say of each and what ours do, and the cells that decided.
import { anyOf, bullets, choice, controls, disclosure, el, prose, row, say } from "./dom.js";
import { cellName, known } from "./data.js";
import { cellAddress, rename } from "./place.js";
import { badge } from "./names.js";
import { download } from "./csv.js";

/** Cells that are named beside a verdict. */
const SHOWN = 4;

const SIDES = [
  ["published", "On the paper’s numbers"],
  ["ours", "On ours"],
];

/** The view of the claims. */
export function claimsView(query) {
  const { claims } = known.index;
  if (!claims.length) {
    return [
      el("h1", {}, "Claims"),
      el("p", {}, "This scale makes no table with published numbers, so no claim is judged."),
    ];
  }
  const asked = Object.fromEntries(query);
  const list = el("div", { class: "claims" });
  const tally = el("p", { class: "tally" });
  let shown = [];
  const draw = () => {
    shown = claims.filter(
      (claim) =>
        (!asked.paper || claim.paper === asked.paper) &&
        (!asked.ours || claim.ours.verdict === asked.ours) &&
        (!asked.published || claim.published.verdict === asked.published) &&
        `${claim.name} ${claim.sentence}`.toLowerCase().includes((asked.q ?? "").toLowerCase()),
    );
    list.replaceChildren(...shown.map(article));
    tally.textContent = `${shown.length} of ${claims.length} claims`;
    say(tally.textContent);
  };
  const change = (name) => (value) => {
    asked[name] = value;
    rename("claims", asked);
    draw();
  };
  draw();
  return [
    el("h1", {}, "Claims of the papers"),
    el(
      "p",
      { class: "intro" },
      "What a paper says of its numbers, held against the numbers that it prints and against ours. A claim holds if each of its conditions holds in all of its decided cases; † marks a bound that is ours, since the paper gives none.",
    ),
    counts(claims),
    controls(
      asked.q,
      null,
      change("q"),
      choice(
        "Paper",
        anyOf([...new Set(claims.map((claim) => claim.paper))]),
        asked.paper ?? "",
        change("paper"),
      ),
      choice("On the paper’s", anyOf(known.index.outcomes), asked.published ?? "", change("published")),
      choice("On ours", anyOf(known.index.outcomes), asked.ours ?? "", change("ours")),
    ),
    el(
      "div",
      { class: "row" },
      tally,
      download("claims.csv", () => rows(shown)),
    ),
    list,
  ];
}

function counts(claims) {
  const span = known.index.outcomes.length;
  const papers = [...new Set(claims.map((claim) => claim.paper))];
  const count = (some, side, verdict) =>
    some.filter((claim) => claim[side].verdict === verdict).length || "–";
  const line = (name, some) =>
    row(
      name,
      ...SIDES.flatMap(([side]) => known.index.outcomes.map((verdict) => count(some, side, verdict))),
    );
  return el(
    "div",
    { class: "scroll" },
    el(
      "table",
      { class: "counts" },
      el("caption", { class: "unseen" }, "How many claims have each verdict"),
      el(
        "thead",
        {},
        el(
          "tr",
          {},
          el("td", {}),
          SIDES.map(([, words]) => el("th", { colspan: span, scope: "colgroup" }, words)),
        ),
        el(
          "tr",
          {},
          el("th", { scope: "col" }, "Paper"),
          SIDES.flatMap(() =>
            known.index.outcomes.map((verdict) => el("th", { scope: "col" }, badge(verdict))),
          ),
        ),
      ),
      el(
        "tbody",
        {},
        papers.map((paper) =>
          line(
            paper,
            claims.filter((claim) => claim.paper === paper),
          ),
        ),
        line("All", claims),
      ),
    ),
  );
}

function article(claim) {
  return el(
    "article",
    { "aria-labelledby": claim.name, class: "claim" },
    el("h2", { id: claim.name }, claim.name, el("small", {}, claim.place)),
    el("p", {}, prose(claim.sentence)),
    el(
      "div",
      { class: "sides" },
      SIDES.map(([side, words]) => finding(words, claim[side])),
    ),
    claim.notes.length ? el("p", { class: "legend" }, prose(claim.notes.join(" "))) : null,
  );
}

function finding(words, found) {
  const cells = [
    ...new Set(found.checks.flatMap((check) => check.cases.flatMap((one) => one.cells))),
  ];
  const rest = found.short.slice(found.verdict.length).replace(/^: /, "");
  return el(
    "div",
    { class: "side" },
    el("h3", {}, words),
    el("p", {}, badge(found.verdict), rest ? ` ${rest}` : null),
    cells.length
      ? el(
          "p",
          { class: "decided" },
          "Decided by ",
          cells.slice(0, SHOWN).flatMap((cell, n) => [n ? "; " : "", link(cell)]),
          cells.length > SHOWN ? ` and ${cells.length - SHOWN} more below` : null,
        )
      : null,
    found.checks.length ? disclosure("Conditions and cases", found.checks.map(check)) : null,
  );
}

function link(cell) {
  return el("a", { href: cellAddress(cell) }, cellName(cell));
}

function check(one) {
  return el(
    "div",
    { class: "check" },
    el("p", {}, el("b", {}, prose(one.says)), ` ${one.count}`),
    bullets(
      one.cases.map((found) => [
        found.text,
        found.cells.flatMap((cell) => [
          " ",
          el("a", { href: cellAddress(cell), class: "cite" }, cellName(cell)),
        ]),
      ]),
    ),
  );
}

function rows(shown) {
  const heads = ["claim", "paper", "place", "sentence", "on the paper's", "on ours"];
  return [
    heads,
    ...shown.map((claim) => [
      claim.name,
      claim.paper,
      claim.place,
      claim.sentence,
      claim.published.short,
      claim.ours.short,
    ]),
  ];
}
