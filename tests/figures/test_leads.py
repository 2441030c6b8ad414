"""The figure of leads: what is decided, where, and in which setting can be seen."""

import math

import pytest
from matplotlib.colors import to_hex

from noisyfl.analysis.statistics import Headroom
from noisyfl.claims.leads import Lead
from noisyfl.figures.leads import COLOUR, leads_by_published
from noisyfl.figures.style import GREY, house_style, save


def lead(ours, error=1.0, paper="fedcorr", dataset="cifar10", published=9.0, as_published=False):
    return Lead(
        paper,
        f"{paper}_table1",
        dataset,
        "IID",
        "FedCorr",
        ("a", "b"),
        published,
        False,
        ours,
        False,
        "best",
        error,
        2,
        Headroom(50.0, 1.0),
        as_published,
    )


def points(panel):
    """Place, error, colour and marker of each lead."""
    found = []
    for one in panel.containers:
        line, _, bars = one.lines
        (low, high) = bars[0].get_segments()[0][:, 1]
        place = line.get_xdata()[0], line.get_ydata()[0]
        filled = to_hex(line.get_markerfacecolor()) == to_hex(line.get_color())
        found.append((place, (high - low) / 2, line.get_color(), line.get_marker(), filled))
    return found


@pytest.fixture
def draw():
    def drawn(*given):
        with house_style():
            return leads_by_published(given)

    return drawn


def test_each_lead_is_beside_the_published_one_in_the_panel_of_its_paper(draw):
    given = [
        lead(5.0),
        lead(-5.0, 2.0, dataset="mnist"),
        lead(0.5),
        lead(20.0, paper="rofl", as_published=True),
    ]
    figure = draw(*given)
    fedcorr, rofl = figure.axes
    assert (fedcorr.get_title(), rofl.get_title()) == ("FedCorr", "RoFL")
    assert points(fedcorr) == [
        ((9, 5), 1, COLOUR["supported"], "o", True),
        ((9, -5), 2, COLOUR["not supported"], "s", True),
        ((9, 0.5), 1, GREY, "o", False),
    ]
    assert points(rofl) == [((9, 20), 1, COLOUR["supported"], "*", True)]
    (legend,) = figure.legends
    assert [text.get_text() for text in legend.get_texts()] == [
        *("better than FedAvg", "worse", "undecided", "as large as published"),
        *("MNIST", "CIFAR-10", "in the paper's own setting"),
    ]


def test_a_lead_whose_error_is_unknown_is_undecided(draw):
    ((_, error, colour, _, filled),) = points(draw(lead(5.0, math.nan)).axes[0])
    assert (error, colour, filled) == (0, GREY, False)


def test_without_leads_the_figure_says_so(draw):
    (words,) = draw().texts
    assert words.get_text() == "no paper's own method can be compared with FedAvg yet"


def test_the_same_leads_give_the_same_bytes(draw, tmp_path):
    files = [tmp_path / f"{n}.png" for n in range(2)]
    for file in files:
        save(draw(lead(5.0), lead(2.0, paper="fedrn")), file)
    assert files[0].read_bytes() == files[1].read_bytes()
