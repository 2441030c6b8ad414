"""Clients that see the world in a light of their own (RoFL, appendix)."""

from types import SimpleNamespace

import numpy as np
import pytest
import torch
from PIL import Image, ImageEnhance

from noisyfl.core.options import BadInput
from noisyfl.data import noisy_partition
from noisyfl.data.augmentation.augment import View, brighten, client_lights
from noisyfl.data.datasets.parts import read_part
from small_runs import federation_of, spec_of

FACTORS = [0.5, 0.505, 0.6, 0.7777, 0.9, 0.999, 1.0, 1.001, 1.1, 1.3, 1.45, 1.5]


def by_pillow(image: np.ndarray, factor: float) -> np.ndarray:
    """Of uint8 [height, width, channels]."""
    picture = Image.fromarray(image.squeeze(2) if image.shape[2] == 1 else image)
    made = np.asarray(ImageEnhance.Brightness(picture).enhance(factor))
    return made.reshape(image.shape)


@pytest.mark.parametrize("channels", [1, 3])
def test_brightness_is_pillows(channels: int) -> None:
    """At every value of a pixel, and for factors all over the range."""
    # 16x16 images with each value once in each channel, in another order in each image.
    order = np.random.default_rng(channels)
    images = np.stack(
        [
            np.stack([order.permutation(256).reshape(16, 16) for _ in range(channels)], axis=2)
            for _ in range(3)
        ]
    ).astype(np.uint8)
    batch = torch.from_numpy(images).permute(0, 3, 1, 2)
    before = batch.clone()
    for factor in [*FACTORS, *order.uniform(0.5, 1.5, 200)]:
        made = brighten(batch, factor)
        assert made.dtype == torch.uint8
        for image, found in zip(images, made.permute(0, 2, 3, 1).numpy(), strict=True):
            np.testing.assert_array_equal(found, by_pillow(image, factor))
    assert torch.equal(batch, before)


def test_lights_are_uniform_from_a_half_to_one_and_a_half() -> None:
    lights = client_lights(20_000, 1)
    assert lights.min() >= 0.5
    assert lights.max() <= 1.5
    share = np.histogram(lights, bins=10, range=(0.5, 1.5))[0] / len(lights)
    np.testing.assert_allclose(share, 0.1, atol=0.01)
    assert np.array_equal(lights, client_lights(20_000, 1))
    assert not np.array_equal(lights[:5], client_lights(5, 2))


def view(augmentation: str) -> View:
    facts = SimpleNamespace(
        name="stripes", shape=(16, 16, 1), train_shape=None, mean=(0.5,), std=(0.25,), vectors=False
    )
    return View(facts, augmentation, "dataset", torch.device("cpu"))


def test_all_images_of_a_client_are_in_its_light() -> None:
    rng = torch.Generator().manual_seed(1)
    images = torch.randint(0, 256, (9, 1, 16, 16), dtype=torch.uint8, generator=rng)
    before = images.clone()
    clients = [np.array([7, 0, 3]), np.array([5]), np.array([], dtype=np.int64), np.array([1, 8])]
    taken = view("crop_client_light").in_client_light(images, clients, seed=4)
    lights = client_lights(4, 4)
    owner = {row: light for rows, light in zip(clients, lights, strict=True) for row in rows}
    for row in range(9):
        expected = images[row, 0].numpy()[..., None]
        if row in owner:
            expected = by_pillow(expected, owner[row])
        np.testing.assert_array_equal(taken[row, 0].numpy()[..., None], expected)
    assert torch.equal(images, before)
    assert view("crop").in_client_light(images, clients, seed=4) is images


def test_light_apart_it_is_a_crop() -> None:
    rng = torch.Generator().manual_seed(2)
    images = torch.randint(0, 256, (30, 1, 16, 16), dtype=torch.uint8, generator=rng)
    lit, plain = view("crop_client_light"), view("crop")
    draws = lit.draw("weak", 30, np.random.default_rng(1))
    assert np.array_equal(draws.moves, plain.draw("weak", 30, np.random.default_rng(1)).moves)
    assert torch.equal(lit.show("weak", images, draws), plain.show("weak", images, draws))
    assert torch.equal(lit.show("plain", images, draws), plain.show("plain", images, draws))


@pytest.mark.parametrize("augmentation", ["crop_client_light", "crop"])
def test_a_federation_holds_the_images_as_its_clients_took_them(
    data, tmp_path, augmentation
) -> None:
    federation, *_ = federation_of(spec_of("fedavg", augmentation=augmentation), data, tmp_path)
    train, test = (read_part(data.data("digits", part)) for part in ("train", "test"))
    held = federation.executor.train.pixels.permute(0, 2, 3, 1).numpy()
    lights = client_lights(6, 3) if augmentation == "crop_client_light" else np.ones(6)
    clients = noisy_partition.read(tmp_path / "partition.parquet").clients
    for client, light in zip(clients, lights, strict=True):
        for row in client.samples[:40]:
            np.testing.assert_array_equal(held[row], by_pillow(train.images[row], light))
    # What is tested is as it was.
    tested = federation.executor.test.pixels.permute(0, 2, 3, 1).numpy()
    np.testing.assert_array_equal(tested, test.images)


def test_a_dataset_that_is_kept_encoded_cannot_be_relit() -> None:
    large = {"dataset": "clothing1m", "model": "resnet18", "normalization": "imagenet"}
    large |= {"label_noise": "none"}
    with pytest.raises(BadInput, match=r"augmentation: got 'crop_client_light', which needs"):
        spec_of("fedavg", augmentation="crop_client_light", **large)
