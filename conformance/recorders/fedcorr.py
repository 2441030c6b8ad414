"""FedCorr's steps: scores, levels, corrections, the local update, the mean, the networks."""

from __future__ import annotations

from argparse import Namespace
from types import SimpleNamespace
from typing import Any
from unittest.mock import patch

import numpy as np
import torch
from torch import nn

from conformance.recorders.common import Batches, Network, Pairs, averaged
from conformance.simulation import (
    Small,
    federation_of,
    flat_names,
    images_of,
    integers,
    loaded,
    method,
    numbers_of,
    scripted,
    tensor,
    weights_of,
)
from conformance.steps import Code, Step, Values
from noisyfl.methods.estimators.lid import lid
from noisyfl.simulation.server_side import local_updates


class LidScores(Step):
    """Twenty neighbours among thirty predictions."""

    method = "fedcorr"
    what = "LID score of predictions"
    file, function = "util/util.py", "lid_term"

    def inputs(self, rng: np.random.RandomState) -> Values:
        predictions = rng.dirichlet([0.4] * 10, size=30).astype(np.float32)
        # A saturated model says nearly the same of some images.
        predictions[:4] = predictions[0] + 1e-6 * rng.rand(4, 10).astype(np.float32)
        return {"predictions": predictions}

    def official(self, code: Code, given: Values) -> Values:
        predictions = np.array(given["predictions"], dtype=np.float32)
        return {"scores": code.module("util.util").lid_term(predictions, predictions)}

    def ours(self, given: Values) -> Values:
        return {"scores": lid(tensor(given["predictions"]), 20)}


class Losses(Step):
    """In evaluation mode; the code takes softmax outputs for logits."""

    method = "fedcorr"
    what = "losses that noise levels are read from"
    file, function = "util/util.py", "get_output"

    def inputs(self, rng: np.random.RandomState) -> Values:
        return {
            "weights": weights_of(rng, Small()),
            "images": images_of(rng, 12),
            "labels": rng.randint(4, size=12),
        }

    def official(self, code: Code, given: Values) -> Values:
        pairs = Pairs(given["images"], given["labels"])
        loader = torch.utils.data.DataLoader(pairs, batch_size=100)
        network = loaded(Small(), given["weights"])
        args, criterion = Namespace(device="cpu"), nn.CrossEntropyLoss(reduction="none")
        outputs, losses = code.module("util.util").get_output(
            loader, network, args, False, criterion
        )
        return {"probabilities": outputs, "losses": losses}

    def ours(self, given: Values) -> Values:
        network = loaded(Small(), given["weights"]).eval()
        with torch.no_grad():
            logits = network(tensor(given["images"]))
        client = SimpleNamespace(labels=integers(given["labels"]))
        return {
            "probabilities": logits.softmax(1),
            "losses": method("fedcorr")._losses(logits, client),
        }


