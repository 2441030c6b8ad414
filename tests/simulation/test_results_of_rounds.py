"""Whole runs on a small real federation: what their rounds do and write down."""

import json
import math

import pyarrow as pa
import pytest
import torch

from noisyfl.checks.small_run import rounds_of
from noisyfl.core.artifacts import read_table
from noisyfl.simulation.checkpoint import Checkpoint
from noisyfl.simulation.optimizer import Optimizer
from noisyfl.simulation.records import ROUND_COLUMNS
from noisyfl.simulation.rounds import simulate
from small_runs import (
    FEDCORR,
    SETTING,
    federation_of,
    spec_of,
    train_small,
)


def test_divergence_is_a_result(data, tmp_path):
    spec = spec_of("fedavg", schedule={**SETTING["schedule"], "learning_rate": 1e12})
    files = train_small(spec, data, tmp_path)
    assert json.loads(files.provenance.read_text())["status"] == "diverged"
    rounds = read_table(files.rounds)[0].to_pylist()
    assert 1 <= len(rounds) < 8
    assert rounds[-1]["test_accuracy"] is not None


@pytest.mark.parametrize("server", ["fedavg", "krum"])
def test_a_round_that_trains_on_nothing_leaves_the_model_as_it_was(server, data, tmp_path):
    spec = spec_of(f"{server}+oracle", noise_level="constant(level=1.0)")
    before, *_ = federation_of(spec, data, tmp_path)
    after = rounds_of(spec, data, tmp_path, "fast")
    assert not any(row["samples_backward"] for row in after.records.rounds)
    assert all(torch.equal(value, before.weights[k]) for k, value in after.weights.items())


@pytest.mark.slow
def test_methods_in_one_setting_see_the_same_clients(data, tmp_path):
    levels = [
        read_table(train_small(spec_of(method), data, tmp_path / method).rounds)[0][
            "participants_noise_level"
        ].to_pylist()
        for method in ("fedavg", "fedprox", "oracle")
    ]
    assert levels[0] == levels[1] == levels[2]
    assert len(set(levels[0])) > 1


@pytest.mark.slow
def test_mixup_changes_no_participant(data, tmp_path):
    """Nor does any other switch of FedCorr that leaves the stages as long as they are."""
    levels = []
    for number, switch in enumerate(("mixup", "correction", "local_proximal")):
        method = {
            "name": "fedcorr",
            "preprocessing_iterations": 1,
            "finetuning_rounds": 0,
            switch: False,
        }
        files = train_small(spec_of(method), data, tmp_path / str(number))
        levels.append(read_table(files.rounds)[0]["participants_noise_level"].to_pylist())
    assert levels[0] == levels[1] == levels[2]


def test_what_a_round_counts(data, tmp_path):
    files = train_small(spec_of("fedavg", partition="iid(clients=6)"), data, tmp_path)
    table, _ = read_table(files.rounds)
    assert table.schema.remove_metadata() == pa.schema(list(ROUND_COLUMNS.items()))
    rounds = table.to_pylist()
    samples = 1437 // 6
    weights = (16 * 9 + 16) + (32 * 16 * 9 + 32) + (64 * 128 + 64) + (10 * 64 + 10)
    for number, row in enumerate(rounds, start=1):
        assert row["round"] == number
        assert row["ordinary_rounds"] == number
        assert row["participants"] == 3
        # 239 samples in batches of 20: the last has 19, so none is left out.
        assert row["samples_backward"] == row["samples_forward"] == 3 * samples
        assert row["bytes_down"] == row["bytes_up"] == 3 * 4 * weights
        assert row["label_precision"] is None


