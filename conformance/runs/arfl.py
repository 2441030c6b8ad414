"""Runs of ARFL's official code, which has the median and the trimmed mean too."""

from __future__ import annotations

import itertools
import os
import runpy
import sys
from contextlib import redirect_stdout
from io import StringIO
from pathlib import Path
from types import SimpleNamespace
from typing import Any
from unittest.mock import patch

import numpy as np
import torch
from torch import nn

from conformance import patches
from conformance.runs import LAST
from conformance.runs.official import Handed, in_new_folder, stand_in


class LogProbabilities(nn.Module):
    """A network of ours, as the code's loss wants it."""

    def __init__(self, network: nn.Module) -> None:
        super().__init__()
        self.network = network

    def forward(self, images: torch.Tensor) -> torch.Tensor:
        """[n, classes]."""
        return self.network(images).log_softmax(1)


def run(name: str, arguments: str, handed: Handed, code: Path) -> dict[str, Any]:
    """What :func:`conformance.runs.ours.run` says, of the official code."""
    patches.apply()
    sys.path.insert(0, str(code / "FedAvg"))
    stand_in("tqdm", tqdm=lambda rows: rows)
    nothing = SimpleNamespace(add_scalar=lambda *args: None)
    stand_in("tensorboardX", SummaryWriter=lambda path: nothing)
    labels = np.asarray(handed.test.targets)
    by_class = {label: np.flatnonzero(labels == label).tolist() for label in range(10)}
    parts = handed.train, handed.test, *(_padded(handed), by_class), []
    stand_in("datasets", build_datasets=lambda args: parts)
    stand_in("FedNets", build_model=lambda args: LogProbabilities(handed.network()))
    schedule, clients = handed.spec["schedule"], len(handed.clients)
    everyone = np.arange(clients)
    chosen = (handed.participants(number, everyone) for number in itertools.count())
    sys.argv = [
        "main_nn.py",
        *f"{arguments} --gpu -1 --num_users {clients} --iid 1 --local_iter -1".split(),
        *f"--epochs {schedule['rounds']} --frac {schedule['participation']}".split(),
        *f"--local_ep {schedule['local_epochs']} --local_bs {schedule['batch_size']}".split(),
        *f"--lr {schedule['learning_rate']} --momentum {schedule['momentum']}".split(),
        *f"--attacker_ep {schedule['local_epochs']} --seed {handed.spec['seed']}".split(),
    ]
    torch.manual_seed(handed.spec["seed"])
    with (
        in_new_folder() as folder,
        redirect_stdout(StringIO()),
        patch.object(np.random, "choice", lambda *args, **kwargs: next(chosen)),
    ):
        for part in ("save", "code"):
            (folder / part).mkdir()
        os.chdir(folder / "code")
        left = runpy.run_path(os.fspath(code / "FedAvg" / "main_nn.py"), run_name="__main__")
    sizes = [len(rows) for rows in by_class.values()]
    accuracies = [float(np.average(shares, weights=sizes)) for shares in left["accs"]]
    return {"accuracy": accuracies[-LAST:], "decided": {}}


def _padded(handed: Handed) -> dict[int, list[int]]:
    """Rows of clients, so many more that the first 70 %, which the code trains on, are its own."""
    padded = {}
    for number, rows in handed.clients.items():
        whole = next(n for n in itertools.count(len(rows)) if round(n * 0.7) == len(rows))
        padded[number] = (rows * 2)[:whole]
    return padded
