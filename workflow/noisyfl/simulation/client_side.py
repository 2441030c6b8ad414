"""The client side of a method: what a local update minimises.

As it stands here it is plain cross-entropy on the labels. A side is a frozen component: its fields
are the hyperparameters. What changes during a run lives in the federation and its clients, where a
checkpoint finds it.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np
from torch import Tensor

from noisyfl.core.randomness import stream, torch_seed
from noisyfl.simulation.losses import cross_entropy
from noisyfl.simulation.model import Model
from noisyfl.simulation.schedule import Schedule
from noisyfl.simulation.types import Batch, Client, Epoch, Memory, Outputs, Update, Weights, batches

if TYPE_CHECKING:
    from noisyfl.simulation.federation import Federation


@dataclass(frozen=True)
class Turn:
    """One local epoch of one client, before it starts.

    Attributes:
        stage: the name of the round's stage.
        number: of the epoch in the round, from 0.
        outputs: what the local model, as it stands, says of all of the client's samples, in
            evaluation mode; called with the purpose that names the random stream of the view, the
            number of the network and the kind of the view, as in
            :class:`noisyfl.simulation.types.Pass`.
        repeat: see :attr:`noisyfl.simulation.types.Task.repeat`.
    """

    seed: int
    round: int
    stage: str
    client: int
    number: int
    batch_size: int
    outputs: Callable[[str, int, str], Outputs]
    repeat: int = 0

    def random_stream(self, purpose: str) -> np.random.Generator:
        """The turn's own random stream for a purpose."""
        return stream(self.seed, *self._name(purpose))

    def torch_seed(self, purpose: str) -> int:
        """The same for what draws from torch's own generator."""
        return torch_seed(self.seed, *self._name(purpose))

    def _name(self, purpose: str) -> tuple[str | int, ...]:
        again = (self.repeat,) if self.repeat else ()
        return (purpose, self.round, self.client, self.number, *again)


class Side:
    """What both sides declare.

    Attributes:
        name: set by the registry.
        revision: raised when the arithmetic changes; runs of older revisions go stale.
        reference: where the method comes from.
        variants: named sets of options, as the papers' ablations have them.
        small: options with which the method gets to all that it is about in eight rounds, which
            the tests that run every method give it.
        networks: how many networks a model of this method has.
        effort: seconds of a round over those of FedAvg with as many networks; for estimates.
        models_kept: models that the method keeps for every client between rounds; for estimates.
        is_server: whether there is a server side.
        is_client: whether there is a client side.
        needs_truth: whether it has to know the true labels.
        least_participants: how many it takes in a round.
        partner: the kind of side that may stand behind it in a combination, ``client`` or
            ``server``; empty for none.
        own_batches: whether it decides the batches of a local epoch itself.
        refuses: what may not stand behind it, by what that declares (``models_kept``,
            ``own_batches``): ``why``, and for which values of its own options, ``when``.
    """

    name: ClassVar[str]
    revision: ClassVar[int] = 1
    reference: ClassVar[str]
    variants: ClassVar[dict[str, dict]] = {}
    small: ClassVar[dict] = {}
    networks: ClassVar[int] = 1
    effort: ClassVar[float] = 1.0
    models_kept: ClassVar[int] = 0
    is_server: ClassVar[bool] = False
    is_client: ClassVar[bool] = False
    needs_truth: ClassVar[bool] = False
    least_participants: ClassVar[int] = 1
    partner: ClassVar[str] = ""
    own_batches: ClassVar[bool] = False
    refuses: ClassVar[dict[str, dict]] = {}

    def later(self, federation: Federation) -> dict[str, int]:
        """What of the method does not happen from the first round on: by what it is called, the
        round that it begins in, counted from 0.

        Asked, as the rounds and their local epochs are, before the federation has data.
        """
        return {}


class ClientSide(Side):
    """What a local update minimises, written for one client and one batch.

    Attributes:
        by_sample: the entries of :meth:`memory` whose first axis is the client's samples. While the
            client trains an executor may make them longer, so that it does the same for clients of
            all sizes; a step reads and writes there at the positions of its batch alone.
    """

    is_client: ClassVar[bool] = True
    by_sample: ClassVar[tuple[str, ...]] = ()

    def __init_subclass__(cls, **more: Any) -> None:
        super().__init_subclass__(**more)
        cls.own_batches = cls.epoch is not ClientSide.epoch

    def before_round(self, round: int, participants: list[Client], federation: Federation) -> None:
        """Whatever the round's participants find out before they train, by passes.

        Args:
            round: counted from 0.
            participants: of the round, in the order in which they were drawn.
            federation: of the run.
        """

    def received(self, client: Client, weights: Weights, federation: Federation) -> Weights:
        """The model that a local update starts from, given what the server sent.

        Args:
            client: who trains.
            weights: what the server sent.
            federation: of the run.
        """
        return weights

    def local_schedule(self, round: int, schedule: Schedule) -> Schedule:
        """The schedule of a round's local updates: its epochs, learning rate, momentum."""
        return schedule.in_round(round)

    def epochs_of_round(self, round: int, schedule: Schedule) -> int:
        """Epochs of a round's local updates, for each network."""
        return self.local_schedule(round, schedule).local_epochs

    def memory(self, client: Client, federation: Federation) -> Memory:
        """What :attr:`Batch.memory` holds when a local update starts."""
        return {}

    def positions(self, client: Client) -> np.ndarray:
        """The samples that a local update trains on: positions among the client's own."""
        return np.arange(len(client))

    def epoch(self, client: Client, turn: Turn) -> Epoch:
        """Decide one local epoch."""
        steps = batches(self.positions(client), turn.batch_size, turn.random_stream("batches"))
        return Epoch(steps, client.labels)

    def loss(self, model: Model, batch: Batch) -> Tensor:
        """The scalar that a step descends on.

        It depends on the batch alone, without a branch on a tensor's values: an executor may trace
        it once and repeat it. An epoch that cannot have that says so (:attr:`Epoch.repeatable`).
        """
        return self.losses(model(batch.images).logits, batch.target).mean()

    def losses(self, logits: Tensor, target: Tensor) -> Tensor:
        """[batch], what logits [batch, classes] cost where ``target`` [batch] holds labels: their
        cross-entropy.
        """
        return cross_entropy(logits, target)

    def size(self, client: Client) -> float:
        """What a local update counts for when the server averages, asked after it."""
        return float(len(self.positions(client)))

    def after_updates(self, round: int, updates: list[Update], federation: Federation) -> None:
        """Whatever the participants keep of their local updates.

        Args:
            round: counted from 0.
            updates: one a participant, in the order of the participants.
            federation: of the run.
        """

    def predict(self, outputs: list[Outputs], client: Client | None) -> Tensor:
        """[samples, classes], the logits that a model is tested by.

        Args:
            outputs: of each of its networks.
            client: whose model it is, if it is one client's.
        """
        return outputs[0].logits

    def centroids(self, federation: Federation) -> Tensor | None:
        """[classes, width], the global centroids of the classes' features that the method keeps;
        zeros where one is not known yet, None if it keeps none. They are looked for in the
        federation's state, under ``centroids``.
        """
        return federation.state.get("centroids")
