"""Rule evidence: what the tables of all methods say of each method and of the papers' claims."""

from collections import ChainMap
from functools import reduce
from pathlib import Path

from noisyfl.analysis.cells import collect
from noisyfl.analysis.frame import join_frames
from noisyfl.analysis.own_size import own_size
from noisyfl.analysis.published_cells import published_cells, rows_as_text
from noisyfl.analysis.runs import read_runs
from noisyfl.claims.judgement import read_judgements
from noisyfl.core.artifacts import RunFiles
from noisyfl.core.script import job
from noisyfl.pages.evidence import write_evidence
from noisyfl.specs.descriptions import TableDescription
from noisyfl.specs.published import read_published


def described(text, folders):
    """A table, and its runs by id."""
    runs = read_runs({run: RunFiles(Path(folder)) for run, folder in folders.items()})
    return TableDescription.from_json(text), runs


with job(snakemake) as log:
    tables, runs = zip(*(described(*given) for given in snakemake.params.tables), strict=True)
    of_own_size = [described(*given) for given in snakemake.params.own_size]
    own_cells = published_cells(
        join_frames([collect(*given).frame for given in of_own_size]),
        read_published(*map(Path, snakemake.input.published)),
    )
    write_evidence(
        Path(snakemake.output[0]).parent,
        reduce(TableDescription.with_columns_of, tables),
        dict(ChainMap(*runs)),
        read_judgements(Path(snakemake.input.claims)),
        Path(snakemake.input.cells),
        [cell for given in of_own_size for cell in own_size(*given)],
        rows_as_text(own_cells),
        Path(snakemake.input.reasons[0]).parent,
    )
    log("done")
