"""Tables whose cells differ in metric or statistic, and that average columns."""

import csv

import numpy as np
import pyarrow as pa
import pytest

from browser import chromium
from descriptions import describe, described_table, header
from noisyfl.analysis.cells import collect
from noisyfl.analysis.frame import read_frames, write_frame
from noisyfl.analysis.published_cells import published_cells, write_cells
from noisyfl.analysis.runs import read_runs
from noisyfl.analysis.statistics import PARTLY_SPREADS, POINTS, verdict_on_number
from noisyfl.core.artifacts import read_table, write_table
from noisyfl.pages.settings import notes
from noisyfl.pages.table import html_page, markdown_page
from noisyfl.specs.published import read_published


def with_columns(runs, run, **columns):
    """Add columns to a run's rounds."""
    table, metadata = read_table(runs.files[run].rounds)
    for name, values in columns.items():
        table = table.append_column(name, pa.array(values, pa.float64()))
    write_table(runs.files[run].rounds, table, metadata)
    return run


@pytest.fixture
def two_metrics(runs, published):
    """A row that shows precision at the end and one that shows seconds, over two trials."""
    ids = [
        with_columns(
            runs,
            runs.add([0.5, 0.6], seed=seed),
            label_precision=[0.7, 0.8 + seed / 100],
            seconds=[1.0, 3.0 * seed],
        )
        for seed in (1, 2)
    ]
    rows = [
        header("precision", method="fedavg", metric="label_precision", statistic="last"),
        header("time", method="fedavg", metric="seconds_per_round", statistic="mean"),
        header("accuracy", method="fedavg"),
    ]
    numbers = published(
        ("fedavg", "low", "label_precision", 0.80, "fraction", ""),
        ("fedavg", "low", "seconds_per_round", 2.0, "seconds", ""),
        ("fedavg", "low", "test_accuracy", 75.0, "percent", 1.0),
    )
    description = describe([header("low")], rows, [[ids]] * 3)
    return collect(described_table(description, numbers), read_runs(runs.files))


def test_each_cell_has_its_own_metric_and_statistic(two_metrics):
    precision, time, accuracy = (row.cells[0] for row in two_metrics.rows)
    assert precision.summary.mean == pytest.approx(81.5)
    assert time.summary.mean == pytest.approx((2.0 + 3.5) / 2)
    assert accuracy.summary.mean == pytest.approx(60)
    assert [cell.published.value for cell in (precision, time, accuracy)] == [80.0, 2.0, 75.0]
    assert precision.difference == pytest.approx(1.5)
    assert time.difference == pytest.approx(0.75)
    # Each is the only row with its metric, so there is nothing that it could be the best of.
    assert not any(two_metrics.is_best(row, 0) for row in two_metrics.rows)


def test_the_page_prints_shares_in_percent_and_seconds_as_they_are(two_metrics):
    text = markdown_page(two_metrics)
    assert "| precision | 81.5 ± 0.7 (80.0) +1.5 ✓ |" in text
    assert "| time | 2.8 ± 1.1 (2.0) +0.8 ✓ |" in text
    assert "| accuracy | 60.0 ± 0.0 (75.0) -15.0 ✗ |" in text
    assert "Of 3 published numbers: 2 supported ✓, 1 not supported ✗." in text
    assert "time of a round, mean over a run, in s" in text


def test_less_is_better_for_some(runs, published):
    fast = with_columns(runs, runs.add([0.5]), seconds=[1.0])
    slow = with_columns(runs, runs.add([0.5], seed=2), seconds=[2.0])
    rows = [header("fast", method="fedavg"), header("slow", method="krum")]
    description = describe(
        [header("time")], rows, [[[fast]], [[slow]]], metric="seconds_per_round", published=None
    )
    content = collect(described_table(description), read_runs(runs.files))
    assert [content.is_best(row, 0) for row in content.rows] == [True, False]


def test_what_a_method_reports_is_shown_and_not_ranked(runs, published):
    ids = []
    for method, values in (("fedavg", (0.1235, 0.5)), ("krum", (3, 4))):
        reported = [{"round": n, "client": 0, "depth": v} for n, v in enumerate(values, 1)]
        ids.append(runs.add([0.5, 0.6], method=method, clients=reported))
    rows = [header("a", method="fedavg"), header("b", method="krum")]
    columns = [
        header("accuracy"),
        header("depth", metric="clients.depth", statistic="mean"),
        header("rank", average_rank=True),
    ]
    cells = [[[one], [one], []] for one in ids]
    content = collect(
        described_table(describe(columns, rows, cells, published=None)), read_runs(runs.files)
    )
    assert [row.cells[1].summary.mean for row in content.rows] == pytest.approx([0.31175, 3.5])
    assert not any(content.is_best(row, 1) for row in content.rows)
    assert {place for place, _ in content.ranks.items()} == {(0, 0), (1, 0)}
    assert [row.cells[2].summary.mean for row in content.rows] == [1.5, 1.5]
    text = markdown_page(content)
    assert "0.312" in text
    assert "depth, mean over a run" in text
    assert "depth, mean over a run," not in text


