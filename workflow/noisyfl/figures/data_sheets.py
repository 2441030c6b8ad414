"""What a dataset looks like: some images of each class, and what augmentation does to one.

``classes.png``, ``augmentation.png`` and ``strong.png`` go beside the dataset's parts, into
``results/data/<dataset>/``.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np
import torch
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from noisyfl.core.artifacts import Results, replacing
from noisyfl.core.randomness import stream
from noisyfl.data.augmentation.augment import AUGMENTATIONS, View
from noisyfl.data.augmentation.randaugment import (
    FIXMATCH,
    LEVELS,
    OPERATIONS,
    apply_strong,
    strengths,
)
from noisyfl.data.datasets.dataset import Dataset, DatasetPart, dataset
from noisyfl.data.datasets.parts import prepare, read_part
from noisyfl.data.datasets.shards import Encoded
from noisyfl.data.roots import Roots
from noisyfl.figures.style import PAGE, house_style, new_figure

SHOWN = {1: 14, 2: 8, 4: 4}
"""How many images of each class are shown, by the number of columns that list the classes."""

DRAWN = 12
"""How many random draws of each augmentation are shown."""

UNSTAMPED = {"Software": None}
"""PNG metadata without the name of the software, so that equal figures give equal bytes."""

GAP = 0.06
"""White between two images, as a share of an image's side."""


def draw_data_sheets(
    names: Sequence[str], results: Path, data: Roots, download: bool
) -> list[Path]:
    """Draw datasets as PNG, and make their parts where these are missing.

    Returns:
        The files.

    Raises:
        BadInput: there is no such dataset, or its files are missing.
    """
    made = []
    for name in names:
        facts = dataset(name, "data sheet")
        train, test = (Results(results).data(name, part) for part in ("train", "test"))
        if not (train.exists() and test.exists()):
            prepare(name, data, download, train, test)
        part = read_part(train)
        figures = {
            "classes": class_examples,
            "augmentation": augmentations,
            "strong": strong_operations,
        }
        for kind, draw in figures.items():
            path = train.with_name(f"{kind}.png")
            with house_style():
                figure = draw(facts, part)
                with replacing(path) as draft:
                    figure.savefig(draft, format="png", bbox_inches="tight", metadata=UNSTAMPED)
            made.append(path)
    return made


