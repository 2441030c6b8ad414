"""The federation: its clients, the global model and the state that methods keep."""

from __future__ import annotations

import math
import operator
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from itertools import pairwise
from typing import Any, TypeVar

import torch

from noisyfl.core.options import BadInput, kind_of
from noisyfl.core.randomness import stream
from noisyfl.data.noisy_partition import NoisyPartition
from noisyfl.simulation.client_side import ClientSide
from noisyfl.simulation.clients import Client
from noisyfl.simulation.executor import LoopExecutor
from noisyfl.simulation.outputs import Network, Outputs, Pass
from noisyfl.simulation.records import CLIENT_COLUMNS, Records, Selection, mean_or_nan
from noisyfl.simulation.returned import check_tensor
from noisyfl.simulation.schedule import Schedule
from noisyfl.simulation.updates import Task, Update
from noisyfl.simulation.weights import Weights

PARTICIPANTS = "noisyfl.participants"
"""The key, in the federation's state, of the ids of the last round's participants."""

One = TypeVar("One", Client, Task | Update)

FULL = 0.2
"""Clients' states are moved to the host once a run uses this share of its GPU's memory, so that
three runs have room there."""

LARGE = 2**18
"""A tensor is worth moving if it has at least this many numbers."""


class Federation:
    """All that lives during a run. A checkpoint of it is a checkpoint of the run.

    Attributes:
        clients: every client, at the index of its id.
        schedule: the method's own, with the learning rate of the round under way.
        weights: the global model.
        state: what the server side keeps between rounds.
        participants: clients in an ordinary round.
        round: the one under way or, between rounds, the last one; counted from 0.
        answers: outputs on the test part of the networks that were last evaluated; not part of a
            checkpoint, as they can be computed again.
    """

    def __init__(
        self,
        partition: NoisyPartition,
        schedule: Schedule,
        seed: int,
        executor: LoopExecutor,
        weights: Weights,
    ) -> None:
        self.schedule = schedule
        self._planned = schedule
        self.seed = seed
        self.executor = executor
        self.weights = weights
        self.state: dict[str, Any] = {}
        self.clients = [
            Client(
                id=number,
                rows=torch.as_tensor(part.samples, device=executor.device),
                given=torch.as_tensor(part.given_label, device=executor.device),
                true=torch.as_tensor(part.true_label, device=executor.device),
            )
            for number, part in enumerate(partition.clients)
        ]
        self.participants = schedule.participants(len(self.clients))
        self.round = 0
        self.records = Records()
        self.answers: dict[Network, Outputs] = {}

    def begin_round(self, round: int, share: float) -> None:
        """Set the number and the learning rate of a round.

        Args:
            round: counted from 0.
            share: of the method's local updates that are done before it.
        """
        self.round = round
        work = [0.0, *(row["ordinary_rounds"] for row in self.records.rounds)]
        rounds = sum(min(1.0, after - before) for before, after in pairwise(work))
        rate = self._planned.rate_after(rounds, share)
        for part in (self, self.executor):
            part.schedule = part.schedule.model_copy(update={"learning_rate": rate})

    @property
    def classes(self) -> int:
        """How many classes there are."""
        return len(self.weights["0.classifier.weight"])

    def ask(
        self, whom: Sequence[One], purpose: str, weights: Weights | None = None, view: str = "weak"
    ) -> list[tuple[One, Outputs]]:
        """Each client, task or update, with a model's outputs on all samples of the client.

        Args:
            whom: clients, tasks or updates.
            purpose: names the random stream of the augmented view.
            weights: the model; by default that of a task or an update, and for a client the global
                model.
            view: how the images are shown, as in
                :attr:`noisyfl.simulation.updates.Epoch.views`.
        """
        requests = []
        for one in whom:
            client, own = (
                (one, self.weights) if isinstance(one, Client) else (one.client, one.weights)
            )
            requests.append(Pass(client, own if weights is None else weights, purpose, view=view))
        return list(zip(whom, self.passes(requests, self.round), strict=True))

    def passes(self, requests: list[Pass], round: int) -> list[Outputs]:
        """Run passes of any models, and count them; :meth:`ask` is shorter."""
        self.records.forward += sum(len(request.client) for request in requests)
        return self.executor.passes(requests, round)

    def look(self, client: Client, weights: Weights, networks: int) -> list[Outputs]:
        """The outputs of each of a model's networks on a client's samples, in the plain view and
        not counted.
        """
        # A plain view draws nothing, so that the round and the purpose do not matter.
        requests = [Pass(client, weights, "", number, "plain") for number in range(networks)]
        return self.executor.passes(requests, 0)

    def outputs_of(self, images: torch.Tensor, weights: Weights, network: int = 0) -> Outputs:
        """Run a model on normalised images that come from the method, and count it."""
        self.records.forward += len(images)
        return self.executor.outputs_of(images, weights, network)

    def random_image(self) -> torch.Tensor:
        """[1, channels, height, width], standard normal noise as one normalised image: every model
        of a trial is shown the same (FedRN, Eq. 5).
        """
        shape = (1, *self.executor.test.shape)
        return torch.from_numpy(stream(self.seed, "random image").standard_normal(shape))

    def train(self, tasks: list[Task], side: ClientSide, round: int, stage: str) -> list[Update]:
        """Make local updates that a method asks for in addition to the round's own; count them.

        Args:
            tasks: what to train.
            side: the client side. A client's random streams are those of its local update in the
                round itself.
            round: counted from 0.
            stage: the name of the stage.
        """
        updates = self.executor.local_updates(tasks, side, round, stage)
        self.records.forward += sum(update.forward for update in updates)
        self.records.backward += sum(update.backward for update in updates)
        return updates

    def exchange(self, down: int = 0, up: int = 0) -> None:
        """Count bytes of this round beside those that the server side counts."""
        self.records.down += operator.index(down)
        self.records.up += operator.index(up)

    def make_room(self) -> None:
        """Move the large tensors that a method keeps in clients' states to the host once a GPU
        fills up.

        Code that reads them has to copy them to where they are needed.
        """
        device = self.executor.device
        if device.type != "cuda":
            return
        total = torch.cuda.get_device_properties(device).total_memory
        if torch.cuda.memory_allocated(device) < FULL * total:
            return
        for client in self.clients:
            client.state = {name: _on_host(value) for name, value in client.state.items()}

    def snapshot(self) -> Callable[[], None]:
        """Return a function that undoes all that a round changes from now on, and forgets the notes
        of the round under way; tensors are not copied.
        """
        weights, state = self.weights, dict(self.state)
        clients = [(client.labels, dict(client.state)) for client in self.clients]

        def restore() -> None:
            self.weights, self.state = weights, dict(state)
            for client, (labels, kept) in zip(self.clients, clients, strict=True):
                client.labels, client.state = labels, dict(kept)
            self.records.forget_notes()

        return restore

    @contextmanager
    def scratch(self) -> Iterator[None]:
        """Context manager: what is done within is not counted, and undone when the block ends.

        As in a round, code within has to replace what it changes, and must not write to tensors
        in place.
        """
        restore, records = self.snapshot(), self.records
        self.records = Records()
        try:
            yield
        finally:
            self.records = records
            restore()

    def report(self, client: Client, **estimates: float) -> None:
        """Write down what the method estimates of a client in this round.

        Raises:
            BadInput: an estimate has the name of one of :data:`CLIENT_COLUMNS`, or is no number.
        """
        if taken := estimates.keys() & CLIENT_COLUMNS.keys():
            known = ", ".join(CLIENT_COLUMNS)
            raise BadInput(f"report: got {min(taken)}, expected another name than {known}")
        numbers: dict[str, float] = {}
        for name, value in estimates.items():
            number = value.item() if hasattr(value, "item") else value
            if not isinstance(number, int | float):
                raise BadInput(f"report: got {name} = {kind_of(value)}, expected a number")
            numbers[name] = number
        self.records.estimates[client.id].update(numbers)

    def report_selection(self, client: Client, flags: torch.Tensor) -> None:
        """Record which samples of a client the method selects as clean; the others count as
        detected noisy ones. A method that selects several times in a round calls it each time.

        The selection is compared with the labels that the client trains on when it is reported: a
        label that was corrected before, and rightly, is clean. Where the true labels are not known,
        only the ledger records it.

        Args:
            client: whose samples.
            flags: bool [samples], whether each is selected as clean.

        Raises:
            BadInput: they are something else, such as positions.
        """
        expected = "flags: whether each of the client's samples is selected as clean"
        check_tensor(flags, client.labels.shape, "report_selection", expected, torch.bool)
        if self.records.ledger is not None:
            self.records.ledger.select(client, flags)
        if not client.truth_known:
            return
        selection = Selection.of(flags, client.labels == client.true, client.true == self.classes)
        self.records.selections.append((client.id, selection))

    def report_labels(self, client: Client, labels: torch.Tensor) -> None:
        """Record which labels the method learns in place of the client's own, for a method that
        does not write them into :attr:`noisyfl.simulation.clients.Client.labels`.

        Args:
            client: whose samples.
            labels: int64 [samples], a class, or -1 for a sample whose own label is learnt.

        Raises:
            BadInput: they are something else.
        """
        expected = "labels: a class for each of the client's samples, or -1"
        check_tensor(labels, client.labels.shape, "report_labels", expected, torch.int64)
        if self.records.ledger is not None:
            self.records.ledger.relabel(client, labels)

    def close_round(
        self,
        round: int,
        stage: str,
        counted: int,
        updates: list[Update],
        exchanged: tuple[int, int],
        evaluation: Mapping[str, Any],
        seconds: float,
    ) -> None:
        """Turn what was recorded during a round into the rows of the artifact.

        Precisions and recalls are means over the selections of the round; a selection for which
        one of them is not defined is left out of its mean.

        Args:
            round: counted from 0.
            stage: the method's name for the stage that the round belongs to.
            counted: the number of local updates that the round counts for.
            updates: of the round.
            exchanged: bytes that all participants together received, and sent.
            evaluation: the results on the test part, by column;
                :data:`noisyfl.simulation.rounds.NOT_EVALUATED` if the round was not evaluated.
            seconds: that the round took.
        """
        records = self.records
        forward = sum(update.forward for update in updates)
        backward = sum(update.backward for update in updates)
        losses = [update.loss for update in updates if update.steps]
        known = all(client.truth_known for client in self.clients)
        right = int(torch.stack([(c.labels == c.true).sum() for c in self.clients]).sum())
        ends = [torch.stack(client.labels.aminmax()) for client in self.clients if len(client)]
        low, high = torch.stack(ends).flatten().aminmax()
        if low < 0 or high >= self.classes:
            raise BadInput(
                f"client.labels: got numbers from {int(low)} to {int(high)}, expected classes, "
                f"from 0 to {self.classes - 1}"
            )
        records.counted += counted
        records.rounds.append(
            {
                "round": round + 1,
                "ordinary_rounds": records.counted / self.participants,
                "stage": stage,
                "participants": len(updates),
                **evaluation,
                "train_loss": mean_or_nan(losses),
                **Selection.means([selection for _, selection in records.selections]),
                "label_accuracy": right / sum(map(len, self.clients)) if known else math.nan,
                "participants_noise_level": mean_or_nan([u.client.noise_level for u in updates]),
                "bytes_down": exchanged[0] + records.down,
                "bytes_up": exchanged[1] + records.up,
                "samples_forward": forward + records.forward,
                "samples_backward": backward + records.backward,
                "seconds": seconds,
            }
        )
        for client in {number for number, _ in records.selections}:
            own = [selection for number, selection in records.selections if number == client]
            records.estimates[client].update(Selection.means(own))
        for client, estimates in sorted(records.estimates.items()):
            records.clients.append({"round": round + 1, "client": client, **estimates})
        if records.ledger is not None:
            records.ledger.close_round(round, self.clients)
        records.forget_notes()


def _on_host(value: Any) -> Any:
    if isinstance(value, dict):
        return {name: _on_host(part) for name, part in value.items()}
    return value.cpu() if isinstance(value, torch.Tensor) and value.numel() >= LARGE else value
