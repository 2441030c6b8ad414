"""DivideMix's steps, of its original code."""

from __future__ import annotations

from argparse import Namespace
from contextlib import redirect_stdout
from io import StringIO
from types import SimpleNamespace
from typing import Any
from unittest.mock import patch

import numpy as np
import torch
import torch.nn.functional as functional
from torch import nn

from conformance.recorders.common import Pairs, cut
from conformance.recorders.fedrn_code import Halves, Iterated
from conformance.recorders.losses import leaf, with_gradients
from conformance.simulation import (
    SHAPE,
    Small,
    federation_of,
    flat_names,
    images_of,
    integers,
    loaded,
    method,
    numbers_of,
    rounds_of,
    tensor,
    weights_of,
)
from conformance.steps import Code, Step, Values
from noisyfl.methods.dividemix import DivideMix
from noisyfl.simulation.outputs import Outputs

FILE = "Train_cifar.py"


class Epoch(Step):
    """Both networks, one after the other, each with the other's split, short batches at the end."""

    method = "dividemix"
    what = "an epoch after the warm-up, of both networks"
    file, function = FILE, "train"

    def inputs(self, rng: np.random.RandomState) -> Values:
        count = 14
        clean = [rng.permutation(count) < kept for kept in (6, 7)]
        chances = [np.where(c, 0.6 + 0.3 * rng.rand(count), 0.3 * rng.rand(count)) for c in clean]
        return {
            "weights": [weights_of(rng, Small()) for _ in range(2)],
            "images": np.concatenate([images_of(rng, count) for _ in range(2)], axis=1),
            "labels": rng.randint(4, size=count),
            "clean probability": chances,
            "orders": [rng.permutation(count) for _ in range(2)],
            "unlabelled orders": [[rng.permutation(count) for _ in range(3)] for _ in range(2)],
            "shares": [rng.beta(4, 4, size=3) for _ in range(2)],
            "mixed with": [[rng.permutation(16) for _ in range(3)] for _ in range(2)],
        }

    def official(self, code: Code, given: Values) -> Values:
        args = Namespace(
            batch_size=4, num_class=4, T=0.5, alpha=4.0, lambda_u=25.0, dataset="cifar10",
            r=0.5, noise_mode="sym", num_epochs=300,
        )  # fmt: skip
        script = code.definitions(
            FILE, ["train", "SemiLoss", "linear_rampup"], torch=torch, np=np, F=functional,
            args=args, warm_up=10, sys=SimpleNamespace(stdout=StringIO()),
        )  # fmt: skip
        script.train.__globals__["criterion"] = script.SemiLoss()
        networks = [loaded(Small(), weights) for weights in given["weights"]]
        optimizers = [
            torch.optim.SGD(network.parameters(), lr=0.1, momentum=0.9, weight_decay=5e-4)
            for network in networks
        ]
        halves, views = Halves(given), tensor(given["images"]).split(SHAPE[0], 1)
        for own in (0, 1):
            halves.begin()
            chance = np.array(given["clean probability"][1 - own])
            clean = chance > 0.5
            order = np.array(halves.labelled)
            labelled = [
                (
                    views[0][p],
                    views[1][p],
                    integers(np.array(given["labels"])[p]),
                    tensor(chance[p]),
                )
                for p in cut(order[clean[order]], 4)
            ]
            with redirect_stdout(StringIO()), halves.drawn():
                script.train(
                    200, networks[own], networks[1 - own], optimizers[own],
                    _Loader(labelled, int(clean.sum())), _Unlabelled(views, ~clean, halves),
                )  # fmt: skip
        return {str(n): numbers_of(network.state_dict()) for n, network in enumerate(networks)}

    def ours(self, given: Values) -> Values:
        federation = federation_of(
            [loaded(Small(), weights) for weights in given["weights"]],
            given["images"],
            [given["labels"]],
            momentum=0.9,
            weight_decay=5e-4,
        )
        mixup = zip(given["shares"], given["mixed with"], strict=True)
        draws = {
            "batches": [[order] for order in given["orders"]],
            "unlabelled batches": given["unlabelled orders"],
            "mixup": [[shares, *indices] for shares, indices in mixup],
        }
        side = method("dividemix", warm_up_rounds=0, ramp_rounds=0, unlabelled_batches="short")

        def told(self: Any, client: Any, turn: Any, network: int) -> Any:
            return torch.tensor(given["clean probability"][network], dtype=torch.float64)

        with patch.object(DivideMix, "_clean_probability", told):
            rounds_of(side, federation, 0, 1, draws)
        return {str(n): flat_names(federation.weights, n) for n in range(2)}


