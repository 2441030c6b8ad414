// The papers' claims: what their own numbers say of each and what ours do, and the cells that decided.
import { anyOf, bullets, choice, controls, disclosure, el, prose, row, say } from "./dom.js";
import { cellName, known } from "./data.js";
import { cellAddress, rename } from "./place.js";
import { badge } from "./names.js";
import { download } from "./csv.js";

/** Cells that are named beside a verdict. */
const SHOWN = 4;

const SIDES = [
  ["published", "With the paper’s numbers"],
  ["ours", "With our numbers"],
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
      `Each statement of a paper about its results, checked against the paper’s own numbers and against ours. A claim is supported if each of its conditions holds in all decided cases.${
        JSON.stringify(claims).includes("†") ? " † marks a bound that is ours, since the paper gives none." : ""
      }`,
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
      choice("With the paper’s", anyOf(known.index.verdicts), asked.published ?? "", change("published")),
      choice("With ours", anyOf(known.index.verdicts), asked.ours ?? "", change("ours")),
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

/** How many claims have each verdict: a line for each that occurs, two columns for each paper. */
function counts(claims) {
  const papers = [...new Set(claims.map((claim) => claim.paper))];
  const groups = [
    ...papers.map((paper) => [paper, claims.filter((claim) => claim.paper === paper)]),
    ["All", claims],
  ];
  const count = (some, side, verdict) =>
    some.filter((claim) => claim[side].verdict === verdict).length || "–";
  const occur = known.index.verdicts.filter((verdict) =>
    claims.some((claim) => SIDES.some(([side]) => claim[side].verdict === verdict)),
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
          groups.map(([name]) => el("th", { colspan: 2, scope: "colgroup" }, name)),
        ),
        el(
          "tr",
          {},
          el("th", { scope: "col" }, "Verdict"),
          groups.flatMap(() => [
            el("th", { scope: "col" }, "paper’s"),
            el("th", { scope: "col" }, "ours"),
          ]),
        ),
      ),
      el(
        "tbody",
        {},
        occur.map((verdict) =>
          row(
            badge(verdict),
            ...groups.flatMap(([, some]) => SIDES.map(([side]) => count(some, side, verdict))),
          ),
        ),
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
    found.elsewhere.length
      ? el(
          "p",
          { class: "decided" },
          `${cells.length ? "Also decided" : "Decided"} by ${found.elsewhere.join(", ")}, which no table here shows.`,
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
    bullets([
      ...one.cases.map((found) => [
        found.text,
        found.cells.flatMap((cell) => [
          " ",
          el("a", { href: cellAddress(cell), class: "cite" }, cellName(cell)),
        ]),
      ]),
      ...(one.more ? [`… and ${one.more} more, with larger margins`] : []),
    ]),
  );
}

function rows(shown) {
  const heads = ["claim", "paper", "place", "sentence", "with the paper's", "with ours"];
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
