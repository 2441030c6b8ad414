"""A process that trains one run after another, for :mod:`noisyfl.runs.pool`.

It reads a training job from each line of its standard input, as JSON, and answers each with its
outcome on standard output. It ends with its input. SIGTERM, which also the end of the process that
has started it sends, lets the run under way save its checkpoint.
"""

from __future__ import annotations

import ctypes
import json
import os
import signal
import sys
from collections.abc import Sequence
from dataclasses import asdict

from noisyfl.core.plugins import load
from noisyfl.runs.job import TrainingJob

PR_SET_PDEATHSIG = 1
"""Linux's number for: send this process a signal when the one that started it has ended."""


def train_named(plugins: Sequence[str]) -> None:
    """Train the runs that standard input names, with files of plugins."""
    # Not left to the process that started this one: a kill or a closed terminal may end that.
    ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGTERM)
    answers = os.fdopen(os.dup(sys.stdout.fileno()), "w")
    os.dup2(sys.stderr.fileno(), sys.stdout.fileno())  # what a library prints is no answer
    load(plugins)
    for line in sys.stdin:
        outcome = TrainingJob(**json.loads(line)).run()
        print(json.dumps(asdict(outcome)), file=answers, flush=True)


if __name__ == "__main__":
    train_named(sys.argv[1:])
