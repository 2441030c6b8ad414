"""What a hook of a method returns is checked at once, by the hook's name."""

import dataclasses
import re
from types import SimpleNamespace

import numpy as np
import pytest
import torch

from noisyfl.checks import method as checks
from noisyfl.core.artifacts import read_table
from noisyfl.core.options import BadInput
from noisyfl.methods import METHODS
from noisyfl.simulation.client_side import ClientSide
from noisyfl.simulation.federation import Federation
from noisyfl.simulation.losses import cross_entropy
from noisyfl.simulation.records import Records
from noisyfl.simulation.server_side import ServerSide
from noisyfl.simulation.updates import Epoch
from noisyfl.simulation.weights import average
from outside import Sound
from small_runs import SETTING, spec_of, train_small

pytestmark = pytest.mark.usefixtures("forgotten")

ONE, OTHER = "0.classifier.weight", "0.classifier.bias"


def planted(**hooks):
    """Registers a method with these hooks."""
    held = {"__doc__": "Wrong.", "__module__": __name__, "__annotations__": {}}
    METHODS.register("planted")(type("Planted", (Sound,), {**held, **hooks}))


def epoch(**changes):
    def changed(self, client, turn):
        return dataclasses.replace(ClientSide.epoch(self, client, turn), **changes)

    return {"epoch": changed}


def loss(of):
    return {"loss": lambda self, model, batch: of(model(batch.images), batch)}


def losses(of):
    return {"losses": lambda self, logits, target: of(cross_entropy(logits, target))}


def aggregate(change):
    def changed(self, updates, federation):
        return change(ServerSide.aggregate(self, updates, federation))

    return {"aggregate": changed}


def labels(change):
    def changed(self, round, updates, federation):
        for client in federation.clients:
            client.labels = change(client.labels)

    return {"after_round": changed}


