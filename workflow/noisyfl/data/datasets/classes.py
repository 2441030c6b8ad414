"""The names of the datasets' classes, indexed by label, and what labels in files mean."""

from __future__ import annotations

import unicodedata
from collections.abc import Callable, Sequence

import numpy as np

from noisyfl.core.options import BadInput, did_you_mean

SHOWN = 10
"""The most names of classes in an error message."""

NUMERALS = tuple("0123456789")

FASHION_CLASSES = (
    *("T-shirt/top", "Trouser", "Pullover", "Dress", "Coat"),
    *("Sandal", "Shirt", "Sneaker", "Bag", "Ankle boot"),
)

CIFAR10_CLASSES = (
    *("airplane", "automobile", "bird", "cat", "deer"),
    *("dog", "frog", "horse", "ship", "truck"),
)

CIFAR100_CLASSES = (
    *("apple", "aquarium_fish", "baby", "bear", "beaver"),
    *("bed", "bee", "beetle", "bicycle", "bottle"),
    *("bowl", "boy", "bridge", "bus", "butterfly"),
    *("camel", "can", "castle", "caterpillar", "cattle"),
    *("chair", "chimpanzee", "clock", "cloud", "cockroach"),
    *("couch", "crab", "crocodile", "cup", "dinosaur"),
    *("dolphin", "elephant", "flatfish", "forest", "fox"),
    *("girl", "hamster", "house", "kangaroo", "keyboard"),
    *("lamp", "lawn_mower", "leopard", "lion", "lizard"),
    *("lobster", "man", "maple_tree", "motorcycle", "mountain"),
    *("mouse", "mushroom", "oak_tree", "orange", "orchid"),
    *("otter", "palm_tree", "pear", "pickup_truck", "pine_tree"),
    *("plain", "plate", "poppy", "porcupine", "possum"),
    *("rabbit", "raccoon", "ray", "road", "rocket"),
    *("rose", "sea", "seal", "shark", "shrew"),
    *("skunk", "skyscraper", "snail", "snake", "spider"),
    *("squirrel", "streetcar", "sunflower", "sweet_pepper", "table"),
    *("tank", "telephone", "television", "tiger", "tractor"),
    *("train", "trout", "tulip", "turtle", "wardrobe"),
    *("whale", "willow_tree", "wolf", "woman", "worm"),
)

CIFAR100_SUPERCLASSES = (
    *(4, 1, 14, 8, 0, 6, 7, 7, 18, 3, 3, 14, 9, 18, 7, 11, 3, 9, 7, 11),
    *(6, 11, 5, 10, 7, 6, 13, 15, 3, 15, 0, 11, 1, 10, 12, 14, 16, 9, 11, 5),
    *(5, 19, 8, 8, 15, 13, 14, 17, 18, 10, 16, 4, 17, 4, 2, 0, 17, 4, 18, 17),
    *(10, 3, 2, 12, 12, 16, 12, 1, 9, 19, 2, 10, 0, 1, 16, 12, 9, 13, 15, 13),
    *(16, 19, 2, 4, 6, 19, 5, 5, 8, 19, 18, 1, 2, 15, 6, 0, 17, 8, 14, 13),
)
"""The superclass of each of CIFAR-100's classes (its "coarse labels")."""

CLOTHING_CLASSES = (
    *("T-Shirt", "Shirt", "Knitwear", "Chiffon", "Sweater", "Hoodie", "Windbreaker"),
    *("Jacket", "Downcoat", "Suit", "Shawl", "Dress", "Vest", "Underwear"),
)
"""Clothing1M's classes, in the order of its ``category_names_eng.txt``."""

WEBVISION_CLASSES = (
    *("tench", "goldfish", "great white shark", "tiger shark", "hammerhead"),
    *("electric ray", "stingray", "cock", "hen", "ostrich"),
    *("brambling", "goldfinch", "house finch", "junco", "indigo bunting"),
    *("robin", "bulbul", "jay", "magpie", "chickadee"),
    *("water ouzel", "kite", "bald eagle", "vulture", "great grey owl"),
    *("European fire salamander", "common newt", "eft", "spotted salamander", "axolotl"),
    *("bullfrog", "tree frog", "tailed frog", "loggerhead", "leatherback turtle"),
    *("mud turtle", "terrapin", "box turtle", "banded gecko", "common iguana"),
    *("American chameleon", "whiptail", "agama", "frilled lizard", "alligator lizard"),
    *("Gila monster", "green lizard", "African chameleon", "Komodo dragon", "African crocodile"),
)
"""The first fifty classes of ImageNet, which WebVision has too."""

COVIDX_CLASSES = ("normal", "pneumonia", "COVID-19")


