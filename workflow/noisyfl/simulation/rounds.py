"""The rounds of a run."""

from __future__ import annotations

import math
import operator
import time
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any, TypeVar

import numpy as np
import torch
from torch import Tensor

from noisyfl.core.options import BadInput, kind_of
from noisyfl.core.randomness import only_streams
from noisyfl.core.text import reason
from noisyfl.simulation.checkpoint import Checkpoint
from noisyfl.simulation.client_side import ClientSide
from noisyfl.simulation.clients import Client
from noisyfl.simulation.executor import LoopExecutor
from noisyfl.simulation.federation import PARTICIPANTS, Federation
from noisyfl.simulation.ledger import Ledger
from noisyfl.simulation.losses import cross_entropy
from noisyfl.simulation.outputs import Network, Outputs, Predictor
from noisyfl.simulation.returned import check_tensor, check_weights, whole_number
from noisyfl.simulation.server_side import ServerSide, local_updates
from noisyfl.simulation.weights import Weights

NOT_EVALUATED = {
    "test_accuracy": math.nan,
    "test_top5_accuracy": math.nan,
    "test_balanced_accuracy": math.nan,
    "test_loss": math.nan,
    "confusion": None,
}
"""The evaluation columns of a round that is not evaluated."""


T = TypeVar("T")

Report = Callable[[int, int, float | None, float | None], None]
"""Takes the rounds done, all rounds, the seconds left, if these are known, and the accuracy on the
test part, if the round was evaluated."""


def unreported(
    rounds_done: int, rounds: int, seconds_left: float | None, accuracy: float | None
) -> None:
    """Ignore the progress of a run: the :data:`Report` of a run that nobody follows."""


def simulate(
    federation: Federation,
    server: ServerSide,
    client: ClientSide,
    checkpoint: Checkpoint,
    log: Callable[[str], None],
    report: Report = unreported,
    keep_labels: bool = False,
) -> str:
    """Run all rounds of a method, from the checkpoint if there is one.

    The last round is evaluated, and so is each that raises the count of evaluations due
    (:meth:`noisyfl.simulation.schedule.Schedule.evaluations`).

    Args:
        federation: before its first round.
        server: the method's server side.
        client: the method's client side.
        checkpoint: what the run resumes from, and is saved to.
        log: takes a line.
        report: is called after each round.
        keep_labels: whether a ledger keeps what is found of each sample's label.

    Returns:
        ``finished``, or ``diverged`` if the global model was no longer finite; the rounds until
        then are kept.
    """
    server.begin(federation)
    if keep_labels:  # of the clients that the server made of the others, where it pools samples
        federation.records.ledger = Ledger(federation.clients, federation.classes)
    total = whole_number(server.rounds(federation), "rounds")
    start, line = checkpoint.restore(federation)
    log(line)
    report(start, total, None, None)
    updates = [server.counted_updates(round, federation) for round in range(total)]
    left, whole = sum(updates[start:]), max(1, sum(updates))
    spent = 0
    begun = time.perf_counter()
    for round in range(start, total):
        work = partial(_round, federation, server, client, round, total, 1 - left / whole)
        with checkpoint.guard(round, federation), only_streams(f"round {round + 1}", STREAMS):
            finite, evaluation, counted = retry_in_smaller_groups(federation, work)
        left, spent = left - counted, spent + counted
        elapsed = time.perf_counter() - begun
        seconds_left = left * elapsed / max(spent, 1)
        accuracy = evaluation["test_accuracy"]
        measured = "not evaluated" if math.isnan(accuracy) else f"{100 * accuracy:.2f} %"
        log(
            f"round {round + 1}/{total} ({federation.records.rounds[-1]['stage']})  "
            f"test accuracy {measured}  {(round + 1 - start) / elapsed:.3g} rounds/s  "
            f"{seconds_left:.0f} s left"
        )
        evaluated = None if math.isnan(accuracy) else accuracy
        report(round + 1, total, seconds_left, evaluated)
        if not finite:
            log(f"diverged in round {round + 1}: the global model is not finite")
            return "diverged"
        checkpoint.after_round(round + 1, federation)
    return "finished"


