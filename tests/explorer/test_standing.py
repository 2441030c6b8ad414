"""Where a method stands, in the explorer's list of methods, in a real browser."""

import json

import pytest

import small_explorer as small
from browser import Visit, chromium
from noisyfl.explorer.gather import gather
from noisyfl.explorer.page import explorer_page


@pytest.fixture(scope="module")
def made(tmp_path_factory, runs_in):
    folder = tmp_path_factory.mktemp("standing")
    return folder, *gather(small.small_scale(folder, runs_in(folder / "results")))


def standing(folder, index, details, method):
    """The cells of a method's line in the list: how many rivals it beats, and where it is first."""
    path = folder / "explorer.html"
    path.write_text(explorer_page(index, details, "tiny"), encoding="utf-8")
    with chromium() as browser:
        visit = Visit(browser, path, "#methods")
        line = visit.page.locator("tr", has=visit.page.get_by_role("link", name=method, exact=True))
        return [text.strip() for text in line.locator("td").all_inner_texts()][-2:]


@pytest.mark.slow
def test_a_standing_counts_columns_of_accuracy_and_the_best_row_in_each(made):
    folder, index, details = made
    index = json.loads(json.dumps(index))
    # In two tables of two columns, FedAvg is second in the first column, and first in the second.
    assert standing(folder, index, details, "fedavg") == ["50 %", "2 of 4"]
    first, second = index["tables"]
    column = [line["cells"][0] for line in first["rows"]]
    # Another row of FedAvg in a column that it has already, and better there.
    first["rows"][2]["method"] = "fedavg"
    for n, rank in zip(column, (3, 2, 1), strict=False):
        index["cells"][n]["rank"] = [rank, 3]
    # A column of another metric.
    for line in second["rows"]:
        index["cells"][line["cells"][0]]["metric"] = "label_recall"
    assert standing(folder, index, details, "fedavg") == ["100 %", "3 of 3"]
    # A table of another scale, which is only shown beside this one's.
    second["scale"] = "other"
    index["scales"]["other"] = {**index["scales"][index["scale"]], "name": "other"}
    assert standing(folder, index, details, "fedavg") == ["100 %", "2 of 2"]
