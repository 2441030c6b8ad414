"""Datasets available on request, read as their makers give them: lists of files and images."""

from __future__ import annotations

import os
from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from noisyfl.core.options import BadInput
from noisyfl.data.datasets.classes import COVIDX_CLASSES, WEBVISION_CLASSES
from noisyfl.data.datasets.images import Files, Fit
from noisyfl.data.roots import NotFound

SHOWN = 3
"""How many missing or unreadable files a message names."""


@dataclass(frozen=True)
class Request:
    """How to obtain a dataset.

    Attributes:
        folders: names that its folder may have in the data folder; the first is the one to use.
        giver: who gives it, and where to ask.
        needed: the papers' tables that need it.
    """

    name: str
    folders: tuple[str, ...]
    content: str
    giver: str
    needed: str

    def folder(self, data: Path) -> Path:
        """The dataset's folder; if missing, a :class:`NotFound` says how to obtain the dataset."""
        for name in self.folders:
            if (data / name).is_dir():
                return data / name
        raise NotFound(self.name, f"there is no folder {data / self.folders[0]}", self.remedy())

    def remedy(self) -> str:
        """What to do if the dataset is not there, in words."""
        return (
            f"{self.name} cannot be downloaded: {self.giver}. Put {self.content} into "
            f"{self.folders[0]}/ in the data folder. It is needed by {self.needed}; everything "
            "else is made without it (snakemake --keep-going)"
        )


CLOTHING1M = Request(
    name="clothing1m",
    folders=("clothing1m", "Clothing1M", "clothing1M"),
    content=(
        "its lists (noisy_train_key_list.txt, noisy_label_kv.txt, clean_test_key_list.txt, "
        "clean_label_kv.txt) and images/"
    ),
    giver=(
        "its authors give it for research by e-mail (Xiao et al., CVPR 2015; "
        "https://github.com/Cysu/noisy_label)"
    ),
    needed="FedCorr table 5, RoFL table 2 and FedCNI table 3",
)

MINI_WEBVISION = Request(
    name="mini_webvision",
    folders=("webvision", "WebVision", "mini_webvision"),
    content=(
        "info/ (train_filelist_google.txt, val_filelist.txt), the folders google/q*/ of its first "
        "50 classes and val_images_256/ (the resized images of WebVision 1.0)"
    ),
    giver=(
        "ETH Zürich gives WebVision 1.0 for research "
        "(https://data.vision.ee.ethz.ch/cvl/webvision/dataset2017.html)"
    ),
    needed="FedRN table 4",
)

COVIDX = Request(
    name="covidx",
    folders=("covidx", "COVIDx"),
    content="train_COVIDx5.txt, test_COVIDx5.txt and the image folders train/ and test/",
    giver=(
        "it is put together from public collections, some of which ask for registration, by the "
        "notebook of its authors (Wang and Wong, 2020; https://github.com/lindawangg/COVID-Net, "
        "docs/COVIDx.md)"
    ),
    needed="RoFL's text (target rofl_intext_covidx)",
)


def load_clothing1m(data: Path, download: bool) -> tuple[Files, Files]:
    """Clothing1M: a million images with their shops' labels; 10,526 with true ones for testing.

    Training images are stretched to 256x256, from which training takes crops of 224x224, and test
    images to 224x224 (FedCorr's official code). The clean training and validation images are not
    used.

    Raises:
        NotFound: a list is missing.
        BadInput: a line is not what it should be.
    """
    folder = CLOTHING1M.folder(data)
    lists = folder / "annotations" if (folder / "annotations").is_dir() else folder
    parts = []
    for keys, labels, side in (
        ("noisy_train_key_list.txt", "noisy_label_kv.txt", 256),
        ("clean_test_key_list.txt", "clean_label_kv.txt", 224),
    ):
        label_of = dict(_labelled(CLOTHING1M, lists / labels))
        names = [line for _, line in _lines(CLOTHING1M, lists / keys)]
        for name in names:
            if name not in label_of:
                raise BadInput(
                    f"clothing1m: {lists / keys} names {name!r}, of which {labels} has no label"
                )
        # Some users unpack the ten folders in images/ without images/ itself.
        within = (folder / "images").is_dir()
        places = names if within else [name.removeprefix("images/") for name in names]
        targets = _array(label_of[name] for name in names)
        parts.append(Files(folder, places, targets, Fit(side, side)))
    return parts[0], parts[1]


