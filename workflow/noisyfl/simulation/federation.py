"""The federation: its clients, the global model, and what is written down about each round."""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, fields
from typing import Any

import numpy as np
import pyarrow as pa
import torch

from noisyfl.core.randomness import stream
from noisyfl.data.noisy_partition import NoisyPartition
from noisyfl.simulation.schedule import Schedule
from noisyfl.simulation.types import Client, Executor, Outputs, Pass, Task, Update, Weights

ROUND_COLUMNS = {
    "round": pa.int64(),
    "ordinary_rounds": pa.float64(),
    "stage": pa.string(),
    "participants": pa.int64(),
    "test_accuracy": pa.float64(),
    "test_top5_accuracy": pa.float64(),
    "test_balanced_accuracy": pa.float64(),
    "test_loss": pa.float64(),
    "train_loss": pa.float64(),
    "label_precision": pa.float64(),
    "label_recall": pa.float64(),
    "noise_detection_precision": pa.float64(),
    "noise_detection_recall": pa.float64(),
    "label_accuracy": pa.float64(),
    "participants_noise_level": pa.float64(),
    "bytes_down": pa.int64(),
    "bytes_up": pa.int64(),
    "samples_forward": pa.int64(),
    "samples_backward": pa.int64(),
    "seconds": pa.float64(),
    "confusion": pa.list_(pa.int64()),
}
"""The columns of ``rounds``, which every run has; docs/artifacts.md says what they mean."""

CLIENT_COLUMNS = {
    "round": pa.int64(),
    "client": pa.int64(),
    "label_precision": pa.float64(),
    "label_recall": pa.float64(),
    "noise_detection_precision": pa.float64(),
    "noise_detection_recall": pa.float64(),
}
"""The columns that ``clients`` always has; a method's estimates follow."""

PARTICIPANTS = "participants"
"""In the federation's state: the ids of the last round's participants."""

FULL = 0.6
"""Share of the memory that a run may use of a GPU from which on clients' states go to the host."""

LARGE = 2**18
"""Numbers in a tensor that is worth moving."""


