"""Datasets: what is known of each, and a part of one."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import Annotated, Any, Literal

import numpy as np
from pydantic import AfterValidator, Field, TypeAdapter, ValidationError

from noisyfl.core.options import find
from noisyfl.core.plugins import COMPONENTS, add
from noisyfl.core.typed import Typed, bad_input, each_once
from noisyfl.data.datasets import open_set
from noisyfl.data.datasets.classes import (
    CIFAR10_CLASSES,
    CIFAR100_CLASSES,
    CLOTHING_CLASSES,
    COVIDX_CLASSES,
    FASHION_CLASSES,
    NUMERALS,
    WEBVISION_CLASSES,
)
from noisyfl.data.datasets.images import Arrays, Files
from noisyfl.data.datasets.requested import (
    load_clothing1m,
    load_covidx,
    load_mini_webvision,
)
from noisyfl.data.datasets.shards import Encoded
from noisyfl.data.datasets.sources import load_cifar, load_digits, load_idx, load_svhn
from noisyfl.data.datasets.validation import ENDING, held_out, load_validation
from noisyfl.data.roots import NotFound
from noisyfl.data.titles import title_of


@dataclass(frozen=True)
class Dataset:
    """What is known of a dataset without reading it.

    Attributes:
        shape: of an image as a network sees it: height, width, channels.
        mean: of each channel over the training pixels, scaled to 0 to 1; empty where nobody has
            published it.
        std: standard deviation of the same pixels.
        load: reads the training and the test part from the official files in a folder; fetches
            missing ones if its second argument is true.
        train_shape: of a training image as it is kept, if that is larger than ``shape`` because
            crops are taken from it.
        true_labels: whether the training labels are the true ones. If not, the dataset's own labels
            are noisy, and the true ones are not known.
        encoded: whether images are kept as JPEG, since the pixels would fill the memory.
        open_set: how many of the last training images are of no class of the task; their label is
            the number of classes.
        base: the dataset that has the same classes, of whose images it is made; empty for itself.
        own: of a user's own dataset, what stands for it in a spec (:class:`OwnDataset`).
        given: the digest of the given labels that a user's own dataset names beside the true
            ones; two that differ in nothing else are the same dataset.
        numbered: whether somebody has said which number each class has. If not, the names are
            sorted, and numbers in files mean nothing unless they are names.
        whole: of a user's own dataset of which images are held out for validation, how many
            training images there are with them, which files of labels and clients count; else 0.
        vectors: whether samples are no images but vectors of float32, with a channel for each
            feature of their only pixel.
    """

    name: str
    shape: tuple[int, int, int]
    classes: Annotated[tuple[str, ...], AfterValidator(each_once)]
    train_size: int
    test_size: int
    mean: tuple[Annotated[float, Field(ge=0, le=1)], ...]
    std: tuple[Annotated[float, Field(ge=0.0001, le=1)], ...]
    load: Callable[[Path, bool], tuple[Arrays | Files, Arrays | Files]]
    train_shape: tuple[int, int, int] | None = None
    true_labels: bool = True
    encoded: bool = False
    open_set: int = 0
    base: str = ""
    own: Mapping[str, Any] | None = field(default=None, hash=False)
    given: str = field(default="", compare=False)
    numbered: bool = field(default=True, compare=False)
    whole: int = field(default=0, compare=False)
    vectors: bool = False

    @property
    def with_classes(self) -> str:
        """The name of the dataset whose classes these are, by which maps of classes are known."""
        return self.base or self.name

    @property
    def task_size(self) -> int:
        """Number of training samples that are of the task's classes, which partitions deal out."""
        return self.train_size - self.open_set

    @property
    def true_names(self) -> tuple[str, ...]:
        """What the true labels of training samples stand for: the classes, and the open set."""
        return (*self.classes, "no class") if self.open_set else self.classes

    @property
    def title(self) -> str:
        """What people are shown: the name, or of a user's own dataset the title, if it is known."""
        return title_of(self.own["sha256"], self.name) if self.own else self.name

    @property
    def canonical(self) -> str | Mapping[str, Any]:
        """The dataset in a spec: its name, or of a user's own what is known of it."""
        return self.own or self.name


