"""How claims are judged, on small made-up numbers."""

import csv
import re
from dataclasses import replace
from types import SimpleNamespace

import pytest

from made_up_trials import A, B, times, trials
from noisyfl.claims.catalogue import CLAIMS
from noisyfl.claims.declaration import check, claim
from noisyfl.claims.findings import MOST, Case, Check, Finding
from noisyfl.claims.judgement import examine
from noisyfl.claims.labels import but
from noisyfl.claims.needs import tables_of_claims
from noisyfl.claims.query import cells
from noisyfl.claims.sources import our_side
from noisyfl.core.options import BadInput
from noisyfl.pages.claims import count_cases


def cell(method, value, noise="a", apart=(0.001, -0.001), starred="", **other):
    columns = ("paper", "table", "dataset", "setting_scope", "partition", "variant")
    labels = dict(zip(columns, ("x", "table1", "digits", "federated", "iid", ""), strict=True))
    row = {**labels, "noise": noise, "method": method, "metric": "test_accuracy"}
    row |= {"unit": "percent", "value": "1", "std": "", "converged": ""}
    row |= {
        "shown_in": "x/table1",
        "row": method,
        "column": noise,
        **trials(value, apart),
        "ours_starred": starred,
        "runs": f"{method} {noise}",
        "ours_start": noise,
    }
    return {**row, "ours_as_published": "True", "headroom": "", **other}


@pytest.fixture
def side(tmp_path):
    """Our cells, as given."""

    def of(*rows):
        path = tmp_path / "cells.csv"
        with path.open("w", newline="") as file:
            writer = csv.DictWriter(file, list(rows[0]))
            writer.writeheader()
            writer.writerows(rows)
        return our_side(path, {})

    return of


@pytest.fixture
def accuracy(side):
    """Our cells, as given, by method and noise."""

    def of(*rows, **where):
        wanted = replace(cells(by="method noise", **where), tables=("x/table1",))
        return side(*rows).numbers(wanted, "here")

    return of


def ahead(numbers, **how):
    return Finding(tuple(check("so", numbers["own"] > numbers[but("own")].max("method"), **how)))


def test_ahead_in_every_column(accuracy):
    rows = [cell("own", 80), cell("one", 79), cell("other", 60)]
    finding = ahead(accuracy(*rows))
    assert finding.verdict == "supported"
    (case,) = finding.checks[0].cases
    assert (case.label, case.numbers, case.margin, case.holds) == ("", "80 > 79", 1, True)
    assert ahead(accuracy(cell("own", 70), *rows[1:])).verdict == "not supported"
    rows += [cell(method, value, noise="b") for method, value in (("own", 70), ("one", 71))]
    finding = ahead(accuracy(*rows))
    assert finding.verdict == "partly supported"
    (case,) = finding.checks[0].decisive(1)
    assert (case.label, case.numbers, case.margin, case.holds) == ("b", "70 > 71", -1, False)
    assert ahead(accuracy(*rows), share=0.5).verdict == "supported"
    assert ahead(accuracy(*rows), share=MOST).verdict == "partly supported"


def test_what_was_not_run_is_open(accuracy):
    rows = [cell("own", 80), cell("one", 79), cell("own", "", noise="b"), cell("one", 1, noise="b")]
    finding = ahead(accuracy(*rows))
    assert [case.holds for case in finding.checks[0].cases] == [True, None]
    # Half of the cases are decided, which is enough; a third would not be.
    assert finding.verdict == ahead(accuracy(*rows), share=MOST).verdict == "supported"
    assert ahead(accuracy(cell("own", 1), *rows[1:])).verdict == "not supported"
    more = [cell("own", "", noise="c"), cell("one", 1, noise="c")]
    assert ahead(accuracy(*rows, *more)).verdict == "undecided"
    assert ahead(accuracy(cell("own", 1), *rows[1:], *more)).verdict == "undecided"
    assert ahead(accuracy(cell("own", 80))).verdict == "undecided"


@pytest.mark.parametrize(
    ("own", "apart", "verdict"),
    [
        (80.0, times(0.1, A, B), "supported"),
        (78.0, times(0.1, A, B), "not supported"),
        (79.2, (A, B), "undecided"),
        (78.8, (A, B), "undecided"),
        # The same spread over many trials is a small error; that of single trials is unknown.
        (79.2, ((1, -1) * 200, (1, 1, -1, -1) * 100), "supported"),
        (99.0, ((0,), (0,)), "undecided"),
    ],
)
def test_a_lead_within_the_spread_over_trials_is_open(accuracy, own, apart, verdict):
    rows = [cell("own", own, apart=apart[0]), cell("one", 79.0, apart=apart[1])]
    assert ahead(accuracy(*rows)).verdict == verdict