class EndOfIteration(Step):
    """Mixtures flag clients and samples; the least credible labels are replaced."""

    method = "fedcorr"
    what = "noisy clients, noise levels, relabelling at the end of an iteration"
    file, lines = "main.py", (136, 175)
    clients, samples = 8, 15

    def inputs(self, rng: np.random.RandomState) -> Values:
        count = self.clients * self.samples
        noisy = np.repeat(rng.permutation([0, 0, 0, 0, 1, 1, 1, 1]), self.samples)
        wrong = rng.rand(count) < 0.5 * noisy
        return {
            "weights": weights_of(rng, Small()),
            "images": images_of(rng, count),
            "labels": rng.randint(4, size=count),
            "lid before": 3 + rng.rand(self.clients),
            "lid": 4 + 6 * noisy[:: self.samples] + rng.rand(self.clients),
            "losses": 0.8 + 0.7 * wrong + 0.1 * rng.rand(count),
        }

    def official(self, code: Code, given: Values) -> Values:
        pairs = Pairs(given["images"], given["labels"])
        parts = np.split(np.arange(len(pairs)), self.clients)
        left = code.block(
            self.file,
            self.lines,
            np=np,
            torch=torch,
            GaussianMixture=_mixture(),
            Subset=torch.utils.data.Subset,
            get_output=code.module("util.util").get_output,
            criterion=nn.CrossEntropyLoss(reduction="none"),
            args=Namespace(
                seed=13,
                num_users=self.clients,
                correction=True,
                device="cpu",
                relabel_ratio=0.5,
                confidence_thres=0.5,
            ),
            netglob=loaded(Small(), given["weights"]),
            dataset_train=pairs,
            dict_users=dict(enumerate(parts)),
            LID_client=np.array(given["lid"]),
            LID_accumulative_client=np.array(given["lid before"]),
            loss_whole=np.array(given["losses"]),
            loss_accumulative_whole=np.zeros(len(pairs)),
        )
        return {
            "cumulative lid": left["LID_accumulative_client"],
            "noisy": [int(number in left["noisy_set"]) for number in range(self.clients)],
            "noise level": left["estimated_noisy_level"],
            "labels": pairs.targets,
        }

    def ours(self, given: Values) -> Values:
        labels = np.split(np.array(given["labels"]), self.clients)
        network = loaded(Small(), given["weights"])
        federation = federation_of([network], given["images"], labels)
        losses = np.split(np.array(given["losses"]), self.clients)
        for client, before, score, loss in zip(
            federation.clients, given["lid before"], given["lid"], losses, strict=True
        ):
            client.state["cumulative_lid"] = torch.tensor(before, dtype=torch.float64)
            client.state["lid"] = score
            client.state["losses"] = torch.tensor(loss)
        method("fedcorr")._end_iteration(0, federation)
        states = [client.state for client in federation.clients]
        return {
            "cumulative lid": [float(state["cumulative_lid"]) for state in states],
            "noisy": [int(state["noisy"]) for state in states],
            "noise level": [float(state["noise_level"]) for state in states],
            "labels": torch.cat([client.labels for client in federation.clients]),
        }


class AfterFinetuning(Step):
    """All samples of noisy clients of which the global model is sure."""

    method = "fedcorr"
    what = "relabelling after finetuning"
    file, lines = "main.py", (208, 219)

    def inputs(self, rng: np.random.RandomState) -> Values:
        return {
            "weights": weights_of(rng, Small()),
            "images": images_of(rng, 30),
            "labels": rng.randint(4, size=30),
            "noisy": [1],
        }

    def official(self, code: Code, given: Values) -> Values:
        pairs = Pairs(given["images"], given["labels"])
        code.block(
            self.file,
            self.lines,
            np=np,
            torch=torch,
            Subset=torch.utils.data.Subset,
            get_output=code.module("util.util").get_output,
            criterion=nn.CrossEntropyLoss(reduction="none"),
            args=Namespace(correction=True, device="cpu", confidence_thres=0.5),
            netglob=loaded(Small(), given["weights"]),
            dataset_train=pairs,
            dict_users=dict(enumerate(np.split(np.arange(30), 3))),
            noisy_set=given["noisy"],
        )
        return {"labels": pairs.targets}

    def ours(self, given: Values) -> Values:
        network = loaded(Small(), given["weights"])
        labels = np.split(np.array(given["labels"]), 3)
        federation = federation_of([network], given["images"], labels)
        for client in federation.clients:
            client.state["noisy"] = torch.tensor(client.id in given["noisy"])
        method("fedcorr")._correct_after_finetuning(0, federation)
        return {"labels": torch.cat([client.labels for client in federation.clients])}


