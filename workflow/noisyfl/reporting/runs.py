"""A run's artifact, as tables and figures read it."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from noisyfl.artifacts import DamagedArtifact, RunFiles, read_table
from noisyfl.spec import identity


@dataclass(frozen=True)
class Run:
    """What a report needs of a run.

    Attributes:
        spec: what names it.
        provenance: what made it.
        ordinary_rounds: ordinary rounds' worth of local updates before each evaluation.
        accuracies: the test accuracy of each evaluation, a share.
        rounds_done: ordinary rounds' worth of local updates at its end.
    """

    id: str
    folder: Path
    spec: dict[str, Any]
    provenance: dict[str, Any]
    ordinary_rounds: tuple[float, ...]
    accuracies: tuple[float, ...]
    rounds_done: float

    @property
    def diverged(self) -> bool:
        """The global model ceased to be finite, which ended the run early."""
        return self.provenance["status"] == "diverged"


def read_run(run: str, files: RunFiles) -> Run:
    """Read a run. The evaluation of a global model that is no longer finite is left out.

    Raises:
        DamagedArtifact: a file is damaged, or the folder holds another run's.
    """
    spec = json.loads(files.spec.read_text())
    table, metadata = read_table(files.rounds)
    for found in (identity(spec), metadata["run"]):
        if found != run:
            raise DamagedArtifact(f"{files.folder}: expected the run {run}, found {found}")
    provenance = json.loads(files.provenance.read_text())
    done, accuracies = table["ordinary_rounds"].to_pylist(), table["test_accuracy"].to_pylist()
    kept = len(done) - 1 if provenance["status"] == "diverged" else len(done)
    evaluated = [r for r in range(kept) if accuracies[r] is not None]
    return Run(
        id=run,
        folder=files.folder,
        spec=spec,
        provenance=provenance,
        ordinary_rounds=tuple(done[r] for r in evaluated),
        accuracies=tuple(accuracies[r] for r in evaluated),
        rounds_done=done[-1],
    )


def read_runs(runs: Mapping[str, RunFiles]) -> dict[str, Run]:
    """Read every run, by id."""
    return {run: read_run(run, files) for run, files in runs.items()}
