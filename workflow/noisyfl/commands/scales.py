"""Commands of a scale: its costs, its progress, and the storing of its runs."""

from __future__ import annotations

import functools
import itertools
import os
import sys
import time
from collections.abc import Sequence
from pathlib import Path

from noisyfl.core.artifacts import Results, write_json
from noisyfl.core.options import BadInput
from noisyfl.core.places import IN_A_CLONE, ROOT
from noisyfl.core.tracked import REPRODUCED, done_in
from noisyfl.experiments.config import Configuration, check_folder, load_config
from noisyfl.experiments.demand import cheapest_cells, plan_text, runs_by_claim
from noisyfl.experiments.plan_file import read_plan
from noisyfl.experiments.progress import progress_text
from noisyfl.experiments.scale import layouts_of
from noisyfl.experiments.targets import (
    figures_of_these,
    runs_by_target,
    runs_of,
    tables_and_figures,
)
from noisyfl.runs.archive import archive
from noisyfl.runs.status import FOUND, scale_words

LONGEST = 86_400.0
"""Most seconds between two prints of the progress: a day."""


def print_plan(
    config: Sequence[Path],
    results: Path,
    device: str,
    *,
    target: str | None,
    claims: bool,
    cheapest: float | None,
    plugins: Sequence[str],
) -> None:
    """Print what each table needs: its runs, how many are shared or done, and the cost of the rest.

    With --claims, print what each claim of the papers needs to be judged by our numbers.

    With --cheapest, print files to request from Snakemake: the cheapest missing cells with a
    published number, as many as the device should train in so many hours.
    """
    if cheapest is not None and not cheapest > 0:
        raise BadInput(f"--cheapest: got {cheapest:g}, expected hours above 0")
    beside = {"--target": target, "--claims": claims}
    if cheapest is not None and (given := [name for name, value in beside.items() if value]):
        raise BadInput(
            f"--cheapest: expected without {' and '.join(given)}, since it looks at all cells"
        )
    scale, plan = read_plan(config, plugins=plugins, results=results)
    done = done_in(*layouts_of(scale))
    if cheapest is None:
        out_of_reach, figures = list[str](), list[str]()
        if claims:
            parts, out_of_reach = runs_by_claim(plan, target)
        else:
            parts, figures = runs_by_target(plan, target), figures_of_these(plan, target)
        print(plan_text(plan, parts, done, device, out_of_reach, figures))
        _say_what_is_not_trained(scale, not all(map(done, itertools.chain(*parts.values()))))
        return
    cells = cheapest_cells(plan, done, device, cheapest)
    if not cells:
        raise BadInput(
            f"--cheapest: no missing cell can be trained in {cheapest:g} hours ({device})"
        )
    for run in itertools.chain(*cells):
        print(Results(results).run(run).provenance)


def print_progress(
    config: Sequence[Path],
    target: str | None,
    results: Path,
    device: str,
    follow: float | None,
    plugins: Sequence[str] = (),
) -> None:
    """Print the progress of each table, what failed, and when all runs should be done."""
    if follow is not None and not 0 < follow <= LONGEST:
        raise BadInput(
            f"--follow: got {follow:g}, expected seconds above 0 and at most {LONGEST:g}"
        )
    scale, plan = read_plan(config, plugins=plugins, results=results)
    wanted = runs_of(tables_and_figures(plan, target).values())
    # A figure of noisy partitions has no runs, but may be the target.
    counted = runs_by_target(plan, target) or {target or plan.scale: wanted}
    layouts = layouts_of(scale)
    given = {} if load_config(config).results == results else {"results": str(results)}
    here = any(map(os.path.exists, FOUND))
    options = scale_words(config, given, FOUND[0] if here else ROOT / FOUND[0])
    text = functools.partial(progress_text, plan, layouts, device, counted, options=options)
    print(text())
    done = done_in(*layouts)
    _say_what_is_not_trained(scale, not all(map(done, wanted)))
    while follow is not None and not all(map(done, wanted)):
        time.sleep(follow)
        # A terminal is cleared, so that the same lines change; a file gets one text after another.
        print("\033[2J\033[H" if sys.stdout.isatty() else "")
        print(text(), flush=True)


def _say_what_is_not_trained(scale: Configuration, missing: bool) -> None:
    """Say if Snakemake trains none of the runs of a scale that are missing."""
    if missing and not scale.train_missing:
        print(
            "\nThis scale shows existing runs, so Snakemake does not train the missing ones; "
            "`--config train_missing=true` changes that."
        )


def write_specs(
    target: str, folder: Path, config: Sequence[Path], plugins: Sequence[str] = ()
) -> None:
    """Write the canonical spec of every run that a target needs as <id>.json."""
    check_folder(folder, "FOLDER")
    _, plan = read_plan(config, plugins=plugins)
    runs = runs_of(tables_and_figures(plan, target).values())
    for run in runs:
        write_json(folder / f"{run}.json", plan.runs[run])
    print(f"{len(runs)} specs in {folder}")


def archive_runs(
    config: Sequence[Path], results: Path, commit: str | None, plugins: Sequence[str] = ()
) -> None:
    """Move the finished runs of a scale to reproduced/, with the commit that trained them.

    Runs that other sources than the present ones have trained need --commit.
    """
    if not IN_A_CLONE:
        raise BadInput(f"archive: {REPRODUCED.packed} is an installed copy, expected a clone")
    check_folder(results, "--results", to_be_made=False)
    _, plan = read_plan(config, plugins=plugins, results=results)
    moved = archive(plan.runs, Results(results), REPRODUCED, commit)
    for run in moved:
        print(f"{run}  {plan.words_of(run)}")
    print(f"{len(moved)} runs moved to {REPRODUCED.packed}")
