"""pfl-research's federated averaging (Granqvist et al., 2024; the package ``pfl``), timed.

pfl lives in an environment of its own, whose Python runs :mod:`benchmarks.pfl_worker`. It is
measured in its best case within one process: a client's images are on the device as normalised
floats before the clock starts, they are cut into batches once and are never reordered, and there is
no augmentation. The statistics of batch normalisation are no part of pfl's model updates; they
drift from client to client.
"""

from __future__ import annotations

import json
import os
import subprocess
import tempfile
from dataclasses import replace
from pathlib import Path

import numpy as np
import torch

from benchmarks import Speed, Timing, Work, speed

ROOT = Path(__file__).parents[1]
ARRAYS = ("train_images", "train_labels", "test_images", "test_labels")


def missing(python: str) -> str | None:
    """Why pfl cannot be run by this Python; None if it can."""
    try:
        subprocess.run([python, "-c", "import pfl"], check=True, capture_output=True)
    except OSError as error:
        return f"{python} cannot be run: {error.strerror}"
    except subprocess.CalledProcessError as error:
        return f"{python} cannot import pfl: {_last_line(error.stderr.decode())}"
    return None


def rounds(
    python: str, model: str, classes: int, work: Work, *, evaluate_every: int = 1
) -> list[Timing]:
    """Train with pfl, on as many threads as this process has.

    Args:
        python: of the environment that has pfl and torch.
        model: a name of :data:`noisyfl.models.MODELS`, with options.
        classes: how many.
        work: what to do; its seed also initialises the model.
        evaluate_every: rounds from one evaluation to the next. As pfl has it, the first round is
            not evaluated, and the first one that is comes ``evaluate_every`` rounds later.

    Raises:
        RuntimeError: pfl could not be run, with the last line it said.
    """
    options = {name: value for name, value in vars(work).items() if name not in ARRAYS}
    clients = options.pop("clients")
    options |= {
        "model": model,
        "classes": classes,
        "evaluate_every": evaluate_every,
        "threads": torch.get_num_threads(),
    }
    environment = os.environ | {
        "PYTHONPATH": os.pathsep.join([str(ROOT), str(ROOT / "workflow")]),
        "PFL_PYTORCH_DEVICE": work.device,
    }
    with tempfile.TemporaryDirectory() as folder:
        path = str(Path(folder) / "work.npz")
        np.savez(
            path,
            rows=np.concatenate(clients),
            sizes=np.array([len(rows) for rows in clients]),
            **{name: getattr(work, name) for name in ARRAYS},
        )
        done = subprocess.run(
            [python, "-m", "benchmarks.pfl_worker", path, json.dumps(options)],
            env=environment,
            capture_output=True,
            text=True,
            check=False,
        )
    if done.returncode:
        raise RuntimeError(f"pfl failed: {_last_line(done.stderr)}")
    return [Timing(**timing) for timing in json.loads(_last_line(done.stdout))]


def measure(python: str, model: str, classes: int, work: Work) -> Speed:
    """The speed of ``work.rounds`` rounds after a warm-up round; arguments as of :func:`rounds`."""
    return speed(rounds(python, model, classes, replace(work, rounds=work.rounds + 1)))


def _last_line(text: str) -> str:
    return (text.strip().splitlines() or ["no output"])[-1]
