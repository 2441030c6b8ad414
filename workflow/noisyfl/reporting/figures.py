"""Draw a figure of a paper from runs or noisy partitions."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from noisyfl.artifacts import RunFiles
from noisyfl.data import noisy_partition
from noisyfl.options import find


def draw_figure(
    description: Mapping[str, Any],
    runs: Mapping[str, RunFiles],
    partitions: list[Path],
    *,
    png: Path,
    pdf: Path,
) -> None:
    """Draw a figure as PNG and PDF; the same artifacts give the same bytes.

    Args:
        description: see :class:`noisyfl.experiments.Figure`; its ``kind`` is a name in
            :data:`KINDS`.
        runs: the artifact of every run that is drawn, by id.
        partitions: the noisy partitions that are drawn, in the description's order.
        png: gets the figure at 200 dots an inch.
        pdf: gets the same, with its fonts.

    Raises:
        BadInput: there is no such kind of figure, or a run lacks what is to be drawn.
        DamagedArtifact: a file is damaged, or another run's.
    """
    from noisyfl.reporting import style

    draw = find(KINDS, description["kind"], "kind of figure", description["name"])
    with style.house_style():
        figure = draw(description, runs, partitions)
        style.save(figure, png, pdf)


def _accuracy_by_round(
    description: Mapping[str, Any], runs: Mapping[str, RunFiles], partitions: list[Path]
) -> Any:
    from noisyfl.reporting.curves import accuracy_by_round
    from noisyfl.reporting.runs import read_runs

    return accuracy_by_round(description, read_runs(runs))


def _class_counts(
    description: Mapping[str, Any], runs: Mapping[str, RunFiles], partitions: list[Path]
) -> Any:
    from noisyfl.reporting.partitions import class_counts

    return class_counts(description, [noisy_partition.read(path) for path in partitions])


def _noisy_partition(
    description: Mapping[str, Any], runs: Mapping[str, RunFiles], partitions: list[Path]
) -> Any:
    from noisyfl.reporting.partitions import bubbles

    return bubbles(description, [noisy_partition.read(path) for path in partitions])


def _lid_scores(
    description: Mapping[str, Any], runs: Mapping[str, RunFiles], partitions: list[Path]
) -> Any:
    from noisyfl.reporting.lid_scores import lid_scores

    (run,) = description["cells"]
    return lid_scores(runs[run], noisy_partition.read(partitions[0]))


KINDS: dict[str, Callable[..., Any]] = {
    "accuracy_by_round": _accuracy_by_round,
    "class_counts": _class_counts,
    "noisy_partition": _noisy_partition,
    "lid_scores": _lid_scores,
}
