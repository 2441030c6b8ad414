"""Datasets: what is known of each, and their parts as Parquet.

A dataset's official files become two Parquet files, ``train`` and ``test``, with one row per image:
its pixels (``image``: height x width x channels bytes) and its ``label``. If the pixels of all
images would fill the memory, the images are kept as JPEG elsewhere, and the file says where
each of them lies (:mod:`noisyfl.data.datasets.shards`).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import numpy as np
import pyarrow as pa

from noisyfl.core.artifacts import DamagedArtifact, read_table, replacing, to_numpy, write_table
from noisyfl.core.options import BadInput, find
from noisyfl.core.plugins import COMPONENTS, add
from noisyfl.data.datasets.classes import (
    CIFAR10_CLASSES,
    CIFAR100_CLASSES,
    CLOTHING_CLASSES,
    COVIDX_CLASSES,
    FASHION_CLASSES,
    NUMERALS,
    WEBVISION_CLASSES,
)
from noisyfl.data.datasets.images import Files, Unreadable, in_order, pixels
from noisyfl.data.datasets.requested import (
    in_short,
    load_clothing1m,
    load_covidx,
    load_mini_webvision,
    missing,
)
from noisyfl.data.datasets.shards import INDEX, Encoded, index_of, write_shards
from noisyfl.data.datasets.sources import Arrays, load_cifar, load_digits, load_idx
from noisyfl.data.roots import NotFound, Roots, each, first

REVISION = 1
"""Increased when what a part holds changes: its images, their size or their order."""


@dataclass(frozen=True)
class Dataset:
    """What is known of a dataset without reading it.

    Attributes:
        shape: of an image as a network sees it: height, width, channels.
        classes: names of the classes, indexed by label.
        train_size: number of training samples.
        test_size: number of test samples.
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
    """

    name: str
    shape: tuple[int, int, int]
    classes: tuple[str, ...]
    train_size: int
    test_size: int
    mean: tuple[float, ...]
    std: tuple[float, ...]
    load: Callable[[Path, bool], tuple[Arrays | Files, Arrays | Files]]
    train_shape: tuple[int, int, int] | None = None
    true_labels: bool = True
    encoded: bool = False


@dataclass(frozen=True)
class Part:
    """The training or the test part of a dataset.

    Attributes:
        name: the dataset's.
        images: uint8 [n, height, width, channels]; or where they lie, if they are kept encoded.
        labels: int64 [n].
    """

    name: str
    classes: tuple[str, ...]
    images: np.ndarray | Encoded
    labels: np.ndarray


DATASETS: dict[str, Dataset] = {
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
        Dataset(
            name="clothing1m",
            shape=(224, 224, 3),
            train_shape=(256, 256, 3),
            classes=CLOTHING_CLASSES,
            train_size=1_000_000,
            test_size=10_526,
            mean=(0.6959, 0.6537, 0.6371),
            std=(0.3113, 0.3192, 0.3214),
            load=load_clothing1m,
            true_labels=False,
            encoded=True,
        ),
        Dataset(
            name="mini_webvision",
            shape=(32, 32, 3),
            train_shape=(33, 33, 3),
            classes=WEBVISION_CLASSES,
            train_size=65_944,
            test_size=2_500,
            mean=(),
            std=(),
            load=load_mini_webvision,
            true_labels=False,
        ),
        Dataset(
            name="covidx",
            shape=(224, 224, 3),
            train_shape=(256, 256, 3),
            classes=COVIDX_CLASSES,
            train_size=13_958,
            test_size=300,
            mean=(),
            std=(),
            load=load_covidx,
            encoded=True,
        ),
    )
}


COMPONENTS["dataset"] = DATASETS


def add_dataset(facts: Dataset) -> None:
    """Make a dataset known by its name; :class:`BadInput` if another one has it."""
    add(DATASETS, "dataset", facts.name, facts)


def dataset(name: str, where: str = "") -> Dataset:
    """The facts about a dataset; :class:`BadInput` if there is none of that name."""
    if not isinstance(name, str):
        raise BadInput(f"got {name!r}, expected the name of a dataset", where=where)
    return find(DATASETS, name, "dataset", where)


def prepare(name: str, roots: Roots, download: bool, train_path: Path, test_path: Path) -> None:
    """Write the Parquet files of a dataset's training and test part.

    Shards of encoded images that an earlier call has left are reused if they were made from the
    same files.

    Args:
        name: of the dataset.
        roots: where its official files may lie; if they are downloaded, they go to the last.
        download: fetch files that are missing or damaged.
        train_path: the training part's Parquet file.
        test_path: the test part's; the shards of a part go to a folder of the same name beside it.

    Raises:
        BadInput: a file is missing or damaged, could not be downloaded, or does not hold what the
            dataset is known to hold. Where many are missing or damaged, all are listed in
            ``missing.txt`` beside the training part.
    """
    facts = dataset(name, "dataset")
    report = train_path.with_name("missing.txt")
    report.unlink(missing_ok=True)
    train, test = _official(facts, roots, download, report)
    parts = (
        ("train", train, facts.train_size, facts.train_shape or facts.shape, train_path),
        ("test", test, facts.test_size, facts.shape, test_path),
    )
    for part, found, size, shape, _ in parts:
        _check_part(f"{name}: the {part} part", found, (size, *shape), len(facts.classes))
    for part, found, _, shape, path in parts:
        metadata = {
            "dataset": name,
            "part": part,
            "shape": shape,
            "classes": facts.classes,
            "revision": REVISION,
        }
        if not isinstance(found, Files):
            write_table(path, _table_of_pixels(*found), metadata)
        elif facts.encoded:
            folder = path.with_suffix("")
            if folder.is_symlink():  # leads to somebody else's shards, of a prepared part
                folder.unlink()
            shards, unreadable = write_shards(found, folder)
            _refuse(name, unreadable, report)
            places = [shard.relative_to(path.parent).as_posix() for shard in shards]
            write_table(path, index_of(shards), {**metadata, "shards": places})
        else:
            images, unreadable = _decoded(found)
            _refuse(name, unreadable, report)
            write_table(path, _table_of_pixels(images, found.labels), metadata)
    report.unlink(missing_ok=True)


def read_part(path: Path) -> Part:
    """A part that :func:`prepare` wrote, verified against its checksum.

    Images that are kept encoded are verified one by one, when they are decoded.

    Args:
        path: of the file; one called ``train`` or ``test`` has to hold that part.

    Raises:
        DamagedArtifact: the file is truncated, altered, not a part of a dataset, the other part, or
            of another revision.
        FileNotFoundError: there is none.
    """
    table, metadata = read_table(path)
    # Older files do not say which part they are, or of which revision.
    found = metadata.get("part", path.stem)
    if path.stem in ("train", "test") and found != path.stem:
        raise DamagedArtifact(
            f"{path}: this is the {found} part of {metadata.get('dataset')}, where the {path.stem} "
            "part should be; put both where they belong, or delete them to have them made again"
        )
    if (revision := metadata.get("revision", 1)) != REVISION:
        raise DamagedArtifact(
            f"{path}: it is of revision {revision}, and this version prepares revision {REVISION}; "
            "delete it to have it made again"
        )
    images: np.ndarray | Encoded
    if table.column_names == list(INDEX):
        shards = [path.parent / name for name in metadata["shards"]]
        images = Encoded(shards, table, tuple(metadata["shape"]))
    elif table.column_names == ["image", "label"]:
        bytes_ = np.frombuffer(_pixels(table), dtype=np.uint8)
        images = bytes_.reshape(table.num_rows, *metadata["shape"])
    else:
        raise DamagedArtifact(f"{path}: not a part of a dataset (columns {table.column_names})")
    return Part(
        name=metadata["dataset"],
        classes=tuple(metadata["classes"]),
        images=images,
        labels=to_numpy(table["label"].combine_chunks()).copy(),
    )


def _official(
    facts: Dataset, roots: Roots, download: bool, report: Path
) -> tuple[Arrays | Files, Arrays | Files]:
    """Both parts from the first folder that has their files; see :func:`prepare`."""

    def look(root: Path) -> tuple[Arrays | Files, Arrays | Files]:
        parts = facts.load(root, download and root == each(roots)[-1])
        absent = [str(p) for part in parts if isinstance(part, Files) for p in missing(part)]
        if absent:
            raise NotFound(facts.name, _fault("are missing", absent, report))
        return parts

    return first(roots, look)


def _refuse(name: str, unreadable: list[Unreadable], report: Path) -> None:
    """Raise :class:`BadInput` if there are files that cannot be read as images."""
    if unreadable:
        files = [": ".join(map(str, file)) for file in unreadable]
        raise BadInput(f"{name}: {_fault('cannot be read', files, report)}")


def _fault(fault: str, files: list[str], report: Path) -> str:
    """Say in short what is wrong with files, and append them all to a report.

    The report may already list those of other folders.
    """
    before = report.read_text() if report.exists() else ""
    with replacing(report) as draft:
        draft.write_text(before + "".join(f"{file}\n" for file in files))
    return f"{len(files):,} of its images {fault}: {in_short(files)} (all are listed in {report})"


def _check_part(
    where: str, found: Arrays | Files, shape: tuple[int, int, int, int], classes: int
) -> None:
    """Raise :class:`BadInput` unless a part has the expected images, and some of every class."""
    if isinstance(found, Files):
        labels = found.labels
        if len(found) != shape[0]:
            raise BadInput(f"{where} has {len(found):,} images, expected {shape[0]:,}")
    else:
        images, labels = found
        if images.shape != shape or images.dtype != np.uint8:
            raise BadInput(
                f"{where} has images {images.dtype} {images.shape}, expected uint8 {shape}"
            )
    values = set(np.unique(labels).tolist())
    if labels.shape != shape[:1] or values != set(range(classes)):
        raise BadInput(
            f"{where} has labels of shape {labels.shape} and values {sorted(values)}, "
            f"expected {shape[:1]} and every class from 0 to {classes - 1}"
        )


def _decoded(files: Files) -> tuple[np.ndarray, list[Unreadable]]:
    """All images, uint8 [n, height, width, 3], and the files that cannot be read as images."""
    images = np.zeros((len(files), files.fit.height, files.fit.width, 3), dtype=np.uint8)
    unreadable = []
    for row, image in enumerate(in_order(partial(pixels, fit=files.fit), files.paths())):
        if isinstance(image, Unreadable):
            unreadable.append(image)
        else:
            images[row] = image
    return images, unreadable


def _table_of_pixels(images: np.ndarray, labels: np.ndarray) -> pa.Table:
    buffer = pa.py_buffer(np.ascontiguousarray(images))
    kind = pa.binary(int(np.prod(images.shape[1:])))
    image = pa.FixedSizeBinaryArray.from_buffers(kind, len(images), [None, buffer])
    return pa.table({"image": image, "label": pa.array(labels, pa.int64())})


def _pixels(table: pa.Table) -> memoryview:
    """The bytes of all images; they are copied only if Parquet gave them in several chunks."""
    chunks = table["image"].chunks
    image = chunks[0] if len(chunks) == 1 else pa.concat_arrays(chunks)
    width = image.type.byte_width
    return memoryview(image.buffers()[1])[image.offset * width :][: len(image) * width]
