"""Runs of FedELC's, MaskedOptim's and FNBench's official codes, which have one script in common."""

from __future__ import annotations

import itertools
import os
import runpy
import sys
from contextlib import redirect_stdout
from io import StringIO
from pathlib import Path
from typing import Any
from unittest.mock import patch

import numpy as np
import torch

from conformance import patches
from conformance.runs import LAST
from conformance.runs.official import Both, Handed, stand_in

WIDTH = 512
"""Of the features of the codes' ResNet-18; RoFL's centroids are as wide."""


def run(name: str, arguments: str, handed: Handed, code: Path) -> dict[str, Any]:
    """What :func:`conformance.runs.ours.run` says, of the official code."""
    patches.apply()
    sys.path.insert(0, str(code))
    stand_in("tqdm", tqdm=lambda rows, **rest: rows)
    stand_in("utils.agnews", AGNews=None)  # of text, and in need of torchtext
    _share_parts(handed, code)
    schedule, clients = handed.spec["schedule"], len(handed.clients)
    everyone = np.arange(clients)
    chosen = (handed.participants(number, everyone) for number in itertools.count())
    sys.argv = [
        "main_fed_LNL.py",
        *f"{arguments} --gpu -1 --num_workers 0 --num_users {clients} --partition shard".split(),
        # No label is flipped, but the script wants a level of each client.
        *f"--noise_type_lst symmetric --noise_group_num {clients}".split(),
        *["--group_noise_rate", "0", "0", "--weight_decay", "0"],
        *f"--epochs {schedule['rounds']} --frac {schedule['participation']}".split(),
        *f"--local_ep {schedule['local_epochs']} --local_bs {schedule['batch_size']}".split(),
        *f"--lr {schedule['learning_rate']} --momentum {schedule['momentum']}".split(),
        # A last batch that is not full would not be tested.
        *f"--seed {handed.spec['seed']} --test_bs {len(handed.test)}".split(),
    ]
    torch.manual_seed(handed.spec["seed"])
    with (
        redirect_stdout(StringIO()),
        patch.object(np.random, "choice", lambda *args, **kwargs: next(chosen)),
    ):
        # The script gives up where there is no CUDA.
        left = runpy.run_path(
            os.fspath(code / "main_fed_LNL.py"), {"exit": lambda *a: None}, "__main__"
        )
    return {
        "accuracy": [float(value) / 100 for value in left["acc_list_glob1"][-LAST:]],
        "decided": _decided(left, handed),
    }


def _share_parts(handed: Handed, code: Path) -> None:
    """Give the code's modules our network and samples, and let them test the last rounds alone."""
    if (code / "fl_models").exists():
        import resnets.build_model as models

        models.build_model = lambda args: Both(handed.network(), width=WIDTH)
        import fl_models.test as tests

        loaded: tuple = (handed.train, handed.test, 10)
    else:
        import model_arch.build_model as models

        models.build_model = lambda args: Both(handed.network(), width=WIDTH)
        import fl_components.test as tests

        loaded = (handed.train, handed.test, 10, None)
    import utils
    import utils.sampling

    utils.load_dataset = lambda dataset: loaded
    utils.sampling.sample_noniid_shard = lambda **asked: handed.clients
    test, done = tests.test_img, itertools.count(1)

    def rarely(network: Any, loader: Any, args: Any) -> tuple[float, ...]:
        if next(done) <= args.epochs - LAST:
            return (np.nan,) * 5
        return test(network, loader, args)

    tests.test_img = rarely


def _decided(left: dict[str, Any], handed: Handed) -> dict[str, Any]:
    """The same as our side says, of a method that finds noisy clients."""
    noisy = getattr(left["local_weights"], "noisy_clients", None)
    if noisy is None:
        return {}
    decided: dict[str, Any] = {"flagged": sorted(int(number) for number in noisy)}
    clients = [left["local_update_objects"][number] for number in decided["flagged"]]
    rights = [
        np.mean(handed.true[client.idxs] == client.label_update.argmax(1).numpy())
        for client in clients
        if hasattr(client, "label_update")
    ]
    return {**decided, "label_accuracy": float(np.mean(rights))} if rights else decided