def test_a_metric_that_no_run_records_is_named_with_those_there_are(runs, published):
    reported = [{"round": 1, "client": 0, "depth": 1.0, "width": 2.0}]
    run = runs.add([0.5], clients=reported)
    columns = [header("mistyped", metric="clients.dept"), header("depth", metric="clients.depth")]
    rows = [header("a", method="fedavg")]
    description = describe(columns, rows, [[[run], [run]]], published=None)
    found = notes(collect(described_table(description), read_runs(runs.files)))
    expected = "No run here records clients.dept; they record clients.depth, clients.width."
    assert expected in found
    assert not any("in bold" in note or "clients.depth;" in note for note in found)


def test_a_column_of_means_and_its_spread_over_the_columns(runs, published):
    cells = [
        [runs.add([a], seed=seed, noise_level=f"constant(level={level})") for seed, a in trials]
        for level, trials in ((0.1, [(1, 0.80), (2, 0.90)]), (0.2, [(1, 0.60)]), (0.3, [(1, 0.5)]))
    ]
    columns = [header("a"), header("b"), header("c"), header("Mean", mean_of=["a", "b"])]
    numbers = published(
        ("fedavg", "mean", "test_accuracy", 70.0, "percent", ""),
        ("krum", "x", "test_accuracy", 60.0, "percent", ""),
    )
    for column, noise in zip(columns, ("x", "x", "x", "mean"), strict=True):
        column["published"] = {"noise": noise}
    description = describe(columns, [header("FedAvg", method="fedavg")], [[*cells, []]])
    content = collect(described_table(description, numbers), read_runs(runs.files))
    mean = content.rows[0].cells[3]
    assert mean.summary.mean == pytest.approx((85 + 60) / 2)
    assert mean.summary.std == pytest.approx(np.std([85, 60], ddof=1))
    assert (mean.runs, mean.published.value) == ([], 70.0)
    assert mean.difference == pytest.approx(2.5)
    assert "72.5 ± 17.7 (70.0) +2.5" in markdown_page(content)


def test_a_column_of_average_ranks(runs, published):
    accuracies = {"a": (0.9, 0.5), "b": (0.8, 0.5), "c": (0.7, 0.6), "bound": (0.99, 0.99)}
    levels = ("constant(level=0.1)", "constant(level=0.2)")
    cells = [
        [
            *([runs.add([value], seed=seed, noise_level=level)] for value, level in row),
            [],
        ]
        for seed, row in enumerate(
            [zip(values, levels, strict=True) for values in accuracies.values()], 1
        )
    ]
    rows = [header(name, method="fedavg") for name in accuracies]
    rows[3]["ranked"] = False
    columns = [header("x"), header("y"), header("average rank", average_rank=True)]
    description = describe(columns, rows, cells, published=None)
    content = collect(described_table(description), read_runs(runs.files))
    # First, second and third; then two share the second place, which is 2.5 each, behind c.
    ranks = [row.cells[2].summary and row.cells[2].summary.mean for row in content.rows]
    assert ranks == [(1 + 2.5) / 2, (2 + 2.5) / 2, (3 + 1) / 2, None]
    assert [content.is_best(row, 2) for row in content.rows] == [True, False, False, False]
    assert "| a | **90.0** | 50.0 | **1.8** |" in markdown_page(content)


# ---------------------------------------------------------------- verdicts


class Number:
    def __init__(self, value, std=None):
        self.value, self.std = value, std


class Ours:
    def __init__(self, mean, std=None, trials=1):
        self.mean, self.std, self.trials = mean, std, trials


