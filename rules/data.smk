# Datasets: one Parquet file for each part, made from official files or copied from prepared ones.
rule data:
    output:
        train=RESULTS.data("{dataset}", "train"),
        test=RESULTS.data("{dataset}", "test"),
    log:
        RESULTS.root / "logs" / "data" / "{dataset}.log",
    benchmark:
        RESULTS.root / "benchmarks" / "data" / "{dataset}.tsv"
    # Downloads have their own retries; a retry does not mend missing or damaged files.
    retries: 0
    localrule: True
    message:
        "Preparing the dataset {wildcards.dataset}"
    script:
        "../workflow/scripts/data.py"
