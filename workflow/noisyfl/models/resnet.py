"""torchvision's residual networks, and the same with a stem for CIFAR's small images."""

from __future__ import annotations

from typing import Literal

from torch import Tensor, nn
from torchvision.models import resnet as torchvision_resnet

from noisyfl.core.options import BadInput, option
from noisyfl.models.model import MODELS, Model, Shape, WeightFiles
from noisyfl.models.pretrained import load_imagenet


class ResNet(torchvision_resnet.ResNet):
    """torchvision's ResNet with its last layer replaced by ``classifier``.

    Args:
        block: the kind of residual block that the network is made of.
        layers: number of blocks in each of the four stages.
        classes: how many.
    """

    fc: nn.Module

    def __init__(
        self,
        block: type[torchvision_resnet.BasicBlock | torchvision_resnet.Bottleneck],
        layers: list[int],
        classes: int,
    ) -> None:
        super().__init__(block, layers)
        self.fc = nn.Identity()
        self.classifier = nn.Linear(512 * block.expansion, classes)

    def features(self, images: Tensor) -> Tensor:
        """[n, width], the pooled output of the last stage."""
        return super().forward(images)

    def forward(self, images: Tensor) -> Tensor:
        """[n, classes], the logits."""
        return self.classifier(self.features(images))


def cifar_resnet(layers: list[int], shape: Shape, classes: int) -> ResNet:
    """A ResNet of basic blocks for small images: a 3x3 stem of stride 1 and no first pooling.

    Args:
        layers: number of blocks in each of the four stages.
        shape: of an image: height, width, channels.
        classes: how many.
    """
    network = ResNet(torchvision_resnet.BasicBlock, layers, classes)
    network.conv1 = nn.Conv2d(shape[2], 64, 3, padding=1, bias=False)
    network.maxpool = nn.Identity()
    return _initialised(network)


def _initialised(network: ResNet) -> ResNet:
    """The network with its layers initialised as PyTorch does by default, unlike torchvision."""
    for module in network.modules():
        if isinstance(module, nn.Conv2d | nn.BatchNorm2d | nn.Linear):
            module.reset_parameters()
    return network


@MODELS.register("resnet18")
class ResNet18(Model):
    """ResNet-18 as it is used for CIFAR (FedCorr, FedNoiL, FedCNI)."""

    minimum = 1

    def build(self, shape: Shape, classes: int) -> ResNet:
        """See :func:`cifar_resnet`."""
        return cifar_resnet([2, 2, 2, 2], shape, classes)


@MODELS.register("resnet34")
class ResNet34(Model):
    """ResNet-34 as it is used for CIFAR (FedCorr, FedCNI)."""

    minimum = 1

    def build(self, shape: Shape, classes: int) -> ResNet:
        """See :func:`cifar_resnet`."""
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

    def build(self, shape: Shape, classes: int) -> ResNet:
        """torchvision's ResNet-50, with PyTorch's default initialisation."""
        network = ResNet(torchvision_resnet.Bottleneck, [3, 4, 6, 3], classes)
        network.conv1 = nn.Conv2d(shape[2], 64, 7, stride=2, padding=3, bias=False)
        return _initialised(network)

    def pretrain(self, module: nn.Module, files: WeightFiles) -> None:
        """See :func:`load_imagenet`."""
        if self.pretrained == "imagenet":
            load_imagenet(module, files)
