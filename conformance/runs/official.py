"""What every official code is handed, and what is changed from outside so that it runs here."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from importlib.machinery import ModuleSpec
from pathlib import Path
from tempfile import TemporaryDirectory
from types import ModuleType
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from noisyfl.core.artifacts import Results
from noisyfl.core.randomness import stream
from noisyfl.core.rounding import round_down
from noisyfl.data import noisy_partition
from noisyfl.data.augmentation.augment import View
from noisyfl.data.datasets.dataset import DATASETS, DatasetPart
from noisyfl.data.datasets.parts import read_part
from noisyfl.models import build_model
from noisyfl.specs.identity import identity


class Samples(torch.utils.data.Dataset):
    """Images as the network sees them, with labels under the names that official codes use."""

    def __init__(self, images: Tensor, labels: np.ndarray) -> None:
        self.images = images
        self.targets = labels
        self.train_labels = labels

    def __len__(self) -> int:
        return len(self.images)

    def __getitem__(self, item: int) -> tuple[Tensor, int]:
        return self.images[item], int(self.targets[item])


@dataclass(frozen=True)
class Handed:
    """What an official code is handed of a run.

    Attributes:
        spec: canonical, of our side.
        train: the federation's samples, client by client, with their given labels.
        test: the test part.
        clients: rows of ``train``, by client.
        true: int64, the true label of each of them.
        view: of our side.
    """

    spec: dict[str, Any]
    train: Samples
    test: Samples
    clients: dict[int, list[int]]
    true: np.ndarray
    view: View

    @classmethod
    def of(cls, spec: dict[str, Any], folder: Path) -> Handed:
        """From the files that our side has made in a folder."""
        layout, parts = Results(folder), spec["noisy_partition"]
        partition = noisy_partition.read(layout.partition(identity(parts)))
        train, test = (read_part(layout.data(parts["dataset"], p)) for p in ("train", "test"))
        facts = DATASETS[parts["dataset"]]
        view = View(facts, spec["augmentation"], spec["normalization"], torch.device("cpu"))

        def shown(part: DatasetPart, rows: Any = slice(None)) -> Tensor:
            pixels = torch.from_numpy(np.asarray(part.images)[rows]).permute(0, 3, 1, 2)
            return view.show("plain", pixels, view.draw("plain", len(pixels), stream(0)))

        rows = np.concatenate([client.samples for client in partition.clients])
        ends = np.cumsum([len(client.samples) for client in partition.clients])
        return cls(
            spec,
            Samples(shown(train, rows), np.concatenate([c.given_label for c in partition.clients])),
            Samples(shown(test), test.labels),
            {
                number: list(range(end - len(client.samples), end))
                for number, (client, end) in enumerate(zip(partition.clients, ends, strict=True))
            },
            np.concatenate([client.true_label for client in partition.clients]),
            view,
        )

    def network(self, number: int = 0) -> nn.Module:
        """The first weights of our side's network."""
        part = self.spec["noisy_partition"]
        facts = DATASETS[part["dataset"]]
        return build_model(
            self.spec["model"], facts.shape, len(facts.classes), self.spec["seed"], number
        )

    def random_image(self) -> Tensor:
        """float32 [1, channels, height, width], the noise that our side's models are shown."""
        shape = (1, *self.train.images.shape[1:])
        return torch.from_numpy(
            stream(self.spec["seed"], "random image").standard_normal(shape)
        ).float()

    def strong(self, images: Tensor, rng: np.random.Generator) -> Tensor:
        """Strongly augmented, as our side does it, of images as the network sees them."""
        view = self.view
        pixels = ((images * view.std + view.mean) * 255).round().to(torch.uint8)
        return view.show("strong", pixels, view.draw("strong", len(pixels), rng))

    def participants(self, round: int, pool: np.ndarray) -> np.ndarray:
        """Those of our side in a round."""
        share = self.spec["schedule"]["participation"]
        count = min(round_down(share * len(self.clients)), len(pool))
        rng = stream(self.spec["seed"], "selection", round)
        return rng.choice(pool, size=count, replace=False)

    def right(self, rows: Any, labels: np.ndarray) -> float:
        """The share of labels of some rows of ``train`` that are true."""
        return float(np.mean(self.true[rows] == labels[rows])) if len(rows) else float("nan")


class Both(nn.Module):
    """A network of ours that says features beside what it says of the classes.

    Args:
        network: ours.
        logarithms: of probabilities, instead of logits.
        width: of the features that it says; those that ours does not have are 0.
    """

    def __init__(self, network: Any, logarithms: bool = False, width: int = 0) -> None:
        super().__init__()
        self.network = network
        self.logarithms = logarithms
        self.width = width

    def forward(self, images: Tensor) -> tuple[Tensor, Tensor]:
        """Both."""
        features = self.network.features(images)
        logits = self.network.classifier(features)
        if self.width:
            features = nn.functional.pad(features, (0, self.width - features.shape[1]))
        return logits.log_softmax(1) if self.logarithms else logits, features


def stand_in(name: str, **parts: Any) -> ModuleType:
    """Put a module of that name in the place of one that is not installed, or would not run."""
    module = ModuleType(name)
    module.__spec__ = ModuleSpec(name, None)  # libraries ask for it
    vars(module).update(parts)
    sys.modules[name] = module
    return module


@contextmanager
def in_new_folder() -> Iterator[Path]:
    """Be in an empty folder for a while, which is deleted afterwards."""
    before = Path.cwd()
    with TemporaryDirectory() as folder:
        os.chdir(folder)
        try:
            yield Path(folder)
        finally:
            os.chdir(before)