class Federation:
    """All that lives during a run. A checkpoint of it is a checkpoint of the run.

    Attributes:
        clients: every client, at the index of its id.
        weights: the global model.
        state: what the server side keeps between rounds.
        participants: clients in an ordinary round.
        round: the one under way or, between rounds, the last one; counted from 0.
    """

    def __init__(
        self,
        partition: NoisyPartition,
        schedule: Schedule,
        seed: int,
        executor: Executor,
        weights: Weights,
    ) -> None:
        self.schedule = schedule
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

    @property
    def classes(self) -> int:
        """How many classes there are."""
        return len(self.weights["0.classifier.weight"])

    def passes(self, requests: list[Pass], round: int) -> list[Outputs]:
        """Run the passes that a method asks for, and count them."""
        self.records.forward += sum(len(request.client) for request in requests)
        return self.executor.passes(requests, round)

    def outputs_of(self, images: torch.Tensor, weights: Weights, network: int = 0) -> Outputs:
        """Run a model on images of the method's own, normalised, and count it.

        Args:
            images: float [n, channels, height, width].
            weights: of the model.
            network: which of the model's networks.
        """
        self.records.forward += len(images)
        return self.executor.outputs_of(images, weights, network)

    def random_image(self) -> torch.Tensor:
        """[1, channels, height, width], standard normal noise as one normalised image: every model
        of a trial is shown the same (FedRN, Eq. 5).
        """
        shape = (1, *self.executor.test.shape)
        return torch.from_numpy(stream(self.seed, "random image").standard_normal(shape))

    def train(self, tasks: list[Task], side: Any, round: int, stage: str) -> list[Update]:
        """Make local updates that a method asks for beside the round's own, and count them.

        Args:
            tasks: what to train.
            side: the client side; a client's random streams are those of its own local update.
            round: counted from 0.
            stage: what the side is told.
        """
        updates = self.executor.local_updates(tasks, side, round, stage)
        self.records.forward += sum(update.forward for update in updates)
        self.records.backward += sum(update.backward for update in updates)
        return updates

    def exchange(self, down: int = 0, up: int = 0) -> None:
        """Count bytes of this round beside those that the server side counts."""
        self.records.down += down
        self.records.up += up

    def make_room(self) -> None:
        """Move the large things that a method keeps on clients to the host once a GPU fills up.

        Whoever reads them copies them to where they are needed.
        """
        device = self.executor.device
        if device.type != "cuda":
            return
        total = torch.cuda.get_device_properties(device).total_memory
        share = torch.cuda.get_per_process_memory_fraction(device)
        if torch.cuda.memory_allocated(device) < FULL * share * total:
            return
        for client in self.clients:
            client.state = {name: _on_host(value) for name, value in client.state.items()}

    def standing(self) -> Standing:
        """All that a round changes, for :meth:`put_back`; tensors are not copied."""
        clients = [(client.labels, dict(client.state)) for client in self.clients]
        return Standing(self.weights, dict(self.state), clients)

    def put_back(self, standing: Standing) -> None:
        """Take back what was changed since, and the notes of the round under way."""
        self.weights, self.state = standing.weights, dict(standing.state)
        for client, (labels, state) in zip(self.clients, standing.clients, strict=True):
            client.labels, client.state = labels, dict(state)
        self.records.forget_notes()

    @contextmanager
    def aside(self) -> Iterator[None]:
        """What is done within counts nothing, and when the block ends it has changed nothing.

        As in a round, what is changed is replaced, and no tensor is written in place.
        """
        standing, records = self.standing(), self.records
        self.records = Records()
        try:
            yield
        finally:
            self.records = records
            self.put_back(standing)

    def add_to_last_round(self, measured: Mapping[int, Mapping[str, Any]]) -> None:
        """Add columns to the last round's rows of clients; a client that has no row gets one.

        Args:
            measured: by client, values by column.
        """
        last = self.records.rounds[-1]["round"]
        before = [row for row in self.records.clients if row["round"] != last]
        rows = {row["client"]: row for row in self.records.clients if row["round"] == last}
        for client, values in measured.items():
            rows[client] = {"round": last, "client": client, **rows.get(client, {}), **values}
        self.records.clients = before + [row for _, row in sorted(rows.items())]

    def report(self, client: Client, **estimates: float) -> None:
        """Write down what the method estimates of a client in this round."""
        self.records.estimates[client.id].update(estimates)

    def report_selection(self, client: Client, positions: torch.Tensor) -> None:
        """Write down which samples of a client the method takes for clean; the others it detects
        as noisy. A method that picks anew within a round calls it each time.

        They are held against the labels that the client now trains on: a label that was corrected
        before, and rightly, is clean. Where nobody knows the true labels nothing is written.

        Args:
            client: whose samples.
            positions: bool [samples].
        """
        if not client.truth_known:
            return
        selection = Selection.of(positions, client.labels == client.true)
        self.records.selections.append((client.id, selection))

    def close_round(
        self,
        round: int,
        stage: str,
        slots: int,
        updates: list[Update],
        exchanged: tuple[int, int],
        evaluation: Mapping[str, Any],
        seconds: float,
    ) -> None:
        """Turn what was written down during a round into the rows of the artifact.

        Precisions and recalls are means over the clients that selected (one without any sample
        to be right about is left out).

        Args:
            round: counted from 0.
            stage: what the method calls it.
            slots: local updates that it counts for.
            updates: of the round.
            exchanged: bytes that all participants together received, and sent.
            evaluation: by column, what the test part says of the new global model; empty if it was
                not asked.
            seconds: that the round took.
        """
        records = self.records
        forward = sum(update.forward for update in updates)
        backward = sum(update.backward for update in updates)
        losses = [update.loss for update in updates if update.steps]
        known = all(client.truth_known for client in self.clients)
        right = int(torch.stack([(c.labels == c.true).sum() for c in self.clients]).sum())
        records.slots += slots
        records.rounds.append(
            {
                "round": round + 1,
                "ordinary_rounds": records.slots / self.participants,
                "stage": stage,
                "participants": len(updates),
                **evaluation,
                "train_loss": _mean(losses),
                **Selection.means([selection for _, selection in records.selections]),
                "label_accuracy": right / sum(map(len, self.clients)) if known else math.nan,
                "participants_noise_level": _mean([u.client.noise_level for u in updates]),
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
        records.forget_notes()


@dataclass(frozen=True)
class Standing:
    """A federation between two rounds.

    Attributes:
        weights: the global model.
        state: what the server side keeps.
        clients: of each its labels and its state.
    """

    weights: Weights
    state: dict[str, Any]
    clients: list[tuple[torch.Tensor, dict[str, Any]]]


@dataclass(frozen=True)
class Selection:
    """How well a client's clean samples, and so its noisy ones, were told; NaN where there are no
    samples to tell it by.

    Attributes:
        label_precision: clean among the selected.
        label_recall: selected among the clean.
        noise_detection_precision: noisy among those left out.
        noise_detection_recall: left out among the noisy.
    """

    label_precision: float
    label_recall: float
    noise_detection_precision: float
    noise_detection_recall: float

    @classmethod
    def of(cls, selected: torch.Tensor, clean: torch.Tensor) -> Selection:
        """From what was selected and what is clean, bool [samples]."""
        counts = torch.stack([(selected & clean).sum(), selected.sum(), clean.sum()])
        hits, chosen, right = map(float, counts.tolist())
        total = len(clean)
        left_out, noisy = total - chosen, total - right
        caught = noisy - (chosen - hits)
        return cls(
            label_precision=hits / chosen if chosen else math.nan,
            label_recall=hits / right if right else math.nan,
            noise_detection_precision=caught / left_out if left_out else math.nan,
            noise_detection_recall=caught / noisy if noisy else math.nan,
        )

    @classmethod
    def means(cls, selections: Sequence[Selection]) -> dict[str, float]:
        """The mean of each share over the selections that have it."""
        return {
            share.name: _mean_of_known([getattr(selection, share.name) for selection in selections])
            for share in fields(cls)
        }


class Records:
    """The rows written so far, and the notes of the round under way."""

    def __init__(self) -> None:
        self.rounds: list[dict[str, Any]] = []
        self.clients: list[dict[str, Any]] = []
        self.slots = 0
        self.forward = 0
        self.backward = 0
        self.down = 0
        self.up = 0
        self.selections: list[tuple[int, Selection]] = []
        self.estimates: defaultdict[int, dict[str, float]] = defaultdict(dict)

    def forget_notes(self) -> None:
        """Start the notes of a round anew."""
        self.forward = self.backward = self.down = self.up = 0
        self.selections.clear()
        self.estimates.clear()


def _on_host(value: Any) -> Any:
    if isinstance(value, dict):
        return {name: _on_host(part) for name, part in value.items()}
    return value.cpu() if isinstance(value, torch.Tensor) and value.numel() >= LARGE else value


def _mean(values: list[float]) -> float:
    """The mean, or NaN (written as a null) of nothing."""
    return float(np.mean(values)) if values else math.nan


def _mean_of_known(values: list[float]) -> float:
    """The mean of the values that are not NaN."""
    return _mean([value for value in values if not math.isnan(value)])
