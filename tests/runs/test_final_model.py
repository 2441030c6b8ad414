"""The models that runs leave."""

import dataclasses
import re
from pathlib import Path

import pandas as pd
import pytest
import torch

import noisyfl
from noisyfl.commands.runs import evaluate_runs
from noisyfl.core.artifacts import DamagedArtifact, Results, RunFiles
from noisyfl.core.options import BadInput
from noisyfl.core.provenance import write_provenance
from noisyfl.data.datasets.parts import read_part
from noisyfl.runs.final_model import load_model_file, why_no_model
from noisyfl.specs.identity import identity
from small_jobs import job_in
from small_runs import SMALL, inputs, spec_of, train_small

PAGE = (Path(__file__).parents[2] / "docs" / "models.md").read_text()


@pytest.fixture(scope="module")
def kept(data, tmp_path_factory):
    """The root and the files of runs that keep their models, by method."""
    found = {}
    for method in ("fedavg", "coteaching"):
        root = tmp_path_factory.mktemp(method)
        spec = spec_of({"name": method, **SMALL.get(method, {})})
        found[method] = (root, train_small(spec, data, root, keep_model=True))
    return found


@pytest.mark.parametrize("method", ["fedavg", "coteaching"])
def test_a_kept_model_recognises_what_its_run_did(method, kept, data):
    _, files = kept[method]
    test = read_part(data.data("digits", "test"))
    images = torch.from_numpy(test.images).movedim(-1, 1)

    (example,) = re.findall(r"```python\n(import noisyfl.*?)```", PAGE, re.DOTALL)
    names = {"images": images}
    place = f'"{files.folder.name}", results="{files.folder.parent.parent}"'
    with torch.no_grad():
        exec(example.replace('"<id>"', place), names)
    model, logits = names["model"], names["logits"]

    accuracy = (logits.argmax(1).numpy() == test.labels).mean()
    recorded = pd.read_parquet(files.rounds)["test_accuracy"].iloc[-1]
    assert accuracy == pytest.approx(recorded, abs=2 / len(test.labels))
    assert model.facts["run"] == files.folder.name
    assert model.facts["dataset"] == "digits"
    assert model.facts["model"]["name"] == "cnn"
    assert model.facts["normalization"] == "dataset"
    assert len(model.networks) == {"fedavg": 1, "coteaching": 2}[method]


@pytest.mark.parametrize("method", ["fedavg", "coteaching"])
def test_evaluating_a_run_gives_its_accuracy_again_to_the_last_digit(method, kept, data, capsys):
    root, files = kept[method]
    for part in ("train", "test"):
        path = Results(root).data("digits", part)
        path.parent.mkdir(parents=True, exist_ok=True)
        path.unlink(missing_ok=True)
        path.symlink_to(data.data("digits", part))
    evaluate_runs([files.folder.name], root, [], download=False, device="cpu")
    said = capsys.readouterr().out
    lines = re.findall(r"  (\w+): ([\d.e-]+), recorded: ([\d.e-]+)", said)
    assert [name for name, _, _ in lines] == [
        *("test_accuracy", "test_top5_accuracy", "test_balanced_accuracy", "test_loss"),
    ]
    for name, found, recorded in lines:
        assert found == recorded, name


def test_a_method_that_is_tested_by_clients_models_keeps_none(data, tmp_path):
    log = []
    files = train_small(spec_of("distributed"), data, tmp_path, log.append, keep_model=True)
    assert not files.model.exists()
    assert "no model saved: the clients' own ones are tested" in log


def link_inputs(spec, data, root):
    for path in inputs(spec, data):
        target = root / path.relative_to(data.root)
        target.parent.mkdir(parents=True, exist_ok=True)
        target.symlink_to(path)


def test_nobody_is_advised_to_train_again_for_a_model_that_a_run_cannot_keep(data, tmp_path):
    spec = spec_of("distributed")
    link_inputs(spec, data, tmp_path)
    assert job_in(Results(tmp_path), spec, keep_models=True).run().error is None
    why = r"model\.safetensors: the run keeps no model, as it is tested with its clients' own"
    with pytest.raises(BadInput, match=why):
        evaluate_runs([identity(spec)], tmp_path, [], download=False, device="cpu")
    with pytest.raises(BadInput, match=why):
        noisyfl.load_model(identity(spec), tmp_path)


def test_a_diverged_run_keeps_no_model(tmp_path):
    files = RunFiles(tmp_path / "a")
    files.folder.mkdir()
    facts = dict.fromkeys(("noisyfl", "source_digest", "python", "torch", "device"), "1")
    times = {"setup_seconds": 1.0, "training_seconds": 1.0}
    facts |= {"run": "a", "rounds": 2, "status": "diverged", **times}
    write_provenance(files.provenance, facts)
    assert why_no_model(files, files) == "the run keeps no model, as it diverged"


def test_what_cannot_be_evaluated_is_named(kept, data, tmp_path):
    _, files = kept["fedavg"]
    with pytest.raises(BadInput, match="has this id"):
        evaluate_runs(["0" * 16], tmp_path, [], download=False, device="cpu")
    without = train_small(spec_of("fedavg", seed=4), data, tmp_path)
    with pytest.raises(BadInput, match=r"model\.safetensors: no model was saved.*--keep-models"):
        evaluate_runs([without.folder.name], tmp_path, [], download=False, device="cpu")
    whole = files.model.read_bytes()
    damaged = tmp_path / "damaged.safetensors"
    for content in (whole[:-100], b"", b"x" * 50):
        damaged.write_bytes(content)
        with pytest.raises(DamagedArtifact, match="not the saved model of a run"):
            load_model_file(damaged)


def test_a_model_is_linked_from_the_store(kept, data, tmp_path):
    spec = spec_of("fedavg", seed=5)
    link_inputs(spec, data, tmp_path)
    job = job_in(Results(tmp_path), spec, keep_models=True)
    assert job.run().error is None
    assert job.run_files.model.samefile(Results(tmp_path).stored(identity(spec)).model)


def test_a_whole_run_is_trained_once_more_for_its_model_and_stays_as_it_was(data, tmp_path):
    spec = spec_of("fedavg", seed=5)
    link_inputs(spec, data, tmp_path)
    job = job_in(Results(tmp_path), spec)
    assert job.run().error is None
    files = job.run_files
    before = {path.name: path.read_bytes() for path in files.all() if path.exists()}
    asked = dataclasses.replace(job, keep_models=True)
    assert (job.done, asked.done) == (True, False)
    assert asked.run().error is None
    assert asked.done
    assert {name: (files.folder / name).read_bytes() for name in before} == before
    assert load_model_file(files.model).facts["run"] == identity(spec)