def load_mini_webvision(data: Path, download: bool) -> tuple[Files, Files]:
    """The Google part of WebVision 1.0's first 50 classes, and their validation images.

    FedRN (history of its official code) scales the shorter side to 33 pixels, and takes training
    crops of any size from the result. Here they are taken from its middle 33x33, so that all images
    have one size. For testing, the middle 32x32 is cut out.

    Raises:
        NotFound: a list is missing.
        BadInput: a line is not what it should be.
    """
    folder = MINI_WEBVISION.folder(data)
    parts = []
    for file, place, side in (
        ("train_filelist_google.txt", folder, 33),
        ("val_filelist.txt", folder / "val_images_256", 32),
    ):
        listed = [
            (name, label)
            for name, label in _labelled(MINI_WEBVISION, folder / "info" / file)
            if label < len(WEBVISION_CLASSES)
        ]
        names, labels = [name for name, _ in listed], _array(label for _, label in listed)
        parts.append(Files(place, names, labels, Fit(side, side, shorter=33)))
    return parts[0], parts[1]


def load_covidx(data: Path, download: bool) -> tuple[Files, Files]:
    """COVIDx 5 (October 2020), the last release of three classes before RoFL: chest X-rays.

    A line of the lists has a patient, a file, a class and since release 3 a source, separated by
    blanks. RoFL does not say how it brings images to one size; they are treated as it treats
    Clothing1M.

    Raises:
        NotFound: a list is missing.
        BadInput: a line is not what it should be.
    """
    folder = COVIDX.folder(data)
    parts = []
    for part, side in (("train", 256), ("test", 224)):
        path = _first(COVIDX, folder, f"{part}_COVIDx5", f"{part}_split", part)
        listed = [_x_ray(path, number, line) for number, line in _lines(COVIDX, path)]
        names, labels = [name for name, _ in listed], _array(label for _, label in listed)
        parts.append(Files(folder / part, names, labels, Fit(side, side)))
    return parts[0], parts[1]


def missing_files(files: Files) -> list[Path]:
    """Those of a part's files that do not exist, in order; each folder is read only once."""
    wanted: defaultdict[Path, set[str]] = defaultdict(set)
    for path in files.paths():
        wanted[path.parent].add(path.name)
    absent = {folder: names - _names(folder) for folder, names in wanted.items()}
    return [path for path in files.paths() if path.name in absent[path.parent]]


def shortened(files: Sequence[str], shown: int = SHOWN) -> str:
    """The first few of many files, and how many more there are."""
    more = f" and {len(files) - shown:,} more" if len(files) > shown else ""
    return ", ".join(files[:shown]) + more


def _names(folder: Path) -> set[str]:
    try:
        with os.scandir(folder) as entries:
            return {entry.name for entry in entries}
    except (FileNotFoundError, NotADirectoryError):
        return set()


def _first(request: Request, folder: Path, *stems: str) -> Path:
    """The first existing list with one of these names, as .txt or .csv."""
    names = [f"{stem}{suffix}" for stem in stems for suffix in (".txt", ".csv")]
    for name in names:
        if (folder / name).is_file():
            return folder / name
    raise NotFound(request.name, f"none of {', '.join(names)} is in {folder}", request.remedy())


def _lines(request: Request, path: Path) -> Iterator[tuple[int, str]]:
    """The lines of a list that are not empty, with their numbers."""
    try:
        text = path.read_text(encoding="utf-8")
    except FileNotFoundError as error:
        raise NotFound(request.name, f"there is no file {path}", request.remedy()) from error
    for number, line in enumerate(text.splitlines(), start=1):
        if line.strip():
            yield number, line.strip()


def _labelled(request: Request, path: Path) -> Iterator[tuple[str, int]]:
    """Names of files with their labels, ``google/q0001/x.jpg 0``."""
    for number, line in _lines(request, path):
        name, _, label = line.rpartition(" ")
        if not name or not label.isdigit():
            raise BadInput(
                f"{request.name}: {path}, line {number}: got {line!r}, expected a file and its "
                "label"
            )
        yield name.strip(), int(label)


def _x_ray(path: Path, number: int, line: str) -> tuple[str, int]:
    """File and label of a line of COVIDx; a file's name may have blanks in it."""
    words = line.split("," if path.suffix == ".csv" else " ")
    for at in (-1, -2):
        if len(words) + at >= 2 and words[at] in COVIDX_CLASSES:
            return " ".join(words[1:at]), COVIDX_CLASSES.index(words[at])
    raise BadInput(
        f"covidx: {path}, line {number}: got {line!r}, expected a patient, a file, one of "
        f"{', '.join(COVIDX_CLASSES)}, and maybe a source"
    )


def _array(labels: Iterable[int]) -> np.ndarray:
    return np.fromiter(labels, dtype=np.int64)
