"""Runs of FedCorr's official code."""

from __future__ import annotations

import itertools
import math
import os
import re
import runpy
import sys
from pathlib import Path
from typing import Any
from unittest.mock import patch

import numpy as np

from conformance import patches
from conformance.runs import LAST
from conformance.runs.official import Handed, in_new_folder, stand_in
from noisyfl.core.randomness import stream

ROUND = re.compile(r"round \d+, test acc +([0-9.]+)")


def run(name: str, arguments: str, handed: Handed, code: Path) -> dict[str, Any]:
    """What :func:`conformance.runs.ours.run` says, of the official code."""
    patches.apply()
    sys.path.insert(0, str(code))
    # The real one imports what torchvision deleted.
    stand_in("model.build_model", build_model=lambda args: handed.network())
    import util.dataset
    import util.local_training
    import util.util

    clients = len(handed.clients)
    given = np.array(handed.train.targets)
    levels = np.array([1 - handed.right(rows, given) for rows in handed.clients.values()])

    def dataset(args: Any) -> Any:
        args.device = "cpu"
        return handed.train, handed.test, handed.clients

    util.dataset.get_dataset = dataset
    util.util.add_noise = lambda args, labels, users: (given.copy(), levels > 0, levels)
    schedule = handed.spec["schedule"]
    sys.argv = [
        "main.py",
        *f"{arguments} --iid --num_users {clients} --frac1 {1 / clients}".split(),
        *f"--frac2 {schedule['participation']} --local_ep {schedule['local_epochs']}".split(),
        *f"--local_bs {schedule['batch_size']} --lr {schedule['learning_rate']}".split(),
        *f"--momentum {schedule['momentum']} --seed {handed.spec['seed']}".split(),
    ]
    words = dict(itertools.pairwise(arguments.split()))
    tests = int(words["--iteration1"]) * clients
    tests += int(words["--rounds1"]) + int(words["--rounds2"])
    _test_at_the_end(util.local_training, tests)
    with in_new_folder(), patch.object(np.random, "choice", Choice(handed)):
        left = runpy.run_path(os.fspath(code / "main.py"), run_name="__main__")
        (record,) = Path("record/txtsave").glob("*_acc.txt")
        left["f_acc"].close()
        written = record.read_text()
    labels = np.asarray(handed.train.targets)
    return {
        "accuracy": [float(found) for found in ROUND.findall(written)],
        "decided": {
            "flagged": [int(number) for number in left["noisy_set"]],
            "estimated_noise_level": left["estimated_noisy_level"].tolist(),
            "label_accuracy": handed.right(range(len(labels)), labels),
        },
    }


def _test_at_the_end(module: Any, tests: int) -> None:
    """Test after the last rounds alone, for time's sake.

    Args:
        module: that has the test.
        tests: how many times the script asks for one.
    """
    test, left = module.globaltest, itertools.count(tests - 1, -1)
    module.globaltest = lambda *args: test(*args) if next(left) < LAST else math.nan


class Choice:
    """A stand-in for ``numpy.random.choice`` that draws who takes part as our side does."""

    def __init__(self, handed: Handed) -> None:
        self.handed = handed
        self.round = 0

    def __call__(self, pool: Any, size: int, replace: bool = True, p: Any = None) -> np.ndarray:
        """The next round's participants; with replacement is what pre-processing asks for."""
        round, clients = self.round, len(self.handed.clients)
        self.round += 1
        if replace:
            iteration, place = divmod(round, clients)
            order = stream(self.handed.spec["seed"], "preprocessing order", iteration)
            return order.permutation(clients)[place : place + 1]
        return self.handed.participants(round, np.flatnonzero(np.asarray(p)))
