"""The rounds of a run."""

from __future__ import annotations

import time
from collections.abc import Callable

from noisyfl.simulation.checkpoint import Checkpoint
from noisyfl.simulation.client_side import ClientSide
from noisyfl.simulation.federation import Federation
from noisyfl.simulation.server_side import ServerSide


def simulate(
    federation: Federation,
    server: ServerSide,
    client: ClientSide,
    checkpoint: Checkpoint,
    log: Callable[[str], None],
) -> str:
    """Run all rounds of a method, from the checkpoint if there is one.

    An evaluation follows each round with which another ``evaluate_every`` ordinary rounds' local
    updates are done, and the last one.

    Returns:
        ``finished``, or ``diverged`` if the global model was no longer finite; the rounds until
        then are kept.
    """
    start, line = checkpoint.restore(federation)
    log(line)
    total = server.rounds(federation)
    unit = federation.participants * federation.schedule.evaluate_every
    left = sum(server.slots(round, federation) for round in range(start, total))
    spent = 0
    begun = time.perf_counter()
    for round in range(start, total):
        round_begun = time.perf_counter()
        stage = server.stage(round, federation)
        chosen = [federation.clients[number] for number in server.select(round, federation)]
        updates = federation.executor.local_updates(
            chosen, federation.weights, client, round, stage
        )
        federation.weights = server.aggregate(updates, federation.weights)
        finite = all(bool(value.isfinite().all()) for value in federation.weights.values())
        if finite:
            server.after_round(round, updates, federation)
        done = federation.records.slots
        slots = server.slots(round, federation)
        due = done // unit < (done + slots) // unit or round == total - 1 or not finite
        evaluation = (
            federation.executor.evaluate(federation.weights)
            if due
            else {"test_accuracy": float("nan"), "test_loss": float("nan")}
        )
        seconds = time.perf_counter() - round_begun
        federation.close_round(round, stage, slots, updates, evaluation, seconds)
        left, spent = left - slots, spent + slots
        elapsed = time.perf_counter() - begun
        measured = f"{100 * evaluation['test_accuracy']:.2f} %" if due else "not evaluated"
        log(
            f"round {round + 1}/{total} ({stage})  test accuracy {measured}  "
            f"{(round + 1 - start) / elapsed:.3g} rounds/s  {left * elapsed / spent:.0f} s left"
        )
        if not finite:
            log(f"diverged in round {round + 1}: the global model is not finite")
            return "diverged"
        checkpoint.after_round(round + 1, federation)
    return "finished"
