"""What each target and each claim needs of a scale's runs and costs, and the cheapest cells."""

from __future__ import annotations

import math
import textwrap
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass

from noisyfl.core.text import aligned
from noisyfl.experiments.config import PUBLISHED
from noisyfl.experiments.plan import Plan
from noisyfl.experiments.targets import tables_and_figures
from noisyfl.specs.cost import Work, likely_seconds
from noisyfl.specs.published import read_published
from noisyfl.specs.speeds import CPU, DEVICES, LEAST, MOST, Speed

WIDTH = 88
"""Characters in a line of the plan's text."""

Done = Callable[[str], bool]
"""Whether the run of an id is done."""


@dataclass(frozen=True)
class Demand:
    """What a table or a figure needs.

    Attributes:
        target: what a person types to have it.
        runs: number of runs that it is made from.
        shared: how many of these another table or figure is made from too.
        done: how many of these are done.
        hours: likely hours of the runs left, on each device that was asked about.
        cluster_hours: hours that a cluster is asked for, for the runs left.
        megabytes: on disk, for the artifacts of the runs left.
    """

    target: str
    runs: int
    shared: int
    done: int
    hours: tuple[float, ...]
    cluster_hours: float
    megabytes: float

    @property
    def left(self) -> int:
        """How many runs are still to be trained."""
        return self.runs - self.done


def demands(
    plan: Plan,
    parts: Mapping[str, list[str]],
    done: Done,
    speeds: Mapping[str, Speed],
    device: str = "auto",
) -> list[Demand]:
    """What each table or figure needs, and under the name ``all`` what they need together.

    Args:
        parts: by name of a table, figure or claim, the ids of its runs.
        speeds: of the devices for which hours are given.
        device: of the configuration; decides the hours that a cluster is asked for.
    """
    users = Counter(run for runs in parts.values() for run in runs)
    seconds = {
        run: [likely_seconds(plan.facts[run].work, s) for s in speeds.values()] for run in users
    }
    there = {run for run in users if done(run)}

    def demand(target: str, runs: list[str]) -> Demand:
        left = [run for run in runs if run not in there]
        each = zip(*(seconds[run] for run in left), strict=True)
        return Demand(
            target,
            len(runs),
            sum(users[run] > 1 for run in runs),
            len(runs) - len(left),
            tuple(sum(some) / 3600 for some in each) or (0.0,) * len(speeds),
            sum(plan.estimate(run, device).asked_seconds for run in left) / 3600,
            sum(megabytes(plan.facts[run].work) for run in left),
        )

    return [*(demand(*item) for item in parts.items()), demand("all", list(users))]


def megabytes(work: Work) -> float:
    """Rough size of a run's artifact on disk: a row per round, and one per participant in each."""
    return (8_000 + work.schedule.rounds * (100 + 40 * work.participants)) / 1e6


def runs_by_claim(plan: Plan, target: str | None) -> tuple[dict[str, list[str]], list[str]]:
    """The ids of the runs that are needed to judge each claim by our numbers.

    Args:
        plan: of a scale.
        target: what the tables and figures with the numbers are part of, see
            :func:`tables_and_figures`.

    Returns:
        runs: by claim, the one that needs the fewest first.
        out_of_reach: other claims, on which the tables and figures could say nothing.
    """
    # Here alone, with pandas and scipy, which take longer to import than all else here.
    from noisyfl.claims.catalogue import CLAIMS
    from noisyfl.claims.needs import out_of_reach, runs_of_claim

    parts = tables_and_figures(plan, target)
    undecided = out_of_reach(read_published(PUBLISHED), parts)
    found = {name: runs_of_claim(CLAIMS[name], parts) for name in CLAIMS if name not in undecided}
    needed = sorted(filter(found.get, found), key=lambda name: len(found[name]))
    return {name: found[name] for name in needed}, [name for name in CLAIMS if name not in needed]


def speeds_for(device: str) -> dict[str, Speed]:
    """The devices that a configuration's device may turn out to be, by name."""
    gpus = {name: speed for name, speed in DEVICES.items() if name != CPU}
    core = {CPU: DEVICES[CPU]}
    return {"cpu": core, "auto": gpus | core}.get(device, gpus)


def plan_text(
    plan: Plan,
    parts: Mapping[str, list[str]],
    done: Done,
    device: str,
    out_of_reach: Sequence[str] = (),
    figures: Sequence[str] = (),
) -> str:
    """The demands as a text table, with remarks on the runs.

    Args:
        parts: see :func:`demands`.
        device: of the configuration.
        out_of_reach: claims to be named as undecidable, see :func:`runs_by_claim`.
        figures: figures to be named that need no other runs.
    """
    estimates = (
        f"Times are estimates. On a GPU, expect {LEAST:.1f} to {MOST:.0f} times as long. Of the "
        "stored runs that a CPU core trained, four of five took 0.6 to 2.7 times as long."
    )
    undecided = f"These claims would still stay open: {', '.join(out_of_reach)}."
    drawn = f"Figures that need no other runs: {', '.join(figures)}."
    speeds = speeds_for(device)
    header: list[object] = ["target", "runs", "shared", "done", "left", *speeds, "asked", "MB"]
    lines = [
        [
            *(d.target, d.runs, d.shared, d.done, d.left),
            *(time_text(hours) for hours in (*d.hours, d.cluster_hours)),
            f"{d.megabytes:,.1f}",
        ]
        for d in demands(plan, parts, done, speeds, device)
    ]
    return "\n".join(
        [
            f"The scale “{plan.scale}”: the likely time of the runs left on each kind of device,",
            "and the time that a cluster is asked for, to be safe (docs/speed.md):",
            "",
            *aligned([header, *lines]),
            "",
            "A run that several targets share is counted with each of them, and once in `all`.",
            *textwrap.wrap(estimates, WIDTH),
            *(["", *textwrap.wrap(undecided, WIDTH)] if out_of_reach else []),
            *(["", *textwrap.wrap(drawn, WIDTH)] if figures else []),
            *remarks(plan, {run for runs in parts.values() for run in runs}),
        ]
    )


def time_text(hours: float) -> str:
    """A time in hours, or in minutes if it is shorter than one hour."""
    if hours < 0.995:
        return f"{math.ceil(60 * hours)} min" if hours else "0"
    return f"{hours:,.1f} h"


def remarks(plan: Plan, runs: Iterable[str]) -> list[str]:
    """Remarks on some of a plan's runs, one per line, each with the number of runs it is for."""
    found = Counter(remark for run in runs for remark in plan.facts[run].remarks)
    lines = [
        f"- {remark} ({count} run{'s' if count > 1 else ''})"
        for remark, count in sorted(found.items())
    ]
    return ["", "Remarks on these runs:", *lines] if lines else []


def cheapest_cells(plan: Plan, done: Done, device: str, hours: float) -> list[list[str]]:
    """The missing runs of the cells of tables with published numbers, the cheapest cell first.

    There are as many cells as a device should train in so many hours, one run at a time. A run that
    several cells share is listed with the first of them.
    """
    cells = [
        [run for run in cell if not done(run)]
        for table in plan.tables.values()
        if table.published is not None
        for row in table.runs
        for cell in row
    ]
    missing = {run for cell in cells for run in cell}
    seconds = {run: plan.estimate(run, device).seconds for run in missing}
    left = 3600 * hours
    listed: set[str] = set()
    found = []
    for cell in sorted(cells, key=lambda cell: sum(seconds[run] for run in cell)):
        new = [run for run in cell if run not in listed]
        left -= sum(seconds[run] for run in new)
        if left < 0:
            break
        listed.update(new)
        if new:
            found.append(new)
    return found
