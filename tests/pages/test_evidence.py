"""The pages of evidence: claims, papers' tables, leads, and what people wrote there."""

import csv
import dataclasses
import io
import math
import re
from itertools import pairwise

import pandas as pd
import pytest
from test_methods import diverge

from made_up_trials import A, B, times, trials
from noisyfl.analysis.own_size import own_size
from noisyfl.analysis.runs import read_runs
from noisyfl.analysis.summaries import OF_ACCURACY
from noisyfl.claims.catalogue import CLAIMS
from noisyfl.claims.findings import Case, Check, Finding
from noisyfl.claims.judgement import Judgement, examine
from noisyfl.claims.leads import in_statistic, leads
from noisyfl.claims.our_cells import read_rows
from noisyfl.claims.sources import published
from noisyfl.core.options import BadInput
from noisyfl.core.places import ROOT
from noisyfl.experiments.config import PUBLISHED
from noisyfl.experiments.plan_file import read_plan
from noisyfl.pages.evidence import evidence_pages, write_evidence
from noisyfl.pages.evidence_paths import PAGES
from noisyfl.pages.explanations import Why, read_reasons
from noisyfl.pages.paper_tables import paper_tables
from noisyfl.specs.published import KEY, PAPERS, read_published
from small_tables import LOW, content, table_in

CELLS = """\
paper,row,column,dataset,metric,value,unit,converged,shown_in,ours,ours_starred,headroom
rofl,A,pair,mnist,test_accuracy,90,percent,,rofl/table6,80.0,False,29.6
rofl,B,pair,mnist,test_accuracy,80,percent,false,rofl/table6,85.04,True,29.6
rofl,C,pair,mnist,test_accuracy,70,percent,,rofl/table6,60.0,False,
rofl,D,pair,mnist,test_accuracy,60,percent,,rofl/table6,50.0,False,
rofl,E,pair,mnist,test_accuracy,50,percent,,rofl/table6,,,
rofl,A,symmetric,mnist,test_accuracy,90,percent,,rofl/table6,80.0,False,
rofl,B,symmetric,mnist,test_accuracy,80,percent,,rofl/table6,,,
rofl,C,symmetric,mnist,test_accuracy,70,percent,,rofl/table6,,,
fedrn,A,pair,mnist,test_accuracy,90.0,percent,,fedrn/table2,,,
fedrn,B,pair,mnist,test_accuracy,90.0,percent,,,,,
"""


_APART = times(2, A, B, [-one for one in A], [-one for one in B])
APART = dict(zip(("A", "B", "C", "D", "oracle"), [*_APART, _APART[-1]], strict=True))
"""How far three trials of each method lie from their mean: by two points on average, and by nothing
that methods have in common. In a column of four their variance is 32 / 6, with six degrees of
freedom."""

ERROR = 2.447 * (32 / 6) ** 0.5 * 2**0.5
"""Half the width of the interval of a lead over FedAvg in a single seed."""


def with_labels(cells, apart=APART):
    """Rows with the columns that they lack, of runs of the first method over FedAvg."""
    rows = list(csv.DictReader(io.StringIO(cells)))
    more = {"table": "table6", "setting_scope": "federated", "partition": "iid", "variant": ""}
    methods = {"A": "rofl", "B": "fedavg"}
    for row in rows:
        row |= {**more, "method": methods.get(row["row"], row["row"]), "noise": row["column"]}
        row |= {**trials(row["ours"], apart.get(row["row"], A)), "ours_as_published": "False"}
        row["runs"] = f"{row['row']}{row['column']}"
        row |= {"ours_start": row["column"], "ours_method": row["method"]}
        row |= {"ours_statistic": "best", "ours_best": row["ours_values"]}
        row |= dict.fromkeys(("ours_last", "ours_mean_last_10"), row["ours_values"])
    return pd.DataFrame(rows).to_csv(index=False)


def write_rows(cells, rows):
    """Write rows as the file of published numbers with ours."""
    pd.DataFrame(rows).to_csv(cells, index=False)


@pytest.fixture
def table(runs, tmp_path):
    return table_in(tmp_path, runs)


