"""What has to hold for a method: ``noisyfl check-method``.

Each check takes a method, results that hold the digits, and an empty folder; it returns a line on
what it has found, or raises: :class:`noisyfl.checks.small_run.Failed` with a line, or any other
error.
"""

from __future__ import annotations

import inspect
import math
from collections.abc import Callable
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
import torch

from noisyfl.checks.fast import PARTITION, compare_with_loop
from noisyfl.checks.small_run import (
    SETTING,
    Failed,
    Method,
    content,
    federation_of,
    prepare_digits,
    spec_of,
    torch_as_it_was,
    train_in_pieces,
    train_small,
)
from noisyfl.core.artifacts import Results, RunFiles, read_json, read_table
from noisyfl.core.hooks import check_hooks, hooks_of
from noisyfl.core.options import check_keys
from noisyfl.core.plugins import with_line
from noisyfl.core.registry import parts_of, split_method
from noisyfl.simulation.checkpoint import Checkpoint, Interrupted
from noisyfl.simulation.client_side import ClientSide
from noisyfl.simulation.rounds import simulate
from noisyfl.simulation.schedule import Schedule
from noisyfl.simulation.server_side import ServerSide
from noisyfl.specs.catalogue import methods
from noisyfl.specs.identity import identity

PIECES = 60
"""In more pieces than this a run of eight rounds is not interrupted."""

MEASURES = ("rounds", "visits", "local_epochs", "clients")
"""What options scale with and are bounded by (:func:`noisyfl.specs.spec.measures_of`)."""

CHANCE = 0.1
"""The accuracy on digits of a model that has learned nothing."""

CLIENTS = 6
"""Of the run that learns."""

LEARNED: dict[str, Any] = {
    "partition": f"iid(clients={CLIENTS})",
    "noise_level": "constant(level=0.2)",
    "augmentation": "none",
    "schedule": {**SETTING["schedule"], "local_epochs": 2, "batch_size": 10, "evaluate_every": 2},
}
"""What is otherwise than in :data:`SETTING` so that FedAvg learns the digits in a few rounds."""

Check = Callable[[Method, Results, Path], str]


def check_all(method: str, say: Callable[[str], None] = print) -> bool:
    """Make all checks of a method, and return whether they hold.

    Args:
        say: takes one line at a time.
    """
    spec_of(method)  # what is wrong with the name or the options is said without a traceback
    failed: list[str] = []
    files = [inspect.getfile(methods()[part["name"]]) for part in split_method(method)]
    with TemporaryDirectory() as folder:
        data = prepare_digits(Path(folder) / "data")
        for number, (title, one) in enumerate(CHECKS.items()):
            own = Path(folder) / str(number)
            own.mkdir()
            try:
                say(f"ok      {title}: {one(method, data, own)}")
            except Exception as error:
                # Any error is a finding, and the other checks go on.
                is_told = isinstance(error, Failed)
                words = str(error) if is_told else with_line(error, files.__contains__)
                if words in failed:
                    say(f"skipped {title}: it ends with the same error")
                    continue
                say(f"FAILED  {title}: {words}")
                failed.append(words)
    return not failed


def declares(method: Method, data: Results, folder: Path) -> str:
    """It says where it comes from and what its options mean; its hooks are called as they will be.

    Args:
        data: is not needed.
        folder: the second folder.
    """
    options, hooks = 0, list[str]()
    for part in split_method(method):
        declared = methods()[part["name"]]
        of = f"{part['name']}: "
        check_hooks(declared, (ServerSide, ClientSide), of)
        if not declared.__doc__:
            raise Failed(f"{of}its class has no docstring")
        if not getattr(declared, "reference", ""):
            raise Failed(f"{of}it has no reference")
        for extra, known in (("share_of", MEASURES), ("at_most_of", (*MEASURES, *declared.keys()))):
            for name, given in declared.extras(extra).items():
                measure = given if isinstance(given, str) else given[0]
                check_keys([measure], known, f"{of}{name}: {extra}: ", "measure")
        undescribed = [name for name, f in declared.model_fields.items() if not f.description]
        if undescribed:
            raise Failed(f"{of}{undescribed[0]} is not declared by `option(..., doc=...)`")
        for variant in declared.variants:
            spec_of({**part, "variant": variant})
        options += len(declared.model_fields)
        hooks += hooks_of(declared, (ServerSide, ClientSide))
    what = "1 option" if options == 1 else f"{options} options"
    named = f"hooks: {', '.join(hooks)}" if hooks else "no hook: it trains as FedAvg"
    return f"{what}; {named}"


