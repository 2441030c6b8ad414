"""The client side of a method: what a local update minimises.

The base class minimises plain cross-entropy on the labels. A side is a frozen component: its fields
are the hyperparameters. What changes during a run is kept in the federation and its clients, which
checkpoints save.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable
from dataclasses import dataclass, replace
from operator import attrgetter
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, Literal

import numpy as np
from pydantic import Field
from torch import Tensor

from noisyfl.core.options import BadInput, kind_of
from noisyfl.core.randomness import stream, torch_seed
from noisyfl.core.registry import Component
from noisyfl.simulation.clients import Client
from noisyfl.simulation.losses import cross_entropy
from noisyfl.simulation.model import LocalModel
from noisyfl.simulation.outputs import Outputs
from noisyfl.simulation.returned import check_tensor
from noisyfl.simulation.schedule import Schedule
from noisyfl.simulation.updates import Batch, Epoch, Memory, Update, batches, check_positions
from noisyfl.simulation.weights import Weights

if TYPE_CHECKING:
    from noisyfl.simulation.federation import Federation


@dataclass(frozen=True)
class Turn:
    """One local epoch of one client, before it starts.

    Attributes:
        stage: the name of the round's stage.
        number: of the epoch in the round, from 0.
        outputs: a function that returns the outputs of the current local model on all of the
            client's samples, in evaluation mode. It takes the purpose, which names the random
            stream of the view, the number of the network, and the kind of the view, as in
            :class:`noisyfl.simulation.outputs.Pass`.
        repeat: see :attr:`noisyfl.simulation.updates.Task.repeat`.
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
        """A seed for torch's own generator, also the turn's own for a purpose."""
        return torch_seed(self.seed, *self._name(purpose))

    def _name(self, purpose: str) -> tuple[str | int, ...]:
        again = (self.repeat,) if self.repeat else ()
        return (purpose, self.round, self.client, self.number, *again)


@dataclass(frozen=True)
class Cost:
    """What a method costs beside FedAvg, from which a run's time and memory are estimated.

    Attributes:
        effort: the seconds of a round, divided by those of FedAvg with as many networks.
        models_kept: the most models that the method keeps for every client between rounds.
    """

    effort: float = 1.0
    models_kept: int = 0


class Side(Component):
    """What client sides and server sides both declare.

    Attributes:
        reference: where the method comes from.
        networks: how many networks a model of this method has.
        cost: for estimates.
        is_server: whether the method has a server side.
        is_client: whether the method has a client side.
        needs_truth: whether the method has to know the true labels.
        needs_sgd: whether what the method computes holds for SGD alone.
        needs_level: options that stand for the true noise level, each with the value with which it
            does.
        least_participants: how many participants the method needs in a round.
        partner: the kind of side that may stand behind it in a combination, ``client`` or
            ``server``; empty for none.
        own_batches: whether it decides the batches of a local epoch itself.
        predicts_by_features: whether a client side's :meth:`ClientSide.predict` reads features; if
            not, it may be given features of width 0.
        pools_samples: whether it begins by giving all clients' samples to one.
        cannot_wrap: which methods it cannot be combined with, by the attribute that they declare;
            for each, why.
    """

    reference: ClassVar[Annotated[str, Field(min_length=1)]]
    networks: ClassVar[Annotated[int, Field(ge=1)]] = 1
    cost: ClassVar[Cost] = Cost()
    is_server: ClassVar[bool] = False
    is_client: ClassVar[bool] = False
    needs_truth: ClassVar[bool] = False
    needs_sgd: ClassVar[bool] = False
    needs_level: ClassVar[dict[str, Any]] = {}
    least_participants: ClassVar[Annotated[int, Field(ge=1)]] = 1
    partner: ClassVar[Literal["", "client", "server"]] = ""
    own_batches: ClassVar[bool] = False
    predicts_by_features: ClassVar[bool] = False
    pools_samples: ClassVar[bool] = False
    cannot_wrap: ClassVar[dict[Literal["models_kept", "own_batches", "pools_samples"], str]] = {}

    def stage_starts(self, federation: Federation) -> dict[str, int]:
        """The parts of the method that do not begin with the first round: for each, by its name,
        the round that it begins in, counted from 0.

        Like the number of rounds and their local epochs, this is asked for before the federation
        has data.
        """
        return {}


