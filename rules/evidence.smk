from noisyfl.specs.published import PAPERS


# What the table of every method in common settings says of each method and of the papers' claims.
rule evidence:
    input:
        runs=lambda wildcards: SCALE.artifacts(SCALE.evidence),
        claims=FOLDER / "claims.json",
        cells=FOLDER / "cells.csv",
        reasons=sorted((ROOT / TRACKED / "reasons").glob("*.yaml")),
    output:
        FOLDER / "evidence.md",
        [FOLDER / "evidence" / f"{page}.md" for page in (*PAPERS, "methods")],
    log:
        FOLDER / "logs" / "evidence.log",
    retries: 0
    localrule: True
    params:
        sources=PRINTING,
        description=lambda wildcards: SCALE.text(SCALE.evidence),
        folders=lambda wildcards: SCALE.folders(SCALE.evidence),
    message:
        "Writing the evidence"
    script:
        "../workflow/scripts/evidence.py"
