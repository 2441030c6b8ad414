"""Label noise from files: labels that people gave, and a user's given labels."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from noisyfl.core.options import BadInput, option
from noisyfl.data.datasets.dataset import Dataset
from noisyfl.data.noise.human_labels import (
    OFFICIAL,
    LabelsMissing,
    check_key,
    check_order,
    digest,
    find_file,
    labelled,
    load_columns,
)
from noisyfl.data.noise.label_noise import LABEL_NOISES, Context, LabelNoise
from noisyfl.data.roots import NotRead

if TYPE_CHECKING:
    from noisyfl.data.own_files import OwnFiles


@LABEL_NOISES.register("human")
class Human(LabelNoise):
    """Labels that people gave, from a file: CIFAR-10N and CIFAR-100N (Wei et al., ICLR 2022).

    One label for each training sample, in the order of the dataset, which is checked if the file
    has the true labels too (:mod:`noisyfl.data.noise.human_labels`). The noise level cannot be
    chosen: it is that of the labels.
    """

    uses_level = False
    whole = True
    file: str | None = option(
        None,
        doc="a .csv, .parquet, .npz, .npy or .pt file in a data folder; null: the file of the "
        "dataset's human labels, in any layout",
    )
    key: str | None = option(None, doc="array of the file, or column of the .csv")
    sha256: str = option(
        "", doc="of the labels as int64; filled in from the file where it is not given"
    )

    def check(self, dataset: Dataset, clients: int) -> None:
        """Raise :class:`BadInput` if no file is known, or not the array of it."""
        if self.file is not None:
            return
        name = labelled(dataset.name)
        if name not in OFFICIAL:
            raise BadInput(
                f"got null, expected a file, since no human labels are known of "
                f"{dataset.title} (but of {', '.join(OFFICIAL)})",
                "file",
            )
        check_key(self.key, name)

    def flip(
        self, clients: Sequence[np.ndarray], levels: np.ndarray, context: Context
    ) -> list[np.ndarray]:
        """The file's labels.

        Raises:
            BadInput: no such file or key, another checksum, or labels that are not the dataset's.
        """
        (true,) = clients
        if context.own is None:
            raise BadInput("got no data folder that the labels could lie in", "file")
        path = find_file(None, context.dataset.name, context.own.roots)
        labels, clean = load_columns(None, self.key, context.dataset, context.own.roots)
        if clean is not None:
            check_order(clean, true, path, context.dataset.title)
        _check_digest(digest(labels), self.sha256, self.key, path)
        return [labels]

    def resolve(self, dataset: Dataset, own: OwnFiles | None) -> LabelNoise:
        """The same noise with the digest of its labels; if it names a file, as ``file`` has it."""
        self.check(dataset, 1)
        if self.file is not None:
            return _from_file(self.file, self.key, self.sha256, dataset, own)
        if own is None or self.sha256:
            return self
        return self.model_copy(update={"sha256": own.labels(None, self.key, dataset)})


def _from_file(
    path: str,
    key: str | None,
    sha256: str,
    dataset: Dataset,
    own: OwnFiles | None,
    title: str | None = None,
) -> LabelNoise:
    """A user's own labels, by their digest; the file need not be there if that is given."""
    if own is None:
        raise NotRead(f"got {path!r}, which has not been read yet; plan the scale that names it")
    try:
        found = own.labels(path, key, dataset, title)
    except LabelsMissing:
        if not sha256:
            raise
        found = sha256
    _check_digest(found, sha256, key, path)
    return OwnLabels(sha256=found)


def _check_digest(found: str, expected: str, key: str | None, path: Path | str) -> None:
    if expected not in ("", found):
        raise BadInput(f"the labels {key!r} in {path} have {found}, expected {expected}", "sha256")


@LABEL_NOISES.register("file")
class OwnLabels(LabelNoise):
    """A user's given labels, from a file, or the column ``given`` of a user's own dataset.

    One label for each training sample, in the order of the dataset, which is checked if a column
    ``clean_label`` of the file has the true labels too. A spec names them by their digest, so that
    the file's place and format do not matter.
    """

    uses_level = False
    whole = True
    path: str | None = option(
        None,
        doc="a .csv, .parquet, .npz, .npy or .pt file in a data folder; null: the given labels "
        "that `images(given=...)` names",
    )
    key: str | None = option(None, doc="array of the file, or column of the .csv")
    title: str | None = option(
        None, doc="what tables and pages call them; null: as the file and the key are called"
    )
    sha256: str = option(
        "", doc="of the labels as int64; filled in from the file where it is not given"
    )

    def canonical(self) -> dict[str, Any]:
        """The labels by their digest, wherever they come from."""
        return {"name": self.name, "sha256": self.sha256}

    def flip(
        self, clients: Sequence[np.ndarray], levels: np.ndarray, context: Context
    ) -> list[np.ndarray]:
        """The file's labels.

        Raises:
            BadInput: they are not kept in the results folder, or in another order than the
                dataset's.
        """
        (true,) = clients
        if context.own is None:
            raise BadInput("got no results folder, in which the labels are kept", "sha256")
        kept = context.own.load(self.sha256)
        if "clean_label" in kept:
            with _path_for_file():
                check_order(kept["clean_label"], true, "the file", context.dataset.title)
        return [kept["label"]]

    def resolve(self, dataset: Dataset, own: OwnFiles | None) -> LabelNoise:
        """The same noise with the digest of its labels, which are read and kept."""
        if self.path is not None:
            with _path_for_file():
                return _from_file(self.path, self.key, self.sha256, dataset, own, self.title)
        if not self.sha256 and not dataset.given:
            raise BadInput(
                f"got null, expected a file, since {dataset.title} has no given labels of its own "
                "(the option given of images names them)",
                "path",
            )
        return OwnLabels(sha256=self.sha256 or dataset.given)


@contextmanager
def _path_for_file() -> Iterator[None]:
    """Errors name the option ``path``, which is called ``file`` of human labels."""
    try:
        yield
    except BadInput as error:
        error.path = tuple("path" if key == "file" else key for key in error.path)
        raise
