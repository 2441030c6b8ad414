"""Does an audit find wrong labels of vectors? Compared with cleanlab on pooled data.

Three tables get wrong labels, drawn uniformly: the breast cancer data and the digits of
scikit-learn, and 50 principal components of 6,000 images of Fashion-MNIST. Five IID sites have
them, so that a site tells nothing of a label. The default audit trains a multilayer perceptron at
the sites; cleanlab gets probabilities of logistic regression and of the same kind of perceptron on
pooled data, out of sample (five folds).

    python -m benchmarks.vectors data results/vectors

The first folder has Fashion-MNIST; runs and files go into the second, and existing runs are not
trained again.
"""

from __future__ import annotations

import sys
import warnings
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pandas as pd
from cleanlab.rank import get_label_quality_scores
from sklearn.datasets import load_breast_cancer, load_digits
from sklearn.decomposition import PCA
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import average_precision_score
from sklearn.model_selection import cross_val_predict
from sklearn.neural_network import MLPClassifier
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

import noisyfl
from noisyfl.data.datasets.parts import read_part
from noisyfl.data.datasets.prepared import prepared
from noisyfl.data.own_files import OwnFiles

SEEDS, SITES, TESTED = (1, 2, 3), 5, 0.2
SHARES = (0.1, 0.3)
IMAGES, COMPONENTS = 6_000, 50


def tables(images: Path, folder: Path) -> Iterator[tuple[str, np.ndarray, np.ndarray]]:
    """Each table's name, its vectors [n, features] and its labels, int64 [n]."""
    cancer, digits = load_breast_cancer(), load_digits()
    yield "breast cancer", cancer.data, cancer.target
    yield "digits", digits.data, digits.target
    path, _ = prepared("fashion_mnist", OwnFiles([images], folder / "results"), download=False)
    part = read_part(path)
    assert isinstance(part.images, np.ndarray)
    pixels = part.images[:IMAGES].reshape(IMAGES, -1) / 255
    yield (
        "Fashion-MNIST, 50 components",
        PCA(COMPONENTS, random_state=0).fit_transform(pixels),
        part.labels[:IMAGES],
    )


def audited(folder: Path, values: np.ndarray, true: np.ndarray, share: float, seed: int) -> Path:
    """Write vectors with their true and given labels; return the file."""
    rng = np.random.default_rng(seed)
    classes = int(true.max()) + 1
    wrong = rng.random(len(true)) < share
    given = np.where(wrong, (true + rng.integers(1, classes, len(true))) % classes, true)
    path = folder / "table.npz"
    np.savez(path, features=values, label=true, given=given)
    return path


def precisions(
    folder: Path, values: np.ndarray, true: np.ndarray, share: float, seed: int
) -> dict[str, float]:
    """The average precision of each way of ordering the labels, in percent."""
    path = audited(folder, values, true, share, seed)
    found = noisyfl.audit(
        dataset=f'vectors(path="{path.name}", given="given", test_share={TESTED})',
        partition=f"iid(clients={SITES})",
        participation=0.4,
        results=folder / "results",
        data=folder,
        device="cpu",
    )
    rows = found.samples["image"].str.extract(r"row (\d+)")[0].astype(int).to_numpy()
    given = np.load(path)["given"][rows]
    wrong = given != true[rows]
    by = {"audit": float(average_precision_score(wrong, found.samples["suspicion"]))}
    for name, model in (
        ("cleanlab, logistic regression", LogisticRegression(max_iter=1_000)),
        ("cleanlab, perceptron", MLPClassifier([64], early_stopping=True, random_state=seed)),
    ):
        pooled = make_pipeline(StandardScaler(), model)
        chances = cross_val_predict(pooled, values[rows], given, cv=5, method="predict_proba")
        scores = 1 - get_label_quality_scores(given, chances)
        by[name] = float(average_precision_score(wrong, scores))
    return {name: 100 * precision for name, precision in by.items()}


def main(images: Path, folder: Path) -> None:
    """Print the mean over seeds, and the standard deviation between them."""
    folder.mkdir(parents=True, exist_ok=True)
    warnings.simplefilter("ignore")
    rows = [
        {"table": name, "wrong": share, "by": by, "AP": precision}
        for name, values, true in tables(images, folder)
        for share in SHARES
        for seed in SEEDS
        for by, precision in precisions(folder, values, true, share, seed).items()
    ]
    frame = pd.DataFrame(rows)
    keys = ["table", "wrong", "by"]
    print(frame.groupby(keys, sort=False)["AP"].agg(["mean", "std"]).round(1).to_string())


if __name__ == "__main__":
    main(Path(sys.argv[1]), Path(sys.argv[2]))
