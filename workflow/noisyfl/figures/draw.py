"""Draw a figure of a paper from runs or noisy partitions."""

from __future__ import annotations

import importlib
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from noisyfl.analysis.runs import read_runs
from noisyfl.core.artifacts import RunFiles
from noisyfl.core.options import find
from noisyfl.data import noisy_partition
from noisyfl.specs.descriptions import FigureDescription

FIRST_TRIAL = ("by_client", "among_clients")
"""Kinds of figures that draw the first trial of their cell alone."""


def draw_figure(
    description: FigureDescription,
    runs: Mapping[str, RunFiles],
    partitions: Sequence[Path],
    *,
    png: Path,
    pdf: Path,
) -> None:
    """Draw a figure as PNG and PDF; the same artifacts give the same bytes.

    Args:
        description: what is drawn; its ``kind`` is a name in :data:`KINDS`.
        runs: the artifact of every run that is drawn, by id.
        partitions: the noisy partitions that are drawn, in the description's order.
        png: gets the figure at 200 dots an inch.
        pdf: gets the same figure, with its fonts embedded.

    Raises:
        BadInput: there is no such kind of figure, or a run lacks what the figure draws.
        DamagedArtifact: a file is damaged, or another run's.
    """
    from noisyfl.figures import style

    draw = find(KINDS, description.kind, "kind of figure", description.name)
    diverged = _diverged(description, runs)
    part = description.without_runs(diverged.__contains__) if diverged else description
    with style.house_style():
        if part is None:
            figure = style.only_words("every run diverged")
        else:
            figure = draw(part, runs, partitions)
        style.fold_titles(figure)
        if description.footer:
            left_out = f" · {len(diverged)} of {len(runs)} runs diverged" if diverged else ""
            style.stamp(figure, figure_origin(description) + left_out)
        style.save(figure, png, pdf)


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
    cells = [cell for row in description.table.runs for cell in row] if description.table else []
    most = 1 if description.kind in FIRST_TRIAL else None
    counts = {len(cell[:most]) for cell in cells if cell}
    trials = sorted(counts or ({1} if description.runs else set()))
    parts = [f"{description.experiment}/{description.name}", f"scale {description.scale}"]
    if trials:
        counted = " or ".join(map(str, trials))
        parts.append(f"{counted} trial{'s' if trials[-1] > 1 else ''}")
    return " · ".join(["noisyfl", *parts])


Draw = Callable[[FigureDescription, Mapping[str, RunFiles], Sequence[Path]], Any]


def _by(place: str, *takes: str) -> Draw:
    """Wrap a function of this package so that its module is imported when it is first called.

    Args:
        place: the function, as ``module.function``.
        takes: its arguments after the description: ``runs``, by id, and ``partitions``, in the
            description's order.
    """
    module, function = place.split(".")

    def draw(
        description: FigureDescription, runs: Mapping[str, RunFiles], partitions: Sequence[Path]
    ) -> Any:
        read = {
            "runs": lambda: read_runs(runs),
            "partitions": lambda: [noisy_partition.read(path) for path in partitions],
        }
        draw_kind = getattr(importlib.import_module(f"noisyfl.figures.{module}"), function)
        return draw_kind(description, *(read[part]() for part in takes))

    return draw


KINDS: dict[str, Draw] = {
    "by_round": _by("curves.by_round", "runs"),
    "by_setting": _by("by_setting.by_setting", "runs"),
    "by_client": _by("clients.by_client", "runs", "partitions"),
    "among_clients": _by("clients.among_clients", "runs"),
    "tradeoff": _by("tradeoff.tradeoff", "runs"),
    "local_epochs": _by("local_epochs.local_epochs"),
    "class_counts": _by("partitions.class_counts", "partitions"),
    "noisy_partition": _by("partitions.bubbles", "partitions"),
    "lid_scores": _by("lid_scores.lid_scores", "runs", "partitions"),
    "local_models": _by("local_models.local_models", "runs", "partitions"),
    "similarity": _by("similarity.similarity", "runs", "partitions"),
    "detection": _by("detection.detection", "runs"),
    "features": _by("features.features", "runs"),
}
"""The functions that draw figures, by the kind of figure."""
