"""The baselines in FedRN's repository, over several participations of one client."""

from __future__ import annotations

from argparse import Namespace
from typing import Any, ClassVar

import numpy as np
import torch

from conformance.recorders.fedrn_code import Halves, made, named, plain
from conformance.simulation import (
    Small,
    federation_of,
    flat_names,
    images_of,
    integers,
    loaded,
    method,
    rounds_of,
    weights_of,
)
from conformance.steps import Code, Step, Values
from noisyfl.methods.coteaching import smallest
from noisyfl.simulation.federation import Federation

SAMPLES = 14


class Participations(Step):
    """Three participations of two local epochs, the first one of warm-up.

    Attributes:
        kind: the code's class.
        options: of the code.
        side: our method's options.
        networks: how many it trains.
    """

    kind: ClassVar[str]
    options: ClassVar[dict[str, Any]] = {}
    side: ClassVar[dict[str, Any]] = {}
    networks: ClassVar[int] = 1
    rounds: ClassVar[int] = 3

    def inputs(self, rng: np.random.RandomState) -> Values:
        return {
            "weights": [weights_of(rng, Small()) for _ in range(self.networks)],
            "images": images_of(rng, SAMPLES),
            "labels": rng.randint(4, size=SAMPLES),
            "orders": [rng.permutation(SAMPLES) for _ in range(2 * self.rounds)],
        }

    def official(self, code: Code, given: Values) -> Values:
        local = made(code, self.kind, given, given["orders"], **self.options)
        networks = [named(weights) for weights in given["weights"]]
        for number in range(self.rounds):
            self.before(local, number)
            local.train(*networks)
        return {
            "weights": {str(n): plain(network) for n, network in enumerate(networks)},
            **self.kept(local),
        }

    def before(self, local: Any, number: int) -> None:
        """What the script tells an object before a round."""
        local.args.g_epoch = number

    def kept(self, local: Any) -> Values:
        """What an object keeps of its samples, in their order."""
        return {}

    def ours(self, given: Values) -> Values:
        federation = federation_of(
            [loaded(Small(), weights) for weights in given["weights"]],
            given["images"],
            [given["labels"]],
            momentum=0.5,
            local_epochs=2,
        )
        draws = {"batches": [[order] for order in given["orders"]]}
        rounds_of(method(self.method, **self.side), federation, 0, self.rounds, draws)
        return {
            "weights": {str(n): flat_names(federation.weights, n) for n in range(self.networks)},
            **self.held(federation),
        }

    def held(self, federation: Federation) -> Values:
        """The same, of ours."""
        return {}


class Selfie(Participations):
    """Nine of fourteen samples are refurbished, six of them with a label that was not given."""

    method = "selfie"
    what = "local updates: small losses, refurbished labels, the second pass"
    file, function = "models/update.py", "LocalUpdateSELFIE.forward_pass"
    kind = "LocalUpdateSELFIE"
    seed = 10
    options: ClassVar = {
        "queue_size": 3, "uncertainty_threshold": 0.1, "of_object": {"noise_rate": 0.4},
    }  # fmt: skip
    side: ClassVar = {
        "variant": "fedrn", "warm_up_rounds": 1, "history": 3, "uncertainty": 0.1,
        "forget_rate": 0.4,
    }  # fmt: skip

    def kept(self, local: Any) -> Values:
        labels = local.corrector.corrected_labels
        return {"refurbished": [labels[row] for row in range(SAMPLES)]}

    def held(self, federation: Federation) -> Values:
        return {"refurbished": federation.clients[0].state["refurbished"]}


class JointOptimization(Participations):
    """With the two terms beside cross-entropy from the first round."""

    method = "jointopt"
    what = "local updates: the loss, and soft labels from past predictions"
    file, function = "models/update.py", "LocalUpdateJointOptim.forward_pass"
    kind = "LocalUpdateJointOptim"
    options: ClassVar = {"queue_size": 4, "labeling": "soft", "alpha": 1.2, "beta": 0.8}
    side: ClassVar = {"variant": "fedrn", "start_round": 1, "history": 4}

    def kept(self, local: Any) -> Values:
        places = local.corrector.id_2_data_index
        soft = local.corrector.soft_labels[[places[row] for row in range(SAMPLES)]]
        return {"soft labels": soft}

    def held(self, federation: Federation) -> Values:
        state = federation.clients[0].state
        side = method(self.method, **self.side)
        return {"soft labels": side.soft_labels(state["outputs"], state["written"])}


class CoTeaching(Participations):
    """With the forget rate of three rounds of a ramp of two."""

    method = "coteaching"
    what = "local updates of both networks"
    file, function = "models/update.py", "LocalUpdateCoteaching.loss_coteaching"
    kind = "LocalUpdateCoteaching"
    side: ClassVar = {"variant": "fedrn", "ramp_rounds": 2, "forget_rate": 0.4}
    networks = 2

    def before(self, local: Any, number: int) -> None:
        local.args.g_epoch = number
        local.args.forget_rate = (0.0, 0.4, 0.4)[number]


