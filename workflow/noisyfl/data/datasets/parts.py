"""The parts of datasets as Parquet: how they are made from official files, and read.

A dataset's official files become two Parquet files, ``train`` and ``test``, with one row per image:
its pixels (``image``: height x width x channels bytes) and its ``label``. If the pixels of all
images would fill the memory, the images are kept as JPEG in other files
(:mod:`noisyfl.data.datasets.shards`).
"""

from __future__ import annotations

from contextlib import nullcontext
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

from noisyfl.core.artifacts import DamagedArtifact, read_table, to_numpy, write_table, write_text
from noisyfl.core.options import BadInput, kind_of
from noisyfl.core.plugins import is_of_plugin, module_of, naming_the_line, plugin_of
from noisyfl.data.datasets.dataset import Dataset, DatasetPart, dataset
from noisyfl.data.datasets.images import Arrays, Files, Unreadable, in_order, pixels
from noisyfl.data.datasets.requested import missing_files, shortened
from noisyfl.data.datasets.shards import INDEX, Encoded, index_of, write_shards
from noisyfl.data.roots import NotFound, Roots, each, first

REVISION = 1
"""Increased when what a part holds changes: its images, their size or their order."""

SHARDS_REVISION = 2
"""The same for parts whose images are kept encoded."""


def prepare(name: str, roots: Roots, download: bool, train_path: Path, test_path: Path) -> None:
    """Write the Parquet files of a dataset's training and test part.

    Shards of encoded images that an earlier call has left are reused if they were made from the
    same files.

    Args:
        roots: where its official files may lie; if they are downloaded, they go to the last.
        download: fetch files that are missing or damaged.
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
        labels = len(facts.classes) + (part == "train" and facts.open_set > 0)
        _check_part(f"{name}: the {part} part", found, (size, *shape), labels)
    for part, found, _, shape, path in parts:
        metadata = metadata_of(facts, part, shape)
        if not isinstance(found, Files):
            write_table(path, table_of_pixels(*found), metadata)
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
            write_table(path, table_of_pixels(images, found.labels), metadata)
    report.unlink(missing_ok=True)


def metadata_of(facts: Dataset, part: str, shape: tuple[int, int, int]) -> dict[str, Any]:
    """The metadata of a part's file.

    Args:
        shape: of an image as it is kept: height, width, channels.
    """
    return {
        "dataset": facts.name,
        "part": part,
        "shape": list(shape),
        "classes": list(facts.classes),
        "revision": SHARDS_REVISION if facts.encoded else REVISION,
        **({"type": "float32"} if facts.vectors else {}),
        **({} if facts.own is None else {"own": facts.own}),
    }


def read_part(path: Path) -> DatasetPart:
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
    # A file that is no part says neither which part nor which revision it is.
    found = metadata.get("part", path.stem)
    if path.stem in ("train", "test") and found != path.stem:
        raise DamagedArtifact(
            f"{path}: this is the {found} part of {metadata.get('dataset')}, where the {path.stem} "
            "part should be; put both where they belong, or delete them to have them made again"
        )
    expected = SHARDS_REVISION if "shards" in metadata else REVISION
    if (revision := metadata.get("revision", 1)) != expected:
        raise DamagedArtifact(
            f"{path}: it is of revision {revision}, and this version prepares revision {expected}; "
            "delete it to have it made again"
        )
    images: np.ndarray | Encoded
    if table.column_names == INDEX:
        shards = [path.parent / name for name in metadata["shards"]]
        images = Encoded(shards, table, tuple(metadata["shape"]))
    elif table.column_names == ["image", "label"]:
        values = np.frombuffer(_pixels(table), dtype=metadata.get("type", "uint8"))
        images = values.reshape(table.num_rows, *metadata["shape"])
    else:
        raise DamagedArtifact(f"{path}: not a part of a dataset (columns {table.column_names})")
    return DatasetPart(
        name=metadata["dataset"],
        classes=tuple(metadata["classes"]),
        images=images,
        labels=to_numpy(table["label"].combine_chunks()).copy(),
        own=metadata.get("own"),
    )


def _official(
    facts: Dataset, roots: Roots, download: bool, report: Path
) -> tuple[Arrays | Files, Arrays | Files]:
    """Both parts from the first folder that has their files; see :func:`prepare`."""

    def look(root: Path) -> tuple[Arrays | Files, Arrays | Files]:
        try:
            parts = facts.load(root, download and root == each(roots)[-1])
        except FileNotFoundError as error:  # of a plugin; our loaders say what to do about it
            why = f"{error.filename}: {error.strerror}" if error.filename else error
            raise NotFound(facts.name, f"not in the data folder {root} ({why})") from error
        _check_loaded(facts.name, parts)
        absent = [str(p) for part in parts if isinstance(part, Files) for p in missing_files(part)]
        if absent:
            raise NotFound(facts.name, _fault("are missing", absent, report))
        return parts

    with naming_the_line(is_of_plugin) if plugin_of(module_of(facts)) else nullcontext():
        return first(roots, look)


def _check_loaded(name: str, given: Any) -> None:
    """Raise :class:`BadInput` unless a loader has returned both parts."""
    match given:
        case (
            (np.ndarray(), np.ndarray()) | Files(),
            (np.ndarray(), np.ndarray()) | Files(),
        ):
            return
    raise BadInput(
        f"dataset {name!r}: load: got {_in_words(given)}, expected ((images, labels), (images, "
        "labels)) of the training and the test part, NumPy arrays"
    )


def _in_words(given: Any) -> str:
    """What a loader has returned; of a short tuple or list, what each of its items is."""
    if isinstance(given, tuple | list) and len(given) <= 4:
        return f"({', '.join(map(_in_words, given))})"
    return kind_of(given)


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
    write_text(report, before + "".join(f"{file}\n" for file in files))
    return f"{len(files):,} of its images {fault}: {shortened(files)} (all are listed in {report})"


def _check_part(
    where: str, found: Arrays | Files, shape: tuple[int, int, int, int], classes: int
) -> None:
    """Raise :class:`BadInput` unless a part has the expected images, and some of every label."""
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


def table_of_pixels(images: np.ndarray, labels: np.ndarray) -> pa.Table:
    """A part's table, of images, uint8 or float32 [n, height, width, channels], and labels, int64
    [n].
    """
    buffer = pa.py_buffer(np.ascontiguousarray(images))
    kind = pa.binary(int(np.prod(images.shape[1:])) * images.itemsize)
    image = pa.FixedSizeBinaryArray.from_buffers(kind, len(images), [None, buffer])
    return pa.table({"image": image, "label": pa.array(labels, pa.int64())})


def _pixels(table: pa.Table) -> memoryview:
    """The bytes of all images; they are copied only if Parquet gave them in several chunks."""
    chunks = table["image"].chunks
    image = chunks[0] if len(chunks) == 1 else pa.concat_arrays(chunks)
    width = image.type.byte_width
    return memoryview(image.buffers()[1])[image.offset * width :][: len(image) * width]
