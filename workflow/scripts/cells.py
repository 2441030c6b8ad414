"""Rule cells: every published number with ours beside it."""

from pathlib import Path

from noisyfl.analysis.frame import read_frames
from noisyfl.analysis.published_cells import published_cells, write_cells
from noisyfl.core.script import job
from noisyfl.specs.published import read_published

with job(snakemake) as log:
    numbers = published_cells(
        read_frames(map(Path, snakemake.input.frames)),
        read_published(*map(Path, snakemake.input.published)),
    )
    write_cells(numbers, Path(snakemake.output[0]))
    log("done")
