"""The cells of a scale, and the same in the papers' settings."""

import yaml

from noisyfl.experiments.config import check_config
from noisyfl.experiments.plan_file import in_both
from small_paper import PAPER


def test_the_papers_settings_have_the_scales_cells_and_not_its_values(tmp_path):
    for name in ("a", "b"):
        (tmp_path / f"{name}.yaml").write_text(yaml.safe_dump(PAPER))
    overlay = {"setting": {"schedule": {"rounds": 7}}, "rows": {"a/one": ["FedAvg"]}}
    given = {"scale": "tiny", "experiments": ["a", "b"], "experiment_folders": [str(tmp_path)]}
    given |= {"results": str(tmp_path / "results"), "targets": ["a/one"]}
    given["overlay"] = {**overlay, "trials": {"a/one": 1}}
    scale, papers = in_both(check_config(given, "test"), "test", ["a"], print)
    assert list(scale.tables) == ["a/one", "b/one"]
    assert list(papers.tables) == ["a/one"]
    for plan, rounds in ((scale, 7), (papers, 100)):
        table = plan.tables["a/one"]
        assert [row.name for row in table.rows] == ["FedAvg"]
        assert [[len(cell) for cell in row] for row in table.runs] == [[1, 1]]
        assert {plan.runs[run]["schedule"]["rounds"] for run in table.run_ids()} == {rounds}
        assert {cell.as_published for cell in table.cells[0]} == {plan is papers}
