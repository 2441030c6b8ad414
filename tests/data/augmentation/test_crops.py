"""Batched crops against torchvision's, one image at a time."""

import numpy as np
import pytest
import torch
from PIL import Image
from torchvision.transforms import CenterCrop, RandomResizedCrop
from torchvision.transforms import functional as tv

from noisyfl.data.augmentation.crops import centre, draw_boxes, draw_windows, resized, window


def some_images(n, height, width, channels=3, seed=0):
    """Smooth images with some noise, uint8 [n, channels, height, width]."""
    rng = np.random.default_rng(seed)
    coarse = rng.uniform(0, 255, size=(n, channels, 5, 5))
    smooth = torch.nn.functional.interpolate(torch.tensor(coarse), (height, width), mode="bicubic")
    noisy = smooth.numpy() + rng.normal(0, 20, size=smooth.shape)
    return torch.from_numpy(noisy.clip(0, 255).astype(np.uint8))


def as_pil(image):
    return Image.fromarray(image.permute(1, 2, 0).numpy())


def as_tensor(image):
    return torch.from_numpy(np.array(image)).permute(2, 0, 1)


def test_windows_are_torchvisions_crops():
    images = some_images(20, 12, 15)
    corners = draw_windows(20, np.random.default_rng(1), (12, 15, 3), (9, 10, 3))
    mirrored = torch.arange(20) % 2 > 0
    taken = window(images, torch.from_numpy(corners), mirrored, (9, 10, 3))
    assert taken.shape == (20, 3, 9, 10)
    for image, (top, left), mirror, crop in zip(images, corners, mirrored, taken, strict=True):
        expected = tv.crop(image, top, left, 9, 10)
        assert torch.equal(crop, tv.hflip(expected) if mirror else expected)


def test_windows_reach_every_place_equally_often():
    corners = draw_windows(60_000, np.random.default_rng(2), (256, 34, 3), (253, 32, 3))
    counts = np.zeros((4, 3))
    np.add.at(counts, tuple(corners.T), 1)
    # 60,000 / 12, and five standard deviations of a binomial count.
    assert np.abs(counts - 5000).max() < 5 * np.sqrt(60_000 / 12 * 11 / 12)


def test_the_middle_is_torchvisions():
    for height, width in ((33, 33), (34, 37), (32, 32), (40, 35)):
        images = some_images(2, height, width)
        assert torch.equal(centre(images, (32, 32, 3)), CenterCrop(32)(images))


@pytest.mark.parametrize("side", [(33, 33), (20, 40)])
def test_resized_crops_are_those_of_pillow_to_within_a_grey_level(side):
    images = some_images(200, *side)
    boxes = draw_boxes(200, np.random.default_rng(3), (*side, 3))
    mirrored = np.arange(200) % 3 == 0
    made = resized(images, boxes, mirrored, (32, 32, 3))
    assert made.dtype == torch.uint8
    different = []
    for image, box, mirror, crop in zip(images, boxes.tolist(), mirrored, made, strict=True):
        expected = tv.resized_crop(as_pil(image), *box, [32, 32])
        expected = as_tensor(tv.hflip(expected) if mirror else expected)
        different.append((crop.int() - expected.int()).abs())
    different = torch.stack(different)
    assert different.max() <= 1
    assert (different > 0).double().mean() < 0.02


@pytest.mark.slow
def test_boxes_are_distributed_as_torchvisions():
    torch.manual_seed(0)
    image = Image.new("RGB", (33, 33))
    theirs = np.array(
        [RandomResizedCrop.get_params(image, [0.08, 1.0], [3 / 4, 4 / 3]) for _ in range(20_000)]
    )
    ours = draw_boxes(20_000, np.random.default_rng(4), (33, 33, 3))
    assert (ours[:, 2:] > 0).all()
    assert (ours[:, :2] >= 0).all()
    assert (ours[:, :2] + ours[:, 2:] <= 33).all()
    for measure in (
        lambda box: box[:, 0],
        lambda box: box[:, 3],
        lambda box: box[:, 2] * box[:, 3],
        lambda box: box[:, 3] / box[:, 2],
        lambda box: box[:, 1] / np.maximum(33 - box[:, 3], 1),
    ):
        a, b = np.sort(measure(ours)), np.sort(measure(theirs))
        grid = np.concatenate([a, b])
        distance = np.abs(
            np.searchsorted(a, grid, side="right") - np.searchsorted(b, grid, side="right")
        ).max()
        # Kolmogorov and Smirnov: exceeded by chance once in a million tables.
        assert distance / 20_000 < np.sqrt(-np.log(1e-6 / 2) / 2 * 2 / 20_000)


def test_an_image_that_is_too_narrow_for_a_box_gives_its_middle():
    boxes = draw_boxes(50, np.random.default_rng(5), (4, 400, 3))
    fallback = boxes[(boxes[:, 2] == 4) & (boxes[:, 3] == 5)]
    assert len(fallback) > 0
    assert {tuple(box) for box in fallback.tolist()} >= {(0, (400 - 5) // 2, 4, 5)}
