# The papers' claims, checked against their own numbers and against ours.
rule claims:
    input:
        cells=FOLDER / "cells.csv",
        runs=lambda wildcards: SCALE.artifacts(*SCALE.claimed.values()),
        partitions=lambda wildcards: SCALE.partitions(*SCALE.claimed.values()),
        published=PUBLISHED,
    output:
        json=FOLDER / "claims.json",
        html=report(
            FOLDER / "claims.html",
            caption="../workflow/report/claims.rst",
            category="Claims",
        ),
    log:
        FOLDER / "logs" / "claims.log",
    retries: 0
    localrule: True
    params:
        sources=PRINTING,
        scale=PLAN.scale,
        tables={name: f"tables/{name}.html" for name in SCALE.wanted_tables},
        parts=lambda wildcards: {
            name: SCALE.text(part) for name, part in SCALE.claimed.items()
        },
        folders=lambda wildcards: SCALE.folders(*SCALE.claimed.values()),
    message:
        "Judging the papers' claims"
    script:
        "../workflow/scripts/claims.py"
