"""What a run does, according to its method and model: rounds, local updates, epochs, layers."""

from __future__ import annotations

import functools
import inspect
import json
import math
from collections.abc import Mapping
from dataclasses import dataclass
from types import SimpleNamespace
from typing import Any, cast

import torch
from torch import Tensor, nn

from noisyfl.core.plugins import naming_the_line
from noisyfl.core.registry import parts_of
from noisyfl.data.datasets.dataset import dataset
from noisyfl.models import MODELS, check_module
from noisyfl.simulation.returned import whole_number
from noisyfl.simulation.schedule import Schedule
from noisyfl.specs.build import build_method
from noisyfl.specs.catalogue import methods
from noisyfl.specs.cost import Work
from noisyfl.specs.identity import canonical_json, with_seed
from noisyfl.specs.speeds import Layer

SAMPLED_ROUNDS = 2000
"""Rounds, at most, for which a method is asked what it does; they stand for all the others."""

LONG_RUN = 100_000
"""In runs of more rounds than this, local epochs are the schedule's and not asked for by round."""

SMALL_IMAGE = 64 * 64
"""Pixels of an image, at most, that a model is run on to find its layers."""


@dataclass(frozen=True)
class Extent:
    """How much a method does in a schedule.

    Attributes:
        rounds: rounds that the method runs.
        ordinary_rounds: rounds of the schedule that its local updates amount to.
        epochs: epochs of all local updates together.
        passes_of_test: passes over the test part that each network makes in an evaluation.
        stage_starts: for each part of the method that does not begin in the first round, by what it
            is called, the round in which it begins, counted from 0.
    """

    rounds: int
    ordinary_rounds: float
    epochs: float
    passes_of_test: float
    stage_starts: Mapping[str, int]


def work_of(spec: Mapping[str, Any]) -> Work:
    """What the run of a canonical spec does and holds."""
    # Runs that differ only in the seed do the same work.
    return _work(canonical_json(with_seed(spec, 0)))


@functools.cache
def _work(text: str) -> Work:
    spec = json.loads(text)
    partition = spec["noisy_partition"]
    facts = dataset(partition["dataset"])
    declared = [methods()[part["name"]] for part in parts_of(spec["method"])]
    clients = partition["partition"]["clients"]
    extent = extent_of(spec)
    return Work(
        dataset=partition["dataset"],
        settings=spec["schedule"],
        epochs=extent.epochs,
        rounds=extent.rounds,
        ordinary_rounds=extent.ordinary_rounds,
        passes_of_test=extent.passes_of_test,
        layers=layers_of(spec["model"], facts.shape, len(facts.classes)),
        networks=math.prod(method.networks for method in declared),
        effort=math.prod(method.cost.effort for method in declared),
        models_kept=sum(method.cost.models_kept for method in declared),
        keeps_features=any(method.predicts_by_features for method in declared),
        clients=clients,
        samples=partition["partition"].get("per_client")
        or (partition["partition"].get("samples") or facts.task_size) / clients,
    )


def remarks_of(spec: Mapping[str, Any]) -> list[str]:
    """Remarks on the run of a canonical spec, in words: which parts of its method do not happen in
    so few rounds, and whether it trains longer than the schedule.
    """
    extent, rounds = extent_of(spec), spec["schedule"]["rounds"]
    name = "+".join(part["name"] for part in parts_of(spec["method"]))
    found = [
        f"{name}: {what} would begin in round {begin + 1:,}, but there are {extent.rounds:,} rounds"
        for what, begin in extent.stage_starts.items()
        if begin >= extent.rounds
    ]
    if extent.ordinary_rounds > 1.1 * rounds + 1:
        found.append(
            f"{name}: its local updates amount to {extent.ordinary_rounds:,.0f} rounds, and the "
            f"schedule has {rounds:,}"
        )
    return found


def layers_of(
    model: Mapping[str, Any], shape: tuple[int, int, int], classes: int
) -> tuple[Layer, ...]:
    """The layers with weights of a model, for images of a shape (height, width, channels), found by
    running it once.
    """
    return _layers(canonical_json(model), tuple(shape), classes)


@functools.cache
def _layers(model: str, shape: tuple[int, int, int], classes: int) -> tuple[Layer, ...]:
    height, width, channels = shape
    found: list[Layer] = []

    def note(layer: nn.Module, images: Any, answer: Tensor) -> None:
        outputs = len(cast(Tensor, layer.weight))
        inputs = cast(Tensor, layer.weight).numel() // outputs
        found.append((answer.numel() // outputs, inputs, outputs))

    declared = MODELS.build(json.loads(model), "model")
    file = inspect.getfile(type(declared))
    own = naming_the_line(lambda other: other == file, f"model {declared.name}: ")
    # The meta device computes nothing, but its linear layers import torch's compiler, which takes
    # longer than small images do.
    device = "meta" if height * width > SMALL_IMAGE else "cpu"
    with own, torch.device(device), torch.random.fork_rng(devices=[]):
        module = declared.build(shape, classes).eval()
        check_module(module, shape, classes)
        for layer in module.modules():
            if isinstance(layer, nn.Conv2d | nn.Linear):
                layer.register_forward_hook(note)
        module(torch.zeros(1, channels, height, width))
    return tuple(found)


def extent_of(spec: Mapping[str, Any]) -> Extent:
    """How much the run of a canonical spec does, found by asking the method's two sides."""
    clients = spec["noisy_partition"]["partition"]["clients"]
    return _extent(canonical_json({k: spec[k] for k in ("method", "schedule")}), clients)


@functools.cache
def _extent(text: str, clients: int) -> Extent:
    spec = json.loads(text)
    server, client = build_method(spec["method"], "method")
    schedule = Schedule(**spec["schedule"])
    names = [part["name"] for part in parts_of(spec["method"])]
    files = [inspect.getfile(methods()[name]) for name in names]
    with naming_the_line(files.__contains__, f"method {'+'.join(names)}, before it has data: "):
        own = server.own_schedule(schedule, clients)
        # All of a federation that methods may ask for before it has data.
        outline: Any = SimpleNamespace(
            schedule=own,
            participants=schedule.participants(clients),
            clients=range(clients),
            state={"pooled_clients": clients},
        )
        rounds = whole_number(server.rounds(outline), "rounds")
        asked = [
            n * rounds // min(rounds, SAMPLED_ROUNDS) for n in range(min(rounds, SAMPLED_ROUNDS))
        ]
        updates = epochs = 0.0
        for round in asked:
            counted = server.counted_updates(round, outline)
            _, side = server.sides(round, client, outline)
            local = side.epochs_of_round(round, own) if rounds <= LONG_RUN else own.local_epochs
            updates += counted * rounds / len(asked)
            epochs += counted * local * rounds / len(asked)
        ordinary = updates / outline.participants
        between = ordinary / max(1, own.evaluations(ordinary))
        absent = 1 - own.participants(clients) / clients
        return Extent(
            rounds=rounds,
            ordinary_rounds=ordinary,
            epochs=epochs,
            passes_of_test=server.passes_of_test(clients * (1 - absent**between)),
            stage_starts={**client.stage_starts(outline), **server.stage_starts(outline)},
        )
