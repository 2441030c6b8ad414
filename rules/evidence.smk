from noisyfl.specs.published import PAPERS


# What the table of every method in common settings says of each method and of the papers' claims.
rule evidence:
    input:
        runs=evidence_runs,
        claims=SCALE / "claims.json",
        cells=SCALE / "cells.csv",
        reasons=sorted(
            (Path(workflow.basedir) / "reproduced" / "reasons").glob("*.yaml")
        ),
    output:
        SCALE / "evidence.md",
        [SCALE / "evidence" / f"{page}.md" for page in (*PAPERS, "methods")],
    log:
        SCALE / "logs" / "evidence.log",
    retries: 0
    localrule: True
    params:
        sources=PRINTING,
        description=lambda wildcards: description_text(EVIDENCE),
        folders=evidence_folders,
    message:
        "Writing the evidence"
    script:
        "../workflow/scripts/evidence.py"
