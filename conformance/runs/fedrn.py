"""Runs of FedRN's official code, which has six of its baselines too."""

from __future__ import annotations

import itertools
import os
import re
import runpy
import sys
from collections.abc import Collection
from contextlib import redirect_stdout
from io import StringIO
from pathlib import Path
from typing import Any
from unittest.mock import patch

import numpy as np
import torch
from torch import nn

from conformance import patches
from conformance.runs.neighbours import Neighbours
from conformance.runs.official import Handed
from conformance.simulation import Named

ROUND = re.compile(r"test_acc: ([0-9.]+)")


def run(
    name: str, arguments: str, handed: Handed, code: Path, changes: Collection[str] = ()
) -> dict[str, Any]:
    """What :func:`conformance.runs.ours.run` says, of the official code.

    Args:
        name: of the method.
        arguments: of the code's command line.
        handed: the run.
        code: the checkout.
        changes: points of FedRN that are changed (:class:`conformance.runs.neighbours.Neighbours`).
    """
    patches.apply()
    sys.path.insert(0, str(code))
    import models.nets as nets

    # The script makes the global model first, the second one where there are two, and then two for
    # each client, of which FedRN reads those of clients that have not taken part yet.
    numbers = itertools.count()
    nets.get_model = lambda args: Named(handed.network(next(numbers))).to(
        memory_format=torch.channels_last  # half the time on a processor
    )
    import models.test
    import models.update as update
    import utils
    import utils.sampling

    utils.load_dataset = lambda dataset: (handed.train, handed.test, 10)
    utils.sampling.sample_iid = lambda labels, users: handed.clients
    _test_at_the_end(models.test, handed)
    picked: dict[int, bool] = {}
    _note_picks(update.LocalUpdateCoteaching, picked)
    neighbours = Neighbours(update, changes)
    schedule, clients = handed.spec["schedule"], len(handed.clients)
    everyone = np.arange(clients)

    def participants(*args: Any, **kwargs: Any) -> np.ndarray:
        return handed.participants(neighbours.next_round(), everyone)

    sys.argv = [
        "main_fed_LNL.py",
        *f"{arguments} --iid --gpu -1 --num_workers 0 --num_users {clients}".split(),
        *f"--noise_type_lst clean --noise_group_num {clients} --group_noise_rate 0 0".split(),
        *f"--epochs {schedule['rounds']} --frac {schedule['participation']}".split(),
        *f"--local_ep {schedule['local_epochs']} --local_bs {schedule['batch_size']}".split(),
        *f"--lr {schedule['learning_rate']} --momentum {schedule['momentum']}".split(),
        *f"--seed {handed.spec['seed']} --bs 500".split(),
    ]
    noise = handed.random_image()  # the code's own has the shape of CIFAR's
    printed = StringIO()
    with (
        redirect_stdout(printed),
        patch.object(torch, "randn", lambda *shape: noise),
        patch.object(np.random, "choice", participants),
    ):
        # The script gives up where there is no CUDA.
        left = runpy.run_path(
            os.fspath(code / "main_fed_LNL.py"), {"exit": lambda *a: None}, "__main__"
        )
    return {
        "accuracy": [float(found) / 100 for found in ROUND.findall(printed.getvalue())],
        "decided": _decided(name, left["local_update_objects"], picked, handed)
        | neighbours.decided(),
    }


def _test_at_the_end(tests: Any, handed: Handed) -> None:
    """Test the last rounds alone, and never on the training part, for time's sake."""
    test, last = tests.test_img, handed.spec["schedule"]["evaluate_last"]
    # A script with two models tests both in turn.
    done: dict[int, int] = {}

    def rarely(network: nn.Module, loader: Any, args: Any) -> tuple[float, float]:
        rounds = done[id(network)] = done.get(id(network), 0) + (loader.dataset is handed.test)
        if loader.dataset is handed.train or rounds <= args.epochs - last:
            return np.nan, np.nan
        with torch.no_grad():
            return test(network, loader, args)

    tests.test_img = rarely


def _note_picks(side: Any, picked: dict[int, bool]) -> None:
    """Keep which rows of a batch the first of two networks picked when it last saw them."""
    pass_, loss = side.forward_pass, side.loss_coteaching

    def noted_loss(self: Any, *args: Any, **kwargs: Any) -> Any:
        answer = loss(self, *args, **kwargs)
        self.last_picks = answer[2]
        return answer

    def noted_pass(self: Any, batch: Any, *networks: Any) -> Any:
        answer = pass_(self, batch, *networks)
        rows = batch[3].tolist()
        picks = set(np.array(rows)[self.last_picks].tolist())
        picked.update({row: row in picks for row in rows})
        return answer

    side.loss_coteaching, side.forward_pass = noted_loss, noted_pass


def _decided(
    name: str, objects: list[Any], picked: dict[int, bool], handed: Handed
) -> dict[str, Any]:
    """The same as our side says."""
    given = np.asarray(handed.train.targets)
    clean = given == handed.true
    if name in ("fedrn", "coteaching"):
        selected = np.zeros(len(given), dtype=bool)
        if name == "fedrn":
            for part in objects:
                selected[list(part.ldr_train.dataset.idxs)] = True
        else:
            selected[[row for row, chosen in picked.items() if chosen]] = True
        both = [
            (clean[rows][selected[rows]].mean(), selected[rows][clean[rows]].mean())
            for rows in handed.clients.values()
        ]
        precision, recall = np.nanmean(both, axis=0)
        return {"label_precision": float(precision), "label_recall": float(recall)}
    if name == "selfie":
        shares, rights = [], []
        for part, rows in zip(objects, handed.clients.values(), strict=True):
            new = {r: v for r, v in part.corrector.corrected_labels.items() if v != -1}
            shares.append(len(new) / len(rows))
            if new:
                rights.append(np.mean([handed.true[row] == label for row, label in new.items()]))
        return {
            "refurbished": float(np.mean(shares)),
            "refurbished_accuracy": float(np.mean(rights)),
        }
    if name == "jointopt":
        rights = []
        for part in objects:
            places = part.corrector.id_2_data_index
            labels = part.corrector.soft_labels.argmax(1)
            rights.append(np.mean([labels[p] == handed.true[r] for r, p in places.items()]))
        return {"label_accuracy": float(np.mean(rights))}
    return {}
