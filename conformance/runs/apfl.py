"""Runs of APFL's official code, FedTorch."""

from __future__ import annotations

import itertools
import pickle
import sys
from contextlib import redirect_stdout
from copy import copy, deepcopy
from io import StringIO
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import torch
from torch import nn

from conformance import patches
from conformance.runs import LAST
from conformance.runs.official import Handed, stand_in


class Descent:
    """In the place of the code's SGD, which old versions of PyTorch's class are needed for.

    Args:
        network: whose weights it moves.
        rate: at which.
    """

    def __init__(self, network: nn.Module, rate: float) -> None:
        self.network, self.rate = network, rate
        for weight in network.parameters():
            weight.grad = torch.zeros_like(weight)

    def zero_grad(self) -> None:
        """Zeros, to which the server's side of the code adds."""
        for weight in self.network.parameters():
            weight.grad = torch.zeros_like(weight)

    @torch.no_grad()
    def step(self, apply_lr: bool = True, scale: float = 1.0, **momentum: Any) -> None:
        """Without momentum; without the learning rate too, if that is asked."""
        for weight in self.network.parameters():
            assert weight.grad is not None
            weight -= (self.rate if apply_lr else scale) * weight.grad


def run(name: str, arguments: str, handed: Handed, code: Path) -> dict[str, Any]:
    """What :func:`conformance.runs.ours.run` says, of the official code."""
    patches.apply()
    sys.path.insert(0, str(code))
    for unused in ("h5py", "tqdm", "six"):
        stand_in(unused, tqdm=object)
    stand_in("six.moves", cPickle=pickle)
    from fedtorch.comms.trainings.federated.centered import apfl as script

    schedule = handed.spec["schedule"]
    rate, count = schedule["learning_rate"], len(handed.clients)
    torch.manual_seed(handed.spec["seed"])
    steps = -(-len(handed.clients[0]) // schedule["batch_size"])
    args = SimpleNamespace(
        num_comms=schedule["rounds"], rounds_comm=0, local_index=0, global_index=0,
        local_data_seen=0, quant_error=0.0, fed_personal=False, fed_personal_alpha=0.5,
        fed_adaptive_alpha=True, in_momentum=False, out_momentum=False, growing_batch_size=False,
        num_batches_train_per_device_per_epoch=steps, debug=False, lr_scale_at_sync=1.0,
        local_steps=[steps * schedule["local_epochs"]], federated_sync_type="local_step",
        federated_type="apfl", quantized=False, graph=SimpleNamespace(n_nodes=count),
    )  # fmt: skip
    server = SimpleNamespace(
        args=args, model=handed.network(), local_val_tracker={}, global_val_tracker={},
        zero_grad=lambda: None, reset_tracker=lambda tracker: None, criterion=None, metrics=None,
    )  # fmt: skip
    server.optimizer = Descent(server.model, 0.0)
    clients = [_client(handed, rows, copy(args), rate) for rows in handed.clients.values()]
    told: list[float] = []
    everyone, aggregate = np.arange(count), script.fedavg_aggregation_centered
    chosen = (handed.participants(number, everyone) for number in itertools.count())
    done = itertools.count(1)

    def tested(*given: Any) -> None:
        aggregate(*given)
        if next(done) > schedule["rounds"] - LAST:
            told.append(
                float(np.mean([_share(client, server.model, handed) for client in clients]))
            )

    script.fedavg_aggregation_centered = tested
    script.set_online_clients_centered = lambda args: list(next(chosen))
    script.adjust_learning_rate = lambda *given: rate
    script.load_data_batch = lambda args, images, labels, tracker: (images, labels)
    for silent in ("do_validate_centered", "log_validation_centered", "log", "logging_globally",
                   "logging_sync_time", "logging_load_time"):  # fmt: skip
        setattr(script, silent, lambda *given, **rest: None)
    script.define_local_training_tracker = dict
    with redirect_stdout(StringIO()):
        script.train_and_validate_apfl_centered(clients, server)
    shares = [float(client.args.fed_personal_alpha) for client in clients]
    return {"accuracy": told, "decided": {"mixing_share": float(np.mean(shares))}}


def _client(handed: Handed, rows: list[int], args: Any, rate: float) -> Any:
    shared = handed.network()
    private = deepcopy(shared)
    own = torch.utils.data.Subset(handed.train, rows)
    size = handed.spec["schedule"]["batch_size"]
    return SimpleNamespace(
        args=args, model=shared, model_personal=private, optimizer=Descent(shared, rate),
        optimizer_personal=Descent(private, rate), criterion=nn.CrossEntropyLoss(), metrics=(1,),
        scheduler=None, val_loader=None,
        train_loader=torch.utils.data.DataLoader(own, batch_size=size, shuffle=True),
    )  # fmt: skip


@torch.no_grad()
def _share(client: Any, server: nn.Module, handed: Handed) -> float:
    """Of the test samples that a client's mixture with the server's model knows."""
    alpha, images = client.args.fed_personal_alpha, handed.test.images
    logits = alpha * client.model_personal(images) + (1 - alpha) * server(images)
    return float(np.mean(logits.argmax(1).numpy() == np.asarray(handed.test.targets)))
