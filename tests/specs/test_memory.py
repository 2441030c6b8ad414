"""What memory a run is estimated to take, on the host and on a GPU."""

import pytest

from estimated_runs import estimate, run


def test_memory_grows_with_models_and_images():
    small = run(dataset="fashion_mnist", model="cnn2conv", normalization="dataset")
    assert estimate(small, "cpu").memory_mb < estimate(run(), "cpu").memory_mb < 8000
    assert estimate(run(), "auto").memory_mb > estimate(run(), "cpu").memory_mb


@pytest.mark.slow
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