@pytest.mark.slow
def test_evaluate_every_counts_ordinary_rounds(data, tmp_path):
    schedule = {**SETTING["schedule"], "evaluate_every": 3}
    accuracy = read_table(
        train_small(spec_of("fedavg", schedule=schedule), data, tmp_path / "a").rounds
    )[0]["test_accuracy"].to_pylist()
    assert [x is not None for x in accuracy] == [False, False, True] * 2 + [False, True]
    # FedCorr's 12 one-client rounds are worth 4 ordinary ones: evaluated as often, not 12 times.
    files = train_small(spec_of(FEDCORR), data, tmp_path / "b")
    rounds = read_table(files.rounds)[0].to_pylist()
    assert rounds[-1]["ordinary_rounds"] == 8
    evaluated = [row["round"] for row in rounds if row["test_accuracy"] is not None]
    assert evaluated == [3, 6, 9, 12, 13, 14, 15, 16]
    assert [row["stage"] for row in rounds[11:]] == (
        ["preprocessing"] + ["finetuning"] * 2 + ["usual training"] * 2
    )


@pytest.mark.parametrize("method", [FEDCORR, "distributed", "centralized"])
def test_a_cosine_is_over_all_of_a_methods_updates(method, data, tmp_path, monkeypatch):
    """Whether a round has one client, as in FedCorr's pre-processing, or all."""
    rates = []
    step = Optimizer.step

    def noted(self, loss, learns=""):
        rates.append(self.schedule.learning_rate)
        step(self, loss, learns)

    monkeypatch.setattr(Optimizer, "step", noted)
    spec = spec_of(method, schedule={**SETTING["schedule"], "decay": "cosine"})
    rounds = rounds_of(spec, data, tmp_path, "loop").records.rounds
    done = [0.0, *(row["ordinary_rounds"] for row in rounds)]
    expected = [0.05 * (1 + math.cos(math.pi * one / done[-1])) / 2 for one in done[:-1]]
    assert sorted(set(rates), reverse=True) == pytest.approx(expected)
    assert len(expected) == len(rounds) > 1


@pytest.mark.parametrize(
    ("method", "decays"), [(FEDCORR, [7, 13]), ("distributed", [3]), ("centralized", [3])]
)
def test_a_step_of_the_decay_counts_rounds_and_parts_of_them(
    method, decays, data, tmp_path, monkeypatch
):
    """FedCorr's 12 rounds of one client are 4 of the ordinary three; others' have all clients."""
    rates = {}
    step = Optimizer.step

    def noted(self, loss, learns=""):
        rates[self.schedule.learning_rate] = federation.round + 1
        step(self, loss, learns)

    spec = spec_of(method, schedule={**SETTING["schedule"], "decay_every": 2})
    federation, *sides = federation_of(spec, data, tmp_path, "loop")
    monkeypatch.setattr(Optimizer, "step", noted)
    simulate(federation, *sides, Checkpoint(tmp_path / "run.pt", {}, math.inf), str)
    last = list(rates.values())
    assert list(rates) == pytest.approx([0.05 / 10**n for n in range(len(rates))])
    assert [one + 1 for one in last[: len(decays)]] == decays


def test_fedcorr_writes_down_what_it_estimates(data, tmp_path):
    files = train_small(spec_of(FEDCORR), data, tmp_path)
    clients = read_table(files.clients)[0]
    assert set(clients.column_names) == {
        "round",
        "client",
        "label_precision",
        "label_recall",
        "noise_detection_precision",
        "noise_detection_recall",
        "open_set_recall",
        "lid",
        "cumulative_lid",
        "called_noisy",
        "estimated_noise_level",
        "label_accuracy",
        "pseudo_label_accuracy",
    }
    # Of the correction after the finetuning nothing but the new labels is written down.
    rows = [row for row in clients.to_pylist() if row["lid"] is not None]
    assert [(row["round"], row["client"]) for row in rows] == [
        (round, client) for round in (6, 12) for client in range(6)
    ]
    for before, after in zip(rows[:6], rows[6:], strict=True):
        assert after["cumulative_lid"] == pytest.approx(before["lid"] + after["lid"])
    rounds = read_table(files.rounds)[0].to_pylist()
    noted = [row["round"] for row in rounds if row["label_precision"] is not None]
    assert noted == [6, 12]
