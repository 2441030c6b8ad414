import math
from types import SimpleNamespace

import numpy as np
import pytest

from descriptions import described
from noisyfl.analysis.clients import client_features, first_values, last_values
from noisyfl.analysis.curves import spread_over_clients
from noisyfl.analysis.runs import read_run
from noisyfl.data import noisy_partition
from noisyfl.figures import clients, style

DETECTED = "noise_detection_recall"


CLIENTS = [
    {"round": 1, "client": 0, "label_precision": 0.2, "label_recall": 0.1, DETECTED: 0.3},
    {"round": 1, "client": 2, "label_precision": 0.8, "label_recall": None, DETECTED: 0.4},
    {"round": 3, "client": 2, "label_precision": 0.5, "label_recall": 0.9, DETECTED: None},
    {"round": 3, "client": 1, "label_precision": 0.6, "label_recall": 0.6, DETECTED: None},
    {"round": 3, "client": 3, "label_precision": 0.1, "label_recall": 0.3, DETECTED: None},
    {"round": 4, "client": 2, "label_precision": None, "label_recall": None, DETECTED: None},
]


@pytest.fixture
def run(runs):
    found = runs.add([0.1, 0.2, 0.3, 0.4], method="fedcni", clients=CLIENTS)
    return read_run(found, runs.files[found])


def partition_of(*labels):
    """A noisy partition of the digits by its true labels; a third of the last client's is wrong."""
    parts = [
        SimpleNamespace(true_label=np.array(given), given_label=np.array(given)) for given in labels
    ]
    realised = np.zeros(len(parts))
    realised[-1] = 1 / 3
    return SimpleNamespace(clients=parts, spec={"dataset": "digits"}, realised=realised)


UNEVEN = partition_of(range(10), [3] * 7, [0, 1] * 4, [5, 5, 6])


def test_features_of_clients():
    found = client_features(UNEVEN)
    assert found["samples"].tolist() == [10, 7, 8, 3]
    assert found["noise_level"] == pytest.approx([0, 0, 0, 100 / 3])
    thirds = -(2 / 3 * math.log(2 / 3) + 1 / 3 * math.log(1 / 3))
    expected = [0, 1, 1 - math.log(2) / math.log(10), 1 - thirds / math.log(10)]
    assert found["imbalance"] == pytest.approx(expected, abs=1e-12)


def test_noise_levels_are_those_of_the_file(make_partition):
    partition = noisy_partition.read(make_partition())
    found = client_features(partition)["noise_level"]
    wrong = [np.mean(part.true_label != part.given_label) for part in partition.clients]
    assert found == pytest.approx(100 * np.array(wrong))


def test_the_last_and_the_first_value_of_each_client(run):
    np.testing.assert_array_equal(
        last_values(run, "label_precision", 5), [0.2, 0.6, 0.5, 0.1, np.nan]
    )
    np.testing.assert_array_equal(last_values(run, "label_recall", 5), [0.1, 0.6, 0.9, 0.3, np.nan])
    assert np.isnan(last_values(run, "lid", 5)).all()
    found = first_values(run, "label_precision", 5)
    np.testing.assert_array_equal(found, [0.2, 0.6, 0.8, 0.1, np.nan])


def figure_of(run, **given):
    return described(
        {
            "name": "f",
            "columns": [{"name": "pair"}],
            "rows": [{"name": "FedCNI", "method": "fedcni"}],
            "cells": [[[run.id, "another trial"]]],
            **given,
        }
    )


def by_client(run, x, y, partition=UNEVEN):
    with style.house_style():
        figure = clients.by_client(figure_of(run, x=x, y=y), {run.id: run}, [partition])
        figure.draw_without_rendering()
    return figure


def test_a_panel_an_x_and_a_y_and_a_point_a_client(run):
    figure = by_client(run, ["samples", "imbalance"], ["label_precision", "label_recall"])
    assert figure.get_suptitle() == "FedCNI, pair"
    precision, _, recall, _ = figure.axes
    points = np.array(precision.collections[0].get_offsets())
    assert points.tolist() == [[10, 20], [7, 60], [8, 50], [3, 10]]
    points = np.array(recall.collections[0].get_offsets())
    assert points.tolist() == [[10, 10], [7, 60], [8, 90], [3, 30]]
    assert precision.get_ylabel() == "label precision (%)"
    assert recall.get_xlabel() == "samples of the client"
    r = np.corrcoef([10, 7, 8, 3], [20, 60, 50, 10])[0, 1]
    assert precision.get_title() == f"Pearson's r = {r:.2f}"


