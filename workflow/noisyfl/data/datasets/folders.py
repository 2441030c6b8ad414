"""What is in a user's folder of images: its files, and the names of its parts.

The same traversal serves for reading and for noticing changes.
"""

from __future__ import annotations

import os
import re
from collections import Counter, defaultdict
from collections.abc import Callable, Collection, Iterable, Sequence
from pathlib import Path
from typing import NamedTuple, TypeVar

from noisyfl.core.options import BadInput
from noisyfl.data.datasets.images import image_formats
from noisyfl.data.datasets.requested import shortened

Item = TypeVar("Item")

PARTS = {
    "train": ("train", "training"),
    "test": ("test", "testing", "eval", "evaluation"),
    "validation": ("validation", "valid", "val", "dev"),
    "unlabeled": ("unlabeled", "unlabelled"),
}
"""Names of the parts of a dataset, ignoring case: those of the Hugging Face hub, and unlabeled."""

SYSTEM = {
    *("__macosx", "__pycache__", "@eadir", "#recycle", "$recycle.bin", "lost+found"),
    *("system volume information", "thumbs.db", "desktop.ini"),
}
"""Files and folders that systems leave, in lower case; what begins with a dot is skipped, too."""

HIDDEN = "hidden or system files and folders"
REPEATED = "links to what is read already"
SPECIAL = "pipes, sockets and devices"


class Tree(NamedTuple):
    """What is below a folder.

    Attributes:
        files: regular files, and links that lead nowhere; by folder, then by name.
        folders: those that were looked into, with the place itself.
        skipped: how many there are of each kind that is skipped.
        repeats: links to what is read already, each with the path of that, without links.
    """

    files: list[Path]
    folders: list[Path]
    skipped: Counter[str]
    repeats: list[tuple[Path, Path]]


def walk(place: Path) -> Tree:
    """What is below a folder. Links are followed, and each file and folder is visited once: as
    itself if it lies below the folder, else by the first link that leads to it.

    Raises:
        BadInput: a folder cannot be read.
    """
    tree = Tree([], [], Counter(), [])
    home = Path(os.path.realpath(place))
    seen = set(home.parents)
    waiting, links = [(place, home)], list[Path]()
    while waiting or links:
        # Links come last, so that what they lead to keeps a place of its own.
        path, real = waiting.pop() if waiting else (links[0], Path(os.path.realpath(links.pop(0))))
        if real in seen:
            tree.skipped[REPEATED] += 1
            tree.repeats.append((path, real))
            continue
        seen.add(real)
        try:
            if path.is_dir():
                tree.folders.append(path)
                for entry in sorted(os.scandir(path), key=lambda entry: entry.name):
                    if entry.name.startswith(".") or entry.name.lower() in SYSTEM:
                        tree.skipped[HIDDEN] += 1
                    elif entry.is_symlink():
                        links.append(path / entry.name)
                    else:
                        waiting.append((path / entry.name, real / entry.name))
            elif (
                path.is_file() or not path.exists()
            ):  # where a link leads nowhere, its reader says so
                tree.files.append(path)
            else:
                tree.skipped[SPECIAL] += 1
        except OSError as error:
            raise BadInput(f"{path}: cannot be read ({error.strerror})", "path") from error
    tree.files.sort(key=lambda file: (str(file.parent), file.name))
    return tree


def skipped(tree: Tree, parts: Sequence[str], files: Sequence[Path]) -> list[str]:
    """A note of what is not read of a folder; none if all of it is."""
    suffixes = Counter(file.suffix.lower() or "without a suffix" for file in files)
    found = [f"{count:,} {what}" for what, count in sorted(tree.skipped.items())]
    found += [
        f"{count:,} {'file' if count == 1 else 'files'} {suffix}"
        for suffix, count in sorted(suffixes.items())
    ]
    found += [f"the part {name}" for name in parts]
    return [f"skipped {', '.join(found)}"] if found else []


def words_of(name: str) -> list[str]:
    """The words of a name, without numbers."""
    return [word for word in re.split(r"[-._ \d]+", name) if word]


def part_named(words: Iterable[str]) -> str:
    """The part of a dataset that words name; empty if none of them does, or they name several."""
    lower = {word.lower() for word in words}
    found = [part for part, names in PARTS.items() if lower & set(names)]
    return found[0] if len(found) == 1 else ""


