"""Schedules of local epochs, computed from methods' options alone (FedNoiL, Figure 1)."""

from __future__ import annotations

from typing import Any

from matplotlib.figure import Figure
from matplotlib.ticker import MaxNLocator

from noisyfl.core.options import BadInput
from noisyfl.figures.looks import legend_of_lines, looks
from noisyfl.figures.style import new_figure
from noisyfl.simulation.schedule import Schedule
from noisyfl.specs.build import build_method
from noisyfl.specs.descriptions import FigureDescription


def local_epochs(description: FigureDescription) -> Figure:
    """Draw the figure: one line per method, its local epochs by round.

    Args:
        description: ``rounds``, and ``panels``, each with a ``name`` and a ``method``.

    Raises:
        BadInput: a method has no schedule of local epochs of its own.
    """
    lines, rounds = description.panels, range(1, description.rounds + 1)
    styles = looks([line.method for line in lines])
    figure = new_figure(3.6)
    panel = figure.subplots()
    for n, (line, look) in enumerate(zip(lines, styles, strict=True)):
        epochs = epochs_by_round(line.method, len(rounds), description.name)
        panel.plot(rounds, epochs, **look.line(len(rounds), n / len(lines)))
    panel.set_xlim(left=0)
    panel.set_ylim(bottom=0)
    panel.yaxis.set_major_locator(MaxNLocator(6, integer=True))
    panel.set_xlabel("round")
    panel.set_ylabel("local epochs")
    shown = [(line.name, look) for line, look in zip(lines, styles, strict=True)]
    legend_of_lines(figure, shown)
    return figure


def epochs_by_round(method: Any, rounds: int, where: str) -> list[int]:
    """The local epochs of each round of a run, in order.

    Args:
        method: the canonical method.
        rounds: how many rounds the run has.
        where: what the error messages call the figure.

    Raises:
        BadInput: the method has no schedule of local epochs of its own.
    """
    _, side = build_method(method, where)
    one, two = (
        [side.local_schedule(r, _schedule(rounds, epochs)).local_epochs for r in range(rounds)]
        for epochs in (1, 2)
    )
    if one != two:
        raise BadInput(f"{where}: {side.name} has the run's local epochs, and none of its own")
    return one


def _schedule(rounds: int, epochs: int) -> Schedule:
    """A run's schedule, in which only the rounds and the local epochs matter."""
    return Schedule(
        rounds=rounds, local_epochs=epochs, participation=1, batch_size=1, learning_rate=1
    )
