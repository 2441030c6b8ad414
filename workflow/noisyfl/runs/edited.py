"""Runs whose method was edited after they were trained, without a higher revision."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping
from contextlib import suppress
from platform import python_version
from typing import Any

from noisyfl.core.artifacts import DamagedArtifact, Results
from noisyfl.core.provenance import read_provenance
from noisyfl.specs.sources import MethodSource

LISTED = 3
"""How many runs a line names."""


def is_edited(digest: str | None, provenance: Mapping[str, Any]) -> bool:
    """Whether the code of a run's method is not what the run was trained by.

    False where nobody can tell: for a run whose provenance has no digest of its method; of another
    Python, which prints syntax trees otherwise; or of a method that is gone.

    Args:
        digest: of the code of the run's method now; None if the method is gone.
        provenance: of the run.
    """
    recorded = provenance.get("method_digest")
    if recorded is None or digest is None:
        return False
    if minor_version(provenance["python"]) != minor_version(python_version()):
        return False
    return bool(recorded != digest)


def edited_runs(
    specs: Mapping[str, Mapping[str, Any]], methods: Mapping[str, MethodSource], results: Results
) -> list[str]:
    """The ids of those runs in a results folder whose method was edited since."""
    found = []
    for run, spec in specs.items():
        # Whoever reads a damaged run says what is wrong with it.
        with suppress(FileNotFoundError, DamagedArtifact):
            made = read_provenance(results.run(run).provenance, run)
            method = methods.get(spec["method"]["name"])
            if is_edited(method.digest if method else None, made):
                found.append(run)
    return found


def lines(
    edited: Iterable[str],
    specs: Mapping[str, Mapping[str, Any]],
    methods: Mapping[str, MethodSource],
    results: Results,
) -> list[str]:
    """What to do about edited methods: a line for each."""
    by_files: dict[str, list[str]] = defaultdict(list)
    for run in edited:
        by_files[" or ".join(methods[specs[run]["method"]["name"]].files)].append(run)
    return [_line(files, runs, results) for files, runs in by_files.items()]


def _line(files: str, runs: list[str], results: Results) -> str:
    paths = [str(results.run(run).provenance) for run in runs]
    more = f" (and {len(paths) - LISTED} more)" if len(paths) > LISTED else ""
    count = "1 run was" if len(runs) == 1 else f"{len(runs)} runs were"
    return (
        f"{files}, or what it imports, has changed since {count} trained, and tables show the old "
        "numbers: raise the method's `revision`, or train anew with "
        f"--forcerun {' '.join(paths[:LISTED])}{more}"
    )


def minor_version(version: str) -> str:
    """``3.11`` of ``3.11.7``."""
    return ".".join(version.split(".")[:2])
