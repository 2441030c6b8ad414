"""Rule evidence: what the table of all methods says of each method and of the papers' claims."""

from pathlib import Path

from noisyfl.analysis.runs import read_runs
from noisyfl.claims.judgement import read_judgements
from noisyfl.core.artifacts import RunFiles
from noisyfl.core.script import job
from noisyfl.pages.evidence import write_evidence
from noisyfl.specs.descriptions import TableDescription

with job(snakemake) as log:
    folders = snakemake.params.folders
    write_evidence(
        Path(snakemake.output[0]).parent,
        TableDescription.from_json(snakemake.params.description),
        read_runs({run: RunFiles(Path(folder)) for run, folder in folders.items()}),
        read_judgements(Path(snakemake.input.claims)),
        Path(snakemake.input.cells),
        Path(snakemake.input.reasons[0]).parent,
    )
    log("done")
