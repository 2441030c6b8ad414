"""Convolutional networks without shortcuts.

Where a paper has an activation before a max-pooling, the pooling comes first here. As these
activations are non-decreasing functions, outputs and gradients are the same in either order, and
after the pooling an activation has a quarter of the work.
"""

from __future__ import annotations

from itertools import pairwise

import torch
from torch import Tensor, nn

from noisyfl.models.model import MODELS, BodyNet, Model, Shape


class HalvingPool(nn.MaxPool2d):
    """Max-pooling over 2x2 pixels. Without a gradient, maxima of slices are several times as fast
    on a CPU as torch's own function, and equal.
    """

    def forward(self, images: Tensor) -> Tensor:
        """[n, channels, height // 2, width // 2]."""
        if torch.is_grad_enabled() or images.device.type != "cpu":
            return super().forward(images)
        height, width = (size // 2 * 2 for size in images.shape[2:])
        rows = torch.maximum(images[:, :, 0:height:2], images[:, :, 1:height:2])
        return torch.maximum(rows[..., 0:width:2], rows[..., 1:width:2])


@MODELS.register("cnn")
class Cnn(Model):
    """The project's own small network, for images of a few pixels and a CPU."""

    minimum = 4

    def build(self, shape: Shape, classes: int) -> BodyNet:
        """Two 3x3 convolutions (16 and 32 channels), each with pooling; a hidden layer of 64."""
        height, width, channels = shape
        body = nn.Sequential(
            nn.Conv2d(channels, 16, 3, padding=1),
            HalvingPool(2),
            nn.ReLU(inplace=True),
            nn.Conv2d(16, 32, 3, padding=1),
            HalvingPool(2),
            nn.ReLU(inplace=True),
            nn.Flatten(),
            nn.Linear(32 * (height // 4) * (width // 4), 64),
            nn.ReLU(inplace=True),
        )
        return BodyNet(body, 64, classes)


@MODELS.register("cnn2conv")
class Cnn2Conv(Model):
    """FedNoiL's network for Fashion-MNIST."""

    minimum = 4

    def build(self, shape: Shape, classes: int) -> BodyNet:
        """Two convolutions and one linear layer.

        The paper says no more. The 5x5 kernels with 32 and 64 channels are taken from FedAvg's
        network for MNIST (McMahan et al., 2017); padding keeps the size, so that smaller images fit
        as well.
        """
        height, width, channels = shape
        body = nn.Sequential(
            nn.Conv2d(channels, 32, 5, padding=2),
            HalvingPool(2),
            nn.ReLU(inplace=True),
            nn.Conv2d(32, 64, 5, padding=2),
            HalvingPool(2),
            nn.ReLU(inplace=True),
            nn.Flatten(),
        )
        return BodyNet(body, 64 * (height // 4) * (width // 4), classes)


def _four_convolutions(shape: Shape, widths: tuple[int, ...], classes: int) -> BodyNet:
    height, width, channels = shape
    layers: list[nn.Module] = []
    for inputs, outputs in pairwise((channels, *widths)):
        layers += [
            nn.Conv2d(inputs, outputs, 3, padding=1),
            nn.BatchNorm2d(outputs, track_running_stats=False),
            HalvingPool(2),
            nn.ReLU(inplace=True),
        ]
    body = nn.Sequential(*layers, nn.Flatten())
    return BodyNet(body, widths[-1] * (height // 16) * (width // 16), classes)


@MODELS.register("cnn4conv")
class Cnn4Conv(Model):
    """FedRN's network, for every one of its datasets."""

    minimum = 16

    def build(self, shape: Shape, classes: int) -> BodyNet:
        """Four 3x3 convolutions of 64 channels, each with pooling, as in the official code.

        The batch normalisation keeps no running statistics: in evaluation too, a batch is
        normalised by its own statistics, so that an output depends on the batch in which it is
        computed.
        """
        return _four_convolutions(shape, (64, 64, 64, 64), classes)


@MODELS.register("cnn4narrow")
class Cnn4Narrow(Model):
    """The project's own variant of FedRN's network, for CIFAR-10 on a CPU.

    It has fewer channels where images are large.
    """

    minimum = 16

    def build(self, shape: Shape, classes: int) -> BodyNet:
        """:class:`Cnn4Conv` with 32 channels instead of 64 in its first two convolutions.

        These have the largest images, so that the network has less than half of the work.
        """
        return _four_convolutions(shape, (32, 32, 64, 64), classes)


@MODELS.register("cnn4pooled")
class Cnn4Pooled(Model):
    """The project's own variant of FedRN's network for half as large images, which learns noise."""

    minimum = 32

    def build(self, shape: Shape, classes: int) -> BodyNet:
        """:class:`Cnn4Conv` on images of half the height and width, with 32 channels in its first
        convolution.

        A sample takes a third of the time that it takes in :class:`Cnn4Narrow`.
        """
        height, width, channels = shape
        network = _four_convolutions((height // 2, width // 2, channels), (32, 64, 64, 64), classes)
        network.body.insert(0, nn.AvgPool2d(2))
        return network


@MODELS.register("cnn9")
class Cnn9(Model):
    """Co-teaching's nine-layer network, which RoFL uses for MNIST and CIFAR-10."""

    minimum = 28

    def build(self, shape: Shape, classes: int) -> BodyNet:
        """The network of Han et al. (2018), Table 2.

        Dropout is off in evaluation. In the official code of Co-teaching it stays on, which makes
        every prediction noisy.
        """

        def convolution(inputs: int, outputs: int, padding: int) -> list[nn.Module]:
            return [nn.Conv2d(inputs, outputs, 3, padding=padding), nn.BatchNorm2d(outputs)]

        def activation() -> nn.Module:
            return nn.LeakyReLU(0.01, inplace=True)

        def block(inputs: int, width: int) -> list[nn.Module]:
            return [
                *convolution(inputs, width, 1),
                activation(),
                *convolution(width, width, 1),
                activation(),
                *convolution(width, width, 1),
                HalvingPool(2),
                activation(),
                nn.Dropout2d(0.25),
            ]

        body = nn.Sequential(
            *block(shape[2], 128),
            *block(128, 256),
            *convolution(256, 512, 0),
            activation(),
            *convolution(512, 256, 0),
            activation(),
            *convolution(256, 128, 0),
            activation(),
            nn.AdaptiveAvgPool2d(1),
            nn.Flatten(),
        )
        return BodyNet(body, 128, classes)
