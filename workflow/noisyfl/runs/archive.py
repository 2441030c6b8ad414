"""Moving finished runs to where they are tracked, with the commit that made them."""

from __future__ import annotations

import shutil
import subprocess
from collections.abc import Iterable
from contextlib import suppress
from pathlib import Path
from tempfile import TemporaryDirectory

from noisyfl.core.artifacts import Results, read_json, read_table, replacing
from noisyfl.core.options import BadInput
from noisyfl.core.provenance import write_provenance
from noisyfl.core.tracked import Tracked
from noisyfl.runs.artifact import read_artifact, read_clients
from noisyfl.specs.identity import identity
from noisyfl.specs.sources import source_digest


def archive(
    runs: Iterable[str], results: Results, tracked: Tracked, commit: str | None
) -> list[str]:
    """Move runs and their noisy partitions to where they are tracked, as one batch or several.

    A run that has kept its model or labels is copied, since these are not tracked.

    Args:
        runs: their ids; incomplete and tracked runs stay.
        commit: of the sources that made them; None: these.

    Returns:
        The ids of those that are tracked now.

    Raises:
        BadInput: no commit is given, and a run was made by other sources than these, or these are
            not committed.
        DamagedArtifact: a run or its noisy partition cannot be read.
    """
    added = []
    with TemporaryDirectory(dir=results.root) as folder:
        batch = Results(Path(folder))
        for run in runs:
            if results.run(run).provenance.exists() and f"runs/{run}" not in tracked.batches:
                _add(run, results, batch, tracked, commit)
                added.append(run)
        tracked.add(batch.root)
    for run in added:
        copies = results.run(run), results.stored(run)
        if any(files.model.exists() or files.labels.exists() for files in copies):
            continue  # these are read beside the rest of the run
        for files in copies:
            # The provenance first: if a kill leaves the rest, it does not count as a run.
            for path in reversed(files.all()):
                path.unlink(missing_ok=True)
            with suppress(OSError):
                files.folder.rmdir()
    return added


def _add(run: str, results: Results, batch: Results, tracked: Tracked, commit: str | None) -> None:
    files, kept = results.run(run), batch.run(run)
    read_clients(run, files)
    found = read_artifact(run, files)
    source = found.provenance.source_digest
    if source != source_digest() and commit is None:
        raise BadInput(
            f"{files.folder}: trained by other sources ({source[:12]}) than "
            "these; give their commit with --commit"
        )
    for path in files.all()[:-1]:
        _copy(path, kept.folder / path.name)
    partition = identity(found.spec["noisy_partition"])
    made = results.partition(partition)
    if made.exists() and f"partitions/{made.name}" not in tracked.batches:
        read_table(made)
        _copy(made, batch.partition(partition))
    provenance = {**read_json(files.provenance), "commit": commit or commit_of_sources()}
    write_provenance(kept.provenance, provenance)


def commit_of_sources() -> str:
    """The commit of the sources; :class:`BadInput` if they have been changed since."""
    folder = Path(__file__).parents[1]

    def git(*arguments: str) -> str:
        command = ["git", "-C", str(folder), *arguments]
        return subprocess.run(command, check=True, capture_output=True, text=True).stdout.strip()

    try:
        if git("status", "--porcelain", "--", "."):
            raise BadInput(f"{folder} has uncommitted changes; give a commit with --commit")
        return git("rev-parse", "HEAD")
    except (OSError, subprocess.CalledProcessError) as error:
        raise BadInput(f"{folder} is not in a git repository; give --commit") from error


def _copy(path: Path, to: Path) -> None:
    with replacing(to) as draft:
        shutil.copyfile(path, draft)
