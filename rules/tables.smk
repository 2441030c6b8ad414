# Tables: the runs of each cell in a paper's layout, next to the published numbers. These are part of
# a table's description, so a corrected number rebuilds only the tables that show it.
rule table:
    input:
        runs=lambda wildcards: SCALE.artifacts(SCALE.part(wildcards)),
    output:
        frame=FOLDER / "tables" / "{experiment}" / "{name}.parquet",
        csv=FOLDER / "tables" / "{experiment}" / "{name}.csv",
        md=FOLDER / "tables" / "{experiment}" / "{name}.md",
        html=report(
            FOLDER / "tables" / "{experiment}" / "{name}.html",
            caption="../workflow/report/table.rst",
            category="Tables",
            labels={"experiment": "{experiment}", "table": "{name}"},
        ),
        tex=FOLDER / "tables" / "{experiment}" / "{name}.tex",
    log:
        FOLDER / "logs" / "tables" / "{experiment}" / "{name}.log",
    retries: 0
    localrule: True
    params:
        sources=PRINTING,
        title=lambda wildcards: in_restructured_text(SCALE.part(wildcards).title),
        compared=lambda wildcards: SCALE.part(wildcards).published is not None,
        not_as_published=lambda wildcards: SCALE.part(wildcards).not_as_published,
        description=lambda wildcards: SCALE.text(SCALE.part(wildcards)),
        folders=lambda wildcards: SCALE.folders(SCALE.part(wildcards)),
    message:
        "Building {wildcards.experiment}/{wildcards.name}"
    script:
        "../workflow/scripts/table.py"


# A view of all frames: one row for each published number, with ours and the verdict on it.
rule cells:
    input:
        frames=SCALE.frames(),
        published=PUBLISHED,
    output:
        FOLDER / "cells.csv",
    log:
        FOLDER / "logs" / "cells.log",
    retries: 0
    localrule: True
    params:
        sources=PRINTING,
        frames=list(map(str, SCALE.frames())),
    message:
        "Comparing with the published numbers"
    script:
        "../workflow/scripts/cells.py"
