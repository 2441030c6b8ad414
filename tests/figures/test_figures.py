import re
from types import SimpleNamespace

import matplotlib
import numpy as np
import pytest
from matplotlib.colors import to_rgba
from matplotlib.lines import Line2D

from descriptions import described
from noisyfl.analysis.clients import count_classes
from noisyfl.analysis.noisy_clients import lid_scores_of
from noisyfl.analysis.runs import read_run
from noisyfl.core.options import BadInput
from noisyfl.data import noisy_partition
from noisyfl.figures import lid_scores, partitions, style
from noisyfl.figures.draw import FIRST_TRIAL, KINDS, draw_figure, figure_origin

NAMES = ("lid", "cumulative_lid")

FROM_PROBES = ("local_models", "similarity", "detection", "features")
"""Kinds that need more than a run's usual records; they have tests of their own."""


@pytest.fixture
def fedcorr(runs, make_partition):
    """A run whose scores follow the noise levels, but for one clean client; and its partition."""
    path = make_partition()
    level = noisy_partition.read(path).realised
    assert 0 < (level > 0).sum() < 10
    score = 1 + 2 * level
    score[np.flatnonzero(level == 0)[0]] = 2.5
    early = [dict.fromkeys(NAMES, 0.0) | {"round": 1, "client": c} for c in range(10)]
    late = [
        {"round": 2, "client": c, "lid": score[c], "cumulative_lid": 3 * score[c]}
        for c in reversed(range(10))
    ]
    run = runs.add([0.5, 0.6], method="fedcorr", clients=[*early, *late])
    return SimpleNamespace(run=run, partition=path, level=level, score=score)


@pytest.fixture
def figures(runs, make_partition, fedcorr):
    """A description of each kind of figure, with the partitions that it is drawn from."""
    work = {"samples_backward": [30, 30]}
    found = {"label_precision": 0.5, "label_recall": 0.7}
    clients = [{"round": r, "client": c, **found} for r in (1, 2) for c in range(10)]
    trials = [runs.add([0.2, 0.4 + s / 10], seed=s, columns=work, clients=clients) for s in (1, 2)]
    ended = runs.add(
        [0.2, 0.3, 0.1],
        seed=3,
        columns={"samples_backward": [30] * 3},
        provenance={"status": "diverged"},
    )
    skewed = make_partition(
        partition={"name": "dirichlet", "alpha": 1, "clients": 30, "min_size": 1}
    )
    table = {
        "columns": [{"name": name, "group": "", "x": x} for name, x in (("a", 0.2), ("b", 0.4))],
        "rows": [{"name": "x", "method": "fedavg"}, {"name": "y", "method": "rofl"}],
        "cells": [[trials, trials[:1]], [[ended]] * 2],
        "metric": "test_accuracy",
        "statistic": "best",
    }
    cell = {
        "columns": table["columns"][:1],
        "rows": table["rows"][:1],
        "cells": [[trials]],
        "x": ["noise_level", "samples"],
        "y": ["label_recall"],
        "metrics": ["label_precision"],
    }
    fednoil = [{"name": "c", "method": 'fednoil(variant="cosine")'}]
    panels = {"panels": [{"name": "p"}, {"name": "q"}]}
    common = {"name": "f", "title": "A figure", "caption": "Seen.", "scale": "tiny"}
    return {
        "by_round": ({**table, "marks": [{"at": 1.5, "label": "half"}]}, []),
        "by_setting": ({**table, "xlabel": "noise"}, []),
        "by_client": (cell, [fedcorr.partition]),
        "among_clients": (cell, []),
        "tradeoff": (table, []),
        "local_epochs": ({"rounds": 30, "panels": fednoil}, []),
        "class_counts": (panels, [fedcorr.partition, skewed]),
        "noisy_partition": (panels, [fedcorr.partition, skewed]),
        "lid_scores": ({"runs": [fedcorr.run]}, [fedcorr.partition]),
    } | {"common": common}


@pytest.mark.parametrize("kind", [kind for kind in KINDS if kind not in FROM_PROBES])
@pytest.mark.slow
def test_a_figure_is_drawn_twice_to_the_same_bytes(kind, figures, runs, tmp_path):
    given, paths = figures[kind]
    settings = dict(matplotlib.rcParams)
    files = {run: runs.files[run] for run in given.pop("runs", runs.files)}
    for attempt in ("one", "two"):
        folder = tmp_path / attempt
        draw_figure(
            described({**figures["common"], "kind": kind, **given}),
            files,
            paths,
            folder / "f.png",
            folder / "f.pdf",
        )
        assert sorted(path.name for path in folder.iterdir()) == ["f.pdf", "f.png"]
    png, pdf = ((tmp_path / "one" / f"f.{ending}").read_bytes() for ending in ("png", "pdf"))
    assert png == (tmp_path / "two" / "f.png").read_bytes()
    assert pdf == (tmp_path / "two" / "f.pdf").read_bytes()
    assert int.from_bytes(png[16:20]) == 1440  # a page at 200 dots an inch
    assert re.search(rb"/FontFile2", pdf)  # fonts are embedded, as TrueType
    assert b"/Type3" not in pdf
    assert dict(matplotlib.rcParams) == settings


