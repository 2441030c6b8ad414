"""Room: how far the oracle is ahead of FedAvg, which is what a method can gain in a setting."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pandas as pd

from noisyfl.specs.identity import identity

ACCURACY = "test_accuracy"
"""The metric in which methods are held against each other."""

BASELINE = "fedavg"
"""The method that all others are compared with."""

ORACLE = "oracle"
"""The method that learns from clean samples alone, up to which there is room for others."""


def setting_of(spec: Mapping[str, Any]) -> str:
    """Name what a run's method is trained on, and for how long.

    Runs of two methods with the same setting have the same noisy partition, network, augmentation,
    rounds, local epochs and participation. They may differ in what a paper tunes for its own
    method: the learning rate, the momentum, the batch size.
    """
    shared = {name: spec.get(name) for name in ("noisy_partition", "model", "augmentation")}
    lengths = ("rounds", "local_epochs", "participation")
    return identity({**shared, **{name: spec["schedule"].get(name) for name in lengths}})


def rooms(frame: pd.DataFrame, statistic: str) -> pd.Series:
    """The oracle's test accuracy less FedAvg's, in points, by the setting.

    Args:
        frame: rows of tables, see :mod:`noisyfl.analysis.frame`; of its runs those of the two
            methods count.
        statistic: of a run, by a name in :data:`noisyfl.analysis.statistics.STATISTICS`.
    """
    runs = frame[(frame["metric"] == ACCURACY) & (frame["status"] == "finished")]
    by_setting = runs.drop_duplicates("run").set_index("setting")
    levels = {
        method: by_setting.loc[by_setting["our_method"] == method, statistic]
        for method in (BASELINE, ORACLE)
    }
    means = {method: values.groupby(level=0).mean() for method, values in levels.items()}
    return (means[ORACLE] - means[BASELINE]).dropna()
