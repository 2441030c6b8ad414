"""A table's numbers: what is collected, compared and marked."""

import pandas as pd
import pytest

from noisyfl.pages.settings import banner
from small_tables import HIGH, LOW, PUBLISHED, content, markdown_cells, numbers, printed, table_in


@pytest.fixture
def table(runs, tmp_path):
    return table_in(tmp_path, runs)


def test_csv_has_every_number(table):
    csv_file = numbers(table)
    assert list(csv_file.index) == [
        "FedAvg",
        "w/o mixup",
        "DivideMix (centralized)",
        "FedCorr",
        "RoFL",
    ]
    ours = csv_file.loc["FedAvg"]
    assert ours[f"{LOW} mean"] == 80
    assert ours[f"{LOW} std"] == 10
    assert ours[f"{LOW} trials"] == 3
    assert ours[f"{LOW} diverged"] == 0
    assert ours[f"{LOW} published"] == 93.11
    assert ours[f"{LOW} published std"] == 0.12
    assert ours[f"{LOW} best"] == 80
    assert ours[f"{LOW} last"] == 70
    assert ours[f"{LOW} mean_last_10"] == 75
    assert ours[f"{LOW} final_or_max"] == 80
    assert ours[f"{LOW} best by run"] == "80.0 70.0 90.0"
    assert ours[f"{LOW} last by run"] == "70.0 60.0 80.0"
    assert ours[f"{LOW} status by run"] == "finished finished finished"
    assert ours[f"{LOW} runs"].split() == table.description["runs"][0][0]
    assert ours[f"{HIGH} mean"] == 60
    assert ours[f"{HIGH} std"] == 0
    assert ours[f"{HIGH} published"] == 72
    assert csv_file["trained"].tolist() == [True, True, False, False, False]


def test_a_difference_is_given_only_in_the_papers_setting(table):
    assert numbers(table)[f"{LOW} difference"].isna().all()
    table.description["as_published"] = [[True, False], [False, True]]
    csv_file = numbers(table)
    assert csv_file.loc["FedAvg", f"{LOW} difference"] == pytest.approx(80 - 93.11)
    assert csv_file[f"{LOW} as published"].tolist() == [True, False, False, False, False]
    assert csv_file[f"{HIGH} difference"].isna().all()  # FedAvg's is foreign, the other unpublished


def test_published_numbers_of_rows_with_and_without_a_variant(table):
    csv_file = numbers(table)
    assert csv_file.loc["w/o mixup", f"{LOW} published"] == 90.63
    assert pd.isna(csv_file.loc["w/o mixup", f"{HIGH} published"])
    table.description["rows"][1]["published"] = {"variant": ""}
    csv_file = numbers(table)
    assert csv_file.loc["w/o mixup", f"{LOW} published"] == 93.82
    assert csv_file.loc["FedCorr (without_mixup)", f"{LOW} published"] == 90.63


def test_a_method_given_as_a_mapping_selects_as_its_text_does(table):
    before = printed(table)
    table.description["rows"][1]["method"] = {"name": "fedcorr", "variant": "without_mixup"}
    assert printed(table) == before


def test_rows_of_the_paper_alone_are_shown_as_not_run(table):
    text = printed(table)["md"]
    assert markdown_cells(text, "DivideMix") == [
        "DivideMix (centralized), not run",
        "(95.64)",
        "",
    ]
    assert markdown_cells(text, "RoFL") == ["RoFL, not run", "", r"(74.10\*)"]
    assert "22.22" not in text  # of another table
    assert "11.11" not in text  # of another dataset
    assert "Not run:" in text
    assert r"\*: the maximum" in text


def test_what_the_columns_do_not_select_by_tells_the_papers_rows_apart(table):
    published = table.folder / "published.csv"
    more = "p,t1,cifar10,federated,iid(n=9),low,rofl,,test_accuracy,50.5,percent,,5,best,,\n"
    published.write_text(PUBLISHED + more)
    rows = {row.name: row for row in content(table).rows}
    assert rows["RoFL (iid(n=9))"].cells[0].published.value == 50.5
    assert rows["RoFL (iid(n=100))"].cells[1].published.value == pytest.approx(74.1)


