"""Runs pfl's simulation and prints the timings of its rounds as one line of JSON.

Run by the Python of pfl's environment as ``python -m benchmarks.pfl_worker WORK.npz OPTIONS``, see
:mod:`benchmarks.pfl_fedavg`. It needs pfl, torch and numpy, and the project's models.
"""

from __future__ import annotations

import functools
import json
import sys
from dataclasses import asdict
from typing import Any

import numpy as np
import torch
from pfl.aggregate.simulate import SimulatedBackend
from pfl.aggregate.weighting import WeightByDatapoints
from pfl.algorithm import FederatedAveraging, NNAlgorithmParams
from pfl.callback.central_evaluation import CentralEvaluationCallback
from pfl.data import FederatedDataset
from pfl.data.pytorch import PyTorchTensorDataset
from pfl.hyperparam import NNEvalHyperParams, NNTrainHyperParams
from pfl.metrics import Metrics, StringMetricName, Weighted
from pfl.model.pytorch import PyTorchModel
from torch import Tensor, nn

from benchmarks import Timing, Work, clock, draw_participants, normalized, precision
from noisyfl.models import build_model

TEST_BATCH_SIZE = 500
ACCURACY = StringMetricName("test accuracy")


def main(path: str, text: str) -> None:
    """Simulate and print.

    Args:
        path: an ``.npz`` file with the images and labels of :class:`~benchmarks.Work`, the rows of
            all clients one after the other in ``rows``, and each client's number in ``sizes``.
        text: the rest of it as JSON, and the keyword arguments of :func:`simulate` and ``threads``.
    """
    with np.load(path) as file:
        arrays = dict(file)
    clients = np.split(arrays.pop("rows"), arrays.pop("sizes").cumsum()[:-1])
    options = json.loads(text)
    arguments = {name: options.pop(name) for name in ("model", "classes", "evaluate_every")}
    torch.set_num_threads(options.pop("threads"))
    with precision(tf32=False):
        timings = simulate(Work(**arrays, clients=clients, **options), **arguments)
    print(json.dumps([asdict(timing) for timing in timings]))


def simulate(work: Work, model: str, classes: int, evaluate_every: int) -> list[Timing]:
    """Rounds of pfl's own simulation; its server adds the mean update, as SGD of rate 1."""
    module = Classifier(build_model(model, work.train_images.shape[1:], classes, work.seed))
    pfl_model = PyTorchModel(
        module,
        local_optimizer_create=functools.partial(torch.optim.SGD, momentum=work.momentum),
        central_optimizer=torch.optim.SGD(module.parameters(), lr=1.0),
    )
    device = work.device
    train = normalized(work.train_images, work.mean, work.std, device)
    test = normalized(work.test_images, work.mean, work.std, device)
    labels = torch.from_numpy(work.train_labels).to(device)
    test_labels = torch.from_numpy(work.test_labels).to(device)
    clients = [PyTorchTensorDataset((train[rows], labels[rows])) for rows in work.clients]
    sizes = np.array([len(rows) for rows in work.clients])
    chosen = draw_participants(work.seed, len(clients), work.participants, work.rounds)
    federation = FederatedDataset(clients.__getitem__, iter(chosen.flatten()).__next__)
    evaluation = NNEvalHyperParams(local_batch_size=TEST_BATCH_SIZE)
    stopwatch = Stopwatch(
        PyTorchTensorDataset((test, test_labels)),
        evaluation,
        frequency=evaluate_every,
        samples=work.local_epochs * sizes[chosen].sum(1),
        device=device,
    )
    FederatedAveraging().run(
        NNAlgorithmParams(
            central_num_iterations=work.rounds,
            # Participants evaluate on their own samples in the first round only, as pfl insists.
            evaluation_frequency=work.rounds,
            train_cohort_size=work.participants,
            val_cohort_size=None,
        ),
        SimulatedBackend(federation, federation, [WeightByDatapoints()]),
        pfl_model,
        NNTrainHyperParams(
            local_batch_size=work.batch_size,
            local_num_epochs=work.local_epochs,
            local_learning_rate=work.learning_rate,
        ),
        evaluation,
        [stopwatch],
        send_metrics_to_platform=False,
    )
    return stopwatch.timings


class Classifier(nn.Module):
    """A model with the two functions that pfl calls."""

    def __init__(self, module: nn.Module) -> None:
        super().__init__()
        self.module = module

    def loss(self, images: Tensor, labels: Tensor) -> Tensor:
        """Mean cross-entropy of a batch, in training mode."""
        self.train()
        return nn.functional.cross_entropy(self.module(images), labels)

    @torch.no_grad()
    def metrics(self, images: Tensor, labels: Tensor) -> dict[str, Weighted]:
        """The accuracy on a batch, in evaluation mode."""
        self.eval()
        right = (self.module(images).argmax(1) == labels).sum().item()
        return {"accuracy": Weighted(right, len(labels))}


class Stopwatch(CentralEvaluationCallback):
    """pfl's evaluation on central data, which also times the rounds.

    Args:
        samples: trained on in each round.
        device: whose work to wait for.
    """

    def __init__(self, *arguments: Any, samples: np.ndarray, device: str, **more: Any) -> None:
        names = {"accuracy": ACCURACY}
        super().__init__(*arguments, **more, format_fn=lambda n: names.get(n, StringMetricName(n)))
        self.samples = samples
        self.device = device
        self.timings: list[Timing] = []

    def on_train_begin(self, *, model: Any) -> Metrics:
        """Evaluate the initial model, and start the clock after that."""
        metrics = super().on_train_begin(model=model)
        self.begun = clock(self.device)
        return metrics

    def after_central_iteration(
        self, aggregate_metrics: Metrics, model: Any, *, central_iteration: int
    ) -> tuple[bool, Metrics]:
        """Evaluate the updated global model if it is due, and note the timing of the round."""
        trained = clock(self.device)
        answer = super().after_central_iteration(
            aggregate_metrics, model, central_iteration=central_iteration
        )
        evaluated = clock(self.device)
        due = ACCURACY in answer[1]
        self.timings.append(
            Timing(
                training=trained - self.begun,
                samples=int(self.samples[central_iteration]),
                evaluation=evaluated - trained if due else None,
                accuracy=answer[1][ACCURACY].overall_value if due else None,
            )
        )
        self.begun = evaluated
        return answer


if __name__ == "__main__":
    main(*sys.argv[1:])
