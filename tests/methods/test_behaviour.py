"""On real digits under heavy label noise, each method does what it is for."""

import numpy as np
import pytest
import torch

from checked_plan import checked_plan
from noisy_digits import finished
from noisyfl.checks.small_run import federation_of
from noisyfl.core.places import ROOT
from noisyfl.experiments.config import load_config
from noisyfl.methods import METHODS
from noisyfl.methods.estimators.lid import lid
from noisyfl.simulation.losses import distance
from noisyfl.simulation.updates import Task
from noisyfl.specs.build import build_method


@pytest.fixture(scope="module")
def plan():
    config = load_config([ROOT / "config" / "config.yaml"])
    return checked_plan(config, "quick")


def run(spec, data, folder):
    """The federation after the run, and the test accuracies."""
    federation, *_ = finished(spec, data, folder)
    accuracies = [row["test_accuracy"] for row in federation.records.rounds]
    return federation, [value for value in accuracies if value == value]


@pytest.fixture(scope="module")
def trials(plan, data, tmp_path_factory):
    """FedAvg, FedCorr and the oracle at the quick scale with rho 0.6, three seeds each."""
    table, folder = plan.tables["fedcorr/table2"], tmp_path_factory.mktemp("trials")
    column = [c.name for c in table.columns].index("ρ=0.6 τ=0.5")
    rows = {row.name: number for number, row in enumerate(table.rows)}
    found = {
        name: [run(plan.runs[one], data, folder) for one in table.runs[rows[name]][column]]
        for name in ("FedAvg", "FedCorr")
    }
    oracle = METHODS.build("oracle", "test").canonical()
    found["oracle"] = [
        run({**plan.runs[one], "method": oracle}, data, folder) for one in table.runs[0][column]
    ]
    return found


@pytest.mark.slow
def test_fedcorr_beats_fedavg_by_more_than_the_spread_over_trials(trials):
    best = {name: np.array([max(a) for _, a in runs]) for name, runs in trials.items()}
    margin = best["FedCorr"].mean() - best["FedAvg"].mean()
    assert margin > max(best["FedCorr"].std(ddof=1), best["FedAvg"].std(ddof=1))
    assert (best["FedCorr"] > best["FedAvg"]).all()


@pytest.mark.slow
def test_the_oracle_ends_above_fedavg(trials):
    """FedAvg peaks early and then learns wrong labels by heart; the oracle has none to learn."""
    last = {name: np.array([a[-1] for _, a in runs]) for name, runs in trials.items()}
    assert (last["oracle"] > last["FedAvg"]).all()


@pytest.mark.slow
def test_fedcorr_finds_the_noisy_clients(trials):
    """By its score (clean, noisy) pairs are in order, and the estimates follow the levels.

    Over the trials: one's 20 estimates are too few to hold on every processor, as a clean client
    that is called noisy gets a level of about 0.4.
    """
    ordered = []
    for federation, _ in trials["FedCorr"]:
        score = np.array([float(c.state["cumulative_lid"]) for c in federation.clients])
        noisy = np.array([client.noise_level > 0 for client in federation.clients])
        ordered.append((score[noisy][:, None] > score[~noisy][None, :]).mean())
    assert np.mean(ordered) > 0.75, ordered
    clients = [client for federation, _ in trials["FedCorr"] for client in federation.clients]
    level = [client.noise_level for client in clients]
    estimated = [float(client.state["noise_level"]) for client in clients]
    assert np.corrcoef(level, estimated)[0, 1] > 0.6


@pytest.mark.slow
def test_what_fedcorr_calls_clean_is_cleaner_than_the_base_rate(trials):
    for federation, _ in trials["FedCorr"]:
        noted = [row for row in federation.records.rounds if row["label_precision"] is not None]
        noted = [row for row in noted if row["label_precision"] == row["label_precision"]]
        assert len(noted) == 3  # at the end of each iteration
        base = 1 - np.mean([client.noise_level for client in federation.clients])
        assert noted[-1]["label_precision"] > base + 0.3
        assert noted[-1]["label_recall"] > 0.8


@pytest.mark.slow
def test_fedcorr_corrects_more_labels_than_it_spoils(trials):
    for federation, _ in trials["FedCorr"]:
        accuracy = [row["label_accuracy"] for row in federation.records.rounds]
        assert accuracy[-1] > accuracy[0] + 0.3
        assert accuracy[-1] > 0.9


@pytest.mark.slow
def test_the_oracle_trains_on_clean_samples_alone(trials):
    for federation, _ in trials["oracle"]:
        side = METHODS.build("oracle", "test")
        for client in federation.clients:
            positions = side.positions(client)
            assert torch.equal(client.given[positions], client.true[positions])
            assert len(positions) == round(len(client) * (1 - client.noise_level))


@pytest.mark.parametrize("form", ["squared", "norm"])
@pytest.mark.slow
def test_fedprox_stays_nearer_to_the_received_model(form, plan, data, tmp_path):
    spec = plan.runs[plan.tables["fedcorr/table2"].runs[0][-1][0]]
    federation, *_ = federation_of(spec, data, tmp_path)

    def drift(method):
        _, side = build_method(method, "test")
        (update,) = federation.executor.local_updates(
            [Task(federation.clients[0], federation.weights)], side, 0, "training"
        )
        return float(distance(update.weights, federation.weights))

    weak = drift(f'fedprox(mu=0.1, prox_form="{form}")')
    strong = drift(f'fedprox(mu=1, prox_form="{form}")')
    assert strong < weak < drift("fedavg")
    assert drift(f'fedprox(mu=0, prox_form="{form}")') == pytest.approx(drift("fedavg"), rel=1e-5)


def test_lid_is_higher_where_predictions_fill_more_dimensions():
    """What the LID score measures, without a network: a line, and the whole simplex."""
    rng = np.random.default_rng(0)
    line = rng.uniform(size=(200, 1)) * np.array([[1.0, -1.0, 0, 0]]) * 0.4 + 0.25
    simplex = rng.dirichlet(np.ones(4), size=200)
    assert float(lid(torch.tensor(line)).mean()) < float(lid(torch.tensor(simplex)).mean()) - 1
