"""The ledger: what a run found of each sample's given label, if that is to be kept.

It takes what methods report (which samples they select, which labels they learn instead), and looks
at the method's models itself: at most :data:`LOOKS` times in the second half of the run, each model
predicts the samples of the clients that did not take part in its round. It computes with streams of
its own, so that a run with a ledger has the same results as one without.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import torch
from torch import Tensor

from noisyfl.simulation.outputs import Predictor

if TYPE_CHECKING:
    from noisyfl.simulation.client_side import ClientSide
    from noisyfl.simulation.clients import Client
    from noisyfl.simulation.federation import Federation
    from noisyfl.simulation.server_side import ServerSide

LOOKS = 20
"""Most rounds whose models predict the samples."""

NONE = -1
"""In place of a label or a flag that there is not."""


def rounds_to_look_at(total: int) -> set[int]:
    """The rounds, counted from 0, whose models predict: evenly spread over the second half."""
    half = range(total // 2, total)
    count = min(LOOKS, len(half))
    return {half[(place * len(half)) // count] for place in range(count)}


class Ledger:
    """What is found of all samples, client after client.

    Args:
        clients: of the federation.
        classes: how many.

    Attributes:
        state: tensors on the host, [samples] but for the first, which are replaced and never
            written to. ``probability`` [samples, classes] is the sum of the predicted probabilities
            and ``looks`` of how many models; ``in_sample`` whether these models were trained on the
            client's labels in their last round; ``judged`` how often the method selected among the
            client's samples, and ``judged_in`` the last round of that, counted from 1, 0 for none;
            ``selected`` how often it selected this one, ``last_selected`` whether it did the last
            time (-1: it never judged); ``reported`` the label that it last reported (-1: none);
            ``label`` what it learns, and ``relabelled_in`` the round in which that changed last, 0
            for none.
    """

    def __init__(self, clients: list[Client], classes: int) -> None:
        self.sizes = [len(client) for client in clients]
        given = torch.cat([client.given.cpu() for client in clients])
        self.skew = class_skew([client.given.cpu() for client in clients], classes)
        zero = torch.zeros_like(given)
        self.state = {
            "probability": torch.zeros(len(given), classes),
            "looks": zero,
            "in_sample": zero,
            "judged": zero,
            "judged_in": zero,
            "selected": zero,
            "last_selected": torch.full_like(given, NONE),
            "reported": torch.full_like(given, NONE),
            "label": given,
            "relabelled_in": zero,
        }
        self._selections: list[tuple[int, Tensor]] = []
        self._labels: dict[int, Tensor] = {}
        self._seen: dict[int, Tensor] = {}
        self._inside: set[int] = set()

    def select(self, client: Client, flags: Tensor) -> None:
        """Note which samples a client's method selected as clean: bool [samples]."""
        self._selections.append((client.id, flags.cpu()))

    def relabel(self, client: Client, labels: Tensor) -> None:
        """Note the labels that a client's method learns: int64 [samples], -1 for its own."""
        self._labels[client.id] = labels.cpu()

    def forget(self) -> None:
        """Forget the notes of the round under way."""
        self._selections.clear()
        self._labels.clear()
        self._seen.clear()
        self._inside.clear()

    def look(
        self,
        round: int,
        total: int,
        participants: list[Client],
        server: ServerSide,
        side: ClientSide,
        federation: Federation,
    ) -> None:
        """Let the round's models predict the samples of the clients that did not take part in it,
        if it is one of :func:`rounds_to_look_at`; after the last round, also those of clients that
        took part in all of these.

        Args:
            round: counted from 0.
            total: the number of rounds.
            participants: of the round.
            server: the method's server side.
            side: the method's client side.
            federation: with the round's global model.
        """
        if round in rounds_to_look_at(total):
            inside = {client.id for client in participants}
            models = server.predictors(federation)
            for client in federation.clients:
                # A model of the client's own was trained on its labels in any round.
                if client.id not in inside and not _are_personal(models):
                    self._seen[client.id] = self._predicted(client, models, side, federation)
        if round == total - 1:
            models = server.predictors(federation)
            looked = torch.split(self.state["looks"], self.sizes)
            for client, looks in zip(federation.clients, looked, strict=True):
                if client.id not in self._seen and not bool(looks.any()):
                    self._seen[client.id] = self._predicted(client, models, side, federation)
                    self._inside.add(client.id)

    def close_round(self, round: int, clients: list[Client]) -> None:
        """Enter the notes of a round, which is counted from 0, and the labels after it."""
        parts = {name: list(torch.split(value, self.sizes)) for name, value in self.state.items()}
        for number, flags in self._selections:
            parts["judged"][number] = parts["judged"][number] + 1
            parts["selected"][number] = parts["selected"][number] + flags
            parts["last_selected"][number] = flags.long()
            parts["judged_in"][number] = torch.full_like(flags.long(), round + 1)
        for number, probability in self._seen.items():
            parts["probability"][number] = parts["probability"][number] + probability
            parts["looks"][number] = parts["looks"][number] + 1
        for number in self._inside:
            parts["in_sample"][number] = parts["in_sample"][number] + 1
        for number, labels in self._labels.items():
            parts["reported"][number] = labels
        for client in clients:
            label, before = client.labels.cpu(), parts["label"][client.id]
            reported = parts["reported"][client.id]
            label = torch.where(reported == NONE, label, reported)
            changed = parts["relabelled_in"][client.id].masked_fill(label != before, round + 1)
            parts["label"][client.id], parts["relabelled_in"][client.id] = label, changed
        self.state = {name: torch.cat(values) for name, values in parts.items()}
        self.forget()

    def _predicted(
        self, client: Client, models: list[Predictor], side: ClientSide, federation: Federation
    ) -> Tensor:
        """The probabilities that a model predicts for a client's samples, [samples, classes].

        The federation's model has learnt how frequent each class is among all clients. These
        frequencies are replaced by the client's own (Saerens, Latinne and Decaestecker, Neural
        Computation 2002).
        """
        model = _model_of(client, models)
        outputs = federation.look(client, model.weights, side.networks)
        probability = side.predict(outputs, model.client).softmax(1).float().cpu()
        if _are_personal(models):
            return probability
        weighted = probability * self.skew[client.id]
        return weighted / weighted.sum(1, keepdim=True)


def class_skew(given: Sequence[Tensor], classes: int) -> Tensor:
    """The frequency of each class among a client's given labels, divided by that among all clients'
    labels, [clients, classes]. So that no ratio is zero, as many samples as there are classes are
    added to each client, with the frequencies of all clients.

    Args:
        given: the given labels of each client, int64 [samples].
    """
    counts = torch.stack([torch.bincount(labels, minlength=classes) for labels in given]).float()
    pooled = counts.sum(0) / counts.sum()
    ratio = counts / pooled.where(pooled > 0, 1)
    return (ratio + classes) / (counts.sum(1, keepdim=True) + classes)


def _are_personal(models: list[Predictor]) -> bool:
    """Whether each client has a model of its own; a single one may name any client, with whose help
    it predicts.
    """
    return len(models) > 1


def _model_of(client: Client, models: list[Predictor]) -> Predictor:
    """The model that predicts a client's samples: its own, or the federation's."""
    own = [model for model in models if model.client is not None and model.client.id == client.id]
    return (own or [model for model in models if model.client is None] or models)[0]