OWN = ("images_", "vectors_")
"""What the names of users' own datasets begin with; the first digits of the digest follow."""


def is_own(name: str) -> bool:
    """Whether a dataset of that name is a user's own."""
    return name.startswith(OWN)


class OwnDataset(Typed):
    """What is known of a user's own dataset, as specs have it.

    Attributes:
        sha256: of its content (:func:`noisyfl.data.datasets.own_data.content_digest`); its first
            digits are in the dataset's name.
        mean: of each channel over the training part; of pixels, scaled to 0 to 1.
    """

    name: Literal["images", "vectors"]
    sha256: str = Field(pattern="^[0-9a-f]{64}$")
    shape: list[int]
    classes: list[str]
    train_size: int
    test_size: int
    mean: list[float]
    std: list[float]
    true_labels: bool

    def facts(self) -> Dataset:
        """The facts about the dataset."""
        height, width, channels = self.shape
        return Dataset(
            name=f"{self.name}_{self.sha256[:16]}",
            shape=(height, width, channels),
            classes=tuple(self.classes),
            train_size=self.train_size,
            test_size=self.test_size,
            mean=tuple(self.mean),
            std=tuple(self.std),
            load=_not_official,
            true_labels=self.true_labels,
            own=self.model_dump(),
            vectors=self.name == "vectors",
        )


def _not_official(folder: Path, download: bool) -> tuple[Arrays, Arrays]:
    raise NotFound("a user's own dataset", "it has no official files")


@dataclass(frozen=True)
class DatasetPart:
    """The training or the test part of a dataset.

    Attributes:
        images: uint8 [n, height, width, channels], of vectors float32 [n, 1, 1, features]; or where
            they lie, if they are kept encoded.
        labels: int64 [n].
    """

    name: str
    classes: tuple[str, ...]
    images: np.ndarray | Encoded
    labels: np.ndarray
    own: Mapping[str, Any] | None = None

    @property
    def facts(self) -> Dataset:
        """What is known of the dataset."""
        return dataset(self.own or self.name)


NORMALIZATION: dict[str, tuple[tuple[float, ...], tuple[float, ...]]] = {
    "digits": ((0.3050,), (0.3758,)),
    "mnist": ((0.1307,), (0.3081,)),
    "fashion_mnist": ((0.2860,), (0.3530,)),
    "cifar10": ((0.4914, 0.4822, 0.4465), (0.2470, 0.2435, 0.2616)),
    "cifar100": ((0.5071, 0.4865, 0.4409), (0.2673, 0.2564, 0.2762)),
    "svhn": ((0.4377, 0.4438, 0.4728), (0.1980, 0.2010, 0.1970)),
    "clothing1m": ((0.6959, 0.6537, 0.6371), (0.3113, 0.3192, 0.3214)),
    "mini_webvision": ((), ()),
    "covidx": ((), ()),
}
"""The mean and the standard deviation of each dataset's channels; empty if unpublished."""


def _official(name: str, *facts: Any, **more: Any) -> Dataset:
    """A dataset; its shape, classes, sizes and loader are given in the order of the table."""
    shape, classes, train_size, test_size, load = facts
    return Dataset(name, shape, classes, train_size, test_size, *NORMALIZATION[name], load, **more)


_LARGE: dict[str, Any] = {"train_shape": (256, 256, 3), "encoded": True}
"""Training images of 256x256 pixels, of which crops are taken, and kept as JPEG."""

