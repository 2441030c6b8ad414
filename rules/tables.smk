# Tables: the runs of each cell in a paper's layout, beside the published numbers. These are part of
# a table's description, so a corrected number prints only those tables anew that show it.
rule table:
    input:
        runs=table_inputs,
    output:
        frame=SCALE / "tables" / "{experiment}" / "{name}.parquet",
        csv=SCALE / "tables" / "{experiment}" / "{name}.csv",
        md=SCALE / "tables" / "{experiment}" / "{name}.md",
        html=report(
            SCALE / "tables" / "{experiment}" / "{name}.html",
            caption="../workflow/report/table.rst",
            category="Tables",
            labels={"experiment": "{experiment}", "table": "{name}"},
        ),
        tex=SCALE / "tables" / "{experiment}" / "{name}.tex",
    log:
        SCALE / "logs" / "tables" / "{experiment}" / "{name}.log",
    retries: 0
    localrule: True
    params:
        sources=PRINTING,
        title=table_title,
        compared=table_compared,
        description=table_description,
        folders=table_folders,
        edited=table_edited,
    message:
        "Printing {wildcards.experiment}/{wildcards.name}"
    script:
        "../workflow/scripts/table.py"


# A view of all frames: one row for each published number, with ours and the verdict on it.
rule cells:
    input:
        frames=frames_of_papers(),
        published=PUBLISHED,
    output:
        SCALE / "cells.csv",
    log:
        SCALE / "logs" / "cells.log",
    retries: 0
    localrule: True
    params:
        sources=PRINTING,
        frames=[str(path) for path in frames_of_papers()],
    message:
        "Comparing with the published numbers"
    script:
        "../workflow/scripts/cells.py"
