"""FedSIR's steps: similar classes, clean clients, subspaces, new labels, and a local update."""

from __future__ import annotations

from contextlib import redirect_stdout
from io import StringIO
from types import SimpleNamespace
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from conformance.simulation import integers, method, tensor
from conformance.steps import Code, Step, Values
from noisyfl.methods.estimators.subspaces import best_classes, spectrum
from noisyfl.methods.fednoro import NOISY, distance_aware, ramp_up
from noisyfl.methods.fedsir import DISTILLED, clean_rows
from noisyfl.simulation.clients import Client
from noisyfl.simulation.updates import Batch, Update

CLASSES, WIDTH = 3, 8
RATIO = 10.0


def features_of(rng: np.random.RandomState, samples: int, spread: float) -> Any:
    """float32 [samples, width], not negative, around a direction of each of the classes in turn."""
    centres = np.abs(rng.normal(size=(CLASSES, WIDTH)))[np.arange(samples) % CLASSES]
    return np.maximum(centres + spread * rng.normal(size=centres.shape), 0).astype(np.float32)


def client_of(number: int, labels: Any) -> Client:
    """A client with given labels."""
    given = integers(labels)
    return Client(number, given, given, given)


def by_class(features: Any, labels: Any) -> dict[int, Values]:
    """What the official code keeps of a client's features."""
    values, given = np.array(features, dtype=np.float32), np.array(labels)
    rows = np.arange(len(given))
    return {
        int(label): {
            "feats": values[given == label],
            "idx": rows[given == label],
            "y_noisy": given[given == label],
            "y_clean": given[given == label],
        }
        for label in np.unique(given)
    }


class SimilarClasses(Step):
    """Of one client, whose last class has too few samples to be compared."""

    method = "fedsir"
    what = "mean and mean square of the similarities of a client's classes"
    file = "algorithm/identification.py"
    lines = (189, 222)

    def inputs(self, rng: np.random.RandomState) -> Values:
        labels = [*([0] * 25), *([1] * 30), *([2] * 22), *([3] * 7)]
        return {"features": features_of(rng, len(labels), 0.5), "labels": labels}

    def official(self, code: Code, given: Values) -> Values:
        names = ["sim_matrix_diagnostics"]
        script = code.definitions(self.file, names, np=np)
        with redirect_stdout(StringIO()):
            space = code.block(
                self.file,
                self.lines,
                np=np,
                client_features=by_class(given["features"], given["labels"]),
                compute_feats_eigen=code.module("algorithm.eigen").compute_feats_eigen,
                sim_matrix_diagnostics=script.sim_matrix_diagnostics,
                plot_matrix=lambda **told: None,
                eigs_by_client={},
                similarity_intra_matrix={},
                num_classes=4,
                save_dir="",
                cid=0,
            )
        return {"similarity": space["x"]}

    def ours(self, given: Values) -> Values:
        client = client_of(0, given["labels"])
        row = method("fedsir").similarity(tensor(given["features"]), client, 4)
        return {"similarity": row}


class CleanClients(Step):
    """Of twelve clients."""

    method = "fedsir"
    what = "the clean clients"
    file, function = "algorithm/fit_gmm.py", "multivariate_gmm_clean_noisy"

    def inputs(self, rng: np.random.RandomState) -> Values:
        means = np.concatenate([rng.uniform(0.5, 0.7, 7), rng.uniform(0.75, 0.95, 5)])
        means = rng.permutation(means)
        return {"similarities": np.stack([means, means**2 + rng.uniform(0, 0.02, 12)], 1)}

    def official(self, code: Code, given: Values) -> Values:
        find = code.module("algorithm.fit_gmm").multivariate_gmm_clean_noisy
        return {"clean": find(np.array(given["similarities"]), seed=3)["clean_idx"]}

    def ours(self, given: Values) -> Values:
        return {"clean": clean_rows(np.array(given["similarities"]), 3).nonzero()[0]}


