"""The formats that a user's images may come in: what a file or folder lists, by part.

Images stay what they are, a path, encoded bytes or an array, until somebody decodes them.
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import NamedTuple

import numpy as np

from noisyfl.core.options import BadInput, within
from noisyfl.data.datasets.classes import numbers_of
from noisyfl.data.datasets.folders import (
    Tree,
    both_parts,
    by_part,
    classes_of,
    hub_part,
    part_folders,
    skipped,
    walk,
)
from noisyfl.data.datasets.images import RawImage
from noisyfl.data.own_table import OwnTable

SUFFIXES = (".csv", ".npz", ".parquet")


class ImageColumns(NamedTuple):
    """What the columns or arrays are called; ``given`` is None if there are no given labels."""

    image: str
    label: str
    given: str | None


@dataclass(frozen=True)
class Listing:
    """Images and their labels, as a file or folder lists them.

    Attributes:
        names: what messages call each image: its path, or its file and its row there.
        labels: the number or the name of each one's class.
        given: its given label; None if there are none.
        classes: names of the classes by number; None if the format does not say them.
        files: that have several images, if all of these are listed.
    """

    images: Sequence[RawImage]
    names: Sequence[str]
    labels: Sequence[int | str]
    given: Sequence[int | str] | None = None
    classes: Sequence[str] | None = None
    files: Sequence[Path] = ()

    def rows(self, rows: np.ndarray) -> Listing:
        """Some of the images, by their positions."""
        return replace(
            self,
            images=[self.images[row] for row in rows],
            names=[self.names[row] for row in rows],
            labels=[self.labels[row] for row in rows],
            given=None if self.given is None else [self.given[row] for row in rows],
            files=(),
        )

    def numbered(self, classes: Sequence[str], ordered: bool) -> Listing:
        """The same with the number of each label's class.

        Args:
            ordered: see :func:`noisyfl.data.datasets.classes.numbers_of`.

        Raises:
            BadInput: a label is of no class.
        """

        def numbers(labels: Sequence[int | str], option: str, kind: str) -> list[int | str]:
            with within(option):
                return numbers_of(
                    labels, classes, ordered, lambda row: f"{self.names[row]} has the {kind}"
                ).tolist()

        given = self.given and numbers(self.given, "given", "given label")
        return replace(self, labels=numbers(self.labels, "label", "label"), given=given)


def check_apart(train: Listing, test: Listing) -> None:
    """Raise :class:`BadInput` if one file is read for both parts, whichever links lead to it."""
    known, tested = _identities(train), _identities(test)
    if both := known.keys() & tested.keys():
        names = dict.fromkeys(str(of_part[min(both)]) for of_part in (known, tested))
        raise BadInput(
            f"{len(both):,} files are in the training part and in the test part, such as "
            f"{' and '.join(names)}; expected each file in one part, and once in a list that "
            "test_share splits",
            "test",
        )


def _identities(listed: Listing) -> dict[tuple[int, int], Path]:
    """The files of a part by what identifies them; those that are missing are left out."""
    found = {}
    for file in (*listed.files, *listed.images):
        if isinstance(file, Path):
            with suppress(OSError, ValueError):  # ValueError: a path with a null character
                state = file.stat()
                found[state.st_dev, state.st_ino] = file
    return found


Parts = dict[str, Listing]
"""What is listed of ``train`` and ``test``, or of ``all``."""


def list_images(place: Path, columns: ImageColumns) -> tuple[Parts, list[str]]:
    """What a file or folder lists, and notes of what is not read of it.

    Args:
        place: a folder of images or of Parquet files, a .csv, .npz or .parquet.

    Raises:
        BadInput: it cannot be read, or lacks a column or array; the path of the error is the option
            that names what is wrong.
    """
    if place.is_dir():
        tree = walk(place)
        if any(file.suffix == ".parquet" for file in tree.files):
            return _parquet_folder(place, columns, tree)
        return _image_folder(place, columns, tree)
    if place.suffix not in SUFFIXES or not place.is_file():
        raise BadInput(
            f"got {place.name!r}, expected a folder or a {', '.join(SUFFIXES)} file", "path"
        )
    table = _table(place, columns)
    has_parts = any(name.startswith("train_") for name in table.names)
    if place.suffix == ".npz" and has_parts and columns.image not in table.names:
        return _npz_parts(table, columns)
    return {"all": _listed(table, columns)}, []


def list_parquet(files: Sequence[Path], columns: ImageColumns) -> Listing:
    """The rows of Parquet files, as the hub has them."""
    each = [_listed(_table(file, columns), columns) for file in files]
    return Listing(
        [image for one in each for image in one.images],
        [name for one in each for name in one.names],
        [label for one in each for label in one.labels],
        [label for one in each for label in one.given or ()] if columns.given else None,
        next((one.classes for one in each if one.classes), None),
        files,
    )


def _table(place: Path, columns: ImageColumns) -> OwnTable:
    return OwnTable(place, texts=[columns.image])  # names of files such as 0001 are no numbers


def _listed(table: OwnTable, columns: ImageColumns) -> Listing:
    images = table.images(columns.image)
    return Listing(
        images,
        [
            str(image) if isinstance(image, Path) else f"{table.path}, row {row}"
            for row, image in enumerate(images)
        ],
        table.labels(columns.label, "label", len(images)),
        table.labels(columns.given, "given", len(images)) if columns.given else None,
        table.class_names(columns.label),
        [table.path],
    )


def _npz_parts(table: OwnTable, columns: ImageColumns) -> tuple[Parts, list[str]]:
    """The arrays of both parts: ``train_image``, or ``train_images`` as MedMNIST has it."""

    def named(part: str, of: str) -> str:
        plural = f"{part}_{of}s"
        return plural if plural in table.names else f"{part}_{of}"

    has_test = any(name.startswith("test_") for name in table.names)
    parts = {
        part: ImageColumns(
            named(part, columns.image), named(part, columns.label), given and named(part, given)
        )
        for part, given in (("train", columns.given), ("test", None))
        if part == "train" or has_test
    }
    unread = [name for name in table.names if not name.startswith(("train_", "test_"))]
    notes = [f"not read: {', '.join(unread)}"] if unread else []
    listed = {part: _listed(table, wanted) for part, wanted in parts.items()}
    if not has_test:
        return {"all": listed["train"]}, notes
    return {part: replace(one, files=()) for part, one in listed.items()}, notes


def _image_folder(place: Path, columns: ImageColumns, tree: Tree) -> tuple[Parts, list[str]]:
    """A folder of images: a folder for each class, or such a folder for each part."""
    if columns.given is not None:
        raise BadInput(
            f"got {columns.given!r}, and a folder of images has no given labels (a .csv can)",
            "given",
        )
    folders = part_folders(place, tree)
    parts = {}
    for part, folder in folders.items():
        labelled = [
            (image, name) for name, images in classes_of(folder, tree).items() for image in images
        ]
        images = [image for image, _ in labelled]
        parts[part] = Listing(images, list(map(str, images)), [name for _, name in labelled])
    top = [folder for folder in tree.folders if folder.parent == place]
    left = [] if "all" in folders else sorted({*top} - {*folders.values()})
    taken = {image for listed in parts.values() for image in listed.images}
    unread = [file for file in tree.files if file not in taken and not {*left} & {*file.parents}]
    return parts, skipped(tree, [folder.name for folder in left], unread)


def _parquet_folder(place: Path, columns: ImageColumns, tree: Tree) -> tuple[Parts, list[str]]:
    """The parts of a folder, by the names that the hub's library looks for in paths: in a file's
    name, or else in those of the folders above it.
    """
    files = sorted(file for file in tree.files if file.suffix == ".parquet")
    unread = [file for file in tree.files if file.suffix != ".parquet"]
    named, others = by_part(files, lambda file: hub_part(file.relative_to(place))[0])
    both = both_parts(place, named, "Parquet files")
    if both is None and named and others:
        raise BadInput(
            f"{place} has Parquet files for {next(iter(named))} and others, such as {others[0]}, "
            "expected train and test (or validation) in their paths",
            "path",
        )
    for part in both or named:
        configurations = {hub_part(file.relative_to(place))[1] for file in named[part]}
        if len(configurations) > 1:
            raise BadInput(
                f"{place} has the configurations {', '.join(sorted(configurations))}, expected "
                "one: name its folder in path, or files in path and test",
                "path",
            )
    if both is None:
        return {"all": list_parquet(files, columns)}, skipped(tree, [], unread)
    parts = {
        "train": list_parquet(named[both[0]], columns),
        "test": list_parquet(named[both[1]], columns._replace(given=None)),
    }
    return parts, skipped(tree, [part for part in named if part not in both], unread + others)
