"""The pages of evidence: what they say of each method, and what people wrote there."""

import dataclasses
import math
import re
from itertools import pairwise

import pytest

from noisyfl.analysis.own_size import own_size
from noisyfl.analysis.runs import read_runs
from noisyfl.claims.catalogue import all_claims
from noisyfl.claims.judgement import Judgement, examine
from noisyfl.claims.leads import leads
from noisyfl.claims.sources import published, read_rows
from noisyfl.commands.scales import read_plan
from noisyfl.core.options import BadInput
from noisyfl.core.places import ROOT
from noisyfl.experiments.config import PUBLISHED
from noisyfl.pages.evidence import evidence_pages, read_reasons, write_evidence
from noisyfl.pages.evidence_paths import PAGES
from noisyfl.specs.published import KEY, PAPERS, read_published
from small_tables import HIGH, LOW, content, table_in

CELLS = """\
paper,row,column,dataset,metric,value,unit,converged,shown_in,ours,ours_starred,headroom
rofl,A,pair,mnist,test_accuracy,0.9,fraction,,rofl/table6,80.0,False,29.6
rofl,B,pair,mnist,test_accuracy,0.8,fraction,false,rofl/table6,85.04,True,29.6
rofl,C,pair,mnist,test_accuracy,0.7,fraction,,rofl/table6,60.0,False,
rofl,D,pair,mnist,test_accuracy,0.6,fraction,,rofl/table6,50.0,False,
rofl,E,pair,mnist,test_accuracy,0.5,fraction,,rofl/table6,,,
rofl,A,symmetric,mnist,test_accuracy,0.9,fraction,,rofl/table6,80.0,False,
rofl,B,symmetric,mnist,test_accuracy,0.8,fraction,,rofl/table6,,,
rofl,C,symmetric,mnist,test_accuracy,0.7,fraction,,rofl/table6,,,
fedrn,A,pair,mnist,test_accuracy,90.0,percent,,fedrn/table2,,,
fedrn,B,pair,mnist,test_accuracy,90.0,percent,,,,,
"""


def with_labels(cells):
    """Rows with the columns that they lack, of runs of the first method over FedAvg."""
    header, *rows = cells.splitlines()
    more = {"table": "table6", "setting_scope": "federated", "partition": "iid"}
    more |= {"variant": "", "ours_std": "2", "ours_trials": "3", "ours_as_published": "False"}
    methods = {"A": "rofl", "B": "fedavg"}
    lines = [",".join([header, "method", "noise", *more])]
    for row in rows:
        _, name, noise, *_ = row.split(",")
        lines.append(",".join([row, methods.get(name, name), noise, *more.values()]))
    return "\n".join([*lines, ""])


@pytest.fixture
def runs(runs):
    """Whose rounds have what every run records."""
    add = runs.add

    def whole(accuracies, columns=None, **given):
        size = len(accuracies)
        always = {"participants_noise_level": [0.4] * size, "samples_backward": [100.0] * size}
        always |= {"participants": [1] * size, "label_accuracy": [0.6] * size}
        return add(accuracies, columns={**always, **(columns or {})}, **given)

    runs.add = whole
    return runs


@pytest.fixture
def table(runs, tmp_path):
    return table_in(tmp_path, runs)


def described(table):
    return content(table).description


def evidence_page(description, runs, judged=()):
    """All pages in one."""
    pages = evidence_pages(description, runs, judged, [], [], [], {}, {})
    assert tuple(pages) == PAGES
    assert not [name for name, text in pages.items() if "\n\n\n" in text or "\nWhy" in text]
    return "\n".join(pages.values())


def test_a_method_is_held_against_fedavg_setting_by_setting(table, runs):
    description = described(table)
    page = evidence_page(description, read_runs(runs.files))
    # Means of all evaluations, of which there are fewer than ten: 66.7 % and 55 % for FedAvg.
    assert f"| {LOW} | 3 | 66.7 | 80.0," in page
    assert "| Setting | Trials | Accuracy | Best, after rounds |\n|---|---|---|---|" in page
    assert (
        "w/o mixup is better than FedAvg in 1 of 2 settings (significantly better in 0, "
        "significantly worse in 1): +3.3 points on level=low, -30.0 on level=high." in page
    )
    assert f"| {HIGH} | 3 | 25.0 | 55.0 | 40.0," in page
    assert f"| Method | {LOW} | {HIGH} |" in page
    assert "| w/o mixup | **70.0** | 25.0 |" in page
    assert "| level=low | 66.7 ± 6.7 |  | 8.2 | 0 | 0 |" in page
    assert "| level=high | 55.0 ± 0.0 |  | 5.0 | 0 | 1 |" in page
    assert "than FedAvg in each of these settings: none. In none: w/o mixup." in page
    assert "Of the 12 runs of every method in 2 settings, 12 exist." in page


