"""A user's own dataset, ``images(path=...)``: what is asked for, and what it holds.

The same pixels, labels, classes and parts are the same dataset in every format
(:mod:`noisyfl.data.datasets.own_formats`): it is named by the digest of its content.
"""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Annotated, Any, ClassVar, NamedTuple

import numpy as np
from pydantic import Field

from noisyfl.core.options import BadInput, option, within
from noisyfl.core.randomness import stream
from noisyfl.core.registry import Component
from noisyfl.data.datasets.classes import check_spelling, names_of, numbers_of
from noisyfl.data.datasets.folders import walk
from noisyfl.data.datasets.hub_download import fetched, files_of_split
from noisyfl.data.datasets.images import (
    TRANSPOSED,
    Fit,
    RawImage,
    Unreadable,
    in_order,
    is_deep,
    open_image,
    orientation,
    pixels,
)
from noisyfl.data.datasets.own_formats import (
    ImageColumns,
    Listing,
    list_images,
    list_parquet,
)
from noisyfl.data.datasets.repeats import check_apart, repeats
from noisyfl.data.datasets.requested import shortened
from noisyfl.data.datasets.sources import Arrays, test_rows
from noisyfl.data.own_table import MOST_GB
from noisyfl.data.roots import Roots, each

SHOWN = 100
"""How many images that cannot be read a message names."""

DIM = 16
"""Images of 16 bits of which no pixel reaches this, of 255, have fewer bits, such as 12."""

Pixels = Annotated[int, Field(ge=1)]


