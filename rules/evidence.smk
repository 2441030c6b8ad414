from noisyfl.pages.evidence_paths import LEADS, METHODS_PAGE, PAGES

REASONS = sorted((REPRODUCED.packed / "reasons" / PLAN.scale).glob("*.yaml"))


# What the papers' tables say about their claims.
rule evidence:
    input:
        claims=FOLDER / "claims.json",
        cells=FOLDER / "cells.csv",
        published=PUBLISHED,
        reasons=REASONS,
    output:
        [FOLDER / file for file in (*PAGES, LEADS)],
    log:
        FOLDER / "logs" / "evidence.log",
    retries: 0
    localrule: True
    params:
        sources=PRINTING,
        scale=PLAN.scale,
        # Not inputs: no rule of this scale makes them.
        own_size=lambda wildcards: [
            (own_size().text(table), own_size().folders(table))
            for table in own_size().wanted_tables.values()
        ],
    message:
        "Writing the evidence"
    script:
        "../workflow/scripts/evidence.py"


if SCALE.method_tables:

    # What the tables of all methods in common settings say about each method.
    rule evidence_methods:
        input:
            runs=lambda wildcards: SCALE.artifacts(*SCALE.method_tables),
            reasons=REASONS,
        output:
            FOLDER / METHODS_PAGE,
        log:
            FOLDER / "logs" / "evidence_methods.log",
        retries: 0
        localrule: True
        params:
            sources=PRINTING,
            tables=lambda wildcards: [
                (SCALE.text(table), SCALE.folders(table))
                for table in SCALE.method_tables
            ],
        message:
            "Writing the page of every method"
        script:
            "../workflow/scripts/evidence_methods.py"
