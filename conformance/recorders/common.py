"""What the steps of several repositories share."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterator
from typing import Any, ClassVar

import numpy as np
import torch
from torch import Tensor, nn

from conformance.simulation import Small, flat_names, integers, loaded, tensor
from conformance.steps import Code, Step, Values
from noisyfl.models import build_model
from noisyfl.simulation.weights import average


class Pairs(torch.utils.data.Dataset):
    """Images and labels, under the names that official codes have for labels."""

    def __init__(self, images: Any, labels: Any) -> None:
        self.images = tensor(images)
        self.targets = np.array(labels)
        self.train_labels = self.targets

    def __len__(self) -> int:
        return len(self.images)

    def __getitem__(self, item: int) -> tuple[Tensor, int]:
        return self.images[item], int(self.targets[item])


class Batches:
    """In the place of a data loader: the batches of one epoch, then those of the next.

    Args:
        epochs: of each, its batches.
    """

    def __init__(self, epochs: list[list[Any]]) -> None:
        self.epochs = iter(epochs)
        self.length = len(epochs[0])

    @classmethod
    def of(cls, pairs: Pairs, orders: list[Any], size: int) -> Batches:
        """Images and labels."""
        return cls(
            [
                [(pairs.images[part], integers(pairs.targets[part])) for part in cut(order, size)]
                for order in orders
            ]
        )

    def __len__(self) -> int:
        return self.length

    def __iter__(self) -> Iterator[Any]:
        return iter(next(self.epochs))


def cut(order: Any, size: int) -> list[np.ndarray]:
    """An order in batches, the last one smaller."""
    order = np.array(order)
    return [order[start : start + size] for start in range(0, len(order), size)]


def averaged(given: Values) -> Values:
    """Our mean of ``models`` with ``sizes``."""
    models = [loaded(Small(), weights).state_dict() for weights in given["models"]]
    mean = average(models, given["sizes"])
    return flat_names({f"0.{name}": value for name, value in mean.items()})


class Network(Step):
    """A network on two images; weights, images and labels are values of a sine."""

    model: ClassVar[str]
    shape: ClassVar[tuple[int, int, int]] = (32, 32, 3)

    def inputs(self, rng: np.random.RandomState) -> Values:
        return {"shape": self.shape, "labels": [3, 7]}

    @abstractmethod
    def theirs(self, code: Code) -> Any:
        """The official network."""

    def logits(self, network: Any, images: Tensor) -> Tensor:
        """The official network's."""
        return network(images)

    def official(self, code: Code, given: Values) -> Values:
        network = self.theirs(code)
        return self._said(network, lambda images: self.logits(network, images), given)

    def ours(self, given: Values) -> Values:
        network = build_model(self.model, self.shape, 10, 1)
        return self._said(network, network, given)

    def weights(self, network: nn.Module) -> list[nn.Parameter]:
        """From the first layer to the last, of either network."""
        return list(network.parameters())

    def _said(self, network: nn.Module, logits: Any, given: Values) -> Values:
        wavy(self.weights(network))
        network.train()
        for part in network.modules():
            if isinstance(part, nn.Dropout | nn.Dropout2d):
                part.p = 0.0
        height, width, channels = given["shape"]
        images = wave(2 * channels * height * width, 0.37).reshape(2, channels, height, width)
        said = logits(images)
        loss = nn.functional.cross_entropy(said, integers(given["labels"]))
        (gradient,) = torch.autograd.grad(loss, [next(network.parameters())])
        return {
            "parameters": sum(parameter.numel() for parameter in network.parameters()),
            "logits": said,
            "gradient": gradient.flatten()[:50],
        }


def wavy(weights: list[nn.Parameter]) -> None:
    """Set weights to values that need no writing down, as large as a random start's."""
    with torch.no_grad():
        for number, weight in enumerate(weights):
            values = wave(weight.numel(), 0.61 + 0.01 * number).reshape(weight.shape)
            if weight.ndim > 1:
                weight.copy_(values * (2 / weight[0].numel()) ** 0.5)
            else:
                weight.copy_(1 + 0.1 * values)


def wave(count: int, step: float) -> Tensor:
    """float32 [count], from -1 to 1."""
    return torch.from_numpy(np.sin(np.arange(count, dtype=np.float64) ** 1.5 * step)).float()
