"""FedAvg's network as PFLlib and FL-bench have it, for :mod:`benchmarks.command_lines`."""

from __future__ import annotations

from torch import nn

from noisyfl.models.model import MODELS, BodyNet, Model, Shape


@MODELS.register("avgcnn")
class AvgCnn(Model):
    """Two 5x5 convolutions without padding, and a hidden layer; for images of 28x28 pixels."""

    minimum = 28
    revision = 1

    def build(self, shape: Shape, classes: int) -> BodyNet:
        """32 and 64 channels, each with pooling; 512 units."""
        body = nn.Sequential(
            nn.Conv2d(shape[2], 32, 5),
            nn.ReLU(),
            nn.MaxPool2d(2),
            nn.Conv2d(32, 64, 5),
            nn.ReLU(),
            nn.MaxPool2d(2),
            nn.Flatten(),
            nn.Linear(64 * 4 * 4, 512),
            nn.ReLU(),
        )
        return BodyNet(body, 512, classes)
