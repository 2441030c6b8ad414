"""What a component of a noisy partition gives back is checked before anything is made of it."""

import numpy as np
import pytest

from noisyfl.core.options import BadInput
from noisyfl.data import noisy_partition
from noisyfl.data.noise.label_noise import LABEL_NOISES
from noisyfl.data.noise.noise_level import NOISE_LEVELS
from noisyfl.data.partitioning.partition import PARTITIONS
from small_partitions import canonical

LABELS = np.arange(1437) % 10


def make():
    spec = canonical(partition="iid(clients=3)", noise_level="uniform(low=0.1, high=0.4)")
    return noisy_partition.make(spec, LABELS)


THREE = [np.arange(9), np.arange(9, 20), np.arange(20, 25)]


@pytest.mark.parametrize(
    ("component", "hook", "gives", "message"),
    [
        (PARTITIONS.get("iid"), "_draw", THREE[:2], "partition.iid: got rows of 2 clients, expec"),
        (PARTITIONS.get("iid"), "_draw", [*THREE[:2], np.arange(8, 12)], "row 8 2 times, expected"),
        (PARTITIONS.get("iid"), "_draw", None, "partition.iid: got None, expected a list of rows"),
        (
            PARTITIONS.get("iid"),
            "_draw",
            [part / 1 for part in THREE],
            "partition.iid: client 0: got float64 .9., expected rows, whole numbers from 0 to 1436",
        ),
        (PARTITIONS.get("iid"), "_draw", [*THREE[:2], np.ones(9, bool)], "client 2: got bool"),
        (
            PARTITIONS.get("iid"),
            "_draw",
            [*THREE[:2], THREE[2][None]],
            "client 2: got int64 .1, 5.",
        ),
        (PARTITIONS.get("iid"), "_draw", [*THREE[:2], [30, 30.5]], "client 2: got list of 2, exp"),
        (
            PARTITIONS.get("iid"),
            "_draw",
            [*THREE[:2], 30],
            "client 2: got 30, expected rows, whole",
        ),
        (
            PARTITIONS.get("iid"),
            "_draw",
            [*THREE[:2], [-1]],
            "got rows -1 to 19, expected 0 to 1436",
        ),
        (PARTITIONS.get("iid"), "_draw", [*THREE[:2], [1437]], "got rows 0 to 1437, expected 0 to"),
        (
            PARTITIONS.get("iid"),
            "_draw",
            [[], *THREE[1:]],
            "client 0 of 3 has no sample; use fewer",
        ),
        (
            PARTITIONS.get("iid"),
            "assign",
            [*THREE[:2], [-1]],
            "got rows -1 to 19, expected 0 to 1436",
        ),
        (PARTITIONS.get("iid"), "assign", [[], [], []], "client 0 of 3 has no sample; use fewer"),
        (
            LABEL_NOISES.get("symmetric"),
            "replace",
            [[-1], [0], [1]],
            "replace: got rows -1 to 1, ex",
        ),
        (LABEL_NOISES.get("symmetric"), "replace", THREE, "client 0: got 9 rows, expected 479"),
        (NOISE_LEVELS.get("uniform"), "draw", np.full(3, 30.0), "got 30 to 30, expected 3 shares"),
        (NOISE_LEVELS.get("uniform"), "draw", 0.3, "noise_level.uniform.draw: got 0.3, expected 3"),
        (NOISE_LEVELS.get("uniform"), "draw", np.full(3, np.nan), "got nan to nan, expected 3 sha"),
        (
            LABEL_NOISES.get("symmetric"),
            "flip",
            None,
            "label_noise.symmetric: flip: got None, expe",
        ),
        (
            LABEL_NOISES.get("symmetric"),
            "flip",
            THREE,
            "client 0: got int64 .9., expected 479 whol",
        ),
    ],
)
def test_what_does_not_fit_is_named(component, hook, gives, message, monkeypatch):
    monkeypatch.setattr(component, hook, lambda *given: gives)
    with pytest.raises(BadInput, match=message):
        make()


def test_labels_are_those_of_classes(monkeypatch):
    flip = LABEL_NOISES.get("symmetric").flip
    monkeypatch.setattr(
        LABEL_NOISES.get("symmetric"),
        "flip",
        lambda *given: [labels + 5 for labels in flip(*given)],
    )
    with pytest.raises(BadInput, match="client 0: got labels 5 to 14, expected 0 to 9"):
        make()
