"""Commands as the command line calls them: with a value for every option."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from noisyfl.commands import runs, scales


def print_plan(config: Path, results: Path, **options: Any) -> None:
    """``noisyfl plan --device cpu``."""
    unset = {"target": None, "claims": False, "cheapest": None, "plugins": ()}
    scales.print_plan([config], results, "cpu", **{**unset, **options})


def train_specs(specs: Sequence[Path], results: Path, data: Path | None = None, **options: Any):
    """``noisyfl train --device cpu``."""
    unset = {"keep_models": False, "keep_labels": False, "trackers": (), "prepare": False}
    folders = [data or results / "data"]
    runs.train_specs([*specs], results, folders, False, "cpu", "fast", **{**unset, **options})
