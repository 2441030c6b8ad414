"""The pictures of a dataset, held against its pixels."""

import dataclasses

import matplotlib.image
import numpy as np
import pytest

import official_trees as trees
from noisyfl.core.options import BadInput
from noisyfl.data.datasets.dataset import DATASETS, DatasetPart
from noisyfl.data.datasets.parts import prepare, read_part
from noisyfl.figures.data_sheets import (
    augmentations,
    class_examples,
    draw_data_sheets,
    strong_operations,
)
from small_files import shrink


def painted(facts, each=20):
    """A part in which every image of a class has the class's own colour."""
    labels = np.tile(np.arange(len(facts.classes)), each)
    shape = facts.train_shape or facts.shape
    images = np.zeros((len(labels), *shape), dtype=np.uint8)
    images += (1 + 2 * labels.astype(np.uint8))[:, None, None, None]
    return DatasetPart(facts.name, facts.classes, images, labels)


def rows_of(axes):
    """Names and pixels of the rows of images in a panel."""
    (picture,) = axes.images
    names = [label.get_text() for label in axes.get_yticklabels()]
    return dict(
        zip(names, np.array_split(np.asarray(picture.get_array()), len(names)), strict=True)
    )


@pytest.mark.parametrize(
    ("name", "columns", "shown"), [("mnist", 1, 14), ("mini_webvision", 2, 8), ("cifar100", 4, 4)]
)
def test_each_class_stands_beside_its_own_images(name, columns, shown):
    facts = DATASETS[name]
    figure = class_examples(facts, painted(facts))
    assert len(figure.axes) == columns
    rows = {k: v for axes in figure.axes for k, v in rows_of(axes).items()}
    assert list(rows) == list(facts.classes)
    side = (facts.train_shape or facts.shape)[0]
    for label, row in enumerate(rows.values()):
        colours, counts = np.unique(row[..., 0], return_counts=True)
        assert set(colours) == {1 + 2 * label, 255}
        assert counts[colours == 1 + 2 * label] == shown * side * side


def test_the_pictures_say_whose_labels_they_go_by():
    titles = [
        class_examples(DATASETS[name], painted(DATASETS[name])).get_suptitle()
        for name in ("cifar10", "mini_webvision")
    ]
    assert titles == [
        "cifar10: training images by class",
        "mini_webvision: training images by label",
    ]


@pytest.fixture(scope="module")
def digits(tmp_path_factory):
    folder = tmp_path_factory.mktemp("digits")
    paths = [folder / "train.parquet", folder / "test.parquet"]
    prepare("digits", folder, False, *paths)
    return read_part(paths[0])


def test_plain_is_the_image_and_augmentation_moves_it(digits):
    (axes,) = augmentations(DATASETS["digits"], digits).axes
    rows = rows_of(axes)
    assert list(rows)[:4] == ["as it is kept", "plain", "crop", "crop_flip"]
    image = rows["plain"][:8, :8]
    assert any((image[..., 0] == zero[..., 0]).all() for zero in digits.images[digits.labels == 0])
    np.testing.assert_array_equal(rows["as it is kept"][:8, :8], image)
    crops = [rows["crop"][:8, left : left + 8, 0] for left in range(0, 12 * 9, 9)]
    padded = np.pad(image[..., 0], 1)
    moved = [padded[down : down + 8, right : right + 8] for down in range(3) for right in range(3)]
    assert all(any((crop == one).all() for one in moved) for crop in crops)
    assert len({crop.tobytes() for crop in crops}) > 3
    assert list(rows)[-3:] == ["mild", "strong, after crop_flip", "strong3, then crop_flip"]
    turned = [rows["mild"][:8, left : left + 8, 0] for left in range(0, 12 * 9, 9)]
    assert len({image.tobytes() for image in turned}) > 6


def test_an_image_that_is_kept_larger_is_shown_larger():
    facts = dataclasses.replace(DATASETS["digits"], shape=(6, 6, 1), train_shape=(8, 8, 1))
    (axes,) = augmentations(facts, painted(facts)).axes
    rows = rows_of(axes)
    assert (rows["as it is kept"][..., 0] == 1).sum() == 64
    assert (rows["plain"][..., 0] == 1).sum() == 36


def test_operations_go_from_weak_to_strong(digits):
    (axes,) = strong_operations(DATASETS["digits"], digits).axes
    rows = rows_of(axes)
    assert "Color" not in rows
    places = range(0, 9 * 9, 9)
    image = rows["Identity"][:8, :8]
    assert all((rows["Identity"][:8, left : left + 8] == image).all() for left in places)
    brightness = [rows["Brightness"][:8, left : left + 8].astype(float).mean() for left in places]
    assert np.all(np.diff(brightness) > 0)
    np.testing.assert_allclose(brightness, image.mean() * (0.05 + 0.09 * np.arange(1, 10)), atol=1)


@pytest.mark.slow
def test_sheets_are_written_beside_the_parts_and_are_the_same_each_time(tmp_path):
    made = draw_data_sheets(["digits"], tmp_path, tmp_path, False)
    folder = tmp_path / "data" / "digits"
    assert made == [folder / f"{kind}.png" for kind in ("classes", "augmentation", "strong")]
    before = [path.read_bytes() for path in made]
    assert [path.read_bytes() for path in draw_data_sheets(["digits"], tmp_path, tmp_path, 0)] == (
        before
    )
    assert all(matplotlib.image.imread(path).shape[1] > 1000 for path in made)
    with pytest.raises(BadInput, match="data sheet: no dataset is called 'digit'"):
        draw_data_sheets(["digit"], tmp_path, tmp_path, False)


@pytest.mark.slow
def test_encoded_images_are_drawn_too(tmp_path, monkeypatch):
    shrink(monkeypatch, "clothing1m", 28, 14)
    trees.clothing1m(tmp_path / "data", 28, 14)
    made = draw_data_sheets(["clothing1m"], tmp_path, tmp_path / "data", False)
    assert all(path.stat().st_size > 10_000 for path in made)
