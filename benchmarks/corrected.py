"""Does it help to correct the labels that an audit suspects? Train on given and corrected labels.

Ten skewed sites have 3,000 images of Fashion-MNIST, of which 30 % have a wrong label. The default
audit looks for these; then FedAvg and FedCorr are trained on the labels as given, as corrected,
without the suspected samples, and on the right ones. Test labels are right.

    python -m benchmarks.corrected data results/corrected

The first folder has Fashion-MNIST; runs and files go into the second, and existing runs are
not trained again.
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

import noisyfl
from noisyfl.data.datasets.parts import read_part
from noisyfl.data.datasets.prepared import prepared
from noisyfl.data.own_files import OwnFiles

SAMPLES, SITES, SHARE, TESTED = 3000, 10, 0.3, 3000
METHODS = ("fedavg", "fedcorr")


def write_data(folder: Path, images: Path, kind: str, seed: int) -> np.ndarray:
    """Write images with given labels, and the file of sites; return the true labels."""
    rng = np.random.default_rng(seed)
    files = prepared("fashion_mnist", OwnFiles([images], folder / "results"), download=False)
    train, test = map(read_part, files)
    assert isinstance(train.images, np.ndarray)
    assert isinstance(test.images, np.ndarray)
    rows = rng.choice(len(train.labels), SAMPLES, replace=False)
    true = train.labels[rows]
    wrong = rng.random(SAMPLES) < SHARE
    steps = rng.integers(1, 10, SAMPLES) if kind == "symmetric" else 1
    given = np.where(wrong, (true + steps) % 10, true)
    sites = np.empty(SAMPLES, dtype=int)
    for label in range(10):
        of_class = np.flatnonzero(true == label)
        sites[of_class] = rng.choice(SITES, len(of_class), p=rng.dirichlet([0.5] * SITES))
    np.savez(
        folder / "images.npz",
        train_images=train.images[rows, ..., 0],
        train_labels=given,
        test_images=test.images[:TESTED, ..., 0],
        test_labels=test.labels[:TESTED],
    )
    names = [f"site {site}" for site in sites]
    pd.DataFrame({"client": names, "sample": range(SAMPLES)}).to_csv(
        folder / "sites.csv", index=False
    )
    return true


def measure(folder: Path, images: Path, kind: str, seed: int) -> dict[str, Any]:
    """The share of wrong labels before and after, and the accuracy on each kind of labels."""
    folder.mkdir(parents=True, exist_ok=True)
    true = write_data(folder, images, kind, seed)
    setting: dict[str, Any] = {
        "dataset": 'images(path="images.npz")',
        "participation": 0.5,
        "rounds": 20,
        "results": folder / "results",
        "data": folder,
        "device": "cpu",
    }
    found = noisyfl.audit(partition='file(path="sites.csv")', **setting).samples
    found.to_csv(folder / "samples.csv", index=False)
    found[~found["suspected"]].to_csv(folder / "kept.csv", index=False)
    pd.DataFrame({"label": true}).to_csv(folder / "true.csv", index=False)
    right = true[found["sample"]].astype(str)
    measured: dict[str, Any] = {
        "noise": kind,
        "seed": seed,
        "wrong": (found["given_label"].astype(str) != right).mean(),
        "wrong after": (found["corrected_label"].astype(str) != right).mean(),
    }
    corrected = 'file(path="samples.csv", key="corrected_label")'
    every = 'file(path="sites.csv")'
    for name, partition, labels in (
        ("given", every, "none"),
        ("corrected", every, corrected),
        ("kept", 'file(path="kept.csv")', "none"),
        ("right", every, 'file(path="true.csv", key="label")'),
    ):
        frame = noisyfl.compare(
            METHODS, seeds=1, partition=partition, label_noise=labels, **setting
        )
        accuracies = zip(frame["method"], frame["accuracy"], strict=True)
        measured |= {f"{method}, {name}": accuracy for method, accuracy in accuracies}
    return measured


def main() -> None:
    """Measure both kinds of noise with two seeds each, and print the numbers."""
    images, folder = map(Path, sys.argv[1:])
    rows = [
        measure(folder / f"{kind}{seed}", images, kind, seed)
        for kind in ("symmetric", "pair")
        for seed in (1, 2)
    ]
    print(pd.DataFrame(rows).T.to_string())


if __name__ == "__main__":
    main()
