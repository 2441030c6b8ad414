"""Make the data and the noisy partition of a run that is trained without Snakemake."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from noisyfl.core.artifacts import RunFiles
from noisyfl.core.options import BadInput
from noisyfl.core.provenance import read_provenance
from noisyfl.data import noisy_partition
from noisyfl.data.datasets.parts import read_part
from noisyfl.data.datasets.prepared import prepared
from noisyfl.data.own_files import OwnFiles
from noisyfl.runs.job import TrainingJob
from noisyfl.specs.identity import identity


@contextmanager
def naming_plugins(run: str, files: RunFiles) -> Iterator[None]:
    """Let an error about a run also say which plugins it was trained with."""
    try:
        yield
    except BadInput as error:
        if not (plugins := read_provenance(files.provenance, run).plugins):
            raise
        raise BadInput(f"{error}; it needs --plugin, with {', '.join(plugins)}") from None


def make_inputs(job: TrainingJob, own: OwnFiles) -> None:
    """Make the data and the partition that a run is trained on, if it is to be trained."""
    if job.has_all(own.results.stored(job.run_id)):
        return
    make_partition(job.spec, own, job.download)


def make_partition(spec: Mapping[str, Any], own: OwnFiles, download: bool) -> Path:
    """The file of a run's noisy partition, which is made if it is missing, as its data are."""
    partition = spec["noisy_partition"]
    train, _ = prepared(partition["dataset"], own, download)
    path = own.results.partition(identity(partition))
    if not path.exists():
        part = read_part(train)
        noisy_partition.write(path, partition, part.labels, own, part.images)
    return path
