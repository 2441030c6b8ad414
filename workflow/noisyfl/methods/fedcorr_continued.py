"""FedCorr's first two stages, and another method after them (FedCorr, Fig. 4)."""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass
from typing import Any, ClassVar

from torch import Tensor

from noisyfl.simulation.client_side import ClientSide, Turn
from noisyfl.simulation.federation import Federation
from noisyfl.simulation.mixup import mixed_images, mixup_draws
from noisyfl.simulation.model import Model
from noisyfl.simulation.server_side import ServerSide
from noisyfl.simulation.types import Batch, Client, Epoch, Outputs


@dataclass(frozen=True)
class Continued(ServerSide):
    """FedCorr until finetuning ends, then another method's sides.

    The other one sees the rounds counted from the run's first. Its ``rounds`` and ``stage`` are not
    asked for.

    Attributes:
        first: FedCorr, whose file imports this one.
        second: the other method.
    """

    first: Any
    second: ServerSide

    name: ClassVar[str] = "fedcorr"

    def sides(
        self, round: int, client: ClientSide, federation: Federation
    ) -> tuple[ServerSide, ClientSide]:
        """FedCorr's until its second stage ends; then the other server side, and ``client``."""
        if self._continued(round, federation):
            return self.second, client
        return self.first, self.first

    def begin(self, federation: Federation) -> None:
        """Both methods'."""
        self.first.begin(federation)
        self.second.begin(federation)

    def rounds(self, federation: Federation) -> int:
        """FedCorr's."""
        return self.first.rounds(federation)

    def stage(self, round: int, federation: Federation) -> str:
        """FedCorr's."""
        return self.first.stage(round, federation)

    def slots(self, round: int, federation: Federation) -> int:
        """Of whose round it is."""
        server = self.second if self._continued(round, federation) else self.first
        return server.slots(round, federation)

    def later(self, federation: Federation) -> dict[str, int]:
        """FedCorr's stages."""
        return self.first.later(federation)

    def _continued(self, round: int, federation: Federation) -> bool:
        return round >= self.first.ends(federation)[1]


@dataclass(frozen=True)
class MixedUp:
    """Another method's client side, which learns from mixup's images and labels.

    Its loss is taken of the mixed images with each of the two labels. What it adds to cross-entropy
    for the weights alone, such as FedDyn's regulariser, stays as it is, since the shares of both
    labels add up to 1.

    Attributes:
        side: the client side; all that is not said here is its own.
        alpha: of mixup's Beta distribution.
    """

    side: ClientSide
    alpha: float

    def __getattr__(self, name: str) -> Any:
        return getattr(self.side, name)

    def epoch(self, client: Client, turn: Turn) -> Epoch:
        """The side's, with what mixup draws for each step."""
        epoch = self.side.epoch(client, turn)
        extras = {**epoch.extras, **mixup_draws(epoch.steps, turn, self.alpha)}
        return dataclasses.replace(epoch, extras=extras)

    def loss(self, model: Model, batch: Batch) -> Tensor:
        """See the class; the network sees the images once."""
        share, index = batch["share"], batch["mixup_index"]
        images = mixed_images(batch)
        once = _Answered(model, model(images))

        def loss(target: Tensor) -> Tensor:
            return self.side.loss(once, dataclasses.replace(batch, views=(images,), target=target))

        return share * loss(batch.target) + (1 - share) * loss(batch.target[index])


class _Answered(Model):
    """A model that has seen the images of a step already."""

    def __init__(self, model: Model, outputs: Outputs) -> None:
        self.weights, self.received = model.weights, model.received
        self._outputs = outputs

    def __call__(self, images: Tensor, network: int = 0) -> Outputs:
        """See :class:`Model`."""
        return self._outputs
