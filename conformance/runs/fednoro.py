"""Runs of FedNoRo's official code."""

from __future__ import annotations

import os
import runpy
import sys
from collections.abc import Callable
from contextlib import redirect_stdout
from io import StringIO
from pathlib import Path
from types import SimpleNamespace
from typing import Any
from unittest.mock import patch

import numpy as np
import torch

from conformance import patches
from conformance.runs import LAST
from conformance.runs.official import Handed, in_new_folder, stand_in


def run(name: str, arguments: str, handed: Handed, code: Path) -> dict[str, Any]:
    """What :func:`conformance.runs.ours.run` says, of the official code.

    Its optimizer is Adam; here it is given SGD of the schedule.
    """
    patches.apply()
    sys.path.insert(0, str(code))
    nothing = SimpleNamespace(add_scalar=lambda *args: None)
    stand_in("tensorboardX", SummaryWriter=lambda path: nothing)
    clients, schedule = len(handed.clients), handed.spec["schedule"]

    def dataset(args: Any) -> Any:
        args.n_classes = 10
        return handed.train, handed.test, handed.clients

    given, none = np.array(handed.train.targets), np.zeros(clients)
    stand_in("dataset.dataset", get_dataset=dataset)
    stand_in("model.build_model", build_model=lambda args: handed.network())
    import utils.utils

    utils.utils.add_noise = lambda args, labels, users: (given, none, none)
    sys.argv = [
        "train_FedNoRo.py",
        *f"{arguments} --exp FedNoRo --n_clients {clients} --seed {handed.spec['seed']}".split(),
        *f"--rounds {schedule['rounds']} --local_ep {schedule['local_epochs']}".split(),
        *f"--batch_size {schedule['batch_size']} --base_lr {schedule['learning_rate']}".split(),
    ]
    shares: list[float] = []

    def optimizer(weights: Any, lr: float, **rest: Any) -> torch.optim.SGD:
        return torch.optim.SGD(weights, lr=lr, momentum=schedule["momentum"])

    with (
        in_new_folder(),
        redirect_stdout(StringIO()),
        patch.object(torch.optim, "Adam", optimizer),
        patch.object(torch, "save", _into_new_folders(torch.save)),
        patch("sklearn.metrics.accuracy_score", _noted(shares)),
    ):
        left = runpy.run_path(os.fspath(code / "train_FedNoRo.py"), run_name="__main__")
    flagged = sorted(int(number) for number in left["noisy_clients"])
    return {"accuracy": shares[-LAST:], "decided": {"flagged": flagged}}


def _noted(shares: list[float]) -> Callable[[Any, Any], float]:
    """The share of correct predictions, kept in a list as well."""

    def share(labels: Any, predicted: Any) -> float:
        shares.append(float(np.mean(np.asarray(labels) == predicted)))
        return shares[-1]

    return share


def _into_new_folders(save: Callable[..., None]) -> Callable[..., None]:
    """The same, where the last model's folder does not exist: its name lacks a slash."""

    def saved(value: Any, path: str) -> None:
        Path(path).parent.mkdir(exist_ok=True)
        save(value, path)

    return saved
