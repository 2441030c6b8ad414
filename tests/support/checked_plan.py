"""The plan of a configuration, as commands have it: an error if what it makes is wrong."""

from __future__ import annotations

from pathlib import Path

from noisyfl.experiments.config import Configuration
from noisyfl.experiments.plan import Plan
from noisyfl.experiments.planning import make_plan


def checked_plan(config: Configuration, where: str, folder: Path | None = None) -> Plan:
    """The plan of a configuration, without a file.

    Args:
        where: what error messages call the configuration.
        folder: with experiments beside the configuration's own.
    """
    if folder is not None:
        folders = [*config.experiment_folders, folder]
        config = config.model_copy(update={"experiment_folders": folders})
    plan = make_plan(config, where)
    plan.check_targets()
    return plan
