"""Where runs that no scale names lie, and how they are trained."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from noisyfl.core.artifacts import TRACKED, Results, RunFiles
from noisyfl.core.options import BadInput, check_count
from noisyfl.core.tracked import REPRODUCED, find_partition, find_run
from noisyfl.data.own_files import OwnFiles
from noisyfl.data.roots import Roots, each
from noisyfl.runs.inputs import make_inputs
from noisyfl.runs.job import Outcome, TrainingJob
from noisyfl.runs.pool import most_at_once, train_all


class Places:
    """Where runs and their data lie, and how missing ones are trained.

    Args:
        folders: the data folders.
        device: as :func:`noisyfl.runs.train.choose_device` takes it.
        at_once: how many runs are trained at once; None: as many as the machine has room for.

    Attributes:
        own: reads a user's own files.
    """

    def __init__(
        self,
        results: Path,
        folders: Roots = (),
        download: bool = False,
        device: str = "auto",
        at_once: int | None = None,
    ) -> None:
        if at_once is not None:
            check_count(at_once, "jobs")
        self.results = Results(results)
        self.folders = each(folders)
        self.own = OwnFiles(folders, results)
        self.download = download
        self.device = device
        self._at_once = at_once

    @property
    def at_once(self) -> int:
        """How many runs are trained at once."""
        return self._at_once or most_at_once(self.device)

    def find(self, run: str) -> RunFiles | None:
        """The files of a run, in the results or tracked; None if there is none."""
        return find_run(run, (self.results, REPRODUCED))

    def files(self, run: str) -> RunFiles:
        """As :meth:`find`; :class:`BadInput` if there is none."""
        found = self.find(run)
        if found is None:
            raise BadInput(f"{run}: no run in {self.results.root} or {TRACKED}/ has this id")
        return found

    def partition_file(self, partition: str) -> Path:
        """The file of a noisy partition, in the results or tracked; :class:`BadInput` if there is
        none.
        """
        found = find_partition(partition, (self.results, REPRODUCED))
        if found is None:
            raise BadInput(
                f"{partition}: no noisy partition in {self.results.root} or {TRACKED}/ has this id"
            )
        return found

    def job(self, spec: Mapping[str, Any], **options: Any) -> TrainingJob:
        """The training job of a run, with further options of :class:`TrainingJob`."""
        return TrainingJob(
            spec=dict(spec),
            results=str(self.results.root),
            data=[str(root) for root in self.folders],
            download=self.download,
            device=self.device,
            **options,
        )

    def train(self, jobs: Sequence[TrainingJob]) -> Iterator[tuple[TrainingJob, Outcome]]:
        """Train runs, several at once, on data and partitions that are made first.

        Yields each with how it ended, as soon as it has.

        Raises:
            BadInput: the data or a noisy partition cannot be made.
        """
        for job in jobs:
            make_inputs(job, self.own)
        if jobs:
            yield from train_all(jobs, self.at_once)
