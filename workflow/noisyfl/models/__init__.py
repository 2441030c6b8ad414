"""Network architectures by name. Checking or naming a model needs no torch; building it does."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar

from noisyfl.core.options import BadInput, option
from noisyfl.core.randomness import torch_seed
from noisyfl.core.registry import Registry
from noisyfl.data.roots import Roots

if TYPE_CHECKING:
    from torch import nn

MODELS = Registry("model")
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


def check_model(spec: str | Mapping[str, Any], shape: Shape, where: str) -> None:
    """Check that a model can be built for images of a shape, without importing torch.

    Args:
        spec: the model's name and options.
        shape: of an image.
        where: what the error messages call the model.

    Raises:
        BadInput: unknown model or option, or images that the model cannot take.
    """
    MODELS.build(spec, where).check(shape, where)


def build_model(
    spec: str | Mapping[str, Any],
    shape: Shape,
    classes: int,
    seed: int,
    network: int = 0,
    files: WeightFiles = CACHE_ONLY,
) -> nn.Module:
    """A freshly initialised model on the CPU.

    Its input is float [n, channels, height, width]. ``features(x)`` is [n, width], the input of
    the linear layer ``classifier``; ``forward(x)`` is [n, classes], the logits.

    The weights have PyTorch's default initialisation, drawn from the seed and nothing else; torch's
    own generators are left as they were.

    Args:
        spec: the model's name and options.
        shape: of an image: height, width, channels.
        classes: how many.
        seed: the trial's seed.
        network: the number of the network, for methods that train several.
        files: where published weights are looked for, if the model starts from them.

    Raises:
        BadInput: as :func:`check_model`; or published weights are asked for and cannot be had.
    """
    import torch

    model = MODELS.build(spec, "model")
    model.check(shape, "model")
    with torch.random.fork_rng(devices=[]):
        # Not torch.manual_seed, which reseeds every GPU as well.
        torch.default_generator.manual_seed(torch_seed(seed, "model", network))
        module = model.build(shape, classes)
    model.pretrain(module, files)
    return module


class Model(ABC):
    """What every model declares.

    Attributes:
        name: set by the registry.
        minimum: the smallest height and width of an image that it takes.
    """

    name: ClassVar[str]
    minimum: ClassVar[int]

    def check(self, shape: Shape, where: str) -> None:
        """Raise :class:`BadInput` if the model cannot take images of this shape."""
        height, width, _ = shape
        if min(height, width) < self.minimum:
            raise BadInput(
                f"{where}: {self.name} cannot take images of {height}x{width}, expected at least "
                f"{self.minimum}x{self.minimum}"
            )

    @abstractmethod
    def build(self, shape: Shape, classes: int) -> nn.Module:
        """The module, initialised from torch's generator."""

    def pretrain(self, module: nn.Module, files: WeightFiles) -> None:  # noqa: B027
        """Replace the initial weights by published ones, if an option says so."""


@MODELS.register("cnn")
class Cnn(Model):
    """The project's own small network, for images of a few pixels and a CPU."""

    minimum = 4

    def build(self, shape: Shape, classes: int) -> nn.Module:
        """See :func:`noisyfl.models.cnn.cnn`."""
        from noisyfl.models.cnn import cnn

        return cnn(shape, classes)


@MODELS.register("cnn2conv")
class Cnn2Conv(Model):
    """FedNoiL's network for Fashion-MNIST."""

    minimum = 4

    def build(self, shape: Shape, classes: int) -> nn.Module:
        """See :func:`noisyfl.models.cnn.cnn2conv`."""
        from noisyfl.models.cnn import cnn2conv

        return cnn2conv(shape, classes)


@MODELS.register("cnn4conv")
class Cnn4Conv(Model):
    """FedRN's network, for every one of its datasets."""

    minimum = 16

    def build(self, shape: Shape, classes: int) -> nn.Module:
        """See :func:`noisyfl.models.cnn.cnn4conv`."""
        from noisyfl.models.cnn import cnn4conv

        return cnn4conv(shape, classes)


@MODELS.register("cnn4narrow")
class Cnn4Narrow(Model):
    """The project's own variant of FedRN's network, for CIFAR-10 on a CPU.

    It has fewer channels where images are large.
    """

    minimum = 16

    def build(self, shape: Shape, classes: int) -> nn.Module:
        """See :func:`noisyfl.models.cnn.cnn4narrow`."""
        from noisyfl.models.cnn import cnn4narrow

        return cnn4narrow(shape, classes)


@MODELS.register("cnn4pooled")
class Cnn4Pooled(Model):
    """The project's own variant of FedRN's network for half as large images, which learns noise."""

    minimum = 32

    def build(self, shape: Shape, classes: int) -> nn.Module:
        """See :func:`noisyfl.models.cnn.cnn4pooled`."""
        from noisyfl.models.cnn import cnn4pooled

        return cnn4pooled(shape, classes)


@MODELS.register("cnn9")
class Cnn9(Model):
    """Co-teaching's nine-layer network, which RoFL uses for MNIST and CIFAR-10."""

    minimum = 28

    def build(self, shape: Shape, classes: int) -> nn.Module:
        """See :func:`noisyfl.models.cnn.cnn9`."""
        from noisyfl.models.cnn import cnn9

        return cnn9(shape, classes)


@MODELS.register("resnet18")
class ResNet18(Model):
    """ResNet-18 as it is used for CIFAR (FedCorr, FedNoiL, FedCNI)."""

    minimum = 1

    def build(self, shape: Shape, classes: int) -> nn.Module:
        """See :func:`noisyfl.models.resnet.cifar_resnet`."""
        from noisyfl.models.resnet import cifar_resnet

        return cifar_resnet([2, 2, 2, 2], shape, classes)


@MODELS.register("resnet34")
class ResNet34(Model):
    """ResNet-34 as it is used for CIFAR (FedCorr, FedCNI)."""

    minimum = 1

    def build(self, shape: Shape, classes: int) -> nn.Module:
        """See :func:`noisyfl.models.resnet.cifar_resnet`."""
        from noisyfl.models.resnet import cifar_resnet

        return cifar_resnet([3, 4, 6, 3], shape, classes)


@MODELS.register("resnet50")
class ResNet50(Model):
    """ResNet-50 as it is used for Clothing1M (RoFL, FedCorr, FedCNI)."""

    # The network halves an image five times; of smaller ones the last stage sees mostly padding.
    minimum = 32

    pretrained: str = option(
        "none",
        doc="where all weights but the classifier's start: at random, or from ImageNet's as "
        "torchvision publishes them",
        choices=("none", "imagenet"),
    )

    def check(self, shape: Shape, where: str) -> None:
        """See :meth:`Model.check`; ImageNet's weights also need images of three channels."""
        super().check(shape, where)
        if self.pretrained != "none" and shape[2] != 3:
            raise BadInput(
                f"{where}.pretrained: got {self.pretrained!r}, but ImageNet's weights take 3 "
                f"channels and these images have {shape[2]}"
            )

    def build(self, shape: Shape, classes: int) -> nn.Module:
        """See :func:`noisyfl.models.resnet.resnet50`."""
        from noisyfl.models.resnet import resnet50

        return resnet50(shape, classes)

    def pretrain(self, module: nn.Module, files: WeightFiles) -> None:
        """See :func:`noisyfl.models.pretrained.load_imagenet`."""
        if self.pretrained == "imagenet":
            from noisyfl.models.pretrained import load_imagenet

            load_imagenet(module, files)
