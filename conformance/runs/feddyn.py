"""Runs of FedDyn's official code, which has SCAFFOLD and FedProx too."""

from __future__ import annotations

import itertools
import sys
from contextlib import redirect_stdout
from io import StringIO
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any
from unittest.mock import patch

import numpy as np
import torch

from conformance import patches
from conformance.runs import LAST
from conformance.runs.official import Handed, in_new_folder


class Pairs(torch.utils.data.Dataset):
    """Images and labels, as the script's loaders want them."""

    def __init__(self, images: Any, labels: Any, **rest: Any) -> None:
        self.images, self.labels = images, labels

    def __len__(self) -> int:
        return len(self.labels)

    def __getitem__(self, item: int) -> tuple[Any, Any]:
        return self.images[item], self.labels[item]


def run(name: str, arguments: str, handed: Handed, code: Path) -> dict[str, Any]:
    """What :func:`conformance.runs.ours.run` says, of the official code.

    Args:
        name: of the pair.
        arguments: the function, and of its own options ``name=number``.
        handed: what both sides have.
        code: the checkout.
    """
    patches.apply()
    sys.path.insert(0, str(code))
    for part in ("language_utils", "model_utils"):  # of text, and in need of TensorFlow
        sys.modules[f"LEAF.utils_eval.{part}"] = ModuleType(part)
    import utils_general
    import utils_methods

    utils_general.Dataset = Pairs
    function, *options = arguments.split()
    schedule, clients = handed.spec["schedule"], len(handed.clients)
    rounds, everyone = schedule["rounds"], np.arange(clients)
    asked: dict[str, Any] = {
        "learning_rate": schedule["learning_rate"],
        "batch_size": schedule["batch_size"],
        "epoch": schedule["local_epochs"],
        **{key: float(value) for key, value in (option.split("=") for option in options)},
    }
    if function == "train_SCAFFOLD":
        steps = -(-len(handed.clients[0]) // schedule["batch_size"])
        asked["n_minibatch"] = asked.pop("epoch") * steps
    images, labels = handed.train.images.numpy(), np.asarray(handed.train.targets)[:, None]
    shared = SimpleNamespace(
        n_client=clients,
        clnt_x=[images[rows] for rows in handed.clients.values()],
        clnt_y=[labels[rows] for rows in handed.clients.values()],
        tst_x=handed.test.images.numpy(),
        tst_y=np.asarray(handed.test.targets)[:, None],
        name="x",
        dataset="x",
    )
    _test_at_the_end(utils_methods, shared.tst_x, rounds)
    chosen = (handed.participants(number, everyone) for number in range(rounds))
    torch.manual_seed(handed.spec["seed"])
    with (
        in_new_folder() as folder,
        redirect_stdout(StringIO()),
        # A client takes part if its number is small enough.
        patch.object(
            np.random, "uniform", lambda size: np.where(np.isin(everyone, next(chosen)), 0.0, 2.0)
        ),
    ):
        (folder / "Output" / "x").mkdir(parents=True)
        answer = getattr(utils_methods, function)(
            data_obj=shared,
            act_prob=1.0,
            com_amount=rounds,
            print_per=10**6,
            weight_decay=0.0,
            model_func=handed.network,
            init_model=handed.network(),
            save_period=rounds,
            lr_decay_per_round=1.0,
            **asked,
        )
    # Losses and accuracies of the mean of the participants' models come third.
    return {"accuracy": answer[2][-LAST:, 1].tolist(), "decided": {}}


def _test_at_the_end(script: Any, images: Any, rounds: int) -> None:
    """Test the participants' mean after the last rounds alone, for time's sake.

    Args:
        script: that tests two models a round, each on both parts.
        images: of the test part.
        rounds: of the run.
    """
    test, asked = script.get_acc_loss, itertools.count()

    def rarely(tested: Any, *rest: Any) -> tuple[float, float]:
        if tested is images:
            round, model = divmod(next(asked), 2)
            if model == 0 and round >= rounds - LAST:
                return test(tested, *rest)
        return np.nan, np.nan

    script.get_acc_loss = rarely
