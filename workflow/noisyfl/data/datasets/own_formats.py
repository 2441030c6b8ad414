"""The formats that a user's samples may come in: what a file or folder lists, by part.

Images stay what they are, a path, encoded bytes or an array, until somebody decodes them.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path

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

FEATURES = "features"
"""The column or array of vectors, if nobody names another."""


@dataclass(frozen=True)
class SampleColumns:
    """What is read of a file: columns, or arrays.

    Attributes:
        label: the one of the labels.
        given: that of the given labels; None if there are none.
        chosen: that of the images; or of vectors those whose numbers make one, or the one that has
            vectors. None: the one called ``features`` if it has vectors, or else all columns but
            those that are left out and pandas' index.
        vectors: whether samples are vectors.
        left_out: columns that are no features.
    """

    label: str
    given: str | None
    chosen: tuple[str, ...] = ("image",)
    vectors: bool = False
    left_out: tuple[str, ...] = ()

    @property
    def arrays(self) -> tuple[str, ...]:
        """What an .npz calls the arrays of the samples."""
        return self.chosen or (FEATURES,)

    @property
    def texts(self) -> tuple[str, ...]:
        """Columns that are text even if all of it is digits: names of files such as 0001."""
        return () if self.vectors else self.chosen

    def of_part(self, named: Callable[[str], str]) -> SampleColumns:
        """The same for the arrays of a part of an .npz.

        Args:
            named: what a part calls an array.
        """
        arrays = tuple(named(name) for name in self.arrays)
        given = self.given and named(self.given)
        return replace(self, label=named(self.label), given=given, chosen=arrays)

    def features(self, table: OwnTable) -> tuple[str, ...]:
        """The columns or arrays that make a vector; none of images."""
        if not self.vectors:
            return ()
        if self.chosen or table.count is None or FEATURES in table.lists:
            return self.arrays
        left_out = {*self.left_out, *table.index}
        return tuple(name for name in table.names if name not in left_out)

    def read(self, table: OwnTable) -> Sequence[RawImage]:
        """The samples of a table, of vectors each [features]; :class:`BadInput` if they are not
        there.
        """
        if not self.vectors:
            return table.images(*self.chosen)
        if not (names := self.features(table)):
            raise BadInput(f"{table.path} has no column that is left for features", "features")
        return list(table.vectors(names))


@dataclass(frozen=True)
class Listing:
    """Samples and their labels, as a file or folder lists them.

    Attributes:
        samples: images; or vectors, float32 [features].
        names: what messages call each sample: its path, or its file and its row there.
        labels: the number or the name of each one's class.
        given: its given label; None if there are none.
        classes: names of the classes by number; None if the format does not say them.
        files: that have several samples, if all of these are listed.
        columns: the names of all columns, of a table.
        features: the columns of a table that make a vector.
    """

    samples: Sequence[RawImage]
    names: Sequence[str]
    labels: Sequence[int | str]
    given: Sequence[int | str] | None = None
    classes: Sequence[str] | None = None
    files: Sequence[Path] = ()
    columns: tuple[str, ...] = ()
    features: tuple[str, ...] = ()

    def rows(self, rows: np.ndarray) -> Listing:
        """Some of the samples, by their positions."""
        return replace(
            self,
            samples=[self.samples[row] for row in rows],
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
    for file in (*listed.files, *listed.samples):
        if isinstance(file, Path):
            with suppress(OSError, ValueError):  # ValueError: a path with a null character
                state = file.stat()
                found[state.st_dev, state.st_ino] = file
    return found


Parts = dict[str, Listing]
"""What is listed of ``train`` and ``test``, or of ``all``."""


def list_samples(place: Path, columns: SampleColumns) -> tuple[Parts, list[str]]:
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
        if columns.vectors:
            raise BadInput(f"{place} has no Parquet files, expected some, or a file", "path")
        return _image_folder(place, columns, tree)
    if place.suffix not in SUFFIXES or not place.is_file():
        raise BadInput(
            f"got {place.name!r}, expected a folder or a {', '.join(SUFFIXES)} file", "path"
        )
    table = _table(place, columns)
    has_parts = any(name.startswith("train_") for name in table.names)
    if place.suffix == ".npz" and has_parts and not {*columns.arrays} <= {*table.names}:
        return _npz_parts(table, columns)
    return {"all": _listed(table, columns)}, []


def list_parquet(files: Sequence[Path], columns: SampleColumns) -> Listing:
    """The rows of Parquet files, as the hub has them."""
    each = [_listed(_table(file, columns), columns) for file in files]
    for file, one in zip(files, each, strict=True):
        check_features(one, each[0], f"{file} and {files[0]}")
    return Listing(
        [sample for one in each for sample in one.samples],
        [name for one in each for name in one.names],
        [label for one in each for label in one.labels],
        [label for one in each for label in one.given or ()] if columns.given else None,
        next((one.classes for one in each if one.classes), None),
        files,
        each[0].columns,
        each[0].features,
    )


def check_features(one: Listing, another: Listing, where: str) -> None:
    """Raise :class:`BadInput` unless the same columns make the vectors of both, in one order."""
    if one.features != another.features:
        differing = sorted({*one.features} ^ {*another.features})
        words = f"not both have {', '.join(differing)}" if differing else "their order differs"
        raise BadInput(
            f"{where} have other columns of features ({words}), expected the same in one order, "
            "or a list of those to take",
            "features",
        )


def _table(place: Path, columns: SampleColumns) -> OwnTable:
    return OwnTable(place, texts=columns.texts)


def _listed(table: OwnTable, columns: SampleColumns) -> Listing:
    for option_name, name in (("label", columns.label), ("given", columns.given)):
        if name is not None:
            table.check(name, option_name)
    samples = columns.read(table)
    return Listing(
        samples,
        [
            str(sample) if isinstance(sample, Path) else f"{table.path}, row {row}"
            for row, sample in enumerate(samples)
        ],
        table.labels(columns.label, "label", len(samples)),
        table.labels(columns.given, "given", len(samples)) if columns.given else None,
        table.class_names(columns.label),
        [table.path],
        () if table.count is None else tuple(table.names),
        () if table.count is None else columns.features(table),
    )


def _npz_parts(table: OwnTable, columns: SampleColumns) -> tuple[Parts, list[str]]:
    """The arrays of both parts: ``train_image``, or ``train_images`` as MedMNIST has it."""

    def named(of: str, part: str) -> str:
        plural = f"{part}_{of}s"
        return plural if plural in table.names else f"{part}_{of}"

    has_test = any(name.startswith("test_") for name in table.names)
    parts = {
        part: replace(columns, given=given).of_part(partial(named, part=part))
        for part, given in (("train", columns.given), ("test", None))
        if part == "train" or has_test
    }
    unread = [name for name in table.names if not name.startswith(("train_", "test_"))]
    notes = [f"not read: {', '.join(unread)}"] if unread else []
    listed = {part: _listed(table, wanted) for part, wanted in parts.items()}
    if not has_test:
        return {"all": listed["train"]}, notes
    return {part: replace(one, files=()) for part, one in listed.items()}, notes


def _image_folder(place: Path, columns: SampleColumns, tree: Tree) -> tuple[Parts, list[str]]:
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
    taken = {image for listed in parts.values() for image in listed.samples}
    unread = [file for file in tree.files if file not in taken and not {*left} & {*file.parents}]
    return parts, skipped(tree, [folder.name for folder in left], unread)


def _parquet_folder(place: Path, columns: SampleColumns, tree: Tree) -> tuple[Parts, list[str]]:
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
        "test": list_parquet(named[both[1]], replace(columns, given=None)),
    }
    return parts, skipped(tree, [part for part in named if part not in both], unread + others)
