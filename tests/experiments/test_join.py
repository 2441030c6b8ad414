"""Published numbers find their cells by their labels, whatever their lines."""

import csv

import pytest
import yaml

from checked_plan import checked_plan
from noisyfl.core.options import BadInput
from noisyfl.experiments.config import check_config
from noisyfl.specs.descriptions import description_text
from noisyfl.specs.published import KEY
from small_paper import CONFIG, PAPER, edited

OTHERS = {"dataset": "cifar10", "setting_scope": "federated", "partition": "iid", "variant": ""}
REST = {"unit": "percent", "std": "", "trials": "", "statistic": "", "converged": "", "note": ""}


def number(paper, noise, method, value):
    labels = {"paper": paper, "table": "one", "noise": noise, "method": method}
    found = {**labels, **OTHERS, "metric": "test_accuracy"}
    return {**{key: found[key] for key in KEY}, "value": value, **REST}


NUMBERS = (
    number("a", "none", "fedavg", "50"),
    number("a", "0.4", "fedavg", "40"),
    number("a", "none", "fedprox", "51"),
    number("b", "none", "fedavg", "60"),
    number("b", "0.4", "fedavg", "61"),
)


def of_paper(name):
    """The small paper's table with the published numbers of a paper."""
    table = edited(PAPER["tables"]["one"], ("published",), {"paper": name})
    for column, noise in zip(table["columns"], ("none", "0.4"), strict=True):
        column["published"] = {"noise": noise}
    return table


@pytest.fixture
def planned(tmp_path):
    """Plans two tables, each with a paper's numbers."""

    def make(numbers=NUMBERS, paper=PAPER):
        tables = {**{name: of_paper(name) for name in "ab"}, **paper["tables"]}
        (tmp_path / "paper.yaml").write_text(yaml.safe_dump({**paper, "tables": tables}))
        with (tmp_path / "published.csv").open("w", newline="") as file:
            writer = csv.DictWriter(file, list(NUMBERS[0]))
            writer.writeheader()
            writer.writerows(numbers)
        config = check_config({**CONFIG, "experiment_folders": [str(tmp_path)]}, "my.yaml")
        return checked_plan(config, "my.yaml", tmp_path)

    return make


def told(made):
    """What each table's job is told: it is done anew when that changes."""
    return {name: description_text(table) for name, table in made.tables.items()}


def test_a_line_more_in_the_middle_moves_nothing(planned):
    more = number("c", "none", "krum", "1")
    before, after = planned(), planned([*NUMBERS[:2], more, *NUMBERS[2:]])
    assert told(before) == told(after)
    labels = [[cell.labels for cell in row] for row in after.tables["paper/b"].cells]
    assert [cell["method"] for cell in labels[0]] == ["fedavg", "fedavg"]
    assert [cell["paper"] for cell in labels[0]] == ["b", "b"]
    assert "dataset" not in labels[1][0]  # the paper has no FedProx


def test_a_corrected_number_prints_its_own_table_anew_and_trains_nothing(planned):
    before, after = planned(), planned([number("a", "none", "fedavg", "55"), *NUMBERS[1:]])
    assert before.runs == after.runs
    assert [n for n, text in told(before).items() if told(after)[n] != text] == ["paper/a"]


def test_two_numbers_with_the_same_labels_are_refused(planned):
    twice = number("a", "none", "fedavg", "52")
    with pytest.raises(BadInput, match=r"published.csv: lines 2 and 7 .*a, one, cifar10, .*fedavg"):
        planned([*NUMBERS, twice])


def test_several_numbers_for_a_cell_are_refused(planned):
    other = {**number("a", "none", "fedavg", "52"), "partition": "shard"}
    message = r"tables.a: row 'FedAvg', column 'clean': .* lines 2, 7 fit; they differ in partition"
    with pytest.raises(BadInput, match=message):
        planned([*NUMBERS, other])


def test_a_label_that_no_number_has_is_refused(planned):
    table = of_paper("a")
    table["columns"][1]["published"]["noise"] = "0.5"
    message = r"paper.yaml: tables.a: 'noisy': published: .* no noise '0.5'.* \(known: none, 0.4\)"
    with pytest.raises(BadInput, match=message):
        planned(paper=edited(PAPER, ("tables", "a"), table))
    table = of_paper("fedcor")
    with pytest.raises(BadInput, match=r"tables.a.published: .* no paper 'fedcor'"):
        planned(paper=edited(PAPER, ("tables", "a"), table))


def test_a_row_can_be_compared_with_no_number(planned):
    table = of_paper("a")
    table["rows"] = [{"name": "FedAvg, otherwise", "method": "fedavg", "published": None}]
    made = planned(paper=edited(PAPER, ("tables", "a"), table)).tables["paper/a"]
    assert [cell.labels.get("dataset") for cell in made.cells[0]] == [None, None]
    assert len(made.other_numbers) == 3  # which are printed as not run


def test_an_unknown_label_column_is_refused(planned):
    table = edited(of_paper("a"), ("published",), {"papr": "a"})
    with pytest.raises(BadInput, match=r"no label column 'papr'; did you mean 'paper'"):
        planned(paper=edited(PAPER, ("tables", "a"), table))
