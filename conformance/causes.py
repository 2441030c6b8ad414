"""The sections of docs/conformance.md that say what a difference comes from."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from conformance.markdown import NAMES, percent, run_record, signed, table_row, text
from conformance.runs import CAUSES, CIFAR10, FEWER, Pair
from conformance.runs.statistics import Comparison, decided

TRIALS = {
    "fedrn_cifar10": (
        "FedRN's neighbours",
        "FedRN's code differs from ours in two points, which matter where some clients have not "
        "taken part when the warm-up ends. Each was changed from outside, to do as ours does. "
        "First, such an *unvisited* client has an expertise of 0.5, a random answer and a network "
        "with initial weights. It can be a neighbour, and on its first visit it judges its samples "
        "with that network. Changed, it is nobody's neighbour, and on its first visit it has none "
        "and uses the global model. Second, a participant uses the models that earlier "
        "participants have stored in the same round. Changed, it uses those from before the round. "
        "The runs use real CIFAR-10, reduced for time's sake: "
        f"`{CIFAR10['partition']}`, `{CIFAR10['label_noise']}` noise, "
        f"`{CIFAR10['noise_level']}`, `{CIFAR10['model']}`; {CIFAR10['schedule']['rounds']} rounds "
        f"with a participation of {CIFAR10['schedule']['participation']}, of which 6 are warm-up, "
        "after which 5, 4, 7, 6 and 7 of 20 clients are unvisited in seeds 1 to 5. Accuracy is "
        f"the mean over the last {FEWER} rounds; the rest is as in the whole runs above.",
        "Tested: the difference lies beyond its interval, and within it once both points are "
        "changed. Most of what the changes gain comes from the unvisited clients, 2.6 points of "
        "4.5; the order within a round moves the accuracy by -0.6 and +0.4. Five seeds do not tell "
        "any single change from chance, nor the 1.5 points that remain. No client that had taken "
        "part chose an unvisited one as a neighbour, since clients with few wrong labels have more "
        "expertise than 0.5; so that what the change saves are first visits, and the scale of the "
        "scores. On its first visit, a client learns from what an untrained network selects, often "
        "with an unvisited neighbour: random answers, between 0 and 1 for every class, resemble "
        "each other. The paper's schedule has "
        "[no unvisited clients](../workflow/reasons/methods/fedrn.yaml) when its warm-up ends.",
    ),
}
"""For each pair whose official code was changed from outside: title, what was run, the answer."""

SIDES = {
    "official": "official code",
    "unvisited": "official code, unvisited clients left out",
    "sequential": "official code, models from before the round",
    "both": "official code, both changes",
    "ours": "ours",
}
"""How the page names the runs that say what a difference comes from."""


def causes() -> Iterator[str]:
    """What other runs of the official code, changed in a point or two, say of a difference."""
    for name, pair in CAUSES.items():
        title, before, after = TRIALS[name]
        yield f"\n## {title}\n"
        yield text(before)
        record = run_record(name)
        if record:
            yield from _changed(pair, record)
            yield ""
            yield text(after)


def _changed(pair: Pair, record: dict[str, Any]) -> Iterator[str]:
    """The table of a pair's runs: accuracy, differences, and what was decided."""
    keys = list(decided(record, "official"))
    yield table_row(
        "run", "seeds", "accuracy", "less official", "ours less it", *(NAMES[key] for key in keys)
    )
    yield "|---" * (5 + len(keys)) + "|"
    sides = ("official", *pair.changes, "ours")
    for side in sides:
        moved, left = Comparison.of(record, ours=side), Comparison.of(record, official=side)
        found = decided(record, side)
        yield table_row(
            SIDES[side],
            str(left.seeds),
            percent(*moved.ours),
            "" if side == "official" else signed(moved),
            "" if side == "ours" else signed(left),
            *(f"{found[key]:.3f}" if key in found else "" for key in keys),
        )
