"""The tidy frame: what a table's numbers are, one row a run."""

import dataclasses
import math

import pandas as pd
import pytest

from descriptions import described_table
from noisyfl.analysis.cells import Cell
from noisyfl.analysis.frame import (
    COLUMNS,
    column_values,
    read_frames,
    summaries,
    tidy,
    write_frame,
)
from noisyfl.analysis.runs import read_runs
from noisyfl.core.options import BadInput
from noisyfl.specs.descriptions import Heading, TableDescription, description_text
from noisyfl.specs.published import Published

LEVELS = ("constant(level=0.1)", "constant(level=0.2)")


def number(method, noise, value, **more):
    fields = {
        **{"paper": "p", "table": "t1", "dataset": "d", "setting_scope": "federated"},
        **{"partition": "iid", "noise": noise, "method": method, "variant": ""},
        **{"metric": "test_accuracy", "value": value, "unit": "percent", "std": ""},
        **{"trials": "", "statistic": "best", "converged": "", "note": ""},
    }
    return {**fields, **more}


NUMBERS = (
    number("fedavg", "low", "80.5", std="1.5", trials="5"),
    number("fedavg", "high", "0.6", unit="fraction", converged="false"),
    number("krum", "low", "70"),
    number("rofl", "high", "50"),
)


@pytest.fixture
def table(runs):
    """Two methods in two settings, with their mean and rank, two trials a cell."""
    accuracies = {
        ("fedavg", 0): [[0.5, 0.8], [0.6, 0.9]],
        ("fedavg", 1): [[0.6, 0.5], [0.7, 0.6]],
        ("krum", 0): [[0.4, 0.3], [0.5, 0.4]],
        ("krum", 1): [[0.9, 0.9], [0.9, 0.9]],
    }
    cells = {
        at: [
            runs.add(values, method=at[0], seed=seed, noise_level=LEVELS[at[1]])
            for seed, values in enumerate(trials, 1)
        ]
        for at, trials in accuracies.items()
    }
    methods = ("fedavg", "krum")
    given = {
        "published": {"paper": "p", "table": "t1"},
        "columns": [
            {"name": "noise, low", "label": "low", "group": "noise", "published": {"noise": "low"}},
            {"name": "noise, high", "group": "noise", "published": {"noise": "high"}},
            {"name": "mean", "mean_of": ["noise, low", "noise, high"]},
            {"name": "rank", "average_rank": True},
        ],
        "rows": [{"name": name.title(), "method": name, "published": {}} for name in methods],
        "runs": [[cells[name, 0], cells[name, 1], (), ()] for name in methods],
        "as_published": [[True, True, False, False], [True, False, False, False]],
    }
    return described_table(given, [Published(n, fields) for n, fields in enumerate(NUMBERS)])


@pytest.fixture
def frame(table, runs):
    return tidy(table, read_runs(runs.files))


def cell(frame, row, column):
    return frame[(frame["row"] == row) & (frame["column"] == column)]


def test_a_row_a_run_with_its_labels_and_its_value(frame, table):
    assert list(frame.columns) == COLUMNS
    found = cell(frame, "Fedavg", "noise, low")
    assert found["run"].tolist() == list(table.runs[0][0])
    assert found["trial"].tolist() == found["seed"].tolist() == [1, 2]
    assert found["value"].tolist() == [80.0, 90.0]
    first = found.iloc[0]
    assert (first["column_group"], first["column_label"]) == ("noise", "low")
    assert (first["paper"], first["paper_table"], first["dataset"]) == ("p", "t1", "d")
    assert (first["noise"], first["method"], first["our_method"]) == ("low", "fedavg", "fedavg")
    assert (first["metric"], first["statistic"], first["unit"]) == (
        "test_accuracy",
        "best",
        "percent",
    )
    assert first["status"] == "finished"


def test_a_rows_metric_comes_before_its_columns_and_that_before_the_tables(table):
    plain = Heading(name="plain")
    row = Heading(name="row", metric="label_recall", statistic="mean_last_10")
    column = Heading(name="column", metric="label_precision", statistic="last")
    assert table.metric_of(row, column) == "label_recall"
    assert table.statistic_of(row, column) == "mean_last_10"
    assert table.metric_of(plain, column) == table.metric_of(None, column) == "label_precision"
    assert (table.metric_of(plain, plain), table.statistic_of(plain, plain)) == (
        "test_accuracy",
        "best",
    )


def test_a_number_is_joined_to_the_cell_whose_labels_it_has(frame):
    found = frame.drop_duplicates(["row", "column"]).set_index(["row", "column"])
    known = found[found["published"].notna()]
    assert known["published"].to_dict() == {
        ("Fedavg", "noise, low"): 80.5,
        ("Fedavg", "noise, high"): 60.0,
        ("Krum", "noise, low"): 70.0,
        ("RoFL", "noise, high"): 50.0,
    }
    assert known["published_trials"].tolist() == [5, 0, 0, 0]
    assert known["published_starred"].tolist() == [False, True, False, False]
    assert known["published_decimals"].tolist() == [1, 0, 0, 0]
    assert known["published_std"].isna().tolist() == [False, True, True, True]


def test_the_order_of_the_numbers_says_nothing(frame, table, runs):
    turned = dataclasses.replace(table, other_numbers=table.other_numbers[::-1])
    pd.testing.assert_frame_equal(tidy(turned, read_runs(runs.files)), frame)


def test_a_line_of_the_paper_that_is_not_trained(frame):
    found = frame[~frame["trained"]]
    assert found["row"].tolist() == ["RoFL"] * 4
    assert found["row_number"].tolist() == [2] * 4
    assert found["value"].isna().all()
    assert found["run"].tolist() == [""] * 4
    assert found["trial"].tolist() == [0] * 4


