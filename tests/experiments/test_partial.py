"""What is made of the runs that are there, where none is trained."""

import pytest

from digits_paper import SETTING
from noisyfl.experiments.plan import partial_plan
from noisyfl.specs.descriptions import complete_block
from small_paper import plan as small_plan

LONG = {**SETTING, "schedule": {**SETTING["schedule"], "rounds": 900}}
PAPER = {
    "title": "A paper",
    "settings": {"base": LONG},
    "tables": {
        "one": {
            "title": "Table 1",
            "setting": "base",
            "trials": 2,
            "statistic": "best",
            "columns": [
                {"name": "a"},
                {"name": "b", "with": {"label_noise": "pair"}},
                {"name": "mean", "mean_of": ["a", "b"]},
            ],
            "rows": [{"name": n, "method": n.lower()} for n in ("FedAvg", "Krum", "FedProx")],
        },
    },
    "figures": {
        "curves": {"kind": "by_round", "title": "t", "caption": "Seen.", "table": "one"},
        "clients": {
            **{"kind": "by_client", "title": "t", "caption": "c", "table": "one"},
            **{"row": "FedAvg", "column": "a", "x": ["noise_level"], "y": ["label_precision"]},
        },
        "own": {
            "kind": "similarity",
            "title": "t",
            "caption": "c",
            "setting": "base",
            "panels": [{"name": "a", "method": "fedavg"}, {"name": "b", "method": "median"}],
        },
    },
}


@pytest.fixture
def plan(tmp_path):
    return small_plan(tmp_path, PAPER)


def everything(_):
    return True


def nothing(_):
    return False


def test_a_table_keeps_its_cells_and_says_what_it_lacks(plan):
    table = plan.tables["paper/one"]
    there = {table.runs[0][0][1], *table.runs[2][1]}
    part = partial_plan(plan, there.__contains__, everything).tables["paper/one"]
    first, last = table.runs[0][0][1], table.runs[2][1]
    assert part.runs == (((first,), (), ()), ((), (), ()), ((), last, ()))
    assert (part.rows, part.columns) == (table.rows, table.columns)
    missing = [run for run in table.run_ids() if run not in there]
    assert part.missing == len(missing) == 9
    seconds = sum(plan.estimate(run, "cpu").seconds for run in missing)
    assert part.missing_hours == pytest.approx(seconds / 3600, abs=0.05)
    assert part.missing_hours > 0


def test_what_is_whole_stays_as_it_is(plan):
    part = partial_plan(plan, everything, everything)
    assert part.tables == plan.tables
    assert part.figures["paper/own"] == plan.figures["paper/own"]
    assert part.figures["paper/curves"].runs == plan.figures["paper/curves"].runs
    assert part.runs == plan.runs


def test_a_figure_shows_the_rows_and_columns_that_are_whole(plan):
    table = plan.tables["paper/one"]
    # Krum lacks column b, FedProx everything.
    there = {run for r, c in ((0, 0), (0, 1), (1, 0)) for run in table.runs[r][c]}
    figure = partial_plan(plan, there.__contains__, everything).figures["paper/curves"]
    assert [row.name for row in figure.table.rows] == ["FedAvg", "Krum"]
    assert [column.name for column in figure.table.columns] == ["a"]
    assert set(figure.runs) == {run for r in (0, 1) for run in table.runs[r][0]}
    assert figure.caption == "Seen. Trained so far: 2 of 3 rows and 1 of 2 columns."


def test_a_figure_of_clients_has_the_partition_of_the_run_that_it_draws(plan):
    second = plan.tables["paper/one"].runs[0][0][1]
    figure = partial_plan(plan, {second}.__contains__, everything).figures["paper/clients"]
    assert figure.table.runs == (((second,),),)
    assert figure.partitions == (plan.facts[second].partition,)


def test_a_figure_of_panels_shows_those_that_have_their_run(plan):
    own = plan.figures["paper/own"]
    part = partial_plan(plan, {own.panels[1].run}.__contains__, everything)
    figure = part.figures["paper/own"]
    assert [panel.name for panel in figure.panels] == ["b"]
    assert (figure.runs, figure.partitions) == ((own.panels[1].run,), (own.panels[1].partition,))


def test_a_figure_of_which_nothing_is_there_goes(plan):
    assert partial_plan(plan, nothing, everything).figures == {}
    own = partial_plan(plan, everything, nothing)
    assert list(own.figures) == ["paper/curves"]  # the others need their partitions


def test_the_largest_block_without_a_hole():
    a, no = ("a",), ()
    assert complete_block(((a, no), (a, no), (a, no))) == ([0, 1, 2], [0])
    assert complete_block(((a, a, no), (a, a, no), (a, no, no))) == ([0, 1], [0, 1])
    assert complete_block(((no, no),)) == ([], [])
    assert complete_block(()) == ([], [])
