"""docs/conformance.md: made from what is recorded, and it says something of every method."""

import json

import pytest
from conformance import COMMITS
from conformance.page import DIFFERENCES, PAGE, TEXTS, below, page, run_record
from conformance.recorders import MODULES, steps
from conformance.runs import CAUSES, CODES, FEWEST_SEEDS, PAIRS
from conformance.runs.statistics import Comparison, decided, flagged_alike

from noisyfl.methods import METHODS


def test_the_page_is_up_to_date():
    assert PAGE.read_text() == page(), "python -m conformance writes it"


def test_every_method_is_mentioned():
    mentioned = {step.method for repository in MODULES for step in steps(repository)}
    assert not set(METHODS.names()) - mentioned - set(TEXTS["without"])
    assert set(TEXTS["without"]) <= set(METHODS.names())


def test_differences_are_of_the_steps_and_within_their_tolerance():
    apart = json.loads(DIFFERENCES.read_text())
    assert list(apart) == list(MODULES)
    for repository, own in apart.items():
        assert list(own) == [step.name for step in steps(repository)]
        for step in steps(repository):
            assert own[step.name] <= step.tolerance


def test_every_repository_has_a_commit():
    assert set(MODULES) | {pair.repository for pair in PAIRS.values()} == set(COMMITS)
    assert {pair.repository for pair in PAIRS.values()} == set(CODES)


def test_a_run_beyond_the_interval_has_been_explained():
    for name in PAIRS:
        record = run_record(name)
        if record is not None and (comparison := Comparison.of(record)).seeds >= FEWEST_SEEDS:
            assert comparison.inside != (name in TEXTS["found"])


@pytest.mark.parametrize(("difference", "expected"), [(0, "equal"), (2e-8, "1e-7"), (9e-6, "1e-5")])
def test_a_difference_is_printed_as_a_power_of_ten(difference, expected):
    assert below(difference) == expected


def side(*accuracies, **decisions):
    return {
        str(seed): {"accuracy": [value - 0.1, value + 0.1], "seconds": 2.0, "decided": decisions}
        for seed, value in enumerate(accuracies)
    }


def test_a_comparison_is_of_the_seeds_that_both_sides_have():
    comparison = Comparison.of({"ours": side(0.5, 0.6, 0.8), "official": side(0.4, 0.6)})
    assert comparison.seeds == 2
    assert comparison.difference == pytest.approx(0.05)
    # Student's t of one degree of freedom, times the standard error of 0.1 and 0.
    assert comparison.half_width == pytest.approx(12.706 * 0.05, rel=1e-4)
    assert comparison.inside
    comparison = Comparison.of({"ours": side(0.5, 0.61), "official": side(0.4, 0.5)})
    assert comparison.half_width == pytest.approx(12.706 * 0.005, rel=1e-4)
    assert not comparison.inside


def test_decisions_are_means_and_flags_are_compared_client_by_client():
    levels = {"estimated_noise_level": [0.0, 0.2, 0.4]}  # of three of the ten clients
    record = {
        "ours": side(0.5, 0.5, flagged=[1, 2], **levels),
        "official": side(0.5, 0.5, flagged=[2], **levels),
    }
    assert decided(record, "ours") == pytest.approx({"flagged": 2, "estimated_noise_level": 0.2})
    assert flagged_alike(record) == (18, 20)


def test_what_a_difference_comes_from_is_answered_from_as_many_seeds_on_every_side():
    for name, pair in CAUSES.items():
        record = run_record(name)
        assert record is not None
        assert set(record) == set(pair.sides)
        assert all(record[side].keys() == record["official"].keys() for side in pair.sides)
        assert len(record["official"]) >= FEWEST_SEEDS


def test_the_answer_about_fedrns_neighbours_is_what_the_runs_say():
    record = run_record("fedrn_cifar10")
    assert not Comparison.of(record).inside
    assert Comparison.of(record, official="both").inside
    gain = {side: Comparison.of(record, ours=side) for side in ("unvisited", "sequential", "both")}
    assert [gain[side].inside for side in gain] == [True, True, False]
    after = Comparison.of(record, official="unvisited", ours="both")
    measured = [gain["unvisited"], Comparison.of(record), gain["sequential"], after]
    assert [round(100 * one.difference, 1) for one in measured] == [1.8, 3.9, -0.4, -0.2]
    assert round(100 * Comparison.of(record, official="both").difference, 1) == 2.2
    for side in ("official", *gain):
        assert decided(record, side)["unvisited"] == 0
    assert decided(record, "official")["unvisited_first"] > 0.3
