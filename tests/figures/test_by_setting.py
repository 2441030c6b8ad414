from types import SimpleNamespace

import numpy as np
import pytest

from descriptions import described
from noisyfl.core.options import BadInput
from noisyfl.figures import style
from noisyfl.figures.by_setting import by_setting


def run_of(accuracies, diverged=False, **metrics):
    series = {"test_accuracy": accuracies, **metrics}

    def values(metric):
        found = np.array(series.get(metric, []), float)
        return np.arange(len(found)) + 1.0, found

    status = "diverged" if diverged else "finished"
    made = {"spec": {"seed": 1, "schedule": {}}, "provenance": SimpleNamespace(status=status)}
    return SimpleNamespace(id="x", series=values, diverged=diverged, **made)


RUNS = {
    "low": run_of([0.2, 0.5, 0.4], noise_ratio=[0.3, 0.5]),
    "high": run_of([0.2, 0.7, 0.6], noise_ratio=[0.5, 0.7]),
    "ended": run_of([0.9], diverged=True),
    "none": run_of([]),
}


def column(x, group="", **more):
    return {"name": f"{group} {x}", "group": group, "x": x, **more}


def drawn(cells, columns, rows=("r",), **given):
    description = {
        "name": "f",
        "columns": columns,
        "rows": [{"name": row, "method": "fedavg"} for row in rows],
        "cells": cells,
        "metric": "test_accuracy",
        "statistic": "best",
        **given,
    }
    with style.house_style():
        figure = by_setting(described(description), RUNS)
        figure.draw_without_rendering()
    return figure


def points(panel):
    """The lines that join the means; those of error bars' caps have none."""
    return [
        (line.get_xdata().tolist(), pytest.approx(line.get_ydata(), nan_ok=True))
        for line in panel.lines
        if line.get_linestyle() != "None"
    ]


def test_a_point_is_the_tables_statistic_over_the_trials():
    cells = [[["low", "high"], ["low"]], [["high"], ["high"]]]
    figure = drawn(cells, [column(0.2), column(0.4)], ["r", "s"], xlabel="ρ")
    assert points(figure.axes[0]) == [([0.2, 0.4], [60, 50]), ([0.2, 0.4], [70, 70])]
    assert figure.axes[0].get_ylabel() == "best test accuracy (%)"
    assert figure.get_supxlabel() == "ρ"
    legend = [text.get_text() for text in figure.legends[0].get_texts()]
    assert legend == ["r", "s", "± standard deviation"]


def test_bars_are_one_standard_deviation_long_to_both_sides():
    figure = drawn([[["low", "high"], ["low"]]], [column(1), column(2)])
    (bars,) = figure.axes[0].collections
    lengths = [segment[1, 1] - segment[0, 1] for segment in bars.get_segments()]
    assert lengths == pytest.approx([2 * np.std([50, 70], ddof=1), 0])


def test_columns_are_drawn_in_the_order_of_x():
    figure = drawn([[["low"], ["high"]]], [column(5), column(1)])
    assert points(figure.axes[0]) == [([1, 5], [70, 50])]
    # Without an error bar, none is explained.
    assert [text.get_text() for text in figure.legends[0].get_texts()] == ["r"]


def test_a_panel_a_group_with_its_own_values():
    columns = [column(20, "T"), column(40, "T"), column(0.1, "τ"), column(0.3, "τ")]
    figure = drawn([[["low"], ["low"], ["low"], ["high"]]], columns)
    assert [panel.get_title() for panel in figure.axes] == ["T", "τ"]
    ticks = [[text.get_text() for text in panel.get_xticklabels()] for panel in figure.axes]
    assert ticks == [["20", "40"], ["0.1", "0.3"]]
    assert figure.axes[0].get_ylim() == figure.axes[1].get_ylim()


@pytest.mark.parametrize(
    ("values", "scale"), [((0.01, 0.1, 1), "log"), ((0, 1, 100), "linear"), ((1, 50), "linear")]
)
def test_values_of_several_orders_are_on_a_logarithmic_axis(values, scale):
    figure = drawn([[["low"]] * len(values)], [column(x) for x in values])
    assert figure.axes[0].get_xscale() == scale
    labels = [text.get_text() for text in figure.axes[0].get_xticklabels()]
    assert labels == [f"{x:g}" for x in values]


def test_trials_that_diverged_are_left_out_and_a_setting_of_none_else_is_marked():
    cells = [[["low", "ended"], ["ended", "ended"], ["none"], ["high"]]]
    figure = drawn(cells, [column(x) for x in (1, 2, 3, 4)])
    panel = figure.axes[0]
    assert points(panel) == [([1, 2, 3, 4], [50, np.nan, np.nan, 70])]
    (cross,) = (line for line in panel.lines if line.get_marker() == "x")
    assert cross.get_xdata().tolist() == [2]
    assert cross.get_transform() == panel.get_xaxis_transform()
    legend = [text.get_text() for text in figure.legends[0].get_texts()]
    assert legend == ["r", "every trial diverged"]


def test_columns_have_their_own_metric_and_statistic():
    other = {"metric": "noise_ratio", "statistic": "mean"}
    columns = [column(1, "a"), column(1, "b", **other), column(2, "b", **other)]
    figure = drawn([[["low"], ["low"], ["high"]]], columns)
    assert points(figure.axes[1]) == [([1, 2], [40, 60])]
    labels = ["best test accuracy (%)", "mean noise level of participants (%)"]
    assert [panel.get_ylabel() for panel in figure.axes] == labels


def test_a_panel_of_two_metrics_is_refused():
    columns = [column(1, "a"), column(2, "a", metric="noise_ratio")]
    with pytest.raises(BadInput, match=r"'a'\) of best of noise_ratio, best of test_acc"):
        drawn([[["low"]] * 2], columns)


def test_a_column_without_x_is_refused():
    with pytest.raises(BadInput, match=r"f: column 'b' .* has no x, expected a number"):
        drawn([[["low"]] * 2], [column(1), {"name": "b"}])


def test_columns_that_average_others_are_not_drawn():
    figure = drawn([[["low"], []]], [column(1), {"name": "mean", "mean_of": [" 1"]}])
    assert points(figure.axes[0]) == [([1], [50])]


def test_what_nobody_recorded_is_said_to_be_missing():
    figure = drawn([[["none"]]], [column(1)])
    assert [text.get_text() for text in figure.axes[0].texts] == ["not recorded"]
