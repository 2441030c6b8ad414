"""A figure of how much better each paper's own method is than FedAvg: in the paper, and here."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from typing import Any

from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D

from noisyfl.analysis.names import DATASETS
from noisyfl.analysis.statistics import UNDECIDED
from noisyfl.claims.leads import Lead
from noisyfl.figures.looks import COLOURS
from noisyfl.figures.style import GREY, legend, new_figure, only_words
from noisyfl.specs.published import PAPERS

COLOUR = {"supported": COLOURS["blue"], "not supported": COLOURS["vermilion"], UNDECIDED: GREY}
"""The colours of leads, by their verdict."""

MARKERS = dict(zip(DATASETS, ("s", "^", "o", "v", "D", "P", "X"), strict=True))
"""The markers of leads, by the dataset."""

AS_PUBLISHED = "*"
"""The marker of a lead in the paper's own setting."""

EQUAL: dict[str, Any] = {"linestyle": (0, (4, 2)), "linewidth": 0.8}
"""The line on which our lead is the published one."""


def leads_by_published(given: Sequence[Lead]) -> Figure:
    """Draw our leads by the published ones, a panel for each paper, with intervals of 95 %."""
    if not given:
        return only_words("no paper's own method can be compared with FedAvg yet")
    papers = [paper for paper in PAPERS if any(lead.paper == paper for lead in given)]
    figure = new_figure(2.4)
    panels = figure.subplots(1, len(papers), squeeze=False).flat
    for panel, paper in zip(panels, papers, strict=True):
        panel.set_title(PAPERS[paper])
        _panel(panel, [lead for lead in given if lead.paper == paper])
    figure.supxlabel("published lead over FedAvg, points", fontsize=8)
    figure.axes[0].set_ylabel("our lead, points")
    legend(figure, list(_handles(given)))
    return figure


def _panel(panel: Axes, shown: Sequence[Lead]) -> None:
    panel.axhline(0, color=GREY, linewidth=0.8)
    panel.axline((0, 0), slope=1, color=GREY, **EQUAL)
    for lead in shown:
        panel.errorbar(
            lead.published,
            lead.ours,
            yerr=0 if math.isnan(lead.error) else lead.error,
            elinewidth=0.8,
            **_look(_marker(lead), lead.verdict),
        )
    panel.set_xlim(right=1.08 * max(5.0, *(lead.published for lead in shown)))


def _marker(lead: Lead) -> str:
    return AS_PUBLISHED if lead.as_published else MARKERS[lead.dataset]


def _look(marker: str, verdict: str = "") -> dict[str, Any]:
    """How a lead is drawn: empty if it is undecided."""
    colour = COLOUR.get(verdict, GREY)
    return {
        "color": colour,
        "linestyle": "none",
        "marker": marker,
        "markersize": 9.0 if marker == AS_PUBLISHED else 4.0,
        "markerfacecolor": "white" if verdict == UNDECIDED else colour,
    }


def _handles(given: Sequence[Lead]) -> Iterator[Line2D]:
    for verdict, label in zip(COLOUR, ("better than FedAvg", "worse", "undecided"), strict=True):
        yield Line2D([], [], label=label, **_look("o", verdict))
    yield Line2D([], [], label="as large as published", color=GREY, **EQUAL)
    markers = {_marker(lead) for lead in given}
    for name, marker in MARKERS.items():
        if marker in markers:
            yield Line2D([], [], label=DATASETS[name], **_look(marker))
    if AS_PUBLISHED in markers:
        yield Line2D([], [], label="in the paper's own setting", **_look(AS_PUBLISHED))