def trains(method: Method, data: Results, folder: Path) -> str:
    """A run of a few rounds is finished, with numbers in every row, and has learned something.

    Its loss may rise in a sound method, and falls in a method that climbs it; so accuracy counts.
    """
    spec = spec_of(method, **LEARNED)
    files = train_small(spec, data, folder)
    if (status := read_json(files.provenance)["status"]) != "finished":
        raise Failed(f"the run is {status}")
    rounds = read_table(files.rounds)[0].to_pylist()
    last = rounds[-1]
    done, expected = last["ordinary_rounds"], spec["schedule"]["rounds"]
    if done < expected:
        raise Failed(f"it trained for {done} rounds of the schedule's {expected}")
    participants = sum(row["participants"] for row in rounds)
    counted = round(done * Schedule(**spec["schedule"]).participants(CLIENTS))
    if participants > counted:
        raise Failed(
            f"its rounds have {participants} local updates, and its counted_updates says {counted}"
        )
    if not (0 <= last["test_accuracy"] <= 1 and math.isfinite(last["test_loss"])):
        raise Failed(f"accuracy {last['test_accuracy']}, loss {last['test_loss']}")
    if any(row["samples_backward"] <= 0 for row in rounds):
        raise Failed("nothing was trained on in a round")
    fedavg = read_table(train_small(spec_of("fedavg", **LEARNED), data, folder).rounds)[0]
    found = (
        f"accuracy {last['test_accuracy']:.3f} after {len(rounds)} rounds (FedAvg: "
        f"{fedavg['test_accuracy'][-1].as_py():.3f})"
    )
    if last["test_accuracy"] < 2 * CHANCE:
        stages = [
            f"{option} {part[option]}"
            for part in parts_of(spec["method"])
            for option, (measure, _) in methods()[part["name"]].extras("share_of").items()
            if measure == "rounds"
        ]
        short = f" Or is a stage too short: {', '.join(stages)}?" if stages else ""
        raise Failed(f"{found}: it has learned nothing; is its loss one to minimise?{short}")
    return found


def resumes(method: Method, data: Results, folder: Path, whole: RunFiles | None = None) -> str:
    """A run that is interrupted after every round ends the same, bit for bit.

    Args:
        folder: where runs go.
        whole: the same run, if it has been trained without interruption.
    """
    spec = spec_of(method, partition=PARTITION)
    expected = content(whole or train_small(spec, data, folder / "whole"))
    # Torch's and numpy's own generators may stand anywhere when a run goes on.
    torch.manual_seed(99)
    np.random.seed(99)
    lines: list[str] = []
    try:
        files, interruptions = train_in_pieces(
            spec, data, folder / "pieces", PIECES, log=lines.append
        )
    except Interrupted:
        damaged = [line for line in lines if line.startswith("checkpoint damaged")]
        why = f": {damaged[-1]}" if damaged else ""
        raise Failed(f"it is not complete after {PIECES} pieces{why}") from None
    if interruptions < len(expected["rounds"]) - 1:
        raise Failed(f"it was interrupted only {interruptions} times")
    found = content(files)
    for name, one in expected.items():
        same = one == found[name] if isinstance(one, bytes) else one.equals(found[name])
        if not same:
            columns = [] if isinstance(one, bytes) else one.column_names
            others = [c for c in columns if not one[c].equals(found[name][c])]
            raise Failed(
                f"{name} differs in {', '.join(others)}: keep in `client.state` or "
                "`federation.state` what outlives a round, and draw random numbers from "
                "`fl.stream` or `turn.random_stream`"
            )
    return f"the same, in {interruptions + 1} pieces of run {identity(spec)}"


def hides_the_truth(method: Method, data: Results, folder: Path) -> str:
    """A run does not depend on the true labels, unless the method says that it needs them."""
    spec = spec_of(method)
    for part in parts_of(spec["method"]):
        declared = methods()[part["name"]]
        needs = [name for name, value in declared.needs_level.items() if part[name] == value]
        if declared.needs_truth or needs:
            return f"it needs the true {'labels' if declared.needs_truth else 'noise level'}"
    ends = []
    for shift in (0, 0, 1):
        federation, server, client = federation_of(spec, data, folder)
        for one in federation.clients:
            one.true = (one.true + shift) % federation.classes
            one.noise_level = one.noise_level if shift == 0 else 0.0
        checkpoint = Checkpoint(folder / "run.pt", {}, math.inf)
        simulate(federation, server, client, checkpoint, lambda line: None)
        ends.append(federation.weights)
    again, changed = (
        any(not value.equal(end[name]) for name, value in ends[0].items()) for end in ends[1:]
    )
    if again:
        raise Failed(
            "two runs that begin alike end with other models, or with one that is not finite: draw "
            "random numbers from `fl.stream` or `turn.random_stream`, and keep nothing in the class"
        )
    if changed:
        raise Failed(
            "its model differs if the true labels do: read `client.labels` or "
            "`client.given`, or declare `needs_truth` (or `needs_level`)"
        )
    return "the same model with other true labels"


def agrees(method: Method, data: Results, folder: Path) -> str:
    """The fast executor on a GPU that is not there computes what the loop on a CPU does."""
    with torch_as_it_was():
        _, usage = compare_with_loop(method, data, folder)
    return f"the same; {usage.captured} steps captured"


CHECKS: dict[str, Check] = {
    "what it declares": declares,
    "a run of a few rounds": trains,
    "a run with wrong true labels, which it should not see": hides_the_truth,
    "a run interrupted after every round, compared with one that is not": resumes,
    "the loop on a CPU, compared with captured steps on a simulated GPU": agrees,
}
