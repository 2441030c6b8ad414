"""The targets of a scale: the tables and figures that a person can ask for, and their runs."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from pathlib import Path

from noisyfl.core.options import BadInput, did_you_mean
from noisyfl.experiments.plan import Plan
from noisyfl.specs.descriptions import Description, TableDescription


def runs_by_target(plan: Plan, target: str | None = "all") -> dict[str, list[str]]:
    """The ids of the runs of every table, and of every figure with runs that no table has.

    Args:
        target: what the tables and figures are part of, see :func:`tables_and_figures`, which
            raises :class:`BadInput` if there is none.
    """
    parts = tables_and_figures(plan, target).values()
    found = {name_of(part): part.run_ids() for part in parts if isinstance(part, TableDescription)}
    known = {run for runs in found.values() for run in runs}
    return found | {name_of(part): part.run_ids() for part in parts if set(part.run_ids()) - known}


def figures_of_these(plan: Plan, target: str | None = "all") -> list[str]:
    """The figures of a target that need no run beside those of :func:`runs_by_target`."""
    others = runs_by_target(plan, target)
    parts = map(name_of, tables_and_figures(plan, target).values())
    return [name for name in parts if name not in others]


def runs_of(parts: Iterable[Description]) -> list[str]:
    """The runs of tables and figures, each once."""
    return list(dict.fromkeys(run for part in parts for run in part.run_ids()))


def tables_and_figures(plan: Plan, target: str | None) -> dict[str, Description]:
    """The tables and figures of a target, by ``<experiment>/<name>``.

    Args:
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
    missing = target not in targets or target in plan.wrong_experiments
    if missing and (why := plan.why_wrong(target)):
        raise BadInput(why)
    if target not in targets:
        raise BadInput(unknown_target(target, plan.scale, targets))
    return {name: parts[name] for name in targets[target]}


def name_of(part: Description) -> str:
    """What a person types to have a table or a figure."""
    return f"{part.experiment}_{part.name}"


def check_names(plan: Plan, files: Mapping[str, Path]) -> None:
    """Raise :class:`BadInput` unless experiments, tables and figures have targets of their own."""
    places = [(name, f"{file}") for name, file in files.items()]
    parts: list[Description] = [*plan.tables.values(), *plan.figures.values()]
    for part in parts:
        kind = "tables" if isinstance(part, TableDescription) else "figures"
        places.append((name_of(part), f"{files[part.experiment]}: {kind}.{part.name}"))
    known: dict[str, str] = {}
    for target, place in places:
        if target in known:
            raise BadInput(
                f"{place}: got the target {target!r}, which {known[target]} has too, expected "
                "another name"
            )
        known[target] = place


def unknown_target(target: str, scale: str, known: Iterable[str]) -> str:
    """The message for a user who asked a scale for a target that it does not have."""
    if "=" in target:
        return (
            f"got the target {target!r}, which looks like a value of the configuration; several "
            f"values go after one `--config ` without an equals sign, behind the targets: "
            f"--config key=value {target}"
        )
    return (
        f"no target is called {target!r}{did_you_mean(target, known)} "
        f"(python -m noisyfl plan --target all lists those of the scale “{scale}”)"
    )
