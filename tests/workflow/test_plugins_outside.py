"""Components of one's own, from outside the tree: planned, trained, and in a table."""

import hashlib
import json
import os
import subprocess
import sys
from pathlib import Path

import pandas as pd
import pyarrow.parquet as pq
import pytest

from noisyfl.__main__ import main
from noisyfl.core.artifacts import read_metadata
from noisyfl.core.places import ROOT
from noisyfl.specs.new_method import write_package
from outside import PARTS, as_before
from small_repository import Repository

EXPERIMENT = """
title: Of one's own
settings:
  tiny:
    dataset: {dataset}
    clients: 4
    partition: iid
    label_noise: zeroed
    noise_level: constant(level=0.4)
    model: one_layer(width=16)
    augmentation: none
    normalization: dataset
    schedule: {{rounds: 2, participation: 0.5, local_epochs: 1, batch_size: 20, learning_rate: 0.1}}
tables:
  one:
    title: Table one
    setting: tiny
    trials: 1
    statistic: best
    columns: [{{name: noisy}}]
    rows:
      - {{name: FedAvg, method: fedavg}}
      - {{name: Halves, method: halves(factor=0.25)}}
"""
RUNS = {
    "digits": {"fedavg": "e19bdbee74ec18a8", "halves": "854a2e6e0a61c6a1"},
    "stripes": {"fedavg": "2144f67d0b7cbfbf", "halves": "d08b2eb1949d5242"},
}
"""The ids of runs: they are to stay, since whoever has such runs would train them again."""


@pytest.fixture(scope="module")
def repository(tmp_path_factory):
    """Its experiments are made of a plugin in another folder, which a scale names from here."""
    repository = Repository(tmp_path_factory.mktemp("repository"))
    outside = tmp_path_factory.mktemp("outside")
    (outside / "my_parts.py").write_text(PARTS)
    repository.plugin = outside / "my_parts.py"
    path = os.path.relpath(repository.plugin, repository.folder)
    for dataset in RUNS:
        repository.write(f"config/papers/on_{dataset}.yaml", EXPERIMENT.format(dataset=dataset))
        scale = f"scale: on_{dataset}\nexperiments: [on_{dataset}]\nplugins: [{path}]\n"
        repository.write(f"config/on_{dataset}.yaml", scale)
    return repository


@pytest.mark.slow
@pytest.mark.parametrize(
    "dataset",
    [pytest.param(name, marks=[pytest.mark.storm] * (name == "digits")) for name in RUNS],
)
def test_a_table_of_a_plugins_components(repository, dataset):
    done = repository.snakemake(config=f"config/on_{dataset}.yaml")
    assert done.returncode == 0, done.stdout + done.stderr
    results = repository.folder / "results"
    folder = results / f"on_{dataset}"
    frame = pd.read_parquet(folder / "tables" / f"on_{dataset}" / "one.parquet")
    assert sorted(frame["row"].unique()) == ["FedAvg", "Halves"]
    content = repository.plugin.read_bytes()
    digest = hashlib.sha256(f"my_parts.py {len(content)}\n".encode() + content).hexdigest()
    plugins = {"my_parts.py": {"sha256": digest}}
    found = {}
    for path in (results / "runs").glob("*/spec.json"):
        spec = json.loads(path.read_text())
        partition = spec["noisy_partition"]
        if partition["dataset"] != dataset:
            continue
        found[spec["method"]["name"]] = path.parent.name
        assert spec["model"] == {"name": "one_layer", "width": 16, "revision": 1}
        assert partition["label_noise"] == {"name": "zeroed", "revision": 1}
        provenance = json.loads(path.with_name("provenance.json").read_text())
        assert provenance["plugins"] == plugins
    assert found == RUNS[dataset]
    for path in (results / "partitions").glob("*.parquet"):
        assert read_metadata(path)["plugins"] == plugins
        given = pq.read_table(path, columns=["given_label"])["given_label"].to_pandas()
        assert (given == 0).mean() > 0.4


@pytest.mark.slow
def test_what_one_command_writes_another_trains_with_the_plugin(tmp_path, monkeypatch, capsys):
    def noisyfl(*arguments, plugin=("--plugin", "my_parts.py")):
        monkeypatch.setattr(sys, "argv", ["noisyfl", *map(str, arguments), *plugin])
        with as_before():
            main()
        return capsys.readouterr().out

    monkeypatch.chdir(tmp_path)
    Path("my_parts.py").write_text(PARTS)
    assert "halves (client side, revision 1)" in noisyfl("methods")
    Path("on_digits.yaml").write_text(EXPERIMENT.format(dataset="digits"))
    Path("bare.yaml").write_text("scale: bare\nexperiments: [on_digits]\nexperiment_folders: [.]\n")
    said = noisyfl("specs", "on_digits_one", "specs", "--config", "bare.yaml")
    assert "2 specs in specs" in said.splitlines()
    run = RUNS["digits"]["halves"]
    train = ("train", f"specs/{run}.json", "--device", "cpu")
    with pytest.raises(SystemExit, match="no label noise is called 'zeroed'"):
        noisyfl(*train, plugin=())
    noisyfl(*train, "--keep-models")
    said = noisyfl("evaluate", run, "--device", "cpu")
    assert f"{run}  halves(factor=0.25) on digits" in said


@pytest.mark.slow
def test_a_package_that_new_method_writes_is_installed_and_its_test_holds(tmp_path):
    write_package("fedexample", tmp_path / "package")

    def run(*command, **environment):
        done = subprocess.run(
            [sys.executable, "-m", *map(str, command)],
            cwd=tmp_path,
            env={**os.environ, **environment},
            capture_output=True,
            text=True,
        )
        assert done.returncode == 0, done.stdout + done.stderr
        return done.stdout

    target = ("--no-deps", "--no-build-isolation", "--target", tmp_path / "site")
    run("pip", "install", "--quiet", *target, "./package")
    installed = {"PYTHONPATH": f"{tmp_path}/site:{ROOT}/workflow"}
    assert "passed" in run("pytest", "-q", "package", **installed)
    lint = ("ruff", "check", "--isolated", "--select", "E,F,W", "--line-length", "100")
    assert "All checks passed" in run(*lint, "package/src", "package/tests")
