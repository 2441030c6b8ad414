"""What claims need: tables and figures, runs, and printed numbers."""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Iterator, Mapping, Sequence

from noisyfl.claims.catalogue import CLAIMS
from noisyfl.claims.declaration import Claim
from noisyfl.claims.judgement import examine
from noisyfl.claims.labels import AS_PUBLISHED, cell_labels
from noisyfl.claims.lines import lines_of
from noisyfl.claims.query import Query
from noisyfl.claims.sources import published
from noisyfl.specs.descriptions import Description, TableDescription
from noisyfl.specs.published import KEY, Published


def tables_of_claims() -> list[str]:
    """The tables and figures, as ``<experiment>/<name>``, whose runs are needed to judge claims."""
    queries = [one for claim in CLAIMS.values() for one in claim.queries.values()]
    of_runs = [one.tables for one in queries if one.kind not in ("cells", "quotes")]
    return list(dict.fromkeys(table for tables in of_runs for table in tables))


def runs_of_claim(claim: Claim, parts: Mapping[str, Description]) -> list[str]:
    """The runs that it takes to judge a claim by our numbers, each once."""
    runs: dict[str, None] = {}
    for query in claim.queries.values():
        of_lines = (line.runs for line in lines_of(query, parts))
        found = _runs_of_cells(query, parts) if query.kind == "cells" else of_lines
        runs |= dict.fromkeys(itertools.chain(*found))
    return list(runs)


def _runs_of_cells(query: Query, parts: Mapping[str, Description]) -> Iterator[Sequence[str]]:
    """The runs of each cell that shows a number of a query."""
    for part in map(parts.get, query.tables):
        if not isinstance(part, TableDescription):
            continue
        for cells in part.cells:
            runs = {c.name: cell.runs for c, cell in zip(part.columns, cells, strict=True)}
            for cell, column in zip(cells, part.columns, strict=True):
                if set(cell.labels) != set(KEY):
                    continue
                known = {**cell_labels(cell.labels), AS_PUBLISHED: float(cell.as_published)}
                if query.fits(known, ("measure", "converged")):
                    yield from (runs[one] for one in column.mean_of or [column.name])


def out_of_reach(printed: Iterable[Published], parts: Mapping[str, Description]) -> list[str]:
    """The claims that these tables cannot decide with any numbers.

    Such a claim compares printed numbers, and for each comparison the tables lack one.
    """
    tables = [part for part in parts.values() if isinstance(part, TableDescription)]
    made = (cell.labels for part in tables for row in part.cells for cell in row)
    keys = {tuple(labels[name] for name in KEY) for labels in made if set(labels) == set(KEY)}
    side = published(printed, keys)
    found = []
    for claim in CLAIMS.values():
        if {query.kind for query in claim.queries.values()} <= set(side.sources):
            cases = (case for check in examine(claim, side).checks for case in check.cases)
            if not any(case.known for case in cases):
                found.append(claim.name)
    return found