class ForgetRate(Step):
    """Of ten rounds, four of them a ramp."""

    method = "coteaching"
    what = "forget rate of each round"
    file, lines = "main_fed_LNL.py", (144, 150)
    tolerance = 1e-12

    def inputs(self, rng: np.random.RandomState) -> Values:
        return {"rounds": 10, "ramp": 4, "forget rate": 0.2}

    def official(self, code: Code, given: Values) -> Values:
        left = code.block(
            self.file,
            self.lines,
            np=np,
            args=Namespace(
                method="coteaching",
                warmup_epochs=given["ramp"],
                forget_rate=given["forget rate"],
                epochs=given["rounds"],
            ),
        )
        return {"rates": left["forget_rate_schedule"]}

    def ours(self, given: Values) -> Values:
        side = method(
            "coteaching", variant="fedrn", ramp_rounds=given["ramp"],
            forget_rate=given["forget rate"],
        )  # fmt: skip
        client = Namespace(state={"forget_rate": given["forget rate"]})
        return {"rates": [side.rate(client, number) for number in range(given["rounds"])]}


class Picks(Step):
    """Of a batch, at a forget rate that leaves a fraction of a sample."""

    method = "coteaching"
    what = "samples that a network picks"
    file, function = "models/update.py", "LocalUpdateCoteaching.loss_coteaching"

    def inputs(self, rng: np.random.RandomState) -> Values:
        return {
            "first": rng.normal(size=(9, 4)).astype(np.float32),
            "second": rng.normal(size=(9, 4)).astype(np.float32),
            "labels": rng.randint(4, size=9),
            "forget rate": 0.3,
        }

    def official(self, code: Code, given: Values) -> Values:
        data = {"images": np.zeros((9, 1, 3, 3)), "labels": given["labels"]}
        local = made(code, "LocalUpdateCoteaching", data, [])
        first, second, picks = local.loss_coteaching(
            torch.tensor(given["first"]),
            torch.tensor(given["second"]),
            integers(given["labels"]),
            given["forget rate"],
        )
        return {"losses": [float(first), float(second)], "picks": sorted(map(int, picks))}

    def ours(self, given: Values) -> Values:
        labels = integers(given["labels"])
        losses = [
            torch.nn.functional.cross_entropy(torch.tensor(given[n]), labels, reduction="none")
            for n in ("first", "second")
        ]
        kept = torch.tensor(max(1, int((1 - given["forget rate"]) * 9 + 1e-9)))
        one, two = (smallest(values, kept) for values in losses)
        return {
            "losses": [losses[0][two].mean(), losses[1][one].mean()],
            "picks": torch.nonzero(one)[:, 0],
        }


class DivideMix(Participations):
    """Two local epochs after the warm-up: splits, guesses, mixup, and both networks' steps."""

    method = "dividemix"
    what = "local update after the warm-up"
    file, function = "models/update.py", "LocalUpdateDivideMix.train_2_phase"
    kind = "LocalUpdateDivideMix"
    options: ClassVar = {
        "p_threshold": 0.5, "T": 0.5, "mm_alpha": 4.0, "lambda_u": 25.0, "warmup_epochs": 0,
    }  # fmt: skip
    side: ClassVar = {"variant": "fedrn", "warm_up_rounds": 1, "ramp_rounds": 0}
    networks = 2
    # In the code lambda_u rises within a round too; it has risen here.
    ramped = 100
    samples = 22
    seed = 4

    def inputs(self, rng: np.random.RandomState) -> Values:
        count = self.samples
        images = np.concatenate([images_of(rng, count) for _ in range(2)], axis=1)
        return {
            "weights": [weights_of(rng, Small()) for _ in range(2)],
            "images": images,
            "labels": rng.randint(4, size=count),
            "orders": [rng.permutation(count) for _ in range(4)],
            "unlabelled orders": [[rng.permutation(count) for _ in range(6)] for _ in range(4)],
            "shares": [rng.beta(4, 4, size=8) for _ in range(4)],
            "mixed with": [[rng.permutation(16) for _ in range(8)] for _ in range(4)],
        }

    def official(self, code: Code, given: Values) -> Values:
        halves = Halves(given)
        local = made(code, self.kind, given, halves, **self.options)
        np.random.seed(1)
        networks = [named(weights) for weights in given["weights"]]
        local.args.g_epoch = self.ramped
        divide = local.divide_mix

        def told(*args: Any, **kwargs: Any) -> Any:
            halves.begin()
            with halves.drawn():
                return divide(*args, **kwargs)

        local.divide_mix = told
        local.train(*networks)
        return {"weights": {str(n): plain(network) for n, network in enumerate(networks)}}

    def ours(self, given: Values) -> Values:
        federation = federation_of(
            [loaded(Small(), weights) for weights in given["weights"]],
            given["images"],
            [given["labels"]],
            momentum=0.5,
            local_epochs=2,
        )
        draws = {
            "batches": [[order] for order in given["orders"]],
            "unlabelled batches": given["unlabelled orders"],
            "mixup": [
                [shares, *indices]
                for shares, indices in zip(given["shares"], given["mixed with"], strict=True)
            ],
        }
        side = method(self.method, **self.side)
        rounds_of(side, federation, 1, 2, draws)
        return {"weights": {str(n): flat_names(federation.weights, n) for n in range(2)}}