@pytest.mark.parametrize(
    ("ours", "paper", "word"),
    [
        # A single trial spreads as the paper's do.
        (Ours(71.1), Number(70.0, 0.6), "supported"),
        (Ours(71.3), Number(70.0, 0.6), "partly supported"),
        (Ours(72.41), Number(70.0, 0.6), "not supported"),
        # Without a published spread two points are one.
        (Ours(72 - 1e-9), Number(70.0), "supported"),
        (Ours(75), Number(70.0), "partly supported"),
        (Ours(63.9), Number(70.0), "not supported"),
        # The standard error of four trials is half their spread: 0.02 / 2 = one point more.
        (Ours(73 - 1e-9, 2, 4), Number(70.0), "supported"),
        (Ours(73.1, 2, 4), Number(70.0), "partly supported"),
    ],
)
def test_verdicts(ours, paper, word):
    assert (POINTS, PARTLY_SPREADS) == (2.0, 3.0)
    assert verdict_on_number(paper, ours, "percent", True, False) == word


def test_verdicts_of_what_cannot_be_compared():
    ours, paper = Ours(70), Number(70.0)
    assert verdict_on_number(None, ours, "percent", True, False) == ""
    assert verdict_on_number(paper, ours, "percent", False, False) == "other scale"
    assert verdict_on_number(paper, None, "percent", False, True) == "other scale"
    assert verdict_on_number(paper, None, "percent", False, False) == "not run"
    assert verdict_on_number(paper, None, "percent", True, False) == "not run"
    assert verdict_on_number(paper, ours, "percent", True, True) == "diverged"
    assert verdict_on_number(Number(10.0), Ours(10.9), "seconds", True, False) == "supported"
    assert verdict_on_number(Number(10.0), Ours(12.9), "seconds", True, False) == "partly supported"
    assert verdict_on_number(Number(10.0), Ours(13.1), "seconds", True, False) == "not supported"
    # Three published spreads and one standard error: 3 x 0.1 + 0.4 / 2.
    paper = Number(10.0, 0.1)
    assert (
        verdict_on_number(paper, Ours(10.49, 0.4, 4), "percent", True, False) == "partly supported"
    )
    assert verdict_on_number(paper, Ours(10.51, 0.4, 4), "percent", True, False) == "not supported"


def test_the_tidy_form_has_each_published_number_once(two_metrics, published, tmp_path):
    write_frame(tmp_path / "t1.parquet", two_metrics.frame)
    numbers = published(
        ("fedavg", "low", "label_precision", 0.80, "fraction", ""),
        ("fedavg", "low", "seconds_per_round", 2.0, "seconds", ""),
        ("fedavg", "low", "test_accuracy", 75.0, "percent", 1.0),
        ("rofl", "low", "test_accuracy", 80.0, "percent", ""),
    )
    numbers_of = read_published(tmp_path / "published.csv")
    write_cells(
        published_cells(read_frames([tmp_path / "t1.parquet"]), numbers_of),
        tmp_path / "cells.csv",
    )
    with (tmp_path / "cells.csv").open(newline="") as file:
        rows = list(csv.DictReader(file))
    assert len(rows) == len(numbers)
    first = (tmp_path / "published.csv").read_text().split("\n")[0]
    assert list(rows[0])[:16] == first.split(",")
    verdicts = ["supported", "supported", "not supported", "not run"]
    assert [row["verdict"] for row in rows] == verdicts
    assert [row["ours"] for row in rows] == ["81.5", "2.75", "60.0", ""]
    assert [row["ours_trials"] for row in rows] == ["2", "2", "2", "0"]
    assert (rows[2]["value"], rows[2]["difference"]) == ("75.0", "-15.0")
    assert [row["ours_starred"] for row in rows] == ["False"] * 3 + [""]
    assert len(rows[0]["runs"].split()) == 2


@pytest.mark.slow
def test_eight_columns_with_long_names_fit_a_window_of_1400_pixels(runs, tmp_path):
    run = runs.add([0.5])
    names = [f"Dirichlet 0.{n}, symmetric 0.3 to 0.6, a long name" for n in range(7)]
    columns = [header(name, group="Fashion-MNIST") | {"label": name} for name in names]
    given = describe(columns, [{"name": "FedAvg", "published": {}}], [[[run]] * 7], published=None)
    for heading in (*given["columns"], *given["rows"]):
        heading.pop("published")
    path = tmp_path / "table.html"
    path.write_text(html_page(collect(described_table(given), read_runs(runs.files))))
    with chromium() as browser:
        page = browser.new_context(viewport={"width": 1400, "height": 900}).new_page()
        page.goto(path.as_uri())
        wide = page.locator(".wide")
        assert wide.evaluate("one => one.scrollWidth <= one.clientWidth")
        assert wide.evaluate("one => one.getBoundingClientRect().right <= 1400")
