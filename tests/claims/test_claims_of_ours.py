"""Our numbers are judged as the papers' own, and the page shows both."""

import csv
import re
from collections import Counter

import pytest

from made_up_trials import trials
from noisyfl.analysis.published_cells import OURS
from noisyfl.claims.artifacts import Artifacts
from noisyfl.claims.catalogue import CLAIMS
from noisyfl.claims.declaration import check
from noisyfl.claims.judgement import examine, judge, read_judgements
from noisyfl.claims.numbers import Numbers
from noisyfl.claims.query import Query
from noisyfl.claims.sources import our_side, published
from noisyfl.experiments.config import PUBLISHED
from noisyfl.pages.claims import write_claims
from noisyfl.specs.published import read_published


@pytest.fixture
def cells_file(tmp_path):
    """Our cells, which are the published ones but for two that were not run."""
    path = tmp_path / "cells.csv"
    with PUBLISHED.open(newline="") as file, path.open("w", newline="") as out:
        rows = list(csv.DictReader(file))
        writer = csv.DictWriter(out, [*rows[0], *OURS])
        writer.writeheader()
        for n, row in enumerate(rows):
            value = float(row["value"]) * (100 if row["unit"] == "fraction" else 1)
            ours = value if n > 1 else ""
            # Trials are all alike, so that numbers are as sure as printed ones.
            found = {**trials(ours, (0,) * (1 + n % 2)), "ours_as_published": n != 5}
            start = f"{row['dataset']}, {row['partition']}, {row['noise']}"
            writer.writerow({**row, **found, "runs": n, "ours_start": start})
    return path


def sides(file):
    printed = published(read_published(PUBLISHED))
    return printed, our_side(file, Artifacts({}, {}, {}).sources())


@pytest.mark.slow
def test_the_page(tmp_path, cells_file):
    html, file = tmp_path / "claims.html", tmp_path / "claims.json"
    tables = {"fedcni/table1": "tables/fedcni/table1.html"}
    judged = judge(*sides(cells_file))
    write_claims(judged, cells_file, "small", tables, html=html, json=file)
    assert repr(read_judgements(file)) == repr(judged)
    page = html.read_text()
    assert "Scale “small”" in page
    tallies = '<th scope="row">FedRN</th><td>7 supported, 3 partly supported, 3 undecided</td>'
    assert tallies in page
    assert "1 of our 1376 numbers were not made in the papers&#39; settings" in page
    assert "688 of our 1376 numbers are of a single trial" in page
    rows = dict(re.findall(r'<tr id="(.*?)">(.*?)</tr>', page, re.DOTALL))
    assert list(rows) == list(CLAIMS)

    def outcomes(claim):
        return re.findall(r'<td class="outcome .*?">(.*?)\n', rows[claim])

    assert outcomes("fedrn-02")[0] == "partly supported: 2 of 2; 2 of 2; 1 of 2; 1 of 2"
    assert outcomes("fedrn-12") == ["undecided: no numbers", "undecided: not run"]
    assert outcomes("fedcni-01") == ["mostly supported: 17 of 18"] * 2
    assert outcomes("rofl-01") == ["supported: 12 of 12", "supported: 10 of 10 (2 not run)"]
    assert '<a href="tables/fedcni/table1.html">fedcni/table1</a>' in rows["fedcni-02"]
    assert "tables/fedcorr" not in page
    assert "def most_accurate(accuracy: Numbers)" in page
    assert 'title="fedcni/table1: ' in page
    # One file that needs nothing else, in the style of the tables' pages.
    assert not re.search(r"<script|<link|src=|url\(|https?:", page)
    assert "font-variant-numeric: tabular-nums" in page
    assert page.count("<details>") > 90
    assert "72.16 &gt; 72.21 ✗" in page


@pytest.mark.slow
def test_our_numbers_are_judged_like_the_published_ones(cells_file):
    judged = judge(*sides(cells_file))
    counts = Counter(one.published.verdict for one in judged)
    graded = {"supported": 33, "mostly supported": 5, "partly supported": 15}
    assert counts == {**graded, "undecided": 13}
    known = {one.claim.name: one for one in judged}
    assert known["fedrn-05"].ours == known["fedrn-05"].published


@pytest.mark.slow
def test_what_a_number_may_be_as_well_does_not_depend_on_where_it_stands(cells_file):
    with cells_file.open(newline="") as file:
        rows = [
            {**row, **trials(row["ours"], (1, -1) if n % 3 else (-1, 1))}
            for n, row in enumerate(csv.DictReader(file))
        ]

    def numbers(rows):
        with cells_file.open("w", newline="") as out:
            writer = csv.DictWriter(out, rows[0])
            writer.writeheader()
            writer.writerows(rows)
        entries = our_side(cells_file, {}).sources["cells"](
            Query("cells", ("fedcni/table1",), (), {})
        )
        return {str(sorted(one.labels.items())): one.values for one in entries}

    first = numbers(rows)
    assert len(first) > 100
    assert max(map(len, first.values())) > 1000
    again = numbers(rows[::-1])
    for labels, values in first.items():
        assert again[labels] == pytest.approx(values, rel=1e-9, nan_ok=True)


def test_what_cannot_be_had_is_left_out(cells_file):
    # The paper has no numbers of what was sent, we have none of its formulas.
    claim = CLAIMS["rofl-09"]
    assert len(examine(claim, published(read_published(PUBLISHED))).checks) == 2
    finding = examine(claim, our_side(cells_file, {}))
    (one,) = finding.checks
    assert one.says.startswith("at most a fifth longer")
    assert not next(check("so", Numbers.unknown(["method"]) > 1)).known
