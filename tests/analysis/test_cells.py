"""The content of a table: which cells are compared with each other, and what a verdict rests on."""

import numpy as np
import pytest

from descriptions import described_table
from noisyfl.analysis.cells import Cell, collect
from noisyfl.analysis.frame import cells_of
from noisyfl.analysis.runs import read_runs
from noisyfl.pages.settings import notes
from noisyfl.specs.published import read_published
from small_tables import FIELDS


def table_of(runs, accuracies, groups=(), metrics=(), unranked=()):
    """A table of one column in which each row has a run of this accuracy, in percent."""
    rows = [
        {"name": name, "published": None, "ranked": name not in unranked} for name in accuracies
    ]
    for row, group in zip(rows, groups, strict=False):
        row["group"] = group
    for row, metric in zip(rows, metrics, strict=False):
        row["metric"] = metric
    ids = [
        [[runs.add([value / 100], seed=seed, columns={"seconds": [100.0 - value]})]]
        for seed, value in enumerate(accuracies.values())
    ]
    given = {"rows": rows, "columns": [{"name": "x", "published": None}], "runs": ids}
    return collect(described_table(given), read_runs(runs.files))


def ranks(content):
    return {content.rows[r].name: rank for (r, _), rank in content.ranks.items()}


def best(content):
    return [row.name for row in content.rows if content.is_best(row, 0)]


def test_a_bound_has_no_rank_and_is_never_the_best(runs):
    content = table_of(runs, {"A": 60, "B": 70, "Oracle": 90}, unranked=("Oracle",))
    assert ranks(content) == {"A": (2, 2), "B": (1, 2)}
    assert best(content) == ["B"]


def test_a_method_beside_bounds_alone_is_the_best_of_nothing(runs):
    content = table_of(runs, {"A": 60, "Oracle": 90}, unranked=("Oracle",))
    assert content.ranks == {}
    assert best(content) == []


def test_a_bound_that_is_printed_like_the_best_is_not_bold(runs):
    content = table_of(runs, {"A": 60, "B": 70, "Oracle": 70}, unranked=("Oracle",))
    assert best(content) == ["B"]


def test_rows_are_compared_on_the_seeds_that_all_have(runs):
    """The second seed is a bad one, and B does not have it."""
    trials = {"fedavg": [70, 40], "fedprox": [60], "arfl": [65, 35]}
    ids = [
        [[runs.add([value / 100], method=name, seed=n) for n, value in enumerate(values, start=1)]]
        for name, values in trials.items()
    ]
    rows = [{"name": name, "published": None} for name in "ABCD"]
    columns = [{"name": "x", "published": None}]
    given = {"rows": rows, "columns": columns, "runs": [*ids, [[]]]}
    content = collect(described_table(given), read_runs(runs.files))
    assert [content.number(row.shown[0]) for row in content.rows] == ["70.0", "60.0", "65.0", ""]
    assert [content.number(row.cells[0]) for row in content.rows] == ["55.0", "60.0", "50.0", ""]
    assert best(content) == ["A"]
    assert ranks(content) == {"A": (1, 3), "B": (3, 3), "C": (2, 3)}
    assert content.on_fewer_seeds
    assert "A number is over the seeds that all ranked rows of a column have" in " ".join(
        notes(content)
    )


def test_rows_are_ranked_within_their_group(runs):
    groups = ["MNIST", "MNIST", "CIFAR-10", "CIFAR-10", "alone"]
    content = table_of(runs, {"A": 90, "B": 95, "C": 40, "D": 30, "E": 99}, groups)
    assert ranks(content) == {"A": (2, 2), "B": (1, 2), "C": (1, 2), "D": (2, 2)}
    assert best(content) == ["B", "C"]


def test_rows_are_ranked_within_their_metric(runs):
    metrics = ["test_accuracy", "test_accuracy", "seconds_per_round", "seconds_per_round"]
    content = table_of(runs, {"A": 90, "B": 80, "C": 70, "D": 60}, metrics=metrics)
    # C takes 30 seconds a round, D 40.
    assert ranks(content) == {"A": (1, 2), "B": (2, 2), "C": (1, 2), "D": (2, 2)}


@pytest.mark.parametrize(
    ("printed", "word"), [(73.9, "supported"), (77.9, "partly supported"), (78.1, "not supported")]
)
def test_a_verdict_on_a_mean_of_columns_takes_no_spread_for_tolerance(
    runs, tmp_path, printed, word
):
    """Settings lie 16 points apart in ours, and 8 in the paper's."""
    mean = f"p,t1,d,federated,iid,mean,fedavg,,test_accuracy,{printed},percent,8.33,,,,"
    path = tmp_path / "published.csv"
    path.write_text(f"{FIELDS}\n{mean}\n")
    levels = {"a": (0.1, 0.80), "b": (0.2, 0.64)}
    ids = [
        [runs.add([accuracy], noise_level=f"constant(level={level})")]
        for level, accuracy in levels.values()
    ]
    columns = [{"name": name, "published": None} for name in levels]
    columns.append({"name": "Mean", "published": {"noise": "mean"}, "mean_of": list(levels)})
    given = {
        "published": {"paper": "p"},
        "rows": [{"name": "FedAvg", "published": {}}],
        "columns": columns,
        "runs": [[*ids, []]],
        "as_published": [[True] * 3],
    }
    content = collect(described_table(given, read_published(path)), read_runs(runs.files))
    *parts, cell = content.rows[0].cells
    assert (cell.averages, [part.averages for part in parts]) == (True, [False, False])
    assert cell.summary.std == pytest.approx(np.std([80, 64], ddof=1))
    assert cell.published.std == 8.33
    assert cell.verdict == word
    # The file of all published numbers has it from the frame alone.
    *_, again = (Cell(rows) for line in cells_of(content.frame) for rows in line)
    assert (again.averages, again.verdict) == (True, word)


def test_a_mean_of_columns_is_of_the_numbers_that_these_show(runs):
    """A's second seed is a bad one, and B does not have it; nor does a bound decide on seeds."""
    trials = {"fedavg": [70, 40], "fedprox": [60], "oracle": [90, 95]}

    def run(name, n, value, column):
        return runs.add([value / 100], method=name, seed=n, model=column)

    ids = [
        [
            [run(name, n, value, column) for n, value in enumerate(values, start=1)]
            for column in ("cnn", "cnn2conv")
        ]
        + [[]]
        for name, values in trials.items()
    ]
    rows = [{"name": name, "published": None} for name in "AB"]
    rows.append({"name": "Bound", "published": None, "ranked": False})
    columns = [{"name": name, "published": None} for name in ("a", "b")]
    columns.append({"name": "mean", "published": None, "mean_of": ["a", "b"]})
    given = {"rows": rows, "columns": columns, "runs": ids}
    content = collect(described_table(given), read_runs(runs.files))
    numbers = [[content.number(cell) for cell in row.shown] for row in content.rows]
    assert numbers == [["70.0"] * 3, ["60.0"] * 3, ["90.0"] * 3]
    assert [content.is_best(content.rows[0], column) for column in range(3)] == [True] * 3