def test_markdown_shows_ours_beside_the_papers_and_the_best_in_bold(table):
    text = printed(table)["md"]
    assert text.startswith("# Table 1: two \\| methods\n")
    assert markdown_cells(text, "FedAvg") == [
        "FedAvg",
        "80.00 ± 10.00 (93.11)",
        "**60.00 ± 0.00** (72.00)",
    ]
    assert markdown_cells(text, "w/o") == [
        "w/o mixup",
        "**90.00 ± 5.00** (90.63)",
        "40.00 ± 10.00",
    ]
    assert "- Take note." in text


def test_the_banner_says_what_stands_in(table):
    text = printed(table)["md"]
    assert "> **Scale “tiny”: not the paper's settings." in text
    assert banner(content(table))[1:] == [
        "digits replaces cifar10.",
        "10 clients; the paper has 100.",
        "3 trials; the paper has 5.",
        "Here: digits, 10 clients, 30 rounds, participation 0.3, 2 local epochs, model cnn.",
    ]
    assert "†" not in text


def same_runs(table):
    return [line for line in banner(content(table)) if "the same runs" in line]


def test_columns_and_rows_that_are_the_same_runs_are_named(table):
    assert same_runs(table) == []
    runs, columns = table.description["runs"], table.description["columns"]
    (low, high), (mixed_low, mixed_high) = runs
    table.description["runs"] = [[low, low], [mixed_low, mixed_low]]
    (line,) = same_runs(table)
    assert line == f"At this scale these columns are the same runs: {LOW}; {HIGH}."
    files = printed(table)
    assert f"> - {line}" in files["md"]
    assert f"<li>{line}</li>" in files["html"]
    table.description["runs"] = [[low, high], [low, high]]
    assert same_runs(table) == ["At this scale these rows are the same runs: FedAvg; w/o mixup."]
    # A method that the setting does not change is not a whole column.
    table.description["runs"] = [[low, low], [mixed_low, mixed_high]]
    assert same_runs(table) == []
    # Two metrics of the same runs are not the same.
    table.description["runs"] = [[low, low], [mixed_low, mixed_low]]
    columns[1]["metric"] = "label_recall"
    assert same_runs(table) == []


def test_columns_without_runs_and_the_papers_own_settings_are_not_the_same_runs(table):
    table.description["runs"] = [[[], []], [table.description["runs"][1][0], []]]
    table.description["columns"].append({"name": "more", "published": None})
    table.description["runs"] = [[*line, []] for line in table.description["runs"]]
    table.description["as_published"] = [[False] * 3] * 2
    assert same_runs(table) == []
    table.description["runs"] = [[line[0]] * 3 for line in table.description["runs"]]
    assert len(same_runs(table)) == 1
    table.description["as_published"] = [[True] * 3] * 2
    assert same_runs(table) == []


def test_rows_that_are_not_ranked_are_named_and_never_bold(table):
    assert "Not ranked" not in printed(table)["md"]
    table.description["rows"].append({"name": "Oracle", "published": None, "ranked": False})
    table.description["runs"].append([table.description["runs"][1][0]] * 2)
    table.description["as_published"].append([False, False])
    text = printed(table)["md"]
    assert "- Not ranked, and never in bold: Oracle." in text
    assert markdown_cells(text, "Oracle") == ["Oracle", "90.00 ± 5.00", "90.00 ± 5.00"]
    assert markdown_cells(text, "w/o")[1].startswith("**90.00 ± 5.00**")
    assert markdown_cells(text, "FedAvg")[2].startswith("**60.00 ± 0.00**")


def test_a_page_says_what_the_spread_of_a_mean_of_columns_is(table):
    note = "Of a mean of columns, ± is the deviation over these, and counts for no verdict."
    assert note not in printed(table)["md"]
    table.description["columns"].append({"name": "Mean", "published": {}, "mean_of": [LOW, HIGH]})
    table.description["runs"] = [[*line, []] for line in table.description["runs"]]
    table.description["as_published"] = [[False] * 3] * 2
    assert f"- {note}" in printed(table)["md"]


