"""How alike two clients are: in their labels, and in what their local models give out."""

from __future__ import annotations

import itertools
from collections.abc import Callable

import numpy as np

from noisyfl.analysis.clients import count_classes
from noisyfl.analysis.probes import probed_rows
from noisyfl.analysis.runs import Run
from noisyfl.data.noisy_partition import NoisyPartition

OUTPUT = "random_image_output"
"""The column of ``clients`` with a local model's softmax outputs for the random image."""

ByPair = dict[tuple[int, int], float]
"""A measure of each two clients, by their numbers."""


def cosines(vectors: np.ndarray) -> np.ndarray:
    """The cosine of each pair of rows, float64 [n, n]; NaN where a row is not finite."""
    unit = vectors / np.linalg.norm(vectors, axis=1, keepdims=True)
    return unit @ unit.T


def class_overlap(run: Run, partition: NoisyPartition) -> ByPair:
    """The overlap of two clients' distributions of true labels, from 0 to 1."""
    table = count_classes(partition)
    shares = table / table.sum(1, keepdims=True)
    return {
        (one, other): float(np.minimum(shares[one], shares[other]).sum())
        for one, other in itertools.combinations(range(len(shares)), 2)
    }


def output_similarity(run: Run, partition: NoisyPartition) -> ByPair:
    """The cosine of two local models' softmax outputs for the random image (FedRN, Eq. 5)."""
    rows = probed_rows(run, [OUTPUT])
    similar = cosines(np.array([row[OUTPUT] for row in rows], dtype=np.float64))
    return {
        (rows[one]["client"], rows[other]["client"]): float(similar[one, other])
        for one, other in itertools.combinations(range(len(rows)), 2)
    }


def class_mean_distance(run: Run, partition: NoisyPartition) -> ByPair:
    """The mean distance between two clients' mean feature vectors of the same given class.

    The mean is over the classes that both clients have; it is divided by the mean length of all
    feature vectors. Clients without a common class have no distance.
    """
    means: dict[int, dict[int, np.ndarray]] = {}
    lengths: list[float] = []
    for row in probed_rows(run, ["feature_vector", "feature_given_label"]):
        vectors, labels = np.array(row["feature_vector"]), np.array(row["feature_given_label"])
        means[row["client"]] = {label: vectors[labels == label].mean(0) for label in set(labels)}
        lengths += np.linalg.norm(vectors, axis=1).tolist()
    found = {}
    for one, other in itertools.combinations(means, 2):
        shared = set(means[one]) & set(means[other])
        apart = [np.linalg.norm(means[one][label] - means[other][label]) for label in shared]
        if apart:
            found[one, other] = float(np.mean(apart) / np.mean(lengths))
    return found


PAIRS: dict[str, Callable[[Run, NoisyPartition], ByPair]] = {
    "class_mean_distance": class_mean_distance,
    "class_overlap": class_overlap,
    "output_similarity": output_similarity,
}
"""The measures of pairs of clients, by name."""
