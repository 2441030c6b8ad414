import pytest
from hypothesis import given
from hypothesis import strategies as st

from noisyfl.analysis.summaries import STATISTICS, WORDS, Value, star_rule, summary

STEADY = [0.5, 0.81, 0.80, 0.79, 0.80, 0.81]
SHAKY = [0.5, 0.81, 0.70, 0.79, 0.80, 0.81]


def test_each_statistic_of_a_run():
    accuracies = [0.9, *(i / 100 for i in range(1, 13))]
    values = {name: function(accuracies) for name, function in STATISTICS.items()}
    assert values["best"] == (0.9, False)
    assert values["last"] == (0.12, False)
    assert values["mean_last_10"].value == pytest.approx(0.075)
    assert values["final_or_max"] == (0.12, False)
    assert set(WORDS) == set(STATISTICS)


def test_mean_last_10_of_fewer_evaluations_is_the_mean_of_the_last_half():
    assert STATISTICS["mean_last_10"]([0.2]).value == pytest.approx(0.2)
    assert STATISTICS["mean_last_10"]([0.0, 0.2, 0.4]).value == pytest.approx(0.3)
    assert STATISTICS["mean_last_10"]([0.0] * 4 + [0.5] * 5).value == pytest.approx(0.5)


@pytest.mark.parametrize(
    ("accuracies", "expected"),
    [
        (STEADY, Value(0.81)),
        (SHAKY, Value(0.81, starred=True)),
        ([0.9, 0.2, 0.2, 0.2, 0.2, 0.2], Value(0.2)),  # steady at the end, if low
        ([0.9, 0.2, 0.2, 0.2, 0.2], Value(0.9, starred=True)),  # the step is among the last five
        ([0.80, 0.80, 0.80, 0.80], Value(0.80, starred=True)),  # four do not show it
        ([0.50, 0.52, 0.52, 0.52, 0.52], Value(0.52, starred=True)),  # 2 points are too many
        ([0.50, 0.519, 0.519, 0.519, 0.519], Value(0.519)),
    ],
)
def test_final_or_max_follows_the_convergence_rule(accuracies, expected):
    assert STATISTICS["final_or_max"](accuracies) == expected


@given(st.lists(st.floats(0, 1), min_size=1, max_size=30))
def test_no_statistic_exceeds_the_best_or_falls_below_the_worst(accuracies):
    for function in STATISTICS.values():
        value = function(accuracies).value
        assert min(accuracies) - 1e-12 <= value <= max(accuracies) + 1e-12


def test_trials_are_averaged_with_the_sample_standard_deviation():
    found = summary([0.9, 0.8, 0.7])
    assert found.mean == pytest.approx(0.8)
    assert found.std == pytest.approx(0.1)
    assert found.trials == 3
    assert not found.starred
    assert summary([0.5]).std is None


def test_a_cell_is_starred_and_takes_maxima_unless_most_trials_converged():
    assert star_rule("final_or_max", [True, True, False]) == ("best", True)
    assert star_rule("final_or_max", [True, False]) == ("best", True)
    assert star_rule("final_or_max", [True, False, False]) == ("last", False)
    assert star_rule("final_or_max", []) == ("last", False)
    assert star_rule("mean", [True, True]) == ("mean", False)
