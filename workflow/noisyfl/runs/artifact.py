"""A run's artifact, read and checked as a whole."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from noisyfl.core.artifacts import DamagedArtifact, RunFiles, read_json, read_table, remedy
from noisyfl.core.provenance import Provenance, read_provenance
from noisyfl.specs.identity import identity

SHARES = (
    *("test_accuracy", "test_top5_accuracy", "test_balanced_accuracy", "label_accuracy"),
    *("label_precision", "label_recall", "participants_noise_level"),
    *("noise_detection_precision", "noise_detection_recall", "open_set_recall"),
)
"""Columns of ``rounds`` whose values are shares, from 0 to 1."""


@dataclass(frozen=True)
class Artifact:
    """What an artifact holds, but for its table of clients (:func:`read_clients`).

    Attributes:
        spec: the canonical spec.
        rounds: one row per round, in their order.
        provenance: how the run was made.
    """

    spec: dict[str, Any]
    rounds: pa.Table
    provenance: Provenance


def read_artifact(run: str, files: RunFiles) -> Artifact:
    """Read a run's artifact without its table of clients.

    Raises:
        DamagedArtifact: a file is damaged, is another run's, or does not fit the others.
        FileNotFoundError: a file is missing.
    """
    spec = read_spec(run, files)
    provenance = read_provenance(files.provenance, run)
    rounds = _table(run, files.rounds)
    _check_rounds(rounds, provenance, files)
    return Artifact(spec, rounds, provenance)


def read_spec(run: str, files: RunFiles) -> dict[str, Any]:
    """Read a run's spec; errors as :func:`read_artifact`."""
    spec = read_json(files.spec)
    if (found := identity(spec)) != run:
        raise DamagedArtifact(
            f"{files.spec}: expected the run {run}, found {found}; {remedy(files.spec)}"
        )
    return spec


def read_clients(run: str, files: RunFiles) -> pa.Table:
    """Read a run's table of clients; errors as :func:`read_artifact`."""
    return _table(run, files.clients)


def verify(run: str, files: RunFiles) -> None:
    """Read every file of a run's artifact; errors as :func:`read_artifact`."""
    read_artifact(run, files)
    read_clients(run, files)


def _table(run: str, path: Path) -> pa.Table:
    table, metadata = read_table(path)
    if metadata.get("run") != run:
        raise DamagedArtifact(
            f"{path}: expected the run {run}, found {metadata.get('run')}; {remedy(path)}"
        )
    return table


def _check_rounds(rounds: pa.Table, provenance: Provenance, files: RunFiles) -> None:
    """Raise :class:`DamagedArtifact` unless the table has every round and shares are shares."""

    def damaged(why: str) -> DamagedArtifact:
        return DamagedArtifact(f"{files.rounds}: {why}; {remedy(files.rounds)}")

    expected = provenance.rounds
    if not rounds["round"].equals(pa.chunked_array([np.arange(1, expected + 1)])):
        raise damaged(f"expected the rounds 1 to {expected}, found {len(rounds)}")
    for name in (share for share in SHARES if share in rounds.column_names):
        for value in pc.min_max(rounds[name]).as_py().values():
            if value is not None and not 0 <= value <= 1:
                raise damaged(f"{name}: got {value!r}, expected a share from 0 to 1")