class CleanProbability(Step):
    """A mixture on the losses of one network, scaled to [0, 1]."""

    method = "dividemix"
    what = "probability that a label is clean"
    file, function = FILE, "eval_train"
    seed = 1

    def inputs(self, rng: np.random.RandomState) -> Values:
        return {
            "weights": weights_of(rng, Small()),
            "images": images_of(rng, 40),
            "labels": rng.randint(4, size=40),
        }

    def official(self, code: Code, given: Values) -> Values:
        from sklearn.mixture import GaussianMixture

        pairs = Pairs(given["images"], given["labels"])
        count = len(pairs)
        batch = (pairs.images, integers(pairs.targets), torch.arange(count))
        # The code knows that there are 50,000 images.
        known = _Torch(count)
        script = code.definitions(
            FILE, ["eval_train"], torch=known, args=Namespace(r=0.5), eval_loader=[batch],
            CE=nn.CrossEntropyLoss(reduction="none"), GaussianMixture=GaussianMixture,
        )  # fmt: skip
        np.random.seed(1)
        chance, _ = script.eval_train(loaded(Small(), given["weights"]), [])
        return {"probability": chance}

    def ours(self, given: Values) -> Values:
        network = loaded(Small(), given["weights"]).eval()
        with torch.no_grad():
            logits = network(tensor(given["images"]))
        turn = SimpleNamespace(outputs=lambda *args: Outputs(logits, logits))
        client = SimpleNamespace(labels=integers(given["labels"]))
        side = method("dividemix")
        return {"probability": side._clean_probability(client, turn, 0)}


class WarmUpLoss(Step):
    """With the confidence penalty for asymmetric noise."""

    method = "dividemix"
    what = "loss of the warm-up with the confidence penalty"
    file, function = FILE, "NegEntropy"

    def inputs(self, rng: np.random.RandomState) -> Values:
        return {
            "logits": rng.normal(size=(9, 5)).astype(np.float32),
            "labels": rng.randint(5, size=9),
        }

    def official(self, code: Code, given: Values) -> Values:
        penalty = code.definitions(FILE, ["NegEntropy"], torch=torch).NegEntropy()
        logits = leaf(given["logits"])
        loss = functional.cross_entropy(logits, integers(given["labels"])) + penalty(logits)
        return with_gradients(loss, logits=logits)

    def ours(self, given: Values) -> Values:
        logits = leaf(given["logits"])
        side = method("dividemix", confidence_penalty=True)
        return with_gradients(side._warm_up_loss(logits, integers(given["labels"])), logits=logits)


class _Loader:
    """Batches, and a dataset of which only the size is asked for."""

    def __init__(self, batches: list[Any], size: int) -> None:
        self.batches, self.dataset = batches, range(size)

    def __iter__(self) -> Any:
        return iter(self.batches)


class _Unlabelled:
    """Batches of the samples without label, in a new order each time."""

    def __init__(self, views: Any, kept: np.ndarray, halves: Halves) -> None:
        self.views, self.kept, self.halves = views, kept, halves

    def __iter__(self) -> Any:
        order = np.array(next(self.halves.unlabelled))
        parts = cut(order[self.kept[order]], 4)
        return Iterated((self.views[0][part], self.views[1][part]) for part in parts)


class _Torch:
    """torch, but for the length of what is made of zeros."""

    def __init__(self, count: int) -> None:
        self.count = count

    def __getattr__(self, name: str) -> Any:
        return getattr(torch, name)

    def zeros(self, length: int) -> Any:
        """As many as there are samples."""
        return torch.zeros(self.count)
