from noisyfl.pages.evidence_paths import PAGES


# What the tables of every method in common settings say of each method and of the papers' claims.
rule evidence:
    input:
        runs=lambda wildcards: SCALE.artifacts(*SCALE.evidence),
        claims=FOLDER / "claims.json",
        cells=FOLDER / "cells.csv",
        published=PUBLISHED,
        reasons=sorted((REPRODUCED.packed / "reasons").glob("*.yaml")),
    output:
        [FOLDER / page for page in PAGES],
    log:
        FOLDER / "logs" / "evidence.log",
    retries: 0
    localrule: True
    params:
        sources=PRINTING,
        tables=lambda wildcards: [
            (SCALE.text(table), SCALE.folders(table)) for table in SCALE.evidence
        ],
        # Not inputs: no rule of this scale makes them.
        own_size=lambda wildcards: [
            (own_size().text(table), own_size().folders(table))
            for table in own_size().wanted_tables.values()
        ],
    message:
        "Writing the evidence"
    script:
        "../workflow/scripts/evidence.py"