def is_number(name: str) -> bool:
    """Whether the name of a class is a whole number that fits into int64."""
    return name.isascii() and name.isdecimal() and len(name) < 19


def names_of(labels: Sequence[int | str]) -> list[str]:
    """The names of the classes of labels: sorted, by value if all are whole numbers.

    Labels that are numbers and not texts are of the classes from 0 to the largest.

    Raises:
        BadInput: two names are one but for spaces and the like, some labels are names and some
            numbers, or a number is negative or has no image.
    """
    kinds = {isinstance(label, str): label for label in labels}
    if len(kinds) == 2:
        raise BadInput(
            f"got the labels {kinds[True]!r} and {kinds[False]}, expected names of classes or "
            "numbers in all files"
        )
    if True in kinds:
        names = sorted({str(label) for label in labels})
        check_spelling(names)
        return sorted(names, key=int) if all(map(is_number, names)) else names
    smallest, largest = min(map(int, labels), default=0), max(map(int, labels), default=-1)
    if smallest > 0:
        found = [str(number) for number in sorted({*labels})]
        more = ["..."] if len(found) > SHOWN else []
        raise BadInput(
            f"got labels from {smallest} to {largest}, expected numbers of classes from 0 on; or "
            f"give their names: classes=[{', '.join([*map(repr, found[:SHOWN]), *more])}]"
        )
    if smallest < 0 or largest >= len(labels):
        wrong = smallest if smallest < 0 else largest
        raise BadInput(
            f"got the label {wrong} and {len(labels):,} images, expected numbers of classes from "
            "0 on, each with an image"
        )
    return [str(number) for number in range(largest + 1)]


def check_spelling(names: Sequence[str], kind: str = "class") -> None:
    """Raise :class:`BadInput` if two names of a kind are one but for spaces, invisible characters,
    the way in which accents are encoded, or leading zeros; or if one cannot be written.
    """
    seen: dict[str, str] = {}
    for name in names:
        if {"Cc", "Cs"} & {*map(unicodedata.category, name)}:
            raise BadInput(
                f"got the {kind} {name!r}, expected a name in UTF-8 without control characters"
            )
        plain = "".join(c for c in name if unicodedata.category(c) != "Cf")
        plain = " ".join(unicodedata.normalize("NFC", plain).split())
        plain = str(int(plain)) if is_number(plain) else plain
        if plain in seen:
            raise BadInput(
                f"got the {kind}{'es' if kind == 'class' else 's'} {seen[plain]!r} and {name!r}, "
                f"expected one spelling of each {kind} (spaces, invisible characters and leading "
                "zeros make no other one)"
            )
        seen[plain] = name


def alike(names: Sequence[str], kind: str = "classes") -> list[str]:
    """What a user should know of names that differ only in capital letters, in words."""
    first: dict[str, str] = {}
    pairs = [(first.setdefault(name.casefold(), name), name) for name in names]
    return [
        f"the {kind} {one!r} and {other!r} differ only in capital letters"
        for one, other in pairs
        if one != other
    ]


def numbers_of(
    labels: Sequence[int | str], classes: Sequence[str], numbered: bool, place: Callable[[int], str]
) -> np.ndarray:
    """The number of each label's class, int64 [n].

    A text is the name of a class. So is a whole number if names are numbers; otherwise it is the
    number of a class, if somebody has said how they are numbered.

    Args:
        numbered: whether the order of the names is given: by an official dataset, the format or an
            option. If not, it is the alphabetical one, which the labels need not follow.

    Raises:
        BadInput: a label is of no class.
    """
    known: dict[int | str, int] = {name: number for number, name in enumerate(classes)}
    values: dict[int | str, int] = {
        int(name): number for number, name in enumerate(classes) if is_number(name)
    }
    by_position = numbered and not values
    known |= {number: number for number in range(len(classes))} if by_position else values
    found = np.empty(len(labels), dtype=np.int64)
    for row, label in enumerate(labels):
        number = known.get(label, -1)
        if number < 0 and isinstance(label, str) and is_number(label):  # such as 007
            number = values.get(int(label), -1)
        if number < 0:
            more = f" and {len(classes) - SHOWN:,} more" if len(classes) > SHOWN else ""
            expected = f"one of {len(classes)} classes: {', '.join(classes[:SHOWN])}{more}"
            if by_position:
                expected = f"0 to {len(classes) - 1}, or {expected}"
            elif not values and not isinstance(label, str):
                expected += " (numbers of classes need an order: classes=[...] of images)"
            hint = did_you_mean(label, classes) if isinstance(label, str) else ""
            raise BadInput(f"{place(row)} {label!r}, expected {expected}{hint}")
        found[row] = number
    return found
