"""What every model declares, and where models are known by name."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import Annotated, ClassVar

from pydantic import Field
from torch import Tensor, nn

from noisyfl.core.options import BadInput
from noisyfl.core.registry import Component, Registry
from noisyfl.data.roots import Roots

Shape = tuple[int, int, int]
"""The shape of an image: height, width, channels."""


@dataclass(frozen=True)
class WeightFiles:
    """Where published weights are looked for: in data folders, then in torchvision's cache.

    Attributes:
        roots: the data folders; None: only the cache is used.
        download: fetch weights that are in none of these, into the last data folder or, if there
            are no data folders, into the cache.
    """

    roots: Roots | None = None
    download: bool = False


CACHE_ONLY = WeightFiles()


class Model(Component, ABC):
    """What every model declares.

    Attributes:
        minimum: the smallest height and width of an image that it takes.
    """

    minimum: ClassVar[Annotated[int, Field(ge=1)]]

    def check(self, shape: Shape) -> None:
        """Raise :class:`BadInput` if the model cannot take images of this shape, or does not say
        which it can.
        """
        least = getattr(self, "minimum", None)
        if not isinstance(least, int) or least < 1:
            raise BadInput(
                f"{self.name}: minimum: got {least!r}, expected a whole number from 1 on"
            )
        height, width, _ = shape
        if min(height, width) < least:
            raise BadInput(
                f"{self.name} cannot take images of {height}x{width}, expected at least "
                f"{least}x{least}"
            )

    @abstractmethod
    def build(self, shape: Shape, classes: int) -> nn.Module:
        """The module, initialised from torch's generator."""

    def pretrain(self, module: nn.Module, files: WeightFiles) -> None:
        """Replace the initial weights by published ones, if an option says so."""


class BodyNet(nn.Module):
    """A body that turns images into flat features, and a linear classifier on top.

    Args:
        body: turns images into features [n, width].
    """

    def __init__(self, body: nn.Sequential, width: int, classes: int) -> None:
        super().__init__()
        self.body = body
        self.classifier = nn.Linear(width, classes)

    def features(self, images: Tensor) -> Tensor:
        """[n, width], the input of the classifier."""
        return self.body(images)

    def forward(self, images: Tensor) -> Tensor:
        """[n, classes], the logits."""
        return self.classifier(self.features(images))


MODELS = Registry[Model]("model", Model)
