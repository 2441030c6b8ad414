"""Datasets of the Hugging Face hub: their Parquet files, fetched once into a data folder.

They lie in ``hub/<owner>--<name>/<commit>/``. Which commit a revision stood for when it was fetched
is kept beside them in ``revisions.json``, so that a branch that moves on changes no dataset here.
"""

from __future__ import annotations

import re
import shutil
from pathlib import Path

from noisyfl.core.artifacts import read_json, write_json
from noisyfl.core.options import BadInput
from noisyfl.core.text import reason
from noisyfl.data.roots import Roots, each

NEWEST = "main"
"""The revision if none is given."""

CONVERTED = "refs/convert/parquet"
"""The branch in which the hub keeps Parquet that it has made of datasets in other formats."""


def fetched(hub: str, roots: Roots) -> tuple[Path, str]:
    """The folder of a dataset of the hub, which is fetched if no data folder has it; its commit.

    Args:
        hub: ``owner/name``, or ``owner/name@revision`` for a branch, tag or commit other than
            :data:`NEWEST`.
        roots: the data folders; the last one is fetched into.

    Raises:
        BadInput: it cannot be fetched, or has no Parquet file.
    """
    found = re.fullmatch(r"([\w-][\w.-]*(?:/[\w-][\w.-]*)?)(?:@([\w./-]+))?", hub)
    if found is None:
        raise BadInput(f"got {hub!r}, expected a dataset of the hub such as ylecun/mnist", "hub")
    name, wanted = found[1], found[2] or NEWEST
    places = [root / "hub" / name.replace("/", "--") for root in each(roots)]
    for place in places:
        known = _known(place)
        commit = known.get(wanted, wanted)
        if (place / commit).is_dir() and commit in known.values():
            return place / commit, commit
    return _fetch(name, wanted, places[-1])


def _known(place: Path) -> dict[str, str]:
    """The commits that are there, by the revision that they were fetched for."""
    record = place / "revisions.json"
    return read_json(record) if record.is_file() else {}


def _fetch(hub: str, wanted: str, place: Path) -> tuple[Path, str]:
    try:
        import huggingface_hub
    except ImportError as error:
        raise BadInput(
            f'got {hub!r}, and huggingface_hub is not installed: pip install "noisyfl[hub]"', "hub"
        ) from error
    try:
        commit = str(huggingface_hub.HfApi().dataset_info(hub, revision=wanted).sha)
        folder, draft = place / commit, place / f"{commit}.draft"
        if not folder.is_dir():
            huggingface_hub.snapshot_download(
                hub,
                repo_type="dataset",
                revision=commit,
                allow_patterns="*.parquet",
                local_dir=draft,
            )
    except Exception as error:  # of the network, the hub, or the disk
        raise BadInput(
            f"got {hub!r} at {wanted!r}, which cannot be fetched: {reason(error)}", "hub"
        ) from error
    if not folder.is_dir() and not any(draft.rglob("*.parquet")):
        shutil.rmtree(draft, ignore_errors=True)
        raise BadInput(
            f"got {hub!r} at {wanted!r}, which has no Parquet file; "
            f"{hub}@{CONVERTED} may have some",
            "hub",
        )
    if not folder.is_dir():
        draft.rename(folder)
    write_json(place / "revisions.json", {**_known(place), wanted: commit})
    return folder, commit


def files_of_split(folder: Path, split: str, option: str) -> list[Path]:
    """The Parquet files of a split: those whose name begins with it, or that lie in its folder.

    Raises:
        BadInput: there is none, or the files are of several configurations.
    """
    every = sorted(folder.rglob("*.parquet"))

    def names(path: Path) -> set[str]:
        inside = path.relative_to(folder)
        return {re.split(r"-\d+-of-\d+|\.", inside.name)[0], *inside.parts[:-1]}

    found = [path for path in every if split in names(path)]
    if not found:
        known = sorted(set().union(*map(names, every)))
        raise BadInput(f"got {split!r}, expected a split, such as {', '.join(known)}", option)
    folders = {path.relative_to(folder).parent for path in found}
    above = [
        inside.parts[: inside.parts.index(split)] if split in inside.parts else inside.parts
        for inside in folders
    ]
    configurations = {tuple(part for part in parts if part != "data") for parts in above}
    if len(configurations) > 1:
        raise BadInput(
            f"got {split!r}, of which there are files in {', '.join(sorted(map(str, folders)))}; "
            "expected one configuration: name its folder, or its files, in path and test",
            option,
        )
    return found