def test_claims_are_decided_begun_or_without_numbers():
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
        for claim in (CLAIMS[name] for name in ("rofl-01", "rofl-04", "rofl-06"))
    ]
    pages = evidence_pages("desk", judged, [], [], [], {})
    assert tuple(pages) == PAGES
    assert not [name for name, text in pages.items() if "\n\n\n" in text or "\nWhy" in text]
    page = "\n".join(pages.values())
    assert "| rofl-06 |" in page
    assert "| undecided: 3 of 3 (9 not run) |" in page
    assert "| rofl-04 |" not in page
    assert "| `rofl-01` | Analysis, CIFAR-10; Table 1 |" in page
    row = r"^\| \[RoFL\]\(evidence/rofl.md\) \| .* \| 1 supported, 2 undecided \|$"
    assert re.search(row, page, re.M)
    assert "The verdicts on the papers' 3 claims: 1 supported, 2 undecided." in page
    assert "in 0 of them, every comparison that is decided fails." in page
    assert "on the other claims ([list](claims.md#rofl)): rofl-04.\n" in page


def test_an_undecided_claim_of_which_all_that_is_decided_fails_is_named():
    claim = CLAIMS["rofl-01"]
    paper = examine(claim, published(read_published(PUBLISHED)))
    cases = Case("", "1 > 2", -1.0, holds=False), *[Case("", "", math.nan, None)] * 2
    failed = Check("so", cases)
    page = evidence_pages("desk", [Judgement(claim, paper, Finding((failed,)))], [], [], [], {})
    first = page["evidence.md"]
    assert "in 1 of them, every comparison that is decided fails." in first
    assert "Undecided, but every comparison that is decided fails: rofl-01." in first


def test_what_people_wrote_stands_under_its_heading(tmp_path):
    cells, reasons = tmp_path / "cells.csv", tmp_path / "reasons"
    cells.write_text(with_labels(CELLS))
    reasons.mkdir()
    (reasons / "rofl.yaml").write_text(
        "claims: [{guess: few rounds.}]\ntables:\n"
        "  rofl_table6: [{guess: small.}, {tested: twice.}]\n  no_table: [{guess: no.}]\n"
    )
    (reasons / "methods.yaml").write_text("FedAvg:\n  - guess: >-\n      it\n      forgets.\n")
    (tmp_path / "evidence").mkdir()
    write_evidence(tmp_path, "desk", [], cells, [], [], reasons.iterdir())
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
    }
    _, methods = read_reasons(reasons.iterdir())
    assert methods == {"FedAvg": [Why(guess="it forgets.")]}
    first = (tmp_path / "evidence.md").read_text()
    assert "| 0 | 0 | 1 | 0.80 |\n" in first
    assert "| RoFL | -5.0 (0/0/1) | -5.0 (0/0/1) | -5.0 (0/0/1) | -5.0 (0/0/1) |\n" in first
    shown = "| *Rank correlation* | 0.80 (0.80 to 0.80) |"
    assert shown in (tmp_path / "evidence" / "rofl.md").read_text()
    # At a scale that has the paper-scale runs itself, their leads count once.
    rows = [{**row, "ours_as_published": "True"} for row in read_rows(cells)]
    write_evidence(tmp_path, "own_size", [], cells, [], rows, [])
    assert "of 1 comparisons" in (tmp_path / "evidence.md").read_text()


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
        read_reasons(tmp_path.iterdir())


def test_cells_of_the_papers_own_size_stand_first(table, runs):
    # FedAvg's cell of the first column has a published number and the paper's setting.
    table.description["as_published"] = [[True, False], [False, False]]
    found, runs_of = content(table).description, read_runs(runs.files)
    own = list(own_size(found, runs_of))
    (cell,) = own
    assert (cell.row, cell.column, cell.seeds) == ("FedAvg", LOW, (1, 2, 3))
    page = evidence_pages("desk", [], [], [], own, {})["evidence.md"]
    (line,) = re.findall(r"^\| p \|.*", page, re.MULTILINE)
    numbers = "93.1 | 80.0 | -13.1 | not supported | 80.0 (2 and 2 and 2), 75.0 | 1 and 2 and 3"
    (device,) = cell.devices  # of all three
    assert line == f"| p | `p_t1`, {LOW} | FedAvg | {numbers}, {cell.hours:.1f} h, {device} |"
    summaries, shown = cell.cell.summaries, cell.cell.statistic
    summaries[shown] = dataclasses.replace(summaries[shown], starred=True)
    maximum = evidence_pages("desk", [], [], [], own, {})["evidence.md"]
    assert "| 93.1 | 80.0\\* | -13.1 |" in maximum
    assert page.index("## Paper-scale runs") < page.index("## The papers' claims")
    assert "Paper-scale" not in evidence_pages("desk", [], [], [], [], {})["evidence.md"]


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


