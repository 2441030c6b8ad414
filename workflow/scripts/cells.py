"""Rule cells: every published number with ours beside it."""

from pathlib import Path

from noisyfl.analysis.published_cells import write_cells
from noisyfl.core.script import job
from noisyfl.specs.published import read_published

with job(snakemake) as log:
    write_cells(
        [Path(path) for path in snakemake.input.frames],
        read_published(*map(Path, snakemake.input.published)),
        Path(snakemake.output[0]),
    )
    log("done")
