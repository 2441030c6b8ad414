"""The clients of a noisy partition: their classes and features, and their values in a run."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

import numpy as np

from noisyfl.analysis.runs import Run
from noisyfl.data.datasets.dataset import dataset
from noisyfl.data.noisy_partition import UNKNOWN, NoisyPartition
from noisyfl.specs.identity import identity


def count_classes(partition: NoisyPartition, flipped: bool = False) -> np.ndarray:
    """Count samples by client and true class, or by given class where the true one is unknown;
    those of an open set are of one class more.

    Args:
        flipped: count only the samples whose given label is not the true one.

    Returns:
        int64 [clients, classes].
    """
    classes = len(dataset(partition.spec["dataset"]).true_names)
    rows = []
    for client in partition.clients:
        labels = client.true_label
        if (labels == UNKNOWN).any():
            labels = client.given_label
        if flipped:
            labels = labels[client.given_label != labels]
        rows.append(np.bincount(labels, minlength=classes))
    return np.array(rows)


def client_features(partition: NoisyPartition) -> dict[str, np.ndarray]:
    """The features of a noisy partition's clients.

    The imbalance of a client is ``1 - H / log K``, with the entropy ``H`` of its true labels and
    the dataset's ``K`` classes: 0 if it has as many samples of each class, 1 if it has only one
    class.

    Returns:
        By name (``noise_level`` in percent, ``samples``, ``imbalance``), float64 [clients].
    """
    table = count_classes(partition)
    share = table / table.sum(1, keepdims=True)
    entropy = -np.sum(share * np.log(np.where(share > 0, share, 1)), axis=1)
    return {
        "noise_level": 100 * partition.realised,
        "samples": table.sum(1).astype(float),
        "imbalance": np.clip(1 - entropy / np.log(table.shape[1]), 0, 1),
    }


def accuracies_by_client(confusion: np.ndarray, partition: NoisyPartition) -> np.ndarray:
    """How accurate a run is, after its last round, on test images in the proportions of each
    client's classes: the sum over classes of their share of the client's samples times the share
    of their test images that is recognised.

    Args:
        confusion: int [classes, classes], see :attr:`noisyfl.analysis.runs.Run.confusion`.

    Returns:
        In percent, float64 [clients]; NaN for a client without samples of a class.
    """
    tested = confusion.sum(1)
    recall = np.divide(confusion.diagonal(), tested, out=np.zeros(len(tested)), where=tested > 0)
    counts = count_classes(partition)[:, : len(confusion)] * (tested > 0)
    with np.errstate(invalid="ignore"):
        return 100 * counts @ recall / counts.sum(1)


def last_values(run: Run, column: str, clients: int) -> np.ndarray:
    """The last value that each client has in a column of ``clients``.

    Returns:
        float64 [clients]; NaN where the client, or the run, has no value.
    """
    found = np.full(clients, np.nan)
    _, client, values = run.of_clients(column)
    found[client.astype(int)] = values  # a client's last value overwrites earlier ones
    return found


def first_values(run: Run, column: str, clients: int) -> np.ndarray:
    """As :func:`last_values`, but the first value that each client has."""
    found = np.full(clients, np.nan)
    _, client, values = run.of_clients(column)
    found[client.astype(int)[::-1]] = values[::-1]
    return found


def ranks_from_0_to_1(values: np.ndarray) -> np.ndarray:
    """The rank of each client, 0 for the smallest value and 1 for the largest: float64 [clients].

    Equal values are ranked in the order of the clients.
    """
    return values.argsort(kind="stable").argsort(kind="stable") / max(len(values) - 1, 1)


def main_classes(partition: NoisyPartition) -> np.ndarray:
    """The two true classes of which each client has most samples, the larger one first.

    The result is int64 [clients, 2]; of equally frequent classes, those with lower numbers count.
    """
    return np.argsort(-count_classes(partition), axis=1, kind="stable")[:, :2]


def by_id(partitions: Iterable[NoisyPartition]) -> Mapping[str, NoisyPartition]:
    """Noisy partitions by their ids, as a figure's description refers to them."""
    return {identity(partition.spec): partition for partition in partitions}
