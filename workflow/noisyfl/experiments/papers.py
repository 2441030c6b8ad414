"""The plan of a scale, and the plan of the same cells in the papers' own settings."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any

from noisyfl.experiments.plan import Plan
from noisyfl.experiments.plan_file import PlanFile

PARTS = ("rows", "columns", "trials")
"""Keys of an overlay that say how much of a table is kept; all others change settings."""


def in_both(
    config: Mapping[str, Any],
    where: str,
    experiments: Iterable[str],
    say: Callable[[str], None],
) -> tuple[Plan, Plan]:
    """The plan of a scale, and the plan of the same cells of some of its experiments in the papers'
    own settings.

    Args:
        config: as :func:`noisyfl.experiments.config.check_config` returns it.
        where: what the error messages call the configuration.
        experiments: whose cells are planned in the papers' settings.
        say: takes a line for the user.

    Raises:
        BadInput: as :func:`noisyfl.experiments.planning.make_plan`.
    """
    wanted = [name for name in config["experiments"] if name in set(experiments)]

    def of_these(given: Any) -> Any:
        """What is given by table, of the tables that are planned."""
        if not isinstance(given, Mapping):
            return given
        return {name: one for name, one in given.items() if name.partition("/")[0] in wanted}

    parts = {key: of_these(config["overlay"][key]) for key in PARTS if key in config["overlay"]}
    theirs = {**config, "experiments": wanted, "overlay": parts}
    theirs |= {"allow_years": True, "targets": None}
    return (
        PlanFile(config, where).load(say),
        PlanFile(theirs, where).plan(say),
    )
