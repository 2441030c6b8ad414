"""Runs of FedProto's official code."""

from __future__ import annotations

import runpy
import sys
from argparse import Namespace
from contextlib import redirect_stdout
from io import StringIO
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import torch

from conformance import patches
from conformance.runs import LAST
from conformance.runs.official import Both, Handed, in_new_folder, stand_in


def run(name: str, arguments: str, handed: Handed, code: Path) -> dict[str, Any]:
    """What :func:`conformance.runs.ours.run` says, of the official code.

    The code tests once, at the end, and its counts run on from client to client and from tests
    without prototypes to tests with them (lib/update.py, line 456). So models are tested here,
    each on all test samples by the nearest prototype.
    """
    patches.apply()
    stand_in("tqdm", tqdm=lambda rows: rows)
    nothing = SimpleNamespace(add_scalar=lambda *args: None)
    stand_in("tensorboardX", SummaryWriter=lambda path: nothing)
    stand_in("resnet", resnet18=None)
    stand_in("models", CNNMnist=None, CNNFemnist=None)
    sys.path.insert(0, str(code / "lib"))
    script = runpy.run_path(str(code / "exps" / "federated_main.py"), run_name="script")
    schedule, clients = handed.spec["schedule"], len(handed.clients)
    args = Namespace(
        dataset="digits", ways=0, shots=0, stdev=0, num_users=clients, rounds=schedule["rounds"],
        train_ep=schedule["local_epochs"], local_bs=schedule["batch_size"],
        lr=schedule["learning_rate"], optimizer="sgd", device="cpu", num_classes=10, verbose=0,
        ld=float(arguments.partition("--ld ")[2]),
    )  # fmt: skip
    torch.manual_seed(handed.spec["seed"])
    networks = [Both(handed.network(), logarithms=True) for _ in range(clients)]
    train, told = script["FedProto_taskheter"], []
    space = train.__globals__
    aggregate, round = space["proto_aggregation"], iter(range(args.rounds))

    def tested(local: Any) -> Any:
        prototypes = aggregate(local)
        if next(round) >= args.rounds - LAST:
            told.append(float(np.mean([_share(net, prototypes, handed) for net in networks])))
        return prototypes

    nobody = [[0.0]] * 3
    space.update(proto_aggregation=tested, test_inference_new_het_lt=lambda *args: nobody)
    with in_new_folder(), redirect_stdout(StringIO()):
        train(args, handed.train, handed.test, handed.clients, {}, networks, [])
    return {"accuracy": told, "decided": {}}


@torch.no_grad()
def _share(network: Both, prototypes: dict[int, list], handed: Handed) -> float:
    """Of the test samples whose nearest prototype is of their class."""
    classes = sorted(prototypes)
    known = torch.stack([prototypes[label][0] for label in classes])
    nearest = torch.cdist(network(handed.test.images)[1], known).argmin(1)
    return float(np.mean(np.array(classes)[nearest] == np.asarray(handed.test.targets)))
