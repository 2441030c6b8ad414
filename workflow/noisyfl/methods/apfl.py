"""APFL (Deng et al., 2020): each client mixes the global model with one of its own.

Any method may stand behind it: its loss is applied to the model w that the server averages, and to
the mixture of w with the client's private model v. A model here has twice the partner's networks,
those of w first.

What a partner decides between steps (splits, targets, corrected labels) it decides by w, and both
learn by it.
"""

from __future__ import annotations

import dataclasses
from typing import ClassVar

import torch
from torch import Tensor

import noisyfl.method as fl

ALPHA = "apfl_alpha"
PRIVATE = "apfl_private"
RATE = "apfl_rate"
"""Keys of a client's state: its share of v in the mixture; v, by the names of its weights in a
model; and the rate at which the share changes in the round."""


class Personal(fl.ClientSideWrapper):
    """The client side of APFL, around another client side, its partner.

    Attributes:
        alpha: see :class:`Apfl`, also for the other two.
    """

    alpha: float
    adaptive: bool
    shrinkage: float

    def loss(self, model: fl.LocalModel, batch: fl.Batch) -> Tensor:
        """f(w) + f(alpha v + (1 - alpha) w), where f is the partner's loss. What is mixed are the
        outputs of v and w, and w is held fixed in the mixture.

        Once a round, the share alpha takes a step of gradient descent on the mixture's loss:
        alpha <- alpha - rate (df/dalpha + shrinkage alpha), kept between 0 and 1.
        """
        shared = self.side.loss(
            Subnetwork(model, 0, self.side.networks), batch_of_loss(batch, "shared ")
        )
        held = batch.memory[ALPHA]
        alpha = held.detach().clone().requires_grad_(self.adaptive)
        mixture = Mixture(model, self.side.networks, alpha)
        mixed = self.side.loss(mixture, batch_of_loss(batch, "private "))
        if self.adaptive:
            (slope,) = torch.autograd.grad(mixed, [alpha], retain_graph=True)
            with torch.no_grad():
                rate = batch[RATE]
                changed = alpha - rate * (slope + self.shrinkage * alpha)
                held.copy_(torch.where(rate > 0, changed, alpha).clamp(0, 1))
        return shared + mixed

    # ---------------------------------------------------------------- around the loss

    def before_round(
        self, round: int, participants: list[fl.Client], federation: fl.Federation
    ) -> None:
        """Call the partner's, and set how fast the participants' shares change."""
        self.side.before_round(round, participants, federation)
        rate = self.local_schedule(round, federation.schedule).learning_rate
        for client in participants:
            client.state[RATE] = rate

    def received(
        self, client: fl.Client, weights: fl.Weights, federation: fl.Federation
    ) -> fl.Weights:
        """w as the partner starts from it, together with the client's v; at first, v equals w."""
        start = self.side.received(client, weights, federation)
        private = client.state.get(PRIVATE) or private_copy(start)
        return {
            **start,
            **{name: fl.to_device(value, start[name].device) for name, value in private.items()},
        }

    @property
    def by_sample(self) -> tuple[str, ...]:  # type: ignore[override]
        """The partner's entries, once for w and once for the mixture."""
        return tuple(
            f"{kind} {name}" for kind in ("shared", "private") for name in self.side.by_sample
        )

    def memory(self, client: fl.Client, federation: fl.Federation) -> fl.Memory:
        """The partner's memory, once for w and once for the mixture; the client's share of v."""
        held = self.side.memory(client, federation)
        return {
            **{f"shared {name}": value for name, value in held.items()},
            **{f"private {name}": value for name, value in held.items()},
            ALPHA: torch.tensor(float(client.state.get(ALPHA, self.alpha))),
        }

    def epoch(self, client: fl.Client, turn: fl.Turn) -> fl.Epoch:
        """The partner's epoch, for both w and v; the share changes in the round's first step."""
        epoch = self.side.epoch(client, turn)
        rates = [0.0] * len(epoch.steps)
        if turn.number == 0:
            rates[:1] = [float(client.state[RATE])]
        learns = epoch.learns
        if learns:
            names = (learns,) if isinstance(learns, str) else learns
            learns = (*names, *(shifted_name(name, self.side.networks) for name in names))
        extras = {**epoch.extras, RATE: rates}
        return dataclasses.replace(epoch, extras=extras, learns=learns)

    def after_updates(
        self, round: int, updates: list[fl.Update], federation: fl.Federation
    ) -> None:
        """Call the partner's with the memory of w; keep each participant's v and its share."""
        of_partner = [
            dataclasses.replace(u, memory=entries_of(u.memory, "shared ")) for u in updates
        ]
        self.side.after_updates(round, of_partner, federation)
        for update, inner in zip(updates, of_partner, strict=True):
            update.weights = inner.weights
            state = update.client.state
            state[ALPHA] = float(update.memory[ALPHA])
            state[PRIVATE] = halves(update.weights)[1]
            federation.report(update.client, mixing_share=state[ALPHA])

    def predict(self, outputs: list[fl.Outputs], client: fl.Client | None) -> Tensor:
        """The partner's prediction from the client's mixture, or from w if no client is named."""
        count = self.side.networks
        shared, private = outputs[:count], outputs[count:]
        if client is None:
            return self.side.predict(shared, None)
        alpha = float(client.state.get(ALPHA, self.alpha))
        mixed = [mix(alpha, v, w) for v, w in zip(private, shared, strict=True)]
        return self.side.predict(mixed, client)


