"""The page on data of one's own works as it stands, from nothing to a table."""

import inspect
import os
import re
import shlex
import subprocess
import sys
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
import yaml
from sklearn.datasets import load_digits

import noisyfl
from checked_plan import checked_plan
from noisyfl.__main__ import main
from noisyfl.core.options import BadInput
from noisyfl.core.places import ROOT
from noisyfl.data.datasets.dataset import DATASETS
from noisyfl.data.noise.label_noise import LABEL_NOISES, Context, LabelNoise
from noisyfl.data.noise.noise_level import NoiseLevel
from noisyfl.data.partitioning.partition import Partition
from noisyfl.experiments.config import check_config
from small_repository import Repository

PAGE = (ROOT / "docs" / "your-own.md").read_text()


def blocks(language):
    return re.findall(rf"^```{language}\n(.*?)^```$", PAGE, flags=re.MULTILINE | re.DOTALL)


IMAGES, NOISE = blocks("python")
EXPERIMENT, SCALE, MATRIX = blocks("yaml")


@pytest.fixture(scope="module")
def place(tmp_path_factory):
    """A folder with what the page writes, and what its scale asks for there."""
    folder = tmp_path_factory.mktemp("own")
    before = Path.cwd()
    os.chdir(folder)
    try:
        exec(compile(IMAGES, "images", "exec"), {})
        (folder / "mine.yaml").write_text(EXPERIMENT)
        config = check_config(yaml.safe_load(SCALE), "mine")
        yield folder, checked_plan(config, "mine", folder)
    finally:
        os.chdir(before)


@pytest.mark.slow
def test_the_page_says_how_many_runs_there_are(place):
    _, plan = place
    assert len(plan.runs) == 8
    assert "trains 8 runs" in PAGE
    assert len({plan.facts[run].partition for run in plan.runs}) == 4


@pytest.mark.slow
def test_images_labels_and_clients_are_the_files(place):
    _, plan = place
    specs = plan.partitions.values()
    # The folder and the list hold the same in the same order.
    assert len({spec["dataset"]["sha256"] for spec in specs}) == 1
    labels = next(p for p, s in plan.partitions.items() if s["label_noise"]["name"] == "file")
    sites = next(p for p, s in plan.partitions.items() if s["partition"]["name"] == "file")
    run = next(run for run in plan.runs if plan.facts[run].partition == labels)
    trained = noisyfl.train(plan.runs[run], device="cpu")
    assert trained.rounds["test_accuracy"].iloc[-1] > 0.5
    federation = noisyfl.load_partition(labels)
    assert federation.partition.overall_noise == pytest.approx(0.3 * 0.9, abs=0.04)
    assert plan.partitions[sites]["partition"]["clients"] == 5
    assert plan.partitions[sites]["partition"]["samples"] == 1_400


def test_the_label_noise_takes_faint_images_for_one_class(monkeypatch):
    monkeypatch.setattr(LABEL_NOISES, "classes", dict(LABEL_NOISES.classes))
    exec(compile(NOISE, "noise", "exec"), {})
    images = np.arange(40, dtype=np.uint8).reshape(10, 2, 2, 1)
    context = Context(DATASETS["digits"], 1, images=lambda client: images[::-1])
    noise = LABEL_NOISES.build("faint(taken_for=3)")
    (given,) = noise.flip([np.full(10, 7)], np.array([0.4]), context)
    assert given.tolist() == [7] * 6 + [3] * 4
    with pytest.raises(BadInput, match=r"faint\.taken_for: Input should be greater than or equal"):
        LABEL_NOISES.build("faint(taken_for=-1)")


def test_what_the_methods_are_given_is_what_the_page_says():
    said = re.findall(r"^\| `(\w+)`: `(\w+)\((.*?)\)`", PAGE, flags=re.MULTILINE)
    bases = {base.__name__: base for base in (LabelNoise, Partition, NoiseLevel)}
    assert {name for name, _, _ in said} == set(bases)
    for name, method, given in said:
        takes = [*inspect.signature(getattr(bases[name], method)).parameters]
        assert takes == ["self", *given.split(", ")]


@pytest.mark.slow
def test_the_table_comes_out(tmp_path):
    repository = Repository(tmp_path)
    folder = repository.folder
    subprocess.run([sys.executable, "-c", IMAGES], cwd=folder, check=True)
    # Of more rows and rounds there is nothing more to be seen.
    row = "      - {name: Co-teaching, method: coteaching}\n"
    assert row in EXPERIMENT
    repository.write("config/papers/mine.yaml", EXPERIMENT.replace(row, ""))
    shorter = "overlay: {setting: {schedule: {rounds: 2}}}\n"
    repository.write("config/mine.yaml", SCALE + shorter)
    environment = {**os.environ, "PYTHONPATH": str(folder / "workflow")}
    environment["PATH"] = f"{Path(sys.executable).parent}:{os.environ['PATH']}"

    def run(command):
        return subprocess.run(
            command.split(), cwd=folder, env=environment, capture_output=True, text=True
        )

    for command in blocks("sh")[0].splitlines():
        done = run(command)
        assert done.returncode == 0, done.stdout + done.stderr
    page = (folder / "results/mine/tables/mine/first.md").read_text()
    row = next(line.split("|") for line in page.splitlines() if line.startswith("| FedAvg"))
    assert all(re.search(r"\d\d\.\d", cell) for cell in row[2:6])
    # Lost parts are made again, by the rule that makes official ones.
    (train,) = (folder / "results/data").glob("images_*/train.parquet")
    before = train.read_bytes()
    train.unlink()
    done = run(f"snakemake {train.relative_to(folder)} --cores 1 --configfile=config/mine.yaml")
    assert done.returncode == 0, done.stdout + done.stderr
    assert train.read_bytes() == before


@pytest.mark.slow
def test_the_commands_for_vectors_run(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "data").mkdir()
    digits = load_digits()
    features, labels = digits.data[:400], digits.target[:400]
    pd.DataFrame(features).assign(diagnosis=labels).to_csv("data/records.csv", index=False)
    np.savez("data/embeddings.npz", features=features, label=labels)
    short = ["--rounds", "2", "--clients", "4", "--device", "cpu", "--jobs", "1"]
    for command in blocks("sh")[1].splitlines():
        monkeypatch.setattr(sys, "argv", [*shlex.split(command), *short])
        main()
    assert (tmp_path / "audit" / "samples.csv").is_file()


def test_a_matrix_of_three_classes():
    noise = LABEL_NOISES.build(yaml.safe_load(MATRIX)["label_noise"], "label_noise")
    (given,) = noise.flip([np.repeat([0, 1, 2], 1000)], np.zeros(1), Context(DATASETS["digits"], 1))
    counts = [np.bincount(given[true : true + 1000], minlength=3) for true in (0, 1000, 2000)]
    assert np.array(counts) == pytest.approx(1000 * np.array(noise.rows), abs=50)
