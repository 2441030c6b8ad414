"""Rule figure: one figure as PNG and PDF."""

from pathlib import Path

from noisyfl.analysis.runs import run_files
from noisyfl.core.script import job
from noisyfl.figures.draw import draw_figure
from noisyfl.specs.descriptions import FigureDescription

with job(snakemake) as log:
    draw_figure(
        FigureDescription.from_json(snakemake.params.description),
        run_files(snakemake.params.folders),
        [Path(path) for path in snakemake.input.partitions],
        Path(snakemake.output.png),
        Path(snakemake.output.pdf),
    )
    log("done")
