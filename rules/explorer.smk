# The explorer: all of the scale's tables in one page, in which every cell explains its value.
rule explorer:
    input:
        # The inputs of these are all runs, so no run is named here: fewer files are planned faster.
        frames=SCALE.frames(),
        claims=[FOLDER / "claims.json"] if SCALE.compared else [],
        published=PUBLISHED,
        reasons=sorted((ROOT / "workflow" / "reasons").rglob("*.yaml")),
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
        # Texts of users reach the report, whose scripts they must not end.
        scale=lambda wildcards: script_safe(
            {"name": CONFIG_NAME, "config": CONFIG, "options": scale_options()}
        ),
        layouts=[str(layout.root) for layout in SCALE.layouts],
        tables=lambda wildcards: [
            SCALE.text(table) for table in SCALE.wanted_tables.values()
        ],
        folders=lambda wildcards: SCALE.folders(*SCALE.wanted_tables.values()),
    message:
        "Making the explorer"
    script:
        "../workflow/scripts/explorer.py"
