"""Moving finished runs to where they are tracked, with the commit that made them."""

from __future__ import annotations

import shutil
import subprocess
from contextlib import suppress
from pathlib import Path

from noisyfl.core.artifacts import TRACKED, Results, read_table, replacing
from noisyfl.core.options import BadInput
from noisyfl.core.places import ROOT
from noisyfl.core.provenance import write_provenance
from noisyfl.runs.artifact import read_artifact, read_clients
from noisyfl.specs.identity import identity
from noisyfl.specs.sources import source_digest

REPRODUCED = Results(ROOT / TRACKED)
"""The tracked runs and noisy partitions."""


def archive(run: str, results: Results, tracked: Results, commit: str | None) -> bool:
    """Move a run and its noisy partition; return whether there was a run to move.

    Args:
        run: its id.
        results: where it is.
        tracked: where it goes, unless it is there already.
        commit: of the sources that made it; None: these.

    Raises:
        BadInput: no commit is given, and the run was made by other sources than these, or these
            are not committed.
        DamagedArtifact: the run or its noisy partition cannot be read.
    """
    files, kept = results.run(run), tracked.run(run)
    if not files.provenance.exists() or kept.provenance.exists():
        return False
    read_clients(run, files)
    found = read_artifact(run, files)
    provenance = {**found.provenance, "run": run, "rounds": len(found.rounds)}
    if provenance["source_digest"] != source_digest() and commit is None:
        raise BadInput(
            f"{files.folder}: made by other sources ({provenance['source_digest'][:12]}) than "
            "these; name their commit with --commit"
        )
    commit = commit or commit_of_sources()
    for path in files.all()[:-1]:
        _copy(path, kept.folder / path.name)
    partition = identity(found.spec["noisy_partition"])
    made = results.partition(partition)
    if made.exists() and not tracked.partition(partition).exists():
        read_table(made)
        _copy(made, tracked.partition(partition))
    write_provenance(kept.provenance, {**provenance, "commit": commit})
    for moved in (files, results.stored(run)):
        for path in moved.all():
            path.unlink(missing_ok=True)
        with suppress(OSError):  # it is not empty if a model was kept
            moved.folder.rmdir()
    return True


def commit_of_sources() -> str:
    """The commit of the sources; :class:`BadInput` if they have been changed since."""
    folder = Path(__file__).parents[1]

    def git(*arguments: str) -> str:
        command = ["git", "-C", str(folder), *arguments]
        return subprocess.run(command, check=True, capture_output=True, text=True).stdout.strip()

    try:
        if git("status", "--porcelain", "--", "."):
            raise BadInput(
                f"{folder} has changes that are not committed; name a commit with --commit"
            )
        return git("rev-parse", "HEAD")
    except (OSError, subprocess.CalledProcessError) as error:
        raise BadInput(f"{folder} is not in a git repository; give --commit") from error


def _copy(path: Path, to: Path) -> None:
    with replacing(to) as draft:
        shutil.copyfile(path, draft)
