"""Rule evidence_methods: what the tables of every method say of each."""

from collections import ChainMap
from functools import reduce
from pathlib import Path

from noisyfl.analysis.runs import described
from noisyfl.core.artifacts import write_text
from noisyfl.core.script import job
from noisyfl.pages.explanations import read_reasons
from noisyfl.pages.methods import methods_page
from noisyfl.specs.descriptions import TableDescription

with job(snakemake) as log:
    tables, runs = zip(*(described(*given) for given in snakemake.params.tables), strict=True)
    _, reasons = read_reasons([Path(file) for file in snakemake.input.reasons])
    whole = reduce(TableDescription.with_columns_of, tables)
    page = methods_page(whole, dict(ChainMap(*runs)), reasons)
    write_text(Path(snakemake.output[0]), page)
    log("done")
