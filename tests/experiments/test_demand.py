"""What a plan costs, and which cells are cheapest."""

import re

import pytest

from digits_paper import PAPER, SETTING
from noisyfl.claims.catalogue import CLAIMS
from noisyfl.commands.parser import parser
from noisyfl.core.options import BadInput
from noisyfl.core.places import ROOT
from noisyfl.experiments.demand import (
    cheapest_cells,
    demands,
    plan_text,
    remarks,
    runs_by_claim,
    speeds_for,
    time_text,
)
from noisyfl.experiments.plan_file import read_plan
from noisyfl.experiments.targets import (
    figures_of_these,
    runs_by_target,
    runs_of,
    tables_and_figures,
)
from small_paper import plan as small_plan


def runs(plan, target):
    return runs_of(tables_and_figures(plan, target).values())


@pytest.fixture
def plan(tmp_path):
    return small_plan(tmp_path, PAPER)


def test_the_demands_of_each_table_and_of_all(plan):
    one, two = (plan.tables[f"paper/{name}"] for name in ("one", "two"))
    done = set(one.runs[0][1])
    core = speeds_for("cpu")
    parts = runs_by_target(plan)
    found = {d.target: d for d in demands(plan, parts, done.__contains__, core, "cpu")}
    assert list(found) == ["paper_one", "paper_two", "paper_own", "all"]  # the curves are table 1's
    assert (found["paper_one"].runs, found["paper_one"].shared) == (8, 1)
    assert (found["paper_one"].done, found["paper_one"].left) == (2, 6)
    assert (found["paper_two"].runs, found["paper_two"].done) == (1, 1)
    assert two.runs[0][0][0] in done
    assert (found["all"].runs, found["all"].left) == (9, 7)
    seconds = [plan.estimate(r, "cpu").seconds for r in one.run_ids() if r not in done]
    assert found["paper_one"].hours == pytest.approx((sum(seconds) / 3600,))
    assert found["paper_one"].cluster_hours == pytest.approx(
        sum(600 + 2 * s for s in seconds) / 3600
    )
    assert found["paper_two"].hours == (0,)
    assert found["paper_two"].megabytes == 0
    text = plan_text(plan, parts, done.__contains__, "cpu")
    assert re.search(r"left +CPU core +asked", text)
    assert len({len(line) for line in text.splitlines()[3:8]}) == 1  # the columns are aligned
    either = plan_text(plan, parts, done.__contains__, "auto")
    assert re.search(r"left +H200 +H100 +A100 +RTX 4090", either)


def test_a_plan_names_every_target(plan):
    parts, figures = runs_by_target(plan), figures_of_these(plan)
    names = [
        f"{part.experiment}_{part.name}" for part in [*plan.tables.values(), *plan.figures.values()]
    ]
    assert figures
    assert sorted([*parts, *figures]) == sorted(names)
    text = plan_text(plan, parts, lambda run: True, "cpu", figures=figures)
    assert f"Figures that need no other runs: {', '.join(figures)}." in text


def test_a_plan_is_of_what_the_scale_makes_unless_a_target_is_named(plan):
    plan.targets = ["paper/two"]
    assert list(runs_by_target(plan, None)) == ["paper_two"]
    assert list(runs_by_target(plan, "paper")) == ["paper_one", "paper_two", "paper_own"]
    assert runs(plan, None) == plan.tables["paper/two"].run_ids()
    plan.targets = ["paper"]
    assert runs(plan, None) == runs_of(tables_and_figures(plan, "all").values())


@pytest.mark.slow
def test_what_a_claim_needs():
    """FedCorr's Figure 3 is one run, and claim 10 is about nothing else."""
    plan = read_plan([ROOT / "config" / "reduced.yaml"])[1]
    found, out_of_reach = runs_by_claim(plan, None)
    assert found["fedcorr-10"] == list(plan.figures["fedcorr/figure3"].runs)
    assert [len(runs) for runs in found.values()] == sorted(map(len, found.values()))
    assert "fedcorr-07" in out_of_reach  # about a table of Clothing1M, which the scale leaves out
    assert len(found) + len(out_of_reach) == len(CLAIMS)
    assert not set(found) & set(out_of_reach)
    assert "fedcorr-07" in runs_by_claim(plan, "all")[0]
    text = plan_text(plan, found, lambda run: True, "cpu", out_of_reach=out_of_reach)
    assert "These claims would still stay open: fedcni-03, " in text
    arguments = parser().parse_args(["plan", "--claims", "--target", "fedcorr"])
    assert (arguments.claims, arguments.target) == (True, "fedcorr")


def test_a_plan_says_in_words_what_does_not_happen(tmp_path):
    rounds = SETTING["schedule"]["rounds"]
    late = {"name": "late", "method": f"fedrn(warm_up_rounds={rounds})"}
    two = {**PAPER["tables"]["two"], "rows": [late], "trials": 1}
    paper = {**PAPER, "tables": {"two": two}, "figures": {}}
    plan = small_plan(tmp_path, paper)
    assert remarks(plan, plan.runs) == [
        "",
        "Remarks on these runs:",
        f"- fedrn: the choice of clean samples (warm_up_rounds) would begin in round {rounds + 1}, "
        f"but there are {rounds} rounds (1 run)",
    ]
    assert "Remarks on" in plan_text(plan, {"late": list(plan.runs)}, lambda run: True, "cpu")


def test_the_cheapest_cells_come_first_and_no_run_twice(plan):
    one = plan.tables["paper/one"]
    nothing = cheapest_cells(plan, lambda run: False, "cpu", 9)
    # Krum costs what FedAvg does; fifty rounds cost more than two. Table 2 is no paper's.
    assert nothing == [
        *(list(one.runs[r][1]) for r in (0, 1)),
        *(list(one.runs[r][0]) for r in (0, 1)),
    ]
    done = {one.runs[0][1][0], *one.runs[1][1]}
    assert cheapest_cells(plan, done.__contains__, "cpu", 9)[0] == [one.runs[0][1][1]]
    cell = sum(plan.estimate(run, "cpu").seconds for run in one.runs[0][1]) / 3600
    assert cheapest_cells(plan, lambda run: False, "cpu", 1.01 * cell) == nothing[:1]
    assert cheapest_cells(plan, lambda run: False, "cpu", 0.99 * cell) == []


def test_an_unknown_target_names_its_nearest(plan):
    with pytest.raises(BadInput, match="no target is called 'paper_too'; did you mean 'paper_two'"):
        runs(plan, "paper_too")
    with pytest.raises(BadInput, match=r"called 'grand_methods' \(.*lists those of the scale “"):
        runs(plan, "grand_methods")


def test_a_value_of_the_configuration_is_no_target(plan):
    with pytest.raises(BadInput, match=r"behind the targets: --config key=value device=cpu$"):
        runs(plan, "device=cpu")


@pytest.mark.parametrize(
    ("hours", "words"),
    [(0, "0"), (0.01, "1 min"), (0.5, "30 min"), (0.999, "1.0 h"), (4321.06, "4,321.1 h")],
)
def test_a_time_shorter_than_an_hour_is_in_minutes(hours, words):
    assert time_text(hours) == words