def class_examples(facts: Dataset, part: DatasetPart) -> Figure:
    """Random images of each class, one line per class; many classes are split into columns."""
    count = len(facts.true_names)
    columns = 1 if count <= 14 else 2 if count <= 50 else 4
    shown = SHOWN[columns]
    rng = stream(0, "data sheet", facts.name)
    rows = {
        name: _images(part, _some(part.labels == label, shown, rng))
        for label, name in enumerate(facts.true_names)
    }
    size = -(-count // columns)
    names = list(rows)
    side = (PAGE - 1.1 * columns) / (columns * shown)
    figure = new_figure(0.5 + size * max(side * (1 + GAP), 0.115))
    figure.suptitle(
        f"{facts.title}: training images by {'class' if facts.true_labels else 'label'}"
    )
    for column, axes in enumerate(figure.subplots(1, columns, squeeze=False).flat):
        chosen = names[column * size : (column + 1) * size]
        _draw_rows(axes, {name: rows[name] for name in chosen}, 7.5 if columns == 1 else 5.5)
    return figure


def augmentations(facts: Dataset, part: DatasetPart) -> Figure:
    """One image as it is kept, plain, under each augmentation, and in the mild and the strong view.

    Each column is another random draw.
    """
    image = _one(facts, part)
    rows = {"as it is kept": _channels_last(image[:1])}
    nobody = np.random.default_rng(0)
    for name in AUGMENTATIONS:
        view = View(facts, name, "none", torch.device("cpu"))
        copies = image.expand(DRAWN, -1, -1, -1)
        taken = view.in_client_light(copies, list(np.arange(DRAWN)[:, None]), 0)
        if name == "none":
            plain = view.show("plain", taken[:1], view.draw("plain", 1, nobody))
            rows["plain"] = _as_bytes(plain)
            continue
        rng = stream(0, "data sheet", name)
        rows[name] = _as_bytes(view.show("weak", taken, view.draw("weak", DRAWN, rng)))
    view = View(facts, "crop_flip", "none", torch.device("cpu"))
    copies = image.expand(DRAWN, -1, -1, -1)
    draws = view.draw("mild", DRAWN, stream(0, "data sheet", "mild"), [1] * DRAWN)
    rows["mild"] = _as_bytes(view.show("mild", copies, draws))
    for kind, words in (
        ("strong", "strong, after crop_flip"),
        ("strong3", "strong3, then crop_flip"),
    ):
        draws = view.draw(kind, DRAWN, stream(0, "data sheet", kind))
        rows[words] = _as_bytes(view.show(kind, copies, draws))
    return _figure_of(rows, f"{facts.title}: augmentation of one image", "")


def strong_operations(facts: Dataset, part: DatasetPart) -> Figure:
    """Each operation of the strong view at each of its levels, from weak to strong."""
    view = View(facts, "none", "none", torch.device("cpu"))
    plain = view.show("plain", _one(facts, part), view.draw("plain", 1, np.random.default_rng(0)))
    image = torch.from_numpy(_as_bytes(plain)).permute(0, 3, 1, 2)
    levels = np.arange(1, LEVELS)
    table = strengths(*facts.shape[:2])
    rows = {}
    for number, name in enumerate(OPERATIONS):
        if facts.shape[2] == 1 and name == "Color":
            continue
        draws = np.zeros(len(levels), dtype=FIXMATCH.draws)
        draws["operation"][:, 0] = number
        draws["strength"][:, 0] = table[number, levels]
        copies = image.expand(len(levels), -1, -1, -1).contiguous()
        rows[name] = _channels_last(apply_strong(copies, draws, FIXMATCH))
    title = f"{facts.title}: operations of the strong view, levels {levels[0]} to {levels[-1]}"
    return _figure_of(rows, title, "two are drawn for an image; then a square is cut out")


def _figure_of(rows: Mapping[str, np.ndarray], title: str, note: str) -> Figure:
    most = max(len(images) for images in rows.values())
    side = (PAGE - 1.3) / most
    figure = new_figure(0.6 + len(rows) * side * (1 + GAP))
    figure.suptitle(title)
    if note:
        figure.supxlabel(note, fontsize=7.5)
    _draw_rows(figure.subplots(), rows, 7.5)
    return figure


def _draw_rows(axes: Axes, rows: Mapping[str, np.ndarray], fontsize: float) -> None:
    """Rows of images, each uint8 [n, height, width, channels], with their names on the left."""
    height = max(images.shape[1] for images in rows.values())
    width = max(images.shape[2] for images in rows.values())
    gap = max(1, round(GAP * width))
    most = max(len(images) for images in rows.values())
    canvas = np.full((len(rows) * (height + gap), most * (width + gap), 3), 255, dtype=np.uint8)
    for row, images in enumerate(rows.values()):
        for column, image in enumerate(images):
            top = row * (height + gap) + (height - image.shape[0]) // 2
            left = column * (width + gap) + (width - image.shape[1]) // 2
            canvas[top : top + image.shape[0], left : left + image.shape[1]] = image
    axes.imshow(canvas, interpolation="antialiased")
    axes.set_anchor("N")
    axes.set_xticks([])
    centres = [row * (height + gap) + height / 2 for row in range(len(rows))]
    axes.set_yticks(centres, list(rows), fontsize=fontsize)
    axes.tick_params(length=0)
    axes.grid(visible=False)
    for spine in axes.spines.values():
        spine.set_visible(False)


def _some(among: np.ndarray, most: int, rng: np.random.Generator) -> np.ndarray:
    """At most ``most`` random indices of the marked rows, in ascending order."""
    return np.sort(rng.permutation(np.flatnonzero(among))[:most])


def _one(facts: Dataset, part: DatasetPart) -> torch.Tensor:
    """An image of the first class: uint8 [1, channels, height, width]."""
    rows = _some(part.labels == 0, 1, stream(0, "data sheet", facts.name))
    return torch.from_numpy(_images(part, rows)).permute(0, 3, 1, 2)


def _images(part: DatasetPart, rows: np.ndarray) -> np.ndarray:
    """Images of a part, uint8 [n, height, width, channels]."""
    if isinstance(part.images, Encoded):
        decoded = np.stack([part.images.decoded(int(row)) for row in rows])
        return decoded.transpose(0, 2, 3, 1)
    return part.images[rows]


def _as_bytes(images: torch.Tensor) -> np.ndarray:
    """The images of a view without normalisation, as uint8 [n, height, width, channels]."""
    return _channels_last(images.mul(255).round().to(torch.uint8))


def _channels_last(images: torch.Tensor) -> np.ndarray:
    return images.permute(0, 2, 3, 1).contiguous().numpy()
