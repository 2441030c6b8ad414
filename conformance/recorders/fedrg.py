"""FedRG's steps: the contrast of views, and a local update of each of the two stages."""

from __future__ import annotations

import copy
import logging
from functools import partial
from types import SimpleNamespace
from typing import Any

import numpy as np
import torch
from torch import nn
from torch.nn import functional

from conformance.simulation import (
    CLASSES,
    SHAPE,
    WIDTH,
    Small,
    federation_of,
    flat_names,
    images_of,
    integers,
    loaded,
    method,
    rounds_of,
    tensor,
    weights_of,
)
from conformance.steps import Code, Step, Values
from noisyfl.methods.fedrg import contrast

HIDDEN, OUTPUT = 10, 7
RATES = {"learning_rate": 0.01, "momentum": 0.9, "weight_decay": 5e-4}
"""Of the schedule: those that the second stage has in the code."""

LAYERS = {"hidden": "net.0", "norm": "net.1", "output": "net.3"}
"""The projector's layers here and there."""


def theirs(name: str) -> str:
    """The official name of a weight of the projector."""
    layer, part = name.split(".")
    return f"{LAYERS[layer]}.{part}"


def projector_of(rng: np.random.RandomState) -> Values:
    """Random weights of a projector, by our names."""
    shapes = {
        "hidden.weight": (HIDDEN, WIDTH),
        "hidden.bias": (HIDDEN,),
        "norm.weight": (HIDDEN,),
        "norm.bias": (HIDDEN,),
        "output.weight": (OUTPUT, HIDDEN),
        "output.bias": (OUTPUT,),
    }
    return {name: rng.normal(0, 0.6, shape).astype(np.float32) for name, shape in shapes.items()}


def model_of(code: Code, given: Values) -> tuple[Any, Any]:
    """The official model around our small network, and that network."""
    small = loaded(Small(), given["weights"])
    flat, linear, norm, _ = small.body
    nothing = nn.Identity()
    network = SimpleNamespace(
        conv1=nn.Sequential(flat, linear),
        bn1=norm,
        layer1=nothing,
        layer2=nothing,
        layer3=nothing,
        layer4=nothing,
        avgpool=nothing,
        feature_dim=WIDTH,
    )
    ssl, whole = code.module("model.ssl_model"), code.module("model.SemiFed")
    model = whole.SemiFed(ssl.SimCLRModel(network, OUTPUT, HIDDEN), "SimCLR", CLASSES)
    model.classifier_head = small.classifier
    state = {theirs(name): tensor(value) for name, value in given.get("projector", {}).items()}
    model.unsup_model.projector.load_state_dict(state, strict=False)
    return model, small


def loader(given: Values, order: Any) -> list:
    """The batches that the official code trains on: both views, and labels twice."""
    images, labels = tensor(given["images"]), integers(given["labels"])
    channels = SHAPE[0]
    batches = []
    for part in integers(order).split(8):
        seen = images[part]
        batches.append((seen[:, :channels], seen[:, channels:], labels[part], labels[part], part))
    return batches


def script_of(code: Code, step: Step, **more: Any) -> Any:
    """A function of the official client, with the names that it refers to."""
    averager, helpers = code.module("utils.averager"), code.module("model.utils")
    name = step.function.split(".")[1]
    known = {
        "torch": torch,
        "np": np,
        "nn": nn,
        "logging": logging,
        "AverageMeter": averager.AverageMeter,
        "eval_dimensional_collapse": helpers.eval_dimensional_collapse,
        "info_nce_loss": helpers.info_nce_loss,
        "vicreg_loss": helpers.vicreg_loss,
        **more,
    }
    return getattr(code.definitions(step.file, [name], **known), name)


def client_of(model: Any, given: Values, **more: Any) -> Any:
    """What the official functions read of a client."""

    def backward(loss: Any) -> None:
        loss.backward()

    algorithm = SimpleNamespace(
        gmm_thread=0.5, loss_weight=SimpleNamespace(clean_loss=0.4, noise_loss=1)
    )
    return SimpleNamespace(
        model=model,
        device="cpu",
        role="client",
        index=0,
        sample_num=len(given["labels"]),
        args=SimpleNamespace(
            record=False,
            algorithms=algorithm,
            datasets=SimpleNamespace(num_classes=CLASSES),
        ),
        opt=torch.optim.SGD(model.parameters(), 0.01, momentum=0.9, weight_decay=5e-4),
        _backward=backward,
        **more,
    )


def two_views(rng: np.random.RandomState, samples: int) -> Any:
    """Random images whose second view is the first one with noise: [samples, 2 channels, ...]."""
    first = images_of(rng, samples)
    return np.concatenate([first, first + 0.3 * images_of(rng, samples)], axis=1)


class Contrast(Step):
    """Of five images."""

    method = "fedrg"
    what = "the contrast of two views"
    file, function = "model/utils.py", "info_nce_loss"

    def inputs(self, rng: np.random.RandomState) -> Values:
        return {"projected": rng.normal(size=(10, OUTPUT)).astype(np.float32)}

    def official(self, code: Code, given: Values) -> Values:
        script = code.definitions(self.file, [self.function], torch=torch, F=functional)
        logits, labels = script.info_nce_loss(tensor(given["projected"]), 5, "cpu")
        return {"loss": nn.CrossEntropyLoss()(logits, labels)}

    def ours(self, given: Values) -> Values:
        return {"loss": contrast(tensor(given["projected"]), 0.07)}


