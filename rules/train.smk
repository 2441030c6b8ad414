# Runs: one job trains one method in one setting with one seed.
onstart:
    check_jobs()


rule train:
    input:
        # One function gives all inputs, since Snakemake takes long to call thousands.
        lambda wildcards: list(map(ancient, SCALE.train_inputs(wildcards.run))),
    output:
        spec=RESULTS.run("{run}").spec,
        rounds=RESULTS.run("{run}").rounds,
        clients=RESULTS.run("{run}").clients,
        provenance=RESULTS.run("{run}").provenance,
    log:
        RESULTS.log("{run}"),
    # Used where $SNAKEMAKE_OUTPUT_CACHE names a folder (profiles/default); with `True`, Snakemake
    # would advise everybody else to switch it on. It allows no `benchmark:`; time and
    # memory are in the provenance.
    cache: "hash-omit-software"
    priority: run_order
    threads: 1
    resources:
        mem_mb=run_memory,
        runtime=run_minutes,
        attempt=lambda wildcards, attempt: attempt,
    params:
        # Nothing but the spec: a change of anything here would retrain the run.
        spec=lambda wildcards: SCALE.run_text(wildcards.run),
    message:
        "Training the run {wildcards.run}"
    script:
        "../workflow/scripts/train.py"
