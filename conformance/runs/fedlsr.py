"""Runs of FedLSR's official code, a notebook."""

from __future__ import annotations

import ast
import copy
import json
import time
from contextlib import nullcontext, redirect_stdout
from io import StringIO
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import torch
from torch import nn

from conformance import patches
from conformance.runs import LAST
from conformance.runs.official import Both, Handed
from noisyfl.core.randomness import stream

PARTS = ("CustomDataset", "Client", "TestGlobalModel", "FedAvg")
"""What the notebook defines and a run needs."""


def run(name: str, arguments: str, handed: Handed, code: Path) -> dict[str, Any]:
    """What :func:`conformance.runs.ours.run` says, of the official code.

    Its second view is a rotated image; here it is our strong one.

    Args:
        name: of the pair.
        arguments: ``name=number`` of its settings.
        handed: what both sides have.
        code: the checkout.
    """
    patches.apply()
    schedule, clients = handed.spec["schedule"], len(handed.clients)
    everyone, rng = np.arange(clients), stream(handed.spec["seed"], "strong views")
    chosen = (handed.participants(number, everyone) for number in range(schedule["rounds"]))
    drawn = SimpleNamespace(
        random=SimpleNamespace(
            choice=lambda *args, **rest: next(chosen),
            beta=np.random.RandomState(handed.spec["seed"]).beta,
        ),
        squeeze=np.squeeze,
        sum=np.sum,
    )
    shares: list[float] = []
    space: dict[str, Any] = {
        "np": drawn, "torch": torch, "nn": nn, "copy": copy, "time": time,
        "Dataset": torch.utils.data.Dataset, "DataLoader": torch.utils.data.DataLoader,
        "autocast": nullcontext, "tt_transform": lambda images: handed.strong(images, rng),
        "momentum": schedule["momentum"], "weight_decay": 0.0, "C": schedule["participation"],
        "K": clients, "Clients_all_idxs": list(range(clients)), "Num_classes": 10,
        "classes": list(range(10)), "dataset_test": handed.test, "test_accuracies": shares,
        "cachedWeights": {}, "cachedDatasizes": {}, "TotalClients": [],
        **{key: float(value) for key, value in (part.split("=") for part in arguments.split())},
    }  # fmt: skip
    exec(_definitions(code), space)
    space["TotalClients"] += [
        space["Client"](
            number, handed.train, schedule["batch_size"], schedule["learning_rate"],
            schedule["local_epochs"], rows, [0.1] * 10,
        )
        for number, rows in handed.clients.items()
    ]  # fmt: skip
    torch.manual_seed(handed.spec["seed"])
    with redirect_stdout(StringIO()):
        space["FedAvg"](Both(handed.network()), schedule["rounds"])
    return {"accuracy": [share / 100 for share in shares[-LAST:]], "decided": {}}


def _definitions(code: Path) -> Any:
    book = json.loads((code / "FedLSR.ipynb").read_text())
    text = "\n".join(
        "".join(cell["source"])
        for cell in book["cells"]
        if cell["cell_type"] == "code" and not cell["source"][0].startswith("!")
    )
    nodes = [node for node in ast.parse(text).body if getattr(node, "name", "") in PARTS]
    return compile(ast.Module(nodes, []), "FedLSR.ipynb", "exec")
