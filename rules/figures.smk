# Figures: drawn from runs or noisy partitions, as PNG and PDF.
rule figure:
    input:
        runs=lambda wildcards: SCALE.artifacts(SCALE.part(wildcards)),
        partitions=lambda wildcards: list(
            map(SCALE.partition_file, SCALE.part(wildcards).partitions)
        ),
    output:
        png=report(
            FOLDER / "figures" / "{experiment}" / "{name}.png",
            caption="../workflow/report/figure.rst",
            category="Figures",
            labels={"experiment": "{experiment}", "figure": "{name}"},
        ),
        pdf=FOLDER / "figures" / "{experiment}" / "{name}.pdf",
    log:
        FOLDER / "logs" / "figures" / "{experiment}" / "{name}.log",
    retries: 0
    localrule: True
    params:
        sources=PRINTING,
        title=lambda wildcards: in_restructured_text(SCALE.part(wildcards).title),
        caption=lambda wildcards: in_restructured_text(SCALE.part(wildcards).caption),
        description=lambda wildcards: SCALE.text(SCALE.part(wildcards)),
        folders=lambda wildcards: SCALE.folders(SCALE.part(wildcards)),
    message:
        "Drawing {wildcards.experiment}/{wildcards.name}"
    script:
        "../workflow/scripts/figure.py"