def test_two_numbers_for_one_place_of_such_a_line_are_refused(table, runs):
    more = number("rofl", "high", "51", table="t2")
    table = dataclasses.replace(
        table, published={"paper": "p"}, other_numbers=(*table.other_numbers, more)
    )
    with pytest.raises(BadInput, match=r"p/t1: row 'RoFL', column 'noise, high': .* in table"):
        tidy(table, read_runs(runs.files))


def test_a_table_that_compares_no_column_has_no_such_lines(table, runs):
    columns = tuple(dataclasses.replace(one, published=None) for one in table.columns)
    table = dataclasses.replace(table, columns=columns)
    assert tidy(table, read_runs(runs.files))["trained"].all()


def test_an_averaged_column_has_a_row_a_column(frame):
    found = cell(frame, "Fedavg", "mean")
    assert found["value"].tolist() == [85.0, 65.0]
    assert found["trial"].tolist() == [1, 2]
    assert found["as_published"].all()
    assert not cell(frame, "Krum", "mean")["as_published"].any()


def test_ranks(frame):
    assert column_values(frame).to_numpy().tolist() == [[85.0, 45.0], [65.0, 90.0]]
    assert cell(frame, "Krum", "rank")["value"].tolist() == [1.5]
    assert cell(frame, "Krum", "rank")["unit"].tolist() == ["ranks"]


def test_a_diverged_run_has_values_that_do_not_count(table, runs):
    run = runs.add([0.5, 0.9, 0.1], seed=9, provenance={"status": "diverged"})
    cells = ((table.runs[0][0][0], run), *table.runs[0][1:])
    frame = tidy(table.with_runs((cells, table.runs[1])), read_runs(runs.files))
    found = cell(frame, "Fedavg", "noise, low")
    assert found["best"].tolist() == [80.0, 90.0]
    assert found["value"].isna().tolist() == [False, True]
    assert summaries(found.to_dict("records"))["best"].trials == 1


def test_a_mean_of_a_cell_of_which_a_trial_diverged_is_never_the_best(table, runs):
    run = runs.add([0.9, 0.95], seed=2, noise_level=LEVELS[0], provenance={"status": "diverged"})
    cells = ((table.runs[0][0][0], run), *table.runs[0][1:])
    frame = tidy(table.with_runs((cells, table.runs[1])), read_runs(runs.files))
    found = cell(frame, "Fedavg", "mean")
    assert found["status"].tolist() == ["diverged", ""]
    mean = Cell(found.to_dict("records"))
    assert mean.summary.mean == (80 + 65) / 2
    assert math.isnan(mean.worth)


def test_a_cell_of_which_a_trial_diverged_has_no_value_among_its_column(table, runs):
    run = runs.add([0.5, 0.9], seed=2, provenance={"status": "diverged"})
    cells = ((table.runs[0][0][0], run), *table.runs[0][1:])
    frame = tidy(table.with_runs((cells, table.runs[1])), read_runs(runs.files))
    assert column_values(frame).isna().to_numpy().tolist() == [[True, False], [False, False]]


def test_rows_are_ranked_over_the_seeds_that_all_of_them_have(table, runs):
    fedavg, krum = table.runs
    fewer = table.with_runs((fedavg, (krum[0][1:], krum[1][:1], (), ())))
    frame = tidy(fewer, read_runs(runs.files))
    assert column_values(frame).to_numpy().tolist() == [[90.0, 50.0], [60.0, 90.0]]
    apart = ((fedavg[0][:1], *fedavg[1:]), (krum[0][1:], *krum[1:]))
    frame = tidy(table.with_runs(apart), read_runs(runs.files))
    assert column_values(frame).to_numpy().tolist() == [[80.0, 50.0], [65.0, 90.0]]


def test_half_of_the_trials_decide_whether_a_cell_is_starred(table, runs):
    steady = runs.add([0.9, 0.4, 0.4, 0.4, 0.4, 0.4], seed=9)
    wild = runs.add([0.2, 0.7], seed=8)
    table = dataclasses.replace(table, statistic="final_or_max")
    table = table.with_runs((((steady, wild), *table.runs[0][1:]), table.runs[1]))
    found = cell(tidy(table, read_runs(runs.files)), "Fedavg", "noise, low")
    assert found["starred"].tolist() == [False, True]
    assert found["value"].tolist() == [90.0, 70.0]  # the largest of every run
    assert summaries(found.to_dict("records"))["final_or_max"].starred


def test_a_frame_is_read_as_it_was_written(frame, tmp_path):
    path = tmp_path / "t1.parquet"
    write_frame(path, frame)
    again = read_frames([path, path])
    assert len(again) == 2 * len(frame)
    pd.testing.assert_frame_equal(again[: len(frame)], frame)
    assert list(read_frames([]).columns) == COLUMNS


def test_a_description_is_the_same_on_the_other_side(table):
    text = description_text(table)
    assert TableDescription.from_json(text) == table


def test_a_cell_without_a_run_has_a_row_and_no_value(table, runs):
    """Ranks are over the columns in which all rows that have any run have one."""
    rows = (((), *table.runs[0][1:]), table.runs[1])
    partly = table.with_runs(rows)
    frame = tidy(partly, read_runs(runs.files))
    empty = cell(frame, "Fedavg", "noise, low")
    assert empty["run"].tolist() == [""]
    assert empty["value"].isna().all()
    assert empty["published"].tolist() == [80.5]
    assert cell(frame, "Krum", "rank")["value"].tolist() == [1.0]
    assert cell(frame, "Fedavg", "rank")["value"].tolist() == [2.0]
    none = tidy(table.with_runs((((),) * 4,) * 2), {})
    assert none["value"].isna().all()
    assert none[["value", "published"]].dtypes.map(str).tolist() == ["float64", "float64"]
