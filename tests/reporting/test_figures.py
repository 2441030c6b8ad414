import re
from types import SimpleNamespace

import matplotlib
import numpy as np
import pytest
from matplotlib.colors import to_rgba
from matplotlib.figure import Figure

from noisyfl.data import noisy_partition
from noisyfl.options import BadInput
from noisyfl.reporting import curves, lid_scores, partitions, style
from noisyfl.reporting.figures import KINDS, draw_figure
from noisyfl.reporting.runs import read_run

NAMES = ("lid", "cumulative_lid")


def run_of(rounds, accuracies, status="finished", rounds_done=None):
    """A run as the curves read it."""
    return SimpleNamespace(
        ordinary_rounds=tuple(rounds),
        accuracies=tuple(accuracies),
        diverged=status == "diverged",
        rounds_done=rounds_done or (rounds or [0])[-1],
    )


@pytest.fixture
def fedcorr(runs, make_partition):
    """A run whose scores follow the noise levels, but for one clean client; and its partition."""
    path = make_partition()
    level = noisy_partition.read(path).realised
    assert 0 < (level > 0).sum() < 10
    score = 1 + 2 * level
    score[np.flatnonzero(level == 0)[0]] = 2.5
    early = [dict.fromkeys(NAMES, 0.0) | {"round": 10, "client": c} for c in range(10)]
    late = [
        {"round": 20, "client": c, "lid": score[c], "cumulative_lid": 3 * score[c]}
        for c in reversed(range(10))
    ]
    run = runs.add([0.5, 0.6], method="fedcorr", clients=[*early, *late])
    return SimpleNamespace(run=run, partition=path, level=level, score=score)


@pytest.fixture
def figures(runs, make_partition, fedcorr):
    """A description of each kind of figure, with the partitions that it is drawn from."""
    trials = [runs.add([0.2, 0.4 + s / 10], seed=s) for s in (1, 2)]
    ended = runs.add([0.2, 0.3, 0.1], seed=3, provenance={"status": "diverged"})
    skewed = make_partition(
        partition={"name": "dirichlet", "alpha": 1, "clients": 30, "min_size": 1}
    )
    common = {"name": "f", "title": "A figure", "caption": "Seen.", "scale": "tiny"}
    return {
        "accuracy_by_round": (
            {
                "columns": ["a", "b"],
                "rows": ["x", "y"],
                "cells": [[trials, trials[:1]], [[ended]] * 2],
            },
            [],
        ),
        "class_counts": ({"panels": ["p", "q"]}, [fedcorr.partition, skewed]),
        "noisy_partition": ({"panels": ["p", "q"]}, [fedcorr.partition, skewed]),
        "lid_scores": ({"cells": [fedcorr.run]}, [fedcorr.partition]),
    } | {"common": common}


@pytest.mark.parametrize("kind", KINDS)
def test_a_figure_is_drawn_twice_to_the_same_bytes(kind, figures, runs, tmp_path):
    given, paths = figures[kind]
    settings = dict(matplotlib.rcParams)
    for attempt in ("one", "two"):
        folder = tmp_path / attempt
        draw_figure(
            {**figures["common"], "kind": kind, **given},
            runs.files,
            paths,
            png=folder / "f.png",
            pdf=folder / "f.pdf",
        )
        assert sorted(path.name for path in folder.iterdir()) == ["f.pdf", "f.png"]
    png, pdf = ((tmp_path / "one" / f"f.{ending}").read_bytes() for ending in ("png", "pdf"))
    assert png == (tmp_path / "two" / "f.png").read_bytes()
    assert pdf == (tmp_path / "two" / "f.pdf").read_bytes()
    assert int.from_bytes(png[16:20]) == 1440  # a page at 200 dots an inch
    assert re.search(rb"/FontFile2", pdf)  # fonts are embedded, as TrueType
    assert b"/Type3" not in pdf
    assert dict(matplotlib.rcParams) == settings


def test_an_unknown_kind_is_refused(tmp_path):
    description = {"kind": "class_count", "name": "f"}
    with pytest.raises(BadInput, match="did you mean 'class_counts'"):
        draw_figure(description, {}, [], png=tmp_path / "f.png", pdf=tmp_path / "f.pdf")


# ---------------------------------------------------------------- accuracy by round


