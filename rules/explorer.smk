# The explorer: tables in one page, in which every cell explains its value.
# All tables of the scale.
rule explorer:
    input:
        # The inputs of these are all runs, so no run is named here: fewer files are planned faster.
        frames=SCALE.frames(),
        claims=[FOLDER / "claims.json"] if SCALE.compared else [],
        published=PUBLISHED,
        reasons=sorted((ROOT / "workflow" / "reasons").rglob("*.yaml")),
        # The papers' own settings, which the scale's differ from, are shown as well.
        experiments=EXPERIMENT_FILES,
    output:
        report(
            FOLDER / "explorer.html",
            caption="../workflow/report/explorer.rst",
            category="Explorer",
        ),
    log:
        FOLDER / "logs" / "explorer.log",
    retries: 0
    localrule: True
    params:
        sources=PRINTING,
        content=lambda wildcards: explorer_content(SCALE.wanted_tables),
    message:
        "Building the explorer"
    script:
        "../workflow/scripts/explorer.py"


# The tables of an experiment, or a single table, requested by name.
use rule explorer as table_explorer with:
    input:
        frames=lambda wildcards: SCALE.frames(SCALE.tables_in(wildcards.target)),
        published=PUBLISHED,
        reasons=sorted((ROOT / "workflow" / "reasons").rglob("*.yaml")),
        experiments=EXPERIMENT_FILES,
    output:
        FOLDER / "explorer" / "{target}.html",
    log:
        FOLDER / "logs" / "explorer" / "{target}.log",
    wildcard_constraints:
        target="[a-z0-9_]+(/[a-z0-9_]+)?",
    localrule: True
    params:
        sources=PRINTING,
        content=lambda wildcards: explorer_content(SCALE.tables_in(wildcards.target)),
    message:
        "Building the explorer of {wildcards.target}"
