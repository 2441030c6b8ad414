"""Rule figure: one figure as PNG and PDF."""

from pathlib import Path

from noisyfl.core.artifacts import RunFiles
from noisyfl.core.script import job
from noisyfl.figures.draw import draw_figure
from noisyfl.specs.descriptions import FigureDescription

with job(snakemake) as log:
    draw_figure(
        FigureDescription.from_json(snakemake.params.description),
        {run: RunFiles(Path(folder)) for run, folder in snakemake.params.folders.items()},
        [Path(path) for path in snakemake.input.partitions],
        Path(snakemake.output.png),
        Path(snakemake.output.pdf),
    )
    log("done")
