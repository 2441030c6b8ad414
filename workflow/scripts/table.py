"""Rule table: one table as Parquet, CSV, Markdown, HTML and LaTeX."""

from pathlib import Path

from noisyfl.analysis.runs import run_files
from noisyfl.core.script import job
from noisyfl.pages.print_table import print_table
from noisyfl.specs.descriptions import TableDescription

with job(snakemake) as log:
    print_table(
        TableDescription.from_json(snakemake.params.description),
        run_files(snakemake.params.folders),
        frame=Path(snakemake.output.frame),
        csv=Path(snakemake.output.csv),
        markdown=Path(snakemake.output.md),
        html=Path(snakemake.output.html),
        tex=Path(snakemake.output.tex),
    )
    log("done")
