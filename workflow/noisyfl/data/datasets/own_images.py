"""A dataset of one's own, ``images(path=...)``: what is asked for, and what it holds.

Whatever the format (:mod:`noisyfl.data.datasets.own_formats`), the same pixels, labels, classes and
parts are the same dataset: it is named by the digest of its content.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Annotated, Any, ClassVar

import numpy as np
from pydantic import Field

from noisyfl.core.options import BadInput, option
from noisyfl.core.randomness import stream
from noisyfl.core.registry import Component
from noisyfl.data.datasets.images import Fit, Source, Unreadable, in_order, open_image, pixels
from noisyfl.data.datasets.own_formats import Columns, Listing, list_images
from noisyfl.data.datasets.requested import in_short
from noisyfl.data.datasets.sources import Arrays, test_rows
from noisyfl.data.roots import Roots, each

MOST_GB = 16
"""Gigabytes of all pixels, at most; a run has them in memory."""

Side = Annotated[int, Field(ge=1)]


class Images(Component):
    """A dataset of one's own, from a folder of images, a .csv, an .npz or Parquet.

    Its test part is what ``test`` names, or a share that is split off, or what the format itself
    says: subfolders ``train`` and ``test``, arrays ``train_image`` and ``test_image``, or Parquet
    files with ``train`` and ``test`` in their paths.
    """

    name: ClassVar[str] = "images"

    path: str = option(
        doc="in a data folder: a folder of images or of Parquet files, a .csv, .npz or .parquet"
    )
    test: str | None = option(None, doc="the test part, likewise; null: see test_share")
    test_share: float | None = option(
        None,
        doc="share of each class that is split off for testing; null: the format says the parts",
        above=0,
        below=1,
    )
    image: str = option("image", doc="column or array of the images; in a .csv, of their paths")
    label: str = option("label", doc="column or array of the labels: names or numbers of classes")
    given: str | None = option(
        None,
        doc="column or array of given labels beside the true ones, which `label_noise: file` is",
    )
    true_labels: bool = option(True, doc="false: the training labels are noisy as they come")
    classes: list[str] | None = Field(
        None, min_length=2, description="names of the classes by number; null: as the format says"
    )
    size: list[Side] | None = Field(
        None,
        min_length=2,
        max_length=2,
        description="height and width that images are stretched to; null: they have one size",
    )
    mean: list[float] | None = option(
        None, doc="of each channel of pixels from 0 to 1; null: that of the training part"
    )
    std: list[float] | None = option(None, doc="standard deviation of the same; null: likewise")

    @property
    def columns(self) -> Columns:
        """What is read of the training part."""
        return Columns(self.image, self.label, self.given)

    def verify(self, context: Mapping[str, Any]) -> None:
        """Raise :class:`BadInput` if pixels cannot have that mean or standard deviation."""
        for name, values, least in (("mean", self.mean, 0), ("std", self.std, 0.0001)):
            if any(not least <= value <= 1 for value in values or ()):
                raise BadInput(
                    f"got {values}, expected numbers from {least} to 1, which pixels are scaled to",
                    name,
                )


@dataclass(frozen=True)
class Content:
    """What a dataset of one's own holds.

    Attributes:
        known: what specs have of it (:class:`noisyfl.data.datasets.dataset.OwnImages`).
        train: the training part's images and labels.
        test: the test part's.
        given: the given labels of the training part, int64 [n]; None if it has none.
    """

    known: dict[str, Any]
    train: Arrays
    test: Arrays
    given: np.ndarray | None


def read_images(wanted: Images, roots: Roots) -> Content:
    """Read a dataset of one's own.

    Args:
        wanted: where it lies, and what of it is meant.
        roots: the data folders.

    Raises:
        BadInput: a file is missing or cannot be read; images differ in size, and none is wanted; a
            label has no class; a class has no training image; there is no test part, or there are
            two, or it is the training part.
    """
    train, test = _parts(wanted, roots)
    classes = list(wanted.classes or train.classes or _classes_of(train.labels))
    if len(classes) < 2 or "" in classes:
        raise BadInput(
            f"{train.place}: got the classes {classes}, expected two or more, each with a name",
            "classes" if wanted.classes else "label",
        )
    labels, given = _numbers(train, train.labels, classes), None
    if train.given is not None:
        given = _numbers(train, train.given, classes, "given")
    if test is None:
        size = max(1, round(float(wanted.test_share or 0) * len(labels)))
        tested = test_rows(labels, size, stream(0, "images", "test part"))
        test, test_labels = train.rows(np.flatnonzero(tested)), labels[tested]
        train, labels = train.rows(np.flatnonzero(~tested)), labels[~tested]
        given = None if given is None else given[~tested]
    else:
        test_labels = _numbers(test, test.labels, classes)
    if lacking := sorted(set(range(len(classes))) - set(labels.tolist())):
        raise BadInput(
            f"{train.place}: class {classes[lacking[0]]!r} has no training image, expected some of "
            "every class",
            "classes" if wanted.classes else "label",
        )
    fit, channels = _measure([train, test], wanted.size)
    gigabytes = (len(train) + len(test)) * fit.height * fit.width * channels / 1e9
    if gigabytes > MOST_GB:
        raise BadInput(
            f"{train.place}: {gigabytes:,.0f} GB of pixels, expected at most {MOST_GB}, which a "
            "run holds in memory; a smaller size helps",
            "size",
        )
    parts = (
        (_pixels(train, fit, channels), labels),
        (_pixels(test, fit, channels), test_labels),
    )
    mean, std = _normalization(wanted, parts[0][0])
    known = {
        "name": "images",
        "shape": [fit.height, fit.width, channels],
        "classes": classes,
        "train_size": len(labels),
        "test_size": len(test_labels),
        "mean": mean,
        "std": std,
        "true_labels": wanted.true_labels,
    }
    return Content({**known, "sha256": content_digest(known, parts)}, *parts, given)


def content_digest(known: dict[str, Any], parts: Sequence[Arrays]) -> str:
    """SHA-256 of what is known of a dataset, and of the pixels and labels of both parts."""
    digest = hashlib.sha256(json.dumps(known, sort_keys=True).encode())
    for images, labels in parts:
        digest.update(f"{len(labels)};".encode())
        digest.update(np.ascontiguousarray(images).data)
        digest.update(labels.astype("<i8").tobytes())
    return digest.hexdigest()


def fingerprint(wanted: Images, roots: Roots) -> str:
    """SHA-256 of the paths, sizes and times of all files that a dataset of one's own is read from,
    which tells cheaply whether it is still the same.

    Raises:
        BadInput: a file or folder that the options name is missing or cannot be read.
    """
    digest = hashlib.sha256()
    for path in _files(wanted, roots):
        try:
            found = path.stat()
            digest.update(f"{path} {found.st_size} {found.st_mtime_ns}\n".encode())
        except OSError:
            digest.update(f"{path} missing\n".encode())
    return digest.hexdigest()


def _files(wanted: Images, roots: Roots) -> Iterator[Path]:
    for path, option_name in ((wanted.path, "path"), (wanted.test, "test")):
        if path is None:
            continue
        place = _place(path, option_name, roots)
        if place.is_dir():
            yield from sorted(file for file in place.rglob("*") if not file.is_dir())
            continue
        yield place
        if place.suffix == ".csv":
            listed = list_images(place, wanted.columns._replace(given=None))["all"]
            yield from (image for image in listed.images if isinstance(image, Path))


def _place(path: str, option_name: str, roots: Roots) -> Path:
    for root in each(roots):
        if (root / path).exists():
            return root / path
    folders = " or ".join(str(root / path) for root in each(roots))
    raise BadInput(f"got {path!r}, and there is neither file nor folder {folders}", option_name)


def _parts(wanted: Images, roots: Roots) -> tuple[Listing, Listing | None]:
    """The training part, and the test part unless it is still to be split off."""
    path = _place(wanted.path, "path", roots)
    found = list_images(path, wanted.columns)
    ways = {
        "test": wanted.test is not None,
        "test_share": wanted.test_share is not None,
        "the parts in path": "test" in found,
    }
    said = [way for way, is_there in ways.items() if is_there]
    if len(said) != 1:
        raise BadInput(
            f"got {' and '.join(said) or 'no test part'}, expected one of {', '.join(ways)}",
            "test",
        )
    if wanted.test is None:
        return (found["train"], found["test"]) if "test" in found else (found["all"], None)
    place = _place(wanted.test, "test", roots)
    if place.samefile(path):
        raise BadInput(
            f"got {wanted.test!r}, which is path too, expected other images than those of training "
            "(test_share splits some off)",
            "test",
        )
    of_test = list_images(place, wanted.columns._replace(given=None))
    if "all" not in of_test:
        raise BadInput(f"{place} has a training part of its own, expected a test part", "test")
    return found["all"], of_test["all"]


def _classes_of(labels: Sequence[int | str]) -> list[str]:
    """The names of the classes of labels: the sorted names, or the numbers from 0 on."""
    if any(isinstance(label, str) for label in labels):
        return sorted({str(label) for label in labels})
    return [str(number) for number in range(max((int(label) for label in labels), default=0) + 1)]


def _numbers(
    listed: Listing,
    labels: Sequence[int | str],
    classes: list[str],
    option_name: str = "label",
) -> np.ndarray:
    """The number of each label's class, int64 [n]."""
    kind = "given label" if option_name == "given" else "label"
    known: dict[int | str, int] = {name: number for number, name in enumerate(classes)}
    known |= {number: number for number in range(len(classes))}
    for row, label in enumerate(labels):
        if label not in known:
            raise BadInput(
                f"{listed.name(row)} has the {kind} {label!r}, expected one of {len(classes)} "
                f"classes: {in_short(list(map(str, classes)))}",
                option_name,
            )
    return np.array([known[label] for label in labels], dtype=np.int64)


