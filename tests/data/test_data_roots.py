"""Shared data, and results on another file system, as a user sets them up."""

import json
import re
import shutil
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from noisyfl.core.options import BadInput
from noisyfl.data.datasets.dataset import DATASETS
from noisyfl.data.datasets.parts import prepare
from noisyfl.experiments.config import check_config
from small_files import listing
from small_paper import CONFIG
from small_repository import Repository, ended


def checked(**keys):
    return check_config({**CONFIG, **keys}, "my.yaml")


def test_one_folder_or_several_with_variables_and_a_home(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    monkeypatch.setenv("SCRATCH", str(tmp_path / "scratch"))
    for name in ("home/a", "scratch/b", "c"):
        (tmp_path / name).mkdir(parents=True)
    assert checked().data.folders == [Path("data")]
    assert checked(data={"folder": "c"}).data.folders == [Path("c")]
    config = checked(
        results="~/results of $SCRATCH",
        data={
            "folder": ["~/a", "$SCRATCH/b", "c", "${SCRATCH}/own"],
            "prepared": ["$SCRATCH", "~"],
        },
    )
    wanted = [
        tmp_path / "home" / "a",
        tmp_path / "scratch" / "b",
        "c",
        tmp_path / "scratch" / "own",
    ]
    assert config.data.folders == [Path(folder) for folder in wanted]
    assert config.results == Path(f"{tmp_path}/home/results of {tmp_path}/scratch")
    assert config.data.prepared == [tmp_path / "scratch", tmp_path / "home"]
    assert config.data.download is False


def test_folders_that_are_not_given_are_checked_too(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    Path("data").touch()
    with pytest.raises(BadInput, match=r"my\.yaml: data\.folder\[0\]: got 'data', expected"):
        checked()
    Path("data").unlink()
    Path("results").touch()
    with pytest.raises(BadInput, match=r"my\.yaml: results: got 'results', expected a folder"):
        checked()


@pytest.mark.parametrize(
    ("keys", "words"),
    [
        ({"data": {"folder": ["$HERE/nothing", "data"]}},
         "data.folder[0]: got '$HERE/nothing', expected a folder, and there is none at {}/nothing"),
        ({"data": {"folder": ["$HERE", "file"]}}, "data.folder[1]: got 'file', expected a folder"),
        ({"data": {"folder": "file"}}, "data.folder: got 'file', expected a folder, and there is"),
        ({"data": {"folder": []}},
         "data.folder: got [], expected at least one folder"),
        ({"data": {"folder": 3}}, "data.folder: got 3, expected the path of a folder"),
        ({"data": {"folder": ["$HERE", "$HERE"]}},
         "data.folder: got ['$HERE', '$HERE'], expected each once"),
        ({"data": {"prepared": "file"}}, "data.prepared: Input should be a valid list"),
        ({"results": "$NOT_SET/results"},
         "results: got '$NOT_SET/results', expected environment variables that are set"),
        ({"results": "${EMPTY}/results"}, "results: got '${EMPTY}/results', expected environment"),
        ({"results": "~nobody_of_this_name/x"}, "results: got '~nobody_of_this_name/x', expected"),
    ],
)  # fmt: skip
def test_a_mistake_names_the_file_the_key_and_the_value(tmp_path, monkeypatch, keys, words):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("EMPTY", "")
    monkeypatch.setenv("HERE", str(tmp_path))
    monkeypatch.delenv("NOT_SET", raising=False)
    (tmp_path / "file").touch()
    with pytest.raises(BadInput) as caught:
        checked(**keys)
    assert str(caught.value).startswith("my.yaml: " + words.replace("{}", str(tmp_path)))


def test_a_folder_behind_a_closed_door_is_an_error_in_words(monkeypatch):
    def closed(path):
        if path.name == "a":
            raise PermissionError(13, "Permission denied", str(path))
        return is_dir(path)

    is_dir = Path.is_dir
    monkeypatch.setattr(Path, "is_dir", closed)
    with pytest.raises(
        BadInput, match=r"data.folder\[0\]: got 'a', .*can be read \(Permission den"
    ):
        checked(data={"folder": ["a", "b"]})


class Cluster:
    """A repository, what others share with its user, and a scratch of one's own."""

    def __init__(self, folder, monkeypatch):
        self.shared, self.scratch = folder / "shared", folder / "scratch"
        self.prepared = [
            self.shared / "prepared" / "digits" / f"{p}.parquet" for p in ("train", "test")
        ]
        prepare("digits", folder, False, *self.prepared)
        labels = np.random.default_rng(0).integers(10, size=DATASETS["digits"].train_size)
        (self.shared / "official").mkdir()
        np.save(self.shared / "official" / "labels.npy", labels)
        (folder / "repository").mkdir()
        self.repository = Repository(folder / "repository")
        self.repository.edit("config/papers/tiny.yaml", "symmetric", "human(file='labels.npy')")
        self.repository.edit("config/papers/tiny.yaml", "constant(level=0.4)", "none")
        self.configure("$SHARED")
        monkeypatch.setenv("SHARED", str(self.shared))
        monkeypatch.setenv("SCRATCH", str(self.scratch))

    def configure(self, shared):
        data = {
            "folder": [f"{shared}/official", "$SCRATCH/data"],
            "prepared": [f"{shared}/prepared"],
        }
        config = {"scale": "tiny", "experiments": ["tiny"], "results": "$SCRATCH/results"}
        self.repository.write("config/tiny.yaml", json.dumps({**config, "data": data}))

    def noisyfl(self, *arguments):
        done = ended(self.repository.start("noisyfl", *arguments))
        assert done.returncode == 0, done.stderr
        return done.stdout


@pytest.fixture(scope="module")
def cluster(tmp_path_factory):
    with pytest.MonkeyPatch.context() as monkeypatch:
        made = Cluster(tmp_path_factory.mktemp("cluster"), monkeypatch)
        made.before = listing(made.shared)
        run = made.repository.snakemake()
        assert run.returncode == 0, run.stdout + run.stderr
        yield made


@pytest.mark.slow
def test_everything_goes_to_the_scratch_and_nothing_elsewhere(cluster):
    assert listing(cluster.shared) == cluster.before
    inside = {path.name for path in cluster.repository.folder.iterdir()}
    assert not inside & {"results", "data", "~", "$SCRATCH"}
    assert [path.name for path in cluster.scratch.iterdir()] == ["results"]
    results = cluster.scratch / "results"
    for name in ("tables/tiny/one.csv", "tables/tiny/two.html", "figures/tiny/curves.png"):
        assert (results / "tiny" / name).stat().st_size
    for folder in ("runs", "partitions", "data"):
        assert list((results / "logs" / folder).glob("*.log"))
    (partition,) = (results / "partitions").glob("*.parquet")
    frame = pd.read_parquet(partition)
    labels = np.load(cluster.shared / "official" / "labels.npy")
    assert frame["given_label"].tolist() == labels[frame["sample"]].tolist()
    for path in cluster.prepared:
        assert (results / "data" / "digits" / path.name).read_bytes() == path.read_bytes()
    assert cluster.repository.jobs() == {}


@pytest.mark.slow
def test_commands_find_results_elsewhere(cluster, tmp_path):
    results = cluster.scratch / "results"
    plan = cluster.noisyfl("plan", "--config", "config/tiny.yaml", "--results", results)
    assert re.search(r"^tiny_one +2 +1 +2 +0 ", plan, re.MULTILINE), plan
    # Where results go can be said on the command line, too. With what is made there, which is only
    # a part of the scale, there is a report.
    elsewhere = tmp_path / "else where"
    table = elsewhere / "tiny" / "tables" / "tiny" / "two.csv"
    words = (table, "--config", f"results={elsewhere}")
    run = cluster.repository.snakemake(*words)
    assert run.returncode == 0, run.stdout + run.stderr
    assert table.stat().st_size
    page = tmp_path / "two.html"
    part = cluster.repository.snakemake("--report", page, *words)
    assert part.returncode == 0, part.stderr
    assert "Table two" in page.read_text()


@pytest.mark.storm
def test_kept_runs_are_used_wherever_the_results_are(cluster, tmp_path):
    copy = tmp_path / "results"
    shutil.copytree(cluster.scratch / "results", copy, symlinks=True)
    (run, *_) = sorted((copy / "runs").iterdir())
    try:
        said = cluster.noisyfl(
            "archive", "--config", "config/tiny.yaml", "--results", copy, "--commit", "abc"
        )
        assert "2 runs moved to" in said
        assert not run.exists()
        jobs = cluster.repository.jobs("tiny_one", "--config", f"results={tmp_path}/empty")
        assert jobs == {"table": 1, "table_explorer": 1}
    finally:
        shutil.rmtree(cluster.repository.folder / "reproduced")


@pytest.mark.slow
def test_shared_folders_that_move_retrain_nothing(cluster):
    moved = cluster.shared.with_name("moved")
    cluster.shared.rename(moved)
    try:
        cluster.configure(moved)
        undo = cluster.repository.edit("config/papers/tiny.yaml", "mu=0.1", "mu=0.2")
        jobs = cluster.repository.jobs()
        undo()
        assert jobs == {"train": 1, "table": 1, "figure": 1}
    finally:
        moved.rename(cluster.shared)
        cluster.configure("$SHARED")
