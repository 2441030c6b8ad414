"""Schedules of local epochs, computed from methods' options alone (FedNoiL, Figure 1)."""

from __future__ import annotations

from matplotlib.figure import Figure
from matplotlib.ticker import MaxNLocator

from noisyfl.analysis.local_epochs import epochs_by_round
from noisyfl.figures.looks import legend_of_lines, looks
from noisyfl.figures.style import new_figure
from noisyfl.specs.descriptions import FigureDescription


def local_epochs(description: FigureDescription) -> Figure:
    """Draw the figure: one line per method, its local epochs by round.

    Args:
        description: ``rounds``, and ``panels``, each with a ``name`` and a ``method``.

    Raises:
        BadInput: a method has no schedule of local epochs of its own, which planning has asked.
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
