# The papers' claims, held against their own numbers and against ours.
rule claims:
    input:
        cells=SCALE / "cells.csv",
        runs=claims_runs,
        partitions=claims_partitions,
        published=PUBLISHED,
    output:
        json=SCALE / "claims.json",
        md=SCALE / "claims.md",
        html=report(
            SCALE / "claims.html",
            caption="../workflow/report/claims.rst",
            category="Claims",
        ),
    log:
        SCALE / "logs" / "claims.log",
    retries: 0
    localrule: True
    params:
        sources=PRINTING,
        scale=PLAN.scale,
        tables=table_pages(),
        parts=claims_descriptions,
        folders=claims_folders,
    message:
        "Judging the papers' claims"
    script:
        "../workflow/scripts/claims.py"