class Pretraining(Step):
    """Two epochs; the last batch of each is a short one."""

    method = "fedrg"
    what = "a local update of the pretraining, and the projector"
    file, function = "FedRG/client.py", "TCFNLLClient.warm_train"

    def inputs(self, rng: np.random.RandomState) -> Values:
        return {
            "weights": weights_of(rng, Small()),
            "projector": projector_of(rng),
            "images": two_views(rng, 20),
            "labels": rng.randint(CLASSES, size=20),
            "orders": [rng.permutation(20) for _ in range(2)],
        }

    def official(self, code: Code, given: Values) -> Values:
        model, small = model_of(code, given)
        client = client_of(model, given)
        train = script_of(code, self)
        for order in given["orders"]:
            train(client, 0, 1, loader(given, order))
        trained = dict(model.unsup_model.projector.named_parameters())
        state = {name: trained[theirs(name)] for name in given["projector"]}
        return {"weights": trained_numbers(small), "projector": state}

    def ours(self, given: Values) -> Values:
        network = loaded(Small(), given["weights"])
        federation = federation_of(
            [network], given["images"], [given["labels"]], batch_size=8, local_epochs=2, **RATES
        )
        start = {f"projector.{name}": tensor(value) for name, value in given["projector"].items()}
        federation.state["projector"] = start
        draws = {"batches": [[order] for order in given["orders"]]}
        rounds_of(method("fedrg"), federation, 0, 1, draws)
        trained = federation.state["projector"]
        return {
            "weights": flat_names(federation.weights),
            "projector": {name: trained[f"projector.{name}"] for name in given["projector"]},
        }


class Training(Step):
    """Two epochs of three batches, from a mixture and a noise absorption matrix that have moved."""

    method = "fedrg"
    what = "a local update with labels: weights, mixture and noise absorption matrix"
    file, function = "FedRG/client.py", "TCFNLLClient.finetune_train_VMF_ori"
    clusters = CLASSES
    # In all batches scikit-learn's k-means, which has a single start in the code, finds the best
    # split, as ours always does.
    seed = 5

    def inputs(self, rng: np.random.RandomState) -> Values:
        directions = rng.normal(size=(self.clusters, WIDTH)) + 0.5
        evidence = rng.dirichlet([0.4] * self.clusters, CLASSES)
        absorption = rng.dirichlet([1.0] * CLASSES, CLASSES) + 2 * np.eye(CLASSES)
        return {
            "weights": weights_of(rng, Small()),
            "images": two_views(rng, 24),
            "labels": rng.randint(CLASSES, size=24),
            "orders": [rng.permutation(24) for _ in range(2)],
            "absorption": (absorption / 3).astype(np.float32),
            "mixture": {
                "directions": unit_rows(directions),
                "concentrations": rng.uniform(2, 12, self.clusters).astype(np.float32),
                "shares": rng.dirichlet([3.0] * self.clusters).astype(np.float32),
                "background": 0.07,
                "evidence": evidence.astype(np.float32),
                "median": 0.0,
            },
        }

    def official(self, code: Code, given: Values) -> Values:
        model, small = model_of(code, given)
        model.T.data = tensor(given["absorption"])
        held = {name: tensor(value) for name, value in given["mixture"].items()}
        names = {
            "MU": "directions",
            "KAPPA": "concentrations",
            "BETA": "shares",
            "PI0": "background",
            "M": "evidence",
        }
        mixture = {theirs: held[ours] for theirs, ours in names.items()}
        mixture |= {"alpha_dp": torch.tensor(5.0), "alpha_M": torch.tensor(0.5)}
        mixture["buf"] = {
            "sum_vec": torch.zeros(self.clusters, WIDTH),
            "count": torch.zeros(self.clusters),
            "bg_count": torch.tensor(0.0),
            "N_cg": torch.zeros(CLASSES, self.clusters),
        }
        client = client_of(model, given, _sbrf_mix=mixture)
        client.args.algorithms.trunc_L = self.clusters
        loss = partial(code.module("loss.SymCE_loss").SCELoss, num_classes=CLASSES)
        train = script_of(code, self, SCELoss=loss)
        batches = [batch for order in given["orders"] for batch in loader(given, order)]
        train(client, 0, 1, batches)
        end = client._sbrf_mix
        found = {ours: end[theirs] for theirs, ours in names.items()}
        return {
            "weights": trained_numbers(small),
            "absorption": model.T,
            "mixture": {**found, "median": client._sbrf_kappa_median},
        }

    def ours(self, given: Values) -> Values:
        network = loaded(Small(), given["weights"])
        federation = federation_of(
            [network], given["images"], [given["labels"]], batch_size=8, local_epochs=2, **RATES
        )
        state = federation.clients[0].state
        state["absorption"] = tensor(given["absorption"])
        state["mixture"] = {name: tensor(value) for name, value in given["mixture"].items()}
        draws = {"batches": [[order] for order in given["orders"]]}
        side = method("fedrg", pretraining_rounds=0)
        rounds_of(side, federation, 0, 1, draws)
        return {
            "weights": flat_names(federation.weights),
            "absorption": state["absorption"],
            "mixture": state["mixture"],
        }


class MoreClusters(Training):
    """The same with seven clusters, more than there are classes."""

    what = "the same, with more clusters than classes"
    clusters = 7
    seed = 1


def unit_rows(rows: Any) -> Any:
    """Rows of length 1, float32."""
    return (rows / np.linalg.norm(rows, axis=1, keepdims=True)).astype(np.float32)


def trained_numbers(network: nn.Module) -> Values:
    """The weights of our small network, which the official model trained, without counters."""
    state = copy.deepcopy(network.state_dict())
    return {name: value for name, value in state.items() if not name.endswith("_tracked")}