def test_without_strangers_there_is_no_banner(table):
    table.description["as_published"] = [[True, True], [True, True]]
    assert banner(content(table)) == []
    files = printed(table)
    assert "not the paper's settings" not in files["md"] + files["html"]
    assert "†" not in files["md"] + files["html"]


def test_strangers_among_cells_of_the_paper_are_marked(table):
    table.description["as_published"] = [[True, True], [False, True]]
    text = printed(table)["md"]
    assert markdown_cells(text, "w/o")[1] == "**90.00 ± 5.00**† (90.63)"
    assert markdown_cells(text, "FedAvg")[1] == "80.00 ± 10.00 (93.11) -13.11 ✗"
    assert "the numbers marked † were not made in the paper's settings" in text


def test_a_table_of_no_paper_has_no_published_numbers(table):
    table.description["published"] = None
    csv_file = numbers(table)
    assert list(csv_file.index) == ["FedAvg", "w/o mixup"]
    assert csv_file[[f"{LOW} published", f"{LOW} as published"]].isna().all(axis=None)
    text = printed(table)["md"]
    assert markdown_cells(text, "FedAvg")[1] == "80.0 ± 10.0"
    assert "Scale “tiny”: it overrides some of this experiment's settings." in text
    assert "brackets" not in text


def test_diverged_trials_are_shown_and_leave_the_mean(table):
    cell = [
        table.runs.add([0.5, 0.99, 0.1], seed=11, provenance={"status": "diverged"}),
        table.runs.add([0.5, 0.98], seed=12),
        table.runs.add([0.1], seed=13, provenance={"status": "diverged"}),
    ]
    table.description["runs"][0][0] = cell
    table.description["runs"][1][1] = [cell[0], cell[2]]
    text = printed(table)["md"]
    assert markdown_cells(text, "FedAvg")[1] == "98.00, diverged (2 of 3) (93.11)"
    assert markdown_cells(text, "w/o")[1] == "**90.00 ± 5.00** (90.63)"  # 98 is not the best
    assert markdown_cells(text, "w/o")[2] == "diverged (2 of 2)"
    assert "Diverged: in so many trials" in text
    csv_file = numbers(table)
    assert csv_file.loc["FedAvg", f"{LOW} diverged"] == 2
    assert csv_file.loc["FedAvg", f"{LOW} trials"] == 1
    # The evaluation of a model that is no longer finite counts for nothing.
    assert csv_file.loc["FedAvg", f"{LOW} last by run"] == "99.0 98.0 nan"
    assert csv_file.loc["FedAvg", f"{LOW} status by run"] == "diverged finished diverged"
    assert pd.isna(csv_file.loc["w/o mixup", f"{HIGH} mean"])


def test_a_cell_of_most_unconverged_runs_is_starred(table):
    table.description["statistic"] = "final_or_max"
    text = printed(table)["md"]
    assert markdown_cells(text, "FedAvg")[1] == r"80.00\* ± 10.00 (93.11)"
    steady = [table.runs.add([0.9, 0.4, 0.4, 0.4, 0.4, 0.4], seed=s) for s in (21, 22)]
    table.description["runs"][0][0] = steady
    text = printed(table)["md"]
    assert markdown_cells(text, "FedAvg")[1] == "40.00 ± 0.00 (93.11)"


def test_one_trial_has_no_spread(table):
    table.description["runs"] = [[cell[:1] for cell in row] for row in table.description["runs"]]
    files = printed(table)
    assert markdown_cells(files["md"], "FedAvg")[1] == "80.00 (93.11)"
    assert "a single trial" in files["md"]
    assert numbers(table)[f"{LOW} std"].isna().all()


def test_what_differs_clearly_from_fedavg_is_said_in_any_table(table, runs):
    def note():
        return [line for line in printed(table)["md"].splitlines() if "Significantly" in line]

    # FedAvg's three trials on level=low lie 10 points apart; the other method has no such spread.
    (line,) = note()
    assert line.endswith("for all 2 differences (Holm): worse in level=high: w/o mixup.")
    # Without FedAvg there is nothing to hold it against.
    table.description["rows"][0]["method"] = "gce"
    assert not note()
