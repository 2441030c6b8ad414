"""FedCorr's first two stages, and another method after them (FedCorr, Fig. 4)."""

from __future__ import annotations

import dataclasses
from typing import Any, ClassVar

from torch import Tensor

import noisyfl.method as fl


class Continued(fl.ServerSide):
    """FedCorr until finetuning ends, then another method's sides.

    The other method sees rounds that are counted from the first round of the run. The number of
    rounds, and the stage that is recorded for each, are FedCorr's.

    Attributes:
        first: FedCorr; its type is not named, since its file imports this one.
        second: the other method.
    """

    first: Any
    second: fl.ServerSide

    name: ClassVar[str] = "fedcorr"

    def sides(
        self, round: int, client: fl.ClientSide, federation: fl.Federation
    ) -> tuple[fl.ServerSide, fl.ClientSide]:
        """FedCorr's until its second stage ends; then the other server side, and ``client``."""
        if self._continued(round, federation):
            return self.second, client
        return self.first, self.first

    def begin(self, federation: fl.Federation) -> None:
        """Call ``begin`` of both methods."""
        self.first.begin(federation)
        self.second.begin(federation)

    def rounds(self, federation: fl.Federation) -> int:
        """FedCorr's number of rounds."""
        return self.first.rounds(federation)

    def stage(self, round: int, federation: fl.Federation) -> str:
        """FedCorr's name for the stage."""
        return self.first.stage(round, federation)

    def counted_updates(self, round: int, federation: fl.Federation) -> int:
        """The updates of the method whose round it is."""
        server = self.second if self._continued(round, federation) else self.first
        return server.counted_updates(round, federation)

    def stage_starts(self, federation: fl.Federation) -> dict[str, int]:
        """FedCorr's stages."""
        return self.first.stage_starts(federation)

    def _continued(self, round: int, federation: fl.Federation) -> bool:
        return round >= self.first.ends(federation)[1]


class MixedUp(fl.ClientSideWrapper):
    """Another method's client side, which learns from mixup's images and labels.

    Its loss on the mixed images is computed with each of the two labels, and both losses are added
    in the labels' shares. A term that depends on the weights alone, such as FedDyn's regulariser,
    is unchanged by this, since the shares add up to 1.

    Attributes:
        side: the client side.
        alpha: of mixup's Beta distribution.
    """

    side: fl.ClientSide
    alpha: float

    name = "fedcorr"

    def epoch(self, client: fl.Client, turn: fl.Turn) -> fl.Epoch:
        """The side's epoch, with what mixup draws for each step."""
        epoch = self.side.epoch(client, turn)
        extras = {**epoch.extras, **fl.mixup_draws(epoch.steps, turn, self.alpha)}
        return dataclasses.replace(epoch, extras=extras)

    def loss(self, model: fl.LocalModel, batch: fl.Batch) -> Tensor:
        """See the class; the network sees the images once."""
        share, index = batch["share"], batch["mixup_index"]
        images = fl.mixed_images(batch)
        once = _Answered(model, model(images))

        def loss(target: Tensor) -> Tensor:
            return self.side.loss(once, dataclasses.replace(batch, views=(images,), target=target))

        return share * loss(batch.target) + (1 - share) * loss(batch.target[index])


class _Answered(fl.LocalModel):
    """A model that answers every call with outputs that were computed before."""

    def __init__(self, model: fl.LocalModel, outputs: fl.Outputs) -> None:
        self.weights, self.received = model.weights, model.received
        self._outputs = outputs

    def __call__(self, images: Tensor, network: int = 0) -> fl.Outputs:
        """See :class:`LocalModel`."""
        return self._outputs
