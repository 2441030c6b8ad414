"""Fully connected networks."""

from __future__ import annotations

from itertools import pairwise
from typing import Annotated

from pydantic import Field
from torch import nn

from noisyfl.core.options import option
from noisyfl.models.model import MODELS, BodyNet, Model, Shape

Width = Annotated[int, Field(ge=1)]


@MODELS.register("mlp")
class Mlp(Model):
    """A multilayer perceptron, for vectors and for small images; without a hidden layer, softmax
    regression.

    Two hidden layers of 200 are FedAvg's network 2NN for MNIST (McMahan et al., 2017).
    """

    minimum = 1

    hidden: list[Width] = option([64], doc="widths of the hidden layers, each with a ReLU")

    def build(self, shape: Shape, classes: int) -> BodyNet:
        """Linear layers with ReLUs between them, on all values of a sample."""
        height, width, channels = shape
        widths = [height * width * channels, *self.hidden]
        layers: list[nn.Module] = [nn.Flatten()]
        for inputs, outputs in pairwise(widths):
            layers += [nn.Linear(inputs, outputs), nn.ReLU(inplace=True)]
        return BodyNet(nn.Sequential(*layers), widths[-1], classes)