class ClientSide(Side):
    """What a local update minimises, written for one client and one batch.

    Attributes:
        by_sample: the entries of :meth:`memory` whose first axis is the client's samples. While the
            client trains, an executor may make them longer, so that steps of clients of all sizes
            have the same shapes; a step may read and write them only at the positions of its batch.
    """

    is_client: ClassVar[bool] = True
    by_sample: ClassVar[tuple[str, ...]] = ()

    def __init_subclass__(cls, **more: Any) -> None:
        super().__init_subclass__(**more)
        cls.own_batches = cls.epoch is not ClientSide.epoch

    def before_round(self, round: int, participants: list[Client], federation: Federation) -> None:
        """Do what the method does before the round's participants train, such as passes over their
        samples; by default nothing.
        """

    def received(self, client: Client, weights: Weights, federation: Federation) -> Weights:
        """The model that a local update starts from, given what the server sent."""
        return weights

    def local_schedule(self, round: int, schedule: Schedule) -> Schedule:
        """The schedule of a round's local updates: its epochs, learning rate, momentum.

        Args:
            round: counted from 0.
            schedule: the run's, with the learning rate of this round.
        """
        return schedule

    def epochs_of_round(self, round: int, schedule: Schedule) -> int:
        """Epochs of a round's local updates, for each network."""
        return self.local_schedule(round, schedule).local_epochs

    def memory(self, client: Client, federation: Federation) -> Memory:
        """What :attr:`Batch.memory` holds when a local update starts."""
        return {}

    def positions(self, client: Client) -> np.ndarray:
        """The samples that a local update trains on: int64 [n], positions among the client's own.

        Positions, not flags: of flags, bool [samples], ``np.flatnonzero`` makes them.
        """
        return np.arange(len(client))

    def epoch(self, client: Client, turn: Turn) -> Epoch:
        """Decide one local epoch."""
        positions = self.positions(client)
        check_positions(positions, len(client), f"{type(self).__name__}.positions")
        steps = batches(positions, turn.batch_size, turn.random_stream("batches"))
        return Epoch(steps, client.labels)

    def loss(self, model: LocalModel, batch: Batch) -> Tensor:
        """The scalar that a step descends on.

        It must depend on nothing but the model and the batch, and must not branch on the values of
        tensors, since an executor may trace it once and repeat it. Where that is not possible, the
        epoch has to say so (:attr:`Epoch.repeatable`).
        """
        logits = model(batch.images).logits
        losses = self.losses(logits, batch.target)
        check_tensor(losses, logits.shape[:1], "losses", "the loss of each sample")
        return losses.mean()

    def losses(self, logits: Tensor, target: Tensor) -> Tensor:
        """The loss of each sample, [batch], from logits [batch, classes] and labels ``target``
        [batch]: their cross-entropy.
        """
        return cross_entropy(logits, target)

    def size(self, client: Client) -> float:
        """What a local update counts for when the server averages, asked after it."""
        return float(len(self.positions(client)))

    def after_updates(self, round: int, updates: list[Update], federation: Federation) -> None:
        """Keep what the participants need later of their local updates; by default nothing."""

    def predict(self, outputs: list[Outputs], client: Client | None) -> Tensor:
        """The logits, [samples, classes], that a model predicts with when it is tested.

        Args:
            client: the client whose model it is; None if it is not a single client's.
        """
        return outputs[0].logits

    def centroids(self, federation: Federation) -> Tensor | None:
        """The global centroids of the classes' features that the method keeps, [classes, width]:
        zeros for a centroid that is not known yet; None if the method keeps none. They are looked
        up in the federation's state, under ``centroids``.
        """
        return federation.state.get("centroids")


class ClientSideWrapper(ClientSide):
    """A client side that passes each hook to another client side, unless a subclass overrides it.

    Attributes:
        side: the wrapped client side.
    """

    side: ClientSide


def _passed_on(name: str) -> Callable[..., Any]:
    def call(self: ClientSideWrapper, *given: Any) -> Any:
        return getattr(self.side, name)(*given)

    # That of the hook, with which a subclass's functions are compared.
    vars(call)["__signature__"] = inspect.signature(getattr(ClientSide, name))
    return call


for _name in (*vars(ClientSide), "stage_starts"):
    if inspect.isfunction(getattr(ClientSide, _name)) and _name[0] != "_":
        setattr(ClientSideWrapper, _name, _passed_on(_name))
for _name in ("networks", "by_sample", "predicts_by_features"):
    setattr(ClientSideWrapper, _name, property(attrgetter(f"side.{_name}")))


def epoch_of(side: ClientSide, client: Client, turn: Turn, fewest: int = 1) -> Epoch:
    """An epoch as a client side decides it, without steps of fewer images than the networks can be
    trained on.

    Raises:
        BadInput: it is none, or has no target for each of the client's samples.
    """
    epoch = side.epoch(client, turn)
    if not isinstance(epoch, Epoch):
        raise BadInput(f"epoch: got {kind_of(epoch)}, expected an Epoch")
    if len(epoch.targets) != len(client):
        raise BadInput(
            f"Epoch.targets: got {kind_of(epoch.targets)}, expected one for each of the client's "
            f"{len(client)} samples"
        )
    taken = [number for number, step in enumerate(epoch.steps) if len(step) >= fewest]
    if len(taken) < len(epoch.steps):
        steps = [epoch.steps[number] for number in taken]
        extras = {
            name: [values[number] for number in taken] for name, values in epoch.extras.items()
        }
        epoch = replace(epoch, steps=steps, extras=extras)
    return epoch
