"""The commands of ``python -m noisyfl``, which do not need Snakemake."""
