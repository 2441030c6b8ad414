"""Names for datasets, and for the lines of a paper's table that are not trained here."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from noisyfl.specs.descriptions import TableDescription
from noisyfl.specs.published import PAPERS

BASELINE = "fedavg"
"""The method that all others are compared with."""

SETTING = ("dataset", "partition", "noise")
"""Label columns that name a published number's setting. Those by which the columns of a table do
not select may differ from line to line."""

DATASETS = {
    "mnist": "MNIST",
    "fashion_mnist": "Fashion-MNIST",
    "cifar10": "CIFAR-10",
    "cifar100": "CIFAR-100",
    "clothing1m": "Clothing1M",
    "mini_webvision": "mini-WebVision",
    "covidx": "COVIDx",
}
"""What the papers call their datasets."""

NAMES = {
    **PAPERS,
    "apfl": "APFL",
    "arfl": "ARFL",
    "centralized": "Centralized",
    "cfl": "CFL",
    "coteaching": "Co-teaching",
    "cross_entropy": "Cross entropy",
    "deep_self_learning": "Deep self-learning",
    "distributed": "Distributed",
    "dividemix": "DivideMix",
    "fedavg": "FedAvg",
    "feddyn": "FedDyn",
    "fednoil_cosine": "FedNoiL, cosine",
    "fednoil_log": "FedNoiL, logarithm",
    "fedprox": "FedProx",
    "fedproto": "FedProto",
    **{f"fedrn_k{k}": f"FedRN, k={k}" for k in range(1, 6)},
    "jointopt": "Joint Optimization",
    "josrc": "Jo-SRC",
    "krum": "Krum",
    "oracle": "Oracle",
    "scaffold": "SCAFFOLD",
    "selfie": "SELFIE",
}
"""Names of rows by their method in ``config/published.csv``."""


def printed_names(lines: list[dict[Any, Any]], table: TableDescription) -> list[str]:
    """The name of each line: that of the row that it would be if it were trained.

    A line that the experiment's file has no row for is named by the method, its variant, and what
    else tells it from the others.
    """
    varying = [key for key in SETTING if len({line.get(key) for line in lines}) > 1]
    names = []
    for line in lines:
        if own := _own_name(line, table):
            names.append(own)
            continue
        more = [line[key] for key in ("variant", *varying) if line[key]]
        if line["setting_scope"] != "federated":
            more.append(line["setting_scope"])
        name = "+".join(NAMES.get(part, part) for part in line["method"].split("+"))
        names.append(f"{name} ({', '.join(more)})" if more else name)
    return names


def _own_name(line: Mapping[Any, Any], table: TableDescription) -> str:
    """The name of the left-out row that a line of the paper belongs to; empty if there is none."""
    for row in table.left_out:
        if row.published is not None:
            own = {"method": row.method_name, "variant": row.variant, **row.published}
            wanted = {**(table.published or {}), **own}
            if all(line[key] == wanted[key] for key in wanted if key in line):
                return row.name
    return ""
