"""The local epochs of a run's rounds, as a method's options alone decide them."""

from __future__ import annotations

from typing import Any

from noisyfl.core.options import BadInput
from noisyfl.simulation.schedule import Schedule
from noisyfl.specs.build import build_method


def epochs_by_round(method: Any, rounds: int, where: str) -> list[int]:
    """The local epochs of each round of a run, in order.

    Args:
        rounds: how many rounds the run has.
        where: what the error messages call the method.

    Raises:
        BadInput: the method has no schedule of local epochs of its own.
    """
    _, side = build_method(method, where)

    def epochs(given: int) -> list[int]:
        plan = Schedule(
            rounds=rounds, local_epochs=given, participation=1, batch_size=1, learning_rate=1
        )
        return [side.local_schedule(r, plan).local_epochs for r in range(rounds)]

    one, two = epochs(1), epochs(2)
    if one != two:
        raise BadInput(f"{where}: {side.name} has the run's local epochs, and none of its own")
    return one