_MNIST, _RGB, _CROP = (28, 28, 1), (32, 32, 3), (224, 224, 3)
_KNOWN = (
    _official("digits", (8, 8, 1), NUMERALS, 1_437, 360, load_digits),
    _official("mnist", _MNIST, NUMERALS, 60_000, 10_000, partial(load_idx, "mnist")),
    _official(
        "fashion_mnist", _MNIST, FASHION_CLASSES, 60_000, 10_000, partial(load_idx, "fashion_mnist")
    ),
    _official("cifar10", _RGB, CIFAR10_CLASSES, 50_000, 10_000, partial(load_cifar, "cifar10")),
    _official("cifar100", _RGB, CIFAR100_CLASSES, 50_000, 10_000, partial(load_cifar, "cifar100")),
    _official("svhn", _RGB, NUMERALS, 73_257, 26_032, load_svhn),
    _official(
        *("clothing1m", _CROP, CLOTHING_CLASSES, 1_000_000, 10_526, load_clothing1m),
        **{**_LARGE, "true_labels": False},
    ),
    _official(
        *("mini_webvision", _RGB, WEBVISION_CLASSES, 65_944, 2_500, load_mini_webvision),
        train_shape=(33, 33, 3),
        true_labels=False,
    ),
    _official("covidx", _CROP, COVIDX_CLASSES, 13_958, 300, load_covidx, **_LARGE),
)
DATASETS: dict[str, Dataset] = {facts.name: facts for facts in _KNOWN}


COMPONENTS["dataset"] = DATASETS


def add_dataset(facts: Dataset) -> None:
    """Make a dataset known by its name.

    Raises:
        BadInput: another dataset has it, a fact is of another type, two classes have one name, or
            ``mean`` or ``std`` is none of pixels that are scaled to 0 to 1.
    """
    try:
        facts = TypeAdapter(Dataset).validate_python(vars(facts))
    except ValidationError as error:
        raise bad_input(error, Typed, vars(facts)).within(where=f"dataset {facts.name!r}") from None
    add(DATASETS, "dataset", facts.name, facts)


def validation(facts: Dataset) -> Dataset:
    """The validation dataset of a dataset whose images are kept as pixels.

    Its mean and standard deviation are those of the whole training part.
    """
    test_size = held_out(facts.train_size)
    return replace(
        facts,
        name=facts.name + ENDING,
        base=facts.name,
        train_size=facts.train_size - test_size,
        test_size=test_size,
        load=partial(load_validation, facts.load),
    )


def with_open_classes(facts: Dataset, classes: int, train: int, test: int) -> Dataset:
    """The dataset whose first classes are the task, and whose other classes are the open set.

    Args:
        facts: about a dataset whose images are kept as pixels.
        train: number of training samples of these.
    """
    return replace(
        facts,
        name=facts.name + open_set.ENDING,
        classes=facts.classes[:classes],
        test_size=test,
        open_set=facts.train_size - train,
        load=partial(open_set.load_classes, facts.load, classes),
    )


def with_open_set(facts: Dataset, other: Dataset) -> Dataset:
    """A dataset beside whose training part lies that of another dataset, as the open set."""
    return replace(
        facts,
        name=facts.name + open_set.BETWEEN + other.name,
        base=facts.name,
        train_size=facts.train_size + other.train_size,
        open_set=other.train_size,
        load=partial(open_set.load_with_others, facts.load, other.load, len(facts.classes)),
    )


for name in ("digits", "mnist", "fashion_mnist", "cifar10", "cifar100", "svhn"):
    add_dataset(validation(DATASETS[name]))
for name, size in {
    "digits": (8, 1_154, 289),
    "mnist": (8, 48_200, 8_017),
    "fashion_mnist": (8, 48_000, 8_000),
    "cifar10": (8, 40_000, 8_000),
    "cifar100": (80, 40_000, 8_000),
}.items():
    add_dataset(with_open_classes(DATASETS[name], *size))
for name, other in (
    ("mnist", "fashion_mnist"),
    ("fashion_mnist", "mnist"),
    ("cifar10", "cifar100"),
    ("cifar10", "svhn"),
    ("cifar100", "svhn"),
):
    add_dataset(with_open_set(DATASETS[name], DATASETS[other]))


def dataset(raw: str | Mapping[str, Any], where: str = "") -> Dataset:
    """The facts about a dataset.

    Args:
        raw: as a spec has it: a name, or what is known of a user's own dataset.

    Raises:
        BadInput: there is none of that name, or something is missing.
    """
    if isinstance(raw, Mapping):
        return OwnDataset.read(raw, where).facts()
    return find(DATASETS, raw, "dataset", where)