STREAMS = "`turn.random_stream(purpose)` or `stream(federation.seed, purpose, ...)`"
"""Where hooks draw random numbers from."""


def retry_in_smaller_groups(federation: Federation, work: Callable[[], T]) -> T:
    """Do what changes a federation; if the device runs out of memory, start again with fewer
    clients at a time.

    What the failed attempt changed is undone, which is possible because a round replaces what it
    changes, and writes to no tensor in place.

    Raises:
        NoRoom: the device has too little memory even for one client at a time.
    """
    while True:
        restore = federation.snapshot()
        try:
            return work()
        except RuntimeError as error:
            if not is_out_of_memory(error):
                raise
            why = reason(error)
        # Outside of the handler, where no traceback keeps the tensors of the work alive.
        restore()
        federation.executor.use_less_memory(why)


def is_out_of_memory(error: RuntimeError) -> bool:
    """Whether a device has too little memory for what torch, CUDA, cuBLAS or cuDNN wanted to do."""
    return isinstance(error, torch.OutOfMemoryError) or any(
        words in str(error) for words in ("out of memory", "ALLOC_FAILED")
    )


def _client(number: Any, federation: Federation) -> Client:
    known = len(federation.clients)
    counts = hasattr(number, "__index__") and not isinstance(number, bool | np.bool_)
    if not counts or not 0 <= operator.index(number) < known:
        raise BadInput(
            f"select: got {number!r}, expected numbers of clients, from 0 to {known - 1}"
        )
    return federation.clients[number]


def _round(
    federation: Federation,
    server: ServerSide,
    client: ClientSide,
    round: int,
    total: int,
    share: float,
) -> tuple[bool, Mapping[str, Any], int]:
    """Run one round.

    Args:
        round: counted from 0.
        total: how many rounds there are.
        share: of the method's local updates that are done before the round.

    Returns:
        Whether the global model is finite, the results of the evaluation, and the number of local
        updates that the round counts for.
    """
    begun = time.perf_counter()
    federation.begin_round(round, share)
    stage = server.stage(round, federation)
    if not isinstance(stage, str):
        raise BadInput(f"stage: got {stage!r}, expected a text")
    counted = server.counted_updates(round, federation)
    server, client = server.sides(round, client, federation)
    numbers = server.select(round, federation)
    chosen = [_client(number, federation) for number in numbers]
    federation.state[PARTICIPANTS] = [participant.id for participant in chosen]
    updates = local_updates(round, chosen, server, client, federation)
    if any(update.size for update in updates):
        aggregated = server.aggregate(updates, federation)
        check_weights(aggregated, federation.weights, "aggregate")
        federation.weights = aggregated
    finite = all_finite(federation.weights)
    if finite:
        server.after_round(round, updates, federation)
    federation.make_room()
    done = federation.records.counted
    before, after = (
        federation.schedule.evaluations(updates_done / federation.participants)
        for updates_done in (done, done + counted)
    )
    due = before < after or round == total - 1 or not finite
    evaluation = evaluate(server, client, federation) if due else NOT_EVALUATED
    if round < total - 1 or not finite:
        evaluation = {**evaluation, "confusion": None}  # classes² numbers: only in the last round
    down, up = map(operator.index, server.exchange(updates, federation))
    seconds = time.perf_counter() - begun  # without what only keeps labels
    if federation.records.ledger is not None and finite:
        federation.records.ledger.look(round, total, chosen, server, client, federation)
    federation.close_round(round, stage, counted, updates, (down, up), evaluation, seconds)
    return finite, evaluation, counted


def evaluate(server: ServerSide, client: ClientSide, federation: Federation) -> dict[str, Any]:
    """Evaluate a method's models on the test part; see :func:`evaluate_models`."""
    models = server.predictors(federation)
    if not models or not all(isinstance(model, Predictor) for model in models):
        raise BadInput(f"predictors: got {kind_of(models)}, expected at least one Predictor")
    return evaluate_models(models, client, federation.executor, federation.answers)


