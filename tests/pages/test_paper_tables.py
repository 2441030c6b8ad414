"""The papers' tables with our numbers beside theirs."""

import pytest
from test_evidence import CELLS

from noisyfl.pages.paper_tables import PaperTable, RankCorrelation, paper_tables


def test_a_papers_table_has_ours_beside_it_where_most_of_a_column_is_run(tmp_path):
    (tmp_path / "cells.csv").write_text(CELLS)
    rows = (
        ("A", "90.0", "80.0"),
        ("B", "80.0\\*", "85.0\\*"),
        ("C", "70.0", "60.0"),
        ("D", "60.0", "50.0"),
        ("E", "50.0", "–"),
        ("*Headroom: oracle − FedAvg*", "", "+29.6"),
    )
    alike = (RankCorrelation("pair", pytest.approx(0.8), 4),)
    assert paper_tables(tmp_path / "cells.csv") == [
        PaperTable("rofl", "rofl_table6", ("pair",), rows, alike)
    ]


def test_rows_of_several_metrics_are_not_ranked_with_each_other(tmp_path):
    path = tmp_path / "cells.csv"
    path.write_text(CELLS.replace("D,pair,mnist,test_accuracy", "D,pair,mnist,label_precision"))
    (table,) = paper_tables(path)
    assert table.correlations == ()


def test_a_column_of_several_data_sets_has_no_room_of_its_own(tmp_path):
    path = tmp_path / "cells.csv"
    path.write_text(CELLS.replace("D,pair,mnist", "D,pair,fashion_mnist"))
    (table,) = paper_tables(path)
    assert [row[0] for row in table.rows] == ["A", "B", "C", "D", "E"]
