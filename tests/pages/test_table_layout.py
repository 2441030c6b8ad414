"""Tables whose cells differ in metric or statistic, that average columns, and that have groups."""

import csv
import dataclasses
import re

import numpy as np
import pyarrow as pa
import pytest

from browser import chromium
from descriptions import described_table
from noisyfl.analysis.cells import collect
from noisyfl.analysis.frame import read_frames, write_frame
from noisyfl.analysis.published_cells import published_cells, write_cells
from noisyfl.analysis.runs import read_runs
from noisyfl.analysis.statistics import PARTLY_SPREADS, POINTS, verdict_on_number
from noisyfl.core.artifacts import read_table, write_table
from noisyfl.pages.latex import blocks, escape_latex, latex_table
from noisyfl.pages.settings import notes
from noisyfl.pages.table import html_page, markdown_page
from noisyfl.specs.published import read_published

FIELDS = (
    "paper,table,dataset,setting_scope,partition,noise,method,variant,metric,value,unit,std,trials,"
    "statistic,converged,note"
)


def header(name, group="", **more):
    return {"name": name, "label": name.split(", ")[-1], "group": group, "published": {}, **more}


def describe(columns, rows, runs, **more):
    return {
        "experiment": "p",
        "experiment_title": "A paper",
        "name": "t1",
        "title": "Table 1: 50 % of _everything_",
        "note": "",
        "scale": "paper",
        "scale_note": "",
        "metric": "test_accuracy",
        "statistic": "best",
        "published": {"paper": "p"},
        "columns": columns,
        "rows": rows,
        "runs": runs,
        "as_published": [[True] * len(columns) for _ in rows],
        **more,
    }


@pytest.fixture
def published(tmp_path):
    """Reads published numbers given as (method, noise, metric, value, unit, std)."""

    def read(*numbers):
        lines = [
            f"p,t1,cifar10,federated,iid,{noise},{method},,{metric},{value},{unit},{std},,,,"
            for method, noise, metric, value, unit, std in numbers
        ]
        path = tmp_path / "published.csv"
        path.write_text("\n".join([FIELDS, *lines, ""]))
        return read_published(path) if numbers else []

    return read


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


# ---------------------------------------------------------------- groups, LaTeX


@pytest.fixture
def grouped(runs, published):
    """Two methods under two groups of five columns each."""
    names = [f"{group}, ε={level}" for group in ("CIFAR-10 & co", "100 %") for level in range(5)]
    columns = [header(name, name.split(", ")[0]) for name in names]
    rows = [
        header("Fed_Avg", "plain", method="fedavg"),
        header("Krum", "robust", method="krum"),
        header("Median", "robust", method="median"),
    ]
    cells = [
        [[runs.add([(3 - r) / 10 + c / 100], seed=10 * r + c)] for c in range(10)] for r in range(3)
    ]
    content = describe(columns, rows, cells, published=None)
    return collect(described_table(content), read_runs(runs.files))


def test_latex_keeps_groups_together_and_fits_the_page(grouped):
    assert blocks(grouped) == [[0, 1, 2, 3, 4], [5, 6, 7, 8, 9]]
    text = latex_table(grouped)
    assert text.count(r"\begin{tabular}{lccccc}") == text.count(r"\end{tabular}") == 2
    assert r"\multicolumn{5}{c}{CIFAR-10 \& co}" in text
    assert r"\cmidrule(lr){2-6}" in text
    assert text.count(r"\toprule") == text.count(r"\bottomrule") == 2
    assert r"\emph{robust}" in text
    assert any("The best of each group of rows is in bold." in note for note in notes(grouped))
    # The best of its group is bold, and a row alone in its group is the best of nothing.
    assert r"Fed\_Avg & 30.0 & 31.0 & 32.0 & 33.0 & 34.0 \\" in text
    assert r"Median & 10.0 & 11.0" in text
    assert r"Krum & \textbf{20.0} & \textbf{21.0}" in text
    assert r"\caption{Table 1: 50 \% of \_everything\_}" in text
    assert r"$\varepsilon$=0" in text
    # Every line of a table has as many cells as its head says.
    for line in text.splitlines():
        if line.endswith(r"\\") and "multicolumn" not in line:
            assert len(re.findall(r"(?<!\\)&", line)) == 5, line
    assert len(re.findall(r"(?<!\\)\{", text)) == len(re.findall(r"(?<!\\)\}", text))


