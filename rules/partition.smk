# Noisy partitions: which sample is on which client, with its true and its given label.
rule partition:
    input:
        # The spec names the dataset, so rebuilding an equal file changes nothing.
        data=ancient(lambda wildcards: SCALE.partition_input(wildcards.partition)),
    output:
        RESULTS.partition("{partition}"),
    log:
        RESULTS.root / "logs" / "partitions" / "{partition}.log",
    benchmark:
        RESULTS.root / "benchmarks" / "partitions" / "{partition}.tsv"
    retries: 0
    localrule: True
    params:
        spec=lambda wildcards: SCALE.partition_text(wildcards.partition),
    message:
        "Creating the noisy partition {wildcards.partition}"
    script:
        "../workflow/scripts/partition.py"
