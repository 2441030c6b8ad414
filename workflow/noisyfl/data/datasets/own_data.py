"""A user's own dataset, ``images(path=...)`` or ``vectors(path=...)``: what is asked for, and what
it holds.

The same samples, labels, classes and parts are the same dataset in every format
(:mod:`noisyfl.data.datasets.own_formats`): it is named by the digest of its content.
"""

from __future__ import annotations

import hashlib
import json
import os
from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, ClassVar, NamedTuple

import numpy as np
from pydantic import Field

from noisyfl.core.options import BadInput, option
from noisyfl.core.randomness import stream
from noisyfl.core.registry import Component
from noisyfl.data.datasets.classes import alike, check_spelling, names_of
from noisyfl.data.datasets.folders import walk
from noisyfl.data.datasets.hub_download import fetched, files_of_split
from noisyfl.data.datasets.images import Arrays
from noisyfl.data.datasets.own_formats import (
    Listing,
    SampleColumns,
    check_apart,
    list_parquet,
    list_samples,
)
from noisyfl.data.datasets.repeats import repeats
from noisyfl.data.datasets.sources import test_rows
from noisyfl.data.datasets.validation import SHARE
from noisyfl.data.image_names import ImageNames
from noisyfl.data.roots import Roots, located, stamp_of


class Samples(NamedTuple):
    """The samples of both parts.

    Attributes:
        values: those of the training part, then those of the test part: uint8 or float32
            [n, height, width, channels].
        mean: of each channel over the training part, which a network sees as 0.
        std: the standard deviation, which it sees as 1.
        remarks: what a user should know of them.
        scaling: how vectors were scaled, as JSON has it; None: they were not.
    """

    values: np.ndarray
    mean: list[float]
    std: list[float]
    remarks: list[str]
    scaling: dict[str, Any] | None = None


class RequestedData(Component, ABC):
    """A user's own dataset.

    Its test part is what ``test`` names, or a share that is split off, or what the format itself
    says: subfolders such as ``train`` and ``test``, arrays ``train_label`` and ``test_label``, or
    Parquet files with such words in their paths.

    Attributes:
        sample: what messages call a sample.
    """

    sample: ClassVar[str]

    path: str | None = option(
        None, doc="path in a data folder: a .csv, .npz or .parquet, or a folder of Parquet files"
    )
    hub: str | None = option(
        None,
        doc="instead of path: a dataset of the Hugging Face hub, `owner/name`, or `owner/name@v1` "
        "for a branch, tag or commit; default: main when it is first fetched",
    )
    split: str | None = option(
        None, doc="split of hub for training; null: the names of its files give the parts"
    )
    test: str | None = option(
        None, doc="path of the test part, or of hub its split; null: see test_share"
    )
    test_share: float | None = option(
        None,
        doc="share of each class to split off for testing; null: the format has the parts",
        above=0,
        below=1,
    )
    validation: bool = option(
        False,
        doc="true: leave the test part unread, and test on a tenth of each class of the training "
        "part, which is held out",
    )
    label: str = option("label", doc="column or array of the labels: names or numbers of classes")
    given: str | None = option(
        None,
        doc="column or array of given labels next to the true ones, for `label_noise: file`",
    )
    true_labels: bool = option(True, doc="false: nobody knows the true training labels")
    classes: list[str] | None = Field(
        None, min_length=2, description="names of the classes by number; null: as the format says"
    )
    title: str | None = option(
        None, doc="what tables and pages call it; null: as the file or folder is called"
    )

    @abstractmethod
    def columns(self, given: str | None) -> SampleColumns:
        """What is read of a part.

        Args:
            given: the column of its given labels; None: it has none.
        """

    @abstractmethod
    def samples(self, train: Listing, test: Listing) -> Samples:
        """The samples of both parts; :class:`BadInput` if they cannot be used."""

    def files(self, place: Path) -> Iterator[Path]:
        """All files that are read for one that an option names."""
        yield place

    def options(self) -> dict[str, Any]:
        """Those that decide what is read."""
        by_default = set() if self.validation else {"validation"}
        return self.model_dump(mode="json", exclude={"title", *by_default})

    @property
    def shown_as(self) -> str:
        """What tables and pages call it."""
        title = self.title or (Path(self.path).name if self.path else "") or self.source
        return f"{title}, validation" if self.validation else title

    @property
    def source(self) -> str:
        """What messages call it: the path, or the name on the hub."""
        return str(self.path or self.hub)

    def verify(self, context: Mapping[str, Any]) -> None:
        """Raise :class:`BadInput` unless one place is named."""
        if self.path is not None and self.hub is not None:
            raise BadInput(f"got {self.hub!r} and a path, expected one of them", "hub")
        if self.path is None and self.hub is None and not context.get("partial"):
            raise BadInput("expected the option path, or hub")
        if self.hub is None and self.split is not None:
            raise BadInput(f"got {self.split!r}, expected it with hub only", "split")


