"""What is made of vectors: runs, exports, models, audits."""

import numpy as np
import pytest
import torch

import noisyfl
import own_vectors
from noisyfl.commands.data import export_partition
from noisyfl.core.options import BadInput
from noisyfl.data import noisy_partition
from noisyfl.data.augmentation.augment import KINDS, View
from noisyfl.data.client_images import FederatedData
from noisyfl.data.noise.instance import likenesses
from noisyfl.data.own_files import OwnFiles
from noisyfl.specs.identity import identity
from noisyfl.specs.spec import canonical_run
from own_sets import spec
from own_vectors import (
    TRAIN,
    read,
)


def test_every_view_shows_vectors_as_they_are(tmp_path):
    facts, train, _ = read(tmp_path, own_vectors.as_csv(tmp_path))
    view = View(facts, "none", "dataset", torch.device("cpu"))
    shown = torch.from_numpy(train.images.copy()).permute(0, 3, 1, 2)
    before = shown.clone()
    for kind in KINDS:
        draws = view.draw(kind, TRAIN, np.random.default_rng(0))
        assert torch.equal(view.show(kind, shown, draws), before)
        assert view.is_fixed(kind)
    assert torch.equal(shown, before)


RUN = {
    "partition": "iid(clients=2)",
    "label_noise": "symmetric",
    "noise_level": "constant(level=0.2)",
    "model": "mlp",
    "augmentation": "none",
    "normalization": "dataset",
    "schedule": {
        "rounds": 3,
        "participation": 1.0,
        "local_epochs": 1,
        "batch_size": 5,
        "learning_rate": 0.1,
    },
    "method": "fedavg",
    "seed": 1,
}


@pytest.mark.parametrize(
    ("key", "value", "message"),
    [
        (
            "augmentation",
            "crop_flip",
            "augmentation: got 'crop_flip', which is for images, and tra",
        ),
        ("normalization", "imagenet", "normalization: got 'imagenet', which is for images, and tr"),
        ("model", "cnn", "model: cnn cannot take images of 1x1, expected at least 4x4"),
    ],
)
def test_what_is_for_images_is_refused(tmp_path, key, value, message):
    own = OwnFiles(tmp_path, tmp_path / "results")
    given = {**RUN, "dataset": own_vectors.as_csv(tmp_path)}
    canonical_run(given, "run", own)
    with pytest.raises(BadInput, match=message):
        canonical_run({**given, key: value}, "run", own)


def test_vectors_are_exported_and_read_back(tmp_path):
    text, own = own_vectors.as_csv(tmp_path), OwnFiles(tmp_path, tmp_path / "results")
    _, train, test = read(tmp_path, text)
    partition = spec(text, own)
    path = own.results.partition(identity(partition))
    noisy_partition.write(path, partition, train.labels, own)
    export_partition(identity(partition), tmp_path / "out", own.results.root, [tmp_path], False)
    card = (tmp_path / "out" / "README.md").read_text()
    assert "tabular-classification" in card
    assert "| `features` | the vector |" in card
    again = "vectors(path='out', label='true_label', given='label', standardize=False)"
    _, read_train, read_test = read(tmp_path, again)
    assert (read_test.images == test.images).all()
    rows = np.concatenate([one.samples for one in noisy_partition.read(path).clients])
    assert (read_train.images == train.images[rows]).all()


def test_noise_that_depends_on_the_vectors(tmp_path):
    _, train, _ = read(tmp_path, own_vectors.as_csv(tmp_path))
    near, far = (likenesses(train.images * scale, train.labels, 2, 0) for scale in (1, 1_000))
    assert (near.argmax(1) == 1 - train.labels).all()
    assert (far.sum(1) == 1).all()


def test_clients_have_vectors_in_torch(tmp_path):
    text, own = own_vectors.as_csv(tmp_path), OwnFiles(tmp_path, tmp_path / "results")
    _, train, test = read(tmp_path, text)
    partition = spec(text, own)
    noisy_partition.write(tmp_path / "partition.parquet", partition, train.labels, own)
    found = noisy_partition.read(tmp_path / "partition.parquet")
    data = FederatedData(found, train, test)
    vector, _, true = data.client(0)[2]
    row = found.clients[0].samples[2]
    assert torch.equal(vector, torch.from_numpy(train.images[row].copy()).permute(2, 0, 1))
    assert true == train.labels[row]


def test_a_kept_model_takes_vectors(tmp_path):
    text = own_vectors.as_csv(tmp_path)
    run = noisyfl.train(
        {**RUN, "dataset": text},
        results=tmp_path / "results",
        data=tmp_path,
        device="cpu",
        keep_model=True,
    )
    model = noisyfl.load_model(run.id, results=tmp_path / "results")
    _, _, test = read(tmp_path, text)
    shown = torch.from_numpy(test.images.copy()).permute(0, 3, 1, 2)
    right = model(shown).argmax(1).numpy() == test.labels
    assert right.mean() == pytest.approx(run.accuracies[-1])
    with pytest.raises(BadInput, match=r"images: got .*, expected float32 \[n, 3, 1, 1\]"):
        model(shown.to(torch.uint8))


def test_an_audit_of_vectors_has_pages_without_pictures(tmp_path):
    found = noisyfl.audit(
        ["fedavg"],
        dataset=own_vectors.as_npz(tmp_path),
        partition="iid(clients=4)",
        rounds=4,
        results=tmp_path / "results",
        data=tmp_path,
        device="cpu",
        jobs=1,
    )
    found.write(tmp_path / "audit")
    page = (tmp_path / "audit" / "index.html").read_text()
    assert "set.npz, row" in page
    assert "<img" not in page
