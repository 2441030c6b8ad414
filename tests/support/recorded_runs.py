"""What a small run of every method came to; as a script it records that.

That the methods do what their papers say, other tests hold against equations and official codes.
This tells a change of their arithmetic, meant or not, by the numbers of whole runs.
"""

import json
import math
import tempfile
from pathlib import Path

import numpy as np
import torch

from noisyfl.checks.fast import PARTITION, SCHEDULE, rounds_of
from noisyfl.checks.small_run import prepare_digits, spec_of
from small_runs import METHODS, name_of

FILE = Path(__file__).with_suffix(".json")
LEFT_OUT = {"round", "client", "ordinary_rounds", "seconds", "stage", "confusion"}


def figures_of(federation):
    """The means of all columns of the rounds and of the clients that have a number, and what is
    left in the end: the norm of the weights, and how many labels are not the given ones.
    """
    records, found = federation.records, {}
    for table in ("rounds", "clients"):
        rows = getattr(records, table)
        for name in sorted({name for row in rows for name in row} - LEFT_OUT):
            values = [row[name] for row in rows if row.get(name) is not None]
            known = [value for value in map(float, values) if not math.isnan(value)]
            if known:
                found[f"{table}.{name}"] = float(np.mean(known))
    squares = sum(float(value.double().square().sum()) for value in federation.weights.values())
    changed = sum(int((each.labels != each.given).sum()) for each in federation.clients)
    return {**found, "weights": math.sqrt(squares), "labels": changed}


def main():
    """Train them all, and write down their figures."""
    torch.set_default_dtype(torch.float64)
    lines = []
    with tempfile.TemporaryDirectory() as folder:
        data = prepare_digits(Path(folder) / "digits")
        for method in METHODS:
            spec = spec_of(method, partition=PARTITION, schedule=SCHEDULE)
            figures = figures_of(rounds_of(spec, data, Path(folder), "loop"))
            rounded = {name: float(f"{value:.9g}") for name, value in figures.items()}
            lines.append(f"{json.dumps(name_of(method))}: {json.dumps(rounded)}")
    FILE.write_text("{\n" + ",\n".join(lines) + "\n}\n", encoding="utf-8")


if __name__ == "__main__":
    main()
