"""FedRN's own steps: reliability, clean sets, fine-tuning, a whole participation, the network."""

from __future__ import annotations

import copy
from argparse import Namespace
from types import SimpleNamespace
from typing import Any
from unittest.mock import patch

import numpy as np
import torch

from conformance.recorders.common import Network, averaged
from conformance.recorders.fedrn_code import as_ours, made, named, plain
from conformance.simulation import (
    Small,
    federation_of,
    flat_names,
    images_of,
    integers,
    loaded,
    method,
    numbers_of,
    rounds_of,
    scripted,
    tensor,
    weights_of,
)
from conformance.steps import Code, Step, Values
from noisyfl.data.noise.label_noise import LABEL_NOISES, Context
from noisyfl.data.noise.noise_level import NOISE_LEVELS
from noisyfl.methods.fedrn import FINE_TUNING, clean_probabilities
from noisyfl.simulation.federation import Federation
from noisyfl.simulation.updates import Task

ALPHA = 0.6


class Reliability(Step):
    """Of seven clients, the two most reliable neighbours of the third."""

    method = "fedrn"
    what = "neighbours and their reliability weights"
    file, lines = "main_fed_LNL.py", (204, 236)

    def inputs(self, rng: np.random.RandomState) -> Values:
        return {
            "answers": rng.normal(size=(7, 4)).astype(np.float32),
            "expertise": rng.rand(7),
            "client": 2,
        }

    def official(self, code: Code, given: Values) -> Values:
        objects = [
            SimpleNamespace(arbitrary_output=tensor(answer)[None], expertise=own, net1=number)
            for number, (answer, own) in enumerate(
                zip(given["answers"], given["expertise"], strict=True)
            )
        ]
        left = code.block(
            self.file,
            self.lines,
            copy=copy,
            local=objects[given["client"]],
            local_update_objects=objects,
            idx=given["client"],
            CosineSimilarity=torch.nn.CosineSimilarity(),
            args=Namespace(device="cpu", num_users=7, w_alpha=ALPHA, num_neighbors=2),
        )
        scores = np.array([left["prev_score"], *left["neighbor_score_list"]])
        return {"neighbours": left["neighbor_list"], "weights": scores / scores.sum()}

    def ours(self, given: Values) -> Values:
        clients = [
            SimpleNamespace(id=number, state={"answer": tensor(answer), "expertise": own})
            for number, (answer, own) in enumerate(
                zip(given["answers"], given["expertise"], strict=True)
            )
        ]
        federation = SimpleNamespace(clients=clients, seed=1)
        side = method("fedrn", alpha=ALPHA)
        team, weights = side.team(clients[given["client"]], 10, federation)
        return {"neighbours": [client.id for client in team], "weights": weights}


class CleanSet(Step):
    """By the posterior of the component of smaller losses, of one model."""

    method = "fedrn"
    what = "clean set by a mixture on losses"
    file, function = "models/update.py", "LocalUpdateFedRN.fit_gmm"

    def inputs(self, rng: np.random.RandomState) -> Values:
        return {
            "weights": weights_of(rng, Small()),
            "images": images_of(rng, 40),
            "labels": rng.randint(4, size=40),
        }

    def official(self, code: Code, given: Values) -> Values:
        local = made(
            code, "LocalUpdateFedRN", given, [], p_threshold=0.5, of_object={"user_idx": 0}
        )
        np.random.seed(1)
        chance = local.fit_gmm(named(given["weights"]))
        clean, _ = local.get_clean_idx(chance)
        return {"probability": chance, "clean": sorted(map(int, clean))}

    def ours(self, given: Values) -> Values:
        network = loaded(Small(), given["weights"])
        federation = federation_of([network], given["images"], [given["labels"]])
        task = Task(federation.clients[0], federation.weights)
        (chance,) = clean_probabilities([task], federation)
        clean = method("fedrn").probably_clean(chance)
        return {"probability": chance, "clean": torch.nonzero(clean)[:, 0]}


