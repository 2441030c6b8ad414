"""What a run does, according to its method and model: rounds, local updates, epochs, layers."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from types import SimpleNamespace
from typing import Any, cast

from noisyfl.simulation.schedule import Schedule
from noisyfl.specs.catalogue import parts_of
from noisyfl.specs.kept import kept

Layer = tuple[int, int, int]
"""Positions at which a layer is applied, its inputs at each position, and its outputs at each."""

SAMPLED = 2000
"""Rounds, at most, for which a method is asked what it does; they stand for all the others."""

COUNTED = 100_000
"""In runs of more rounds than this, local epochs are the schedule's and not asked for by round."""


@dataclass(frozen=True)
class Extent:
    """How much a run does.

    Attributes:
        rounds: rounds that the method runs.
        ordinary_rounds: rounds of the schedule that its local updates amount to.
        epochs: epochs of all local updates together.
        passes_of_test: passes over the test part that each network makes in an evaluation.
        later: for each part of the method that does not begin in the first round, by what it is
            called, the round in which it begins, counted from 0.
    """

    rounds: int
    ordinary_rounds: float
    epochs: float
    passes_of_test: float
    later: Mapping[str, int]


def extent_of(spec: Mapping[str, Any]) -> Extent:
    """How much the run of a canonical spec does."""
    given = {
        "method": spec["method"],
        "schedule": spec["schedule"],
        "clients": spec["noisy_partition"]["partition"]["clients"],
    }
    return Extent(**_extent(json.dumps(given, sort_keys=True)))


def remarks_of(spec: Mapping[str, Any]) -> list[str]:
    """Remarks on the run of a canonical spec, in words: which parts of its method do not happen in
    so few rounds, and whether it trains longer than the schedule.
    """
    extent, rounds = extent_of(spec), spec["schedule"]["rounds"]
    name = "+".join(part["name"] for part in parts_of(spec["method"]))
    found = [
        f"{name}: {what} would begin in round {begin + 1:,}, and there are {extent.rounds:,} rounds"
        for what, begin in extent.later.items()
        if begin >= extent.rounds
    ]
    if extent.ordinary_rounds > 1.1 * rounds + 1:
        found.append(
            f"{name}: trains as much as {extent.ordinary_rounds:,.0f} rounds of the schedule, "
            f"which has {rounds:,}"
        )
    return found


def layers_of(model: Mapping[str, Any], shape: tuple[int, int, int], classes: int) -> list[Layer]:
    """The layers with a weight matrix of a canonical model, for images of a shape.

    Args:
        model: canonical.
        shape: of an image: height, width, channels.
        classes: how many the dataset has.
    """
    given = {"model": {**model, "shape": shape, "classes": classes}}
    return [cast(Layer, tuple(layer)) for layer in _layers(json.dumps(given, sort_keys=True))]


@kept
def _extent(given: str) -> dict[str, Any]:
    """Compute :func:`extent_of` by asking the method's two sides."""
    from noisyfl.specs.build import build_method

    spec = json.loads(given)
    clients = spec["clients"]
    server, client = build_method(spec["method"], "method")
    schedule = Schedule(**spec["schedule"])
    own = server.own_schedule(schedule, clients)
    # All of a federation that methods may ask for before it has data.
    outline: Any = SimpleNamespace(
        schedule=own,
        participants=schedule.participants(clients),
        clients=range(clients),
        state={"pooled_clients": clients},
    )
    rounds = server.rounds(outline)
    asked = [n * rounds // min(rounds, SAMPLED) for n in range(min(rounds, SAMPLED))]
    updates = epochs = 0.0
    for round in asked:
        slots = server.slots(round, outline)
        _, side = server.sides(round, client, outline)
        local = side.epochs_of_round(round, own) if rounds <= COUNTED else own.local_epochs
        updates += slots * rounds / len(asked)
        epochs += slots * local * rounds / len(asked)
    ordinary = updates / outline.participants
    between = ordinary / max(1, own.evaluations(ordinary))
    absent = 1 - outline.participants / clients
    return {
        "rounds": rounds,
        "ordinary_rounds": ordinary,
        "epochs": epochs,
        "passes_of_test": server.passes_of_test(clients * (1 - absent**between)),
        "later": {**client.later(outline), **server.later(outline)},
    }


@kept
def _layers(given: str) -> list[Layer]:
    """Compute :func:`layers_of` by running the model once, without data."""
    import torch
    from torch import Tensor, nn

    from noisyfl.models import MODELS

    model = json.loads(given)["model"]
    (height, width, channels), classes = model.pop("shape"), model.pop("classes")
    found: list[Layer] = []

    def note(layer: nn.Module, images: Any, answer: Tensor) -> None:
        outputs = len(cast(Tensor, layer.weight))
        inputs = cast(Tensor, layer.weight).numel() // outputs
        found.append((answer.numel() // outputs, inputs, outputs))

    with torch.device("meta"):
        module = MODELS.build(model, "model").build((height, width, channels), classes).eval()
        for layer in module.modules():
            if isinstance(layer, nn.Conv2d | nn.Linear):
                layer.register_forward_hook(note)
        module(torch.empty(1, channels, height, width))
    return found
