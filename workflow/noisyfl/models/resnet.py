"""Residual networks.

torchvision, which takes as long to import as torch, is imported only where one is built.
"""

from __future__ import annotations

from typing import Literal

from torch import nn

from noisyfl.core.options import BadInput, option
from noisyfl.models.model import MODELS, Model, Shape, WeightFiles


@MODELS.register("resnet18")
class ResNet18(Model):
    """ResNet-18 as it is used for CIFAR (FedCorr, FedNoiL, FedCNI)."""

    minimum = 1

    def build(self, shape: Shape, classes: int) -> nn.Module:
        """See :func:`noisyfl.models.residual.cifar_resnet`."""
        from noisyfl.models.residual import cifar_resnet

        return cifar_resnet([2, 2, 2, 2], shape, classes)


@MODELS.register("resnet34")
class ResNet34(Model):
    """ResNet-34 as it is used for CIFAR (FedCorr, FedCNI)."""

    minimum = 1

    def build(self, shape: Shape, classes: int) -> nn.Module:
        """See :func:`noisyfl.models.residual.cifar_resnet`."""
        from noisyfl.models.residual import cifar_resnet

        return cifar_resnet([3, 4, 6, 3], shape, classes)


@MODELS.register("resnet50")
class ResNet50(Model):
    """ResNet-50 as it is used for Clothing1M (RoFL, FedCorr, FedCNI)."""

    # The network halves an image five times; of smaller ones the last stage sees mostly padding.
    minimum = 32

    pretrained: Literal["none", "imagenet"] = option(
        "none",
        doc="where all weights but the classifier's start: at random, or from ImageNet's as "
        "torchvision publishes them",
    )

    def check(self, shape: Shape) -> None:
        """See :meth:`Model.check`; ImageNet's weights also need images of three channels."""
        super().check(shape)
        if self.pretrained != "none" and shape[2] != 3:
            raise BadInput(
                f"got {self.pretrained!r}, but ImageNet's weights take 3 "
                f"channels and these images have {shape[2]}",
                "pretrained",
            )

    def build(self, shape: Shape, classes: int) -> nn.Module:
        """torchvision's ResNet-50, with PyTorch's default initialisation."""
        from noisyfl.models.residual import imagenet_resnet50

        return imagenet_resnet50(shape[2], classes)

    def pretrain(self, module: nn.Module, files: WeightFiles) -> None:
        """See :func:`noisyfl.models.pretrained.load_imagenet`."""
        from noisyfl.models.pretrained import load_imagenet

        if self.pretrained == "imagenet":
            load_imagenet(module, files)
