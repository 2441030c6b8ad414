"""Rule evidence: what the table of all methods says of each method and of the papers' claims."""

from pathlib import Path

from noisyfl.analysis.own_size import own_size
from noisyfl.analysis.runs import read_runs
from noisyfl.claims.judgement import read_judgements
from noisyfl.core.artifacts import RunFiles
from noisyfl.core.script import job
from noisyfl.pages.evidence import write_evidence
from noisyfl.specs.descriptions import TableDescription


def described(text, folders):
    """A table, and its runs by id."""
    runs = read_runs({run: RunFiles(Path(folder)) for run, folder in folders.items()})
    return TableDescription.from_json(text), runs


with job(snakemake) as log:
    table, runs = described(snakemake.params.description, snakemake.params.folders)
    tables = [described(*given) for given in snakemake.params.own_size]
    write_evidence(
        Path(snakemake.output[0]).parent,
        table,
        runs,
        read_judgements(Path(snakemake.input.claims)),
        Path(snakemake.input.cells),
        [cell for given in tables for cell in own_size(*given)],
        Path(snakemake.input.reasons[0]).parent,
    )
    log("done")