@pytest.fixture
def marked(runs, published):
    """Cells of which a trial diverged, of which all did, and one that is not run."""
    diverged = {"status": "diverged"}
    half = [runs.add([0.9], seed=1), runs.add([0.8], seed=2, provenance=diverged)]
    whole = [runs.add([0.7], seed=3, provenance=diverged)]
    plain = [runs.add([0.6, 0.5], seed=4)]

    def collected(as_published, compared=True, **more):
        description = describe(
            [header("a"), header("b", published=None)],
            [
                header("half", method="fedavg"),
                header("whole", method="krum", published=None),
                header("plain", method="median", published=None),
            ],
            [[half, []], [whole, plain], [plain, plain]],
            **{"as_published": as_published, "published": {"paper": "p"} if compared else None},
            **more,
        )
        numbers = [("fedavg", "a", "test_accuracy", 70.0, "percent", "")] if compared else ()
        return collect(described_table(description, published(*numbers)), read_runs(runs.files))

    return collected


OURS, FOREIGN = [[True] * 2] * 3, [[False] * 2] * 3

MIXED = [[False, False], [False, True], [True, True]]


def latex_cells(content, row):
    """The cells of a row, without what says how they are set."""
    (line,) = [line for line in latex_table(content).splitlines() if line.startswith(f"{row} &")]
    line = re.sub(r"[{}]|\\scriptsize|\\textbf|\\\\", "", line)
    return [" ".join(cell.split()) for cell in line.split("&")[1:]]


def test_latex_says_which_cells_diverged_and_which_are_not_run(marked):
    content = marked(OURS)
    assert latex_cells(content, "half") == ["90.0 diverged (1 of 2) (70.0)", "not run"]
    assert latex_cells(content, "whole") == ["diverged (1 of 1)", "60.0"]
    assert "| half | 90.0, diverged (1 of 2) (70.0)" in markdown_page(content)


def test_latex_marks_what_is_not_in_the_papers_setting_where_some_is(marked):
    content = marked(MIXED)
    assert latex_cells(content, "half")[0] == r"90.0 diverged (1 of 2)$\dagger$ (70.0)"
    assert latex_cells(content, "whole") == [r"diverged (1 of 1)$\dagger$", "60.0"]
    assert "dagger" not in "".join(latex_cells(content, "plain"))
    assert markdown_page(content).count("†") == 2 + 1  # the warning explains it


@pytest.mark.parametrize(
    ("as_published", "more", "words"),
    [
        (OURS, {}, ""),
        (FOREIGN, {}, " (scale “paper”: not the paper's settings)"),
        (FOREIGN, {"compared": False}, " (scale “paper”: not the experiment's own settings)"),
        (MIXED, {}, r" (scale “paper”; $\dagger$: not made in the paper's settings)"),
        (
            OURS,
            {"statistic": "final_or_max"},
            " (*: the maximum, since at least half of the runs did not converge)",
        ),
    ],
)
def test_latex_explains_the_marks_that_occur(marked, as_published, more, words):
    text = latex_table(marked(as_published, **more))
    assert rf"\caption{{Table 1: 50 \% of \_everything\_{words}}}" in text


@pytest.mark.parametrize("name", ["[2cm] Ours", "*Ours", " [2cm] Ours", "FedAvg*", "a [b]"])
def test_latex_takes_no_name_for_an_argument_of_the_line_before(marked, name):
    content = marked(OURS)
    row = dataclasses.replace(content.rows[0], label=name)
    text = latex_table(dataclasses.replace(content, rows=(row, *content.rows[1:])))
    assert any(line.removeprefix("{}").startswith(f"{name} &") for line in text.splitlines())
    assert not re.search(r"(\\\\|\\[a-z]+rule)\s*[\[*]", text)


def test_latex_escapes_what_would_be_a_command():
    assert escape_latex("a_b & 5 % of $x {y} #1 \\z ~ ^") == (
        r"a\_b \& 5 \% of \$x \{y\} \#1 \textbackslash{}z \textasciitilde{} \textasciicircum{}"
    )


def test_html_shows_groups_above_columns_and_before_rows(grouped):
    page = html_page(grouped)
    assert '<th scope="colgroup" colspan="5">CIFAR-10 &amp; co</th>' in page
    assert '<th scope="col">ε=3</th>' in page
    assert '<th scope="rowgroup" colspan="11">robust</th>' in page


# ---------------------------------------------------------------- the tidy form


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
    assert list(rows[0])[:16] == FIELDS.split(",")
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
