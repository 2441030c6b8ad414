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
from noisyfl.core.typed import choices_of, type_of
from noisyfl.specs.catalogue import methods
from small_runs import METHODS, SMALL, name_of

FILE = Path(__file__).with_suffix(".json")
LEFT_OUT = {"round", "client", "ordinary_rounds", "seconds", "stage", "confusion"}
IN_SHORT = ("weights", "labels", "rounds.train_loss", "rounds.bytes_down", "rounds.label_precision")
"""What is recorded of a run with another option."""


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


def in_short(figures):
    """Some of a run's figures."""
    return {name: figures[name] for name in IN_SHORT if name in figures}


def with_another_choice():
    """By a name, every method with each other value of an option that has few."""
    found = {}
    for name, method in methods().items():
        usual = {**method.defaults(), **SMALL[name]}
        for option, field in method.model_fields.items():
            values = (True, False) if type_of(field) is bool else choices_of(field) or ()
            for value in values:
                if value != usual.get(option):
                    chosen = {"name": name, **SMALL[name], option: value}
                    found[f"{name}({option}={value!r})"] = chosen
    return found


def small_run(method, data, folder):
    """The federation after a method's small run."""
    spec = spec_of(method, partition=PARTITION, schedule=SCHEDULE)
    return rounds_of(spec, data, folder, "loop")


def main():
    """Train them all, and write down their figures, a line for each."""
    torch.set_default_dtype(torch.float64)
    found = {}
    with tempfile.TemporaryDirectory() as folder:
        data = prepare_digits(Path(folder) / "digits")
        for method in METHODS:
            found[name_of(method)] = figures_of(small_run(method, data, Path(folder)))
        for name, method in with_another_choice().items():
            found[name] = in_short(figures_of(small_run(method, data, Path(folder))))
    lines = []
    for name, figures in found.items():
        rounded = {key: float(f"{value:.9g}") for key, value in figures.items()}
        lines.append(f"{json.dumps(name)}: {json.dumps(rounded)}")
    FILE.write_text("{\n" + ",\n".join(lines) + "\n}\n", encoding="utf-8")


if __name__ == "__main__":
    main()
