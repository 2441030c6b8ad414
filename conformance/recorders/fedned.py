"""FedNed's steps: uncertain models, pseudo-labels, bad teachers, and what a round makes of them."""

from __future__ import annotations

import copy
from contextlib import redirect_stdout
from io import StringIO
from types import SimpleNamespace
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn import functional

from conformance.simulation import integers, method, tensor
from conformance.steps import Code, Step, Values
from noisyfl.methods.fedned import NegativeDistillation, bad_targets, uncertainty
from noisyfl.simulation.clients import Client
from noisyfl.simulation.outputs import Outputs
from noisyfl.simulation.updates import Batch, Update

CLASSES, WIDTH = 10, 6
DROPOUT, DRAWS = 0.3, 10


class Linear(nn.Module):
    """The classifier of images that are features, as the official code calls its networks: it
    returns features, logits with dropout, and logits.

    Args:
        weights: float [classes, width].
        kept: what its dropout leaves in, bool [draws, samples, width] for each model in turn.
    """

    def __init__(self, weights: Any, kept: Any = ()) -> None:
        super().__init__()
        self.classifier = nn.Linear(WIDTH, CLASSES, bias=False)
        self.classifier.weight = nn.Parameter(tensor(weights))
        self.kept = iter([draw for draws in kept for draw in draws])

    def forward(self, images: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """Features, logits under the next draw, logits."""
        draw = next(self.kept, None)
        dropped = images if draw is None else images * tensor(draw) / (1 - DROPOUT)
        return images, self.classifier(dropped), self.classifier(images)


def parameters(weights: Any) -> Values:
    """The state of a :class:`Linear`."""
    return {"classifier.weight": tensor(weights)}


def ours_of(weights: Any) -> Values:
    """The same as weights of ours."""
    return {
        "0.classifier.weight": tensor(weights),
        "0.classifier.bias": torch.zeros(CLASSES),
    }


class Called:
    """A model of ours, as a loss calls it."""

    def __init__(self, weight: Tensor) -> None:
        self.weight = weight

    def __call__(self, images: Tensor) -> Outputs:
        return Outputs(images @ self.weight.T, images)


class Uncertainty(Step):
    """Of five participants, two of whose models say nearly the same of all classes."""

    method = "fedned"
    what = "uncertainties, and which participants are extremely noisy"
    file, function = "server.py", "Server.compute_uncertainty"
    inner = (144, 179)

    def inputs(self, rng: np.random.RandomState) -> Values:
        scales = np.array([3.0, 0.3, 2.0, 0.2, 2.5])[:, None, None]
        return {
            "weights": (scales * rng.normal(size=(5, CLASSES, WIDTH))).astype(np.float32),
            "images": rng.normal(size=(7, WIDTH)).astype(np.float32),
            "kept": (rng.uniform(size=(5, DRAWS, 7, WIDTH)) >= DROPOUT).astype(int),
            "threshold": 0.24,
        }

    def official(self, code: Code, given: Values) -> Values:
        models = [parameters(weights) for weights in given["weights"]]
        server = SimpleNamespace(
            global_student=Linear(given["weights"][0], given["kept"]),
            dict_global_params=dict(models[0]),
            lamda=given["threshold"],
        )
        space = code.block(
            self.file,
            self.inner,
            self=server,
            torch=torch,
            softmax=functional.softmax,
            no_grad=torch.no_grad,
            client_indexes=list(range(5)),
            list_dicts_local_params=models,
            images_unlabeled=tensor(given["images"]),
        )
        return {
            "uncertainties": [value for _, value in sorted(space["list_var"])],
            "noisy": sorted(space["list_key_bad"]),
        }

    def ours(self, given: Values) -> Values:
        values = [
            uncertainty(tensor(given["images"]), ours_of(weights), integers(kept), DROPOUT)
            for weights, kept in zip(given["weights"], given["kept"], strict=True)
        ]
        limit = method("fedned", most_uncertain=5 * given["threshold"]).limit(
            [float(value) for value in values]
        )
        return {
            "uncertainties": values,
            "noisy": [number for number, value in enumerate(values) if value > limit],
        }


class PseudoLabels(Step):
    """Two steps of SGD, at 0.5, on one batch; some of its samples have confident pseudo-labels."""

    method = "fedned"
    what = "an extremely noisy client's weights after two steps"
    file, function = "client.py", "Client.bad_train"

    def inputs(self, rng: np.random.RandomState) -> Values:
        return {
            "weights": (2.5 * rng.normal(size=(CLASSES, WIDTH))).astype(np.float32),
            "images": rng.normal(size=(12, WIDTH)).astype(np.float32),
        }

    def official(self, code: Code, given: Values) -> Values:
        images = tensor(given["images"])
        model = Linear(given["weights"])
        client = SimpleNamespace(
            model=model,
            data_client=[(image, 0, number) for number, image in enumerate(images)],
            batch_size=len(images),
            local_steps=2,
            device="cpu",
            optimizer=torch.optim.SGD(model.parameters(), 0.5),
            temperature=2.0,
            threshold=0.95,
            ce_loss=nn.CrossEntropyLoss(),
        )
        code.module("client").Client.bad_train(client)
        return {"weights": model.classifier.weight}

    def ours(self, given: Values) -> Values:
        side = method("fedned", variant="official")
        weight = tensor(given["weights"]).requires_grad_()
        images = tensor(given["images"])
        everyone = torch.arange(len(images))
        extras = {"confidence": torch.tensor(side.confidence)}
        batch = Batch((images,), everyone, torch.zeros_like(everyone), extras, {})
        for _ in range(2):
            (gradient,) = torch.autograd.grad(side.loss(Called(weight), batch), [weight])
            with torch.no_grad():
                weight.sub_(0.5 * gradient)
        return {"weights": weight}


class BadTeachers(Step):
    """Two bad teachers."""

    method = "fedned"
    what = "the loss of negative distillation, and its gradient"
    file, lines = "server.py", (201, 214)

    def inputs(self, rng: np.random.RandomState) -> Values:
        return {
            "student": rng.normal(size=(CLASSES, WIDTH)).astype(np.float32),
            "teachers": rng.normal(size=(2, CLASSES, WIDTH)).astype(np.float32),
            "images": rng.normal(size=(9, WIDTH)).astype(np.float32),
        }

    def official(self, code: Code, given: Values) -> Values:
        said = code.definitions(
            self.file,
            ["get_bad_logit"],
            torch=torch,
            copy=copy,
            softmax=functional.softmax,
            no_grad=torch.no_grad,
        )
        student = Linear(given["student"])
        server = SimpleNamespace(
            global_teacher_bad=Linear(given["student"]),
            global_teacher_good=student,
            list_dicts_bad_local_params=[parameters(one) for one in given["teachers"]],
            temperature=2.0,
            device="cpu",
        )
        server.get_bad_logit = lambda *given: said.get_bad_logit(server, *given)
        loss = code.block(
            self.file,
            self.lines,
            self=server,
            torch=torch,
            F=functional,
            softmax=functional.softmax,
            images_unlabeled=tensor(given["images"]),
        )["loss"]
        loss.backward()
        return {"loss": loss, "gradient": student.classifier.weight.grad}

    def ours(self, given: Values) -> Values:
        images = tensor(given["images"])
        memory = bad_targets([images @ tensor(one).T for one in given["teachers"]], 2.0)
        side = NegativeDistillation(steps=1, learning_rate=0.1, temperature=2.0)
        weight = tensor(given["student"]).requires_grad_()
        everyone = torch.arange(len(images))
        loss = side.loss(Called(weight), Batch((images,), everyone, everyone, {}, memory))  # type: ignore[arg-type]
        (gradient,) = torch.autograd.grad(loss, [weight])
        return {"loss": loss, "gradient": gradient}


class GlobalModel(Step):
    """Of four participants, of which one is extremely noisy. The code's optimizer has the weights
    of another network than the one that its loss is of, so the mean stays as it is.
    """

    method = "fedned"
    what = "the global model after a round"
    file, function = "server.py", "Server.aggregate_distillation"

    def inputs(self, rng: np.random.RandomState) -> Values:
        scales = np.array([2.0, 0.01, 3.0, 2.5])[:, None, None]
        return {
            "weights": (scales * rng.normal(size=(4, CLASSES, WIDTH))).astype(np.float32),
            "images": rng.normal(size=(9, WIDTH)).astype(np.float32),
            "sizes": [30, 20, 45, 5],
            "noisy": 1,
        }

    def official(self, code: Code, given: Values) -> Values:
        known: Values = {
            "torch": torch,
            "copy": copy,
            "F": functional,
            "stack": torch.stack,
            "softmax": functional.softmax,
            "no_grad": torch.no_grad,
        }
        names = ["aggregate_distillation", "aggregate_parameters", "get_bad_logit"]
        script = code.definitions(self.file, names, **known)
        images = tensor(given["images"])
        models = [parameters(weights) for weights in given["weights"]]
        student = Linear(given["weights"][0])
        good = [number for number in range(4) if number != given["noisy"]]
        server = SimpleNamespace(
            global_student=student,
            global_teacher_good=Linear(given["weights"][0]),
            global_teacher_bad=Linear(given["weights"][0]),
            dict_global_params=student.state_dict(),
            optimizer=torch.optim.Adam(student.parameters(), lr=0.05, weight_decay=0.002),
            global_distill_dataset=[(image, 0) for image in images],
            mini_batch_size_distillation=8,
            random_state=np.random.RandomState(0),
            temperature=2.0,
            device="cpu",
            list_dicts_good_local_params=[models[number] for number in good],
            list_nums_good_local_data=[given["sizes"][number] for number in good],
            list_dicts_bad_local_params=[models[given["noisy"]]],
        )
        server.get_bad_logit = lambda *told: script.get_bad_logit(server, *told)
        server.aggregate_parameters = lambda: script.aggregate_parameters(server)
        with redirect_stdout(StringIO()):
            script.aggregate_distillation(server)
        return {"weights": server.dict_global_params["classifier.weight"]}

    def ours(self, given: Values) -> Values:
        images, none = tensor(given["images"]), integers([0])
        updates = [
            Update(Client(number, none, none, none), ours_of(weights), {}, size, 1, 0.0, 1, 1)
            for number, (weights, size) in enumerate(
                zip(given["weights"], given["sizes"], strict=True)
            )
        ]

        def said(requests: list, round: int) -> list[Outputs]:
            return [Called(one.weights["0.classifier.weight"])(images) for one in requests]

        federation: Any = SimpleNamespace(
            clients=[update.client for update in updates],
            round=20,
            seed=1,
            state={"public_rows": torch.arange(len(images))},
            passes=said,
            train=lambda tasks, *told: [],
            report=lambda client, **told: None,
        )
        mean = method("fedned", variant="official").aggregate(updates, federation)
        return {"weights": mean["0.classifier.weight"]}
