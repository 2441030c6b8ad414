"""Tables as LaTeX, with groups and marks, and the groups as HTML."""

import dataclasses
import re

import pytest

from descriptions import describe, described_table, header
from noisyfl.analysis.cells import collect
from noisyfl.analysis.runs import read_runs
from noisyfl.pages.latex import blocks, escape_latex, latex_table
from noisyfl.pages.settings import notes
from noisyfl.pages.table import html_page, markdown_page


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
