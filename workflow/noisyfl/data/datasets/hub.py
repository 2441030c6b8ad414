"""MNIST, Fashion-MNIST, CIFAR-10 and CIFAR-100 as Parquet from a hub of datasets.

Such files hold one encoded image per row. The encoding differs from copy to copy, so the decoded
content is checked: it must be the pixels and labels of the official files, in the same order, since
files of human labels rely on that order.
"""

from __future__ import annotations

import hashlib
from pathlib import Path
from typing import NamedTuple

import numpy as np

from noisyfl.core.options import BadInput, within
from noisyfl.data.datasets.folders import hub_part
from noisyfl.data.datasets.own_formats import SampleColumns, list_parquet
from noisyfl.data.datasets.own_pixels import decode
from noisyfl.data.own_table import OwnTable


class Digests(NamedTuple):
    """SHA-256 of a part's pixels, uint8 [n, height, width, channels], and labels, uint8 [n]; None
    where it is not known.
    """

    pixels: str | None
    labels: str | None


CONTENTS = {
    "mnist": {
        "train": Digests(
            "741c988805d008ac6e4c904b69001ba184c24b2c540a4ef403f4c71b676cf757",
            "1feba77c54802fa5339a11837ea4b2866434b83314ec45192930f1df69120c13",
        ),
        "test": Digests(
            "6d87418db22cc8025d05968bec9bd5c3932904b23485740db143a061a2c9d161",
            "ddeff807876a9661a1110d45c266c86239a3a1b7d37da0c3716a7a683c852ff5",
        ),
    },
    "fashion_mnist": {
        "train": Digests(
            "2e487a6c89124f78f2d7521542223cafe96f7123c3ca13d447772ac6ecbb3012",
            "657fbd221bfc9f4198cc14b5619cc33ec57c58dd0e47af4d99d6650759e869a7",
        ),
        "test": Digests(
            "c867c93ff95360594e8ec3287995350b824dd110b11595c0e13d5423f621867a",
            "3d0e6c6ea990b53b6f8f500a41cac93881d981b315f84578b7d915342ade01e9",
        ),
    },
    "cifar10": {
        "train": Digests(
            "47af8b02cfcfb6cdf3dbbd1969ad7f1b70f4413f6f80f437b020ee4e5bc8304a",
            "2b7cd2f24487317614016b72ffd53071c3062f592f0eb300c18a770d41ae1253",
        ),
        "test": Digests(
            "f9b1e2130bab680db56eb06d886f7f1ad0f1183907ceff4659d1735c890f5b04",
            "cec8a24a1e92aa2ecaa0bbd3dbfa86bf6cd8759fbd209a832824c8cf0afca9d5",
        ),
    },
    "cifar100": {
        "train": Digests(None, "9f11b9f97aad759ba6df0a33e3218b01d8deaf4ed3a14aa1185d69b9ad7ebcb3"),
        "test": Digests(None, None),
    },
}
"""Digests of the official files' content, in their order, by dataset and part.

Of CIFAR-100, only the training labels are known, from the file of its human labels."""


def find_parquet(name: str, folder: Path) -> dict[str, list[Path]] | None:
    """The Parquet files of each part in ``folder/<name>``, by their paths as for a user's own
    folder; None unless both parts have some.
    """
    root = folder / name
    files = [path for path in sorted(root.rglob("*.parquet")) if path.is_file()]
    parts = {
        part: [path for path in files if hub_part(path.relative_to(root))[0] == part]
        for part in ("train", "test")
    }
    return parts if all(parts.values()) else None


def load_parquet(name: str, part: str, files: list[Path]) -> tuple[np.ndarray, np.ndarray]:
    """A part's images, uint8 [n, height, width, channels], and labels, int64 [n].

    Raises:
        BadInput: a file cannot be read, or does not hold what the official files hold.
    """
    with within(where=f"{name}: "):
        there = OwnTable(files[0]).names
        image = "img" if "img" in there else "image"
        label = "fine_label" if name == "cifar100" and "fine_label" in there else "label"
        listed = list_parquet(files, SampleColumns(label, None, (image,)))
        pixels = decode(listed.samples, listed.names, None)
    numbers = {one: number for number, one in enumerate(listed.classes or ())}
    labels = np.array([numbers.get(str(one), one) for one in listed.labels])
    labels = labels.astype(np.int64) if labels.dtype.kind == "i" else np.zeros(len(labels), int)
    known = CONTENTS[name][part]
    for kind, content, expected in (
        ("images", pixels, known.pixels),
        ("labels", labels.astype(np.uint8), known.labels),
    ):
        digest = hashlib.sha256(np.ascontiguousarray(content).data).hexdigest()
        if expected is not None and digest != expected:
            raise BadInput(
                f"{name}: the {kind} in {', '.join(map(str, files))} are not those of the official "
                f"{part} part in its order (SHA-256 {digest}, expected {expected})"
            )
    return pixels, labels