def test_trials_are_averaged_at_each_evaluation():
    rounds, mean, std = curves.over_trials([run_of([1, 2], [0.2, 0.5]), run_of([1, 2], [0.4, 0.5])])
    assert rounds.tolist() == [1, 2]
    assert mean == pytest.approx([0.3, 0.5])
    assert std == pytest.approx([np.std([0.2, 0.4], ddof=1), 0])


def test_a_single_trial_has_a_line_and_no_band():
    _, mean, std = curves.over_trials([run_of([1, 2], [0.2, 0.5])])
    assert mean == pytest.approx([0.2, 0.5])
    assert std.tolist() == [0, 0]


def test_evaluations_elsewhere_are_joined_by_straight_lines():
    other = run_of([1, 3], [0.1, 0.5])
    rounds, mean, _ = curves.over_trials([run_of([1, 2, 3], [0.1, 0.1, 0.1]), other])
    assert rounds.tolist() == [1, 2, 3]
    assert mean == pytest.approx([0.1, 0.2, 0.3])


def test_a_trial_that_ended_no_longer_counts():
    trials = [run_of([1, 2, 3], [0.2, 0.4, 0.6]), run_of([1, 2], [0.4, 0.6], "diverged")]
    _, mean, std = curves.over_trials([*trials, run_of([], [], "diverged", 1)])
    assert mean == pytest.approx([0.3, 0.5, 0.6])
    assert std == pytest.approx([np.std([0.2, 0.4], ddof=1)] * 2 + [0])


def drawn(cells, columns, rows, runs):
    given = {"columns": columns, "rows": rows, "cells": cells}
    with style.house_style():
        figure = curves.accuracy_by_round(given, runs)
        figure.draw_without_rendering()
    return figure


def test_a_panel_a_column_and_a_line_a_row():
    runs = {"r": run_of([1, 2], [0.2, 0.5]), "s": run_of([1, 2, 3], [0.6, 0.7, 1.0])}
    figure = drawn([[["r"], ["s"]], [["s"], ["s"]]], ["a", "b"], ["x", "y"], runs)
    assert [panel.get_title() for panel in figure.axes] == ["a", "b"]
    lines = [line for line in figure.axes[0].lines if len(line.get_xdata())]
    assert [line.get_ydata().tolist() for line in lines] == [[20, 50], [60, 70, 100]]
    assert [text.get_text() for text in figure.legends[0].get_texts()] == ["x", "y"]


def test_the_place_of_a_divergence_is_marked():
    runs = {
        "late": run_of([1, 2], [0.2, 0.5], "diverged", 2.5),
        "at once": run_of([], [], "diverged", 1.0),
    }
    figure = drawn([[["late", "at once"]]], ["a"], ["x"], runs)
    crosses = [line for line in figure.axes[0].lines if line.get_marker() == "x"]
    places = [(*line.get_xdata(), *line.get_ydata()) for line in crosses if len(line.get_xdata())]
    assert places == [(2.5, 50), (1.0, 0)]
    assert figure.legends[0].get_texts()[-1].get_text() == "a trial diverged"


@pytest.mark.parametrize("columns", [1, 2, 3, 4, 7])
def test_every_column_of_panels_has_its_rounds_written_below(columns):
    runs = {"r": run_of([1, 2], [0.2, 0.5])}
    figure = drawn([[["r"]] * columns], [str(c) for c in range(columns)], ["x"], runs)
    assert len(figure.axes) == columns
    lowest = figure.axes[-min(3, columns) :]
    assert all(panel.xaxis.get_tick_params()["labelbottom"] for panel in lowest)


@pytest.mark.parametrize(
    "names", [["x"], ["FedAvg"] * 9, ["MMMMMMMMMMMM"] * 14, ["a name " * 9] * 2]
)
def test_the_legend_fits_the_page(names):
    runs = {"r": run_of([1, 2], [0.2, 0.5], "diverged")}
    figure = drawn([[["r"]]] * len(names), ["a"], names, runs)
    extent = figure.legends[0].get_window_extent()
    assert extent.x0 >= 0
    assert extent.x1 <= figure.bbox.width


def test_lines_stay_apart_for_more_rows_than_colours():
    looks = [tuple(map(str, style.line_style(number).values())) for number in range(28)]
    assert len(set(looks)) == 28