# ---------------------------------------------------------------- legends


def legend_of(names, title=""):
    with style.house_style():
        figure = style.new_figure(3)
        figure.subplots()
        style.legend(figure, [Line2D([], [], label=name) for name in names], 3.4, title)
        figure.draw_without_rendering()
    return figure


@pytest.mark.parametrize(
    "names", [["x"], ["FedAvg"] * 9, ["MMMMMMMMMMMM"] * 14, ["a name " * 9] * 2]
)
def test_the_legend_fits_the_page(names):
    figure = legend_of(names)
    extent = figure.legends[0].get_window_extent()
    assert extent.x0 >= 0
    assert extent.x1 <= figure.bbox.width
    assert extent.y0 >= figure.axes[0].get_window_extent().y1


def test_a_long_legend_leaves_the_panels_their_height():
    heights = []
    for count in (1, 40):
        figure = legend_of(["a rather long name"] * count)
        heights.append(figure.axes[0].get_window_extent().height)
    assert heights[1] > 0.8 * heights[0]


def test_a_title_stands_above_the_legend_or_alone():
    assert legend_of(["x"], "t").legends[0].get_title().get_text() == "t"
    figure = legend_of([], "t")
    assert figure.legends == []
    assert figure.get_suptitle() == "t"


# ---------------------------------------------------------------- noisy partitions


def test_counts_by_client_and_class(make_partition):
    partition = noisy_partition.read(make_partition())
    table, flipped = count_classes(partition), count_classes(partition, flipped=True)
    assert table.shape == flipped.shape == (10, 10)
    assert table.sum(1).tolist() == [len(client.samples) for client in partition.clients]
    samples = np.concatenate([client.samples for client in partition.clients])
    assert table.sum(0).tolist() == np.bincount(samples % 10).tolist()
    assert flipped.sum(1) / table.sum(1) == pytest.approx(partition.realised)


def test_class_counts_are_stacked_and_sorted_by_size(make_partition):
    path = make_partition(partition={"name": "dirichlet", "alpha": 1, "clients": 6, "min_size": 1})
    partition = noisy_partition.read(path)
    with style.house_style():
        figure = partitions.class_counts(described({"panels": [{"name": "p"}]}), [partition])
    bars = figure.axes[0].containers
    heights = np.array([[bar.get_height() for bar in group] for group in bars])
    bottoms = np.array([[bar.get_y() for bar in group] for group in bars])
    sizes = sorted((len(client.samples) for client in partition.clients), reverse=True)
    assert heights.sum(0).tolist() == sizes
    assert bottoms[1:] == pytest.approx(heights.cumsum(0)[:-1])
    assert len(figure.legends[0].get_texts()) == 10


def bubbles(partition):
    with style.house_style():
        figure = partitions.bubbles(described({"panels": [{"name": "p"}]}), [partition])
        figure.draw_without_rendering()
    return figure


def test_areas_of_bubbles_are_samples_and_their_dark_parts_flipped_ones(make_partition):
    partition = noisy_partition.read(make_partition())
    table, flipped = count_classes(partition), count_classes(partition, flipped=True)
    light, dark = bubbles(partition).axes[0].collections
    scale = light.get_sizes().max() / table.max()
    for drawn_sizes, expected, colour in (
        (light, table, style.LIGHT_CLEAN),
        (dark, flipped, style.DARK_NOISY),
    ):
        client, label = np.nonzero(expected)
        assert drawn_sizes.get_offsets().tolist() == np.stack([client, label], 1).tolist()
        assert drawn_sizes.get_sizes() == pytest.approx(scale * expected[client, label])
        assert tuple(drawn_sizes.get_facecolor()[0]) == to_rgba(colour)


def test_bubbles_of_neighbours_do_not_touch(make_partition):
    figure = bubbles(noisy_partition.read(make_partition(partition="iid(clients=25)")))
    panel = figure.axes[0]
    step = panel.transData.transform([[0, 0], [1, 1]])
    apart = np.abs(step[1] - step[0]).min() * 72 / figure.dpi
    assert panel.collections[0].get_sizes().max() ** 0.5 <= apart


def test_many_clients_are_drawn_in_strips(make_partition):
    partition = noisy_partition.read(make_partition(partition="iid(clients=60)"))
    figure = bubbles(partition)
    shown = [panel.collections[0].get_offsets()[:, 0] for panel in figure.axes]
    assert [(part.min(), part.max()) for part in shown] == [(0, 24), (25, 49), (50, 59)]
    assert [panel.get_title() for panel in figure.axes] == ["p", "", ""]


# ---------------------------------------------------------------- LID scores


