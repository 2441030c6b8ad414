"""Images that are kept larger than a network sees them, and crops that are scaled."""

from dataclasses import replace
from types import SimpleNamespace

import numpy as np
import pytest
import torch
from PIL import Image
from scipy.stats import ks_2samp
from torchvision.transforms import CenterCrop, RandomCrop, RandomResizedCrop
from torchvision.transforms.v2 import functional

from noisyfl.data import noisy_partition
from noisyfl.data.augmentation.augment import KINDS, View, draw, normalize
from noisyfl.data.augmentation.randaugment import FIXMATCH, apply_strong, draw_fixmatch
from noisyfl.data.datasets.dataset import DATASETS
from noisyfl.data.datasets.parts import read_part
from noisyfl.methods.fedavg import FedAvg
from noisyfl.runs import train as training
from noisyfl.simulation.executor import NO_DRAWS
from noisyfl.simulation.outputs import Pass
from noisyfl.simulation.updates import Task
from small_runs import spec_of

Shape = tuple[int, int, int]

SIZES = [
    ((33, 33, 3), (32, 32, 3)),
    ((40, 35, 1), (32, 32, 1)),
    ((30, 28, 3), (27, 28, 3)),
    ((256, 256, 3), (224, 224, 3)),
]
"""Of images as they are kept, and as a network sees them."""


def pictures(n: int, shape: Shape) -> torch.Tensor:
    """Waves of all lengths, with some noise: what scaling blurs, and what it does not."""
    height, width, channels = shape
    rng = np.random.default_rng(n)
    waves = rng.uniform(-0.8, 0.8, (2, n, channels, 1, 1))
    phase = waves[0] * np.arange(height)[:, None] + waves[1] * np.arange(width)
    pixels = 127 + 90 * np.sin(phase + rng.uniform(0, 6, (n, channels, 1, 1)))
    pixels += rng.normal(0, 25, pixels.shape)
    return torch.from_numpy(pixels.clip(0, 255).astype(np.uint8))


def view(augmentation: str, kept: Shape | None, shape: Shape) -> View:
    facts = SimpleNamespace(
        name="stripes", shape=shape, train_shape=kept, mean=(0.5,), std=(0.25,), vectors=False
    )
    return View(facts, augmentation, "none", torch.device("cpu"))


def shown(seen: View, kind: str, images: torch.Tensor, draws) -> torch.Tensor:
    """The pixels that a network sees, as uint8."""
    answer = seen.show(kind, images, draws)
    assert answer.dtype == torch.float32
    return (answer * 255).round().to(torch.uint8)


def mirrored_where(mirror: int, image: torch.Tensor) -> torch.Tensor:
    return functional.horizontal_flip(image) if mirror else image


@pytest.mark.parametrize(("kept", "shape"), SIZES)
@pytest.mark.parametrize("augmentation", ["crop", "crop_flip", "crop_client_light"])
def test_crops_are_torchvisions(augmentation: str, kept: Shape, shape: Shape) -> None:
    images = pictures(30, kept)
    before = images.clone()
    seen = view(augmentation, kept, shape)
    draws = seen.draw("weak", 30, np.random.default_rng(1))
    expected = [
        mirrored_where(mirror, functional.crop(image, top, left, *shape[:2]))
        for image, (top, left, mirror) in zip(images, draws.moves.tolist(), strict=True)
    ]
    assert torch.equal(shown(seen, "weak", images, draws), torch.stack(expected))
    assert torch.equal(images, before)
    assert bool(draws.moves[:, 2].any()) == (augmentation == "crop_flip")


def test_crops_begin_where_torchvisions_do() -> None:
    kept, shape = (36, 33, 3), (32, 32, 3)
    image = torch.zeros(3, 36, 33)
    begins = {RandomCrop.get_params(image, (32, 32))[:2] for _ in range(500)}
    draws = draw("crop_flip", 20_000, np.random.default_rng(0), shape, kept)
    found, times = np.unique(draws, axis=0, return_counts=True)
    assert {(top, left) for top, left, _ in found.tolist()} == begins
    assert len(found) == 2 * len(begins) == 2 * 5 * 2
    np.testing.assert_allclose(times / len(draws), 1 / 20, atol=0.01)


@pytest.mark.parametrize(
    ("kept", "shape"), [*SIZES, ((35, 37, 3), (32, 32, 3)), ((32, 32, 3), (32, 32, 3))]
)
def test_others_see_the_middle(kept: Shape, shape: Shape) -> None:
    """A plain view, and any view without augmentation."""
    images = pictures(6, kept)
    expected = CenterCrop(shape[:2])(images)
    for augmentation in ("none", "crop_flip", "resized_crop_flip"):
        seen = view(augmentation, kept, shape)
        plain = seen.draw("plain", 6, np.random.default_rng(0))
        assert torch.equal(shown(seen, "plain", images, plain), expected)
    seen = view("none", kept, shape)
    rng = np.random.default_rng(0)
    assert torch.equal(shown(seen, "weak", images, seen.draw("weak", 6, rng)), expected)
    assert rng.random() == np.random.default_rng(0).random()


