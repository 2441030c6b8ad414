"""A model as a loss and an executor see it: one network or several, with their weights."""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterable
from typing import cast

import torch
from torch import Tensor, nn

from noisyfl.core.options import BadInput
from noisyfl.simulation.outputs import Outputs
from noisyfl.simulation.weights import Weights


class Networks(nn.ModuleList):
    """The networks of one model; most methods train one, some two.

    Args:
        networks: modules as :func:`noisyfl.models.build_model` makes them.
        fewest: see :func:`noisyfl.models.fewest_images`.

    Attributes:
        channels_last: whether weights and images are in the memory layout channels last.
    """

    def __init__(self, networks: Iterable[nn.Module], fewest: int = 1) -> None:
        super().__init__(networks)
        self.fewest = fewest
        self.channels_last = False

    def lay_out_channels_last(self) -> None:
        """Lay out weights and images in memory with the channels of a pixel side by side."""
        self.to(memory_format=torch.channels_last)  # type: ignore[call-overload]
        self.channels_last = True

    def outputs(self, images: Tensor, network: int, precision: str) -> Outputs:
        """A network's outputs on images, in the mode (training or evaluation) that it is in, and in
        its own dtype, also where it computes in bfloat16.

        Args:
            images: float [batch, channels, height, width].
            precision: a choice of :attr:`noisyfl.simulation.schedule.Schedule.precision`.
        """
        if not 0 <= network < len(self):
            raise BadInput(
                f"network: got {network}, expected a number below {len(self)}, which `networks` is"
            )
        module = self[network]
        if self.channels_last:
            images = channels_last(images)
        features_of = cast(Callable[[Tensor], Tensor], module.features)
        classifier = cast(nn.Linear, module.classifier)
        if precision != "bfloat16":
            features = features_of(images)
            return Outputs(classifier(features), features)
        with torch.autocast(images.device.type, torch.bfloat16):
            features = features_of(images)
            logits = classifier(features)
        return Outputs(logits.to(images.dtype), features.to(images.dtype))


def channels_last(images: Tensor) -> Tensor:
    """The same images [n, channels, height, width] with a pixel's channels side by side."""
    _, channels, height, width = images.shape
    if channels > 1:
        return images.contiguous(memory_format=torch.channels_last)
    # With one channel both layouts are the same in memory, and torch takes them for channels first.
    # With the strides of channels last, the first convolution on 28x28 images takes a sixth of the
    # time.
    return images.contiguous().as_strided(images.shape, (height * width, 1, width, 1))


class Received(Weights):
    """The model that a local update started from: a mapping of its trainable weights by name, which
    can be called for the outputs of its networks.

    Args:
        answer: the function behind a call: takes images and the number of a network.
    """

    def __init__(self, weights: Weights, answer: Callable[[Tensor, int], Outputs]) -> None:
        super().__init__(weights)
        self._answer = answer

    def __call__(self, images: Tensor, network: int = 0) -> Outputs:
        """Its outputs on images, in evaluation mode and without a gradient."""
        return self._answer(images, network)


class LocalModel:
    """The model of a client in training: what a loss calls, and the weights that it trains.

    Args:
        received: all weights that the local update starts from, buffers included.
        precision: see :meth:`Networks.outputs`.

    Attributes:
        weights: the current trainable weights.
        received: the trainable weights that the local update started from; called, it returns that
            model's outputs.
        forward: samples that went through a network so far.
        backward: those of them that a gradient goes back through.
    """

    def __init__(self, networks: Networks, received: Weights, precision: str) -> None:
        self.weights: Weights = dict(networks.named_parameters())
        self.received = Received({name: received[name] for name in self.weights}, self._answer)
        self.forward = 0
        self.backward = 0
        self._networks = networks
        self._start = received
        self._start_networks: Networks | None = None
        self._other_networks: Networks | None = None
        self._precision = precision

    def receive(self, weights: Weights) -> None:
        """Overwrite the weights that the local update starts from, in place, for a new update."""
        for name, value in self._start.items():
            value.copy_(weights[name])

    def __call__(self, images: Tensor, network: int = 0) -> Outputs:
        """The outputs of a network in training mode, for a gradient to go back through."""
        self.forward += len(images)
        self.backward += len(images)
        return self._networks.outputs(images, network, self._precision)

    @torch.no_grad()
    def look(self, images: Tensor, network: int = 0, *, evaluating: bool = False) -> Outputs:
        """The outputs of a network without a gradient, in training or in evaluation mode.

        Args:
            images: normalised, float [n, channels, height, width].
            network: which of the model's.
            evaluating: whether to use evaluation mode: batch normalisation's running statistics,
                and no dropout.
        """
        self.forward += len(images)
        module = self._networks[network]
        module.train(not evaluating)
        outputs = self._networks.outputs(images, network, self._precision)
        module.train()
        return outputs

    @torch.no_grad()
    def look_as(self, weights: Weights, images: Tensor, network: int = 0) -> Outputs:
        """The outputs of a network with other weights than the trained ones, such as an earlier
        model's, in evaluation mode and without a gradient.

        Args:
            weights: all weights of a model, buffers included; they are not copied.
            images: normalised, float [n, channels, height, width].
            network: which of the model's.
        """
        self.forward += len(images)
        if self._other_networks is None:
            self._other_networks = copy.deepcopy(self._networks).requires_grad_(False).eval()
        self._other_networks.load_state_dict(weights, assign=True)
        return self._other_networks.outputs(images, network, self._precision)

    @torch.no_grad()
    def _answer(self, images: Tensor, network: int) -> Outputs:
        self.forward += len(images)
        if self._start_networks is None:
            # ``assign`` uses the tensors themselves, not copies, so that these networks follow what
            # :meth:`receive` writes.
            self._start_networks = copy.deepcopy(self._networks).requires_grad_(False).eval()
            self._start_networks.load_state_dict(self._start, assign=True)
        return self._start_networks.outputs(images, network, self._precision)
