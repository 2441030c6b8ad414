"""Claims against the published numbers, against small made-up ones, and their page."""

from collections import defaultdict

import pytest

from noisyfl.claims.catalogue import CLAIMS
from noisyfl.claims.judgement import examine
from noisyfl.claims.sources import published
from noisyfl.experiments.config import PUBLISHED
from noisyfl.specs.published import read_published

HOLD = {
    # By claim, for each condition in words: the cases in which it holds, of how many. Counted from
    # the papers' tables when the claims were collected, before there was any code for them.
    "rofl-01": [(12, 12)],
    "rofl-02": [(1, 1)],
    "rofl-03": [(1, 1)],
    "rofl-04": [(2, 2)],
    "rofl-05": [(4, 4), (6, 6)],
    "rofl-06": [(3, 3)],
    "rofl-07": [(6, 6)],
    "rofl-08": [(1, 1)],
    "rofl-12": [(1, 1)],
    "rofl-13": [(1, 1)],
    "rofl-14": [(11, 11)],
    "fedcni-09": [(2, 2), (2, 2)],
    "fedcni-15": [(16, 16), (16, 16)],
    "fednoil-02": [(2, 2), (4, 4), (22, 36)],
    "fednoil-04": [(66, 96), (1, 1)],
    "fednoil-05": [(6, 6)],
    "fednoil-06": [(4, 4), (4, 4)],
    "fednoil-07": [(6, 6), (18, 18)],
    "fednoil-08": [(12, 12), (3, 3)],
    "fednoil-09": [(12, 12), (6, 6)],
    "fednoil-12": [(1, 1)],
    "fedcorr-01": [(11, 11)],
    "fedcorr-06": [(3, 3)],
    "fedcorr-07": [(2, 2)],
    "fedcorr-08": [(42, 42), (7, 7)],
    "fedcorr-09": [(6, 7)],
    "fedrn-01": [(18, 18)],
    "fedrn-03": [(4, 4)],
    "fedrn-04": [(6, 6), (3, 3)],
    "fedrn-05": [(12, 12)],
    "fedrn-07": [(1, 1), (1, 1)],
    "fedrn-08": [(14, 16)],
    "fedrn-13": [(5, 5), (1, 1)],
}
FAIL = {
    "rofl-09": [(2, 2), (1, 2)],
    "fedcni-01": [(17, 18)],
    "fedcni-02": [(4, 8)],
    "fedcni-03": [(6, 8)],
    "fedcni-04": [(7, 8)],
    "fedcni-05": [(12, 16)],
    "fedcni-06": [(11, 16)],
    "fedcni-07": [(5, 9), (6, 8)],
    "fedcni-08": [(32, 32), (23, 24), (11, 16)],
    "fedcni-14": [(6, 8)],
    "fednoil-01": [(20, 24)],
    "fednoil-03": [(20, 22)],
    "fedcorr-02": [(3, 3), (1, 3)],
    "fedcorr-03": [(14, 22)],
    "fedcorr-04": [(13, 22)],
    "fedcorr-05": [(1, 2)],
    "fedcorr-12": [(1, 2)],
    "fedrn-02": [(2, 2), (2, 2), (1, 2), (1, 2)],
    "fedrn-06": [(2, 2), (0, 2), (2, 2)],
    "fedrn-11": [(4, 12), (0, 2), (3, 4)],
}
MOSTLY = {"fedcni-01", "fedcni-04", "fedcni-08", "fednoil-01", "fednoil-03"}
FIGURES = {
    *("rofl-10", "rofl-11", "fedcni-10", "fedcni-11", "fedcni-12", "fedcni-13", "fednoil-10"),
    *("fednoil-11", "fedcorr-10", "fedcorr-11", "fedrn-09", "fedrn-10", "fedrn-12"),
}


@pytest.fixture(scope="module")
def found():
    """By claim, what the papers' own numbers say of it."""
    side = published(read_published(PUBLISHED))
    return {name: examine(claim, side) for name, claim in CLAIMS.items()}


def test_there_are_sixty_six_claims():
    assert set(CLAIMS) == {*HOLD, *FAIL, *FIGURES}
    assert (len(HOLD), len(FAIL), len(FIGURES)) == (33, 20, 13)


@pytest.mark.parametrize("name", [*HOLD, *FAIL])
def test_the_published_numbers_say_what_was_counted_in_them(found, name):
    counts = defaultdict(list)
    for one in found[name].checks:
        counts[one.says].append((one.count(True), len(one.cases)))
        assert one.count(None) == 0
    summed = [tuple(map(sum, zip(*each, strict=True))) for each in counts.values()]
    assert summed == {**HOLD, **FAIL}[name]
    verdicts = (("supported", HOLD), ("mostly supported", MOSTLY))
    verdict = next((words for words, names in verdicts if name in names), "partly supported")
    assert found[name].verdict == verdict


def test_claims_about_figures_have_no_published_numbers(found):
    for name in FIGURES:
        assert found[name].verdict == "undecided"
        assert not found[name].checks


@pytest.mark.parametrize(
    ("name", "number", "case"),
    [
        # Worked out from the printed tables by hand.
        ("rofl-01", 0, "none: 91.5 > 89.8"),
        ("rofl-04", 0, "pair: 2.1 < 3.7"),
        (
            "fedcni-01",
            0,
            "dirichlet(alpha=1,n=20), truncnorm(pair,mu=0.4,sigma=0.2): 72.16 > 72.21",
        ),
        ("fedcni-04", 0, "cifar10, dirichlet(alpha=1,n=20), pair: -0.05 > 4.76"),
        ("fednoil-04", 1, "83 > 35"),
        ("fedcorr-05", 0, "table3: 11.92 < 4"),
        ("fedrn-01", 0, "client_linear(mixed,0.0-0.4), test_accuracy: 47.17 > 46.94"),
        ("fedrn-08", 0, "shard(s=2,n=100), client_linear(symmetric,0.0-0.8): 2.77 ≤ 1"),
    ],
)
def test_the_case_that_decides(found, name, number, case):
    telling = found[name].checks[number].decisive(1)[0]
    assert f"{telling.label}: {telling.numbers}".removeprefix(": ").endswith(case)
    assert telling.cells


def test_a_case_names_its_cells(found):
    case = found["fedcorr-07"].checks[0].cases[1]
    assert [(cell.table, cell.row) for cell in case.cells] == [
        ("fedcorr/table5", "fedcorr federated"),
        ("fedcorr/table5", "jointopt centralized"),
    ]
