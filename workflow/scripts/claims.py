"""Rule claims: what the papers claim, checked against their own numbers and against ours."""

from pathlib import Path

from noisyfl.analysis.runs import run_files
from noisyfl.claims.artifacts import Artifacts
from noisyfl.claims.judgement import judge
from noisyfl.claims.sources import our_side, published
from noisyfl.core.script import job
from noisyfl.pages.claims import write_claims
from noisyfl.specs.descriptions import read_description
from noisyfl.specs.published import read_published

with job(snakemake) as log:
    cells = Path(snakemake.input.cells)
    artifacts = Artifacts(
        {name: read_description(text) for name, text in snakemake.params.parts.items()},
        run_files(snakemake.params.folders),
        {Path(path).stem: Path(path) for path in snakemake.input.partitions},
    )
    printed = published(read_published(*map(Path, snakemake.input.published)))
    write_claims(
        judge(printed, our_side(cells, artifacts.sources())),
        cells,
        snakemake.params.scale,
        snakemake.params.tables,
        html=Path(snakemake.output.html),
        json=Path(snakemake.output.json),
    )
    log("done")
