"""Open-set label noise: images of no class of the task, with a label of the task."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from noisyfl.analysis.clients import count_classes
from noisyfl.core.options import BadInput
from noisyfl.data import noisy_partition
from noisyfl.data.datasets.dataset import DATASETS
from noisyfl.data.datasets.parts import read_part
from noisyfl.data.noisy_partition import check_content
from small_files import prepare_in
from small_partitions import canonical

FACTS = DATASETS["digits_open"]
OPEN = len(FACTS.classes)


@pytest.fixture(scope="module")
def labels(tmp_path_factory):
    folder = tmp_path_factory.mktemp("digits_open")
    return read_part(prepare_in(folder, "digits_open", folder)["train"]).labels


def make(tmp_path, labels, **values):
    path = tmp_path / "partition.parquet"
    given = {"dataset": "digits_open", "partition": "iid(clients=2)", **values}
    noisy_partition.write(path, canonical(**given), labels)
    return noisy_partition.read(path)


@settings(max_examples=20, deadline=None)
@given(
    level=st.floats(0, 0.2),
    share=st.floats(0, 1),
    flips=st.sampled_from(["symmetric", "pair"]),
    count=st.sampled_from(["exact", "bernoulli"]),
    scope=st.sampled_from(["client", "dataset"]),
)
def test_of_a_clients_noisy_samples_the_share_is_open_set(
    tmp_path_factory, labels, level, share, flips, count, scope
):
    noise = f"open_set(share={share!r}, flips={flips!r}, count={count!r})"
    levels = f"constant(level={level!r}, scope={scope!r})"
    folder = tmp_path_factory.mktemp("noise")
    found = make(folder, labels, label_noise=noise, noise_level=levels)
    clean = make(folder, labels, label_noise="none", noise_level="none")
    check_content(found, labels, "partition")
    noisy = strange = 0
    for one, before in zip(found.clients, clean.clients, strict=True):
        open_set = one.true_label == OPEN
        # A sample of the task is the one that was dealt, in its place.
        assert (one.samples == before.samples)[~open_set].all()
        assert (one.samples[open_set] >= FACTS.task_size).all()
        # The image is another one, and the label is that of the image before it.
        assert (one.given_label == before.true_label)[open_set].all()
        flipped = ~open_set & (one.given_label != before.true_label)
        if flips == "pair":
            assert (one.given_label == (before.true_label + 1) % OPEN)[flipped].all()
        own = open_set.sum() + flipped.sum()
        if scope == "client":
            assert open_set.sum() == round(share * own)
        if (scope, count) == ("client", "exact"):
            assert own == round(level * len(open_set))
        noisy, strange = noisy + own, strange + open_set.sum()
    assert strange == pytest.approx(share * noisy, abs=4)
    assert found.overall_noise == noisy / FACTS.task_size


def test_clients_and_their_classes_are_counted_with_one_class_more(tmp_path, labels):
    found = make(tmp_path, labels, label_noise="open_set", noise_level="constant(level=0.2)")
    table = count_classes(found)
    assert table.shape == (2, OPEN + 1)
    assert table[:, OPEN].tolist() == [round(0.2 * row.sum()) for row in table]
    assert (count_classes(found, flipped=True)[:, :OPEN] == 0).all()


def test_without_this_noise_no_image_of_the_open_set_is_on_a_client(tmp_path, labels):
    found = make(tmp_path, labels)
    for client in found.clients:
        assert (client.samples < FACTS.task_size).all()
    assert sum(len(client.samples) for client in found.clients) == FACTS.task_size


def test_an_image_is_used_once_and_too_few_are_refused(tmp_path, labels):
    with pytest.raises(BadInput) as refused:
        make(tmp_path, labels, label_noise="open_set", noise_level="constant(level=0.5)")
    assert "label_noise" in str(refused.value)
    assert "share: got 1.0, with which 576 samples are open-set" in str(refused.value)
    assert "digits_open has 283 images for them" in str(refused.value)
    half = "open_set(share=0.4)"
    found = make(tmp_path, labels, label_noise=half, noise_level="constant(level=0.5)")
    samples = np.concatenate([client.samples for client in found.clients])
    assert len(np.unique(samples)) == len(samples)


def test_a_dataset_without_an_open_set_is_refused_before_anything_is_made():
    with pytest.raises(BadInput, match="got dataset digits, all of whose images") as refused:
        canonical(label_noise="open_set")
    assert "expected one of digits_open, " in str(refused.value)