def _measure(parts: Sequence[Listing], size: Sequence[int] | None) -> tuple[Fit, int]:
    """The size that images have or are to have, and their channels: 1 if all are grey, else 3."""
    fit = None if size is None else Fit(size[0], size[1])
    channels = 1
    unreadable = []
    for listed in parts:
        for row, found in enumerate(in_order(_looks, listed.images)):
            if isinstance(found, str):
                unreadable.append(f"{listed.name(row)}: {found}")
                continue
            height, width, grey = found
            channels = channels if grey else 3
            if fit is None:
                fit, first = Fit(height, width), listed.name(row)
            elif size is None and (height, width) != (fit.height, fit.width):
                raise BadInput(
                    f"{listed.name(row)} is {height}x{width}, and {first} is "
                    f"{fit.height}x{fit.width}; expected images of one size, or one to bring them "
                    "to, such as size=[32, 32]",
                    "size",
                )
    if unreadable:
        raise BadInput(f"{len(unreadable):,} images cannot be read: {in_short(unreadable)}", "path")
    assert fit is not None
    return fit, channels


def _looks(image: Source) -> tuple[int, int, bool] | str:
    """Height, width, and whether it is grey; or why it cannot be read."""
    from PIL import Image

    if isinstance(image, np.ndarray):
        return image.shape[0], image.shape[1], image.shape[2:] != (3,)
    try:
        with open_image(image) as file:
            return file.height, file.width, Image.getmodebase(file.mode) == "L"
    except (OSError, SyntaxError, ValueError) as error:
        return " ".join(str(error).split())


def _pixels(listed: Listing, fit: Fit, channels: int) -> np.ndarray:
    """All images, uint8 [n, height, width, channels]."""
    images = np.zeros((len(listed), fit.height, fit.width, channels), dtype=np.uint8)
    for row, found in enumerate(in_order(partial(pixels, fit=fit), listed.images)):
        if isinstance(found, Unreadable):
            raise BadInput(f"{listed.name(row)}: cannot be read ({found.reason})", "path")
        images[row] = found[..., :channels]
    return images


def _normalization(wanted: Images, images: np.ndarray) -> tuple[list[float], list[float]]:
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