def test_means_of_settings_may_be_off_each_by_itself(accuracy):
    """They have no runs, and differ by less than the settings' trials lie apart."""
    rows = [cell(name, 79, apart=apart) for name, apart in zip(("x", "y"), (A, B), strict=True)]
    means = [
        cell(name, value, "mean_over(a|b)", apart=(20, -20), runs="", ours_start="")
        for name, value in (("own", 79.2), ("other", 79))
    ]
    (case,) = ahead(accuracy(*rows, *means, noise="mean_over(a|b)")).checks[0].cases
    assert (case.known, case.holds) == (True, None)


def test_what_methods_share_in_a_seed_does_not_count_where_they_are_compared(accuracy):
    """The second seed is ten points worse for all: here the noise is worse."""
    luck = [(5 + one, -5 - one) for one in (0.1, 0, -0.1, 0.05)]
    rows = [
        cell(name, mean, noise=noise, apart=apart)
        for noise in "ab"
        for name, mean, apart in zip(("own", "x", "y", "z"), (80, 78, 78, 78), luck, strict=True)
    ]
    numbers = accuracy(*rows)
    assert ahead(numbers).verdict == "supported"
    easier = [cell(row["method"], row["ours"] + 3, "c", apart=(5, -5)) for row in rows[:4]]
    between = accuracy(*rows, *easier)["own"]
    drop = Finding(tuple(check("so", between.at(noise="c") > between.at(noise="a"))))
    assert drop.verdict == "undecided"


def test_what_starts_from_the_same_is_compared_by_its_own_part_across_columns(accuracy):
    """One setting of an option per column, all on the same noisy partitions."""
    rows = [
        cell("own", 80 + n, "abcd"[n], (5 + one, -5 - one), ours_start="s")
        for n, one in enumerate((0.1, 0, -0.1, 0.05))
    ]

    def verdict(rows):
        own = accuracy(*rows)["own"]
        return Finding(tuple(check("so", own.at(noise="d") > own.at(noise="a")))).verdict

    assert verdict(rows) == "supported"
    assert verdict([{**row, "ours_start": row["noise"]} for row in rows]) == "undecided"


def test_methods_that_do_the_same_count_once(accuracy):
    """Without noise the oracle is FedAvg, which says nothing of how far methods lie apart."""
    rows = [cell("own", 80, apart=(0.5, -0.5)), cell("one", 79, apart=(-0.5, 0.5))]
    same = [cell(f"{n}", 60, apart=(0.1, -0.1)) for n in range(9)]
    assert ahead(accuracy(*rows, *same)).verdict == "undecided"


@pytest.mark.parametrize(
    ("others", "verdict"),
    [
        ([], "undecided"),  # two trials of two methods say little of what others would give
        ([0.2, -0.2, 0.1, -0.1, 0.3, -0.3], "supported"),
        ([6.0], "undecided"),  # two trials may agree by chance
    ],
)
def test_what_a_mean_may_as_well_be_is_learnt_from_the_whole_column(accuracy, others, verdict):
    rows = [cell("own", 80, apart=(0.2, -0.2)), cell("one", 79.2, apart=(-0.2, 0.2))]
    rows += [cell(f"{n}", 50, apart=(one, -one)) for n, one in enumerate(others)]
    assert ahead(accuracy(*rows)).verdict == verdict


def test_methods_of_a_column_are_compared_on_the_seeds_that_all_have(accuracy):
    """In the second seed, which `one` does not have, all are twenty points worse; the other columns
    say that seeds are much alike."""
    rows = [
        cell("own", 70, apart=(10, -10)),
        cell("one", 75, apart=(0,)),
        cell("two", 60, apart=(10.1, -10.1)),
        *(cell(f"{n}", 50, "b", apart=(one, -one)) for n, one in enumerate([0.1, -0.1] * 4)),
    ]
    numbers = accuracy(*rows)
    (case,) = ahead(numbers).checks[0].cases
    assert (case.numbers, case.holds) == ("80 > 75", True)
    assert ahead(accuracy({**rows[0], "ours_seeds": "3 4"}, *rows[1:])).checks[0].cases[
        0
    ].numbers == ("70 > 75")


def test_a_single_trial_varies_as_others_of_its_column(accuracy):
    nine = A * 3
    rows = [cell("own", 79.2, apart=(0,)), cell("one", 79, apart=nine)]
    assert ahead(accuracy(*rows)).verdict == "undecided"
    elsewhere = [cell("own", 79, "b", apart=nine), cell("one", 79, "b", apart=B * 3)]
    rows = [cell("own", 79.2, apart=(0,)), cell("one", 79, apart=(0,)), *elsewhere]
    assert [case.holds for case in ahead(accuracy(*rows)).checks[0].cases] == [None, None]
    # Nothing follows from another dataset's trials.
    rows = rows[:2] + [{**row, "dataset": "mnist"} for row in elsewhere]
    cases = ahead(accuracy(*rows, dataset="digits")).checks[0].cases
    assert [case.holds for case in cases] == [None]