def evaluate_models(
    models: Sequence[Predictor],
    client: ClientSide,
    executor: LoopExecutor,
    answers: dict[Network, Outputs],
) -> dict[str, Any]:
    """Evaluate models on the test part.

    Args:
        models: at least one.
        client: the method's client side, which says what a model of several networks predicts.
        executor: has the test part.
        answers: outputs on the test part of the networks of the evaluation before, which are not
            computed again; replaced by those of the networks of this one.

    Returns:
        Means over the models: ``test_accuracy``, ``test_top5_accuracy`` (NaN where there are no
        more than five classes), ``test_balanced_accuracy`` (the mean over the classes of the share
        of each that is recognised), all as shares from 0 to 1, and ``test_loss``. ``confusion`` is
        the confusion matrix, true classes by predicted ones, summed over the models and flattened,
        int [classes²].
    """
    labels = executor.test.labels
    accuracies, top5, losses, confusions = [], [], [], []
    before = dict(answers)
    answers.clear()
    for model in models:
        networks = [_network(model, number) for number in range(client.networks)]
        for network in networks:
            if network not in answers:
                outputs = before.get(network)
                # Another method's rounds, before this one's, may have kept no features.
                lacks = client.predicts_by_features and outputs and not outputs.features.shape[1]
                if outputs is None or lacks:
                    outputs = executor.test_outputs(model.weights, network.number)
                answers[network] = (
                    outputs if client.predicts_by_features else _without_features(outputs)
                )
        logits = client.predict([answers[network] for network in networks], model.client)
        shape = answers[networks[0]].logits.shape
        check_tensor(logits, shape, "predict", "the logits of each sample")
        accuracies.append(float((logits.argmax(1) == labels).double().mean()))
        top5.append(top_accuracy(logits, labels, 5))
        confusions.append(confusion_matrix(logits, labels))
        losses.append(float(cross_entropy(logits, labels).double().mean()))
    return {
        "test_accuracy": sum(accuracies) / len(accuracies),
        "test_top5_accuracy": sum(top5) / len(top5),
        "test_balanced_accuracy": sum(map(balanced_accuracy, confusions)) / len(confusions),
        "test_loss": sum(losses) / len(losses),
        "confusion": sum(confusions[1:], confusions[0]).flatten().tolist(),
    }


def _network(model: Predictor, number: int) -> Network:
    own = f"{number}."
    return Network(number, [value for name, value in model.weights.items() if name.startswith(own)])


def _without_features(outputs: Outputs) -> Outputs:
    """The logits alone: features would take several times their memory."""
    return Outputs(outputs.logits, outputs.features.new_empty(len(outputs.features), 0))


def confusion_matrix(logits: Tensor, labels: Tensor) -> Tensor:
    """How many samples of each class (rows) are taken for each (columns): int64 [classes, classes],
    on the host.

    Args:
        logits: [samples, classes].
        labels: int64 [samples].
    """
    classes = logits.shape[1]
    found = torch.bincount(labels * classes + logits.argmax(1), minlength=classes**2)
    return found.reshape(classes, classes).cpu()


def balanced_accuracy(confusion: Tensor) -> float:
    """The share of samples that is recognised, averaged over the classes that have samples."""
    sizes = confusion.sum(1)
    there = sizes > 0
    return float((confusion.diagonal()[there].double() / sizes[there]).mean())


def all_finite(weights: Weights) -> bool:
    """Whether every number of a model is finite; the host waits for the device once."""
    return bool(torch.stack([value.isfinite().all() for value in weights.values()]).all())


def top_accuracy(logits: Tensor, labels: Tensor, most: int) -> float:
    """The share of samples whose label is among the ``most`` highest logits; NaN if there are no
    more than ``most`` classes, so that no label could be missed.

    Args:
        logits: [samples, classes].
        labels: the true ones, int64 [samples].
        most: how many of the highest logits count.
    """
    if logits.shape[1] <= most:
        return math.nan
    found = logits.topk(most, dim=1).indices == labels[:, None]
    return float(found.any(1).double().mean())