class FineTuning(Step):
    """An epoch of two neighbours' classifiers; running statistics move too."""

    method = "fedrn"
    what = "fine-tuning of neighbours' classifiers"
    file, function = "models/update.py", "LocalUpdateFedRN.finetune_head"

    def inputs(self, rng: np.random.RandomState) -> Values:
        return {
            "neighbours": [weights_of(rng, Small()) for _ in range(2)],
            "images": images_of(rng, 16),
            "labels": rng.randint(4, size=16),
            "clean": [0, 1, 3, 4, 6, 7, 9, 11, 12, 14],
            "order": rng.permutation(16),
        }

    def official(self, code: Code, given: Values) -> Values:
        local = made(code, "LocalUpdateFedRN", given, [given["order"]])
        neighbours = [named(weights) for weights in given["neighbours"]]
        tuned = local.finetune_head(neighbours, np.array(given["clean"]))
        return {str(number): plain(network) for number, network in enumerate(tuned)}

    def ours(self, given: Values) -> Values:
        networks = [loaded(Small(), weights) for weights in given["neighbours"]]
        federation = federation_of(networks[:1], given["images"], [given["labels"]], momentum=0.5)
        (client,) = federation.clients
        client.state["auxiliary"] = torch.isin(torch.arange(16), integers(given["clean"]))
        weights = [{f"0.{k}": v for k, v in net.state_dict().items()} for net in networks]
        tasks = [Task(client, {k: v.clone() for k, v in one.items()}) for one in weights]
        with scripted({"fine-tuning": [[given["order"]]] * 2}):
            updates = federation.train(tasks, FINE_TUNING, 0, "fine-tuning")
        return {str(n): flat_names(update.weights) for n, update in enumerate(updates)}


class Participation(Step):
    """Clean sets of the client's own and two neighbours' models, fine-tuned, then two epochs on
    what all of them together take for clean, and what the server keeps afterwards.
    """

    method = "fedrn"
    what = "a whole participation after the warm-up"
    file, function = "models/update.py", "LocalUpdateFedRN.train_phase2"
    seed = 3

    def inputs(self, rng: np.random.RandomState) -> Values:
        return {
            "weights": weights_of(rng, Small()),
            "own": weights_of(rng, Small()),
            "neighbours": [weights_of(rng, Small()) for _ in range(2)],
            "reliability": [0.9, 0.7, 0.4],
            "images": images_of(rng, 24),
            "labels": rng.randint(4, size=24),
            "random image": images_of(rng, 1),
            "fine-tuning order": rng.permutation(24),
            "orders": [rng.permutation(24) for _ in range(2)],
        }

    def official(self, code: Code, given: Values) -> Values:
        noise = tensor(given["random image"])
        orders = [given["fine-tuning order"], *given["orders"]]
        local = made(
            code, "LocalUpdateFedRN", given, orders, p_threshold=0.5,
            of_object={"gaussian_noise": noise},
        )  # fmt: skip
        np.random.seed(1)
        local.net1 = named(given["own"])
        own, *others = given["reliability"]
        neighbours = [named(weights) for weights in given["neighbours"]]
        weights, _ = local.train_phase2(named(given["weights"]), own, neighbours, others)
        return {
            "weights": numbers_of(as_ours(weights)),
            "clean": sorted(map(int, local.ldr_train.dataset.idxs)),
            "expertise": local.expertise,
            "answer": local.arbitrary_output[0],
        }

    def ours(self, given: Values) -> Values:
        network = loaded(Small(), given["weights"])
        federation = federation_of(
            [network], given["images"], [given["labels"]], momentum=0.5, local_epochs=2
        )
        (client,) = federation.clients

        def model(weights: Values) -> Any:
            state = loaded(Small(), weights).state_dict()
            return {f"0.{name}": value.clone() for name, value in state.items()}

        client.state["weights"] = model(given["own"])
        neighbours = [SimpleNamespace(state={"weights": model(w)}) for w in given["neighbours"]]
        shares = np.array(given["reliability"]) / sum(given["reliability"])
        side = method("fedrn", warm_up_rounds=1)
        draws = {
            "fine-tuning": [[given["fine-tuning order"]]] * 2,
            "batches": [[order] for order in given["orders"]],
        }
        with (
            patch.object(type(side), "team", lambda *args: (neighbours, shares.tolist())),
            patch.object(Federation, "random_image", lambda self: tensor(given["random image"])),
        ):
            rounds_of(side, federation, 1, 2, draws)
        state = client.state
        return {
            "weights": flat_names(federation.weights),
            "clean": torch.nonzero(state["clean"])[:, 0],
            "expertise": state["expertise"],
            "answer": state["answer"],
        }


