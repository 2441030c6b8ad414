"""What a run's seconds are estimated from: layers, lengths and the speed of devices."""

import dataclasses
import json
import math

import pytest
import torch
from torch.utils.flop_counter import FlopCounterMode

from estimated_runs import SHAPES, estimate, likely_seconds, run
from noisyfl.models import MODELS, build_model
from noisyfl.specs.catalogue import methods
from noisyfl.specs.extent import extent_of, layers_of, remarks_of, work_of
from noisyfl.specs.speeds import DEVICES, LEAST, MOST


@pytest.mark.parametrize("model", MODELS.names())
@pytest.mark.slow
def test_layers_are_the_models(model):
    """Products and weights as torch counts them, but for biases and normalisation."""
    height, width, channels = SHAPES.get(model, (32, 32, 3))
    layers = layers_of(MODELS.build(model, "test").canonical(), (height, width, channels), 10)
    with torch.device("meta"):
        module = build_model(model, (height, width, channels), 10, 1).eval()
        with FlopCounterMode(display=False) as counter:
            module(torch.empty(1, channels, height, width))
    products = sum(map(math.prod, layers))
    assert counter.get_total_flops() == 2 * products
    matrices = sum(value.numel() for value in module.parameters() if value.ndim > 1)
    assert sum(inputs * outputs for _, inputs, outputs in layers) == matrices


def test_seconds_are_linear_in_what_a_run_does():
    def seconds(**schedule):
        return estimate(run({"evaluate_every": 10**6, **schedule}), "cpu").seconds

    start = 2 * seconds() - seconds(rounds=2000)
    whole = seconds() - start
    assert seconds(rounds=500) - start == pytest.approx(whole / 2, rel=1e-3)
    assert seconds(participation=0.2) - start == pytest.approx(whole * 2, rel=1e-3)
    assert seconds(local_epochs=1) - start == pytest.approx(whole / 5, rel=1e-3)
    assert whole * 0.5 < seconds(batch_size=50) - start < whole
    assert seconds(evaluate_every=1) > seconds()


@pytest.mark.parametrize(
    ("partition", "samples"),
    [
        ("iid(clients=100)", 500),
        ("iid(clients=100, samples=20000)", 200),
        ("iid_subset(clients=20, per_client=600)", 600),
        ("dirichlet(clients=20, alpha=0.5, per_client=300)", 300),
    ],
)
def test_a_run_trains_on_the_samples_of_its_partition(partition, samples):
    assert work_of(run(partition=partition)).samples == samples


def test_a_last_step_of_few_samples_is_a_step():
    """Of 500 samples a client has ten steps of 50, and eleven of 48."""
    slow = dataclasses.replace(DEVICES["H100"], step=1.0)

    def seconds(size):
        return likely_seconds(run({"batch_size": size, "evaluate_every": 10**6}), slow)

    assert seconds(48) / seconds(50) == pytest.approx(1.1, rel=1e-3)


def test_a_method_takes_its_effort_and_a_combination_that_of_both(monkeypatch):
    for name, effort in (("krum", 2.0), ("gce", 3.0)):
        declared = dataclasses.replace(methods()[name].cost, effort=effort)
        monkeypatch.setattr(methods()[name], "cost", declared)

    def seconds(method):
        spec = run({"evaluate_every": 10**6, "rounds": 10**5}, method=method)
        return likely_seconds(spec, DEVICES["H100"])

    usual = seconds("fedavg")
    assert seconds("krum") == pytest.approx(2 * usual, rel=1e-2)
    assert seconds("krum+gce") == pytest.approx(6 * usual, rel=1e-2)


@pytest.mark.parametrize(
    ("method", "every", "passes"),
    [
        ("distributed", 1, 10),
        ("distributed", 2, 20),  # all of them, whenever they have trained
        ("apfl", 1, (1 + 10) / 2),
        ("fedproto", 2, 1),
        ("fedproto(variant='faithful')", 2, 10 + 9),
    ],
)
def test_an_evaluation_asks_the_models_of_those_who_took_part_since(method, every, passes):
    """Ten of a hundred clients in each round; beside FedAvg, which trains as long or nearly so."""

    def testing(method):
        often, seldom = (
            estimate(run({"evaluate_every": n}, method=method), "cpu").seconds
            for n in (every, 10**6)
        )
        return often - seldom

    networks = methods()[method.partition("(")[0]].networks
    assert testing(method) == pytest.approx(passes * networks * testing("fedavg"))


