"""The tables of docs/desk.md and the README say what the tracked runs say."""

import json

import numpy as np
import pytest

from noisyfl.analysis.against_fedavg import measure
from noisyfl.analysis.runs import read_runs
from noisyfl.analysis.statistics import number
from noisyfl.commands.scales import REPRODUCED, read_plan
from noisyfl.experiments.config import ROOT
from noisyfl.pages.evidence import describe

LONGER = ("grand/common", "CIFAR-10, IID, symmetric ρ=0.6 τ=0.5")
TITLES = (
    "| Method | after 20 rounds | after 60 | best of 60, after rounds "
    "| right among the clean (of given) | found | right pseudo-labels |\n" + "|---" * 7 + "|"
)


def measured(scale, name, setting):
    """What the first trial of each method reached in a table's column, by the name of its row, as
    far as its run is tracked.
    """
    table = read_plan(ROOT / "config" / f"{scale}.yaml").tables[name]
    column = [column.name for column in table.columns].index(setting)
    runs = {row.name: line[column][0] for row, line in zip(table.rows, table.runs, strict=True)}
    runs = {name: run for name, run in runs.items() if REPRODUCED.run(run).whole()}
    found = read_runs({run: REPRODUCED.run(run) for run in runs.values()})
    return {name: measure([found[run]]).iloc[0] for name, run in runs.items()}


def line(name, *measurements):
    accuracies = [number(one.accuracy) for one in measurements]
    return f"| {' | '.join([name, *accuracies, *describe(measurements[-1])])} |"


def test_the_table_has_what_longer_training_reached():
    short, long = measured("desk", *LONGER), measured("desk_long", *LONGER)
    both = [name for name in long if name in short]
    assert {"FedAvg", "FedCorr", "FedRN", "FedCNI", "Oracle"} <= set(both)
    lines = [TITLES, *(line(name, short[name], long[name]) for name in both)]
    assert "\n".join(lines) in (ROOT / "docs" / "desk.md").read_text(encoding="utf-8")


@pytest.mark.parametrize(
    "heading", ["Of the papers' own size", "Each paper's method beside FedAvg"]
)
def test_the_readme_begins_with_the_tables_of_evidence(heading):
    page = (ROOT / "docs" / "evidence.md").read_text(encoding="utf-8")
    section = page.partition(f"## {heading}\n")[2].partition("\n## ")[0]
    table = [text for text in section.splitlines() if text.startswith("|")]
    assert len(table) > 2
    assert "\n".join(table) in (ROOT / "README.md").read_text(encoding="utf-8")


def test_the_official_code_goes_where_ours_does_in_fedrns_table():
    record = json.loads((ROOT / "conformance/runs/recorded/fedrn_table2.json").read_text())
    official, same = (np.array(record[key]) for key in ("official", "ours_with_its_participants"))
    run, files = record["run"], REPRODUCED.run(record["run"])
    ours = 100 * read_runs({run: files})[run].values("test_accuracy")[: len(official)]
    apart = same - official[: len(same)]
    text = " ".join((ROOT / "docs" / "desk.md").read_text(encoding="utf-8").split())
    said = (
        f"It is at {number(official[20:].mean())} in the mean of rounds 21 to {len(official)}, "
        f"ours at {number(ours[20:].mean())};",
        f"its best is {number(official.max())}, ours {number(ours.max())}.",
        f"correlates by {np.corrcoef(same, official[: len(same)])[0, 1]:.2f} with it",
        f"over {len(same)} rounds, and is {number(-apart.mean())} points below it",
    )
    for sentence in said:
        assert sentence in text, sentence
