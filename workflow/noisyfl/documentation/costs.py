"""What each table of the paper scale costs, for docs/papers/ and docs/commands.md."""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path

from noisyfl.commands.scales import read_plan
from noisyfl.core.options import BadInput
from noisyfl.core.places import ROOT
from noisyfl.experiments.demand import Demand, demands
from noisyfl.experiments.targets import runs_by_target
from noisyfl.specs.speeds import DEVICES, LEAST, MOST

SHOWN = ("H100", "T4")
"""The devices whose hours are given."""

BLOCK = re.compile(r"<!-- costs -->\n.*?<!-- end of costs -->", re.DOTALL)
SENTENCE = re.compile(r"All runs of the paper scale.*?estimates\.", re.DOTALL)


def files() -> dict[Path, str]:
    """The pages with costs, each with the text that it should have.

    Raises:
        BadInput: a page has no place for them.
    """
    found = costs()
    pages = {
        path: (BLOCK, block_of(path.stem, found))
        for path in sorted((ROOT / "docs" / "papers").glob("*.md"))
        if BLOCK.search(path.read_text())
    }
    pages[ROOT / "docs" / "commands.md"] = SENTENCE, sentence_of(found)
    return {path: _replace(path, *new) for path, new in pages.items()}


def _replace(path: Path, place: re.Pattern[str], new: str) -> str:
    text = path.read_text()
    if not (old := place.search(text)):
        raise BadInput(f"{path}: expected {place.pattern!r}, where the costs go")
    # Lines may be broken elsewhere.
    return text if old[0].split() == new.split() else text.replace(old[0], new)


def costs() -> list[Demand]:
    """What each table of the paper scale costs, and all of them together."""
    plan = read_plan(ROOT / "config" / "paper.yaml")
    speeds = {name: DEVICES[name] for name in SHOWN}
    return demands(plan, runs_by_target(plan), lambda run: False, speeds)


def block_of(page: str, found: Sequence[Demand]) -> str:
    """The table of costs of a paper's page."""
    header = " | ".join(f"{name}-hours" for name in SHOWN)
    lines = [
        "<!-- costs -->",
        f"| target | runs | {header} |",
        "|---|---|---|---|",
        *(
            f"| `{d.target}` | {d.runs} | {' | '.join(map(hours, d.hours))} |"
            for d in found
            if d.target.startswith(f"{page}_")
        ),
        "",
        "Estimates at paper scale ([how](../speed.md#what-a-run-costs)). Shared runs count in each "
        "table.",
        "<!-- end of costs -->",
    ]
    return "\n".join(lines)


def sentence_of(found: Sequence[Demand]) -> str:
    """The sentence of docs/commands.md on the costs of all tables together."""
    total = found[-1]
    likely = " or ".join(
        f"{hours(value)} {name}-hours" for name, value in zip(SHOWN, total.hours, strict=True)
    )
    return (
        f"All runs of the paper scale, {total.runs:,}, likely cost {likely}; these are estimates."
    )


def hours(likely: float) -> str:
    """A range around likely hours, its ends to two digits."""
    return f"{_round(LEAST * likely)} to {_round(MOST * likely)}"


def _round(value: float) -> str:
    return f"{float(f'{value:.2g}'):,.0f}" if value >= 10 else f"{value:.2g}"
