import json

import pytest
import torch
from torch.utils.flop_counter import FlopCounterMode

from noisyfl.cost import LAYERS, estimate
from noisyfl.models import MODELS, build_model
from noisyfl.spec import canonical_run

SHAPES = {"cnn": (8, 8, 1), "cnn2conv": (28, 28, 1), "cnn9": (28, 28, 1), "resnet50": (224, 224, 3)}


@pytest.mark.parametrize("model", MODELS.names())
def test_layers_are_the_models(model):
    """Products and weights as torch counts them, but for biases and normalisation."""
    height, width, channels = SHAPES.get(model, (32, 32, 3))
    layers = list(LAYERS[model](height, width, channels, 10))
    with torch.device("meta"):
        module = build_model(model, (height, width, channels), 10, 1).eval()
        with FlopCounterMode(display=False) as counter:
            module(torch.empty(1, channels, height, width))
    products = sum(positions * weights for positions, weights in layers)
    assert counter.get_total_flops() == 2 * products
    matrices = sum(value.numel() for value in module.parameters() if value.ndim > 1)
    assert sum(weights for _, weights in layers) == matrices


def run(schedule=None, **changes):
    given = {
        "dataset": "cifar10",
        "partition": "iid(clients=100)",
        "label_noise": "symmetric",
        "noise_level": "constant(level=0.4)",
        "model": "resnet18",
        "augmentation": "crop_flip",
        "normalization": "imagenet",
        "schedule": {
            "rounds": 1000,
            "participation": 0.1,
            "local_epochs": 5,
            "batch_size": 10,
            "learning_rate": 0.03,
            **(schedule or {}),
        },
        "method": "fedavg",
        "seed": 1,
    }
    return canonical_run({**given, **changes}, "test")


def test_seconds_are_linear_in_what_a_run_does():
    def seconds(**schedule):
        return estimate(run({"evaluate_every": 10**6, **schedule}), "cpu").seconds

    start = 2 * seconds() - seconds(rounds=2000)
    whole = seconds() - start
    assert seconds(rounds=500) - start == pytest.approx(whole / 2, rel=1e-3)
    assert seconds(participation=0.2) - start == pytest.approx(whole * 2, rel=1e-3)
    assert seconds(local_epochs=1) - start == pytest.approx(whole / 5, rel=1e-3)
    assert whole * 0.5 < seconds(batch_size=50) - start < whole
    assert seconds(evaluate_every=1) > seconds()


def test_memory_grows_with_models_and_images():
    small = run(dataset="fashion_mnist", model="cnn2conv", normalization="dataset")
    assert estimate(small, "cpu").memory_mb < estimate(run(), "cpu").memory_mb < 8000
    assert estimate(run(), "auto").memory_mb > estimate(run(), "cpu").memory_mb


def test_an_encoded_dataset_is_not_held_in_memory():
    changes = {
        "dataset": "clothing1m",
        "partition": "iid(clients=500)",
        "label_noise": "none",
        "noise_level": "none",
        "model": "resnet50",
    }
    encoded = estimate(run({"participation": 0.02}, **changes), "cpu").memory_mb
    # Its pixels alone are 197 GB; a batch of 500 decoded images is 98 MB.
    assert encoded < 16_000
    larger = estimate(run({"participation": 0.02, "test_batch_size": 1000}, **changes), "cpu")
    assert larger.memory_mb - encoded == pytest.approx(4 * 98.3, rel=0.01)


def test_training_images_that_are_kept_larger_take_more_memory():
    changes = {"dataset": "mini_webvision", "label_noise": "none", "noise_level": "none"}
    memory = estimate(run(model="cnn4conv", **changes), "cpu").memory_mb
    cifar = estimate(run(model="cnn4conv"), "cpu").memory_mb
    pixels = 65_944 * 33 * 33 * 3 + 2_500 * 32 * 32 * 3 - 60_000 * 32 * 32 * 3
    # CIFAR's classifier has fewer classes: 40 times 256 weights less, in a few models.
    assert memory - cifar == pytest.approx(3 * pixels / 1e6, rel=0.05)


def test_a_spec_read_from_a_file_will_do():
    spec = run()
    assert estimate(json.loads(json.dumps(spec)), "cpu") == estimate(spec, "cpu")
