"""The commands that train, archive and plan the runs of a scale."""

import json
import shutil
import subprocess
from pathlib import Path

import pytest
import yaml

from commands_called import print_plan, train_specs
from digits_paper import PAPER
from noisyfl.commands import runs as train_commands
from noisyfl.commands import scales
from noisyfl.commands.runs import list_runs, train_job
from noisyfl.core.artifacts import DamagedArtifact, Results, write_json
from noisyfl.core.options import BadInput
from noisyfl.core.provenance import read_provenance, write_provenance
from noisyfl.core.tracked import Tracked
from noisyfl.data.own_files import OwnFiles
from noisyfl.experiments import scale as scale_module
from noisyfl.experiments.plan_file import read_plan
from noisyfl.runs import archive
from noisyfl.runs.job import TrainingJob
from noisyfl.specs.identity import identity
from noisyfl.specs.sources import source_digest
from small_runs import spec_of


@pytest.fixture
def scale(tmp_path, monkeypatch):
    """A scale's file whose experiments and reproduced runs lie in a folder of the test's own."""
    (tmp_path / "papers").mkdir()
    (tmp_path / "papers" / "paper.yaml").write_text(yaml.safe_dump(PAPER))
    config = tmp_path / "tiny.yaml"
    given = {"scale": "tiny", "experiments": ["paper"], "results": str(tmp_path / "made")}
    given["experiment_folders"] = [str(tmp_path / "papers")]
    config.write_text(yaml.safe_dump(given))
    tracked = Tracked(tmp_path / "reproduced", packed=tmp_path / "reproduced")
    for module in (scales, scale_module):
        monkeypatch.setattr(module, "REPRODUCED", tracked)
    return config


def plan_of(scale):
    return read_plan([scale])[1]


def trained(scale):
    """The results of a scale whose cheapest cell is trained."""
    results = scale.parent / "results"
    plan = plan_of(scale)
    for run in plan.tables["paper/one"].runs[0][1]:
        job = TrainingJob(spec=plan.runs[run], results=str(results), device="cpu")
        assert train_job(job, OwnFiles([scale.parent / "data"], results)) == ""
    return results


def test_a_run_that_fails_does_not_keep_the_others_from_being_trained(scale, capsys):
    plan, results = plan_of(scale), scale.parent / "results"
    run = plan.tables["paper/one"].runs[0][1][0]
    spec = plan.runs[run]
    other = {**spec, "noisy_partition": {**spec["noisy_partition"], "dataset": "mnist"}}
    files = [scale.parent / name for name in ("first.json", "second.json", "none.json")]
    for file, content in zip(files, (other, spec), strict=False):
        write_json(file, content)
    with pytest.raises(BadInput, match=r"none.json: there is no such file"):
        train_specs(files, results, scale.parent / "data")
    assert not Results(results).run(run).whole()
    with pytest.raises(SystemExit, match="1 of 2 runs failed"):
        train_specs(files[:2], results, scale.parent / "data")
    assert Results(results).run(run).whole()
    assert "mnist" in capsys.readouterr().err


def test_nor_does_one_that_a_plugins_mistake_ends(scale, capsys, monkeypatch):
    plan, results = plan_of(scale), scale.parent / "results"
    runs = plan.tables["paper/one"].runs[0][1]
    files = [scale.parent / f"{run}.json" for run in runs]
    for file, run in zip(files, runs, strict=True):
        write_json(file, plan.runs[run])
    tried = []

    def train_job(job, own):
        tried.append(job.spec["seed"])
        return {}["a plugin's key"] if len(tried) == 1 else ""

    monkeypatch.setattr(train_commands, "train_job", train_job)
    with pytest.raises(SystemExit, match=f"1 of {len(runs)} runs failed"):
        train_specs(files, results, scale.parent / "data")
    assert len(tried) == len(runs) > 1
    assert 'KeyError: "a plugin\'s key"' in capsys.readouterr().err


def test_no_run_is_tried_after_an_error_of_cuda(scale, capsys, monkeypatch):
    plan, results = plan_of(scale), scale.parent / "results"
    files = [scale.parent / f"{run}.json" for run in plan.runs]
    for file, spec in zip(files, plan.runs.values(), strict=True):
        write_json(file, spec)
    errors = ["failed: RuntimeError: CUDA error: an illegal memory access was encountered"]
    monkeypatch.setattr(train_commands, "train_job", lambda job, own: errors.pop())
    with pytest.raises(SystemExit, match="stopped: CUDA works again only in a new process"):
        train_specs(files, results, scale.parent / "data")
    assert "illegal memory access" in capsys.readouterr().err


def test_the_cheapest_cells_are_printed_for_snakemake(scale, capsys):
    results = scale.parent / "results"
    print_plan(scale, results, cheapest=9)
    printed = capsys.readouterr().out.splitlines()
    cells = plan_of(scale).tables["paper/one"].runs
    assert printed[:2] == [str(Results(results).run(run).provenance) for run in cells[0][1]]
    assert len(printed) == 8
    # Printed nothing, Snakemake would be asked for all of the scale.
    with pytest.raises(BadInput, match=r"no missing cell can be trained in 1e-06 hours \(cpu\)"):
        print_plan(scale, results, cheapest=1e-6)
    with pytest.raises(BadInput, match=r"--cheapest: expected without --target and --claims"):
        print_plan(scale, results, target="paper_one", claims=True, cheapest=9)


