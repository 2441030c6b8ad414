"""The papers' tables with our numbers below theirs."""

import math

import pytest
from test_evidence import APART, CELLS, with_labels

from made_up_trials import times
from noisyfl.claims.leads import leads
from noisyfl.claims.our_cells import read_rows
from noisyfl.pages.paper_tables import PaperTable, paper_tables


@pytest.fixture
def tables(tmp_path):
    """The tables of a file of published numbers and ours."""

    def read(text):
        path = tmp_path / "cells.csv"
        path.write_text(text)
        return paper_tables(path, leads(read_rows(path)))

    return read


def test_a_papers_table_has_ours_below_it_where_most_of_a_column_is_run(tables):
    (table,) = tables(with_labels(CELLS))
    assert (table.paper, table.table, table.columns) == ("rofl", "rofl_table6", ("pair",))
    assert table.rows == (
        ("A", "*90.0*<br>80.0"),
        ("B", "*80.0\\**<br>85.0\\*"),
        ("C", "*70.0*<br>60.0"),
        ("D", "*60.0*<br>50.0"),
        ("E", "*50.0*<br>–"),
        ("*Lead of RoFL over FedAvg*", "*+10.0\\**<br>**-5.0\\* ± 4.6**"),
        ("*Headroom: oracle − FedAvg*", "+29.6"),
        ("*Rank correlation*", "0.80 (0.80 to 0.80)"),
    )


def test_a_number_that_two_tables_show_is_in_both(tables):
    first = "rofl,A,pair,mnist,test_accuracy,90,percent,,rofl/table6,80.0,False,29.6"
    text = CELLS.replace(first, f"{first}\n{first.replace('rofl/table6', 'rofl/maps')}")
    assert [table.table for table in tables(with_labels(text))] == ["rofl_table6", "rofl_maps"]


def test_ours_are_over_the_seeds_that_all_rows_of_a_column_have(tables):
    """The other seeds are those of A and B, which are five points better in them."""
    apart = {"A": (-5, 5), "B": (-5, 5), "C": (0,), "D": (0,)}
    (table,) = tables(with_labels(CELLS, apart))
    ours = [row[1].partition("<br>")[2] for row in table.rows[:5]]
    assert ours == ["75.0", "80.0\\*", "60.0", "50.0", "–"]
    both = dict.fromkeys(apart, (-5, 5))
    (table,) = tables(with_labels(CELLS, both))
    assert table.rows[0][1].endswith("<br>80.0")


def test_the_headroom_is_that_of_the_seeds_that_all_rows_have(tables):
    """B has two trials more than A, in which there is less."""
    text = with_labels(CELLS.replace("85.04,True,29.6", "85.04,True,25.0"))
    (table,) = tables(text.replace(",Bpair,", ",Bpair and more,"))
    assert ("*Headroom: oracle − FedAvg*", "+29.6") in table.rows


def test_a_rank_correlation_moves_as_far_as_seeds_lie_apart(tables):
    def found(std):
        apart = {name: times(std, one)[0] for name, one in APART.items()}
        ((one,),) = [table.correlations for table in tables(with_labels(CELLS, apart))]
        assert (one.column, one.correlation, one.rows) == ("pair", pytest.approx(0.8), 4)
        return one

    assert found(0.05).moved == pytest.approx((0.8, 0.8))
    low, high = found(20).moved
    assert low < 0 < 0.9 < high
    ((alone,),) = [
        one.correlations for one in tables(with_labels(CELLS, dict.fromkeys(APART, (0,))))
    ]
    assert math.isnan(alone.moved[0])
    assert alone.text == "0.80"


def test_rows_of_several_metrics_are_not_ranked_with_each_other(tables):
    text = CELLS.replace("D,pair,mnist,test_accuracy", "D,pair,mnist,label_precision")
    (table,) = tables(with_labels(text))
    assert table.correlations == ()
    assert "*Rank correlation*" not in [row[0] for row in table.rows]


def test_the_oracle_and_pooled_training_are_no_rivals(tables):
    """Of the four methods that are run, three are too few to be ranked."""
    (table,) = tables(with_labels(CELLS.replace("rofl,D,", "rofl,oracle,")))
    assert table.correlations == ()
    *rows, last = with_labels(CELLS).splitlines()
    pooled = [row.replace("federated", "centralized") if "D,pair" in row else row for row in rows]
    (table,) = tables("\n".join([*pooled, last, ""]))
    assert table.correlations == ()


def test_a_column_without_noise_has_no_headroom(tables):
    (table,) = tables(with_labels(CELLS.replace(",pair,", ",none,")))
    assert "*Headroom: oracle − FedAvg*" not in [row[0] for row in table.rows]


def test_a_column_of_several_data_sets_has_no_headroom_of_its_own(tables):
    (table,) = tables(with_labels(CELLS.replace("D,pair,mnist", "D,pair,fashion_mnist")))
    assert [row[0] for row in table.rows] == ["A", "B", "C", "D", "E"]


def test_a_wide_table_is_shown_in_parts():
    columns = (*(f"Fashion-MNIST, IID, {level}" for level in "abcd"), "all", "x, a", "x, b")
    rows = ("A", "0", "1", "2", "3", "4", "5", "6"), ("B", "", "", "", "", "", "5", "6")
    table = PaperTable("fednoil", "fednoil_table1", (), columns, rows, ())
    assert table.parts == [
        ("Fashion-MNIST, IID", ("a", "b", "c", "d"), [("A", "0", "1", "2", "3")]),
        ("", ("all",), [("A", "4")]),
        ("x", ("a", "b"), [("A", "5", "6"), ("B", "5", "6")]),
    ]
    narrow = PaperTable("fednoil", "fednoil_table1", (), columns[:6], rows, ())
    assert narrow.parts == [("", columns[:6], [*rows])]
