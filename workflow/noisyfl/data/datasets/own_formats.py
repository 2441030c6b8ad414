"""The formats that a user's images may come in: what a file or folder lists, by part.

Images stay what they are, a path, encoded bytes or an array, until somebody decodes them.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import NamedTuple

import numpy as np

from noisyfl.core.options import BadInput
from noisyfl.data.datasets.folders import (
    Tree,
    both_parts,
    class_folders,
    hub_part,
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
        place: the file or folder.
        images: in order.
        labels: the number or the name of each one's class.
        given: its given label; None if there are none.
        classes: names of the classes by number; None if the format does not say them.
        numbers: where each is in the file or folder, from 0, if some of it are left out.
        notes: what a user should know of how the file or folder was read.
    """

    place: Path
    images: Sequence[RawImage]
    labels: Sequence[int | str]
    given: Sequence[int | str] | None = None
    classes: Sequence[str] | None = None
    numbers: Sequence[int] | None = None
    notes: Sequence[str] = ()

    def __len__(self) -> int:
        return len(self.images)

    def rows(self, rows: np.ndarray) -> Listing:
        """Some of the images, by their numbers."""
        return replace(
            self,
            images=[self.images[row] for row in rows],
            labels=[self.labels[row] for row in rows],
            given=None if self.given is None else [self.given[row] for row in rows],
            numbers=rows.tolist(),
        )

    def name(self, row: int) -> str:
        """What an error message calls an image."""
        image = self.images[row]
        number = row if self.numbers is None else self.numbers[row]
        return str(image) if isinstance(image, Path) else f"{self.place}, row {number}"


def list_images(place: Path, columns: ImageColumns) -> dict[str, Listing]:
    """What a file or folder lists, by part: ``train`` and ``test``, or all under ``all``.

    Args:
        place: a folder of images or of Parquet files, a .csv, .npz or .parquet.
        columns: what is to be read; no given labels of the test part.

    Raises:
        BadInput: it cannot be read, or lacks a column or array; the path of the error is the option
            that names what is wrong.
    """
    if place.is_dir():
        tree = walk(place)
        tables = [file for file in tree.files if file.suffix == ".parquet"]
        if tables:
            return _parquet_folder(place, columns, tree, tables)
        return _image_folder(place, columns, tree)
    if place.suffix not in SUFFIXES or not place.is_file():
        raise BadInput(
            f"got {place.name!r}, expected a folder or a {', '.join(SUFFIXES)} file", "path"
        )
    table = _open(place, columns)
    if place.suffix == ".npz" and columns.image not in table.names:
        return _npz_parts(table, columns)
    return {"all": _listed(table, columns)}


def list_parquet(files: Sequence[Path], columns: ImageColumns) -> Listing:
    """The rows of Parquet files, as the hub has them."""
    each = [_listed(_open(file, columns), columns) for file in files]
    return Listing(
        files[0] if len(files) == 1 else files[0].parent,
        [image for one in each for image in one.images],
        [label for one in each for label in one.labels],
        [label for one in each for label in one.given or ()] if columns.given else None,
        next((one.classes for one in each if one.classes), None),
    )


def _open(place: Path, columns: ImageColumns) -> OwnTable:
    return OwnTable(place, texts=[columns.image])  # names of files such as 0001 are no numbers


def _listed(table: OwnTable, columns: ImageColumns) -> Listing:
    for option, name in columns._asdict().items():
        if name is not None:
            table.check(name, option)
    images = table.images(columns.image)
    labels = table.labels(columns.label, "label", len(images))
    given = columns.given and table.labels(columns.given, "given", len(images))
    classes = table.class_names(columns.label)
    return Listing(table.path, images, labels, given or None, classes)


def _npz_parts(table: OwnTable, columns: ImageColumns) -> dict[str, Listing]:
    """The arrays of both parts: ``train_image``, or ``train_images`` as MedMNIST has it."""

    def arrays(part: str, given: str | None) -> ImageColumns:
        def name(of: str) -> str:
            plural = f"{part}_{of}s"
            return plural if plural in table.names else f"{part}_{of}"

        return ImageColumns(name(columns.image), name(columns.label), given and name(given))

    parts = {"train": arrays("train", columns.given), "test": arrays("test", None)}
    for part in parts.values():
        for option, name in part._asdict().items():
            if name is not None and name not in table.names:
                either = " and ".join(repr(name) for name in columns if name)
                names = ", ".join(repr(name) for one in parts.values() for name in one if name)
                raise BadInput(
                    f"{table.path} has {', '.join(table.names)}; expected {either}, or {names}",
                    option,
                )
    unread = [name for name in table.names if not name.startswith(("train_", "test_"))]
    notes = [f"of {table.path.name}, {', '.join(unread)} not read"] if unread else []
    found = {part: _listed(table, wanted) for part, wanted in parts.items()}
    return {**found, "train": replace(found["train"], notes=notes)}


def _image_folder(place: Path, columns: ImageColumns, tree: Tree) -> dict[str, Listing]:
    """A folder of images: a folder for each class, or such a folder for each part."""
    if columns.given is not None:
        raise BadInput(
            f"got {columns.given!r}, and a folder of images has no given labels (a .csv can)",
            "given",
        )
    found, left = class_folders(place, tree)
    taken = {image for images in found.values() for _, image in images}
    of_left = {place / name for name in left}
    unread = [file for file in tree.files if file not in taken and of_left.isdisjoint(file.parents)]
    listed = {
        part: Listing(
            place, [image for _, image in images], [label for label, _ in images], None, None
        )
        for part, images in found.items()
    }
    return _noted(listed, skipped(tree, left, unread))


def _parquet_folder(
    place: Path, columns: ImageColumns, tree: Tree, files: Sequence[Path]
) -> dict[str, Listing]:
    """The parts of a folder, by the names that the hub's library looks for in paths: in a file's
    name, or else in those of the folders above it.
    """
    named: dict[str, list[Path]] = defaultdict(list)
    configurations: dict[str, set[str]] = defaultdict(set)
    for file in sorted(files):
        part, configuration = hub_part(file.relative_to(place))
        named[part].append(file)
        configurations[part].add(configuration)
    others = named.pop("", [])
    both = both_parts(place, named, "Parquet files")
    if both is None and named and others:
        raise BadInput(
            f"{place} has Parquet files for {next(iter(named))} and others, such as {others[0]}, "
            "expected train and test (or validation) in their paths",
            "path",
        )
    for part in both or named:
        if len(several := sorted(configurations[part])) > 1:
            raise BadInput(
                f"{place} has the configurations {', '.join(several)}, expected one: name its "
                "folder in path, or files in path and test",
                "path",
            )
    unread = [file for file in tree.files if file.suffix != ".parquet"]
    if both is None:
        return _noted({"all": list_parquet(sorted(files), columns)}, skipped(tree, [], unread))
    without = columns._replace(given=None)
    parts = {
        "train": list_parquet(named[both[0]], columns),
        "test": list_parquet(named[both[1]], without),
    }
    left = [part for part in named if part not in both]
    return _noted(parts, skipped(tree, left, unread + others))


def _noted(parts: dict[str, Listing], note: str) -> dict[str, Listing]:
    first = next(iter(parts))
    return {**parts, first: replace(parts[first], notes=[note] if note else [])}