@dataclass(frozen=True)
class OwnContent:
    """What a user's own dataset holds.

    Attributes:
        known: what specs have of it (:class:`noisyfl.data.datasets.dataset.OwnDataset`).
        given: the given labels of the training part, int64 [n]; None if it has none.
        numbered: whether the format or an option says which number each class has.
        whole: how many training samples there are with those that are held out for validation.
        remarks: what a user should know of the samples, and of how their files were read.
        scaling: how vectors were scaled, as JSON has it; None: they were not.
    """

    known: dict[str, Any]
    train: Arrays
    test: Arrays
    given: np.ndarray | None
    numbered: bool
    whole: int
    remarks: list[str]
    scaling: dict[str, Any] | None = None


def read_data(wanted: RequestedData, roots: Roots) -> OwnContent:
    """Read a user's own dataset.

    Raises:
        BadInput: a file is missing or cannot be read; samples differ in size, and none is wanted; a
            label has no class; a class has no training sample; there is no test part, or there are
            two, or it is the training part.
    """
    train, test, numbered, notes = _whole_parts(wanted, roots)
    check_apart(train, test)
    whole = len(train.labels)
    if wanted.validation:
        train, test, _ = _divided(train, SHARE, "validation")
        if (lacking := _lacking(train)) is not None:
            raise BadInput(
                f"{wanted.source}: class {(train.classes or ())[lacking]!r} has no training "
                f"{wanted.sample}, since all are held out for validation; expected more of them",
                "validation",
            )
    samples = wanted.samples(train, test)
    end = len(train.labels)
    parts = (
        (samples.values[:end], np.array(train.labels, dtype=np.int64)),
        (samples.values[end:], np.array(test.labels, dtype=np.int64)),
    )
    known = {
        "name": wanted.name,
        "shape": [*samples.values.shape[1:]],
        "classes": list(train.classes or ()),
        "train_size": end,
        "test_size": len(samples.values) - end,
        "mean": samples.mean,
        "std": samples.std,
        "true_labels": wanted.true_labels,
    }
    known["sha256"] = content_digest(known, parts, samples.scaling)
    given = None if train.given is None else np.array(train.given, dtype=np.int64)
    odd = [*samples.remarks, *alike(train.classes or ()), *repeats(wanted.sample, *parts)]
    remarks = [*notes, *(f"{wanted.source}: {one}" for one in odd)]
    return OwnContent(known, *parts, given, numbered, whole, remarks, samples.scaling)


def image_names(wanted: RequestedData, roots: Roots) -> ImageNames:
    """What the samples of both parts are called: their paths, or the file that has them and the row
    in it.
    """
    train, test, *_ = _whole_parts(wanted, roots)
    rows = _divided(train, SHARE, "validation")[2] if wanted.validation else None
    return ImageNames(train.names, test.names, rows)


def _whole_parts(wanted: RequestedData, roots: Roots) -> tuple[Listing, Listing, bool, list[str]]:
    """Both parts, of which none is held out for validation, with the numbers of their classes;
    whether somebody has said how these are numbered; and notes of how files were read.
    """
    train, test, notes = _listed_parts(wanted, roots)
    classes = _classes_of(wanted, train)
    # Two orders that differ say nothing of what a number means.
    numbered = len({tuple(names) for names in (wanted.classes, train.classes) if names}) == 1
    train = replace(train.numbered(classes, numbered), classes=classes)
    if test is not None:
        test = test.numbered(classes, numbered)
    else:
        train, test, _ = _divided(train, float(wanted.test_share or 0), "test part")
    if (lacking := _lacking(train)) is not None:
        of_class = f"{wanted.source}: class {classes[lacking]!r} has no training {wanted.sample}"
        if lacking in test.labels and wanted.test_share:
            raise BadInput(
                f"{of_class}, since test_share has split off all of its {wanted.sample}s; expected "
                f"more {wanted.sample}s, or a smaller share",
                "test_share",
            )
        option_name = "classes" if wanted.classes else "label"
        raise BadInput(f"{of_class}, expected some of every class", option_name)
    return train, test, numbered, notes


def _lacking(train: Listing) -> int | None:
    """The number of the first class without a training sample; None if there is none."""
    return min({*range(len(train.classes or ()))} - {*map(int, train.labels)}, default=None)


