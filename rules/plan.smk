# What is needed, and what it costs, before anything is submitted: snakemake --cores 1 plan
rule plan:
    log:
        SCALE / "logs" / "plan.log",
    localrule: True
    message:
        "Counting what there is to be trained"
    run:
        text = plan_text(
            PLAN, lambda run: run_files(run).provenance.exists(), CONFIG["device"]
        )
        Path(log[0]).write_text(f"{text}\n")
        print(text)
