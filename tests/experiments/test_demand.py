"""What a plan costs, which cells are cheapest, and the commands made of that."""

import argparse
import json
import re
import shutil
import subprocess
import sys

import pytest
import yaml

from noisyfl.__main__ import main, parser
from noisyfl.claims.catalogue import all_claims
from noisyfl.commands import runs as train_commands
from noisyfl.commands import scales
from noisyfl.commands.runs import train_job, train_specs
from noisyfl.core.artifacts import DamagedArtifact, Results, write_json
from noisyfl.core.options import BadInput
from noisyfl.core.places import ROOT
from noisyfl.core.provenance import read_provenance, write_provenance
from noisyfl.experiments.config import check_config
from noisyfl.experiments.demand import (
    cheapest_cells,
    demands,
    plan_text,
    remarks,
    runs_by_claim,
    speeds_for,
)
from noisyfl.experiments.planning import make_plan
from noisyfl.experiments.targets import runs_by_target, runs_of, tables_and_figures
from noisyfl.runs import archive
from noisyfl.runs.job import TrainingJob
from noisyfl.specs.identity import identity
from noisyfl.specs.sources import source_digest
from small_paper import plan as small_plan

SETTING = {
    "dataset": "digits",
    "clients": 4,
    "partition": "iid",
    "label_noise": "symmetric",
    "noise_level": "constant(level=0.4)",
    "model": "cnn",
    "augmentation": "none",
    "normalization": "dataset",
    "schedule": {
        "rounds": 2,
        "participation": 0.75,
        "local_epochs": 1,
        "batch_size": 20,
        "learning_rate": 0.05,
    },
}
ROWS = [{"name": "FedAvg", "method": "fedavg"}, {"name": "Krum", "method": "krum"}]
LONG = {"schedule": {"rounds": 50}}
PAPER = {
    "title": "A paper",
    "settings": {"base": SETTING},
    "tables": {
        "one": {
            "title": "Table 1",
            "setting": "base",
            "trials": 2,
            "statistic": "best",
            "published": {"paper": "fedcorr", "table": "table5", "setting_scope": "federated"},
            "columns": [{"name": "long", "with": LONG}, {"name": "short"}],
            "rows": ROWS,
        },
        "two": {
            "title": "Table 2",
            "setting": "base",
            "trials": 1,
            "statistic": "best",
            "columns": [{"name": "short"}, {"name": "m", "mean_of": ["short"]}],
            "rows": ROWS[:1],
        },
    },
    "figures": {
        "curves": {"kind": "by_round", "title": "t", "caption": "c", "table": "one"},
        "own": {
            "kind": "similarity",
            "title": "t",
            "caption": "c",
            "setting": "base",
            "panels": [{"name": "a", "method": "fedavg"}],
        },
    },
}


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
    assert "left  CPU core  asked" in text
    assert len({len(line) for line in text.splitlines()[3:8]}) == 1  # the columns are aligned
    either = plan_text(plan, parts, done.__contains__, "auto")
    assert "left  H100  A100  RTX 4090" in either
    own = plan_text(plan, parts, done.__contains__, "cuda", {"My GPU": core["CPU core"]})
    assert "left  My GPU  asked" in own


def test_a_plan_is_of_what_the_scale_makes_unless_a_target_is_named(plan):
    plan.targets = ["paper/two"]
    assert list(runs_by_target(plan, None)) == ["paper_two"]
    assert list(runs_by_target(plan, "paper")) == ["paper_one", "paper_two", "paper_own"]
    assert runs(plan, None) == plan.tables["paper/two"].run_ids()
    plan.targets = ["paper"]
    assert runs(plan, None) == runs_of(tables_and_figures(plan, "all").values())


