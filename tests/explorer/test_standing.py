"""Where a method stands, in the explorer's list of methods, in a real browser."""

import json

import pytest

import small_explorer as small
from browser import Visit, chromium
from noisyfl.explorer.gather import gather
from noisyfl.explorer.page import explorer_page

pytestmark = pytest.mark.slow  # a browser


@pytest.fixture
def made(tmp_path, runs_in):
    index, details = gather(small.small_scale(tmp_path, runs_in(tmp_path / "results")))
    return tmp_path, json.loads(json.dumps(index)), details


def standings(made, *methods):
    """Of each method's line in the list: how many rivals it beats, and where it is first."""
    folder, index, details = made
    path = folder / "explorer.html"
    path.write_text(explorer_page(index, details, "tiny"), encoding="utf-8")
    with chromium() as browser:
        page = Visit(browser, path, "#methods").page
        links = [page.get_by_role("link", name=method, exact=True) for method in methods]
        lines = [page.locator("tr", has=link).locator("td") for link in links]
        return [[text.strip() for text in line.all_inner_texts()][-2:] for line in lines]


def rank(index, table, column, ranks):
    """Give the cells of a column their ranks."""
    for line, found in zip(index["tables"][table]["rows"], ranks, strict=False):
        index["cells"][line["cells"][column]]["rank"] = found and [found, len(ranks)]


def test_a_standing_counts_columns_of_accuracy_and_the_best_row_in_each(made):
    _, index, _ = made
    # In two tables of two columns, FedAvg is second in the first column, and first in the second.
    assert standings(made, "fedavg") == [["50 %", "2 of 4"]]
    first, second = index["tables"]
    # Another row of FedAvg in a column that it has already, and better there.
    first["rows"][2]["method"] = "fedavg"
    rank(index, 0, 0, (3, 2, 1))
    # A column of another metric.
    for line in second["rows"]:
        index["cells"][line["cells"][0]]["metric"] = "label_recall"
    assert standings(made, "fedavg") == [["100 %", "3 of 3"]]
    # A table of another scale, which is only shown beside this one's.
    second["scale"] = "other"
    index["scales"]["other"] = {**index["scales"][index["scale"]], "name": "other"}
    assert standings(made, "fedavg") == [["100 %", "2 of 2"]]


def test_rivals_are_other_methods_and_a_combination_is_one_of_its_own(made):
    _, index, _ = made
    first, second = index["tables"]
    first["rows"][1]["method"], first["rows"][2]["method"] = "fedcorr+median", "oracle"
    rank(index, 0, 0, (3, 1, 2))
    rank(index, 0, 1, (1, 1, 3))
    # An ablation: no other method is there.
    for row in second["rows"]:
        row["method"] = "fedavg"
    rank(index, 1, 0, (1, 2, 3))
    assert standings(made, "fedavg", "fedcorr+median", "fedcorr", "median", "oracle") == [
        ["25 %", "0.5 of 2"],
        ["75 %", "1.5 of 2"],
        ["not ranked", ""],
        ["not ranked", ""],
        ["a bound", ""],
    ]


def test_a_client_side_is_the_same_method_with_and_without_fedavg(made):
    _, index, _ = made
    for table, name in zip(index["tables"], ("fedavg+mixup", "mixup"), strict=True):
        table["rows"][1]["method"] = name
    assert standings(made, "mixup") == [["50 %", "2 of 4"]]


def test_pooled_samples_are_a_bound(made):
    _, index, _ = made
    for table in index["tables"]:
        table["rows"][1]["method"] = "centralized+mixup"
    assert standings(made, "centralized", "mixup", "fedavg") == [
        ["a bound", ""],
        ["not ranked", ""],
        ["not ranked", ""],
    ]
