"""Runs of clustered federated learning's official code, a notebook."""

from __future__ import annotations

import json
import sys
from contextlib import redirect_stdout
from io import StringIO
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import torch

from conformance import patches
from conformance.runs import LAST
from conformance.runs.official import Handed, stand_in


def run(name: str, arguments: str, handed: Handed, code: Path) -> dict[str, Any]:
    """What :func:`conformance.runs.ours.run` says, of the official code.

    Args:
        name: of the pair.
        arguments: both thresholds.
        handed: what both sides have.
        code: the checkout.
    """
    from sklearn.cluster import AgglomerativeClustering

    patches.apply()
    sys.path.insert(0, str(code))
    stand_in("helper", ExperimentLogger=None, display_train_stats=None)
    import fl_devices

    # scikit-learn has renamed an argument.
    fl_devices.AgglomerativeClustering = lambda affinity, linkage: AgglomerativeClustering(
        metric=affinity, linkage=linkage
    )
    schedule, seed = handed.spec["schedule"], handed.spec["seed"]
    torch.manual_seed(seed)

    def optimizer(weights: Any) -> torch.optim.SGD:
        return Steady(weights, lr=schedule["learning_rate"], momentum=schedule["momentum"])

    tests = torch.utils.data.DataLoader(handed.test, batch_size=len(handed.test))
    clients = []
    for number, rows in handed.clients.items():
        own = torch.utils.data.Subset(handed.train, rows)
        client = fl_devices.Client(
            handed.network, optimizer, own, number, schedule["batch_size"], train_frac=1.0
        )
        client.eval_loader = tests
        client.epochs = schedule["local_epochs"]
        clients.append(client)
    fl_devices.Client.compute_weight_update = _with_epochs(fl_devices.Client.compute_weight_update)
    told = Told()
    first, second = arguments.split()
    with redirect_stdout(StringIO()):
        space = {
            "np": np, "clients": clients, "server": fl_devices.Server(handed.network, handed.test),
            "COMMUNICATION_ROUNDS": schedule["rounds"], "EPS_1": float(first),
            "EPS_2": float(second), "ExperimentLogger": lambda: told,
            "display_train_stats": lambda *args: None,
        }  # fmt: skip
        exec(_rounds_of(code), space)
    largest = [max(groups, key=len) for groups in told.rows["clusters"]]
    shares = [
        accuracies[group[0]]
        for accuracies, group in zip(told.rows["acc_clients"], largest, strict=True)
    ]
    together = [sorted(map(int, group)) for group in told.rows["clusters"][-1]]
    return {
        "accuracy": shares[-LAST:],
        "decided": {"clusters": len(together), "largest_cluster": max(map(len, together))},
    }


class Told(SimpleNamespace):
    """In the place of the notebook's log."""

    def __init__(self) -> None:
        self.rows: dict[str, list] = {}

    def log(self, values: dict[str, Any]) -> None:
        """Keep the values, and copies of lists."""
        for key, value in values.items():
            self.rows.setdefault(key, []).append(list(value) if key == "clusters" else value)


class Steady(torch.optim.SGD):
    """SGD whose learning rate cannot be lowered, as the notebook does from round to round."""

    def __init__(self, weights: Any, lr: float, momentum: float) -> None:
        super().__init__(list(weights), lr=lr, momentum=momentum)
        self.rate = lr

    def step(self, closure: Any = None) -> None:
        """As SGD's."""
        self.param_groups[0]["lr"] = self.rate
        super().step(closure)


def _with_epochs(update: Any) -> Any:
    return lambda client, epochs: update(client, epochs=client.epochs)


def _rounds_of(code: Path) -> str:
    """The notebook's cell with the rounds, below its constants."""
    book = json.loads((code / "clustered_federated_learning.ipynb").read_text())
    (cell,) = [
        text
        for text in ("".join(cell["source"]) for cell in book["cells"])
        if "for c_round in" in text
    ]
    return cell[cell.index("cfl_stats = ") :]
