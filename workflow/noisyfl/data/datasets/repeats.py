"""Samples of a user's own dataset that are there several times."""

from __future__ import annotations

import hashlib
from collections import Counter

import numpy as np

from noisyfl.data.datasets.images import Arrays


def repeats(sample: str, train: Arrays, test: Arrays) -> list[str]:
    """What a user should know of equal samples, in words, with their numbers.

    Args:
        sample: what a sample is called.
    """
    found = []
    digests = [[_digest(one) for one in samples] for samples, _ in (train, test)]
    for part, (_, labels), of_part in zip(
        ("training", "test"), (train, test), digests, strict=True
    ):
        pairs = Counter(zip(of_part, labels.tolist(), strict=True))
        labelled = Counter(digest for digest, _ in pairs)
        if several := sum(count > 1 for count in labelled.values()):
            found.append(f"{several:,} {sample}s are in the {part} part with two labels or more")
        if part == "training" and (copied := sum(count > 1 for count in pairs.values())):
            found.append(
                f"{copied:,} {sample}s are in the training part twice or more with the same label, "
                "maybe on several clients"
            )
    known = set(digests[0])
    if seen := sum(digest in known for digest in digests[1]):
        found.append(
            f"{seen:,} of {len(digests[1]):,} test {sample}s are equal to a training {sample}"
        )
    return found


def _digest(sample: np.ndarray) -> bytes:
    return hashlib.blake2b(np.ascontiguousarray(sample).data, digest_size=16).digest()
