import numpy as np
import pytest

from descriptions import described
from noisyfl.analysis.runs import read_run
from noisyfl.figures import style, tradeoff


def added(runs, accuracies, samples, **options):
    run = runs.add(accuracies, columns={"samples_backward": samples}, **options)
    return read_run(run, runs.files[run])


def test_a_triple_is_rounds_batches_and_accuracy(runs):
    run = added(runs, [None, 0.2, 0.5], [100, 200, 50])
    assert run.spec["schedule"]["batch_size"] == 10
    np.testing.assert_allclose(tradeoff.triples([run]), [[2, 30, 20], [3, 35, 50]])


def test_triples_are_means_over_trials(runs):
    trials = [added(runs, [0.2, 0.4], [100, 100], seed=1), added(runs, [0.4], [300], seed=2)]
    np.testing.assert_allclose(tradeoff.triples(trials), [[1, 20, 30], [2, 20, 40]])


def drawn(trials_by_row, columns=("c",)):
    every = {run.id: run for line in trials_by_row for trials in line for run in trials}
    description = {
        "columns": [{"name": name} for name in columns],
        "rows": [{"name": f"r{r}", "method": "fednoil"} for r in range(len(trials_by_row))],
        "cells": [[[run.id for run in trials] for trials in line] for line in trials_by_row],
    }
    with style.house_style():
        figure = tradeoff.tradeoff(described(description), every)
        figure.draw_without_rendering()
    return figure


def test_a_line_joins_the_values_of_a_triple_on_three_axes(runs):
    run = added(runs, [0.2, 0.6], [1000, 1000])
    figure = drawn([[[run]]])
    panel = figure.axes[0]
    scales = panel.child_axes
    spans = [scale.get_ylim() for scale in scales]
    (lines,) = (c for c in panel.collections if hasattr(c, "get_segments"))
    for segment, triple in zip(lines.get_segments(), [(1, 100, 20), (2, 200, 60)], strict=True):
        heights = [
            low + h * (high - low) for h, (low, high) in zip(segment[:, 1], spans, strict=True)
        ]
        assert segment[:, 0].tolist() == [0, 1, 2]
        assert heights == pytest.approx(triple)
    assert spans[0][0] == spans[1][0] == 0
    words = [label.get_text().split("\n")[0] for label in panel.get_xticklabels()]
    assert words == ["communication", "computation", "test accuracy"]


def test_rows_share_the_axes_and_later_rounds_are_stronger(runs):
    one = added(runs, [0.2, 0.6], [1000, 1000], seed=1)
    two = added(runs, [0.1, 0.2, 0.9], [500] * 3, seed=2)
    figure = drawn([[[one]], [[two]]])
    lines = [c for c in figure.axes[0].collections if hasattr(c, "get_segments")]
    heights = np.concatenate([np.array(c.get_segments())[:, :, 1].ravel() for c in lines])
    assert heights.min() >= 0
    assert heights.max() <= 1
    strength = [c.get_colors()[:, 3].tolist() for c in lines]
    assert strength == [[0.25, 1], [0.25, 0.625, 1]]
    assert [text.get_text() for text in figure.legends[0].get_texts()] == ["r0", "r1"]


def test_of_many_rounds_some_are_drawn_with_the_last(runs):
    run = added(runs, np.linspace(0.1, 0.9, 100).tolist(), [100] * 100)
    lines = drawn([[[run]]]).axes[0].collections[0].get_segments()
    assert len(lines) == tradeoff.SHOWN
    tops = np.array(lines)[:, 0, 1]
    assert tops[-1] / tops[0] == pytest.approx(100)


def test_a_column_without_an_evaluation_says_so(runs):
    run = added(runs, [0.2], [10])
    empty = added(runs, [0.2], [10], seed=2, provenance={"status": "diverged"})
    figure = drawn([[[run], [empty]]], ["a", "b"])
    assert [panel.get_title() for panel in figure.axes[:2]] == ["a", "b"]
    assert [text.get_text() for text in figure.axes[1].texts] == ["not recorded"]