@pytest.mark.slow
def test_what_is_archived_is_done_and_says_which_commit_made_it(scale, capsys):
    results = trained(scale)
    cell = plan_of(scale).tables["paper/one"].runs[0][1]
    made = json.loads(Results(results).run(cell[0]).provenance.read_text())
    assert made["source_digest"] == source_digest()
    rounds = Results(results).run(cell[0]).rounds.read_bytes()
    scales.archive_runs([scale], results, commit="c0ffee")
    kept = scales.REPRODUCED.run(cell[0])
    assert not (results / "runs" / cell[0]).exists()
    assert kept.rounds.read_bytes() == rounds
    spec = plan_of(scale).runs[cell[0]]
    partition = identity(spec["noisy_partition"])
    made_of = Results(results).partition(partition).read_bytes()
    assert scales.REPRODUCED.partition(partition).read_bytes() == made_of
    archived = read_provenance(kept.provenance, cell[0]).as_given()
    del made["checksum"], archived["checksum"]
    assert archived == {**made, "commit": "c0ffee"}
    capsys.readouterr()
    print_plan(scale, results, cheapest=9)
    assert cell[0] not in capsys.readouterr().out
    scale.write_text(f"{scale.read_text()}reproduced: false\n")
    print_plan(scale, results, cheapest=9)
    assert cell[0] in capsys.readouterr().out


@pytest.mark.slow
def test_a_damaged_run_is_not_archived_and_stays(scale):
    results = trained(scale)
    run = plan_of(scale).tables["paper/one"].runs[0][1][0]
    path = Results(results).run(run).clients
    path.write_bytes(path.read_bytes()[:-9])
    with pytest.raises(DamagedArtifact, match=path.name):
        archive.archive([run], Results(results), scales.REPRODUCED, "c0ffee")
    assert path.exists()
    assert scales.REPRODUCED.batches == {}


@pytest.mark.slow
def test_a_run_goes_with_its_noisy_partition_and_out_of_the_store(scale):
    results = Results(trained(scale))
    run = plan_of(scale).tables["paper/one"].runs[0][1][0]
    partition = results.partition(identity(plan_of(scale).runs[run]["noisy_partition"]))
    whole = partition.read_bytes()
    partition.write_bytes(whole[:-9])
    with pytest.raises(DamagedArtifact, match=partition.name):
        archive.archive([run], results, scales.REPRODUCED, "c0ffee")
    assert not scales.REPRODUCED.run(run).provenance.exists()
    assert results.run(run).provenance.exists()
    partition.write_bytes(whole)
    assert archive.archive([run], results, scales.REPRODUCED, "c0ffee") == [run]
    assert not results.stored(run).folder.exists()


@pytest.mark.slow
def test_a_run_whose_files_are_deleted_no_further_does_not_count(scale, monkeypatch, capsys):
    """As an archive that is killed leaves it."""
    results = Results(trained(scale))
    run = plan_of(scale).tables["paper/one"].runs[0][1][0]
    unlink = Path.unlink

    def unlink_and_end(self, **options):
        unlink(self, **options)
        if self.parent.name == run:
            raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(Path, "unlink", unlink_and_end)
        with pytest.raises(KeyboardInterrupt):
            archive.archive([run], results, scales.REPRODUCED, "c0ffee")
    assert scales.REPRODUCED.run(run).whole()
    assert results.run(run).spec.exists()
    capsys.readouterr()
    list_runs(results.root)
    assert run not in capsys.readouterr().out


@pytest.mark.slow
def test_a_run_that_has_kept_its_labels_is_tracked_and_stays(scale):
    results = Results(trained(scale))
    run = plan_of(scale).tables["paper/one"].runs[0][1][0]
    results.run(run).labels.touch()
    assert archive.archive([run], results, scales.REPRODUCED, "c0ffee") == [run]
    assert results.run(run).whole()
    assert scales.REPRODUCED.run(run).whole()


@pytest.mark.slow
def test_a_run_that_is_tracked_already_stays_where_it_is(scale, tmp_path):
    results = Results(trained(scale))
    run = plan_of(scale).tables["paper/one"].runs[0][1][0]
    shutil.copytree(results.run(run).folder, tmp_path / "other" / "runs" / run)
    scales.REPRODUCED.packed.mkdir()
    scales.REPRODUCED.add(tmp_path / "other")
    assert archive.archive([run], results, scales.REPRODUCED, "c0ffee") == []
    assert results.run(run).provenance.exists()
    assert not hasattr(read_provenance(scales.REPRODUCED.run(run).provenance, run), "commit")


@pytest.mark.slow
def test_runs_of_other_sources_are_archived_only_with_their_commit(scale, monkeypatch):
    monkeypatch.setattr(archive, "commit_of_sources", lambda: "c0ffee")
    results = trained(scale)
    path = next((results / "runs").glob("*/provenance.json"))
    write_provenance(path, {**json.loads(path.read_text()), "source_digest": "0" * 64})
    with pytest.raises(BadInput, match=r"trained by other sources \(000000000000\) than these"):
        scales.archive_runs([scale], results, commit=None)
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
    with pytest.raises(BadInput, match="uncommitted changes"):
        archive.commit_of_sources()


def test_data_and_partitions_are_made_without_training(tmp_path):
    spec, path = spec_of("fedavg"), tmp_path / "spec.json"
    write_json(path, spec)
    train_specs([path], tmp_path, prepare=True)
    results = Results(tmp_path)
    assert results.data("digits", "train").exists()
    assert results.partition(identity(spec["noisy_partition"])).exists()
    assert not results.run(identity(spec)).folder.exists()
