import numpy as np
import pytest

from descriptions import described
from noisyfl.analysis.runs import read_runs
from noisyfl.figures import curves, style
from noisyfl.figures.curves import WORK
from small_curves import run_of


def drawn(cells, columns, rows, runs, **given):
    """A figure of rows by their methods, and of columns by their names."""
    description = {
        "name": "f",
        "columns": [c if isinstance(c, dict) else {"name": c} for c in columns],
        "rows": [r if isinstance(r, dict) else {"name": r, "method": "fedavg"} for r in rows],
        "cells": cells,
        **given,
    }
    with style.house_style():
        figure = curves.by_round(described(description), runs)
        figure.draw_without_rendering()
    return figure


def lines_of(panel):
    return [line.get_ydata().tolist() for line in panel.lines if line.get_marker() != "x"]


def legend_of(figure):
    return [text.get_text() for text in figure.legends[0].get_texts()]


RUNS = {
    "r": run_of([1, 2], [0.2, 0.5], label_recall=([2], [0.8]), noise_ratio=([1, 2], [0.1, 0.3])),
    "s": run_of([1, 2, 3], [0.6, 0.7, 1.0]),
}


def test_a_panel_a_column_and_a_line_a_row():
    figure = drawn([[["r"], ["s"]], [["s"], ["s"]]], ["a", "b"], ["x", "y"], RUNS)
    assert [panel.get_title() for panel in figure.axes] == ["a", "b"]
    assert lines_of(figure.axes[0]) == [[20, 50], [60, 70, 100]]
    assert legend_of(figure) == ["x", "y"]
    assert figure.axes[0].get_ylabel() == "test accuracy (%)"
    assert figure.get_supxlabel() == WORK["ordinary_rounds"]
    named = drawn([[["r"]]], ["a"], ["x"], RUNS, xlabel="round")
    assert named.get_supxlabel() == "round"
    assert all(tick == int(tick) for tick in named.axes[0].get_xticks())


def test_a_band_reaches_one_standard_deviation_to_both_sides_but_not_above_all():
    runs = {"p": run_of([1, 2], [0.2, 1.0]), "q": run_of([1, 2], [0.4, 0.9])}
    figure = drawn([[["p", "q"]]], ["a"], ["x"], runs)
    (band,) = figure.axes[0].collections
    corners = band.get_paths()[0].vertices
    std = 100 * np.std([0.2, 0.4], ddof=1)
    assert corners[corners[:, 0] == 1][:, 1].min() == pytest.approx(30 - std)
    assert corners[corners[:, 0] == 1][:, 1].max() == pytest.approx(30 + std)
    assert corners[:, 1].max() == 100


def test_a_band_of_what_a_method_reports_may_be_negative(runs):
    ids = []
    for seed, value in ((1, -6.0), (2, -8.0)):
        rows = [{"round": 1, "client": 0, "score": value}]
        ids.append(runs.add([0.5], seed=seed, clients=rows))
    figure = drawn([[ids]], ["a"], ["x"], read_runs(runs.files), metrics=["clients.score"])
    (band,) = figure.axes[0].collections
    low, high = band.get_paths()[0].vertices[:, 1].min(), band.get_paths()[0].vertices[:, 1].max()
    assert (low, high) == pytest.approx((-7 - np.sqrt(2), -7 + np.sqrt(2)))


def test_a_long_title_is_folded(runs):
    one = runs.add([0.5])
    name = ", ".join(["a long name of a setting"] * 8)
    figure = drawn([[[one]]], [name], ["x"], read_runs(runs.files))
    box = figure.legends[0].get_title().get_window_extent()
    assert 0 <= box.x0 < box.x1 <= figure.bbox.x1
    assert figure.legends[0].get_title().get_text().replace("\n", " ") == name


def test_the_place_of_a_divergence_is_marked():
    runs = {
        "late": run_of([1, 2], [0.2, 0.5], "diverged", 2.5),
        "at once": run_of([], [], "diverged", 1.0),
    }
    figure = drawn([[["late", "at once"]]], ["a"], ["x"], runs)
    panel = figure.axes[0]
    late, once = (line for line in panel.lines if line.get_marker() == "x")
    assert (*late.get_xdata(), *late.get_ydata()) == (2.5, 50)
    assert once.get_xdata().tolist() == [1]
    assert once.get_transform() == panel.get_xaxis_transform()  # on the axis, whatever its scale
    assert legend_of(figure)[-1] == "a trial diverged"


def test_the_same_work_in_batches():
    figure = drawn([[["r"]]], ["a"], ["x"], RUNS, x="batches")
    assert figure.axes[0].lines[0].get_xdata().tolist() == [10, 20]
    assert figure.get_supxlabel() == "training batches of all clients"


def test_metrics_of_one_column_have_panels_side_by_side_with_their_own_scales():
    metrics = ["test_accuracy", "noise_ratio", "label_recall"]
    figure = drawn([[["r"]], [["s"]]], ["a"], ["x", "y"], RUNS, metrics=metrics)
    accuracy, noise, recall = figure.axes
    assert lines_of(accuracy) == [[20, 50], [60, 70, 100]]
    assert lines_of(noise) == [[10, 30]]
    assert lines_of(recall) == [[80]]
    labels = ["test accuracy (%)", "noise level of participants (%)", "label recall (%)"]
    assert [panel.get_ylabel() for panel in figure.axes] == labels
    assert accuracy.get_ylim()[1] > 100 > noise.get_ylim()[1]
    assert figure.legends[0].get_title().get_text() == "a"
    marker = noise.lines[0].get_marker()
    assert marker == accuracy.lines[0].get_marker()
    assert marker not in ("", "None", None)  # else a single point could not be seen


