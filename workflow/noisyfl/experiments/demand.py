"""The targets of a scale, what each of them would cost, and which cells are the cheapest."""

from __future__ import annotations

import textwrap
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

from noisyfl.core.checked_yaml import read_yaml
from noisyfl.core.options import BadInput, did_you_mean
from noisyfl.experiments.config import PUBLISHED, ROOT
from noisyfl.experiments.plan import Plan
from noisyfl.simulation.schedule import SCHEDULES
from noisyfl.specs.cost import estimate, likely_seconds
from noisyfl.specs.descriptions import Description, TableDescription
from noisyfl.specs.extent import remarks_of
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
        asked: hours that a cluster is asked for, for the runs left.
        megabytes: on disk, for the artifacts of the runs left.
    """

    target: str
    runs: int
    shared: int
    done: int
    hours: tuple[float, ...]
    asked: float
    megabytes: float

    @property
    def left(self) -> int:
        """How many runs are still to be trained."""
        return self.runs - self.done


def runs_by_target(plan: Plan, target: str | None = "all") -> dict[str, list[str]]:
    """The ids of the runs of every table, and of every figure with runs that no table has.

    Args:
        plan: of a scale.
        target: what the tables and figures are part of, see :func:`parts_of`.

    Raises:
        BadInput: there is no such target; names the nearest.
    """
    parts = parts_of(plan, target).values()
    found = {name_of(part): run_ids(part) for part in parts if isinstance(part, TableDescription)}
    known = {run for runs in found.values() for run in runs}
    return found | {name_of(part): run_ids(part) for part in parts if set(run_ids(part)) - known}


def runs_of(plan: Plan, target: str | None) -> list[str]:
    """The ids of the runs behind a target, see :func:`parts_of`.

    Raises:
        BadInput: there is no such target; names the nearest.
    """
    parts = parts_of(plan, target).values()
    return list(dict.fromkeys(run for part in parts for run in run_ids(part)))


def parts_of(plan: Plan, target: str | None) -> dict[str, Description]:
    """The tables and figures of a target, by ``<experiment>/<name>``.

    Args:
        plan: of a scale.
        target: a table or figure, an experiment, or ``all``; None for what the scale makes if no
            target is named.

    Raises:
        BadInput: there is no such target; names the nearest.
    """
    parts: dict[str, Description] = {**plan.tables, **plan.figures}
    targets = {"all": list(parts)}
    for name, part in parts.items():
        targets[name_of(part)] = [name]
        targets.setdefault(part.experiment, []).append(name)
    if target is None:
        wanted = [name.replace("/", "_") for name in plan.targets] or ["all"]
        return {name: parts[name] for one in wanted for name in targets[one]}
    if target not in targets and (why := plan.why_left_out(target)):
        raise BadInput(why)
    if target not in targets:
        raise BadInput(unknown_target(target, plan.scale, targets))
    return {name: parts[name] for name in targets[target]}


def name_of(part: Description) -> str:
    """What a person types to have a table or a figure."""
    return f"{part.experiment}_{part.name}"


def run_ids(part: Description) -> list[str]:
    """The ids of the runs of a table or a figure, each once."""
    runs = part.run_ids() if isinstance(part, TableDescription) else part.runs
    return list(dict.fromkeys(runs))


def runs_by_claim(plan: Plan, target: str | None) -> tuple[dict[str, list[str]], list[str]]:
    """The ids of the runs that are needed to judge each claim by our numbers.

    Args:
        plan: of a scale.
        target: what the tables and figures with the numbers are part of, see :func:`parts_of`.

    Returns:
        runs: by claim, the one that needs the fewest first.
        out_of_reach: other claims, on which the tables and figures could say nothing.
    """
    # Imported here, since Snakemake plans with this module and needs no claims for that.
    from noisyfl.claims.catalogue import all_claims
    from noisyfl.claims.judge import out_of_reach
    from noisyfl.claims.lines import needed

    parts = parts_of(plan, target)
    claims, undecided = all_claims(), out_of_reach(PUBLISHED, parts)
    found = {name: needed(claims[name], parts) for name in claims if name not in undecided}
    runs = dict(sorted(((name, runs) for name, runs in found.items() if runs), key=_by_size))
    return runs, [name for name in claims if name not in runs]


def _by_size(item: tuple[str, list[str]]) -> int:
    return len(item[1])


def unknown_target(target: str, scale: str, known: Iterable[str]) -> str:
    """The message for a user who asked a scale for a target that it does not have.

    Args:
        target: as the user has typed it.
        scale: the name of the scale.
        known: the targets that the scale has.
    """
    if "=" in target:
        return (
            f"got the target {target!r}, which looks like a value of the configuration; several "
            f"values stand behind one `--config ` without an equals sign, after the targets: "
            f"--config key=value {target}"
        )
    elsewhere = [name for name, targets in targets_of_scales().items() if target in targets]
    if elsewhere:
        scales = " or ".join(f"--config=scale={name}" for name in elsewhere)
        return f"the scale “{scale}” has no target {target!r}, but {scales} has"
    hint = did_you_mean(target, known)
    if not hint:
        others = {t: name for name, targets in targets_of_scales().items() for t in targets}
        hint = did_you_mean(target, others)
    return f"no target is called {target!r}{hint} (python -m noisyfl plan lists all)"


def targets_of_scales() -> dict[str, set[str]]:
    """The targets of each scale in ``config/``, by its name; wrong files are skipped."""
    found: dict[str, set[str]] = {}
    for path in sorted((ROOT / "config").glob("*.yaml")):
        with suppress(BadInput, OSError):
            scale = read_yaml(path)
            for name in scale.get("experiments", []):
                paper = read_yaml(ROOT / "config" / "papers" / f"{name}.yaml")
                parts = (part for kind in ("tables", "figures") for part in paper.get(kind, {}))
                targets = {name, *(f"{name}_{part}" for part in parts)}
                found.setdefault(str(scale.get("scale")), set()).update(targets)
    return found


def demands(
    plan: Plan,
    parts: Mapping[str, list[str]],
    done: Done,
    speeds: Mapping[str, Speed],
    device: str = "auto",
) -> list[Demand]:
    """What each table or figure needs, and under the name ``all`` what they need together.

    Args:
        plan: of a scale.
        parts: by name of a table, figure or claim, the ids of its runs.
        done: whether a run is done.
        speeds: of the devices for which hours are given.
        device: of the configuration; decides the hours that a cluster is asked for.
    """
    users = Counter(run for runs in parts.values() for run in runs)
    seconds = {run: [likely_seconds(plan.runs[run], s) for s in speeds.values()] for run in users}
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
            sum(estimate(plan.runs[run], device).asked_seconds for run in left) / 3600,
            sum(megabytes(plan.runs[run]) for run in left),
        )

    return [*(demand(*item) for item in parts.items()), demand("all", list(users))]


def megabytes(spec: Mapping[str, Any]) -> float:
    """Rough size of a run's artifact on disk: a row per round, and one per participant in each."""
    schedule = SCHEDULES.build({"name": "schedule", **spec["schedule"]}, "schedule")
    participants = schedule.participants(spec["noisy_partition"]["partition"]["clients"])
    return (8_000 + schedule.rounds * (100 + 40 * participants)) / 1e6


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
    speeds: Mapping[str, Speed] | None = None,
    out_of_reach: Sequence[str] = (),
) -> str:
    """The demands as a text table, with remarks on the runs.

    Args:
        plan: of a scale.
        parts: see :func:`demands`.
        done: whether a run is done.
        device: of the configuration.
        speeds: of devices, by name; None: those of the devices that ``device`` may turn out to be.
        out_of_reach: claims to be named as undecidable, see :func:`runs_by_claim`.
    """
    undecided = f"These claims would stay open in any case: {', '.join(out_of_reach)}."
    speeds = speeds_for(device) if speeds is None else speeds
    header: list[object] = ["target", "runs", "shared", "done", "left", *speeds, "asked", "MB"]
    lines = [
        [
            *(d.target, d.runs, d.shared, d.done, d.left),
            *(f"{hours:,.1f}" for hours in (*d.hours, d.asked)),
            f"{d.megabytes:,.1f}",
        ]
        for d in demands(plan, parts, done, speeds, device)
    ]
    return "\n".join(
        [
            f"The scale “{plan.scale}”, with the hours that the runs left likely take on a device",
            "of each kind, and those that a cluster is asked for to be safe (docs/speed.md):",
            "",
            *aligned([header, *lines]),
            "",
            "A run that several need is counted with each of them, and once in `all`.",
            f"Likely hours are estimates: {LEAST:.1f} to {MOST:.0f} times as many are no surprise.",
            *(["", *textwrap.wrap(undecided, WIDTH)] if out_of_reach else []),
            *remarks(plan, {run for runs in parts.values() for run in runs}),
        ]
    )


