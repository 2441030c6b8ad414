"""How long and how a federation trains."""

import pytest

from noisyfl.core.options import BadInput
from noisyfl.simulation.schedule import Schedule


def schedule(**given):
    needed = {"participation": 0.5, "local_epochs": 1, "batch_size": 10, "learning_rate": 0.1}
    return Schedule(**{**needed, **given})


def evaluated(schedule, rounds):
    """The rounds, from 1, that an evaluation follows."""
    due = [schedule.evaluations(done) for done in range(rounds + 1)]
    return [round for round in range(1, rounds + 1) if due[round] > due[round - 1]]


def test_evaluations_come_every_so_many_rounds_also_past_the_last():
    assert evaluated(schedule(rounds=9, evaluate_every=3), 13) == [3, 6, 9, 12]


def test_each_of_the_last_rounds_is_evaluated():
    assert evaluated(schedule(rounds=20, evaluate_every=5, evaluate_last=4), 22) == [
        *(5, 10, 15),
        *range(17, 23),
    ]
    assert evaluated(schedule(rounds=3, evaluate_every=5, evaluate_last=10), 3) == [1, 2, 3]


def test_rounds_of_a_part_of_the_participants_add_up_to_ordinary_ones():
    thirds = schedule(rounds=4, evaluate_every=2)
    assert [thirds.evaluations(done / 3) for done in range(13)] == [0] * 6 + [1] * 6 + [2]


@pytest.mark.parametrize(
    ("options", "rates"),
    [
        ({}, [0.1] * 5),
        ({"decay_every": 2}, [0.1, 0.1, 0.01, 0.01, 0.001]),
        ({"decay_every": 1, "decay_factor": 0.5}, [0.1, 0.05, 0.025, 0.0125, 0.00625]),
        ({"decay": "cosine"}, [0.1, 0.0853553391, 0.05, 0.0146446609, 0.0]),
    ],
)
def test_the_learning_rate_decays(options, rates):
    plan = schedule(rounds=4, **options)
    assert [plan.rate_after(done, done / 4) for done in range(5)] == pytest.approx(rates)
    # Between two rounds, where a method has rounds of fewer clients.
    assert rates[1] <= plan.rate_after(0.5, 0.125) <= rates[0]


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"optimizer": "adam", "momentum": 0.5}, "^momentum: got 0.5, expected 0 with adam"),
        ({"decay": "cosine", "decay_every": 2}, "^decay_every: got 2, expected none with cosine"),
        ({"decay_factor": 0.5}, "^decay_factor: got 0.5 without decay_every, expected after"),
        ({"optimizer": "lion"}, "^optimizer: .*'sgd', 'adam' or 'adamw'"),
    ],
)
def test_options_fit_together(options, said):
    with pytest.raises(BadInput, match=said):
        Schedule.read(
            {
                **{"rounds": 4, "participation": 0.5, "local_epochs": 1, "batch_size": 10},
                **{"learning_rate": 0.1, **options},
            }
        )


def test_later_options_are_left_out_of_specs_as_long_as_they_have_their_defaults():
    later = {"optimizer": "adam", "decay": "steps", "decay_every": 1, "decay_factor": 0.5}
    assert not {"optimizer", "decay", "decay_factor"} & schedule(rounds=4).options().keys()
    assert schedule(rounds=4, optimizer="sgd") == schedule(rounds=4)
    found = schedule(rounds=4, **later).options()
    assert {key: found.get(key) for key in later} == {**later, "decay": None}