def test_each_papers_lead_over_fedavg_is_beside_ours(tmp_path):
    cells = tmp_path / "cells.csv"
    cells.write_text(with_labels(CELLS))
    found = leads(read_rows(cells))
    page = evidence_pages("desk", [], paper_tables(cells, found), found, [], {})
    # In the only column with both methods, A, which is RoFL, has 80 and B, FedAvg, 85.04.
    error = ERROR / 3**0.5
    lead = f"| *Lead of RoFL over FedAvg* | *+10.0\\**<br>**-5.0\\* ± {error:.1f}** |\n"
    assert lead in page["evidence/rofl.md"]
    both = "| +10.0\\* | -5.0\\* | 0 | 0 | 1 | 0.80 |"
    assert f"| RoFL | `desk` | 1 {both}\n" in page["evidence.md"]
    assert "of 1 comparisons" in page["evidence.md"]
    for changed, verdict in (
        (CELLS.replace("85.04", "70.0"), "supported"),
        (CELLS.replace("85.04", "83.2"), "undecided"),
        (CELLS.replace("29.6", "6.5"), "undecided"),  # two deviations of a lead are 6.53 points
        (CELLS.replace("29.6", "6.6"), "not supported"),
    ):
        cells.write_text(with_labels(changed))
        (one,) = leads(read_rows(cells))
        assert one.verdict == verdict


def test_a_lead_in_another_statistic_is_that_of_the_same_trials(tmp_path):
    rows = list(csv.DictReader(io.StringIO(with_labels(CELLS))))
    last = {"A": "90 91 92", "B": "80 80 80"}
    for row in rows:
        if row["ours"] and row["column"] == "pair":
            row["ours_last"] = last.get(row["row"], row["ours_last"])
    write_rows(tmp_path / "cells.csv", rows)
    found = read_rows(tmp_path / "cells.csv")
    (own,), (best,), (other,) = (leads(in_statistic(found, name)) for name in OF_ACCURACY)
    assert (other.ours, other.seeds, other.statistic) == (own.ours, 3, "mean_last_10")
    assert (best.ours, best.statistic, best.ours_starred) == (11.0, "last", False)
    assert own.ours == leads(found)[0].ours


def test_a_lead_is_shown_of_a_column_that_is_hardly_run_with_its_seeds_and_its_variant(tmp_path):
    rows = list(csv.DictReader(io.StringIO(with_labels(CELLS))))
    for row in rows:
        if row["column"] == "symmetric":
            row |= {"ours": "", "ours_values": "", "ours_seeds": "", "runs": ""}
    first, level, other = rows[0], rows[1], rows[2]
    more = [
        {**first, "column": "few", "row": "A, twice", "runs": "v", **trials("80.0")},
        {**level, "column": "few", "runs": "w", **trials("70.0")},
        *(
            {**other, "column": "few", "row": f"X{n}", "method": f"X{n}", **trials("")}
            for n in range(5)
        ),
    ]
    for row in more:
        row |= {"ours_start": "few", "noise": "few"}
    # One row has the first seed alone, over which the page then shows all rows.
    seed = {"ours_seeds": "1", "ours_values": "60.0"}
    rows = [{**row, **seed} if row is other else row for row in rows]
    cells = tmp_path / "cells.csv"
    write_rows(cells, [*rows, *more])
    found = leads(read_rows(cells))
    (table,) = paper_tables(cells, found)
    assert table.columns == ("pair", "few")
    names = [row[0] for row in table.rows]
    assert "X1" in names
    ((_, _, shown),) = table.parts
    assert [row[0] for row in shown][:5] == ["A", "B", "C", "D", "A, twice"]
    (lead,) = [row for row in shown if row[0].startswith("*Lead")]
    assert lead[1].endswith("<br>A<br>(3 seeds)")
    assert lead[2].endswith("<br>A, twice")
    assert [one.column for one in table.correlations] == ["pair"]


@pytest.mark.parametrize(
    ("changed", "counts"),
    [({}, True), ({"ours_method": "rofl"}, False), ({"table": "table1"}, False)],
)
def test_a_correlation_counts_if_it_compares_methods_in_a_table_of_the_paper(
    changed, counts, tmp_path
):
    rows = list(csv.DictReader(io.StringIO(with_labels(CELLS))))
    rows[2] |= changed
    cells = tmp_path / "cells.csv"
    write_rows(cells, rows)
    (table,) = paper_tables(cells, leads(rows))
    assert [one.compares_methods for one in table.correlations] == [counts]


