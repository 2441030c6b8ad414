"""How many allocations runs need."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from noisyfl.cluster.packing import (
    Need,
    Room,
    allocations_needed,
    class_of_memory,
    usable,
)

HOUR = 3600.0


def needs(count: int, seconds: float, memory: int = 4000) -> list[Need]:
    return [Need(memory, seconds, 600 + 2 * seconds)] * count


def test_short_runs_share_allocations() -> None:
    asked = allocations_needed(needs(200, 60.0), [], HOUR, most=50)
    # An hour has 58 minutes for runs.
    assert len(asked) == 4
    assert {room.seconds for room in asked} == {HOUR}


def test_a_long_run_has_an_allocation_of_its_own_length() -> None:
    (asked,) = allocations_needed(needs(1, 5 * HOUR), [], HOUR, most=50)
    assert asked.seconds == 600 + 10 * HOUR


def test_where_allocations_have_a_limit_a_long_run_takes_several() -> None:
    need = Need(4000, 30 * HOUR, 61 * HOUR).within(24 * HOUR)
    (asked,) = allocations_needed([need], [], HOUR, most=50)
    assert asked.seconds == 24 * HOUR
    assert need.seconds <= usable(asked.seconds)
    short = Need(4000, 60.0, 720.0)
    assert short.within(24 * HOUR) == short == short.within(None)


def test_what_allocations_have_left_is_used_first() -> None:
    left = [Room(4000, 90.0), Room(4000, 60.0)]
    assert allocations_needed(needs(2, 60.0), left, HOUR, most=50) == []
    assert len(allocations_needed(needs(3, 60.0), left, HOUR, most=50)) == 1
    assert left == [Room(4000, 90.0), Room(4000, 60.0)]


def test_no_more_than_allowed_are_asked_for() -> None:
    assert len(allocations_needed(needs(9, 5 * HOUR), [], HOUR, most=2)) == 2
    assert allocations_needed(needs(9, 60.0), [], HOUR, most=0) == []


def test_a_run_does_not_go_where_there_is_too_little_memory() -> None:
    small = [Room(4000, HOUR)]
    (asked,) = allocations_needed(needs(1, 60.0, memory=9000), small, HOUR, most=50)
    assert asked.memory_mb == 16000


@pytest.mark.parametrize(("needed", "given_mb"), [(1, 1000), (1000, 1000), (1001, 2000)])
def test_memory_comes_in_powers_of_two(needed: int, given_mb: int) -> None:
    assert class_of_memory(needed) == given_mb


@given(st.lists(st.tuples(st.integers(1, 64000), st.floats(1, 20 * HOUR)), min_size=1, max_size=40))
def test_every_run_finds_an_allocation_with_memory_and_time(runs: list) -> None:
    asked = allocations_needed(
        [Need(memory, seconds, 600 + 2 * seconds) for memory, seconds in runs], [], HOUR, most=99
    )
    assert len(asked) <= len(runs)
    for memory, seconds in runs:
        assert any(memory <= room.memory_mb and seconds <= usable(room.seconds) for room in asked)
    # Together they are long enough for all, one after another.
    assert sum(seconds for _, seconds in runs) <= sum(usable(room.seconds) for room in asked)