def test_claims_are_decided_begun_or_without_numbers(table, runs):
    """Only one of the noises of RoFL's Table 1 is known, which claim 4 compares with others."""
    known = {
        tuple(row.fields[name] for name in KEY)
        for row in read_published(PUBLISHED)
        if row.fields["paper"] == "rofl" and "eps=0.4" in row.fields["noise"]
    }
    numbers = read_published(PUBLISHED)
    papers, some = published(numbers), published(numbers, known)
    judged = [
        Judgement(claim, examine(claim, papers), examine(claim, some))
        for claim in (all_claims()[name] for name in ("rofl-01", "rofl-04", "rofl-06"))
    ]
    page = evidence_page(described(table), read_runs(runs.files), judged)
    assert "| rofl-06 |" in page
    assert "| rofl-01 |" not in page
    assert "| `rofl-01` | Analysis, CIFAR-10; Table 1 |" in page
    row = r"^\| \[RoFL\]\(evidence/rofl.md\) \| .* \| 1 supported, 2 undecided \|$"
    assert re.search(row, page, re.M)
    assert "cannot decide, rofl-01 have some of their comparisons, and the others none" in page


def test_a_row_without_runs_is_named(table, runs):
    table.description["runs"][1] = [[], []]
    table.description |= {"missing": 6}
    page = evidence_page(described(table), read_runs(runs.files))
    assert "Not run yet: w/o mixup." in page
    assert "## w/o mixup" not in page
    assert "6 exist" in page


def test_of_a_column_that_is_not_whole_nothing_is_best(table, runs):
    table.description["runs"][1][1] = []
    table.description |= {"missing": 3}
    page = evidence_page(described(table), read_runs(runs.files))
    assert "| FedAvg | 66.7 | 55.0 |" in page
    assert "| w/o mixup | **70.0** | – |" in page


def test_a_row_that_is_not_ranked_is_not_the_best(table, runs):
    table.description["rows"][1]["ranked"] = False
    page = evidence_page(described(table), read_runs(runs.files))
    assert "| FedAvg | **66.7** | **55.0** |" in page
    assert "| w/o mixup | 70.0 | 25.0 |" in page


def diverge(runs, run):
    """Let a run that was read have diverged."""
    made = runs[run].provenance.model_copy(update={"status": "diverged"})
    runs[run] = dataclasses.replace(runs[run], provenance=made)


@pytest.mark.parametrize("trials", [1, 3])
def test_a_cell_of_which_a_trial_diverged_is_not_called_missing(table, runs, trials):
    found = read_runs(runs.files)
    for run in described(table).runs[1][1][:trials]:
        diverge(found, run)
    page = evidence_page(described(table), found)
    assert "| FedAvg | 66.7 | **55.0** |" in page
    assert "| w/o mixup | **70.0** | diverged |" in page


def test_a_column_of_which_most_is_missing_stands_with_its_methods_alone(table, runs):
    description = described(table)
    fedavg, other = description.rows
    whole, part = description.runs
    first, second = description.cells
    few = dataclasses.replace(
        description, rows=(fedavg, other, other), cells=(first, second, second)
    ).with_runs((whole, (part[0], ()), (part[0], ())))
    page = evidence_page(few, read_runs(runs.files))
    assert f"| Method | {LOW} |\n" in page