def test_test_images_are_seen_whole() -> None:
    images = pictures(6, (32, 32, 3))
    for augmentation in ("none", "crop_flip", "resized_crop_flip"):
        seen = view(augmentation, (33, 33, 3), (32, 32, 3))
        assert torch.equal(shown(seen, "plain", images, NO_DRAWS), images)


@pytest.mark.parametrize(
    ("kept", "shape", "n"),
    [
        ((33, 33, 3), (32, 32, 3), 400),
        ((256, 256, 3), (224, 224, 3), 24),
        ((100, 60, 1), (32, 40, 1), 100),
        (None, (32, 32, 3), 100),
    ],
)
def test_resized_crops_are_torchvisions(kept: Shape | None, shape: Shape, n: int) -> None:
    images = pictures(n, kept or shape)
    before = images.clone()
    seen = view("resized_crop_flip", kept, shape)
    draws = seen.draw("weak", n, np.random.default_rng(2))
    # The whole image as well, which is rarely drawn.
    draws.moves[:2] = [[0, 0, *images.shape[2:], mirror] for mirror in (0, 1)]
    expected = [
        mirrored_where(
            mirror, functional.resized_crop(image, *box, list(shape[:2]), antialias=True)
        )
        for image, (*box, mirror) in zip(images, draws.moves.tolist(), strict=True)
    ]
    answer = shown(seen, "weak", images, draws)
    difference = (answer.int() - torch.stack(expected).int()).abs()
    # Each works in integers of its own, in two passes.
    assert difference.max() <= 1
    assert (difference > 0).double().mean() < 0.02
    assert torch.equal(images, before)
    assert torch.equal(answer[5:17], shown(seen, "weak", images[5:17], draws.part(5, 17)))


def test_scaling_a_large_box_down_averages_its_pixels() -> None:
    """Single white lines on black: to pick pixels would keep them white, or lose them."""
    image = torch.zeros(1, 1, 256, 256, dtype=torch.uint8)
    image[..., ::4, :] = 255
    seen = view("resized_crop_flip", (256, 256, 1), (64, 64, 1))
    draws = seen.draw("weak", 1, np.random.default_rng(0))
    draws.moves[:] = [[0, 0, 256, 256, 0]]
    answer = shown(seen, "weak", image, draws)
    by_pillow = Image.fromarray(image[0, 0].numpy()).resize((64, 64), Image.Resampling.BILINEAR)
    np.testing.assert_allclose(answer[0, 0].int().numpy(), np.array(by_pillow, int), atol=1)
    # The mean of the image is 255 / 4.
    assert abs(answer.double().mean() - 63.75) < 2


@pytest.mark.parametrize("kept", [(33, 33, 3), (20, 36, 1), (60, 25, 3), (12, 80, 1)])
@pytest.mark.slow
def test_boxes_are_distributed_as_torchvisions(kept: Shape) -> None:
    """Also where many tries fail, and where all ten do."""
    n = 6_000
    torch.manual_seed(1)
    image = torch.zeros(1, *kept[:2])
    theirs = np.array(
        [RandomResizedCrop.get_params(image, [0.08, 1.0], [3 / 4, 4 / 3]) for _ in range(n)]
    )
    draws = draw("resized_crop_flip", n, np.random.default_rng(1), (32, 32, kept[2]), kept)
    ours = draws[:, :4]
    assert draws.dtype == np.int64
    for measure in (
        *(lambda box, place=place: box[:, place] for place in range(4)),
        lambda box: box[:, 2] * box[:, 3],
        lambda box: box[:, 3] / box[:, 2],
        lambda box: box[:, 0] / np.maximum(kept[0] - box[:, 2], 1),
        lambda box: box[:, 1] / np.maximum(kept[1] - box[:, 3], 1),
    ):
        assert ks_2samp(measure(ours), measure(theirs), method="asymp").pvalue > 1e-5
    np.testing.assert_allclose(np.corrcoef(ours.T), np.corrcoef(theirs.T), atol=0.06)
    assert abs(draws[:, 4].mean() - 0.5) < 0.03
    assert set(draws[:, 4]) == {0, 1}


def test_boxes_of_a_very_wide_image_fall_back_to_its_middle() -> None:
    """No area that fits: as high as the image, 4/3 as wide, in the middle."""
    draws = draw("resized_crop_flip", 50, np.random.default_rng(0), (32, 32, 1), (3, 300, 1))
    assert (draws[:, :4] == [0, 148, 3, 4]).all()
    image = torch.zeros(1, 3, 300)
    theirs = RandomResizedCrop.get_params(image, [0.08, 1.0], [3 / 4, 4 / 3])
    assert theirs == (0, 148, 3, 4)


