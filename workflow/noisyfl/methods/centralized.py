"""Centralized training: all clients' samples, wrong labels included, in one place."""

from __future__ import annotations

import math

import torch

import noisyfl.method as fl


@fl.METHODS.register("centralized")
class Centralized(fl.ServerSide):
    """One client that holds everybody's samples takes part in every round.

    A round is the schedule's ``local_epochs`` over all samples. It costs what local updates of all
    clients cost, and counts for as many: with a fifth of the clients in an ordinary round, it is
    five of them. By default there are as many rounds as the federation's budget pays for. The
    schedule's ``rounds`` are set to that number, for client sides that depend on the share of
    rounds done. Momentum starts at zero in each round, as in a local update.
    """

    revision = 2
    pools_samples = True
    reference = "FedNoiL (arXiv 2205.10110), Table 1, rows without a federation"

    epochs: int | None = fl.option(
        None,
        doc="over all samples, rounded up to whole rounds; null: as many as the federation's local "
        "updates amount to",
        at_least=1,
    )

    def own_schedule(self, schedule: fl.Schedule, clients: int) -> fl.Schedule:
        """The schedule with the number of rounds that the method runs."""
        if self.epochs is None:
            rounds = schedule.rounds_of_all(clients)
        else:
            rounds = math.ceil(self.epochs / schedule.local_epochs)
        return schedule.model_copy(update={"rounds": rounds})

    def begin(self, federation: fl.Federation) -> None:
        """Pool the samples, and set the number of rounds."""
        clients = federation.clients
        federation.schedule = self.own_schedule(federation.schedule, len(clients))
        federation.state["pooled_clients"] = len(clients)
        pooled = [
            torch.cat([getattr(client, column) for client in clients])
            for column in ("rows", "given", "true")
        ]
        # Shuffled, as the batches of a pass, which goes in order, must not be of one client each.
        order = fl.stream(federation.seed, "order").permutation(len(pooled[0]))
        chosen = torch.from_numpy(order).to(pooled[0].device)
        rows, given, true = (column[chosen] for column in pooled)
        federation.clients = [fl.Client(0, rows, given, true)]

    def counted_updates(self, round: int, federation: fl.Federation) -> int:
        """As many local updates as clients were pooled."""
        return federation.state["pooled_clients"]

    def exchange(self, updates: list[fl.Update], federation: fl.Federation) -> tuple[int, int]:
        """No bytes: the samples that were pooled are not counted."""
        return 0, 0