WRONG = {
    "losses: got torch.float32 [], expected a tensor [10]": losses(torch.Tensor.mean),
    "losses: got float32 [10], expected a tensor [10]": losses(lambda each: each.detach().numpy()),
    "loss: got torch.float32 [10], expected a tensor [], a scalar": loss(
        lambda outputs, batch: cross_entropy(outputs.logits, batch.target)
    ),
    "loss: got one without a gradient of 0.body.0.weight, expected one of every weight": loss(
        lambda outputs, batch: outputs.logits.detach().mean()
    ),
    f"loss: got one without a gradient of {ONE}, expected one of every weight": loss(
        lambda outputs, batch: outputs.features.square().mean()
    ),
    "Epoch.targets: got torch.int64 [1], expected one for each of the client's": {
        "epoch": lambda self, client, turn: Epoch([np.array([0])], client.labels[:1])
    },
    "epoch: got list of 0, expected an Epoch": {"epoch": lambda self, client, turn: []},
    "Epoch.targets: got list of 1, expected a tensor of int64 or of a float": {
        "epoch": lambda self, client, turn: Epoch([np.array([0])], [1])
    },
    "Epoch.extras: a: got list of 1, expected a list of ": epoch(extras={"a": [1.0]}),
    "Epoch.learns: got 'classifier', expected a beginning of one of 0.body.0.weight": epoch(
        learns="classifier"
    ),
    "aggregate: got list of 0, expected a dict of weights": aggregate(lambda model: []),
    f"aggregate: {ONE!r} is missing": aggregate(
        lambda model: {name: value for name, value in model.items() if name != ONE}
    ),
    "aggregate: 'other' is no weight of the network": aggregate(
        lambda model: {**model, "other": model[ONE]}
    ),
    f"aggregate: {OTHER}: got torch.float64 [10], expected torch.float32 [10]": aggregate(
        lambda model: {**model, OTHER: model[OTHER].double()}
    ),
    "start, received: got list of 0, expected a dict of weights": {
        "received": lambda self, client, weights, federation: []
    },
    "select: got True, expected numbers of clients, from 0": {
        "select": lambda self, round, federation: [True]
    },
    "size: got 'a', expected a finite number of at least 0": {"size": lambda self, client: "a"},
    "Epoch.views: got ('Strong',), expected a tuple of": epoch(views=("Strong",)),
    "predict: got torch.int64 [360], expected a tensor [360, 10], the logits": {
        "predict": lambda self, outputs, client: outputs[0].logits.argmax(1)
    },
    "memory: kept: got torch.float32 [2], expected a row for each of the client's": {
        "by_sample": ("kept",),
        "memory": lambda self, client, federation: {"kept": torch.zeros(2)},
    },
    "memory: kept: got float64 [3], expected a tensor": {
        "memory": lambda self, client, federation: {"kept": np.zeros(3)}
    },
    "rounds: got 0, expected a whole number from 1 on": {"rounds": lambda self, federation: 0},
    "stage: got 1, expected a text": {"stage": lambda self, round, federation: 1},
    "Epoch.targets: got torch.int32 [": {
        "epoch": lambda self, client, turn: Epoch([np.array([0, 1])], client.labels.int())
    },
    "network: got 1, expected a number below 1, which `networks` is": {
        "loss": lambda self, model, batch: model(batch.images, network=1).logits.mean()
    },
    "loss: got one whose gradient goes back to an earlier step": {
        "memory": lambda self, client, federation: {"seen": torch.zeros(())},
        "loss": lambda self, model, batch: batch.memory["seen"].add_(
            model(batch.images).logits.square().mean()
        ),
    },
    "client.labels: got torch.int64 [1], expected torch.int64 [": labels(lambda own: own[:1]),
    "client.labels: got torch.float32 [": labels(torch.Tensor.float),
    "client.labels: got numbers from -100 to -100, expected classes, from 0 to 9": labels(
        lambda own: torch.full_like(own, -100)
    ),
    "average: got the shares [-1.0, 1.0, 1.0] for 3 models, expected a number from 0 on": {
        "aggregate": lambda self, updates, federation: average(
            [one.weights for one in updates], [-1.0, 1.0, 1.0]
        )
    },
    "federation.state: got ndarray at ['means'][0] in round 1, expected tensors, numbers": {
        "after_round": lambda self, round, updates, federation: federation.state.update(
            means=[np.zeros(3)]
        )
    },
    "round 1: draws from the random numbers that all of NumPy shares, which no trial's seed": {
        "select": lambda self, round, federation: [int(np.random.randint(2))]
    },
    "predictors: got list of 0, expected at least one Predictor": {
        "predictors": lambda self, federation: []
    },
}


@pytest.mark.parametrize("expected", WRONG, ids=lambda expected: expected[:40])
def test_what_is_wrong_is_named(expected, data, tmp_path):
    planted(**WRONG[expected])
    with pytest.raises(BadInput, match=re.escape(expected)):
        checks.trains({"name": "planted"}, data, tmp_path)


CLIENT = SimpleNamespace(id=3)


def test_an_estimate_does_not_take_the_name_of_a_column():
    federation = SimpleNamespace(records=Records())
    with pytest.raises(BadInput, match="report: got round, expected another name than round, cli"):
        Federation.report(federation, CLIENT, round=1)
    with pytest.raises(BadInput, match="report: got level = 'high', expected a number"):
        Federation.report(federation, CLIENT, level="high")


def test_numbers_of_numpy_are_written_down(data, tmp_path):
    """As the JSON that the tables are made of knows none of them."""

    def after_round(self, round, updates, federation):
        for update in updates:
            federation.report(update.client, share=np.float32(0.5), kept=np.bool_(True))
        federation.exchange(up=np.int64(7))

    planted(after_round=after_round, exchange=lambda self, updates, federation: np.arange(2))
    schedule = {**SETTING["schedule"], "rounds": 1}
    files = train_small(spec_of("planted", schedule=schedule), data, tmp_path)
    (row,) = read_table(files.rounds)[0].to_pylist()
    assert (row["bytes_down"], row["bytes_up"]) == (0, 8)
    clients = read_table(files.clients)[0].to_pylist()
    assert [(row["share"], row["kept"]) for row in clients] == [(0.5, True)] * 3
