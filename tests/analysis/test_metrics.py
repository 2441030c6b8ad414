import numpy as np
import pytest

from noisyfl.analysis.metrics import METRICS, mean_samples
from noisyfl.data import noisy_partition
from noisyfl.data.datasets.dataset import DATASETS
from small_partitions import canonical_of

SPEC = {"noisy_partition": {"dataset": "digits", "partition": {"name": "x", "clients": 10}}}

ROUNDS = {
    "round": np.array([1.0, 2.0, 3.0]),
    "participants": np.array([4.0, 2.0, 0.0]),
    "test_accuracy": np.array([0.1, np.nan, 0.3]),
    "test_top5_accuracy": np.array([0.5, np.nan, 0.7]),
    "test_balanced_accuracy": np.array([0.2, np.nan, 0.4]),
    "participants_noise_level": np.array([0.2, 0.4, np.nan]),
    "seconds": np.array([1.0, 2.0, 3.0]),
    "bytes_down": np.array([8e6, 6e6, 0.0]),
    "bytes_up": np.array([4e6, 2e6, 0.0]),
    "samples_forward": np.array([7.0, 3.0, 0.0]) * 143.7,
    "samples_backward": np.array([6.0, 2.0, 0.0]) * 143.7,
}


@pytest.mark.parametrize(
    ("metric", "expected"),
    [
        ("test_accuracy", [0.1, np.nan, 0.3]),
        ("top1_accuracy", [0.1, np.nan, 0.3]),
        ("top5_accuracy", [0.5, np.nan, 0.7]),
        ("balanced_accuracy", [0.2, np.nan, 0.4]),
        ("noise_ratio", [0.2, 0.4, np.nan]),
        ("seconds_per_round", [1, 2, 3]),
        ("bytes_down", [2e6, 3e6, np.nan]),
        ("bytes_up", [1e6, 1e6, np.nan]),
        ("samples_forward", [1.75, 1.5, np.nan]),  # of 1437 / 10 samples
        ("samples_backward", [1.5, 1, np.nan]),
        ("label_precision", [np.nan] * 3),  # not recorded
        ("noise_detection_recall", [np.nan] * 3),
    ],
)
def test_values_by_round(metric, expected):
    found = METRICS[metric].values(ROUNDS, SPEC)
    np.testing.assert_allclose(found, expected, rtol=1e-12)


@pytest.mark.parametrize(
    "partition",
    [
        "iid(clients=20)",
        "iid(clients=20, stratified=True)",
        "iid(clients=20, samples=400)",
        "shard(clients=20, shards=3, samples=700)",
        "iid_subset(clients=20, per_client=50)",
        "shard(clients=20, shards=3)",
        "dirichlet(clients=8, alpha=1)",
        "dirichlet(clients=8, alpha=1, per_client=30)",
        "dirichlet_official(clients=8, beta=0.5)",
        "bernoulli_dirichlet(clients=8, p=0.7, alpha=10)",
        "quantity_dirichlet(clients=8, beta=20, per_client=40)",
    ],
)
def test_mean_samples_are_those_of_the_partition(partition):
    given = {"dataset": "digits", "partition": partition, "label_noise": "none", "seed": 1}
    spec = canonical_of(given)
    table, _ = noisy_partition.make(spec, np.arange(DATASETS["digits"].train_size) % 10)
    clients = spec["partition"]["clients"]
    assert mean_samples({"noisy_partition": spec}) == pytest.approx(table.num_rows / clients)
