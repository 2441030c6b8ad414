from types import SimpleNamespace

import numpy as np
import pytest

from descriptions import described
from noisyfl.analysis.frame import column_values, tidy
from noisyfl.figures import style
from noisyfl.figures.critical_difference import critical_difference


def run_of(values, diverged=False):
    """A run that has these values of any metric."""
    return SimpleNamespace(
        id="x",
        spec={"seed": 1, "schedule": {}},
        provenance={"status": "diverged" if diverged else "finished"},
        diverged=diverged,
        series=lambda metric: (np.arange(len(values)), np.array(values, dtype=float)),
    )


def given_for(cells, **more):
    """The description of a table of such cells, rows called a, b, ... and columns 0, 1, ..."""
    given = {
        "name": "f",
        "rows": [{"name": chr(ord("a") + r)} for r in range(len(cells))],
        "columns": [{"name": str(c)} for c in range(len(cells[0]))],
        "metric": "test_accuracy",
        "statistic": "best",
        "cells": cells,
    }
    return given | more


def values_of(given, runs):
    return column_values(tidy(described(given).table, runs)).to_numpy()


def drawn(reached):
    """A figure of rows that reach such test accuracies, [rows, columns]."""
    runs, cells = {}, []
    for r, line in enumerate(reached):
        cells.append([[f"{r} {c}"] for c in range(len(line))])
        runs |= {f"{r} {c}": run_of([value]) for c, value in enumerate(line)}
    with style.house_style():
        figure = critical_difference(described(given_for(cells)), runs)
        figure.draw_without_rendering()
    return figure


# Of eight columns row a is best in all, b and c share the next places, d is last in all.
ORDERED = [[0.9] * 8, [0.5, 0.6] * 4, [0.6, 0.5] * 4, [0.1] * 8]


def test_a_cell_is_the_statistic_over_its_trials():
    runs = {"x": run_of([0.2, 0.8, 0.4]), "y": run_of([0.6, 0.5]), "z": run_of([0.3])}
    cells = [[["x", "y"], ["z"]], [["z"], ["x"]]]
    assert values_of(given_for(cells), runs) == pytest.approx(np.array([[70, 30], [30, 80]]))
    last = given_for(cells, statistic="last")
    assert values_of(last, runs) == pytest.approx(np.array([[45, 30], [30, 40]]))
    last["columns"][0]["statistic"] = "best"
    last["rows"][1]["statistic"] = "mean_last_10"
    expected = np.array([[70, 30], [30, 140 / 3]])
    assert values_of(last, runs) == pytest.approx(expected)


def test_less_is_better_where_the_metric_says_so():
    runs = {"x": run_of([3.0]), "y": run_of([5.0])}
    given = given_for([[["x"]], [["y"]]], metric="seconds_per_round", statistic="mean")
    assert values_of(given, runs).tolist() == [[-3, -5]]


def test_a_cell_of_which_a_trial_diverged_or_says_nothing_has_no_value():
    runs = {"x": run_of([0.5]), "lost": run_of([0.9], diverged=True), "silent": run_of([])}
    cells = [[["x"]], [["x", "lost"]], [["silent"]]]
    values = values_of(given_for(cells), runs)
    assert values[0, 0] == 50
    assert np.isnan(values[0, 1:]).all()


def test_columns_without_runs_are_left_out():
    runs = {"x": run_of([0.5]), "y": run_of([0.6])}
    cells = [[["x"], [], ["y"]], [["y"], [], ["x"]]]
    assert values_of(given_for(cells), runs) == pytest.approx(np.array([[50, 60], [60, 50]]))


def test_names_stand_with_their_ranks_from_the_outside_in():
    texts = [text.get_text() for text in drawn(ORDERED).axes[0].texts]
    assert [text for text in texts if any(letter in text.split() for letter in "abcd")] == [
        "a  1.0",
        "b  2.5",
        "4.0  d",
        "2.5  c",
    ]


def test_bars_join_what_is_not_told_apart_and_the_bracket_is_as_long_as_it_takes():
    figure = drawn(ORDERED)
    lines = [(line.get_linewidth(), *line.get_data()) for line in figure.axes[0].lines]
    # Demsar's q for four methods is 2.569; (1, 2.5) and (2.5, 4) are then alike, 1 and 4 are not.
    length = 2.569 * np.sqrt(4 * 5 / (6 * 8))
    assert 1.5 < length < 3
    bars = [x for width, x, _ in lines if width == 3]
    assert [np.round(x, 1).tolist() for x in bars] == [[1.0, 2.5], [2.5, 4.0]]
    heights = [y[0] for width, _, y in lines if width == 3]
    assert len(set(heights)) == 2
    brackets = [x for _, x, y in lines if len(set(y)) == 1 and y[0] < -1]
    assert [np.ptp(x) for x in brackets] == [pytest.approx(length, rel=1e-3)]
    # 12 x 8 / (4 x 5) times twice 1.5 squared.
    words = "average rank over 8 columns, 1 is best; Friedman's χ²(3) = 21.6, p < 0.0001"
    assert figure.get_supxlabel() == words


def test_what_chance_explains_is_one_group():
    figure = drawn([[0.5, 0.6, 0.5], [0.6, 0.5, 0.6], [0.55, 0.55, 0.4]])
    assert "no row differs significantly from another" in figure.get_supxlabel()
    (bar,) = [line.get_xdata() for line in figure.axes[0].lines if line.get_linewidth() == 3]
    # Places 3, 1, 2; then 1, 3, 2; then 2, 1, 3 of a, b and c.
    assert bar == pytest.approx([5 / 3, 7 / 3], abs=0.1)


@pytest.mark.parametrize("rows", [2, 3, 22, 27])
def test_everything_is_on_the_page(rows):
    rng = np.random.default_rng(rows)
    reached = rng.random((rows, 6))
    runs, cells = {}, []
    for r in range(rows):
        cells.append([[f"{r} {c}"] for c in range(6)])
        runs |= {f"{r} {c}": run_of([reached[r, c]]) for c in range(6)}
    given = given_for(cells)
    given["rows"] = [{"name": f"A method with a longish name {r}"} for r in range(rows)]
    with style.house_style():
        figure = critical_difference(described(given), runs)
        figure.draw_without_rendering()
    boxes = [text.get_window_extent() for text in figure.axes[0].texts]
    assert len(boxes) >= rows
    assert min(box.x0 for box in boxes) >= 0
    assert max(box.x1 for box in boxes) <= figure.bbox.width
    assert min(box.y0 for box in boxes) >= 0
    assert max(box.y1 for box in boxes) <= figure.bbox.height
    names = [box for box, text in zip(boxes, figure.axes[0].texts, strict=True)
             if "method" in text.get_text()]  # fmt: skip
    assert not any(one.overlaps(other) for n, one in enumerate(names) for other in names[:n])


def test_equal_runs_give_equal_files(tmp_path):
    for attempt in ("one", "two"):
        with style.house_style():
            style.save(drawn(ORDERED), tmp_path / f"{attempt}.png", tmp_path / f"{attempt}.pdf")
    for kind in ("png", "pdf"):
        assert (tmp_path / f"one.{kind}").read_bytes() == (tmp_path / f"two.{kind}").read_bytes()
