# What is needed, and what it costs, before anything is submitted: snakemake plan
rule plan:
    localrule: True
    run:
        print(
            plan_text(
                PLAN,
                lambda run: run_files(run).provenance.exists(),
                CONFIG["device"],
            )
        )