def test_what_people_wrote_stands_under_its_heading(table, runs, tmp_path):
    cells, reasons = tmp_path / "cells.csv", tmp_path / "reasons"
    cells.write_text(with_labels(CELLS))
    reasons.mkdir()
    (reasons / "rofl.yaml").write_text(
        "claims: [{guess: few rounds.}]\ntables:\n"
        "  rofl_table6: [{guess: small.}, {tested: twice.}]\n  no_table: [{guess: no.}]\n"
    )
    (reasons / "methods.yaml").write_text(
        "FedAvg:\n  - guess: >-\n      it forgets\n      what it learned.\n"
        "No row: [{guess: not printed.}]\n"
    )
    (tmp_path / "evidence").mkdir()
    runs_of = read_runs(runs.files)
    write_evidence(tmp_path, described(table), runs_of, [], cells, [], [], reasons)
    heading, found = "", {}
    for name in PAGES:
        lines = (tmp_path / name).read_text().split("\n")
        for before, line in pairwise(lines):
            heading = f"{name}: {line.lstrip('# ')}" if line.startswith("#") else heading
            if line.startswith("Why"):
                assert before == ""
                found.setdefault(heading, []).append(line)
    assert found == {
        "evidence/rofl.md: Claims": ["Why (guess): few rounds."],
        "evidence/rofl.md: `rofl_table6`": ["Why (guess): small.", "Why (tested): twice."],
        "evidence/methods.md: FedAvg": ["Why (guess): it forgets what it learned."],
    }
    first = (tmp_path / "evidence.md").read_text()
    assert "| [`rofl_table6`](evidence/rofl.md#rofl_table6) | pair | 0.80 | 4 |" in first


@pytest.mark.parametrize(
    ("file", "text", "expected"),
    [
        ("methods", "FedAvg: it forgets", r"methods\.FedAvg: Input should be a valid list"),
        ("methods", "FedAvg: [{}]", r"methods\.FedAvg\[0\]: .*expected either tested or guess"),
        ("rofl", "claims: [{tested: a, guess: b}]", r"claims\[0\]: .*expected either tested or"),
        ("rofl", "claim: [a]", "unknown key 'claim'; did you mean 'claims'"),
    ],
)
def test_reasons_that_are_no_paragraphs_are_refused(file, text, expected, tmp_path):
    (tmp_path / f"{file}.yaml").write_text(text)
    with pytest.raises(BadInput, match=rf"{file}\.yaml: {expected}"):
        read_reasons(tmp_path)


def test_cells_of_the_papers_own_size_stand_first(table, runs):
    # FedAvg's cell of the first column has a published number and the paper's setting.
    table.description["as_published"] = [[True, False], [False, False]]
    found, runs_of = content(table).description, read_runs(runs.files)
    own = list(own_size(found, runs_of))
    (cell,) = own
    assert (cell.row, cell.column, cell.seeds) == ("FedAvg", LOW, (1, 2, 3))
    page = evidence_pages(found, runs_of, [], [], [], own, {}, {})["evidence.md"]
    (line,) = re.findall(r"^\| p \|.*", page, re.MULTILINE)
    hours = f"{cell.hours:.1f}, {'; '.join(cell.machines)}"
    numbers = "93.1 | 80.0 | -13.1 | not supported | 80.0 (2 and 2 and 2), 66.7 | 1 and 2 and 3"
    assert line == f"| p | `p_t1`, {LOW} | FedAvg | {numbers} | {hours} |"
    summaries, shown = cell.cell.summaries, cell.cell.statistic
    summaries[shown] = dataclasses.replace(summaries[shown], starred=True)
    maximum = evidence_pages(found, runs_of, [], [], [], own, {}, {})["evidence.md"]
    assert "| 93.1 | 80.0\\* | -13.1 |" in maximum
    assert page.index("## Paper-scale runs") < page.index("## The papers' claims")
    assert "own size" not in evidence_page(found, runs_of)


@pytest.mark.parametrize("diverged", [False, True])
def test_a_trial_without_a_value_or_that_diverged_has_no_best_round(table, runs, diverged):
    table.description["as_published"] = [[True, False], [False, False]]
    found, runs_of = content(table).description, read_runs(runs.files)
    for run in list(runs_of.values()):
        if run.spec["seed"] == 1:
            if diverged:
                diverge(runs_of, run.id)
            else:
                run.all_rounds["test_accuracy"] *= float("nan")
    (cell,) = own_size(found, runs_of)
    assert cell.best_rounds == (2, 2)
    assert cell.seeds == (1, 2, 3)
    assert cell.hours == pytest.approx(300 / 3600)  # of all three


