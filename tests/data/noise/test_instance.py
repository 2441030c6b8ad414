"""Instance-dependent label noise, held against the algorithm of Xia et al. written out."""

import numpy as np
import pytest
from scipy.special import softmax
from scipy.stats import truncnorm

from noisyfl.core.options import BadInput
from noisyfl.core.randomness import stream
from noisyfl.data import noisy_partition
from noisyfl.data.datasets.dataset import DATASETS
from noisyfl.data.noise.label_noise import LABEL_NOISES, Context
from noisyfl.data.own_files import OwnFiles
from small_partitions import LABELS, canonical

SEED, CLASSES = 3, 10
IMAGES = np.random.default_rng(0).integers(256, size=(12, 8, 8, 1), dtype=np.uint8)
TRUE = np.arange(12) % CLASSES


def transitions(level, std):
    """Algorithm 2 for each image by itself: the chances of its given label, [n, classes]."""
    q = truncnorm.mean((0 - level) / std, (1 - level) / std, loc=level, scale=std)
    rows = []
    for image, label in zip(IMAGES, TRUE, strict=True):
        projection = stream(SEED, "label noise", "projection", label).normal(size=(64, CLASSES))
        scores = image.ravel() / 255 @ projection
        scores[label] = -np.inf
        chances = q * softmax(scores)
        chances[label] += 1 - q
        rows.append(chances)
    return np.array(rows)


@pytest.mark.parametrize(("level", "std"), [(0.4, 0.1), (0.1, 0.3)])
@pytest.mark.slow
def test_labels_are_flipped_as_the_paper_has_it(level, std):
    clients = 3_000  # with the same images, so that their labels are drawn as often
    context = Context(DATASETS["digits"], SEED, images=lambda client: IMAGES)
    noise = LABEL_NOISES.build(f"instance(std={std})")
    given = np.array(noise.flip([TRUE] * clients, np.full(clients, level), context))
    found = (given[..., None] == np.arange(CLASSES)).mean(axis=0)
    np.testing.assert_allclose(found, transitions(level, std), atol=4 * 0.5 / clients**0.5)


def test_a_client_of_level_zero_has_no_noise_and_others_do_not_depend_on_it():
    context = Context(DATASETS["digits"], SEED, images=lambda client: IMAGES)
    noise = LABEL_NOISES.build("instance")
    clean, noisy = noise.flip([TRUE, TRUE], np.array([0.0, 0.9]), context)
    assert (clean == TRUE).all()
    assert (noisy != TRUE).mean() > 0.5
    again = noise.flip([TRUE, TRUE], np.array([0.9, 0.9]), context)
    assert (again[1] == noisy).all()


@pytest.mark.parametrize("scope", ["client", "dataset"])
def test_a_noisy_partition_gives_each_client_its_own_images(tmp_path, scope):
    images = np.random.default_rng(1).integers(256, size=(len(LABELS), 8, 8, 1), dtype=np.uint8)
    level = f"constant(level=0.5, scope='{scope}')"
    spec = canonical(label_noise="instance", noise_level=level, partition="iid(clients=3)")
    path = tmp_path / "partition.parquet"
    noisy_partition.write(path, spec, LABELS, None, images)
    partition = noisy_partition.read(path)
    assert partition.overall_noise == pytest.approx(0.5, abs=0.05)
    # A flipped label is mostly what that very image is mistaken for.
    likely = []
    for client in partition.clients:
        flipped = client.given_label != client.true_label
        for sample, true, given in zip(
            client.samples[flipped],
            client.true_label[flipped],
            client.given_label[flipped],
            strict=True,
        ):
            projection = stream(1, "label noise", "projection", true).normal(size=(64, CLASSES))
            scores = images[sample].ravel() / 255 @ projection
            scores[true] = -np.inf
            likely.append(scores.argmax() == given)
    assert np.mean(likely) > 0.6


def test_without_images_there_is_no_such_noise():
    spec = canonical(label_noise="instance")
    with pytest.raises(BadInput, match=r"label_noise\.instance: depends on the images"):
        noisy_partition.make(spec, LABELS)


def test_a_noise_that_does_not_ask_for_images_decodes_none(tmp_path):
    class Untouchable:
        def __getattr__(self, name):
            raise AssertionError(name)

    own = OwnFiles(tmp_path, tmp_path)
    noisy_partition.make(canonical(), LABELS, own, Untouchable())