@fl.METHODS.register("apfl")
class Apfl(fl.ServerSide, Personal):
    """The server averages w alone; every client's mixture is tested.

    If no other method stands behind it, the client side is around FedAvg's.
    """

    reference = "Deng et al., Adaptive Personalized Federated Learning, arXiv 2003.13461"

    alpha: float = fl.option(
        0.5, doc="share of the private model in the mixture, at first", at_least=0, at_most=1
    )
    adaptive: bool = fl.option(
        True, doc="change the share by gradient descent, once a round (paper); off in the code"
    )
    shrinkage: float = fl.option(
        0.0,
        doc="times alpha, added to its gradient where the share is adaptive (code: 0.02)",
        at_least=0,
    )

    variants: ClassVar = {
        "code": {"adaptive": False, "shrinkage": 0.02},
    }

    side: ClassVar[fl.ClientSide] = fl.ClientSide()  # type: ignore[misc]
    networks = 2
    predicts_by_features = False
    cost = fl.Cost(effort=1.2, models_kept=1)
    cannot_wrap: ClassVar = {"models_kept": "keeps models of its own, and apfl cannot mix those"}

    def with_partner(self, partner: fl.Side) -> tuple[fl.ServerSide, fl.ClientSide]:
        """This server side, and a client side with the partner's loss on w and on the mixture."""
        assert isinstance(partner, fl.ClientSide)
        return self, Wrapped(
            side=partner, alpha=self.alpha, adaptive=self.adaptive, shrinkage=self.shrinkage
        )

    def aggregate(self, updates: list[fl.Update], federation: fl.Federation) -> fl.Weights:
        """FedAvg's mean of w. The values of v in the global model have no meaning."""
        sent = [dataclasses.replace(u, weights=halves(u.weights)[0]) for u in updates]
        return {**federation.weights, **super().aggregate(sent, federation)}

    def exchange(self, updates: list[fl.Update], federation: fl.Federation) -> tuple[int, int]:
        """The bytes of w for each participant, both ways."""
        size = fl.size_in_bytes(halves(federation.weights)[0]) * len(updates)
        return size, size

    def predictors(self, federation: fl.Federation) -> list[fl.Predictor]:
        """Every client's v with the newest w; for a client that never trained, v equals w."""
        start = private_copy(federation.weights)
        return [
            fl.Predictor({**federation.weights, **client.state.get(PRIVATE, start)}, client)
            for client in federation.clients
        ]

    def passes_of_test(self, changed: float) -> float:
        """The mean of one pass for the networks of w and, for those of v, one for each client whose
        v is a new one.
        """
        return (1 + changed) / 2


