import gzip
import importlib.util
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
import torch
from PIL import Image, ImageDraw, ImageEnhance, ImageOps

from noisyfl.data.augmentation.randaugment import (
    FIXMATCH,
    OPERATIONS,
    TORCHSSL,
    Recipe,
    apply_strong,
    draw_fixmatch,
    draw_torchssl,
    ranges,
    strengths,
)

RECIPES = pytest.mark.parametrize("recipe", [FIXMATCH, TORCHSSL], ids=["FixMatch", "TorchSSL"])
SHAPES = [(32, 32, 3), (28, 28, 1), (20, 36, 3), (37, 23, 1)]
BLENDS = {"Brightness", "Color", "Contrast", "Sharpness"}
SIGNED = {"Rotate", "ShearX", "ShearY", "TranslateX", "TranslateY"}


def affine(a: float, b: float, c: float, d: float, e: float, f: float) -> Callable:
    return lambda image: image.transform(image.size, Image.Transform.AFFINE, (a, b, c, d, e, f))


def in_pillow(image: Image.Image, name: str, strength: float) -> Image.Image:
    operations: dict[str, Callable] = {
        "Identity": lambda image: image,
        "AutoContrast": ImageOps.autocontrast,
        "Equalize": ImageOps.equalize,
        "Posterize": lambda image: ImageOps.posterize(image, int(strength)),
        "Solarize": lambda image: ImageOps.solarize(image, strength),
        "Rotate": lambda image: image.rotate(strength),
        "ShearX": affine(1, strength, 0, 0, 1, 0),
        "ShearY": affine(1, 0, 0, strength, 1, 0),
        "TranslateX": affine(1, 0, strength, 0, 1, 0),
        "TranslateY": affine(1, 0, 0, 0, 1, strength),
    }
    if name in BLENDS:
        return getattr(ImageEnhance, name)(image).enhance(strength)
    return operations[name](image)


def to_pillow(image: torch.Tensor) -> Image.Image:
    return Image.fromarray(image.permute(1, 2, 0).squeeze(2).contiguous().numpy())


def from_pillow(image: Image.Image) -> torch.Tensor:
    pixels = np.array(image)
    return torch.from_numpy(pixels.reshape(*pixels.shape[:2], -1)).permute(2, 0, 1)


