"""Which runs of a scale judge each claim."""

from __future__ import annotations

from noisyfl.claims.catalogue import all_claims
from noisyfl.claims.judgement import out_of_reach
from noisyfl.claims.lines import runs_of_claim
from noisyfl.experiments.config import PUBLISHED
from noisyfl.experiments.plan import Plan
from noisyfl.experiments.targets import tables_and_figures
from noisyfl.specs.published import read_published


def runs_by_claim(plan: Plan, target: str | None) -> tuple[dict[str, list[str]], list[str]]:
    """The ids of the runs that are needed to judge each claim by our numbers.

    Args:
        plan: of a scale.
        target: what the tables and figures with the numbers are part of, see
            :func:`tables_and_figures`.

    Returns:
        runs: by claim, the one that needs the fewest first.
        out_of_reach: other claims, on which the tables and figures could say nothing.
    """
    parts, claims = tables_and_figures(plan, target), all_claims()
    undecided = out_of_reach(read_published(PUBLISHED), parts)
    found = {name: runs_of_claim(claims[name], parts) for name in claims if name not in undecided}
    needed = sorted(filter(found.get, found), key=lambda name: len(found[name]))
    return {name: found[name] for name in needed}, [name for name in claims if name not in needed]