class Wrapped(Personal):
    """:class:`Personal` wrapped around a partner."""

    side: fl.ClientSide

    name = "apfl"

    @property
    def networks(self) -> int:  # type: ignore[override]
        """Twice the partner's."""
        return 2 * self.side.networks


# ---------------------------------------------------------------- parts of a model


class Subnetwork(fl.LocalModel):
    """Some networks of a model, presented as a model of their own.

    Args:
        count: how many networks it has.
    """

    def __init__(self, model: fl.LocalModel, first: int, count: int) -> None:
        self._whole = model
        self._first = first
        names = {
            shifted_name(name, -first): name
            for name in model.weights
            if first <= network_of(name) < first + count
        }
        self.weights = {own: model.weights[name] for own, name in names.items()}
        self.received = fl.Received(
            {own: model.received[name] for own, name in names.items()},
            lambda images, network: model.received(images, first + network),
        )

    def __call__(self, images: Tensor, network: int = 0) -> fl.Outputs:
        """See :class:`LocalModel`."""
        return self._whole(images, self._first + network)

    def look(self, images: Tensor, network: int = 0, *, evaluating: bool = False) -> fl.Outputs:
        """See :class:`LocalModel`."""
        return self._whole.look(images, self._first + network, evaluating=evaluating)


class Mixture(Subnetwork):
    """The private part of a model, whose outputs are mixed with those of the shared part.

    Args:
        model: the whole, of which the first half is shared.
        count: networks of each half.
        alpha: the share of the private part, a scalar.
    """

    def __init__(self, model: fl.LocalModel, count: int, alpha: Tensor) -> None:
        super().__init__(model, count, count)
        self._alpha = alpha

    def __call__(self, images: Tensor, network: int = 0) -> fl.Outputs:
        """See :class:`LocalModel`; no gradient goes back through the shared part."""
        return mix(
            self._alpha, super().__call__(images, network), self._whole.look(images, network)
        )

    def look(self, images: Tensor, network: int = 0, *, evaluating: bool = False) -> fl.Outputs:
        """See :class:`LocalModel`."""
        private = super().look(images, network, evaluating=evaluating)
        shared = self._whole.look(images, network, evaluating=evaluating)
        return mix(self._alpha.detach(), private, shared)


def mix(alpha: Tensor | float, private: fl.Outputs, shared: fl.Outputs) -> fl.Outputs:
    """Mix logits and features: alpha times the private ones plus 1 - alpha times the shared ones.

    Args:
        alpha: the private share, 0 to 1.
        private: logits [n, classes] and features [n, features] of the private model.
        shared: those of the shared one.
    """
    return fl.Outputs(
        alpha * private.logits + (1 - alpha) * shared.logits,
        alpha * private.features + (1 - alpha) * shared.features,
    )


def network_of(name: str) -> int:
    """The number of the network that a weight belongs to."""
    return int(name.partition(".")[0])


def shifted_name(name: str, by: int) -> str:
    """The name of the same weight in the network whose number is higher by ``by``."""
    number, dot, rest = name.partition(".")
    return f"{int(number) + by}{dot}{rest}"


def halves(weights: fl.Weights) -> tuple[fl.Weights, fl.Weights]:
    """The weights of w and those of v, by their names in the model."""
    count = (1 + max(map(network_of, weights))) // 2
    parts: tuple[fl.Weights, fl.Weights] = {}, {}
    for name, value in weights.items():
        parts[network_of(name) >= count][name] = value
    return parts


def private_copy(weights: fl.Weights) -> fl.Weights:
    """The weights of w under the names of v."""
    shared, private = halves(weights)
    count = network_of(next(iter(private)))
    return {shifted_name(name, count): value for name, value in shared.items()}


def batch_of_loss(batch: fl.Batch, kind: str) -> fl.Batch:
    """The batch with the memory of only one of the two losses; tensors are shared, not copied."""
    return dataclasses.replace(batch, memory=entries_of(batch.memory, kind))


def entries_of(memory: fl.Memory, kind: str) -> fl.Memory:
    """The entries whose names start with ``kind``, by the rest of their names."""
    return {n.removeprefix(kind): value for n, value in memory.items() if n.startswith(kind)}
