"""Rule explorer: a page of the scale's tables in which every cell explains its value."""

import json
from pathlib import Path

from noisyfl.analysis.runs import run_files
from noisyfl.claims.judgement import read_judgements
from noisyfl.core.artifacts import Results
from noisyfl.core.script import job
from noisyfl.experiments.config import check_config
from noisyfl.experiments.plan_file import in_both
from noisyfl.explorer.gather import ShownScale, Sources
from noisyfl.explorer.page import write_explorer
from noisyfl.specs.descriptions import TableDescription

with job(snakemake) as log:
    params, inputs = snakemake.params.content, snakemake.input
    given = json.loads(params["scale"])
    own = params["paper_scale"]
    tables = [TableDescription.from_json(text) for text in params["tables"]]
    experiments = {table.experiment for table in tables}
    config = check_config(snakemake.config, given["name"])
    scale, papers = in_both(config, given["name"], experiments, log)
    write_explorer(
        Sources(
            scale=ShownScale(scale.scale, config.note, config.reasons, given["options"]),
            tables=tables,
            frames=[Path(frame) for frame in inputs.frames],
            runs=run_files(params["folders"]),
            layouts=[Results(Path(folder)) for folder in params["layouts"]],
            scale_tables=scale.tables,
            paper_tables=papers.tables,
            plan={**papers.runs, **scale.runs},
            judgements=read_judgements(Path(inputs.claims[0])) if inputs.get("claims") else (),
            paper_scale=own and ShownScale(**own["scale"]),
            paper_scale_tables=[
                (TableDescription.from_json(text), run_files(folders))
                for text, folders in (own["tables"] if own else ())
            ],
        ),
        Path(snakemake.output[0]),
    )
    log("done")
