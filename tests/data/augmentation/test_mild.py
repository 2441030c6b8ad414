"""The mild view: its draws, its operations beside Pillow's, and one draw for a batch."""

import numpy as np
import pytest
import torch
from test_augment import facts, pictures
from torchvision.transforms import functional

from noisyfl.data.augmentation.augment import View, normalize
from noisyfl.data.augmentation.mild import DRAWS, JITTERS, apply_mild, draw_mild

CPU = torch.device("cpu")


def drawn(**values: object) -> np.ndarray:
    """One draw that does nothing but what is given."""
    draws = np.zeros(1, dtype=DRAWS)
    draws["order"], draws["strength"] = np.arange(4), (1, 1, 1, 0)
    for name, value in values.items():
        draws[name] = value
    return draws


def test_a_batch_has_one_draw_and_another_batch_another() -> None:
    image = pictures(1, (32, 32, 3)).expand(60, -1, -1, -1)
    draws = draw_mild([20, 30, 10], np.random.default_rng(2), (32, 32, 3))
    shown = apply_mild(image, draws)
    batches = shown.split([20, 30, 10])
    assert all(torch.equal(batch, batch[:1].expand_as(batch)) for batch in batches)
    assert not torch.equal(batches[0][0], batches[1][0])
    assert not torch.equal(batches[1][0], batches[2][0])
    # An executor may show a part of them, which begins and ends within a batch.
    assert torch.equal(apply_mild(image[15:55], draws[15:55]), shown[15:55])


def test_colours_are_drawn_as_in_the_notebook() -> None:
    draws = draw_mild([1] * 20_000, np.random.default_rng(1), (32, 32, 3))
    for name, share in {"mirrored": 0.5, "jittered": 0.8, "grey": 0.2}.items():
        assert draws[name].mean() == pytest.approx(share, abs=0.015), name
    low, high = np.array([0.2, 0.2, 0.2, -0.2]), np.array([1.8, 1.8, 1.8, 0.2])
    np.testing.assert_allclose(draws["strength"].min(0), low, atol=0.005)
    np.testing.assert_allclose(draws["strength"].max(0), high, atol=0.005)
    np.testing.assert_allclose(draws["strength"].mean(0), (low + high) / 2, atol=0.02)
    orders, counts = np.unique(draws["order"], axis=0, return_counts=True)
    assert len(orders) == 24
    np.testing.assert_allclose(counts / len(draws), 1 / 24, atol=0.006)
    assert not draws["angle"].any()


def test_one_channel_is_rotated_and_nothing_else() -> None:
    draws = draw_mild([1] * 20_000, np.random.default_rng(2), (28, 28, 1))
    assert (draws["angle"].min(), draws["angle"].max()) == pytest.approx((-30, 30), abs=0.05)
    assert abs(draws["angle"].mean()) < 0.5
    assert not draws["mirrored"].any()
    assert not draws["jittered"].any()
    images = pictures(5, (28, 28, 1))
    turned = apply_mild(images, np.repeat(drawn(angle=90.0), 5))
    assert torch.equal(turned, torch.rot90(images, 1, (2, 3)))
    corner = apply_mild(torch.full((1, 1, 28, 28), 200, dtype=torch.uint8), drawn(angle=30.0))
    assert (int(corner[0, 0, 0, 0]), int(corner[0, 0, 14, 14])) == (0, 200)


def test_mirror_and_grey() -> None:
    images = pictures(5, (32, 32, 3))
    mirrored = apply_mild(images, np.repeat(drawn(mirrored=True), 5))
    assert torch.equal(mirrored, images.flip(3))
    grey = apply_mild(images, np.repeat(drawn(grey=True), 5)).int()
    assert torch.equal(grey[:, 0], grey[:, 1])
    weights = torch.tensor([0.2989, 0.587, 0.114])[:, None, None]
    assert int((grey[:, 0] - (images * weights).sum(1)).abs().max()) <= 1


@pytest.mark.parametrize("order", [[0, 1, 2, 3], [2, 0, 1, 3], [1, 2, 0, 3]])
def test_jitters_are_pillows_in_the_order_drawn(order: list[int]) -> None:
    images = pictures(6, (32, 32, 3))
    strength = (1.3, 0.5, 1.6, 0.0)
    draws = np.repeat(drawn(jittered=True, order=order, strength=strength), 6)
    for image, found in zip(images, apply_mild(images, draws), strict=True):
        expected = functional.to_pil_image(image)
        for number in order[:3]:
            change = getattr(functional, f"adjust_{JITTERS[number]}")
            expected = change(expected, strength[number])
        theirs = functional.pil_to_tensor(expected).int()
        assert int((found.int() - theirs).abs().max()) <= 3


def test_hue_turns_the_colour_wheel() -> None:
    red = torch.zeros(2, 3, 4, 4, dtype=torch.uint8)
    red[:, 0] = 255
    turned = apply_mild(red, np.repeat(drawn(jittered=True, strength=(1, 1, 1, 1 / 3)), 2))
    assert torch.equal(turned, red.roll(1, 1))
    assert torch.equal(apply_mild(red, np.repeat(drawn(strength=(1, 1, 1, 1 / 3)), 2)), red)


@pytest.mark.parametrize("shape", [(28, 28, 1), (32, 32, 3)])
def test_a_mild_view_is_of_the_image_as_it_is(shape: tuple[int, int, int]) -> None:
    """Whatever the run's augmentation."""
    view = View(facts(shape), "crop_flip", "dataset", CPU)
    images = pictures(40, shape)
    draws = view.draw("mild", 40, np.random.default_rng(1), [25, 15])
    expected = apply_mild(images, draw_mild([25, 15], np.random.default_rng(1), shape))
    seen = view.show("mild", images, draws)
    assert torch.equal(seen, normalize(expected, view.mean, view.std))
    assert torch.equal(seen[10:30], view.show("mild", images[10:30], draws.part(10, 30)))
    alone = view.draw("mild", 40, np.random.default_rng(1))
    assert (alone.operations == alone.operations[:1]).all()
