"""Every method trains on vectors, which have no augmentations."""

import numpy as np
import pytest
from sklearn.datasets import load_digits

import noisyfl
from noisyfl.specs.catalogue import methods

SOME = ("fednoil", "fedcorr", "fedlsr")
"""Methods with a strong view, with mixed images, and with a mild view."""


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """A folder with the digits as vectors."""
    digits, folder = load_digits(), tmp_path_factory.mktemp("vectors")
    features = digits.data.astype(np.float32)
    np.savez(folder / "digits.npz", features=features, label=digits.target)
    return folder


@pytest.mark.parametrize(
    "names", [SOME, pytest.param(tuple(methods()), marks=pytest.mark.slow)], ids=["some", "all"]
)
def test_methods_learn_vectors(folder, names):
    # Other remarks are of methods that a few rounds are too short for.
    with pytest.warns(UserWarning, match="3 features are the same|would begin|amount to"):
        found = noisyfl.compare(
            names,
            dataset="vectors(path='digits.npz', test_share=0.2)",
            partition="dirichlet(alpha=1, clients=6)",
            label_noise="symmetric",
            rounds=10,
            participation=0.5,
            seeds=1,
            results=folder / "results",
            data=folder,
            device="cpu",
            jobs=1,
        )
    accuracies = dict(zip(found["method"], found["accuracy"], strict=True))
    assert {*accuracies} == {*names}
    assert min(accuracies.values()) > 20, accuracies  # chance is 10 %
    assert np.median([*accuracies.values()]) > 60, accuracies
