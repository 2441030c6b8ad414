"""The ledger: what a run found of each sample, which changes nothing of the run."""

import dataclasses
import shutil
import time

import numpy as np
import pyarrow.parquet as pq
import pytest
import torch

from noisyfl.core.artifacts import Results, read_json, read_table, write_table
from noisyfl.core.options import BadInput
from noisyfl.core.provenance import read_provenance
from noisyfl.data import noisy_partition
from noisyfl.data.own_files import OwnFiles
from noisyfl.runs.inputs import make_inputs
from noisyfl.runs.job import TrainingJob
from noisyfl.runs.kept_labels import LABELS_REVISION, read_labels
from noisyfl.simulation.clients import Client
from noisyfl.simulation.ledger import LOOKS, NONE, Ledger, class_skew, rounds_to_look_at
from noisyfl.specs.identity import identity
from noisyfl.specs.spec import canonical_run

SETTING = {
    "dataset": "digits",
    "partition": "iid(clients=6)",
    "label_noise": "symmetric",
    "noise_level": "constant(level=0.3)",
    "model": "cnn",
    "augmentation": "none",
    "normalization": "dataset",
    "schedule": {
        "rounds": 4,
        "participation": 0.5,
        "local_epochs": 1,
        "batch_size": 20,
        "learning_rate": 0.1,
    },
    "seed": 1,
}


def job_of(folder, method, keep_labels=True, **schedule):
    schedule = {**SETTING["schedule"], **schedule}
    spec = canonical_run({**SETTING, "schedule": schedule, "method": method}, "test")
    job = TrainingJob(
        spec=spec,
        results=str(folder),
        data=[str(folder)],
        device="cpu",
        keep_labels=keep_labels,
    )
    make_inputs(job, OwnFiles(folder, folder))
    return job


def train(folder, method, **more):
    job = job_of(folder, method, **more)
    outcome = job.run()
    assert outcome.error is None
    return job.run_files, job


def test_it_looks_at_most_so_often_and_only_in_the_second_half():
    assert rounds_to_look_at(1) == {0}
    assert rounds_to_look_at(4) == {2, 3}
    assert rounds_to_look_at(30) == set(range(15, 30))
    many = rounds_to_look_at(1000)
    assert len(many) == LOOKS
    assert min(many) == 500
    assert max(many) < 1000


@pytest.fixture
def client():
    return Client(0, torch.arange(4), torch.tensor([0, 1, 2, 0]), torch.full((4,), -1))


def test_selections_and_new_labels_are_entered_when_a_round_is_closed(client):
    ledger = Ledger([client], 3)
    ledger.select(client, torch.tensor([True, False, True, True]))
    ledger.forget()  # as a round that is repeated does
    ledger.select(client, torch.tensor([True, True, False, True]))
    ledger.select(client, torch.tensor([False, True, False, True]))
    before = ledger.state
    ledger.close_round(4, [client])
    assert ledger.state["judged"].tolist() == [2] * 4
    assert ledger.state["selected"].tolist() == [1, 2, 0, 2]
    assert ledger.state["last_selected"].tolist() == [0, 1, 0, 1]
    assert ledger.state["judged_in"].tolist() == [5] * 4
    assert before["judged"].tolist() == [0] * 4  # a checkpoint may hold it
    client.labels = torch.tensor([0, 1, 1, 0])
    ledger.relabel(client, torch.tensor([NONE, 2, NONE, NONE]))
    ledger.close_round(6, [client])
    ledger.close_round(7, [client])
    assert ledger.state["label"].tolist() == [0, 2, 1, 0]
    assert ledger.state["relabelled_in"].tolist() == [0, 7, 7, 0]


def test_a_class_that_a_client_has_more_often_is_more_probable_there():
    alike = torch.tensor([0, 0, 1, 2])
    assert torch.allclose(class_skew([alike, alike.repeat(3)], 4)[:, :3], torch.ones(2, 3))
    skewed = class_skew([torch.full((97,), 0), torch.full((97,), 1)], 3)
    # 97 of the 194 labels are of class 0, and client 0 gets 1.5 more of 3.
    assert skewed[0].tolist() == pytest.approx([98.5 / 100 * 2, 1.5 / 100 * 2, 3 / 100])
    assert skewed[1].tolist() == pytest.approx([1.5 / 100 * 2, 98.5 / 100 * 2, 3 / 100])


@pytest.mark.slow
@pytest.mark.parametrize("method", ["coteaching(ramp_rounds=1)", "rofl(pseudo_label_round=1)"])
def test_a_run_with_a_ledger_has_the_same_artifact(tmp_path, method):
    plain, _ = train(tmp_path / "plain", method, keep_labels=False)
    kept, job = train(tmp_path / "kept", method)
    assert not plain.labels.exists()
    for path in ("rounds", "clients"):
        one, other = (read_table(getattr(files, path))[0] for files in (plain, kept))
        drop = [name for name in one.column_names if name == "seconds"]
        assert one.drop_columns(drop).equals(other.drop_columns(drop))
    assert read_json(plain.spec) == read_json(kept.spec)
    run = identity(job.spec)
    labels = read_labels(run, kept)
    rounds = read_table(kept.rounds)[0]
    assert len(labels) == 6 * 239
    assert labels["given_probability"].dtype == float  # or many would be equally suspicious
    # What it says of the last selection is what the run recorded of it.
    partition = noisy_partition.read(Results(tmp_path / "kept").partition(job_partition(job)))
    true = np.concatenate([one.true_label for one in partition.clients])
    last = labels[labels["judged_in"] == len(rounds)]
    right = last["given_label"] == true[last.index]
    precision = right[last["last_selected"] == 1].groupby(last["client"]).mean().mean()
    if method.startswith("rofl"):
        assert rounds["label_precision"][-1].as_py() == pytest.approx(precision)
        changed = labels["learnt_label"] != labels["given_label"]
        assert changed.any()
        assert (labels.loc[changed, "relabelled_in"] > 0).all()
    assert not labels["in_sample"].all()
    assert labels["models"].between(1, 2).all()
    assert (labels.loc[labels["in_sample"], "models"] == 1).all()
    total = labels["given_probability"] + labels["other_probability"]
    assert total.between(0, 1 + 1e-5).all()


