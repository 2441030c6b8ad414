"""Draw a figure of a paper from runs or noisy partitions."""

from __future__ import annotations

import importlib
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from noisyfl.analysis.runs import read_runs
from noisyfl.core.artifacts import RunFiles
from noisyfl.data import noisy_partition
from noisyfl.specs.descriptions import FigureDescription

FIRST_TRIAL = ("by_client", "among_clients")
"""Kinds of figures that draw the first trial of their cell alone."""


def draw_figure(
    description: FigureDescription,
    runs: Mapping[str, RunFiles],
    partitions: Sequence[Path],
    *files: Path,
) -> None:
    """Draw a figure into files; the same artifacts give the same bytes.

    Args:
        description: what is drawn; its ``kind`` is a name in :data:`KINDS`.
        runs: the artifact of every run that is drawn, by id.
        partitions: the noisy partitions that are drawn, in the description's order.
        files: get the figure: ``.png`` at 200 dots an inch, ``.pdf`` with its fonts embedded.

    Raises:
        BadInput: a run lacks what the figure draws.
        DamagedArtifact: a file is damaged, or another run's.
    """
    from noisyfl.figures import style

    place, *takes = KINDS[description.kind]
    diverged = _diverged(description, runs)
    part = description.without_runs(diverged.__contains__) if diverged else description
    with style.house_style():
        if part is None:
            figure = style.only_words("every run diverged")
        else:
            module, function = place.split(".")
            draw = getattr(importlib.import_module(f"noisyfl.figures.{module}"), function)
            read: dict[str, Callable[[], Any]] = {
                "runs": lambda: read_runs(runs),
                "partitions": lambda: [noisy_partition.read(path) for path in partitions],
            }
            figure = draw(part, *(read[one]() for one in takes))
        style.fold_titles(figure)
        style.set_indices(figure)
        if description.footer:
            left_out = f" · {len(diverged)} of {len(runs)} runs diverged" if diverged else ""
            style.stamp(figure, figure_origin(description) + left_out)
        style.save(figure, *files)


def _diverged(description: FigureDescription, runs: Mapping[str, RunFiles]) -> set[str]:
    """The runs of a figure's panels that diverged: what panels show is measured after the last
    round. (In figures of tables, marks show where a run diverged.)
    """
    if not description.panels:
        return set()
    return {run for run, found in read_runs(runs).items() if found.diverged}


def figure_origin(description: FigureDescription) -> str:
    """Where a figure comes from, for readers who see it alone: experiment, scale and trials.

    The trials are those that are drawn of a cell.
    """
    from noisyfl.figures.style import trials_in_words

    cells = [cell for row in description.table.runs for cell in row] if description.table else []
    most = 1 if description.kind in FIRST_TRIAL else None
    counts = {len(cell[:most]) for cell in cells if cell}
    trials = sorted(counts or ({1} if description.runs else set()))
    parts = [f"{description.experiment}/{description.name}", f"scale {description.scale}"]
    if trials:
        parts.append(trials_in_words(trials))
    return " · ".join(["noisyfl", *parts])


KINDS = {
    "by_round": ("curves.by_round", "runs"),
    "by_setting": ("by_setting.by_setting", "runs"),
    "by_client": ("clients.by_client", "runs", "partitions"),
    "among_clients": ("clients.among_clients", "runs"),
    "tradeoff": ("tradeoff.tradeoff", "runs"),
    "local_epochs": ("local_epochs.local_epochs",),
    "class_counts": ("partitions.class_counts", "partitions"),
    "noisy_partition": ("partitions.bubbles", "partitions"),
    "lid_scores": ("lid_scores.lid_scores", "runs", "partitions"),
    "local_models": ("local_models.local_models", "runs", "partitions"),
    "similarity": ("similarity.similarity", "runs", "partitions"),
    "detection": ("detection.detection", "runs"),
    "features": ("features.features", "runs"),
}
"""By the kind of figure, the function of this subpackage that draws it, and what that takes after
the description: ``runs``, by id, and ``partitions``, in the description's order."""
