"""Which training images the rows of a user's file are of, by their names."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path, PurePath

import numpy as np

from noisyfl.core.options import BadInput
from noisyfl.core.text import printable
from noisyfl.data.datasets.requested import shortened

COLUMN = "image"
"""The column of a file of labels or clients that names images."""

SAMPLE = "sample"
"""The column of such a file that has their numbers."""

_SEVERAL, _UNKNOWN = -2, -3


class ImageNames:
    """What the images of a user's own dataset are called: by their paths, or by their file and row.

    A path may be shortened from the left, as long as no other training image ends the same way:
    it may be relative to any folder above.

    Attributes:
        train: the names of the training images, in the training part's order.
        rows: the training sample that each image of the whole training part is, int64 [n]; -1 if it
            is held out for validation.

    Args:
        whole: the names of the whole training part, in its order.
        test: those of the test images.
        rows: see above; None: no image is held out.
    """

    def __init__(
        self, whole: Sequence[str], test: Sequence[str], rows: np.ndarray | None = None
    ) -> None:
        self.rows = np.arange(len(whole)) if rows is None else rows
        self.train = [whole[row] for row in np.flatnonzero(self.rows >= 0).tolist()]
        self._names = whole
        self._train, self._test = (
            [_parts(os.path.abspath(name)) for name in names]  # noqa: PTH100 (links stay)
            for names in (whole, test)
        )

    def fits(self, row: int, image: str) -> bool:
        """Whether an image of the whole training part is called so."""
        parts = _parts(image)
        return bool(parts) and self._train[row][-len(parts) :] == parts

    def name(self, row: int) -> str:
        """What an image of the whole training part is called."""
        return self._names[row]

    def samples(self, images: Sequence[str], where: str) -> np.ndarray:
        """The image of the whole training part that each is, int64 [n]; negative if it is in the
        test part.

        Args:
            where: the images are named, for errors.

        Raises:
            BadInput: an image is in neither part, or several training images end so.
        """
        # Names that are as distinct as the samples' own, and fit them in their order, are theirs.
        distinct = len({*images}) == len({*self._names})
        same_length = len(images) == len(self._names)
        if same_length and distinct and all(map(self.fits, range(len(images)), images)):
            return np.arange(len(images))
        wanted = [_parts(image) for image in images]
        lengths = {len(parts) for parts in wanted} - {0}
        known: dict[tuple[str, ...], int] = {}
        for sample, parts in enumerate(self._train):
            for length in lengths:
                tail = parts[-length:]
                known[tail] = _SEVERAL if tail in known else sample
        for parts in self._test:
            for length in lengths:
                known.setdefault(parts[-length:], -1)
        found = np.array([known.get(parts, _UNKNOWN) for parts in wanted], dtype=np.int64)
        for wrong, words in (
            (
                _UNKNOWN,
                f"none of the dataset's images, such as {self._names[0]}; expected their paths, or "
                "no column of this name",
            ),
            (_SEVERAL, "the end of several training images' paths; expected longer paths"),
        ):
            rows = np.flatnonzero(found == wrong).tolist()
            if names := dict.fromkeys(repr(images[row]) for row in rows):
                raise BadInput(f"{where}: {COLUMN!r} has {shortened([*names])}, {words}")
        return found

    def of_file(self, file: Path, count: int) -> np.ndarray | None:
        """The sample of the whole training part that each row of a file is, int64 [count], negative
        if it is in the test part; None unless the dataset has its samples from this file.

        Raises:
            BadInput: only some rows are samples of the dataset.
        """
        tested = {*self._test}
        rows = [_parts(os.path.abspath(f"{file}, row {row}")) for row in range(count)]  # noqa: PTH100
        whole = {parts: row for row, parts in enumerate(self._train)}
        found = np.array([whole.get(parts, -1) for parts in rows], dtype=np.int64)
        there = [parts in whole or parts in tested for parts in rows]
        if not any(there):
            return None
        if not all(there):
            raise BadInput(
                f"{file}: row {there.index(False)} is no sample of the dataset, and others are; "
                "plan its scale again"
            )
        return found

    def rows_of(self, images: Sequence[str], where: str) -> np.ndarray:
        """The row of each training sample in a list of images, int64 [n]; test images, and those
        that are held out, may be listed too.

        Raises:
            BadInput: see :meth:`samples`; or a training image is not listed once.
        """
        return self.rows_among(self.samples(images, where), where)

    def rows_among(self, found: np.ndarray, where: str) -> np.ndarray:
        """The row of each training sample, int64 [n].

        Args:
            found: the image of the whole training part that each row has, int64 [rows].

        Raises:
            BadInput: a training image is not there once.
        """
        samples = np.where(found >= 0, self.rows[found], -1)
        listed = np.flatnonzero(samples >= 0)
        counts = np.bincount(samples[listed], minlength=len(self.train))
        if len(wrong := np.flatnonzero(counts != 1)):
            raise BadInput(
                f"{where}: it does not have each training image once: {len(wrong):,} are missing "
                f"or repeated, such as {self.train[wrong[0]]}"
            )
        rows = np.empty(len(self.train), dtype=np.int64)
        rows[samples[listed]] = listed
        return rows


def _parts(name: str) -> tuple[str, ...]:
    """The parts of a path; those that lead upwards only say where it starts."""
    path = PurePath(os.path.normpath(printable(name)))
    return tuple(part for part in path.parts if part not in ("/", "//", ".."))