class LocalUpdate(Step):
    """Two epochs with mixup and the adaptive proximal term, from one global model."""

    method = "fedcorr"
    what = "local update with mixup and the proximal term"
    file, function = "util/local_training.py", "LocalUpdate.update_weights"
    beta, mixup = 5.0, True

    def inputs(self, rng: np.random.RandomState) -> Values:
        return {
            "weights": weights_of(rng, Small()),
            "images": images_of(rng, 11),
            "labels": rng.randint(4, size=11),
            "batches": [rng.permutation(11) for _ in range(2)],
            "shares": [rng.beta(1, 1, size=3).astype(np.float32) for _ in range(2)],
            "mixed with": [[rng.permutation(n) for n in (4, 4, 3)] for _ in range(2)],
            "noise level": 0.07,
        }

    def official(self, code: Code, given: Values) -> Values:
        update = code.module("util.local_training")
        args = Namespace(
            device="cpu", local_bs=4, lr=0.1, momentum=0.5, mixup=self.mixup, alpha=1.0,
            beta=self.beta,
        )  # fmt: skip
        pairs = Pairs(given["images"], given["labels"])
        local = update.LocalUpdate(args, pairs, range(len(pairs)))
        local.ldr_train = Batches.of(pairs, given["batches"], 4)
        network, sent = (loaded(Small(), given["weights"]) for _ in range(2))
        shares = iter(np.concatenate(given["shares"]).astype(np.float32))
        mixed_with = iter([integers(part) for epoch in given["mixed with"] for part in epoch])
        with (
            patch.object(np.random, "beta", lambda *args: float(next(shares))),
            patch.object(torch, "randperm", lambda n: next(mixed_with)),
        ):
            weights, _ = local.update_weights(network, 1, sent, epoch=2, mu=given["noise level"])
        return numbers_of(weights)

    def ours(self, given: Values) -> Values:
        options = {} if self.mixup else {"mixup": False}
        side = method("fedcorr", beta=self.beta, **options)
        federation = federation_of(
            [loaded(Small(), given["weights"])],
            given["images"],
            [given["labels"]],
            local_epochs=2,
            momentum=0.5,
        )
        (client,) = federation.clients
        client.state["noise_level"] = torch.tensor(given["noise level"])
        mixup = zip(given["shares"], given["mixed with"], strict=True)
        draws = {
            "batches": [[order] for order in given["batches"]],
            "mixup": [[shares, *indices] for shares, indices in mixup],
        }
        with scripted(draws):
            (update,) = local_updates(0, [client], side, side, federation)
        return flat_names(update.weights)


class PlainLocalUpdate(LocalUpdate):
    """The same as FedAvg."""

    method = "fedavg"
    what = "local update"
    beta, mixup = 0.0, False
    seed = 2


class ProximalLocalUpdate(LocalUpdate):
    """As FedCorr's authors run FedProx, as far as their code says."""

    method = "fedprox"
    what = 'local update, `fedprox(prox_form="norm")`'
    beta, mixup = 1.0, False
    seed = 3

    def ours(self, given: Values) -> Values:
        side = method("fedprox", mu=given["noise level"], prox_form="norm")
        federation = federation_of(
            [loaded(Small(), given["weights"])],
            given["images"],
            [given["labels"]],
            local_epochs=2,
            momentum=0.5,
        )
        with scripted({"batches": [[order] for order in given["batches"]]}):
            server = method("fedavg")
            (update,) = local_updates(0, federation.clients, server, side, federation)
        return flat_names(update.weights)


class Mean(Step):
    """Weighted by size, buffers included."""

    method = "fedavg"
    what = "mean of local models, by size"
    file, function = "util/fedavg.py", "FedAvg"

    def inputs(self, rng: np.random.RandomState) -> Values:
        return {
            "models": [weights_of(rng, Small()) for _ in range(3)],
            "sizes": [7, 12, 20],
        }

    def official(self, code: Code, given: Values) -> Values:
        models = [loaded(Small(), weights).state_dict() for weights in given["models"]]
        return numbers_of(code.module("util.fedavg").FedAvg(models, given["sizes"]))

    def ours(self, given: Values) -> Values:
        return averaged(given)


class ResNet18(Network):
    """On two images of 32x32."""

    method = "resnet18"
    what = "network: logits and gradient of the first layer"
    file, function = "model/model_resnet.py", "ResNet18"
    model = "resnet18"
    # Convolutions differ by processor: one that did not record these numbers is 9e-5 off.
    tolerance = 5e-4

    def theirs(self, code: Code) -> Any:
        return getattr(code.module("model.model_resnet"), self.function)(10)


class ResNet34(ResNet18):
    """Likewise."""

    method = "resnet34"
    function = "ResNet34"
    model = "resnet34"


def _mixture() -> Any:
    from sklearn.mixture import GaussianMixture

    return GaussianMixture