def test_scores_are_those_of_the_last_iteration_by_client(runs, fedcorr):
    scores = lid_scores_of(read_run(fedcorr.run, runs.files[fedcorr.run]), 10)
    assert scores["lid"] == pytest.approx(fedcorr.score)
    assert scores["cumulative_lid"] == pytest.approx(3 * fedcorr.score)


def test_a_run_without_scores_is_refused(runs):
    run = runs.add([0.5])
    with pytest.raises(BadInput, match="no LID scores, expected a run of fedcorr"):
        lid_scores_of(read_run(run, runs.files[run]), 10)


def test_a_run_with_fewer_clients_is_refused(runs, fedcorr):
    with pytest.raises(BadInput, match="no LID scores of all 11 clients"):
        lid_scores_of(read_run(fedcorr.run, runs.files[fedcorr.run]), 11)


def drawn(runs, fedcorr, partition):
    run = read_run(fedcorr.run, runs.files[fedcorr.run])
    with style.house_style():
        return lid_scores.lid_scores({}, {fedcorr.run: run}, [partition])


def test_detection_and_correlation_are_told(runs, fedcorr):
    partition = noisy_partition.read(fedcorr.partition)
    figure = drawn(runs, fedcorr, partition)
    above, _, below, _ = figure.axes
    # The scores fall into two groups; the clean client of score 2.5 is the one called wrongly.
    assert above.get_title() == "LID score\nmixture calls 90% of clients right"
    r = np.corrcoef(fedcorr.level, fedcorr.score)[0, 1]
    assert below.get_title() == f"Pearson's r = {r:.2f}"
    ringed = below.collections[-1].get_offsets()
    assert ringed.tolist() == [[0, 2.5]]


def test_densities_and_components_are_in_one_measure(runs, fedcorr):
    partition = noisy_partition.read(fedcorr.partition)
    figure = drawn(runs, fedcorr, partition)
    for panel in figure.axes[:2]:
        area = sum(
            bar.get_width() * bar.get_height() for group in panel.containers for bar in group
        )
        assert area == pytest.approx(1)
        curves = [np.array(line.get_data()) for line in panel.lines]
        weights = [np.sum(np.diff(x) * (y[1:] + y[:-1]) / 2) for x, y in curves]
        # The clean clients' scores are equal, so that their component is a spike.
        assert weights == pytest.approx([(fedcorr.score == 1).mean(), 0.6], abs=0.03)


def test_without_differing_levels_there_is_no_correlation(runs, fedcorr, make_partition):
    clean = noisy_partition.read(make_partition(noise_level="none"))
    figure = drawn(runs, fedcorr, clean)
    assert figure.axes[2].get_title() == "Pearson's r is undefined: all values are equal"


def test_panels_that_are_not_needed_are_removed():
    figure, panels = style.lay_out(4, 3, 0.5, 2.0, share=True)
    assert figure.axes == panels
    assert len(panels) == 4
    assert figure.get_figheight() == 4.5


@pytest.mark.parametrize(
    ("cells", "words"),
    [
        ([[["a"], ["b"]]], "noisyfl · p/f · scale tiny · 1 trial"),
        ([[["a", "b"], ["c", "d", "e"]]], "noisyfl · p/f · scale tiny · 2 or 3 trials"),
    ],
)
def test_a_figure_says_below_what_it_is_of(cells, words):
    rows, columns = [{"name": "FedAvg"}], [{"name": "one"}, {"name": "two"}]
    figure = described({"kind": "by_round", "rows": rows, "columns": columns, "cells": cells})
    assert figure_origin(figure) == words
    drawn = style.new_figure(2)
    style.stamp(drawn, words)
    assert [text.get_text() for text in drawn.texts] == [words]
    assert drawn.get_figheight() > 2


@pytest.mark.parametrize("kind", FIRST_TRIAL)
def test_a_figure_of_the_first_trial_alone_says_so(kind, figures):
    given, _ = figures[kind]
    assert len(given["cells"][0][0]) == 2
    words = figure_origin(described({**figures["common"], "kind": kind, **given}))
    assert words == "noisyfl · p/f · scale tiny · 1 trial"


def test_a_figure_without_runs_tells_of_no_trials():
    assert figure_origin(described({"kind": "class_counts"})) == "noisyfl · p/f · scale tiny"


@pytest.mark.slow
def test_the_line_below_a_figure_can_be_left_out(figures, tmp_path):
    given, paths = figures["class_counts"]
    heights = []
    for footer in (True, False):
        png = tmp_path / f"{footer}.png"
        description = described(
            {**figures["common"], "kind": "class_counts", **given, "footer": footer}
        )
        draw_figure(description, {}, paths, png, png.with_suffix(".pdf"))
        heights.append(int.from_bytes(png.read_bytes()[20:24]))
    assert heights[0] - heights[1] == pytest.approx(200 * style.STAMP, abs=1)
