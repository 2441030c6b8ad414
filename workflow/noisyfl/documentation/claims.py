"""The list of the papers' claims in docs/claims.md, with the verdicts of the tracked runs."""

from __future__ import annotations

import re
from pathlib import Path

from noisyfl.claims.judgement import Judgement, read_judgements
from noisyfl.core.options import BadInput
from noisyfl.core.places import ROOT
from noisyfl.documentation.markdown import table
from noisyfl.specs.published import PAPERS

PAGE = ROOT / "docs" / "claims.md"
BLOCK = re.compile(r"<!-- claims -->\n.*?<!-- end of claims -->", re.DOTALL)


def files() -> dict[Path, str]:
    """The page with its list of claims, from the verdicts of the scale ``desk``.

    Raises:
        BadInput: these verdicts have not been computed.
    """
    path = ROOT / "results" / "desk" / "claims.json"
    if not path.exists():
        raise BadInput(
            f"{path}: no such file, expected the verdicts; write them with make evidence"
        )
    block = block_of(read_judgements(path))
    return {PAGE: BLOCK.sub(lambda _: block, PAGE.read_text(encoding="utf-8"))}


def block_of(judgements: list[Judgement]) -> str:
    """A table for each paper, one row for each of its claims."""
    lines = ["<!-- claims -->"]
    for paper in dict.fromkeys(one.claim.paper for one in judgements):
        title = PAPERS[paper]
        rows = [
            (
                one.claim.name,
                one.claim.place,
                one.claim.sentence,
                one.published.verdict,
                f"[{one.ours.verdict}](evidence/{paper}.md)",
            )
            for one in judgements
            if one.claim.paper == paper
        ]
        header = ("claim", "place", f"what {title}'s paper claims", "published numbers", "ours")
        lines += [f"### {title}", "", *table(header, rows), ""]
    return "\n".join([*lines, "<!-- end of claims -->"])
