"""Datasets: what is known of each, and their parts as Parquet.

A dataset's official files become two Parquet files, ``train`` and ``test``: one row an image, with
its pixels (``image``: height x width x channels bytes) and its ``label``.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import numpy as np
import pyarrow as pa

from noisyfl.artifacts import DamagedArtifact, read_table, to_numpy, write_table
from noisyfl.data.sources import Arrays, load_cifar, load_digits, load_idx
from noisyfl.options import BadInput, find


@dataclass(frozen=True)
class Dataset:
    """What is known of a dataset without reading it.

    Attributes:
        shape: of an image: height, width, channels.
        classes: their names, at the index of their label.
        train_size: training samples.
        test_size: test samples.
        mean: of each channel over the training pixels, scaled to 0 to 1.
        std: the standard deviation, of the same.
        load: reads the training and the test part from the official files in a folder; fetches
            missing ones if its second argument is true.
    """

    name: str
    shape: tuple[int, int, int]
    classes: tuple[str, ...]
    train_size: int
    test_size: int
    mean: tuple[float, ...]
    std: tuple[float, ...]
    load: Callable[[Path, bool], tuple[Arrays, Arrays]]


@dataclass(frozen=True)
class Part:
    """The training or the test part of a dataset.

    Attributes:
        name: the dataset's.
        images: uint8 [n, height, width, channels].
        labels: int64 [n].
    """

    name: str
    classes: tuple[str, ...]
    images: np.ndarray
    labels: np.ndarray


NUMERALS = tuple("0123456789")

FASHION_CLASSES = (
    *("T-shirt/top", "Trouser", "Pullover", "Dress", "Coat"),
    *("Sandal", "Shirt", "Sneaker", "Bag", "Ankle boot"),
)

CIFAR10_CLASSES = (
    *("airplane", "automobile", "bird", "cat", "deer"),
    *("dog", "frog", "horse", "ship", "truck"),
)

CIFAR100_CLASSES = (
    *("apple", "aquarium_fish", "baby", "bear", "beaver"),
    *("bed", "bee", "beetle", "bicycle", "bottle"),
    *("bowl", "boy", "bridge", "bus", "butterfly"),
    *("camel", "can", "castle", "caterpillar", "cattle"),
    *("chair", "chimpanzee", "clock", "cloud", "cockroach"),
    *("couch", "crab", "crocodile", "cup", "dinosaur"),
    *("dolphin", "elephant", "flatfish", "forest", "fox"),
    *("girl", "hamster", "house", "kangaroo", "keyboard"),
    *("lamp", "lawn_mower", "leopard", "lion", "lizard"),
    *("lobster", "man", "maple_tree", "motorcycle", "mountain"),
    *("mouse", "mushroom", "oak_tree", "orange", "orchid"),
    *("otter", "palm_tree", "pear", "pickup_truck", "pine_tree"),
    *("plain", "plate", "poppy", "porcupine", "possum"),
    *("rabbit", "raccoon", "ray", "road", "rocket"),
    *("rose", "sea", "seal", "shark", "shrew"),
    *("skunk", "skyscraper", "snail", "snake", "spider"),
    *("squirrel", "streetcar", "sunflower", "sweet_pepper", "table"),
    *("tank", "telephone", "television", "tiger", "tractor"),
    *("train", "trout", "tulip", "turtle", "wardrobe"),
    *("whale", "willow_tree", "wolf", "woman", "worm"),
)

CIFAR100_SUPERCLASSES = (
    *(4, 1, 14, 8, 0, 6, 7, 7, 18, 3, 3, 14, 9, 18, 7, 11, 3, 9, 7, 11),
    *(6, 11, 5, 10, 7, 6, 13, 15, 3, 15, 0, 11, 1, 10, 12, 14, 16, 9, 11, 5),
    *(5, 19, 8, 8, 15, 13, 14, 17, 18, 10, 16, 4, 17, 4, 2, 0, 17, 4, 18, 17),
    *(10, 3, 2, 12, 12, 16, 12, 1, 9, 19, 2, 10, 0, 1, 16, 12, 9, 13, 15, 13),
    *(16, 19, 2, 4, 6, 19, 5, 5, 8, 19, 18, 1, 2, 15, 6, 0, 17, 8, 14, 13),
)
"""The superclass of each of CIFAR-100's classes (its "coarse labels")."""

