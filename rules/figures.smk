# Figures: drawn from runs or noisy partitions, as PNG and PDF.
rule figure:
    input:
        runs=figure_runs,
        partitions=figure_partitions,
    output:
        png=report(
            SCALE / "figures" / "{experiment}" / "{name}.png",
            caption="../workflow/report/figure.rst",
            category="Figures",
            labels={"experiment": "{experiment}", "figure": "{name}"},
        ),
        pdf=SCALE / "figures" / "{experiment}" / "{name}.pdf",
    log:
        SCALE / "logs" / "figures" / "{experiment}" / "{name}.log",
    retries: 0
    localrule: True
    params:
        sources=PRINTING,
        title=figure_title,
        caption=figure_caption,
        description=figure_description,
        folders=figure_folders,
    message:
        "Drawing {wildcards.experiment}/{wildcards.name}"
    script:
        "../workflow/scripts/figure.py"