class RequestedImages(Component):
    """A user's own dataset, from a folder of images, a .csv, an .npz or Parquet.

    Its test part is what ``test`` names, or a share that is split off, or what the format itself
    says: subfolders such as ``train`` and ``test``, arrays ``train_image`` and ``test_image``, or
    Parquet files with such words in their paths.
    """

    name: ClassVar[str] = "images"

    path: str | None = option(
        None,
        doc="path in a data folder: a folder of images or Parquet files, a .csv, .npz or .parquet",
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
    image: str = option("image", doc="column or array of the images, or of their paths in a .csv")
    label: str = option("label", doc="column or array of the labels: names or numbers of classes")
    given: str | None = option(
        None,
        doc="column or array of given labels next to the true ones, for `label_noise: file`",
    )
    true_labels: bool = option(True, doc="false: nobody knows the true training labels")
    classes: list[str] | None = Field(
        None, min_length=2, description="names of the classes by number; null: as the format says"
    )
    size: list[Pixels] | None = Field(
        None,
        min_length=2,
        max_length=2,
        description="height and width that images are stretched to; null: they have one size",
    )
    mean: list[float] | None = option(
        None, doc="mean of each channel, pixels from 0 to 1; null: that of the training part"
    )
    std: list[float] | None = option(
        None, doc="standard deviation of each channel; null: that of the training part"
    )

    title: str | None = option(
        None, doc="what tables and pages call it; null: as the file or folder is called"
    )

    def options(self) -> dict[str, Any]:
        """Those that decide what is read."""
        return self.model_dump(mode="json", exclude={"title"})

    @property
    def shown_as(self) -> str:
        """What tables and pages call it."""
        return self.title or (Path(self.path).name if self.path else "") or self.source

    @property
    def source(self) -> str:
        """What messages call it: the path, or the name on the hub."""
        return str(self.path or self.hub)

    @property
    def columns(self) -> ImageColumns:
        """What is read of the training part."""
        return ImageColumns(self.image, self.label, self.given)

    @property
    def test_columns(self) -> ImageColumns:
        """What is read of the test part."""
        return ImageColumns(self.image, self.label, None)

    def verify(self, context: Mapping[str, Any]) -> None:
        """Raise :class:`BadInput` unless one place is named, and for a mean or standard deviation
        that pixels cannot have.
        """
        if self.path is not None and self.hub is not None:
            raise BadInput(f"got {self.hub!r} and a path, expected one of them", "hub")
        if self.path is None and self.hub is None and not context.get("partial"):
            raise BadInput("expected the option path, or hub")
        if self.hub is None and self.split is not None:
            raise BadInput(f"got {self.split!r}, expected it with hub only", "split")
        for name, values, least in (("mean", self.mean, 0), ("std", self.std, 0.0001)):
            if any(not least <= value <= 1 for value in values or ()):
                raise BadInput(
                    f"got {values}, expected numbers from {least} to 1, which pixels are scaled to",
                    name,
                )


@dataclass(frozen=True)
class OwnContent:
    """What a user's own dataset holds.

    Attributes:
        known: what specs have of it (:class:`noisyfl.data.datasets.dataset.OwnImages`).
        train: the training part's images and labels.
        test: the test part's.
        given: the given labels of the training part, int64 [n]; None if it has none.
        numbered: whether the format or an option says which number each class has.
        remarks: what a user should know of the images, and of how their files were read.
    """

    known: dict[str, Any]
    train: Arrays
    test: Arrays
    given: np.ndarray | None
    numbered: bool
    remarks: list[str]


class _Labelled(NamedTuple):
    """The images of both parts, not yet decoded, and their labels, int64 [n]."""

    parts: tuple[Listing, Listing]
    labels: tuple[np.ndarray, np.ndarray]
    given: np.ndarray | None
    classes: list[str]
    numbered: bool
    notes: list[str]


def read_images(wanted: RequestedImages, roots: Roots) -> OwnContent:
    """Read a user's own dataset.

    Args:
        wanted: where it is, and what of it is meant.
        roots: the data folders.

    Raises:
        BadInput: a file is missing or cannot be read; images differ in size, and none is wanted; a
            label has no class; a class has no training image; there is no test part, or there are
            two, or it is the training part.
    """
    found = _labelled(wanted, roots)
    train, test = found.parts
    check_apart(train.images, test.images)
    fit, channels, deep, another_size = _measure(found.parts, wanted.size)
    gigabytes = (len(train) + len(test)) * fit.height * fit.width * channels / 1e9
    if gigabytes > MOST_GB:
        raise BadInput(
            f"{train.place}: {gigabytes:,.0f} GB of pixels, expected at most {MOST_GB}, which a "
            "run holds in memory; a smaller size helps",
            "size",
        )
    broken: list[str] = []
    images = [_pixels(listed, fit, channels, broken) for listed in found.parts]
    if broken:
        raise BadInput(f"{len(broken):,} images cannot be read: {shortened(broken, SHOWN)}", "path")
    if another_size:
        raise BadInput(another_size, "size")
    if 0 < max((images[part][row].max() for part, row in deep), default=0) < DIM:
        part, row = deep[0]
        raise BadInput(
            f"{len(deep):,} images have 16 bits per pixel, such as {found.parts[part].name(row)},"
            f" and no pixel of them reaches {DIM << 8:,}, expected up to 65,535: scale the pixels "
            "to 16 bits, or save them with 8",
            "path",
        )
    parts = ((images[0], found.labels[0]), (images[1], found.labels[1]))
    mean, std = _normalization(wanted, images[0])
    known = {
        "name": "images",
        "shape": [fit.height, fit.width, channels],
        "classes": found.classes,
        "train_size": len(train),
        "test_size": len(test),
        "mean": mean,
        "std": std,
        "true_labels": wanted.true_labels,
    }
    known["sha256"] = content_digest(known, parts)
    remarks = [*found.notes, *(f"{wanted.source}: {one}" for one in repeats(*parts))]
    return OwnContent(known, *parts, found.given, found.numbered, remarks)


def training_names(wanted: RequestedImages, roots: Roots) -> list[str]:
    """What the images of the training part are called, in its order: their paths, or the file that
    has them and the row in it.

    Raises:
        BadInput: see :func:`read_images`.
    """
    train, _ = _labelled(wanted, roots).parts
    return [train.name(row) for row in range(len(train))]


def _labelled(wanted: RequestedImages, roots: Roots) -> _Labelled:
    train, test = _parts(wanted, roots)
    # As the user names the folders: where a shared data folder is changes no table.
    notes = [f"{wanted.source}: {note}" for note in train.notes]
    notes += [f"{wanted.test or wanted.source}: {note}" for note in (test.notes if test else ())]
    classes = _classes_of(wanted, train)
    # Two orders that differ say nothing of what a number means.
    numbered = len({tuple(names) for names in (wanted.classes, train.classes) if names}) == 1

    def numbers(listed: Listing, labels: Sequence[int | str], option_name: str) -> np.ndarray:
        kind = "given label" if option_name == "given" else "label"
        with within(option_name):
            return numbers_of(
                labels, classes, numbered, lambda row: f"{listed.name(row)} has the {kind}"
            )

    labels = numbers(train, train.labels, "label")
    given = None if train.given is None else numbers(train, train.given, "given")
    if test is None:
        size = max(1, round(float(wanted.test_share or 0) * len(labels)))
        tested = test_rows(labels, size, stream(0, "images", "test part"))
        test, test_labels = train.rows(np.flatnonzero(tested)), labels[tested]
        train, labels = train.rows(np.flatnonzero(~tested)), labels[~tested]
        given = None if given is None else given[~tested]
    else:
        test_labels = numbers(test, test.labels, "label")
    if lacking := sorted(set(range(len(classes))) - set(labels.tolist())):
        raise BadInput(
            f"{train.place}: class {classes[lacking[0]]!r} has no training image, expected some of "
            "every class",
            "classes" if wanted.classes else "label",
        )
    return _Labelled((train, test), (labels, test_labels), given, classes, numbered, notes)


def content_digest(known: dict[str, Any], parts: Sequence[Arrays]) -> str:
    """SHA-256 of what is known of a dataset, and of the pixels and labels of both parts."""
    digest = hashlib.sha256(json.dumps(known, sort_keys=True).encode())
    for images, labels in parts:
        digest.update(f"{len(labels)};".encode())
        digest.update(np.ascontiguousarray(images).data)
        digest.update(labels.astype("<i8").tobytes())
    return digest.hexdigest()


def fingerprint(wanted: RequestedImages, roots: Roots) -> str:
    """SHA-256 of the paths, sizes and times of all files that a user's own dataset is read from,
    which tells cheaply whether it is still the same.

    Raises:
        BadInput: a file or folder that the options name is missing or cannot be read.
    """
    digest = hashlib.sha256()
    for path in _files(wanted, roots):
        try:
            found = path.stat()
            state = f"{found.st_size} {found.st_mtime_ns}"
        except (OSError, ValueError):
            state = "missing"
        digest.update(os.fsencode(path) + f" {state}\n".encode())
    return digest.hexdigest()


def _files(wanted: RequestedImages, roots: Roots) -> Iterator[Path]:
    if wanted.hub is not None:
        yield from walk(fetched(wanted.hub, roots)[0]).files
        return
    for path, option_name in ((wanted.path, "path"), (wanted.test, "test")):
        place = None if path is None else _place(path, option_name, roots)
        if place is not None and place.is_dir():
            yield from walk(place).files
        elif place is not None:
            yield place
            if place.suffix == ".csv":
                listed = list_images(place, wanted.test_columns)["all"]
                yield from (image for image in listed.images if isinstance(image, Path))


def _place(path: str, option_name: str, roots: Roots) -> Path:
    for root in each(roots):
        if (root / path).exists():
            return root / path
    folders = " or ".join(str(root / path) for root in each(roots))
    raise BadInput(f"got {path!r}, and there is neither file nor folder {folders}", option_name)


def _parts(wanted: RequestedImages, roots: Roots) -> tuple[Listing, Listing | None]:
    """The training part, and the test part unless it is still to be split off."""
    notes: list[str] = []
    if wanted.hub is not None:
        path, commit = fetched(wanted.hub, roots)
        notes.append(f"revision {commit}")
    else:
        path = _place(str(wanted.path), "path", roots)
    if wanted.hub is not None and (wanted.split or wanted.test):
        _check_test(wanted, False)
        files = files_of_split(path, wanted.split or "train", "split")
        train, test = list_parquet(files, wanted.columns), None
        if wanted.test is not None:
            test = list_parquet(files_of_split(path, wanted.test, "test"), wanted.test_columns)
    else:
        found = list_images(path, wanted.columns)
        _check_test(wanted, "test" in found)
        train, test = found["train" if "train" in found else "all"], found.get("test")
        if wanted.test is not None:
            test = _test_part(wanted, path, roots)
    return replace(train, notes=[*notes, *train.notes]), test


def _check_test(wanted: RequestedImages, is_said: bool) -> None:
    """Raise :class:`BadInput` unless the test part is named in exactly one way.

    Args:
        is_said: whether the dataset's files say the test part.
    """
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


def _test_part(wanted: RequestedImages, path: Path, roots: Roots) -> Listing:
    """The images that ``test`` names, next to a training part in ``path``."""
    place = _place(str(wanted.test), "test", roots)
    if place.samefile(path) or _holds(path, place) or _holds(place, path):
        which = "is path too" if place.samefile(path) else "has files of path"
        raise BadInput(
            f"got {wanted.test!r}, which {which}, expected other images than those of training "
            "(test_share splits some off)",
            "test",
        )
    found = list_images(place, wanted.test_columns)
    if "all" not in found:
        raise BadInput(f"{place} has a training part of its own, expected a test part", "test")
    return found["all"]


def _holds(folder: Path, place: Path) -> bool:
    """Whether a folder that is read as a whole has another folder, or a .parquet, in it."""
    whole = place.is_dir() or place.suffix == ".parquet"
    return folder.is_dir() and whole and folder.resolve() in place.resolve().parents


def _classes_of(wanted: RequestedImages, train: Listing) -> list[str]:
    """The names of the classes by number: those that are wanted or the format says, else sorted."""
    try:
        classes = list(wanted.classes or train.classes or names_of(train.labels))
        check_spelling(classes)
        if len(classes) < 2 or not all(name.strip() for name in classes):
            raise BadInput(f"got the classes {classes}, expected two or more, each with a name")
    except BadInput as error:
        option_name = "classes" if wanted.classes else "label"
        raise BadInput(f"{train.place}: {error}", option_name) from None
    return classes


def _measure(
    parts: Sequence[Listing], size: Sequence[int] | None
) -> tuple[Fit, int, list[tuple[int, int]], str]:
    """Look at the heads of all images that can be read.

    Returns:
        The size that images have or are to have; their channels, 1 if all are grey, else 3; the
        part and row of those that have 16 bits a pixel; and what to say if sizes differ.
    """
    fit = None if size is None else Fit(size[0], size[1])
    channels, deep, another_size, first = 1, [], "", ""
    for part, listed in enumerate(parts):
        for row, found in enumerate(in_order(_head, listed.images)):
            if found is None:  # whoever decodes it says why
                continue
            height, width, grey, is_deep = found
            channels = channels if grey else 3
            deep += [(part, row)] if is_deep else []
            if fit is None:
                fit, first = Fit(height, width), listed.name(row)
            elif size is None and (height, width) != (fit.height, fit.width):
                another_size = another_size or (
                    f"{listed.name(row)} is {height}x{width}, and {first} is "
                    f"{fit.height}x{fit.width}; expected images of one size, or one to bring them "
                    "to, such as size=[32, 32]"
                )
    return fit or Fit(1, 1), channels, deep, another_size


def _head(image: RawImage) -> tuple[int, int, bool, bool] | None:
    """Height, width, whether it is grey, whether it has 16 bits; None if it cannot be read."""
    from PIL import Image

    if isinstance(image, np.ndarray):
        return image.shape[0], image.shape[1], image.shape[2:] != (3,), False
    try:
        with open_image(image) as file:
            width, height = file.size
            if orientation(file) in TRANSPOSED:
                width, height = height, width
            return height, width, Image.getmodebase(file.mode) == "L", is_deep(file)
    except Exception:  # of a broken file Pillow raises almost any
        return None


def _pixels(listed: Listing, fit: Fit, channels: int, broken: list[str]) -> np.ndarray:
    """All images, uint8 [n, height, width, channels]; those that cannot be read are added to
    ``broken``, and why.
    """
    images = np.zeros((len(listed), fit.height, fit.width, channels), dtype=np.uint8)
    work = partial(pixels, fit=fit, upright=True)
    for row, found in enumerate(in_order(work, listed.images)):
        if isinstance(found, Unreadable):
            broken.append(f"{listed.name(row)}: {found.reason}")
        else:
            images[row] = found[..., :channels]
    return images


def _normalization(wanted: RequestedImages, images: np.ndarray) -> tuple[list[float], list[float]]:
    """Mean and standard deviation of each channel, as wanted or else of these images."""
    channels = images.shape[3]
    counts = [np.bincount(images[..., c].ravel(), minlength=256) for c in range(channels)]
    levels = np.arange(256) / 255
    means = [float(np.average(levels, weights=count)) for count in counts]
    deviations = [
        float(np.sqrt(np.average((levels - mean) ** 2, weights=count)))
        for mean, count in zip(means, counts, strict=True)
    ]
    found = []
    for name, given, measured in (
        ("mean", wanted.mean, means),
        ("std", wanted.std, deviations),
    ):
        values = [round(value, 4) for value in measured] if given is None else given
        if len(values) != channels or (name == "std" and min(values) <= 0):
            raise BadInput(
                f"got {values}, expected a number for each of {channels} channels, and a standard "
                "deviation above 0",
                name,
            )
        found.append(values)
    return found[0], found[1]