def job_partition(job):
    return identity(job.spec["noisy_partition"])


@pytest.mark.slow
def test_clients_that_take_part_in_every_round_are_in_sample(tmp_path):
    files, job = train(tmp_path, "fedavg", participation=1.0)
    labels = read_labels(identity(job.spec), files)
    assert labels["in_sample"].all()
    assert (labels["models"] == 1).all()


@pytest.mark.slow
def test_a_whole_run_is_trained_once_more_for_its_labels_and_stays_as_it_was(tmp_path):
    files, job = train(tmp_path, "fedavg", keep_labels=False)
    before = {path.name: path.read_bytes() for path in files.all()}
    stamps = [path.stat().st_mtime_ns for path in files.all()]
    asked = dataclasses.replace(job, keep_labels=True)
    assert job.done
    assert not asked.done
    assert asked.run().error is None
    assert asked.done
    assert {path.name: path.read_bytes() for path in files.all()} == before
    assert [path.stat().st_mtime_ns for path in files.all()] == stamps
    stored = Results(tmp_path).stored(identity(job.spec))
    assert sorted(path.name for path in stored.folder.iterdir()) == sorted(
        [*before, "labels.parquet"]
    )
    # A checkpoint without a ledger is not taken for one with it, and trained labels stay.
    stamp = files.labels.stat().st_mtime_ns
    assert asked.run().error is None
    assert files.labels.stat().st_mtime_ns == stamp


@pytest.mark.slow
@pytest.mark.parametrize("spoil", ["revision", "bytes"])
def test_labels_of_another_revision_or_damaged_are_made_again(tmp_path, spoil):
    files, job = train(tmp_path, "fedavg")
    run = identity(job.spec)
    good = read_labels(run, files)
    if spoil == "bytes":
        files.labels.write_bytes(b"damaged")  # and so the stored file, which is the same
    else:
        table, metadata = read_table(files.labels)
        files.labels.unlink()
        write_table(files.labels, table, {**metadata, "revision": LABELS_REVISION - 1})
        shutil.copyfile(files.labels, Results(tmp_path).stored(run).labels)
    assert not job.done
    assert job.run().error is None
    assert job.done
    assert read_labels(run, files).equals(good)


@pytest.mark.slow
def test_pooled_samples_are_the_labels_of_one_client(tmp_path):
    files, job = train(tmp_path, "centralized")
    labels = read_labels(identity(job.spec), files)
    assert set(labels["client"]) == {0}
    assert labels["sample"].is_unique
    assert labels["in_sample"].all()
    assert (labels["relabelled_in"] == 0).all()
    partition = noisy_partition.read(Results(tmp_path).partition(job_partition(job)))
    given = {
        int(row): int(label)
        for client in partition.clients
        for row, label in zip(client.samples, client.given_label, strict=True)
    }
    assert dict(zip(labels["sample"], labels["given_label"], strict=True)) == given


@pytest.mark.slow
def test_a_global_model_that_predicts_with_a_clients_help_is_not_personal(tmp_path):
    files, job = train(tmp_path, 'fedproto(inference="prototype")', rounds=6)
    labels = read_labels(identity(job.spec), files)
    assert not labels["in_sample"].all()
    personal, job = train(tmp_path, "distributed", rounds=6)
    assert read_labels(identity(job.spec), personal)["in_sample"].all()


@pytest.mark.slow
def test_a_resumed_run_has_the_same_labels(tmp_path, monkeypatch):
    files, job = train(tmp_path / "whole", "fednoil(clean_share=0.5)", rounds=6)
    other = job_of(tmp_path / "resumed", "fednoil(clean_share=0.5)", rounds=6)
    from noisyfl.simulation.checkpoint import Checkpoint, Interrupted

    after = Checkpoint.after_round

    def stop(self, rounds, federation):
        if rounds == 4:
            self._save(self._content(rounds, federation))
            raise Interrupted("on purpose")
        after(self, rounds, federation)

    monkeypatch.setattr(Checkpoint, "after_round", stop)
    assert other.run().interrupted
    monkeypatch.undo()
    assert other.run().error is None
    assert (
        "resuming after round 4"
        in Results(tmp_path / "resumed").log(identity(other.spec)).read_text()
    )
    run = identity(job.spec)
    one, two = read_labels(run, files), read_labels(run, other.run_files)
    assert one.equals(two)
    assert read_provenance(other.run_files.provenance, run).status == "finished"


def test_a_rounds_seconds_are_those_without_labels(tmp_path, monkeypatch):
    monkeypatch.setattr(Ledger, "look", lambda *_: time.sleep(1))
    files, _ = train(tmp_path, "fedavg", rounds=1)
    assert pq.read_table(files.rounds)["seconds"][0].as_py() < 1


def test_a_run_that_diverged_keeps_no_labels(tmp_path, monkeypatch):
    files, job = train(tmp_path, "fedavg", learning_rate=1e30)
    with pytest.raises(BadInput, match="no labels were saved; a run saves them"):
        read_labels(identity(job.spec), files)
    assert job.done
    monkeypatch.setattr("noisyfl.runs.job.train_run", None)
    assert job.run().error is None  # it is not trained again for them
