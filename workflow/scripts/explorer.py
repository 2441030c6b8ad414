"""Rule explorer: a page of the scale's tables in which every cell explains its value."""

import json
from pathlib import Path

from noisyfl.claims.judgement import read_judgements
from noisyfl.core.artifacts import Results, RunFiles
from noisyfl.core.script import job
from noisyfl.experiments.papers import in_both
from noisyfl.explorer.gather import Sources
from noisyfl.explorer.page import write_explorer
from noisyfl.specs.descriptions import TableDescription

with job(snakemake.log[0]) as log:
    told, given = snakemake.params, snakemake.input
    asked, papers = in_both(
        json.loads(told.config), Path(told.experiments), told.name, Path(given.published)
    )
    write_explorer(
        Sources(
            scale=asked.scale,
            note=told.note,
            options=told.options,
            tables=[TableDescription.from_json(text) for text in told.tables],
            frames=[Path(frame) for frame in given.frames],
            runs={run: RunFiles(Path(folder)) for run, folder in told.folders.items()},
            layouts=[Results(Path(folder)) for folder in told.layouts],
            asked=asked.tables,
            papers=papers.tables,
            plan={**papers.runs, **asked.runs},
            judged=read_judgements(Path(given.claims[0])) if given.claims else (),
        ),
        Path(snakemake.output[0]),
    )
    log("done")
