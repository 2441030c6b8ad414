"""How long and how a federation trains."""

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
