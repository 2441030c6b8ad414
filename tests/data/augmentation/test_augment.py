from types import SimpleNamespace

import numpy as np
import pytest
import torch
from torchvision.transforms import RandomCrop, functional

from noisyfl.core.options import BadInput
from noisyfl.data.augmentation.augment import (
    AUGMENTATIONS,
    KINDS,
    View,
    channel_statistics,
    crop_flip,
    draw,
    normalize,
)

SHAPES = [(8, 8, 1), (28, 28, 1), (32, 32, 3), (20, 36, 3)]


def pictures(n: int, shape: tuple[int, int, int]) -> torch.Tensor:
    height, width, channels = shape
    rng = torch.Generator().manual_seed(n)
    return torch.randint(0, 256, (n, channels, height, width), dtype=torch.uint8, generator=rng)


def facts(shape: tuple[int, int, int]) -> SimpleNamespace:
    channels = shape[2]
    return SimpleNamespace(
        name="stripes",
        shape=shape,
        train_shape=None,
        mean=(0.5071, 0.4867, 0.4408)[:channels],
        std=(0.2675, 0.2565, 0.2761)[:channels],
        vectors=False,
    )


def image_by_image(
    images: torch.Tensor, draws: np.ndarray, mean: tuple[float, ...], std: tuple[float, ...]
) -> torch.Tensor:
    """torchvision's own crop of a padded image, mirroring and normalisation."""
    height, width = images.shape[2:]
    done = []
    for image, (down, right, mirrored) in zip(images, draws.tolist(), strict=True):
        padded = functional.pad(functional.to_pil_image(image), [6, 6, 6, 6])
        view = functional.crop(padded, 6 + down, 6 + right, height, width)
        view = functional.hflip(view) if mirrored else view
        done.append(functional.normalize(functional.to_tensor(view), list(mean), list(std)))
    return torch.stack(done)


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize(
    "augmentation", [name for name, kind in AUGMENTATIONS.items() if not kind.resized]
)
@pytest.mark.parametrize("normalization", ["dataset", "none"])
def test_equal_to_torchvision(
    shape: tuple[int, int, int], augmentation: str, normalization: str
) -> None:
    images = pictures(60, shape)
    dataset = facts(shape)
    view = View(dataset, augmentation, normalization, torch.device("cpu"))
    draws = draw(augmentation, 60, np.random.default_rng(3), shape)
    mean, std = channel_statistics(normalization, dataset)
    mean, std = mean * (shape[2] // len(mean)), std * (shape[2] // len(std))
    drawn = view.draw("weak", 60, np.random.default_rng(3))
    assert np.array_equal(drawn.moves, draws)
    seen = view.show("weak", images, drawn)
    assert seen.dtype == torch.float32
    assert torch.equal(seen, image_by_image(images, draws, mean, std))
    plain = view.show("plain", images, view.draw("plain", 60, np.random.default_rng(3)))
    assert torch.equal(plain, image_by_image(images, 0 * draws, mean, std))


def test_every_crop_and_mirroring() -> None:
    shape = (32, 32, 3)
    draws = np.stack(np.meshgrid(range(-4, 5), range(-4, 5), range(2)), axis=-1).reshape(-1, 3)
    images = pictures(len(draws), shape)
    mean, std = channel_statistics("imagenet", facts(shape))
    seen = normalize(
        crop_flip(images, torch.from_numpy(draws)),
        torch.tensor(mean)[:, None, None],
        torch.tensor(std)[:, None, None],
    )
    assert torch.equal(seen, image_by_image(images, draws, mean, std))


def test_the_same_choices_as_random_crop() -> None:
    """What is drawn falls on the offsets that torchvision's RandomCrop can take, equally often."""
    padded = torch.zeros(1, 40, 40)
    offsets = {RandomCrop.get_params(padded, (32, 32))[0] for _ in range(400)}
    draws = draw("crop_flip", 40_000, np.random.default_rng(0), (32, 32, 3))
    assert {int(shift) + 4 for shift in draws[:, 0]} == offsets == set(range(9))
    for column in draws[:, :2].T:
        share = np.bincount(column + 4, minlength=9) / len(draws)
        np.testing.assert_allclose(share, 1 / 9, atol=0.01)
    assert abs(draws[:, 2].mean() - 0.5) < 0.01
    assert abs(np.corrcoef(draws.T) - np.eye(3)).max() < 0.02


@pytest.mark.parametrize("shape", [(32, 32, 3), (28, 28, 1)])
def test_the_dice_of_padded_crops(shape: tuple[int, int, int]) -> None:
    """They fall in this order, from this stream; another order would be other runs."""
    rng = np.random.default_rng(5)
    places = rng.integers(-4, 4, size=(30, 2), endpoint=True)
    rng_of_crops = np.random.default_rng(5)
    crops = draw("crop", 30, rng_of_crops, shape)
    assert np.array_equal(crops, np.column_stack([places, np.zeros(30)]))
    assert rng_of_crops.bit_generator.state == rng.bit_generator.state
    mirrored = rng.integers(2, size=30)
    both = draw("crop_flip", 30, np.random.default_rng(5), shape)
    assert np.array_equal(both, np.column_stack([places, mirrored]))
    assert crops.dtype == both.dtype == np.int64


def test_draws() -> None:
    assert not draw("none", 50, np.random.default_rng(0), (32, 32, 3)).any()
    crops = draw("crop", 500, np.random.default_rng(0), (8, 28, 1))
    assert not crops[:, 2].any()
    assert (np.ptp(crops[:, 0]), np.ptp(crops[:, 1])) == (2, 8)
    assert np.array_equal(crops, draw("crop", 500, np.random.default_rng(0), (8, 28, 1)))
    assert draw("crop_flip", 0, np.random.default_rng(0), (8, 8, 1)).shape == (0, 3)


def test_images_stay_as_they_are() -> None:
    images = pictures(5, (8, 8, 1))
    before = images.clone()
    view = View(facts((8, 8, 1)), "crop_flip", "dataset", torch.device("cpu"))
    for kind in KINDS:
        view.show(kind, images, view.draw(kind, 5, np.random.default_rng(0)))
    assert torch.equal(images, before)


def test_without_augmentation_no_dice_are_thrown() -> None:
    rng = np.random.default_rng(0)
    view = View(facts((8, 8, 1)), "none", "dataset", torch.device("cpu"))
    images = pictures(5, (8, 8, 1))
    draws = view.draw("weak", 5, rng)
    assert torch.equal(view.show("weak", images, draws), view.show("plain", images, draws))
    assert rng.random() == np.random.default_rng(0).random()


def test_without_normalisation_pixels_go_from_0_to_1() -> None:
    images = torch.tensor([0, 51, 255], dtype=torch.uint8).view(1, 1, 1, 3)
    seen = normalize(images, torch.zeros(1, 1, 1), torch.ones(1, 1, 1))
    assert seen.flatten().tolist() == pytest.approx([0.0, 0.2, 1.0])


def test_statistics_of_another_number_of_channels() -> None:
    with pytest.raises(BadInput) as error:
        channel_statistics("imagenet", facts((28, 28, 1)))
    assert str(error.value) == (
        "normalization: imagenet is for 3 channels, and the images of stripes have 1"
    )


def test_statistics_that_nobody_has_published() -> None:
    unknown = SimpleNamespace(name="stripes", shape=(32, 32, 3), mean=(), std=(), vectors=False)
    with pytest.raises(BadInput) as error:
        channel_statistics("dataset", unknown)
    assert str(error.value) == (
        "normalization: got dataset, and nobody has published the mean and standard "
        "deviation of stripes; expected imagenet or none"
    )
    assert len(channel_statistics("imagenet", unknown)[0]) == 3
