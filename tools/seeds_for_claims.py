"""Print how many of the papers' claims more seeds would decide, if all means stayed as they are.

With n times as many seeds, a mean differs by 1/√n as much from what other seeds give. Run
``snakemake --cores all claims --configfile=FILE`` first, then this with the same file.
"""

from __future__ import annotations

import argparse
import math
from pathlib import Path
from typing import Any
from unittest.mock import patch

import numpy as np

from noisyfl.analysis.runs import run_files
from noisyfl.analysis.spreads import Spreads
from noisyfl.analysis.statistics import UNDECIDED, draws_between_rounds
from noisyfl.claims import artifacts
from noisyfl.claims.judgement import judge
from noisyfl.claims.sources import our_side, published
from noisyfl.experiments.config import published_files
from noisyfl.experiments.plan_file import read_plan
from noisyfl.experiments.scale import Scale
from noisyfl.pages.claims import tally
from noisyfl.specs.descriptions import read_description
from noisyfl.specs.published import read_published

TIMES = (1, 2, 3, 5, 10, 20, 50, 1000)


def main() -> None:
    """Print a line for each number of seeds."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("config", type=Path)
    scale = Scale(*read_plan([parser.parse_args().config], print))
    parts = scale.claimed
    ours = artifacts.Artifacts(
        {name: read_description(scale.text(part)) for name, part in parts.items()},
        run_files(scale.folders(*parts.values())),
        {Path(path).stem: Path(path) for path in scale.partitions(*parts.values())},
    )
    printed = published(read_published(*published_files(scale.config)))
    draws = Spreads.draws
    for times in TIMES:
        shrink = 1 / math.sqrt(times)

        def of_means(*args: Any, shrink: float = shrink) -> np.ndarray:
            return shrink * draws(*args)

        def between_rounds(*args: Any, shrink: float = shrink) -> np.ndarray:
            return shrink * draws_between_rounds(*args)

        with (
            patch.object(Spreads, "draws", of_means),
            patch.object(artifacts, "draws_between_rounds", between_rounds),
        ):
            found = judge(printed, our_side(scale.folder / "cells.csv", ours.sources()))
        undecided = [one.claim.name for one in found if one.ours.verdict == UNDECIDED]
        print(f"{times:4} x: {tally([one.ours for one in found])}: {', '.join(undecided)}")


if __name__ == "__main__":
    main()
