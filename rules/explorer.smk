# The explorer: all of the scale's tables in one page, in which every cell explains its value.
rule explorer:
    input:
        # The inputs of these are all runs, so no run is named here: fewer files are planned faster.
        frames=[
            SCALE / "tables" / part.experiment / f"{part.name}.parquet"
            for part in TABLES
        ],
        claims=[SCALE / "claims.json"] if frames_of_papers() else [],
        published=PUBLISHED,
        reasons=sorted(
            (Path(workflow.basedir) / "workflow" / "reasons").rglob("*.yaml")
        ),
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
        sources=PRINTING,
        name=CONFIG_NAME,
        config=lambda wildcards: canonical_json(CONFIG),
        experiments=str(Path(workflow.basedir) / "config" / "papers"),
        note=CONFIG["note"],
        options=scale_options(),
        layouts=explorer_layouts,
        tables=lambda wildcards: list(map(description_text, TABLES)),
        folders=explorer_folders,
    message:
        "Making the explorer"
    script:
        "../workflow/scripts/explorer.py"
