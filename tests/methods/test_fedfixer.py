"""FedFixer's picks and losses as the author's code says, and whose step is whose."""

import dataclasses
from types import SimpleNamespace

import numpy as np
import pytest
import torch
from test_robust_losses import LOGITS, batch_of, client_of, turn

from noisy_digits import SOME_CLIENTS, run_on_digits
from noisyfl.methods.fedfixer import confidence
from noisyfl.simulation.outputs import Outputs
from small_executors import schedule
from vectors import method, updates_of

OTHER = torch.tensor([[0.5, 1.0, -0.5], [0.3, 0.9, -0.3], [1.0, -1.0, 0.5], [0.2, 1.5, 0.0]])


class Pair:
    """Two models with logits and one weight each."""

    def __init__(self, w=1.0, theta=3.0):
        self.logits = [LOGITS.clone().requires_grad_(), OTHER.clone().requires_grad_()]
        self.weights = {
            "0.a": torch.tensor([w], requires_grad=True),
            "1.a": torch.tensor([theta], requires_grad=True),
        }

    def __call__(self, images, network=0):
        return Outputs(self.logits[network], torch.empty(0))


def step(personal, selecting, beta=2.0, **options):
    model = Pair()
    memory = {"picked": torch.zeros(4, dtype=torch.bool), "learnt": torch.tensor(0)}
    extras = {
        "personal": torch.tensor(personal),
        "beta": torch.tensor(beta),
        "selecting": torch.tensor(selecting),
    }
    loss = method("fedfixer", **options).loss(model, batch_of(memory=memory, **extras))
    loss.backward()
    return float(loss.detach()), model, memory


@pytest.mark.parametrize(
    ("selecting", "beta", "theta", "w", "learnt"),
    [(False, 0.2040816, 1.2033859, 0.2964701, 4), (True, 2.0, -1.1358777, -4.9642782, 2)],
)
def test_losses_are_the_authors_codes(selecting, beta, theta, w, learnt):
    """Recorded: ResearchFL/HeteroFedNoisyLabelLearning, 1b3840d, util/loss.py, FedTwinCRLoss in
    rounds 3 and 20 of 300, begin_sel 10, max_beta 2. The first and the last sample are clean for
    the personal model, all are for the global one.
    """
    found, _, memory = step(1.0, selecting, beta, pull=0.0)
    assert found * (1 + beta) == pytest.approx(theta, abs=1e-5)
    assert int(memory["learnt"]) == 0
    found, _, memory = step(0.0, selecting, beta, pull=0.0)
    assert found * (1 + beta) == pytest.approx(w, abs=1e-5)
    assert int(memory["learnt"]) == int(memory["picked"].sum()) == learnt


@pytest.mark.parametrize(("personal", "mine", "yours"), [(1.0, 1, 0), (0.0, 0, 1)])
def test_a_step_is_one_models(personal, mine, yours):
    _, model, memory = step(personal, True)
    assert float(model.logits[mine].grad.abs().sum()) > 0
    assert float(model.logits[yours].grad.abs().sum()) == 0
    # lambda / (1 + beta) times the distance of 2, towards the other.
    grads = [float(model.weights[name].grad) for name in ("0.a", "1.a")]
    assert grads[mine] == pytest.approx((10.0, -10.0)[1 - mine])
    assert grads[yours] == 0
    assert bool(memory["picked"].any()) == (personal == 0)


def test_sure_predictions_are_pushed_no_further():
    logits = torch.tensor([[60.0, 0.0, 0.0]], requires_grad=True)
    confidence(logits, torch.tensor([0]), 2.0).sum().backward()
    assert float(logits.grad.abs().max()) < 1e-6


@pytest.mark.parametrize(("rounds", "epochs"), [(10, 5), (5, 5), (3, 1), (1, 1)])
def test_beta_grows_from_epoch_to_epoch_as_in_the_authors_code(rounds, epochs):
    """util/optimizer.py, f_beta: three stretches of numpy's ``linspace``, one after the other."""
    begin, grow = np.zeros(epochs * (rounds // 5)), np.linspace(0, 2, epochs * rounds)
    expected = [*begin, *grow, *np.full(300 * epochs, 2.0)]
    side = method("fedfixer", selection_round=rounds)
    places = [(round, number) for round in range(40) for number in range(epochs)]
    found = [side.grown(round, number, epochs) for round, number in places]
    assert found == pytest.approx(expected[: len(found)])


def test_the_epochs_of_a_round_have_betas_of_their_own():
    side, client = method("fedfixer", selection_round=10), client_of(9)
    side.before_round(4, [client], SimpleNamespace(schedule=schedule(local_epochs=5)))
    turns = [dataclasses.replace(turn(4), number=number) for number in range(5)]
    found = [side.epoch(client, one).extras["beta"] for one in turns]
    assert [betas[0] for betas in found] == pytest.approx(2 * np.arange(10, 15) / 49)
    assert all(len(set(betas)) == 1 for betas in found)


def test_each_batch_comes_for_both_models():
    side, client = method("fedfixer", personal_steps=2, selection_round=4), client_of(9)
    client.state["local_epochs"] = 5
    epoch = side.epoch(client, turn(4))
    assert [len(part) for part in epoch.steps] == [6, 6, 6, 3, 3, 3]
    assert epoch.extras["personal"] == [1, 1, 0, 1, 1, 0]
    assert epoch.extras["selecting"] == [False] * 6
    assert side.epoch(client, turn(5)).extras["selecting"] == [True] * 6


def test_both_models_begin_as_the_global_one_which_alone_is_sent():
    side = method("fedfixer")
    weights = {name: torch.full((3,), float(n)) for n, name in enumerate(["0.a", "0.b", "1.a"])}
    weights["1.b"] = weights["1.a"] + 1
    start = side.received(client_of(1), weights, None)
    assert set(start) == set(weights)
    assert all(
        torch.equal(start[f"{n}.{part}"], weights[f"0.{part}"]) for n in "01" for part in "ab"
    )
    federation = SimpleNamespace(weights=weights)
    assert side.exchange(updates_of([weights] * 2), federation) == (48, 48)


@pytest.mark.storm
def test_it_finds_clean_samples_on_digits(tmp_path):
    federation, _ = run_on_digits("fedfixer(selection_round=5)", tmp_path, SOME_CLIENTS, rounds=10)
    rows = federation.records.rounds
    right = [client.accuracy_of(client.given) for client in federation.clients]
    assert rows[5]["label_precision"] != rows[5]["label_precision"]
    assert rows[-1]["label_precision"] > sum(right) / len(right) + 0.05