class Subspaces(Step):
    """Of four clean clients; one has too few samples of each class to be merged."""

    method = "fedsir"
    what = "dominant and residual projections of each class, merged"
    file, function = "algorithm/relabel.py", "aggregate_eigs_projector_mean"

    def inputs(self, rng: np.random.RandomState) -> Values:
        sizes = (24, 30, 36, 9)
        return {
            "features": [features_of(rng, size, 0.6) for size in sizes],
            "labels": [[n % CLASSES for n in range(size)] for size in sizes],
        }

    def official(self, code: Code, given: Values) -> Values:
        eigen, relabel = code.module("algorithm.eigen"), code.module("algorithm.relabel")
        pairs = zip(given["features"], given["labels"], strict=True)
        spectra = {n: eigen.compute_feats_eigen(by_class(*pair)) for n, pair in enumerate(pairs)}
        merged = relabel.aggregate_eigs_projector_mean(
            eigs_clean_by_client=spectra,
            clean_cids=sorted(spectra),
            num_classes=CLASSES,
            K_noise=2,
            min_class_n=5,
        )
        return {
            "dominant": [np.outer(merged[c]["Vr"], merged[c]["Vr"]) for c in range(CLASSES)],
            "residual": [merged[c]["Vn"].T @ merged[c]["Vn"] for c in range(CLASSES)],
        }

    def ours(self, given: Values) -> Values:
        side = method("fedsir", residual_directions=2, consensus_samples=5)
        merged = []
        for label in range(CLASSES):
            pairs = zip(given["features"], given["labels"], strict=True)
            rows = [tensor(values)[integers(labels) == label] for values, labels in pairs]
            merged.append(side.merged([spectrum(part, RATIO) for part in rows]))
        return {
            "dominant": [one.dominant.outer(one.dominant) for one in merged],
            "residual": [one.residual.T @ one.residual for one in merged],
        }


class NewLabels(Step):
    """Of a noisy client, by two clean ones that have too few samples to be merged: the one with
    more samples of a class says what it is.
    """

    method = "fedsir"
    what = "classes by both scores, and where these agree"
    file, function = "algorithm/relabel.py", "relabel_noisy_samples_from_clean_dict"

    def inputs(self, rng: np.random.RandomState) -> Values:
        clean = features_of(rng, 60, 0.4)
        return {
            "clean": [clean[:24], clean[24:]],
            "labels": [[n % CLASSES for n in range(size)] for size in (24, 36)],
            "noisy": features_of(rng, 20, 0.7),
            "given": rng.randint(0, CLASSES, 20),
        }

    def official(self, code: Code, given: Values) -> Values:
        eigen, relabel = code.module("algorithm.eigen"), code.module("algorithm.relabel")
        pairs = zip(given["clean"], given["labels"], strict=True)
        with redirect_stdout(StringIO()):
            found = relabel.relabel_noisy_samples_from_clean_dict(
                feats_noisy=by_class(given["noisy"], given["given"]),
                eigs_clean_by_client={
                    n: eigen.compute_feats_eigen(by_class(*pair)) for n, pair in enumerate(pairs)
                },
                clean_cids=[0, 1],
                num_classes=CLASSES,
                weight_mode="n_gap_s1",
                mode="agree",
            )
        order = np.argsort(found["idx"])
        return {
            "aligned": found["arg_sr"][order],
            "agree": found["agree"][order],
            "labels": found["y_pred"][order],
        }

    def ours(self, given: Values) -> Values:
        side = method("fedsir")
        pairs = zip(given["clean"], given["labels"], strict=True)
        spectra = [
            side.spectra(tensor(values), client_of(0, labels), CLASSES) for values, labels in pairs
        ]
        merged = [side.merged([one[label] for one in spectra]) for label in range(CLASSES)]
        guess, agree = best_classes(tensor(given["noisy"]), merged)
        labels = torch.where(agree, guess, integers(given["given"]))
        return {"aligned": guess, "agree": agree.int(), "labels": labels}


class Linear(nn.Module):
    """A linear network that the official code and our loss can both call."""

    def __init__(self, weights: Any) -> None:
        super().__init__()
        self.weight = nn.Parameter(tensor(weights))

    def forward(self, images: Tensor) -> Tensor:
        """The logits."""
        return images @ self.weight.T