@pytest.mark.parametrize(
    ("noise", "room", "other", "held"),
    [
        ("a", "", "", True),  # unknown
        ("a", 2.9, "", True),
        ("a", 2.7, "", None),  # a lead deviates by 1.41 points between seeds
        ("a", 2.7, 5.0, True),  # one of the two settings that are compared has room
        ("none", 0, 0, True),
    ],
)
def test_a_case_without_room_is_not_decided(side, noise, room, other, held):
    rows = [
        cell("own", 90, noise=noise, apart=A, headroom=room),
        cell("one", 50, noise=noise, apart=B, headroom=other),
    ]
    ours = side(*rows)
    query = replace(cells(by="method noise"), tables=("x/table1",))
    claim = SimpleNamespace(name="x-01", queries={"accuracy": query}, untested="")
    claim.checks = lambda accuracy: check("so", accuracy["own"] > accuracy["one"])
    (case,) = examine(claim, ours).checks[0].cases
    assert (case.holds, case.has_headroom) == (held, held is not None)
    assert count_cases([case]) == ("1 of 1" if held else "1 without headroom")


@pytest.mark.parametrize(("count", "verdict"), [(2, "undecided"), (40, "supported")])
def test_two_trials_say_little_of_how_far_trials_lie_apart(accuracy, count, verdict):
    apart = [1, -1] * (count // 2)
    rows = [cell("own", 80, apart=[2 * one for one in apart]), cell("one", 80, apart=apart)]
    assert ahead(accuracy(*rows, measure="std")).verdict == verdict


def test_convergence_is_measured_by_stars(accuracy):
    rows = [cell("own", 80, starred="False"), cell("one", 79, starred="True")]
    assert ahead(accuracy(*rows, measure="converged")).verdict == "supported"
    rows = [{**row, "ours_starred": ""} for row in rows]
    assert ahead(accuracy(*rows, measure="converged")).verdict == "undecided"


def test_all_conditions_must_hold_and_all_must_be_tested():
    def of(*held):
        return tuple(Check("", (Case("", "", 0.0, one),)) for one in held)

    assert Finding(of(True, True)).verdict == "supported"
    assert Finding(of(True, False)).verdict == "partly supported"
    assert Finding(of(False, None)).verdict == "not supported"
    open_case, held = Case("", "", 0.0, None), Case("", "", 0.0, True)
    assert Finding((*of(False), Check("", (held, open_case)))).verdict == "partly supported"
    assert Finding(of(True, None)).verdict == "undecided"
    assert Finding((*of(True), Check("", ()))).verdict == "undecided"
    assert Finding(of(True), complete=False).verdict == "undecided"
    assert Finding(of(False), complete=False).verdict == "not supported"
    assert Finding(()).verdict == "undecided"


def test_bounds_of_a_share():
    cases = tuple(Case("", "", 0.0, held) for held in (True, True, True, False, None))
    for share, verdict in ((0.6, "supported"), (0.75, "supported"), (0.76, "partly supported")):
        assert Check("", cases, share=share).verdict == verdict
    assert Check("", cases, share=MOST).verdict == "supported"
    half = Check("", (cases[0], cases[3]), share=MOST)
    assert half.verdict == "partly supported"
    assert Check("", ()).verdict == "undecided"
    for held, word in ((4, "mostly"), (3, "partly"), (1, "partly")):
        five = tuple(Case("", "", 0.0, number < held) for number in range(5))
        assert Check("", five).verdict == f"{word} supported"
    six = tuple(Case("", "", 0.0, number < 1) for number in range(6))
    assert Check("", six).verdict == "hardly supported"


def test_a_mistake_in_a_claim_is_named():
    with pytest.raises(BadInput, match="claim 'fedcorr-01' is there twice"):
        claim("fedcorr-01", place="")(CLAIMS["fedcorr-02"].checks)
    with pytest.raises(BadInput, match="claim 'fedcorr-99' says nothing"):
        claim("fedcorr-99", place="")(lambda accuracy: iter(()))


def test_the_runs_that_claims_need():
    assert {"fedrn/table2", "fedrn/figure5", "fedcni/figure2_runs"} <= set(tables_of_claims())
    assert all(re.fullmatch(r"[a-z]+/[a-z0-9_]+", name) for name in tables_of_claims())