def test_each_papers_lead_over_fedavg_is_beside_ours(table, runs, tmp_path):
    cells = tmp_path / "cells.csv"
    cells.write_text(with_labels(CELLS))
    runs_of = read_runs(runs.files)
    pages = evidence_pages(described(table), runs_of, [], [], leads(read_rows(cells)), [], {}, {})
    text = pages["evidence.md"]
    # In the only column with both methods, A, which is RoFL, has 80 and B, FedAvg, 85.04. Trials
    # vary by 2 points in each of the column's five methods of three trials: ten degrees of freedom.
    error = 2.228 * 2 * (2 / 3) ** 0.5
    lead = f"| RoFL | MNIST, pair | +10.0\\* | -5.0 ± {error:.1f} (3 seeds) | +29.6 | reduced |"
    assert f"{lead} not supported |" in text
    assert "None of these is at paper scale." in text
    for changed, verdict in (
        (CELLS.replace("85.04", "70.0"), "supported"),
        (CELLS.replace("85.04", "83.2"), "undecided"),
        (CELLS.replace("29.6", "3.9"), "undecided"),  # two deviations are four points
    ):
        cells.write_text(with_labels(changed))
        (one,) = leads(read_rows(cells))
        assert one.verdict == verdict


def test_a_lead_of_a_papers_own_size_is_told_with_the_deviation_of_smaller_trials(tmp_path):
    cells = tmp_path / "cells.csv"
    cells.write_text(with_labels(CELLS))
    smaller = read_rows(cells)
    one_trial = {"ours_as_published": "True", "ours_std": "", "ours_trials": "1"}
    own = [{**row, **one_trial, "column": "own", "ours": row["ours"] and "80"} for row in smaller]
    own[0]["ours"] = "90"
    (alone,) = leads(own)
    assert math.isnan(alone.error)
    assert alone.verdict == "undecided"
    (lead,) = leads(own, smaller)
    assert (lead.ours, lead.as_published, lead.verdict) == (10, True, "supported")
    # Ten cells of MNIST have three trials each: twenty degrees of freedom.
    assert lead.error == pytest.approx(2.086 * 2 * 2**0.5, rel=1e-3)


def test_of_variants_that_count_is_the_one_that_the_paper_prints_most_for(tmp_path):
    """Its deviation is its own where that is larger, and all is of the paper's size if both are."""
    cells = tmp_path / "cells.csv"
    cells.write_text(with_labels(CELLS))
    rows = [row for row in read_rows(cells) if row["column"] == "pair" and row["ours"]]
    own, level = rows[:2]
    variant = {**own, "row": "A2", "variant": "v", "value": "0.85", "ours": "99", "headroom": "5"}
    (lead,) = leads([variant, own, level])
    assert (lead.published, lead.ours) == (pytest.approx(10), pytest.approx(80 - 85.04))
    assert lead.headroom.points == 29.6
    (far,) = leads([{**own, "ours_std": "9"}, level])
    (near,) = leads([{**own, "ours_std": "0.1"}, level])
    assert far.error > 2 * near.error
    (one,) = leads([{**own, "ours_as_published": "True"}, {**level, "ours_as_published": "False"}])
    assert not one.as_published


@pytest.mark.slow
def test_every_reason_is_of_what_the_desk_scale_can_print():
    plan = read_plan(ROOT / "config" / "desk.yaml")
    papers, methods = read_reasons(ROOT / "reproduced" / "reasons")
    assert set(methods) <= {row.name for row in plan.tables["grand/common"].rows}
    assert set(papers) == set(PAPERS)
    tables = {name.replace("/", "_") for name in plan.tables}
    assert {table for reasons in papers.values() for table in reasons.tables} <= tables