def noise(n: int, shape: tuple[int, int, int]) -> np.ndarray:
    rng = np.random.default_rng(n)
    pixels = rng.integers(256, size=(n, *shape))
    low, span = rng.integers(0, 120, (n, 1, 1, 3)), rng.integers(1, 136, (n, 1, 1, 3))
    pixels[::2] = (low + pixels * span // 256)[::2, ..., : shape[2]]
    return pixels


def digits(n: int, shape: tuple[int, int, int]) -> np.ndarray:
    """Real images: scikit-learn's, enlarged, a digit a channel, on a grey slope."""
    package = importlib.util.find_spec("sklearn")
    assert package is not None
    assert package.submodule_search_locations is not None
    path = Path(package.submodule_search_locations[0]) / "datasets/data/digits.csv.gz"
    with gzip.open(path, "rt") as lines:
        pixels = np.loadtxt(lines, delimiter=",", max_rows=n * shape[2])[:, :64]
    pixels = pixels.reshape(n, shape[2], 8, 8).repeat(5, 2).repeat(5, 3).transpose(0, 2, 3, 1)
    slope = np.add.outer(np.arange(shape[0]), np.arange(shape[1]))[:, :, None]
    return (pixels * 9)[:, : shape[0], : shape[1]] + slope


def extremes(shape: tuple[int, int, int]) -> np.ndarray:
    """Of one value, of two, and of one value but for a pixel."""
    pixels = np.zeros((6, *shape), dtype=np.int64)
    pixels[1], pixels[2], pixels[3] = 255, 93, 93
    pixels[3, 5, 5], pixels[4, 3:9], pixels[5, ::2] = 94, 255, 17
    return pixels


def pictures(shape: tuple[int, int, int]) -> torch.Tensor:
    pixels = np.concatenate([noise(8, shape), digits(8, shape), extremes(shape)])
    return torch.from_numpy(pixels.astype(np.uint8)).permute(0, 3, 1, 2).contiguous()


def drawn(
    recipe: Recipe, n: int, shape: tuple[int, int, int], seed: int = 1, cutout: bool = True
) -> np.ndarray:
    rng = np.random.default_rng(seed)
    if recipe == FIXMATCH:
        return draw_fixmatch(n, rng, shape)
    return draw_torchssl(n, rng, shape, cutout)


def draws(n: int, name: str, strength: float) -> np.ndarray:
    """The operation alone, without cutout."""
    draws = np.zeros(n, dtype=FIXMATCH.draws)
    draws["operation"][:, 0], draws["strength"][:, 0] = OPERATIONS.index(name), strength
    return draws


def assert_pillows(seen: torch.Tensor, expected: torch.Tensor, name: str) -> None:
    if name not in BLENDS:
        assert torch.equal(seen, expected)
    # Where a compiler fuses Pillow's product and sum, it rounds once and not twice.
    difference = (seen.int() - expected.int()).abs()
    assert difference.max() <= 1
    assert (difference > 0).double().mean() < 0.005


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("name", OPERATIONS)
def test_an_operation_is_pillows(name: str, shape: tuple[int, int, int]) -> None:
    if name == "Color" and shape[2] == 1:
        pytest.skip("is not drawn")
    images = pictures(shape)
    changed = False
    for level in range(1, 10):
        for sign in (1, -1) if name in SIGNED else (1,):
            strength = sign * strengths(*shape[:2])[OPERATIONS.index(name), level]
            seen = apply_strong(images, draws(len(images), name, strength), FIXMATCH)
            expected = [from_pillow(in_pillow(to_pillow(i), name, strength)) for i in images]
            assert_pillows(seen, torch.stack(expected), name)
            changed |= not torch.equal(seen, images)
    assert changed == (name != "Identity")


def in_pillow_one_by_one(images: torch.Tensor, draws: np.ndarray, recipe: Recipe) -> torch.Tensor:
    fill = recipe.fill if images.shape[1] == 3 else recipe.fill[1:2]
    done = []
    for image, (operations, powers, box) in zip(images, draws.tolist(), strict=True):
        picture = to_pillow(image)
        for operation, strength in zip(operations, powers, strict=True):
            picture = in_pillow(picture, OPERATIONS[operation], strength)
        result = from_pillow(picture)
        top, bottom, left, right = box
        for row in range(top, bottom):
            for column in range(left, right):
                result[:, row, column] = torch.tensor(fill)
        done.append(result)
    return torch.stack(done)


@pytest.mark.parametrize("shape", SHAPES)
@RECIPES
@pytest.mark.slow
def test_a_batch_is_pillows(recipe: Recipe, shape: tuple[int, int, int]) -> None:
    images = pictures(shape).repeat(20, 1, 1, 1)
    before = images.clone()
    draws = drawn(recipe, len(images), shape, seed=0)
    seen = apply_strong(images, draws, recipe)
    assert seen.dtype == torch.uint8
    assert torch.equal(images, before)
    # After Equalize or Solarize a difference of 1 may be any difference.
    expected = in_pillow_one_by_one(images, draws, recipe)
    assert (seen != expected).double().mean() < 0.005


@RECIPES
def test_alone_or_in_a_batch(recipe: Recipe) -> None:
    images = pictures((32, 32, 3)).repeat(9, 1, 1, 1)
    draws = drawn(recipe, len(images), (32, 32, 3))
    assert set(draws["operation"].ravel()) == set(range(len(OPERATIONS)))
    together = apply_strong(images, draws, recipe)
    alone = [apply_strong(images[i : i + 1], draws[i : i + 1], recipe) for i in range(len(images))]
    assert torch.equal(together, torch.cat(alone))
    order = np.random.default_rng(2).permutation(len(images))
    assert torch.equal(together[order], apply_strong(images[order], draws[order], recipe))


def test_memory_format() -> None:
    images = pictures((20, 36, 3)).repeat(9, 1, 1, 1)
    draws = draw_fixmatch(len(images), np.random.default_rng(1), (20, 36, 3))
    other = images.to(memory_format=torch.channels_last)
    seen, expected = apply_strong(other, draws, FIXMATCH), apply_strong(images, draws, FIXMATCH)
    assert torch.equal(seen, expected)
    assert expected.is_contiguous()
    assert seen.is_contiguous(memory_format=torch.channels_last)


@pytest.mark.skipif(not torch.cuda.is_available(), reason="no GPU")
def test_a_gpu_gives_the_same() -> None:
    images = pictures((32, 32, 3)).repeat(50, 1, 1, 1)
    draws = draw_fixmatch(len(images), np.random.default_rng(1), (32, 32, 3))
    assert torch.equal(
        apply_strong(images.cuda(), draws, FIXMATCH).cpu(), apply_strong(images, draws, FIXMATCH)
    )


def test_strengths() -> None:
    """The ends of the ranges that are drawn, by hand."""
    table = dict(zip(OPERATIONS, strengths(20, 32)[:, [1, 9]].tolist(), strict=True))
    for name in BLENDS:
        assert table.pop(name) == pytest.approx([0.14, 0.86])
    assert table.pop("ShearX") == table.pop("ShearY") == pytest.approx([0.03, 0.27])
    assert table == {
        "Identity": [0, 0],
        "AutoContrast": [0, 0],
        "Equalize": [0, 0],
        "Posterize": [4, 7],
        "Rotate": [3, 27],
        "Solarize": [256 - 25, 256 - 230],
        "TranslateX": [0, 8],
        "TranslateY": [0, 5],
    }
    bits = strengths(32, 32)[OPERATIONS.index("Posterize"), 1:]
    assert bits.tolist() == [4, 4, 5, 5, 6, 6, 6, 7, 7]


def test_operations_are_drawn_evenly() -> None:
    n = 200_000
    draws = draw_fixmatch(n, np.random.default_rng(0), (32, 32, 3))
    table = strengths(32, 32)
    for operation, strength in zip(draws["operation"].T, draws["strength"].T, strict=True):
        share = np.bincount(operation, minlength=14) / n
        np.testing.assert_allclose(share, [15 / 28] + [1 / 28] * 13, atol=0.0025)
        for place, name in enumerate(OPERATIONS):
            powers = strength[operation == place]
            if name in SIGNED:
                assert abs((powers[powers != 0] > 0).mean() - 0.5) < 0.03
                powers = abs(powers)
            levels, counts = np.unique(table[place, 1:], return_counts=True)
            found, times = np.unique(powers, return_counts=True)
            assert found.tolist() == levels.tolist()
            np.testing.assert_allclose(times / len(powers), counts / 9, atol=0.02)
    first, second = draws["operation"].T
    both = np.histogram2d(first, second, bins=14)[0] / n
    np.testing.assert_allclose(both[1:, 1:], 1 / 28**2, atol=0.0005)


@pytest.mark.parametrize("shape", [(32, 32, 3), (28, 28, 1), (20, 36, 3)])
def test_boxes(shape: tuple[int, int, int]) -> None:
    """Every centre, equally often, and a square around it as far as the image goes."""
    height, width = shape[:2]
    half = min(height, width) // 4
    expected = {
        (max(y - half, 0), min(y + half, height), max(x - half, 0), min(x + half, width))
        for y in range(height)
        for x in range(width)
    }
    assert len(expected) == height * width
    n = 100 * len(expected)
    draws = draw_fixmatch(n, np.random.default_rng(0), shape)
    boxes, times = np.unique(draws["box"], axis=0, return_counts=True)
    assert {tuple(box) for box in boxes.tolist()} == expected
    assert times.min() > 50
    assert times.max() < 150


def test_images_of_one_channel_have_no_colour() -> None:
    colour = OPERATIONS.index("Color")
    grey = draw_fixmatch(5000, np.random.default_rng(0), (32, 32, 1))
    three = draw_fixmatch(5000, np.random.default_rng(0), (32, 32, 3))
    three["strength"][three["operation"] == colour] = 0
    three["operation"][three["operation"] == colour] = OPERATIONS.index("Identity")
    assert np.array_equal(grey, three)


def test_no_images() -> None:
    draws = draw_fixmatch(0, np.random.default_rng(0), (32, 32, 3))
    images = torch.empty(0, 3, 32, 32, dtype=torch.uint8)
    assert apply_strong(images, draws, FIXMATCH).shape == images.shape


def test_three_operations_of_uniform_strength() -> None:
    """TorchSSL's ranges, by hand; every operation is applied, and its strength is uniform."""
    n, height, width = 200_000, 20, 32
    low, high = ranges(height, width).T
    assert dict(zip(OPERATIONS, low.tolist(), strict=True)) == {
        **dict.fromkeys(("Identity", "AutoContrast", "Equalize"), 0.0),
        **dict.fromkeys(BLENDS, 0.05),
        **{"Posterize": 4.0, "Solarize": 0.0, "Rotate": -30.0, "ShearX": -0.3, "ShearY": -0.3},
        **{"TranslateX": -0.3 * width, "TranslateY": -0.3 * height},
    }
    draws = draw_torchssl(n, np.random.default_rng(0), (height, width, 3), cutout=False)
    assert not draws["box"].any()
    for operation, strength in zip(draws["operation"].T, draws["strength"].T, strict=True):
        np.testing.assert_allclose(np.bincount(operation) / n, 1 / 14, atol=0.0025)
        for place, name in enumerate(OPERATIONS):
            powers = strength[operation == place]
            assert low[place] <= powers.min()
            if name == "Posterize":
                found, times = np.unique(powers, return_counts=True)
                assert found.tolist() == [4, 5, 6, 7]
                np.testing.assert_allclose(times / len(powers), 0.25, atol=0.02)
                continue
            spread = high[place] - low[place]
            np.testing.assert_allclose(powers.mean(), (low + high)[place] / 2, atol=0.01 * spread)
            np.testing.assert_allclose(powers.std(), spread / 12**0.5, atol=0.01 * spread)


@pytest.mark.slow
def test_square_of_random_side() -> None:
    """The share that is cut out, against the rectangle that Pillow draws."""
    n, shape = 20_000, (32, 32, 3)
    draws = draw_torchssl(n, np.random.default_rng(0), shape, cutout=True)
    top, bottom, left, right = draws["box"].T
    assert top.min() == left.min() == 0
    assert bottom.max() == right.max() == 32
    assert max((bottom - top).max(), (right - left).max()) == 16
    rng, shares = np.random.default_rng(1), []
    for _ in range(n):
        side, centre = 16 * rng.random(), 32 * rng.random(2)
        first = np.maximum(centre - side / 2, 0).astype(int)
        last = np.minimum(first + side, 32)
        canvas = Image.new("L", (32, 32))
        ImageDraw.Draw(canvas).rectangle((*first.tolist(), *last.tolist()), 255)
        shares.append(np.array(canvas).mean() / 255)
    cut = (bottom - top) * (right - left) / 32**2
    for quantity in (np.mean, np.std, np.median):
        np.testing.assert_allclose(quantity(cut), quantity(shares), atol=0.003)
    np.testing.assert_allclose(cut.mean(), 0.08, atol=0.005)
