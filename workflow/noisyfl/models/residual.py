"""torchvision's residual networks, and the same with a stem for CIFAR's small images."""

from __future__ import annotations

from torch import Tensor, nn
from torchvision.models import resnet as torchvision_resnet

from noisyfl.models.model import Shape


class ResNet(torchvision_resnet.ResNet):
    """torchvision's ResNet with its last layer replaced by ``classifier``.

    Args:
        block: the kind of residual block that the network consists of.
        layers: number of blocks in each of the four stages.
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
    """A ResNet of basic blocks for small images: a 3x3 stem of stride 1 and no first pooling."""
    network = ResNet(torchvision_resnet.BasicBlock, layers, classes)
    network.conv1 = nn.Conv2d(shape[2], 64, 3, padding=1, bias=False)
    network.maxpool = nn.Identity()
    return _initialise(network)


def _initialise(network: ResNet) -> ResNet:
    """The network with its layers initialised as PyTorch does by default, unlike torchvision."""
    for module in network.modules():
        if isinstance(module, nn.Conv2d | nn.BatchNorm2d | nn.Linear):
            module.reset_parameters()
    return network


def imagenet_resnet50(channels: int, classes: int) -> ResNet:
    """torchvision's ResNet-50, for images of any number of channels."""
    network = ResNet(torchvision_resnet.Bottleneck, [3, 4, 6, 3], classes)
    network.conv1 = nn.Conv2d(channels, 64, 7, stride=2, padding=3, bias=False)
    return _initialise(network)