class LocalUpdate(Step):
    """Of a noisy client: two steps of SGD, at 0.5, in the place of Adam. It has no sample of the
    last class, and some of its samples are distilled.
    """

    method = "fedsir"
    what = "a noisy client's weights after two steps"
    file, function = "algorithm/strategy/fedsir.py", "_local_train_noisy"

    def inputs(self, rng: np.random.RandomState) -> Values:
        return {
            "weights": rng.normal(size=(4, 5)).astype(np.float32),
            "images": rng.normal(size=(10, 5)).astype(np.float32),
            "given": [0, 1, 2, 1, 0, 0, 1, 2, 2, 1],
            "labels": [0, 1, 2, 2, 0, 0, 0, 2, 2, 1],
            "distilled": [0, 3, 4, 8],
            "weight": 0.3,
        }

    def official(self, code: Code, given: Values) -> Values:
        losses = code.module("model.loss")

        def steepest(weights: Any, **told: Any) -> torch.optim.Optimizer:
            return torch.optim.SGD(weights, 0.5)

        library = SimpleNamespace(**{**vars(torch), "optim": SimpleNamespace(Adam=steepest)})
        script = code.definitions(
            self.file,
            ["_local_train_noisy"],
            torch=library,
            np=np,
            nn=nn,
            LogitAdjust=losses.LogitAdjust,
            LA_KD=losses.LA_KD,
            iter_client_batches_with_idx=lambda loader, device: loader,
            state_dict_to_cpu=lambda state: state,
        )
        images, labels = tensor(given["images"]), integers(given["given"])
        counts = np.maximum(np.bincount(given["given"], minlength=4), 1)
        found = script._local_train_noisy(
            Linear(given["weights"]),
            Linear(given["weights"]),
            [(images[part], labels[part], torch.arange(10)[part]) for part in PARTS],
            "cpu",
            0.5,
            1,
            counts.tolist(),
            given["weight"],
            dict(enumerate(given["labels"])),
            set(given["distilled"]),
        )
        return {"weights": found["weight"]}

    def ours(self, given: Values) -> Values:
        side = method("fedsir")
        model, received = Linear(given["weights"]), Linear(given["weights"])

        def said(network: nn.Module) -> Any:
            return lambda images: SimpleNamespace(logits=network(images))

        called = said(model)
        called.received = said(received)
        client = client_of(0, given["given"])
        mask = torch.zeros(10, dtype=torch.bool)
        mask[integers(given["distilled"])] = True
        client.state = {NOISY: True, DISTILLED: mask}
        federation: Any = SimpleNamespace(
            round=1, classes=4, weights={"0.classifier.weight": model.weight}
        )
        memory = side.memory(client, federation)
        images, labels = tensor(given["images"]), integers(given["labels"])
        weight = torch.tensor(given["weight"])
        for part in PARTS:
            positions = torch.arange(10)[part]
            batch = Batch(
                (images[part],), positions, labels[part], {"distillation": weight}, memory
            )
            (gradient,) = torch.autograd.grad(side.loss(called, batch), [model.weight])
            with torch.no_grad():
                model.weight.sub_(0.5 * gradient)
        return {"weights": model.weight}


PARTS = (slice(0, 6), slice(6, 10))
"""The samples of each step."""


class Ramp(Step):
    """From round 2 to round 49."""

    method = "fedsir"
    what = "the growth of distillation's weight"
    file, function = "algorithm/strategy/fedsir.py", "get_current_consistency_weight"

    def inputs(self, rng: np.random.RandomState) -> Values:
        return {"rounds": [0, 2, 5, 20, 48, 49, 70]}

    def official(self, code: Code, given: Values) -> Values:
        ramp = code.definitions(self.file, ["sigmoid_rampup"], np=np).sigmoid_rampup
        script = code.definitions(self.file, [self.function], sigmoid_rampup=ramp)
        weight = script.get_current_consistency_weight
        return {"weights": [weight(round, 2, 49) for round in given["rounds"]]}

    def ours(self, given: Values) -> Values:
        return {"weights": [ramp_up(round, 2, 49) for round in given["rounds"]]}


class Aggregation(Step):
    """Of five clients, of which two are noisy."""

    method = "fedsir"
    what = "the distance-aware mean"
    file, function = "algorithm/helper.py", "daagg"

    def inputs(self, rng: np.random.RandomState) -> Values:
        return {
            "models": rng.normal(size=(5, 8)).astype(np.float32),
            "sizes": [10, 20, 30, 40, 15],
            "noisy": [1, 4],
        }

    def official(self, code: Code, given: Values) -> Values:
        models = [parts(model, "") for model in given["models"]]
        clean = [n for n in range(5) if n not in given["noisy"]]
        mean = code.module("algorithm.helper").daagg(models, given["sizes"], clean, given["noisy"])
        return {name: mean[name] for name in ("weight", "bias")}

    def ours(self, given: Values) -> Values:
        updates = []
        for number, (model, size) in enumerate(zip(given["models"], given["sizes"], strict=True)):
            client = client_of(number, [0])
            client.state = {NOISY: number in given["noisy"]}
            updates.append(Update(client, parts(model, "0."), {}, size, 1, 0.0, 1, 1))
        federation: Any = SimpleNamespace(report=lambda client, **told: None)
        mean = distance_aware(updates, federation)
        return {name: mean[f"0.{name}"] for name in ("weight", "bias")}


def parts(vector: Any, begin: str) -> Values:
    """A vector as a model's weights, whose names begin with ``begin``."""
    weight, bias = tensor(vector).split([6, 2])
    return {f"{begin}weight": weight.reshape(2, 3), f"{begin}bias": bias}