class PlainLocalUpdate(Step):
    """Two epochs with momentum and weight decay."""

    method = "fedavg"
    what = "local update with weight decay"
    file, function = "models/update.py", "BaseLocalUpdate.train_single_model"

    def inputs(self, rng: np.random.RandomState) -> Values:
        return {
            "weights": weights_of(rng, Small()),
            "images": images_of(rng, 11),
            "labels": rng.randint(4, size=11),
            "orders": [rng.permutation(11) for _ in range(2)],
        }

    def official(self, code: Code, given: Values) -> Values:
        local = made(code, "BaseLocalUpdate", given, given["orders"], weight_decay=0.01)
        network = named(given["weights"])
        local.train(network)
        return plain(network)

    def ours(self, given: Values) -> Values:
        federation = federation_of(
            [loaded(Small(), given["weights"])], given["images"], [given["labels"]],
            momentum=0.5, local_epochs=2, weight_decay=0.01,
        )  # fmt: skip
        draws = {"batches": [[order] for order in given["orders"]]}
        rounds_of(method("fedavg"), federation, 0, 1, draws)
        return flat_names(federation.weights)


class Mean(Step):
    """Weighted by size."""

    method = "fedavg"
    what = "mean of local models, by size"
    file, function = "models/fed.py", "LocalModelWeights.average"

    def inputs(self, rng: np.random.RandomState) -> Values:
        return {"models": [weights_of(rng, Small()) for _ in range(3)], "sizes": [7, 12, 20]}

    def official(self, code: Code, given: Values) -> Values:
        fed = code.module("models.fed")
        models = [
            {k: tensor(v) for k, v in weights.items() if "tracked" not in k}
            for weights in given["models"]
        ]
        users = {number: range(size) for number, size in enumerate(given["sizes"])}
        empty = Weighted(models[0])
        mean = fed.LocalModelWeights(False, empty, 3, "fedavg", users)
        for number, model in enumerate(models):
            mean.update(number, model)
        return mean.average()

    def ours(self, given: Values) -> Values:
        return averaged(given)


class Weighted:
    """Something with weights."""

    def __init__(self, weights: Values) -> None:
        self.weights = weights

    def state_dict(self) -> Values:
        """Them."""
        return self.weights


class NoiseLevels(Step):
    """Two groups of clients, each with a ramp."""

    method = "client_linear"
    what = "noise levels that rise from client to client"
    file, lines = "main_fed_LNL.py", (95, 103)
    tolerance = 1e-12

    def inputs(self, rng: np.random.RandomState) -> Values:
        return {"clients": [10, 10], "low": 0.0, "high": 0.4}

    def official(self, code: Code, given: Values) -> Values:
        left = code.block(
            self.file,
            self.lines,
            np=np,
            args=Namespace(
                noise_group_num=given["clients"],
                noise_type_lst=["symmetric", "pairflip"],
                group_noise_rate=[(given["low"], given["high"])] * 2,
            ),
        )
        return {"levels": [level for _, level in left["user_noise_type_rates"]]}

    def ours(self, given: Values) -> Values:
        level = NOISE_LEVELS.build(
            {"name": "client_linear", "low": given["low"], "high": given["high"], "ramps": 2},
            "conformance",
        )
        return {"levels": level.draw(sum(given["clients"]), np.random.default_rng(1))}


class PairFlip(Step):
    """To which class each one is flipped."""

    method = "pair"
    what = "the class that a label is flipped to"
    file, function = "utils/utils.py", "noisify_label"

    def inputs(self, rng: np.random.RandomState) -> Values:
        return {"labels": np.arange(10)}

    def official(self, code: Code, given: Values) -> Values:
        flip = code.module("utils.utils").noisify_label
        return {"labels": [flip(label, 10, "pairflip") for label in given["labels"]]}

    def ours(self, given: Values) -> Values:
        from noisyfl.data.datasets.dataset import DATASETS

        noise = LABEL_NOISES.build({"name": "pair", "direction": -1}, "conformance")
        labels = np.array(given["labels"])
        context = Context(DATASETS["cifar10"], 1, None)
        (flipped,) = noise.flip([labels], np.ones(1), context)
        return {"labels": flipped}


class Cnn4Conv(Network):
    """On two images of 32x32."""

    method = "cnn4conv"
    what = "network: logits and gradient of the first layer"
    file, function = "models/nets.py", "CNN4Conv"
    model = "cnn4conv"

    def theirs(self, code: Code) -> Any:
        return code.module("models.nets").CNN4Conv(10)