def test_clients_without_a_value_have_no_point_and_two_others_no_correlation(run):
    figure = by_client(run, ["samples"], [DETECTED])
    (panel,) = figure.axes
    points = np.array(panel.collections[0].get_offsets())
    assert points[~np.isnan(points[:, 1])].tolist() == [[10, 30], [8, 40]]
    assert panel.get_title() == ""


def test_metrics_of_one_feature_stand_side_by_side(run):
    figure = by_client(run, ["noise_level"], ["label_precision", "label_recall"])
    left, right = (panel.get_position() for panel in figure.axes)
    assert left.y0 == pytest.approx(right.y0)
    assert left.x1 < right.x0
    assert [panel.get_ylim() for panel in figure.axes] == [(-3, 103)] * 2


def test_a_run_that_recorded_nothing_of_clients_says_so(runs):
    found = runs.add([0.1])
    figure = by_client(read_run(found, runs.files[found]), ["samples"], ["label_recall"])
    assert [text.get_text() for text in figure.axes[0].texts] == ["not recorded"]
    assert figure.axes[0].get_title() == ""


def test_noise_levels_that_nobody_knows_are_not_recorded(run):
    unknown = SimpleNamespace(**{**vars(UNEVEN), "realised": np.full(4, np.nan)})
    figure = by_client(run, ["noise_level"], ["label_recall"], unknown)
    assert [text.get_text() for text in figure.axes[0].texts] == ["not recorded"]


def test_the_spread_among_clients_by_round(run):
    work, mean, low, high = spread_over_clients(run, "label_precision")
    assert work.tolist() == [1, 3]
    assert mean == pytest.approx([0.5, 0.4])
    assert low.tolist() == [0.2, 0.1]
    assert high.tolist() == [0.8, 0.6]


def test_the_spread_has_the_work_of_the_round(runs):
    columns = {"ordinary_rounds": [0.1, 0.2, 1.2, 2.2]}
    rows = [{"round": r, "client": 0, "label_recall": 0.5} for r in (2, 4)]
    found = runs.add([None] * 4, clients=rows, columns=columns)
    work, *_ = spread_over_clients(read_run(found, runs.files[found]), "label_recall")
    assert work.tolist() == [0.2, 2.2]


def test_what_a_method_reports_is_drawn_in_its_own_unit(runs):
    rows = [{"round": 1, "client": k, "depth": 7.0 + k, "label_recall": 0.5} for k in range(3)]
    found = runs.add([0.1], clients=rows)
    run = read_run(found, runs.files[found])
    metrics = ["label_recall", "clients.depth"]
    with style.house_style():
        figure = clients.among_clients(figure_of(run, metrics=metrics), {run.id: run})
    share, depth = figure.axes
    assert [line.get_ydata().tolist() for line in (share.lines[0], depth.lines[0])] == [[50], [8]]
    assert (share.get_ylabel(), depth.get_ylabel()) == ("label recall (%)", "depth")
    assert depth.get_ylim()[1] < 20
    points = by_client(run, ["samples"], metrics).axes
    assert points[1].collections[0].get_offsets()[:3, 1].tolist() == [7, 8, 9]
    assert points[1].get_ylim()[1] < 20


def test_mean_and_range_of_each_metric_are_drawn(run):
    description = figure_of(run, metrics=["label_precision", "noise_detection_precision"])
    with style.house_style():
        figure = clients.among_clients(description, {run.id: run})
        figure.draw_without_rendering()
    precision, missing = figure.axes
    (line,) = precision.lines
    assert line.get_ydata() == pytest.approx([50, 40])
    corners = precision.collections[0].get_paths()[0].vertices
    assert (corners[:, 1].min(), corners[:, 1].max()) == pytest.approx((10, 80))
    assert [text.get_text() for text in missing.texts] == ["not recorded"]
    legend = [text.get_text() for text in figure.legends[0].get_texts()]
    assert legend == ["mean over clients", "lowest to highest client"]
    assert figure.legends[0].get_title().get_text() == "FedCNI, pair"