def hub_part(path: Path) -> tuple[str, str]:
    """The part that a file in a folder of the hub belongs to, empty if its path does not say one;
    and its configuration: the path up to the word that says so, without numbers and ``data``.
    """
    for depth in reversed(range(len(path.parts))):
        name = re.sub(r"-\d+-of-\d+.*", "", path.with_suffix("").parts[depth])
        if part := part_named(words_of(name)):
            above = [folder for folder in path.parts[:depth] if folder != "data"]
            return part, "/".join([*above, "_".join(words_of(name))])
    return "", ""


def by_part(
    items: Iterable[Item], part_of: Callable[[Item], str]
) -> tuple[dict[str, list[Item]], list[Item]]:
    """Items by the part that they belong to, and those of no part."""
    named: dict[str, list[Item]] = defaultdict(list)
    for item in items:
        named[part_of(item)].append(item)
    return named, named.pop("", [])


def both_parts(place: Path, there: Collection[str], kind: str) -> tuple[str, str] | None:
    """Which parts of a dataset are for training and for testing: of test and validation, test is.

    Returns:
        None if there is no part, or a single one.

    Raises:
        BadInput: there are several, but not both.
    """
    held = next((part for part in ("test", "validation") if part in there), None)
    if "train" in there and held:
        return "train", held
    if len(there) > 1:
        raise BadInput(
            f"{place} has {kind} for {' and '.join(there)}, expected train and test (or "
            "validation); or name each part of its own in path and test",
            "path",
        )
    return None


def part_folders(place: Path, tree: Tree) -> dict[str, Path]:
    """The folders of a dataset that have a folder for each class: one of ``train`` and one of
    ``test``, or that of ``all``.

    Raises:
        BadInput: the folders of parts cannot be told apart, or a link leads from one to the other.
    """
    names = sorted(folder.name for folder in tree.folders if folder.parent == place)
    named, others = by_part(names, lambda name: part_named([name]))
    worded, rest = by_part(names, lambda name: part_named(words_of(name)))
    # Such as seg_train and seg_test; but not bullet_train and test_tube among a thousand classes.
    if {"train", "test"} <= worded.keys() and len(rest) <= 1:
        named, others = worded, rest
    both = both_parts(place, named, "folders")
    if both is None and len(named) == 1 and not others:
        for link, real in tree.repeats:
            if link.parent == place and part_named([link.name]):
                raise BadInput(
                    f"{link} leads to {real}, which is another part; expected each file in one "
                    "part",
                    "path",
                )
        raise BadInput(
            f"{place} has only the folder {' and '.join(names)}, expected one for each class, or "
            "train and test; name the folder itself in path",
            "path",
        )
    if both is None:
        return {"all": place}
    for part in both:
        if len(named[part]) > 1:
            raise BadInput(
                f"{place} has the folders {' and '.join(named[part])}, expected one for {part}",
                "path",
            )
    train, test = (place / named[part][0] for part in both)
    home = Path(os.path.realpath(place))
    for link, real in tree.repeats:
        for one, other in ((train, test), (test, train)):
            if link.is_relative_to(one) and real.is_relative_to(home / other.name):
                raise BadInput(
                    f"{link} leads to {real}, which is in the other part; expected each file in "
                    "one part",
                    "path",
                )
    return {"train": train, "test": test}


def classes_of(place: Path, tree: Tree) -> dict[str, list[Path]]:
    """The images of each class of a folder that has a folder for each class.

    Raises:
        BadInput: it has none, one has no image, or they seem to be parts.
    """
    within: dict[Path, set[str]] = defaultdict(set)
    for folder in tree.folders:
        within[folder.parent].add(folder.name)
    found: dict[str, list[Path]] = {name: [] for name in sorted(within[place])}
    depth = len(place.parts)
    for file in tree.files:
        below = file.is_relative_to(place) and len(file.parts) > depth + 1
        if below and file.suffix.lower() in image_formats():
            found[file.parts[depth]].append(file)
    empty = [name for name, images in found.items() if not images]
    if empty or not found:
        raise BadInput(
            f"{place}: expected a subfolder of images for each class (found no "
            f"{'image in ' + shortened(empty) if empty else 'subfolder'})",
            "path",
        )
    shared = set.intersection(*(within[place / name] for name in found))
    if len(found) > 1 and len(shared) > 1:
        raise BadInput(
            f"{place}: each of the folders {shortened(list(found))} has the subfolders "
            f"{shortened(sorted(shared))}, as parts of a dataset have; expected one folder for "
            "each class (name the parts in path and test)",
            "path",
        )
    return found