def remarks(plan: Plan, runs: Iterable[str]) -> list[str]:
    """Remarks on some of a plan's runs, one per line, each with the number of runs it is for."""
    found = Counter(remark for run in runs for remark in remarks_of(plan.runs[run]))
    lines = [
        f"- {remark} ({count} run{'s' if count > 1 else ''})"
        for remark, count in sorted(found.items())
    ]
    return ["", "To be known of these runs:", *lines] if lines else []


def cheapest_cells(plan: Plan, done: Done, device: str, hours: float) -> list[list[str]]:
    """The missing runs of the cells of tables with published numbers, the cheapest cell first.

    There are as many cells as a device should train in so many hours, one run at a time. A run that
    several cells share is listed with the first of them.

    Args:
        plan: of a scale.
        done: whether a run is done.
        device: of the configuration.
        hours: of that device.
    """
    cells = [
        [run for run in cell if not done(run)]
        for table in plan.tables.values()
        if table.published is not None
        for row in table.runs
        for cell in row
    ]
    seconds = {
        run: estimate(plan.runs[run], device).seconds for run in {r for cell in cells for r in cell}
    }
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


def aligned(lines: Iterable[list[object]]) -> list[str]:
    """Lines of cells in columns: the first column aligned left, the others right."""
    texts = [[str(cell) for cell in line] for line in lines]
    widths = [max(len(line[c]) for line in texts) for c in range(len(texts[0]))]
    return [
        "  ".join(
            cell.ljust(width) if c == 0 else cell.rjust(width)
            for c, (cell, width) in enumerate(zip(line, widths, strict=True))
        )
        for line in texts
    ]
