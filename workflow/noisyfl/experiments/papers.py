"""The plan of a scale, and the plan of the same cells in the papers' own settings."""

from __future__ import annotations

from collections.abc import Callable, Iterable

from noisyfl.experiments.config import Configuration, Overlay
from noisyfl.experiments.plan import Plan
from noisyfl.experiments.plan_file import PlanFile

PARTS = ("rows", "columns", "trials")
"""Keys of an overlay that say how much of a table is kept; all others change settings."""


def in_both(
    config: Configuration,
    where: str,
    experiments: Iterable[str],
    say: Callable[[str], None],
) -> tuple[Plan, Plan]:
    """The plan of a scale, and the plan of the same cells of some of its experiments in the papers'
    own settings.

    Args:
        where: what the error messages call the configuration.
        experiments: whose cells are planned in the papers' settings.
        say: takes a line for the user.

    Raises:
        BadInput: as :func:`noisyfl.experiments.planning.make_plan`.
    """
    wanted = [name for name in config.experiments if name in set(experiments)]
    kept = {
        key: {name: one for name, one in by_table.items() if name.partition("/")[0] in wanted}
        for key, by_table in config.overlay.as_given().items()
        if key in PARTS
    }
    theirs = {"experiments": wanted, "overlay": Overlay.read(kept), "allow_years": True}
    return (
        PlanFile(config, where).plan(say),
        PlanFile(config.model_copy(update={**theirs, "targets": None}), where).plan(say),
    )
