"""The tables in handwritten pages have the numbers of the stored runs."""

import numpy as np
import pandas as pd
import pytest
from benchmarks.labels import table
from tools.readme_results import parts

from noisyfl.analysis.measurements import measure
from noisyfl.analysis.runs import read_runs
from noisyfl.analysis.summaries import number
from noisyfl.core.places import ROOT
from noisyfl.core.tracked import REPRODUCED
from noisyfl.experiments.plan_file import read_plan
from noisyfl.pages.methods import describe

LONGER = ("grand/common", "CIFAR-10, IID, symmetric ρ=0.6 τ=0.5")
PARTS = ("grand/ablations", "IID, symmetric 0.5")
CHOICES = ("IID, symmetric 0.5", "Dirichlet 0.5, symmetric 0 to 0.8")
TITLES = (
    "| Method | 20 rounds | 60 rounds | best of 60, in round "
    "| label precision (given labels) | label recall | pseudo-label accuracy |\n" + "|---" * 7 + "|"
)


def measured(scale, name, setting, trial=0):
    """What a trial of each method reached in a table's column, by the name of its row, as far as
    its run is tracked.
    """
    _, plan = read_plan([ROOT / "config" / f"{scale}.yaml"])
    table = plan.tables[name]
    column = [column.name for column in table.columns].index(setting)
    runs = {row.name: line[column][trial] for row, line in zip(table.rows, table.runs, strict=True)}
    runs = {name: run for name, run in runs.items() if REPRODUCED.run(run).whole()}
    found = read_runs({run: REPRODUCED.run(run) for run in runs.values()})
    return {name: measure([found[run]]).iloc[0] for name, run in runs.items()}


def line(name, *measurements):
    accuracies = [number(one.accuracy) for one in measurements]
    return f"| {' | '.join([name, *accuracies, *describe(measurements[-1])])} |"


@pytest.mark.slow
def test_the_table_has_what_longer_training_reached():
    short, long = measured("desk", *LONGER), measured("desk_long", *LONGER)
    both = [name for name in long if name in short]
    assert {"FedAvg", "FedCorr", "FedRN", "FedCNI", "Oracle"} <= set(both)
    lines = [TITLES, *(line(name, short[name], long[name]) for name in both)]
    assert "\n".join(lines) in (ROOT / "docs" / "desk.md").read_text(encoding="utf-8")


def in_both_seeds(name, setting):
    """A benchmark's column at the desk scale as Markdown, the best method first."""
    seeds = [measured("desk", name, setting, trial) for trial in (0, 1)]
    assert seeds[0].keys() == seeds[1].keys()
    found = {row: [seed[row].accuracy for seed in seeds] for row in seeds[0]}
    best = {row: [seed[row].best for seed in seeds] for row in seeds[0]}
    lines = ["| Method | Mean | Seed 1 | Seed 2 | Best, mean |", "|---|---|---|---|---|"]
    for row in sorted(found, key=lambda row: -np.mean(found[row])):
        numbers = [np.mean(found[row]), *found[row], np.mean(best[row])]
        lines.append(f"| {' | '.join([row, *map(number, numbers)])} |")
    return "\n".join(lines)


@pytest.mark.slow
def test_the_parts_of_methods_are_worth_what_the_page_says():
    seeds = [measured("desk", *PARTS, trial) for trial in range(3)]
    lines = ["| Method | complete | variants, the largest loss first |", "|---|---|---|"]
    for method in ("RoFL", "FedCNI", "FedNoiL", "FedCorr", "FedRN"):
        whole = f"{method}, whole"
        of_method = [name for name in seeds[0] if name.startswith(f"{method}, ") and name != whole]
        found = {
            name: pd.DataFrame(
                [(one[name].accuracy, one[whole].accuracy) for one in seeds if name in one]
            )
            for name in of_method
        }
        worth = {name: some[0] - some[1] for name, some in found.items()}
        words = (
            f"{name.removeprefix(f'{method}, ')} {number(found[name][0].mean())} "
            f"({round(worth[name].mean(), 1) + 0.0:+.1f} ± {worth[name].std():.1f})"
            for name in sorted(of_method, key=lambda name: worth[name].mean())
        )
        mean = number(np.mean([one[whole].accuracy for one in seeds if whole in one]))
        lines.append(f"| {method} | {mean} | {'; '.join(words)} |")
    assert "\n".join(lines) in (ROOT / "docs" / "desk.md").read_text(encoding="utf-8")


@pytest.mark.slow
def test_the_open_choices_change_what_the_page_says():
    found = [measured("desk", "grand/choices", setting) for setting in CHOICES]
    lines = ["| Method | choice | IID | skewed |", "|---|---|---|---|"]
    for method in ("RoFL", "FedCNI", "FedNoiL", "FedCorr", "FedRN"):
        names = [name for name in found[0] if name.startswith(f"{method}, ")]
        default, *others = names
        levels = [one[default].accuracy for one in found]
        lines.append(
            f"| {method} | {default.split(', ', 1)[1]} | {' | '.join(map(number, levels))} |"
        )
        for name in others:
            reached = [one[name].accuracy for one in found]
            both = zip(reached, levels, strict=True)
            texts = (f"{number(one)} ({round(one - level, 1) + 0.0:+.1f})" for one, level in both)
            lines.append(f"| | {name.split(', ', 1)[1]} | {' | '.join(texts)} |")
    assert "\n".join(lines) in (ROOT / "docs" / "desk.md").read_text(encoding="utf-8")


@pytest.mark.parametrize(
    ("page", "name", "setting"),
    [
        ("fnbench", "fnbench/cifar10", "Dirichlet 1.0, pair 0.0–0.4"),
        ("fednoisy", "fednoisy/mnist", "Dirichlet 0.1, symmetric 0.3–0.5"),
    ],
)
@pytest.mark.slow
def test_the_benchmarks_pages_have_what_was_trained(page, name, setting):
    text = (ROOT / "docs" / "papers" / f"{page}.md").read_text(encoding="utf-8")
    assert in_both_seeds(name, setting) in text


def test_the_readmes_results_are_those_of_evidence():
    pages = [ROOT / name for name in ("README.md", "docs/evidence.md")]
    readme, evidence = (parts(page)[1] for page in pages)
    assert readme == evidence


def test_the_audits_are_those_that_were_measured():
    scores = pd.read_csv(ROOT / "benchmarks" / "labels.csv")
    assert table(scores) in (ROOT / "docs" / "audit.md").read_text(encoding="utf-8")
