"""Probes: measurements of a federation after its last round, for figures that need more than rounds
record.

A probe runs and trains models with the method's own sides, but leaves the run as it is, and nothing
that it does is counted. What it measures of a client goes into the client's row of the last round.
Images are shown in the plain view. Where a probe makes one more local update, it repeats the last
round's, with its stage, learning rate and random streams, from the model that the server would send
after the last round.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
import torch
from torch import Tensor
from torch.nn.functional import cosine_similarity

from noisyfl.core.randomness import stream
from noisyfl.simulation.client_side import ClientSide
from noisyfl.simulation.clients import Client
from noisyfl.simulation.estimates import mean_by_class
from noisyfl.simulation.federation import PARTICIPANTS, Federation
from noisyfl.simulation.losses import cross_entropy
from noisyfl.simulation.server_side import ServerSide, local_updates
from noisyfl.simulation.updates import Update

SAMPLES = 1000
"""The largest number of samples whose features are kept, in equal shares for the participants."""

Rows = Mapping[int, Mapping[str, Any]]
"""By client, values by column."""

NUMBERS, LABELS = pa.list_(pa.float64()), pa.list_(pa.int64())
VECTORS = pa.list_(pa.list_(pa.float32()))


@dataclass(frozen=True)
class Probe:
    """One thing to measure.

    Attributes:
        columns: the columns that it fills; docs/artifacts.md says what they mean.
        measure: the function that measures their values.
    """

    columns: Mapping[str, pa.DataType]
    measure: Callable[[Federation, ServerSide, ClientSide], Rows]


def run_probes(
    names: Sequence[str], federation: Federation, server: ServerSide, side: ClientSide
) -> None:
    """Run the named probes on a federation whose rounds are done, and add what they measure to the
    last round's rows of clients; a client that has no row gets one.
    """
    server, side = server.sides(_last_round(federation), side, federation)
    records, last = federation.records, federation.records.rounds[-1]["round"]
    before = [row for row in records.clients if row["round"] != last]
    rows = {row["client"]: row for row in records.clients if row["round"] == last}
    for name in names:
        for client, values in PROBES[name].measure(federation, server, side).items():
            rows[client] = {"round": last, "client": client, **rows.get(client, {}), **values}
    records.clients = before + [row for _, row in sorted(rows.items())]


def columns(names: Sequence[str]) -> dict[str, pa.DataType]:
    """The columns of the named probes, and their types."""
    return {column: kind for name in names for column, kind in PROBES[name].columns.items()}


# -------------------------------------------------------------------- what is measured


def probe_local_models(federation: Federation, server: ServerSide, side: ClientSide) -> Rows:
    """Each client's model after one more local update: its accuracies, and its output on an image
    of pure noise (FedRN, Figures 1, 4 and 5).
    """
    executor = federation.executor
    labels = executor.test.labels
    image = federation.random_image()
    rows = {}
    for update in _one_more(federation.clients, federation, server, side):
        client, weights = update.client, update.weights
        tested = [executor.test_outputs(weights, number) for number in range(side.networks)]
        asked = [executor.outputs_of(image, weights, number) for number in range(side.networks)]
        called = side.predict(federation.look(client, weights, side.networks), client).argmax(1)
        right = side.predict(tested, client).argmax(1) == labels
        rows[client.id] = {
            "local_test_accuracy": _share(right),
            "local_own_classes_accuracy": _own_classes(right, labels, client),
            "local_train_accuracy": _share(called == client.given),
            "local_true_accuracy": client.accuracy_of(called),
            "random_image_output": side.predict(asked, client).softmax(1)[0].tolist(),
        }
    return rows


def samples(federation: Federation, server: ServerSide, side: ClientSide) -> Rows:
    """Two values of each sample of the last participants that may tell clean from noisy ones, both
    for the given label: the loss, and the cosine between the sample's features and the mean
    features of the client's samples with that label (FedCNI, Eqs. 5 and 6). The model is the one
    that the server would send.
    """
    rows = {}
    for client in _last_participants(federation):
        outputs = federation.look(client, server.start(client, federation), side.networks)
        logits, features = side.predict(outputs, None), outputs[0].features
        prototypes, _ = mean_by_class(features, client.given, logits.shape[1])
        similarity = cosine_similarity(features, prototypes[client.given])
        rows[client.id] = {
            "sample": client.rows.tolist(),
            "sample_given_label": client.given.tolist(),
            "sample_true_label": client.true.tolist() if client.truth_known else None,
            "sample_loss": cross_entropy(logits, client.given).tolist(),
            "sample_similarity": similarity.tolist(),
        }
    return rows


def probe_features(federation: Federation, server: ServerSide, side: ClientSide) -> Rows:
    """The features of some of the last participants' samples, drawn at random, by their models
    after one more local update; and the class centroids that the method keeps (RoFL, Figure 4).
    """
    participants = _last_participants(federation)
    most = max(1, SAMPLES // len(participants))
    centroids = side.centroids(federation)
    known = None if centroids is None else centroids.tolist()
    rows = {}
    for update in _one_more(participants, federation, server, side):
        client = update.client
        order = stream(federation.seed, "features", client.id).permutation(len(client))
        chosen = torch.from_numpy(np.sort(order[:most])).to(client.rows.device)
        outputs = federation.look(client, update.weights, side.networks)
        rows[client.id] = {
            "feature_sample": client.rows[chosen].tolist(),
            "feature_given_label": client.given[chosen].tolist(),
            "feature_true_label": client.true[chosen].tolist() if client.truth_known else None,
            "feature_vector": outputs[0].features[chosen].tolist(),
            "class_centroid": known,
        }
    return rows


PROBES = {
    "features": Probe(
        {
            "feature_sample": LABELS,
            "feature_given_label": LABELS,
            "feature_true_label": LABELS,
            "feature_vector": VECTORS,
            "class_centroid": VECTORS,
        },
        probe_features,
    ),
    "local_models": Probe(
        {
            "local_test_accuracy": pa.float64(),
            "local_own_classes_accuracy": pa.float64(),
            "local_train_accuracy": pa.float64(),
            "local_true_accuracy": pa.float64(),
            "random_image_output": NUMBERS,
        },
        probe_local_models,
    ),
    "samples": Probe(
        {
            "sample": LABELS,
            "sample_given_label": LABELS,
            "sample_true_label": LABELS,
            "sample_loss": NUMBERS,
            "sample_similarity": NUMBERS,
        },
        samples,
    ),
}
"""By the name that a spec gives it (:data:`noisyfl.specs.spec.Probe`)."""


# -------------------------------------------------------------------- what they share


def _own_classes(right: Tensor, labels: Tensor, client: Client) -> float:
    """The accuracy on the test samples of each class that a client truly has (by its given labels
    where the true ones are not known), averaged over these classes: FedRN's Figure 1 tests a local
    model on equally many samples of each.
    """
    own = (client.true if client.truth_known else client.given).unique()
    accuracies = [_share(right[labels == label]) for label in own if bool((labels == label).any())]
    return float(np.mean(accuracies))


def _last_participants(federation: Federation) -> list[Client]:
    return [federation.clients[number] for number in sorted(set(federation.state[PARTICIPANTS]))]


def _last_round(federation: Federation) -> int:
    return len(federation.records.rounds) - 1


def _one_more(
    clients: list[Client], federation: Federation, server: ServerSide, side: ClientSide
) -> Iterator[Update]:
    """Yield one more local update of each client, made in groups of an ordinary round's size.

    While the caller handles an update, its client's state is as the update left it; the changes of
    a group are undone after its last one.
    """
    federation.round = last = _last_round(federation)
    for first in range(0, len(clients), federation.participants):
        group = clients[first : first + federation.participants]
        with federation.scratch():
            yield from local_updates(last, group, server, side, federation)


def _share(right: Tensor) -> float:
    return float(right.double().mean())
