"""The plan of a scale, and the plan of the same cells in the papers' own settings."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from noisyfl.experiments.plan import Plan
from noisyfl.experiments.plan_file import PlanFile

PARTS = ("rows", "columns", "trials")
"""Keys of an overlay that say how much of a table is kept; all others change settings."""


def in_both(
    config: Mapping[str, Any],
    where: str,
    say: Callable[[str], None],
) -> tuple[Plan, Plan]:
    """The plan of a scale, and the plan of the same cells in the papers' own settings.

    Args:
        config: as :func:`noisyfl.experiments.config.check_config` returns it.
        where: what the error messages call the configuration.
        say: takes a line for the user.

    Raises:
        BadInput: as :func:`noisyfl.experiments.planning.make_plan`.
    """
    parts = {key: config["overlay"][key] for key in PARTS if key in config["overlay"]}
    theirs = {**config, "overlay": parts, "allow_years": True}
    return (
        PlanFile(config, where).load(say),
        PlanFile(theirs, where).plan(say),
    )
