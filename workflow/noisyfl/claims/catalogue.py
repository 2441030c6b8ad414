"""The claims of all papers, and the tables and figures that they are about."""

from __future__ import annotations

# Each of these modules adds its paper's claims, in this order, to those that declaration.py holds.
from noisyfl.claims import fedcni, fedcorr, fednoil, fedrn, rofl  # noqa: F401
from noisyfl.claims.declaration import CLAIMS


def tables_of_claims() -> list[str]:
    """The tables and figures, as ``<experiment>/<name>``, whose runs are needed to judge claims."""
    queries = [one for claim in CLAIMS.values() for one in claim.queries.values()]
    of_runs = [one.tables for one in queries if one.kind not in ("cells", "quotes")]
    return list(dict.fromkeys(table for tables in of_runs for table in tables))