def test_tables_of_the_same_methods_are_one(table, runs):
    first = described(table)
    other = dataclasses.replace(
        first, columns=tuple(dataclasses.replace(c, name=f"again {c.name}") for c in first.columns)
    )
    joined = first.with_columns_of(dataclasses.replace(other, missing=2))
    assert (joined.missing, joined.published) == (2, None)
    assert [len(line) for line in joined.cells] == [4] * 2
    page = evidence_page(joined, read_runs(runs.files))
    assert f"| Method | {LOW} | {HIGH} | again {LOW} | again {HIGH} |" in page
    assert "w/o mixup is better than FedAvg in 2 of 4 settings" in page
    # A row that one of them lacks has no runs in its columns.
    fewer = dataclasses.replace(other, rows=other.rows[:1], cells=other.cells[:1])
    assert first.with_columns_of(fewer).runs == (joined.runs[0], (*first.runs[1], (), ()))
    assert fewer.with_columns_of(first).runs == (joined.runs[0], ((), (), *first.runs[1]))


def test_a_method_that_equals_fedavg_is_said_to(table, runs):
    description = described(table)
    same = description.with_runs((description.runs[0], description.runs[0]))
    page = evidence_page(same, read_runs(runs.files))
    assert "w/o mixup equals FedAvg to the last digit, in each of 2 settings." in page


def test_methods_are_compared_over_the_seeds_that_they_share(table, runs):
    (low, high), (other, _) = described(table).runs
    fewer = described(table).with_runs(((low, high), (other[1:], ())))
    page = evidence_page(fewer, read_runs(runs.files))
    # FedAvg has 66.7, 60 and 73.3 % on seeds 1 to 3, and the other method 72.5 and 70 % on 2 and 3.
    assert "w/o mixup is better than FedAvg in 1 of 1 settings" in page
    assert "+4.6 points on level=low." in page
    assert f"| {LOW} | 2 | 71.2 | 66.7 |" in page
    assert "| level=low | 66.7 ± 6.7 |  | 11.2 | 0 | 0 |" in page
    assert "| FedAvg | 66.7 | **55.0** |" not in page
    assert "| FedAvg | 66.7 | 55.0 |" in page
    assert "| w/o mixup | **71.2** | – |" in page


def test_methods_that_are_clearly_ahead_in_the_most_settings_are_named(table, runs):
    for seed, reached in ((1, 0.7), (2, 0.71), (3, 0.72)):
        table.description["runs"][1][1][seed - 1] = runs.add(
            [reached, reached], method='fedcorr(variant="without_mixup")', seed=seed
        )
    table.description["runs"][1][0] = list(table.description["runs"][1][1])
    page = evidence_page(described(table), read_runs(runs.files))
    ahead = (
        "Significantly better than FedAvg in 1 of these 2 settings, and no method in more: "
        "w/o mixup. In none:"
    )
    assert f"{ahead} none." in page
    table.description["runs"] = [[cell[1]] * 2 for cell in table.description["runs"]]
    page = evidence_page(described(table), read_runs(runs.files))
    assert "than FedAvg in each of these settings: w/o mixup. In none: none." in page


def test_of_a_single_trial_nothing_is_clear(table, runs):
    description = described(table)
    single = tuple(tuple(cell[:1] for cell in row) for row in description.runs)
    page = evidence_page(description.with_runs(single), read_runs(runs.files))
    assert "significantly worse in 0): +0.8 points" in page
    assert "±" not in page


def test_trials_that_agree_by_chance_do_not_make_a_difference_clear(table, runs):
    """How far differences vary is learned from all methods of a setting."""
    description = described(table)
    fedavg, other = description.rows
    base, _ = description.runs

    def trials(method, *reached):  # where FedAvg has 0.55, whatever the seed
        return tuple(
            runs.add([each, each], method=method, seed=seed) for seed, each in enumerate(reached, 1)
        )

    def page(*others):
        three = dataclasses.replace(
            description,
            rows=(fedavg, *(dataclasses.replace(other, name=name) for name in "AB")),
            cells=(*description.cells, description.cells[1]),
        ).with_runs(((base[1], ()), *((row, ()) for row in others)))
        return evidence_page(three, read_runs(runs.files))

    steady = trials("fedprox", 0.60, 0.601, 0.599)
    found = page(steady, trials("krum", 0.75, 0.45, 0.60))
    assert "| level=low | 55.0 ± 0.0 |  | 10.6 | 0 | 0 |" in found
    assert "A is better than FedAvg in 1 of 1 settings (significantly better in 0," in found
    found = page(steady, trials("median", 0.60, 0.599, 0.601))
    assert "| level=low | 55.0 ± 0.0 |  | 0.1 | 2 | 0 |" in found
