"""How many allocations a pool's runs need, and how large ones."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

SMALLEST_MEMORY_MB = 1000


@dataclass(frozen=True)
class Need:
    """What a run needs of an allocation.

    Attributes:
        memory_mb: at most.
        seconds: that it should take.
        limit_seconds: that it is given where an allocation is made for it alone.
    """

    memory_mb: int
    seconds: float
    limit_seconds: float

    def within(self, longest_seconds: float | None) -> Need:
        """The same where no allocation may be longer: the run goes on in the next one."""
        limit = min(self.limit_seconds, longest_seconds or self.limit_seconds)
        return Need(self.memory_mb, min(self.seconds, usable(limit)), limit)


@dataclass
class Room:
    """What an allocation has left, or one to be asked for.

    Attributes:
        memory_mb: for a run.
        seconds: for runs, one after another.
    """

    memory_mb: int
    seconds: float


def class_of_memory(memory_mb: int) -> int:
    """The memory of the allocations for such a run: powers of two, so that there are few kinds."""
    size = SMALLEST_MEMORY_MB
    while size < memory_mb:
        size *= 2
    return size


def allocations_needed(
    needs: Iterable[Need], rooms: Iterable[Room], seconds: float, most: int
) -> list[Room]:
    """The allocations to be asked for beside those that there are.

    The most demanding run comes first, into the first allocation that has room for it; a new one is
    made where none has.

    Args:
        needs: of the runs that wait.
        rooms: of the allocations that run or wait in the queue, what is :func:`usable` of them.
        seconds: of an ordinary allocation; one that is made for a longer run is as long as that.
        most: new allocations.

    Returns:
        Memory and whole length of each.
    """
    asked: list[Room] = []
    rooms = [Room(room.memory_mb, room.seconds) for room in rooms]
    for need in sorted(needs, key=lambda need: (need.memory_mb, need.seconds), reverse=True):
        for room in rooms:
            if need.memory_mb <= room.memory_mb and need.seconds <= room.seconds:
                room.seconds -= need.seconds
                break
        else:
            if len(asked) < most:
                memory = class_of_memory(need.memory_mb)
                length = seconds if need.seconds <= usable(seconds) else need.limit_seconds
                asked.append(Room(memory, length))
                rooms.append(Room(memory, usable(length) - need.seconds))
    return asked


def usable(seconds: float) -> float:
    """What an allocation of so many seconds has for runs; the rest is for their checkpoints."""
    return seconds - min(120.0, seconds / 10)