@pytest.mark.parametrize("method", ["jointopt(start_round=20", "dividemix(warm_up_rounds=20"])
def test_seconds_count_the_local_epochs_that_a_method_has_after_its_warm_up(method):
    def seconds(method, **schedule):
        return estimate(run({"evaluate_every": 10**6, **schedule}, method=method), "cpu").seconds

    # 20 rounds of 5 epochs and 120 of 20 are as many as 500 of 5.
    longer = seconds(f"{method}, local_epochs=20)", rounds=140)
    assert longer == pytest.approx(seconds(f"{method})", rounds=500), rel=1e-3)


def test_a_runs_length_is_its_methods_own():
    def extent(method):
        return extent_of(run(method=method))

    assert (extent("fedavg").rounds, extent("fedavg").ordinary_rounds) == (1000, 1000)
    assert extent("fedavg").epochs == 1000 * 10 * 5
    # 5 x 100 visits of one client, 500 rounds, and what is left of 1000.
    assert (extent("fedcorr").rounds, extent("fedcorr").ordinary_rounds) == (1450, 1000)
    longer = extent("fedcorr(finetuning_rounds=100000)")
    assert longer.ordinary_rounds == pytest.approx(100_050, rel=1e-3)  # sampled
    assert extent("centralized(epochs=1000000000)").epochs == pytest.approx(1e11)
    assert extent("dividemix").epochs == extent("fedavg").epochs
    assert extent("fednoil").epochs != extent("fedavg").epochs
    ratio = (
        estimate(run(method="fedcorr(finetuning_rounds=100000)"), "cpu").seconds
        / estimate(run(method="fedcorr"), "cpu").seconds
    )
    assert ratio == pytest.approx(100, rel=0.01)


@pytest.mark.parametrize("method", methods())
def test_every_methods_length_is_known(method):
    given = run(method=method)
    assert extent_of(given).rounds > 0
    assert likely_seconds(given, DEVICES["H100"]) < likely_seconds(given, DEVICES["CPU core"])
    assert all(remark.startswith(method) for remark in remarks_of(given))


@pytest.mark.parametrize(
    ("method", "words"),
    [
        ("fedrn(warm_up_rounds=1000)", "the choice of clean samples"),
        ("rofl(pseudo_label_round=1001)", "the use of pseudo-labels"),
        ("fedcni(pseudo_label_round=1001)", "the use of pseudo-labels"),
        ("fedcni(aggregation_round=1001)", "the weight of clean samples"),
        ("jointopt(start_round=1000)", "the change of labels"),
        ("dividemix(warm_up_rounds=1000)", "the split of samples"),
        ("selfie(warm_up_rounds=1000)", "the choice of small losses"),
        ("fedcorr(finetuning_rounds=950)", "usual training"),
        ("fedcorr(finetuning_rounds=950)+feddyn", "usual training"),
    ],
)
def test_what_does_not_happen_is_said_in_words(method, words):
    (remark,) = remarks_of(run(method=method))
    rounds = extent_of(run(method=method)).rounds
    assert f"{words}" in remark
    assert f"round {rounds + 1:,}, but there are {rounds:,} rounds" in remark


def test_a_method_that_trains_longer_than_the_schedule_says_so():
    assert remarks_of(run(method="fedcorr")) == []
    assert remarks_of(run(method="centralized(epochs=5000)")) == [
        "centralized: its local updates amount to 10,000 rounds, and the schedule has 1,000"
    ]


@pytest.mark.parametrize(
    ("model", "batch", "precision", "measured"),
    [
        ("resnet18", 10, "float32", 6_300),
        ("resnet18", 10, "tf32", 10_700),
        ("resnet18", 50, "tf32", 22_500),
        ("cnn9", 50, "tf32", 18_700),
        ("cnn4conv", 50, "tf32", 160_000),
        ("cnn4conv", 50, "float32", 83_000),
    ],
)
def test_the_formula_gives_what_an_h200_was_measured_at(model, batch, precision, measured):
    """Samples a second of docs/speed.md, of rounds of 25,000 samples."""
    spec = run({"batch_size": batch, "precision": precision, "evaluate_every": 10**6}, model=model)
    estimated = 25_000 / (likely_seconds(spec, DEVICES["H200"]) / 1000)
    assert 1 / MOST < estimated / measured < 1 / LEAST


@pytest.mark.parametrize("device", DEVICES)
def test_a_cluster_is_asked_for_no_less_than_a_device_likely_takes(device):
    for spec in (run(), run({"batch_size": 50}, model="cnn4conv"), run({"precision": "tf32"})):
        kind = "cpu" if device == "CPU core" else "cuda"
        assert likely_seconds(spec, DEVICES[device]) <= estimate(spec, kind).seconds


def test_a_spec_read_from_a_file_will_do():
    spec = run()
    assert estimate(json.loads(json.dumps(spec)), "cpu") == estimate(spec, "cpu")