def _divided(train: Listing, share: float, purpose: str) -> tuple[Listing, Listing, np.ndarray]:
    """The samples that are left for training, and those that are split off, at least one; and the
    position of each sample among those that are left, int64 [n], -1 for those that are not.
    """
    labels = np.array(train.labels, dtype=np.int64)
    size = max(1, round(share * len(labels)))
    tested = test_rows(labels, size, stream(0, "images", purpose))
    rows = np.where(tested, -1, np.cumsum(~tested) - 1)
    return train.rows(np.flatnonzero(~tested)), train.rows(np.flatnonzero(tested)), rows


def content_digest(
    known: dict[str, Any], parts: Sequence[Arrays], scaling: Mapping[str, Any] | None
) -> str:
    """SHA-256 of what is known of a dataset, of the samples and labels of both parts, and of how
    vectors were scaled; the names of features do not count.
    """
    digest = hashlib.sha256(json.dumps(known, sort_keys=True).encode())
    if scaling is not None:
        digest.update(json.dumps([scaling["shift"], scaling["scale"]]).encode())
    for samples, labels in parts:
        digest.update(f"{len(labels)};".encode())
        digest.update(np.ascontiguousarray(samples).data)
        digest.update(labels.astype("<i8").tobytes())
    return digest.hexdigest()


def fingerprint(wanted: RequestedData, roots: Roots) -> str:
    """SHA-256 of the paths, sizes and times of all files that a user's own dataset is read from,
    which tells cheaply whether it is still the same.

    Raises:
        BadInput: a file or folder that the options name is missing or cannot be read.
    """
    digest = hashlib.sha256()
    for place in _places(wanted, roots):
        for path in walk(place).files if place.is_dir() else wanted.files(place):
            digest.update(os.fsencode(path) + f" {stamp_of(path)}\n".encode())
    return digest.hexdigest()


def _places(wanted: RequestedData, roots: Roots) -> list[Path]:
    """The files or folders of the training part and of a test part of its own."""
    if wanted.hub is not None:
        return [fetched(wanted.hub, roots)[0]]
    return [
        located(path, roots, option_name)
        for option_name, path in (("path", wanted.path), ("test", wanted.test))
        if path is not None
    ]


def _listed_parts(wanted: RequestedData, roots: Roots) -> tuple[Listing, Listing | None, list[str]]:
    """The training part; the test part unless it is still to be split off; and notes, which name
    folders as the user does: where a shared data folder is changes no table.
    """
    place, *tested = _places(wanted, roots)
    of_split = bool(wanted.hub and (wanted.split or wanted.test))
    columns, test_columns = wanted.columns(wanted.given), wanted.columns(None)
    notes: list[str] = []
    if of_split:
        files = files_of_split(place, wanted.split or "train", "split")
        found = {"all": list_parquet(files, columns)}
    else:
        found, notes = list_samples(place, columns)
    _check_test(wanted, "test" in found)
    if wanted.hub is not None:
        notes = [f"revision {fetched(wanted.hub, roots)[1]}", *notes]
    notes = [f"{wanted.source}: {note}" for note in notes]
    train, test = found["train" if "train" in found else "all"], found.get("test")
    if wanted.test is not None and of_split:
        test = list_parquet(files_of_split(place, wanted.test, "test"), test_columns)
    elif wanted.test is not None:
        found, more = list_samples(tested[0], test_columns)
        if "all" not in found:
            raise BadInput(f"{tested[0]} has both parts, expected a test part", "test")
        test = found["all"]
        notes += [f"{wanted.test}: {note}" for note in more]
    return train, test, notes


def _check_test(wanted: RequestedData, is_said: bool) -> None:
    """Raise :class:`BadInput` unless the test part is named in exactly one way."""
    ways = {
        "test": wanted.test is not None,
        "test_share": wanted.test_share is not None,
        f"the parts in {'path' if wanted.hub is None else 'hub'}": is_said,
    }
    said = [way for way, is_there in ways.items() if is_there]
    if len(said) != 1:
        raise BadInput(
            f"got {' and '.join(said) or 'no test part'}, expected one of {', '.join(ways)}",
            "test",
        )


def _classes_of(wanted: RequestedData, train: Listing) -> list[str]:
    """The names of the classes by number: those that are wanted or the format says, else sorted."""
    try:
        classes = list(wanted.classes or train.classes or names_of(train.labels))
        check_spelling(classes)
    except BadInput as error:
        option_name = "classes" if wanted.classes else "label"
        raise BadInput(f"{wanted.source}: {error}", option_name) from None
    for name, label in zip(train.names, train.labels, strict=True):
        if isinstance(label, str) and not label.strip():
            raise BadInput(f"{wanted.source}: {name}: got an empty label", "label")
    if len(classes) < 2 or not all(name.strip() for name in classes):
        raise BadInput(
            f"{wanted.source}: got the classes {classes}, expected two or more, each with a name",
            "classes" if wanted.classes else "label",
        )
    return classes
