"""What each table costs stands beside it in docs/papers/, as it is estimated.

``make costs`` writes it anew, where a scale, a method or the estimate has changed.
"""

import re

import pytest

from noisyfl.commands import read_plan
from noisyfl.experiments.config import ROOT
from noisyfl.experiments.demand import demands
from noisyfl.experiments.targets import runs_by_target
from noisyfl.specs.speeds import DEVICES, LEAST, MOST

PAGES = ("fedcni", "fedcorr", "fednoil", "fedrn", "grand", "human", "rofl")
SHOWN = ("H100", "T4")
BLOCK = re.compile(r"<!-- costs -->\n.*?<!-- end of costs -->", re.DOTALL)
SENTENCE = re.compile(r"All runs of the paper scale.*?estimates\.", re.DOTALL)


def hours(likely):
    """A range, to two digits."""

    def rounded(value):
        return f"{float(f'{value:.2g}'):,.0f}" if value >= 10 else f"{value:.2g}"

    return f"{rounded(LEAST * likely)} to {rounded(MOST * likely)}"


def costs():
    speeds = {name: DEVICES[name] for name in SHOWN}
    plan = read_plan(ROOT / "config" / "paper.yaml")
    return demands(plan, runs_by_target(plan), lambda run: False, speeds)


def block_of(page, found):
    header = " | ".join(f"hours of one {name}" for name in SHOWN)
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
        "Estimates of the paper scale, not measurements ([how](../speed.md#what-a-run-costs)).",
        "Runs that tables share are counted with each of them.",
        "<!-- end of costs -->",
    ]
    return "\n".join(lines)


def sentence_of(found):
    total = found[-1]
    likely = " or ".join(
        f"{hours(value)} hours of one {name}"
        for name, value in zip(SHOWN, total.hours, strict=True)
    )
    return (
        f"All runs of the paper scale, {total.runs:,}, likely take {likely}; these are estimates."
    )


@pytest.fixture(scope="module")
def found():
    return costs()


@pytest.mark.parametrize("page", PAGES)
def test_a_page_has_the_costs_of_its_tables(page, found):
    text = (ROOT / "docs" / "papers" / f"{page}.md").read_text()
    assert BLOCK.search(text)[0] == block_of(page, found), "if this is meant: make costs"


def test_the_readme_has_the_sum(found):
    text = " ".join(SENTENCE.search((ROOT / "README.md").read_text())[0].split())
    assert text == sentence_of(found), "if this is meant: make costs"


def test_a_range_has_two_digits():
    assert hours(1234) == "820 to 2,500"
    assert hours(0.123) == "0.082 to 0.25"


if __name__ == "__main__":
    now = costs()
    for name in PAGES:
        path = ROOT / "docs" / "papers" / f"{name}.md"
        path.write_text(BLOCK.sub(block_of(name, now), path.read_text()))
    readme = ROOT / "README.md"
    readme.write_text(SENTENCE.sub(sentence_of(now), readme.read_text()))