# ---------------------------------------------------------------- noisy partitions


def test_counts_by_client_and_class(make_partition):
    partition = noisy_partition.read(make_partition())
    table, flipped = partitions.counts(partition), partitions.counts(partition, flipped=True)
    assert table.shape == flipped.shape == (10, 10)
    assert table.sum(1).tolist() == [len(client.samples) for client in partition.clients]
    samples = np.concatenate([client.samples for client in partition.clients])
    assert table.sum(0).tolist() == np.bincount(samples % 10).tolist()
    assert flipped.sum(1) / table.sum(1) == pytest.approx(partition.realised)


def test_class_counts_are_stacked_and_sorted_by_size(make_partition):
    path = make_partition(partition={"name": "dirichlet", "alpha": 1, "clients": 6, "min_size": 1})
    partition = noisy_partition.read(path)
    with style.house_style():
        figure = partitions.class_counts({"panels": ["p"]}, [partition])
    bars = figure.axes[0].containers
    heights = np.array([[bar.get_height() for bar in group] for group in bars])
    bottoms = np.array([[bar.get_y() for bar in group] for group in bars])
    sizes = sorted((len(client.samples) for client in partition.clients), reverse=True)
    assert heights.sum(0).tolist() == sizes
    assert bottoms[1:] == pytest.approx(heights.cumsum(0)[:-1])
    assert len(figure.legends[0].get_texts()) == 10


def bubbles(partition):
    with style.house_style():
        figure = partitions.bubbles({"panels": ["p"]}, [partition])
        figure.draw_without_rendering()
    return figure


def test_areas_of_bubbles_are_samples_and_their_dark_parts_flipped_ones(make_partition):
    partition = noisy_partition.read(make_partition())
    table, flipped = partitions.counts(partition), partitions.counts(partition, flipped=True)
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
    scores = lid_scores.last_scores(runs.files[fedcorr.run], 10)
    assert scores["lid"] == pytest.approx(fedcorr.score)
    assert scores["cumulative_lid"] == pytest.approx(3 * fedcorr.score)


def test_a_run_without_scores_is_refused(runs):
    run = runs.add([0.5])
    with pytest.raises(BadInput, match="no LID scores, expected a run of fedcorr"):
        lid_scores.last_scores(runs.files[run], 10)


def test_a_run_with_fewer_clients_is_refused(runs, fedcorr):
    with pytest.raises(BadInput, match="no LID scores of all 11 clients"):
        lid_scores.last_scores(runs.files[fedcorr.run], 11)


def test_detection_and_correlation_are_told(runs, fedcorr):
    partition = noisy_partition.read(fedcorr.partition)
    with style.house_style():
        figure = lid_scores.lid_scores(runs.files[fedcorr.run], partition)
    above, _, below, _ = figure.axes
    # The scores fall into two groups; the clean client of score 2.5 is the one called wrongly.
    assert above.get_title() == "LID score\nmixture calls 90% of clients right"
    r = np.corrcoef(fedcorr.level, fedcorr.score)[0, 1]
    assert below.get_title() == f"Pearson's r = {r:.2f}"
    ringed = below.collections[-1].get_offsets()
    assert ringed.tolist() == [[0, 2.5]]


def test_densities_and_components_are_in_one_measure(runs, fedcorr):
    partition = noisy_partition.read(fedcorr.partition)
    with style.house_style():
        figure = lid_scores.lid_scores(runs.files[fedcorr.run], partition)
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
    with style.house_style():
        figure = lid_scores.lid_scores(runs.files[fedcorr.run], clean)
    assert figure.axes[2].get_title() == "Pearson's r is undefined: all values are equal"


def test_the_evaluation_of_a_model_that_is_not_finite_is_left_out(runs):
    run = runs.add([0.2, None, 0.3, 0.1], provenance={"status": "diverged"})
    read = read_run(run, runs.files[run])
    assert read.ordinary_rounds == (1, 3)
    assert read.accuracies == (0.2, 0.3)
    assert read.rounds_done == 4
    assert read.diverged


def test_grid_removes_what_it_does_not_need():
    figure = Figure()
    assert len(style.grid(figure, 4, 3)) == 4
    assert len(figure.axes) == 4