def test_what_a_claim_needs():
    """FedCorr's Figure 3 is one run, and claim 10 is about nothing else."""
    plan = scales.read_plan(ROOT / "config" / "desk.yaml")
    found, out_of_reach = runs_by_claim(plan, None)
    assert found["fedcorr-10"] == list(plan.figures["fedcorr/figure3"].runs)
    assert [len(runs) for runs in found.values()] == sorted(map(len, found.values()))
    assert "fedcorr-11" in out_of_reach  # about a table of CIFAR-100, which the scale leaves out
    assert "rofl-04" in out_of_reach  # compares two levels of noise, of which the scale has one
    assert len(found) + len(out_of_reach) == len(all_claims())
    assert not set(found) & set(out_of_reach)
    assert "fedcorr-11" in runs_by_claim(plan, "all")[0]
    text = plan_text(plan, found, lambda run: True, "cpu", out_of_reach=out_of_reach)
    assert "These claims would stay open in any case: fedcni-03, " in text
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
        "To be known of these runs:",
        f"- fedrn: the choice of clean samples (warm_up_rounds) would begin in round {rounds + 1}, "
        f"and there are {rounds} rounds (1 run)",
    ]
    assert "To be known" in plan_text(plan, {"late": list(plan.runs)}, lambda run: True, "cpu")


def test_a_run_that_no_machine_ends_in_a_year_is_refused_unless_allowed(tmp_path):
    endless = {"name": "for ever", "method": "centralized(epochs=1000000000000)"}
    paper = {**PAPER, "tables": {"one": {**PAPER["tables"]["one"], "rows": [endless]}}}
    paper["figures"] = {}
    (tmp_path / "paper.yaml").write_text(yaml.safe_dump(paper))
    given = {"scale": "test", "experiments": ["paper"]}
    expected = r"rows\[0\].*centralized\(epochs=1000000000000\).*years on a.*allow_years"
    with pytest.raises(BadInput, match=expected):
        make_plan(check_config(given, "test.yaml"), tmp_path, "test.yaml")
    allowed = check_config({**given, "allow_years": True}, "test.yaml")
    assert make_plan(allowed, tmp_path, "test.yaml").runs


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


def test_an_unknown_target_names_its_nearest_or_the_scale_that_has_it(plan):
    with pytest.raises(BadInput, match="no target is called 'paper_too'; did you mean 'paper_two'"):
        runs(plan, "paper_too")
    with pytest.raises(
        BadInput, match=r"has no target 'grand_ranks', but .*--config \S*config/paper.yaml"
    ):
        runs(plan, "grand_ranks")
    with pytest.raises(BadInput, match="did you mean 'fedcorr_table2'"):
        runs(plan, "fedcor_table2")


def test_a_value_of_the_configuration_is_no_target(plan):
    with pytest.raises(BadInput, match=r"after the targets: --config key=value device=cpu$"):
        runs(plan, "device=cpu")


@pytest.fixture
def scale(tmp_path, monkeypatch):
    """A scale's file whose experiments and reproduced runs lie in a folder of the test's own."""
    (tmp_path / "papers").mkdir()
    (tmp_path / "papers" / "paper.yaml").write_text(yaml.safe_dump(PAPER))
    config = tmp_path / "tiny.yaml"
    given = {"scale": "tiny", "experiments": ["paper"], "results": str(tmp_path / "made")}
    given["experiment_folders"] = [str(tmp_path / "papers")]
    config.write_text(yaml.safe_dump(given))
    monkeypatch.setattr(scales, "REPRODUCED", Results(tmp_path / "reproduced"))
    return config


def trained(scale):
    """The results of a scale whose cheapest cell is trained."""
    results = scale.parent / "results"
    plan = scales.read_plan(scale)
    for run in plan.tables["paper/one"].runs[0][1]:
        job = TrainingJob(
            spec=plan.runs[run],
            results=str(results),
            log=str(Results(results).log(run)),
            data=[],
            download=False,
            device="cpu",
            executor="fast",
            checkpoint_seconds=60,
            alone="noisyfl train this",
        )
        assert train_job(job, [scale.parent / "data"]) == ""
    return results


def test_a_run_that_fails_does_not_keep_the_others_from_being_trained(scale, capsys):
    plan, results = scales.read_plan(scale), scale.parent / "results"
    run = plan.tables["paper/one"].runs[0][1][0]
    spec = plan.runs[run]
    other = {**spec, "noisy_partition": {**spec["noisy_partition"], "dataset": "mnist"}}
    files = [scale.parent / name for name in ("first.json", "second.json", "none.json")]
    for file, content in zip(files, (other, spec), strict=False):
        write_json(file, content)
    with pytest.raises(BadInput, match=r"none.json: there is no such file"):
        train_specs(files, results, [scale.parent / "data"], False, "cpu", "fast")
    assert not Results(results).run(run).whole()
    with pytest.raises(SystemExit, match="1 of 2 runs failed"):
        train_specs(files[:2], results, [scale.parent / "data"], False, "cpu", "fast")
    assert Results(results).run(run).whole()
    assert "mnist" in capsys.readouterr().err


