# Tables: the runs of each cell in a paper's layout, beside the published numbers.
rule table:
    input:
        runs=table_inputs,
        published=ancient("config/published.csv"),
    output:
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
    localrule: True
    params:
        title=table_title,
        description=table_description,
        folders=table_folders,
    message:
        "Printing {wildcards.experiment}/{wildcards.name}"
    script:
        "../workflow/scripts/table.py"


# The tidy form of all tables: one row a published number, with ours and what that amounts to.
rule cells:
    input:
        tables=tables_of_papers(),
        published=ancient("config/published.csv"),
    output:
        SCALE / "cells.csv",
    log:
        SCALE / "logs" / "cells.log",
    localrule: True
    params:
        tables=[str(path) for path in tables_of_papers()],
    message:
        "Comparing with the published numbers"
    script:
        "../workflow/scripts/cells.py"