def test_a_lead_of_a_papers_own_size_is_told_with_the_deviation_of_smaller_trials(tmp_path):
    cells = tmp_path / "cells.csv"
    cells.write_text(with_labels(CELLS))
    smaller = read_rows(cells)
    own = [
        {
            **{**row, **trials(row["ours"] and "80"), "column": "own"},
            **{"runs": f"own {row['runs']}", "ours_as_published": "True"},
        }
        for row in smaller
    ]
    own[0] |= trials("90")
    (alone,) = leads(own)
    assert math.isnan(alone.error)
    assert alone.verdict == "undecided"
    (lead,) = leads(own, smaller)
    assert (lead.ours, lead.as_published, lead.verdict) == (10, True, "supported")
    assert lead.error == pytest.approx(ERROR, rel=1e-3)
    others = [dataclasses.replace(lead, as_published=False, ours=ours) for ours in (0.0, 8.0)]
    first = evidence_pages("desk", [], [], [*others, lead], [], {})["evidence.md"]
    rows = [line for line in first.split("\n") if line.startswith("| RoFL")]
    assert rows == [
        "| RoFL | the paper's | 1 | +10.0\\* | +10.0\\* | 1 | 0 | 0 |  |",
        "| RoFL | `desk` | 2 | +10.0\\* | +4.0\\* (+0.0 to +8.0) | 1 | 1 | 0 |  |",
    ]


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
    far_apart = times(9, A)[0]
    (far,), (near,) = (leads([{**own, **trials(80, apart)}, level]) for apart in (far_apart, A))
    assert far.error > 2 * near.error
    (one,) = leads([{**own, "ours_as_published": "True"}, {**level, "ours_as_published": "False"}])
    assert not one.as_published
    mine = [{**row, "paper": "mine"} for row in ({**own, "method": "mine"}, level)]
    assert leads([*mine, own, level]) == leads([own, level])


def test_a_lead_of_the_same_runs_in_two_tables_is_told_once(tmp_path):
    cells = tmp_path / "cells.csv"
    cells.write_text(with_labels(CELLS))
    rows = read_rows(cells)
    other = [{**row, "shown_in": "rofl/table5"} for row in rows]
    (lead,) = leads([*rows, *other])
    assert lead.table == "rofl_table5"
    assert len(leads([*rows, *({**row, "runs": f"{row['row']}2"} for row in other)])) == 2


@pytest.mark.slow
@pytest.mark.parametrize(
    "folder", sorted((ROOT / "reproduced" / "reasons").iterdir()), ids=lambda folder: folder.name
)
def test_every_reason_is_of_what_its_scale_can_print(folder):
    _, plan = read_plan([ROOT / "config" / f"{folder.name}.yaml"])
    papers, methods = read_reasons(folder.iterdir())
    common = plan.tables.get("grand/common")
    assert set(methods) <= ({row.name for row in common.rows} if common else set())
    assert set(papers) <= set(PAPERS)
    tables = {name.replace("/", "_") for name in plan.tables}
    assert {table for reasons in papers.values() for table in reasons.tables} <= tables


def test_a_papers_page_begins_with_what_its_numbers_say(tmp_path):
    cells = tmp_path / "cells.csv"
    cells.write_text(with_labels(CELLS))
    found = leads(read_rows(cells))
    judgements = [
        Judgement(claim, Finding(()), Finding((Check("", (Case("", "", 1.0, True),)),)))
        for name, claim in CLAIMS.items()
        if name.startswith("rofl-0")
    ]

    def first(leads):
        tables = paper_tables(cells, leads)
        page = evidence_pages("desk", judgements, tables, leads, [], {}, read_rows(cells))
        return re.findall(r"^In short: (.*)", page["evidence/rofl.md"], re.MULTILINE)[0]

    assert first(found) == (
        "RoFL is significantly better than FedAvg in 0 of 1 column, and significantly worse in 1. "
        "The lead is -5.0 points, in the paper +10.0. Its claims: 9 supported. "
        "The rank correlation of our numbers with the paper's: 0.80 in 1 column that compares "
        "methods, 0.80 in the median. 5 of 8 published numbers have one of ours next to them."
    )
    (lead,) = found
    more = [*found, dataclasses.replace(lead, ours=20.0, error=1.0)]
    assert "worse in 1. The lead is -5.0 to +20.0 points" in first(more)
    assert first([]).startswith("Its claims: 9 supported. The rank")