def test_nor_does_one_that_a_plugins_mistake_ends(scale, capsys, monkeypatch):
    plan, results = scales.read_plan(scale), scale.parent / "results"
    runs = plan.tables["paper/one"].runs[0][1]
    files = [scale.parent / f"{run}.json" for run in runs]
    for file, run in zip(files, runs, strict=True):
        write_json(file, plan.runs[run])
    tried = []

    def train_job(job, data):
        tried.append(job.spec["seed"])
        return {}["a plugin's key"] if len(tried) == 1 else ""

    monkeypatch.setattr(train_commands, "train_job", train_job)
    with pytest.raises(SystemExit, match=f"1 of {len(runs)} runs failed"):
        train_specs(files, results, [scale.parent / "data"], False, "cpu", "fast")
    assert len(tried) == len(runs) > 1
    assert 'KeyError: "a plugin\'s key"' in capsys.readouterr().err


def test_the_cheapest_cells_are_printed_for_snakemake(scale, capsys):
    results = scale.parent / "results"
    scales.print_plan(scale, results, "cpu", cheapest=9)
    printed = capsys.readouterr().out.splitlines()
    cells = scales.read_plan(scale).tables["paper/one"].runs
    assert printed[:2] == [str(Results(results).run(run).provenance) for run in cells[0][1]]
    assert len(printed) == 8
    # Printed nothing, Snakemake would be asked for all of the scale.
    with pytest.raises(BadInput, match=r"no missing cell is trained in 1e-06 hours \(cpu\)"):
        scales.print_plan(scale, results, "cpu", cheapest=1e-6)
    with pytest.raises(BadInput, match=r"--cheapest: expected without --target and --claims"):
        scales.print_plan(scale, results, "cpu", target="paper_one", claims=True, cheapest=9)


def test_what_is_archived_is_done_and_says_which_commit_made_it(scale, capsys):
    results = trained(scale)
    cell = scales.read_plan(scale).tables["paper/one"].runs[0][1]
    made = json.loads(Results(results).run(cell[0]).provenance.read_text())
    assert made["source_digest"] == source_digest()
    rounds = Results(results).run(cell[0]).rounds.read_bytes()
    scales.archive_runs(scale, results, commit="c0ffee")
    kept = Results(scale.parent / "reproduced").run(cell[0])
    assert not (results / "runs" / cell[0]).exists()
    assert kept.rounds.read_bytes() == rounds
    spec = scales.read_plan(scale).runs[cell[0]]
    partition = identity(spec["noisy_partition"])
    made_of = Results(results).partition(partition).read_bytes()
    assert Results(scale.parent / "reproduced").partition(partition).read_bytes() == made_of
    archived = read_provenance(kept.provenance, cell[0])
    del made["checksum"], archived["checksum"]
    assert archived == {**made, "commit": "c0ffee"}
    capsys.readouterr()
    scales.print_plan(scale, results, "cpu", cheapest=9)
    assert cell[0] not in capsys.readouterr().out
    scale.write_text(f"{scale.read_text()}reproduced: false\n")
    scales.print_plan(scale, results, "cpu", cheapest=9)
    assert cell[0] in capsys.readouterr().out


@pytest.mark.parametrize("file", ["rounds", "clients", "provenance"])
def test_a_damaged_run_is_not_archived_and_stays(scale, file):
    results = trained(scale)
    run = scales.read_plan(scale).tables["paper/one"].runs[0][1][0]
    path = getattr(Results(results).run(run), file)
    path.write_bytes(path.read_bytes()[:-9])
    with pytest.raises(DamagedArtifact, match=path.name):
        archive.archive(run, Results(results), Results(scale.parent / "kept"), "c0ffee")
    assert path.exists()
    assert not (scale.parent / "kept").exists()


def test_a_run_goes_with_its_noisy_partition_and_out_of_the_store(scale):
    results = Results(trained(scale))
    run, kept = scales.read_plan(scale).tables["paper/one"].runs[0][1][0], scale.parent / "kept"
    partition = results.partition(identity(scales.read_plan(scale).runs[run]["noisy_partition"]))
    whole = partition.read_bytes()
    partition.write_bytes(whole[:-9])
    with pytest.raises(DamagedArtifact, match=partition.name):
        archive.archive(run, results, Results(kept), "c0ffee")
    assert not Results(kept).run(run).provenance.exists()
    assert results.run(run).provenance.exists()
    partition.write_bytes(whole)
    assert archive.archive(run, results, Results(kept), "c0ffee")
    assert not results.stored(run).folder.exists()


