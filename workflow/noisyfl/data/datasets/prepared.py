"""Datasets that are prepared already, in folders that several users share."""

from __future__ import annotations

import reprlib
import shutil
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from noisyfl.core.artifacts import DamagedArtifact, read_metadata, replacing
from noisyfl.core.options import BadInput
from noisyfl.data.datasets.dataset import dataset, is_own
from noisyfl.data.datasets.parts import metadata_of, prepare, read_part
from noisyfl.data.datasets.shards import Encoded
from noisyfl.data.own_files import OwnFiles

PARTS = ("train.parquet", "test.parquet")


def prepared(raw: str | Mapping[str, Any], own: OwnFiles, download: bool) -> tuple[Path, Path]:
    """The files of a dataset's training and test part, which are made if they are missing.

    Args:
        raw: the dataset as a spec has it.
        own: the folders of official data files, and the results folder.

    Raises:
        BadInput: official files are missing or damaged.
    """
    name = dataset(raw).name
    train, test = own.results.data(name, "train"), own.results.data(name, "test")
    if not (train.exists() and test.exists()):
        provide(name, own, download, ())
    return train, test


def provide(name: str, own: OwnFiles, download: bool, prepared: Sequence[Path]) -> None:
    """Make a dataset's parts: copies of prepared ones, or else from its official files or, of a
    user's own, from the files that it was planned with.

    For images that are kept encoded, only the index is copied, and a link leads to the shards. The
    part's own file is never a link: users keep what their runs are made from even if somebody moves
    the folder.

    Args:
        own: the data folders, and the results folder, where the parts go.
        download: see :func:`noisyfl.data.datasets.parts.prepare`.
        prepared: folders that may have ``<name>/train.parquet`` and ``<name>/test.parquet``, made
            by this function elsewhere. The first folder that has both is taken.

    Raises:
        BadInput: a prepared part is damaged, or not what this version would prepare; or see
            :func:`noisyfl.data.datasets.parts.prepare`.
    """
    train_path, test_path = (own.results.data(name, part) for part in ("train", "test"))
    for folder in (root / name for root in prepared):
        parts = [folder / part for part in PARTS]
        if all(part.is_file() for part in parts):
            for part in parts:
                _check(part, name)
            for path, part in zip((train_path, test_path), parts, strict=True):
                _copy(path, part)
            return
    if is_own(name):
        own.prepare_again(name)
    else:
        prepare(name, own.roots, download, train_path, test_path)


def _check(path: Path, name: str) -> None:
    """Raise :class:`BadInput` if a part is not as this version's :func:`prepare` would write it."""
    train = path.stem == "train"

    def compare(says: Mapping[str, Any], expected: Mapping[str, Any]) -> None:
        for key, value in expected.items():
            if says.get(key) != value:
                raise BadInput(
                    f"data.prepared: {path}: {key} is {reprlib.repr(says.get(key))}, expected "
                    f"{reprlib.repr(value)}, as this version prepares {name}; have it prepared "
                    "again, or take its folder out of data.prepared"
                )

    try:
        # A part whose metadata has no revision is of revision 1.
        metadata = {"revision": 1, **read_metadata(path)}
        facts = dataset(metadata.get("own") or name, "dataset")
        shape = (train and facts.train_shape) or facts.shape
        # A user's own dataset is what the file says, and may have changed.
        compare(metadata, {**metadata_of(facts, path.stem, shape), "dataset": name})
        found = read_part(path)
    except DamagedArtifact as error:
        raise BadInput(f"data.prepared: {error}") from error
    compare(
        {"images": len(found.labels), "encoded": isinstance(found.images, Encoded)},
        {"images": facts.train_size if train else facts.test_size, "encoded": facts.encoded},
    )


def _copy(path: Path, part: Path) -> None:
    """Copy a part's file; beside an index, also make a link to the folder of its shards."""
    shards, link = part.with_suffix(""), path.with_suffix("")
    path.parent.mkdir(parents=True, exist_ok=True)
    if shards.is_dir():
        if link.is_symlink():
            link.unlink()
        if link.exists():
            raise BadInput(
                f"data.prepared: {link} has shards of its own, which nobody finished; delete it "
                f"to use those in {shards}, or take that folder out of data.prepared"
            )
        link.symlink_to(shards.resolve())
    with replacing(path) as draft:
        shutil.copyfile(part, draft)
