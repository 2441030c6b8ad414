"""The outputs of networks: on which images, of which model, and the requests for them."""

from __future__ import annotations

import weakref
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from noisyfl.simulation.clients import Client
from noisyfl.simulation.weights import Weights


@dataclass
class Predictor:
    """A model whose accuracy on the test part is that of a method.

    Attributes:
        weights: the model.
        client: the client whose model it is; None if it is the federation's.
    """

    weights: Weights
    client: Client | None = None


class Network:
    """A network of a model that is tested; equal to another if their tensors are the same objects.

    Such are the global one beside each client's own, and a client's own since it last took part.
    Nothing writes to a model's tensors in place, so that equal networks have equal outputs. The
    tensors are not kept alive: a network whose tensors are gone equals no other.

    Args:
        tensors: its weights and buffers.
    """

    def __init__(self, number: int, tensors: Sequence[Tensor]) -> None:
        self.number = number
        self._tensors = [weakref.ref(tensor) for tensor in tensors]
        self._hash = hash((number, *map(id, tensors)))

    def __hash__(self) -> int:
        return self._hash

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Network) or hash(self) != hash(other):
            return False
        pairs = zip(self._tensors, other._tensors, strict=True)
        return all(one() is not None and one() is another() for one, another in pairs)


@dataclass
class Pass:
    """A request: the outputs of a model on all samples of a client, in evaluation mode.

    Attributes:
        client: the client whose samples are shown.
        weights: the model.
        purpose: names the random stream of the augmented view.
        network: which of the model's networks.
        view: how the images are shown, as in
            :attr:`noisyfl.simulation.updates.Epoch.views`.
    """

    client: Client
    weights: Weights
    purpose: str
    network: int = 0
    view: str = "weak"


@dataclass
class Outputs:
    """A network's outputs on images: logits [batch, classes], and features [batch, width], which
    are the input of its classifier.
    """

    logits: Tensor
    features: Tensor


class Images:
    """A part of a dataset on the device.

    Attributes:
        pixels: uint8 [n, channels, height, width], or of vectors float32 [n, features, 1, 1].
        labels: int64 [n].
        shape: of an image: channels, height, width.
    """

    pixels: Tensor
    labels: Tensor
    shape: tuple[int, ...]

    def __init__(self, images: np.ndarray, labels: np.ndarray, device: torch.device) -> None:
        self.pixels = torch.from_numpy(images).to(device).permute(0, 3, 1, 2).contiguous()
        self.labels = torch.from_numpy(labels).to(device)
        self.shape = tuple(self.pixels.shape[1:])

    def pieces(self, rows: Tensor, sizes: int | list[int]) -> Iterator[Tensor]:
        """Yield the images of some rows, in order, one piece at a time.

        Args:
            rows: int64 [m], on the device.
            sizes: the number of images in each piece; a single number is for all pieces but the
                last one, which takes the rest.
        """
        for part in rows.split(sizes):
            yield self.pixels[part]

    def parts(self, size: int) -> Iterator[Tensor]:
        """All images in order, ``size`` at a time."""
        yield from self.pixels.split(size)
