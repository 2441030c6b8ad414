"""What probes measured of single samples: scores, and features of the local models."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from noisyfl.analysis.probes import probed_rows
from noisyfl.analysis.runs import Run
from noisyfl.data.noisy_partition import UNKNOWN


def majority(given: np.ndarray) -> np.ndarray:
    """Which of a client's samples are of a majority class, bool [samples].

    Args:
        given: int64 [samples], the samples' given labels.
    """
    _, place, many = np.unique(given, return_inverse=True, return_counts=True)
    return (many >= many.mean())[place]


def scores_of_samples(run: Run, column: str, of_majority: bool) -> tuple[np.ndarray, np.ndarray]:
    """The finite scores of all clients' samples, float64 [samples], and which of them are noisy.

    Args:
        run: the run to read, on a dataset whose true labels are known.
        column: of ``clients``, with a list of scores for each client.
        of_majority: whether the samples are those of majority classes, or all others.

    Raises:
        BadInput: the run has no such scores.
    """
    values, noisy = [], []
    for row in probed_rows(run, [column, "sample_given_label", "sample_true_label"]):
        given, true = np.array(row["sample_given_label"]), np.array(row["sample_true_label"])
        chosen = majority(given) == of_majority
        values.append(np.array(row[column], dtype=np.float64)[chosen])
        noisy.append((given != true)[chosen])
    score, flags = np.concatenate(values), np.concatenate(noisy)
    finite = np.isfinite(score)
    return score[finite], flags[finite]


@dataclass(frozen=True)
class Features:
    """Features of samples, and the global class centroids.

    Attributes:
        vectors: float [samples, width].
        classes: int64 [samples], the true classes, or the given ones where those are not known.
        wrong: bool [samples], whether the given label is known to differ from the true one.
        centroids: float [known classes, width], the global class centroids.
        known: int64 [known classes], the classes that have a centroid.
    """

    vectors: np.ndarray
    classes: np.ndarray
    wrong: np.ndarray
    centroids: np.ndarray
    known: np.ndarray


def read_features(run: Run) -> Features:
    """The features of all clients that have some; samples without finite features are left out.

    Raises:
        BadInput: no client has features.
    """
    columns = ["feature_vector", "feature_true_label", "feature_given_label", "class_centroid"]
    rows = probed_rows(run, columns)
    vectors = np.concatenate([np.array(row["feature_vector"], dtype=np.float64) for row in rows])
    given = np.concatenate([row["feature_given_label"] for row in rows])
    true = np.concatenate(
        [row["feature_true_label"] or [UNKNOWN] * len(row["feature_given_label"]) for row in rows]
    )
    centroids = np.zeros((0, vectors.shape[1]))
    if rows[0]["class_centroid"] is not None:
        centroids = np.array(rows[0]["class_centroid"], dtype=np.float64)
    known = np.flatnonzero(centroids.any(1) & np.isfinite(centroids).all(1))
    finite = np.isfinite(vectors).all(1)
    return Features(
        vectors=vectors[finite],
        classes=np.where(true < 0, given, true)[finite],
        wrong=((true >= 0) & (given != true))[finite],
        centroids=centroids[known],
        known=known,
    )