DATASETS = {
    facts.name: facts
    for facts in (
        Dataset(
            name="digits",
            shape=(8, 8, 1),
            classes=NUMERALS,
            train_size=1_437,
            test_size=360,
            mean=(0.3050,),
            std=(0.3758,),
            load=load_digits,
        ),
        Dataset(
            name="mnist",
            shape=(28, 28, 1),
            classes=NUMERALS,
            train_size=60_000,
            test_size=10_000,
            mean=(0.1307,),
            std=(0.3081,),
            load=partial(load_idx, "mnist"),
        ),
        Dataset(
            name="fashion_mnist",
            shape=(28, 28, 1),
            classes=FASHION_CLASSES,
            train_size=60_000,
            test_size=10_000,
            mean=(0.2860,),
            std=(0.3530,),
            load=partial(load_idx, "fashion_mnist"),
        ),
        Dataset(
            name="cifar10",
            shape=(32, 32, 3),
            classes=CIFAR10_CLASSES,
            train_size=50_000,
            test_size=10_000,
            mean=(0.4914, 0.4822, 0.4465),
            std=(0.2470, 0.2435, 0.2616),
            load=partial(load_cifar, "cifar10"),
        ),
        Dataset(
            name="cifar100",
            shape=(32, 32, 3),
            classes=CIFAR100_CLASSES,
            train_size=50_000,
            test_size=10_000,
            mean=(0.5071, 0.4865, 0.4409),
            std=(0.2673, 0.2564, 0.2762),
            load=partial(load_cifar, "cifar100"),
        ),
    )
}


def dataset(name: str, where: str) -> Dataset:
    """The facts about a dataset; :class:`BadInput` if there is none of that name."""
    if not isinstance(name, str):
        raise BadInput(f"{where}: got {name!r}, expected the name of a dataset")
    return find(DATASETS, name, "dataset", where)


def prepare(name: str, folder: Path, download: bool, train_path: Path, test_path: Path) -> None:
    """Write a dataset's training and test part.

    Args:
        name: of the dataset.
        folder: where its official files lie, or go if they are downloaded.
        download: fetch files that are missing or damaged.
        train_path: the training part's Parquet file.
        test_path: the test part's.

    Raises:
        BadInput: a file is missing or damaged, could not be downloaded, or does not hold what the
            dataset is known to hold.
    """
    facts = dataset(name, "dataset")
    train, test = facts.load(folder, download)
    for part, arrays, size, path in (
        ("train", train, facts.train_size, train_path),
        ("test", test, facts.test_size, test_path),
    ):
        _check_part(facts, part, arrays, size)
        _write_part(facts, part, arrays, path)


def read_part(path: Path) -> Part:
    """A part that :func:`prepare` wrote, verified against its checksum.

    Raises:
        DamagedArtifact: the file is truncated, altered, or not a part of a dataset.
        FileNotFoundError: there is none.
    """
    table, metadata = read_table(path)
    if table.column_names != ["image", "label"]:
        raise DamagedArtifact(f"{path}: not a part of a dataset (columns {table.column_names})")
    pixels = np.frombuffer(_pixels(table), dtype=np.uint8)
    return Part(
        name=metadata["dataset"],
        classes=tuple(metadata["classes"]),
        images=pixels.reshape(table.num_rows, *metadata["shape"]),
        labels=to_numpy(table["label"].combine_chunks()).copy(),
    )


def _check_part(facts: Dataset, part: str, arrays: Arrays, size: int) -> None:
    images, labels = arrays
    where = f"{facts.name}: the {part} part"
    if images.shape != (size, *facts.shape) or images.dtype != np.uint8:
        raise BadInput(
            f"{where} has images {images.dtype} {images.shape}, "
            f"expected uint8 {(size, *facts.shape)}"
        )
    found = set(np.unique(labels).tolist())
    if labels.shape != (size,) or found != set(range(len(facts.classes))):
        raise BadInput(
            f"{where} has labels of shape {labels.shape} and values {sorted(found)}, "
            f"expected {(size,)} and every class from 0 to {len(facts.classes) - 1}"
        )


def _write_part(facts: Dataset, part: str, arrays: Arrays, path: Path) -> None:
    images, labels = arrays
    buffer = pa.py_buffer(np.ascontiguousarray(images))
    kind = pa.binary(int(np.prod(facts.shape)))
    image = pa.FixedSizeBinaryArray.from_buffers(kind, len(images), [None, buffer])
    table = pa.table({"image": image, "label": pa.array(labels, pa.int64())})
    metadata = {
        "dataset": facts.name,
        "part": part,
        "shape": facts.shape,
        "classes": facts.classes,
    }
    write_table(path, table, metadata)


def _pixels(table: pa.Table) -> memoryview:
    """All images' bytes; a copy only where Parquet gave them in several chunks."""
    chunks = table["image"].chunks
    image = chunks[0] if len(chunks) == 1 else pa.concat_arrays(chunks)
    width = image.type.byte_width
    return memoryview(image.buffers()[1])[image.offset * width :][: len(image) * width]