def test_several_columns_and_metrics_make_a_grid():
    cells = [[["r"]] * 4]
    metrics = ["test_accuracy", "label_recall"]
    figure = drawn(cells, list("abcd"), ["x"], RUNS, metrics=metrics)
    titles = [panel.get_title() for panel in figure.axes]
    assert titles == ["a", "b", "c", "", "", "", "d", ""]
    assert [bool(lines_of(panel)) for panel in figure.axes] == [True] * 8
    labelled = [panel.get_ylabel() for panel in figure.axes]
    accuracy, recall = "test accuracy (%)", "label recall (%)"
    assert labelled == [accuracy, "", "", recall, "", "", accuracy, recall]
    assert {panel.get_xlim() for panel in figure.axes} == {figure.axes[0].get_xlim()}


def test_panels_of_one_metric_have_one_scale():
    figure = drawn([[["r"], ["s"]]], "ab", ["x"], RUNS)
    low, high = figure.axes[0].get_ylim()
    assert figure.axes[1].get_ylim() == (low, high)
    assert low < 20 < 100 < high


def test_rows_without_a_value_are_not_in_the_legend():
    figure = drawn([[["r"]], [["s"]]], ["a"], ["x", "y"], RUNS, metrics=["label_recall"])
    assert legend_of(figure) == ["x"]


def test_what_nobody_recorded_is_said_to_be_missing():
    figure = drawn([[["s"]]], ["a"], ["x"], RUNS, metrics=["label_recall"])
    assert [text.get_text() for text in figure.axes[0].texts] == ["not recorded"]
    assert figure.legends == []


def test_a_divergence_is_no_value_of_what_was_never_recorded():
    runs = {"d": run_of([1], [0.5], "diverged", 2), "r": RUNS["r"]}
    figure = drawn([[["d"]], [["r"]]], ["a"], ["x", "y"], runs, metrics=["label_recall"])
    assert [line.get_marker() == "x" for line in figure.axes[0].lines] == [False]
    assert legend_of(figure) == ["y"]


def test_marks_are_lines_in_every_panel_that_the_legend_explains():
    marks = [{"at": 1.5, "label": "T_s"}, {"at": 1.8, "label": "T_t"}]
    figure = drawn([[["r"]] * 2], "ab", ["x"], RUNS, marks=marks)
    for panel in figure.axes:
        found = {line.get_linestyle(): line.get_xdata() for line in panel.lines[1:]}
        assert found == {":": [1.5, 1.5], "-.": [1.8, 1.8]}
        assert len(panel.texts) == 0  # curves would cross it
    assert legend_of(figure) == ["x", "T_s", "T_t"]


def test_a_band_is_explained_where_there_is_one():
    assert legend_of(drawn([[["r", "s"]]], "a", ["x"], RUNS)) == ["x", "± standard deviation"]
    assert legend_of(drawn([[["r"]]], "a", ["x"], RUNS)) == ["x"]


def test_rows_with_different_numbers_of_trials_name_them():
    cells = [[["r", "s"], ["r"]], [["s"], ["s"]]]
    *rows, _ = legend_of(drawn(cells, "ab", ["x", "y"], RUNS))
    assert rows == ["x (1 or 2 trials)", "y (1 trial)"]
    cells = [[["r", "s"], ["r"]], [["r", "s"], ["s"]]]
    assert legend_of(drawn(cells, "ab", ["x", "y"], RUNS))[:2] == ["x", "y"]


def test_a_mark_that_no_curve_reaches_is_left_out():
    figure = drawn([[["r"]]], "a", ["x"], RUNS, marks=[{"at": 99, "label": "T_s"}])
    assert legend_of(figure) == ["x"]
    assert figure.axes[0].get_xlim()[1] < 10


def test_what_all_rows_share_stands_in_the_title():
    rows = [
        {"name": f"CIFAR-10, {x}", "label": x, "group": "CIFAR-10", "method": "rofl"} for x in "pq"
    ]
    column = {"name": "pair, label recall", "group": "pair", "metric": "label_recall"}
    figure = drawn([[["r"]], [["s"]]], [column], rows, RUNS)
    assert legend_of(figure) == ["p", "q"]
    assert figure.legends[0].get_title().get_text() == "CIFAR-10, pair"


def test_a_column_called_as_the_metric_has_no_title():
    figure = drawn([[["r"]]], ["test accuracy"], ["x"], RUNS)
    assert figure.legends[0].get_title().get_text() == ""


def test_every_line_is_within_its_panel():
    figure = drawn([[["r"], ["s"]]], ["a", "b"], ["x"], RUNS)
    for panel in figure.axes:
        assert 0 < panel.get_xlim()[0] < 1
        assert panel.get_xlim()[1] > 3


@pytest.mark.parametrize("columns", [1, 2, 3, 4, 7])
def test_every_column_of_panels_has_its_rounds_written_below(columns):
    figure = drawn([[["r"]] * columns], [str(c) for c in range(columns)], ["x"], RUNS)
    assert len(figure.axes) == columns
    below = {}
    for panel in figure.axes:
        below[round(panel.get_position().x0, 3)] = panel  # the last one is the lowest
    assert len(below) == {1: 1, 2: 2, 3: 3, 4: 2, 7: 3}[columns]
    assert all(panel.xaxis.get_tick_params()["labelbottom"] for panel in below.values())
