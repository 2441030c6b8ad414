"""Train what a comparison lacks, and read its runs."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pandas as pd

from noisyfl.analysis.compared import frame_of
from noisyfl.analysis.runs import Run, read_run
from noisyfl.core.artifacts import DamagedArtifact
from noisyfl.core.options import BadInput, within
from noisyfl.experiments.comparison import MethodComparison
from noisyfl.experiments.comparison_files import figure_of
from noisyfl.experiments.places import Places
from noisyfl.figures.draw import draw_figure
from noisyfl.runs.job import TrainingJob
from noisyfl.specs.identity import identity

FORMATS = (".png", ".pdf")
"""How the name of a figure's file may end."""

VALIDATION = "validation"
"""What ``--choose-on`` takes."""

Show = Callable[[pd.DataFrame, TrainingJob | None, str | None], None]
"""Shows how far a comparison is: takes the runs that there are, and the one that has ended, with
its error if it failed."""


def check_format(figure: Path, where: str) -> None:
    """Raise :class:`BadInput` unless a figure can be written to a file of this name."""
    if figure.suffix not in FORMATS:
        raise BadInput(f"{where}: got {str(figure)!r}, expected a name in {' or '.join(FORMATS)}")


def choose_first(
    wanted: MethodComparison, choose_on: str | None, where: str
) -> MethodComparison | None:
    """What is to be trained first, if values of options are to be chosen; :class:`BadInput` if they
    cannot be chosen on the validation part.
    """
    if choose_on is None:
        return None
    if choose_on != VALIDATION:
        raise BadInput(f"{where}: got {choose_on!r}, expected {VALIDATION!r}")
    with within(where=f"{where}: "):
        return wanted.on_validation()


def worth_of(frame: pd.DataFrame) -> dict[str, float]:
    """What each row is worth: the mean accuracy of its runs, as which -1 counts if one diverged."""
    accuracy = frame["accuracy"].fillna(-1.0)
    means = accuracy.groupby(frame["method"], sort=False).mean()
    return {str(method): float(mean) for method, mean in means.items()}


def train_comparison(
    wanted: MethodComparison,
    places: Places,
    show: Show,
    split: str = "test",
    keep_models: bool = False,
) -> pd.DataFrame:
    """Train the runs of a comparison that are missing, and read all.

    Args:
        show: is called at the beginning, and when a run has ended.
        split: what the frame says of the runs.
        keep_models: also save the final models; existing runs without one are trained once more.

    Returns:
        The frame of the runs that there are; those that failed are missing. If options have
        several values, a column of each such option has the run's value; for those of methods the
        column ``given`` has the method as the user wrote it, and for those of settings the column
        ``setting`` has what tells it from the others.

    Raises:
        BadInput: the data or a noisy partition cannot be made.
    """
    found: dict[str, Run] = {}
    jobs = []
    for run, spec in wanted.runs.items():
        job = places.job(spec, keep_models=keep_models)
        if (files := places.find(run)) and job.has_all(files):
            found[run] = read_run(run, files)
        else:
            jobs.append(job)
    jobs.sort(key=lambda job: job.spec["seed"])  # so that each row soon has a number

    def frame() -> pd.DataFrame:
        frames = []
        for one in wanted.settings:
            by_row = {name: map(identity, specs) for name, specs in one.specs.items()}
            there = {
                name: [found[run] for run in runs if run in found] for name, runs in by_row.items()
            }
            named = {"setting": one.name, **one.swept} if len(wanted.settings) > 1 else {}
            frames.append(frame_of(there, split).assign(**named))
        return pd.concat([one for one in frames if len(one)] or frames[:1], ignore_index=True)

    show(frame(), None, None)
    for job, outcome in places.train(jobs):
        run, error = job.run_id, outcome.error
        if error is None:
            try:
                found[run] = read_run(run, places.results.run(run))
            except DamagedArtifact as damage:
                error = str(damage)
        show(frame(), job, error)
    trained = frame()
    if not any(row.sweep for row in wanted.rows):
        return trained
    swept = [
        {"method": row.name, "given": row.sweep or row.name, **row.swept} for row in wanted.rows
    ]
    return trained.merge(pd.DataFrame(swept), on="method")


def draw_comparison(wanted: MethodComparison, places: Places, path: Path) -> None:
    """Draw the runs of a comparison that there are, see :func:`figure_of`."""
    there = {run: files for run in wanted.runs if (files := places.find(run))}
    draw_figure(figure_of(wanted, there), there, [], path)
