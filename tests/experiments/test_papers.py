"""The cells of a scale, and the same in the papers' settings."""

import pytest

from noisyfl.experiments.config import check_config
from noisyfl.experiments.plan_file import in_both


def test_the_papers_settings_have_the_scales_cells_and_not_its_values(tmp_path):
    config = check_config(
        {
            "scale": "tiny",
            "results": str(tmp_path),
            "experiments": ["fedrn"],
            "targets": ["fedrn/table2"],
            "overlay": {
                "setting": {"schedule": {"rounds": 7}},
                "rows": {"fedrn/table2": ["FedAvg", "FedRN, k=1"]},
                "trials": {"fedrn/table2": 2},
            },
        },
        "test",
    )
    scale, papers = in_both(config, "test", ["fedrn"], print)
    ours, theirs = scale.tables["fedrn/table2"], papers.tables["fedrn/table2"]
    assert [row.name for row in ours.rows] == [row.name for row in theirs.rows]
    assert [len(cell) for row in ours.runs for cell in row] == [2] * (2 * len(ours.columns))
    for name, plan, rounds in (("ours", scale, 7), ("the paper's", papers, 500)):
        table = plan.tables["fedrn/table2"]
        found = {plan.runs[run]["schedule"]["rounds"] for run in table.run_ids()}
        assert found == {rounds}, name
    assert all(cell.as_published for row in theirs.cells for cell in row)
    assert not any(cell.as_published for row in ours.cells for cell in row)


@pytest.mark.slow
def test_only_the_experiments_that_are_shown_are_planned_in_the_papers_settings(tmp_path):
    config = check_config(
        {
            "scale": "tiny",
            "results": str(tmp_path),
            "experiments": ["fedrn", "fedcni"],
            "overlay": {"rows": {"fedrn/table2": ["FedAvg"], "fedcni/table1": ["FedAvg"]}},
        },
        "test",
    )
    scale, papers = in_both(config, "test", ["fedcni"], print)
    assert {table.experiment for table in scale.tables.values()} == {"fedrn", "fedcni"}
    assert {table.experiment for table in papers.tables.values()} == {"fedcni"}
    assert [row.name for row in papers.tables["fedcni/table1"].rows] == ["FedAvg"]
