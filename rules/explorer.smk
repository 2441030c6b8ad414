# The explorer: all of the scale's tables in one page, in which every cell says why it is what it is.
TABLES = [part for part in wanted() if isinstance(part, TableDescription)]


def explorer_runs(wildcards):
    """The runs of the wanted tables, and those that claims are held against."""
    return artifacts_of(runs_of_parts([*TABLES, *CLAIMED.values()]))


def explorer_folders(wildcards):
    """The folder of each of these runs."""
    runs = runs_of_parts([*TABLES, *CLAIMED.values()])
    return {run: str(run_files(run).folder) for run in runs}


def explorer_layouts(wildcards):
    """Where noisy partitions may lie."""
    layouts = [RESULTS, *([REPRODUCED] if CONFIG["reproduced"] else [])]
    return [str(layout.root) for layout in layouts]


def scale_options():
    """What is typed to take this scale."""
    files = [os.path.relpath(file, workflow.basedir) for file in workflow.configfiles]
    if files == ["config/config.yaml"]:
        return ""
    one = len(files) == 1
    return f"--configfile={files[0]}" if one else f"--configfile {' '.join(files)} --"


rule explorer:
    input:
        frames=[
            SCALE / "tables" / part.experiment / f"{part.name}.parquet"
            for part in TABLES
        ],
        cells=[SCALE / "cells.csv"] if frames_of_papers() else [],
        runs=explorer_runs,
        partitions=claims_partitions,
        published=PUBLISHED,
        claims=claim_files(),
    output:
        report(
            SCALE / "explorer.html",
            caption="../workflow/report/explorer.rst",
            category="Explorer",
        ),
    log:
        SCALE / "logs" / "explorer.log",
    retries: 0
    localrule: True
    params:
        name=CONFIG_NAME,
        config=lambda wildcards: canonical_json(CONFIG),
        experiments=str(Path(workflow.basedir) / "config" / "papers"),
        note=CONFIG["note"],
        options=scale_options(),
        layouts=explorer_layouts,
        tables=lambda wildcards: list(map(description_text, TABLES)),
        runs=lambda wildcards: runs_of_parts(TABLES),
        parts=claims_descriptions,
        folders=explorer_folders,
    message:
        "Making the explorer"
    script:
        "../workflow/scripts/explorer.py"