def test_a_run_that_is_tracked_already_stays_where_it_is(scale):
    results, kept = Results(trained(scale)), Results(scale.parent / "kept")
    run = scales.read_plan(scale).tables["paper/one"].runs[0][1][0]
    shutil.copytree(results.run(run).folder, kept.run(run).folder)
    assert not archive.archive(run, results, kept, "c0ffee")
    assert results.run(run).provenance.exists()
    assert "commit" not in read_provenance(kept.run(run).provenance, run)


def test_runs_of_other_sources_are_archived_only_with_their_commit(scale, monkeypatch):
    monkeypatch.setattr(archive, "commit_of_sources", lambda: "c0ffee")
    results = trained(scale)
    path = next((results / "runs").glob("*/provenance.json"))
    write_provenance(path, {**json.loads(path.read_text()), "source_digest": "0" * 64})
    with pytest.raises(BadInput, match=r"made by other sources \(000000000000\) than these"):
        scales.archive_runs(scale, results, commit=None)
    assert path.exists()


def test_the_commit_is_that_of_unchanged_sources(tmp_path, monkeypatch):
    package = tmp_path / "package"
    (package / "runs").mkdir(parents=True)
    monkeypatch.setattr(archive, "__file__", str(package / "runs" / "archive.py"))
    with pytest.raises(BadInput, match="not in a git repository"):
        archive.commit_of_sources()
    (package / "runs" / "archive.py").write_text("1\n")
    git = [shutil.which("git"), "-C", str(tmp_path), "-c", "user.name=a", "-c", "user.email=a@b"]
    for command in (["init", "-q"], ["add", "."], ["commit", "-qm", "one"]):
        subprocess.run([*git, *command], check=True)
    head = subprocess.run([*git, "rev-parse", "HEAD"], check=True, capture_output=True, text=True)
    assert archive.commit_of_sources() == head.stdout.strip()
    (package / "runs" / "archive.py").write_text("2\n")
    with pytest.raises(BadInput, match="changes that are not committed"):
        archive.commit_of_sources()


def test_the_command_prints_the_plan_of_the_default_scale(monkeypatch, capsys):
    monkeypatch.setattr(sys, "argv", ["noisyfl", "plan"])
    main()
    told = capsys.readouterr().out
    assert "fedcorr_table2" in told
    assert told.splitlines()[0].startswith("The scale “quick”")


def test_every_command_has_an_example_that_it_understands():
    (commands_of,) = (a for a in parser()._actions if isinstance(a, argparse._SubParsersAction))
    assert {"plan", "progress", "specs", "train", "runs", "archive"} < set(commands_of.choices)
    for name, command in commands_of.choices.items():
        example = command.epilog.removeprefix("example: python -m noisyfl ").split(" | ")[0]
        assert vars(parser().parse_args(example.split()))["command"], name
        assert example.startswith(name)


def test_a_reader_who_has_seen_enough_ends_a_command_quietly():
    command = f"{sys.executable} -m noisyfl methods | head -n 1"
    done = subprocess.run(command, shell=True, capture_output=True, text=True, check=True)
    assert done.stderr == ""
    assert done.stdout.count("\n") == 1


def test_a_device_that_there_is_not_is_refused_at_once(monkeypatch):
    monkeypatch.setattr(sys, "argv", ["noisyfl", "plan", "--device", "gpu"])
    with pytest.raises(SystemExit) as ended:
        main()
    assert ended.value.code == (
        "error: --device: got 'gpu', expected auto, cpu, cuda or cuda:<number>"
    )


def test_help_says_each_default_once_and_none_that_is_nothing():
    (commands_of,) = (a for a in parser()._actions if isinstance(a, argparse._SubParsersAction))
    for name, command in commands_of.choices.items():
        text = " ".join(command.format_help().split())
        assert "default: None" not in text, name
        assert not re.search(r"\(default[^)]*\) \(default", text), name
    assert "(default: fast)" in commands_of.choices["train"].format_help()
