# Runs: one job trains one method in one setting with one seed.
rule train:
    input:
        # The run's id covers what these hold, so equal files made anew retrain nothing.
        train=ancient(run_dataset("train")),
        test=ancient(run_dataset("test")),
        partition=ancient(run_partition),
    output:
        spec=RESULTS.run("{run}").spec,
        rounds=RESULTS.run("{run}").rounds,
        clients=RESULTS.run("{run}").clients,
        provenance=RESULTS.run("{run}").provenance,
    log:
        RESULTS.root / "logs" / "runs" / "{run}.log",
    benchmark:
        RESULTS.root / "benchmarks" / "runs" / "{run}.tsv"
    threads: 1
    resources:
        mem_mb=run_memory,
        runtime=run_minutes,
    params:
        # Nothing but the spec: whatever stands here retrains the run when it changes.
        spec=run_spec_text,
    message:
        "Training {wildcards.run}"
    script:
        "../workflow/scripts/train.py"