@pytest.mark.parametrize("augmentation", ["none", "crop_flip", "resized_crop_flip"])
def test_a_strong_view_goes_on_from_the_weak_one(augmentation: str) -> None:
    kept, shape = (33, 36, 3), (32, 32, 3)
    images = pictures(40, kept)
    seen = view(augmentation, kept, shape)
    draws = seen.draw("strong", 40, np.random.default_rng(1))
    rng = np.random.default_rng(1)
    weak = seen.draw("weak", 40, rng)
    assert np.array_equal(draws.moves, weak.moves)
    strong = draw_fixmatch(40, rng, shape)
    assert np.array_equal(draws.operations, strong)
    expected = apply_strong(shown(seen, "weak", images, weak), strong, FIXMATCH)
    assert torch.equal(seen.show("strong", images, draws), normalize(expected, seen.mean, seen.std))


def test_channels_last() -> None:
    images = pictures(20, (33, 33, 3))
    other = images.to(memory_format=torch.channels_last)
    for augmentation in ("none", "crop_flip", "resized_crop_flip"):
        seen = view(augmentation, (33, 33, 3), (32, 32, 3))
        for kind in KINDS:
            draws = seen.draw(kind, 20, np.random.default_rng(0))
            assert torch.equal(seen.show(kind, images, draws), seen.show(kind, other, draws))


@pytest.mark.slow
@pytest.mark.parametrize("augmentation", ["none", "crop_flip", "resized_crop_flip"])
def test_a_device_is_not_waited_for(augmentation: str) -> None:
    """Tensors on ``meta`` have no values: whoever asks for one fails."""
    seen = view(augmentation, (33, 33, 3), (32, 32, 3))
    seen.mean, seen.std = seen.mean.to("meta"), seen.std.to("meta")
    images = torch.empty(50, 3, 33, 33, dtype=torch.uint8, device="meta")
    for kind in KINDS:
        draws = seen.draw(kind, 50, np.random.default_rng(0))
        assert seen.show(kind, images, draws).shape == (50, 3, 32, 32)


@pytest.mark.skipif(not torch.cuda.is_available(), reason="no GPU")
@pytest.mark.parametrize("augmentation", ["crop_flip", "resized_crop_flip"])
def test_a_gpu_shows_the_same(augmentation: str) -> None:
    images = pictures(40, (33, 33, 3))
    seen = view(augmentation, (33, 33, 3), (32, 32, 3))
    draws = seen.draw("weak", 40, np.random.default_rng(0))
    expected = shown(seen, "weak", images, draws)
    seen.mean, seen.std = seen.mean.cuda(), seen.std.cuda()
    found = shown(seen, "weak", images.cuda(), draws).cpu()
    # Resized images may be a grey level apart (:func:`noisyfl.data.augmentation.crops.resized`).
    apart = (found.int() - expected.int()).abs().max()
    assert apart <= (augmentation == "resized_crop_flip")


@pytest.mark.parametrize("augmentation", ["none", "crop", "resized_crop_flip"])
def test_a_federation_trains_on_larger_images(data, tmp_path, monkeypatch, augmentation) -> None:
    """Digits of 8x8 of which a network sees 7x7: both executors train, pass and test alike."""
    facts = replace(DATASETS["digits"], shape=(7, 7, 1), train_shape=(8, 8, 1))
    split = "iid_subset(clients=3, per_client=50)"
    spec = spec_of("fedavg", partition=split, augmentation=augmentation)
    train, test = (read_part(data.data("digits", part)) for part in ("train", "test"))
    test = replace(test, images=test.images[:, :7, :7])
    noisy_partition.write(tmp_path / "p.parquet", spec["noisy_partition"], train.labels)
    partition = noisy_partition.read(tmp_path / "p.parquet")
    monkeypatch.setitem(DATASETS, "digits", facts)
    weights, logits = [], []
    for executor in ("loop", "fast"):
        federation = training.build_federation(
            spec, 1, train, test, partition, torch.device("cpu"), executor
        )
        tasks = [Task(client, federation.weights) for client in federation.clients]
        requests = [
            Pass(client, federation.weights, "purpose", view=kind)
            for client in federation.clients
            for kind in KINDS
        ]
        passes = federation.executor.passes(requests, 0)
        passes.append(federation.executor.test_outputs(federation.weights, 0))
        assert [len(output.logits) for output in passes] == [50] * (3 * len(KINDS)) + [
            len(test.labels)
        ]
        logits.append([output.logits for output in passes])
        updates = federation.executor.local_updates(tasks, FedAvg(), 0, "training")
        assert [update.steps for update in updates] == [3, 3, 3]
        weights.append([update.weights for update in updates])
    torch.testing.assert_close(*logits, rtol=1e-4, atol=1e-4)
    torch.testing.assert_close(*weights, rtol=1e-4, atol=1e-4)
