"""Rule evidence: what the tables of the papers say of their claims."""

from pathlib import Path

from noisyfl.analysis.cells import collect
from noisyfl.analysis.frame import join_frames
from noisyfl.analysis.own_size import own_size
from noisyfl.analysis.published_cells import published_cells, rows_as_text
from noisyfl.analysis.runs import described
from noisyfl.claims.judgement import read_judgements
from noisyfl.core.script import job
from noisyfl.pages.evidence import write_evidence
from noisyfl.specs.published import read_published

with job(snakemake) as log:
    of_own_size = [described(*given) for given in snakemake.params.own_size]
    own_cells = published_cells(
        join_frames([collect(*given).frame for given in of_own_size]),
        read_published(*map(Path, snakemake.input.published)),
    )
    write_evidence(
        Path(snakemake.output[0]).parent,
        snakemake.params.scale,
        read_judgements(Path(snakemake.input.claims)),
        Path(snakemake.input.cells),
        [cell for given in of_own_size for cell in own_size(*given)],
        rows_as_text(own_cells),
        [Path(file) for file in snakemake.input.reasons],
    )
    log("done")
