"""FNBench's and FedNoisy's protocols: settings, noises and options as their codes have them."""

import itertools

import numpy as np
import pytest
import yaml

from noisyfl.core.places import ROOT
from noisyfl.data.noise.noise_level import NOISE_LEVELS

from .plans import cells_of, plan_of, spec_at

FNBENCH = (
    *("fedavg", "fedprox", "trimmed_mean", "krum", "median", "rfa", "coteaching"),
    *("coteaching_plus", "sce", "selfie", "jointopt", "dividemix", "rofl", "fedlsr", "fednoro"),
    *("fedrn", "fedelc", "fedelr", "masked_optim"),
)
FEDNOISY = ("fedavg", "mixup", "sce", "gce", "mae", "coteaching", "fednoro")
TABLES = {
    "fnbench/cifar10": (FNBENCH, 12, 3),
    "fnbench/cifar100": (FNBENCH, 12, 3),
    "fnbench/human": (FNBENCH, 6, 3),
    "fnbench/clothing1m": (FNBENCH, 1, 1),
    "fednoisy/mnist": (FEDNOISY, 20, 1),
    "fednoisy/cifar10": (FEDNOISY, 20, 1),
    "fednoisy/svhn": (FEDNOISY, 20, 1),
    "fednoisy/clothing1m": (FEDNOISY, 4, 1),
}
# Clients, participation, rounds, local epochs, batch size, momentum, model.
SCHEDULES = {
    "fnbench/cifar10": (100, 0.1, 120, 5, 64, 0.9, "resnet18"),
    "fnbench/cifar100": (100, 0.1, 120, 5, 64, 0.9, "resnet34"),
    "fnbench/clothing1m": (100, 0.05, 40, 5, 64, 0.0, "resnet50"),
    "fednoisy/mnist": (10, 1.0, 500, 5, 128, 0.9, "cnn"),
    "fednoisy/cifar10": (10, 1.0, 500, 5, 128, 0.9, "cnn9"),
    "fednoisy/svhn": (10, 1.0, 500, 5, 128, 0.9, "cnn9"),
    "fednoisy/clothing1m": (10, 1.0, 150, 5, 32, 0.9, "resnet50"),
}


def table_of(name):
    return plan_of(name.partition("/")[0]).tables[name]


def specs_of(name):
    """Row, column and the spec of the first trial of each cell."""
    runs = plan_of(name.partition("/")[0]).runs
    for row, column, ids in cells_of(table_of(name)):
        yield row, column, runs[ids[0]]


@pytest.mark.parametrize("name", TABLES)
def test_every_method_meets_every_setting(name):
    methods, columns, trials = TABLES[name]
    bound = () if name.endswith("clothing1m") else ("oracle",)
    table = table_of(name)
    assert table.statistic == "mean_last_10"
    assert len(table.columns) == columns
    assert len(table.run_ids()) == len((*methods, *bound)) * columns * trials
    found = dict.fromkeys(spec["method"]["name"] for _, _, spec in specs_of(name))
    assert tuple(found) == (*methods, *bound)


@pytest.mark.parametrize("name", SCHEDULES)
def test_within_a_table_the_schedule_is_the_codes(name):
    found = set()
    for _, _, spec in specs_of(name):
        schedule, partition = spec["schedule"], spec["noisy_partition"]["partition"]
        assert (schedule["learning_rate"], schedule["weight_decay"]) == (0.01, 0.0005)
        keys = ("participation", "rounds", "local_epochs", "batch_size", "momentum")
        values = [schedule[key] for key in keys]
        found.add((partition["clients"], *values, spec["model"]["name"]))
    assert found == {SCHEDULES[name]}


def noise_of(spec):
    noise = spec["noisy_partition"]["label_noise"]
    return noise["name"], noise.get("kind"), noise.get("direction"), noise.get("count")


def test_fnbenchs_noises_are_three_in_every_partition():
    for name in ("fnbench/cifar10", "fnbench/cifar100"):
        found = {
            (spec["noisy_partition"]["partition"]["name"], *noise_of(spec))
            for _, _, spec in specs_of(name)
        }
        noises = [
            ("symmetric", None, None, "floor"),
            ("pair", None, -1, "floor"),
            ("mixed", None, -1, "floor"),
        ]
        partitions = ("iid", "dirichlet", "shard")
        assert found == {(p, *noise) for p, noise in itertools.product(partitions, noises)}


@pytest.mark.parametrize(("noise", "groups"), [("symmetric", [100]), ("mixed", [50, 50])])
def test_fnbenchs_levels_are_those_of_its_code(noise, groups):
    """A group's client i of n has i (0.4 - 0.0) / n."""
    spec = spec_at(plan_of("fnbench"), "cifar10", "FedAvg", f"IID, {noise} 0.0–0.4")
    level = NOISE_LEVELS.build(spec["noisy_partition"]["noise_level"])
    expected = np.concatenate([np.arange(n) * 0.4 / n for n in groups])
    np.testing.assert_allclose(level.draw(100, np.random.default_rng(0)), expected)


def test_fnbenchs_stages_are_a_fifth_of_its_rounds():
    """Its code: ``warmup_epochs = int(0.2 * epochs)``."""
    ends = {
        "coteaching": "ramp_rounds",
        "coteaching_plus": "ramp_rounds",
        "selfie": "warm_up_rounds",
        "jointopt": "start_round",
        "fedrn": "warm_up_rounds",
    }
    # FedLSR's ramp is not given: its default is the same share.
    of_images, of_clothing = {"fedlsr": 24}, {"fedlsr": 8}
    for name, found in (("cifar10", of_images), ("clothing1m", of_clothing)):
        for _, _, spec in specs_of(f"fnbench/{name}"):
            method = spec["method"]
            if method["name"] in ends:
                found[method["name"]] = method[ends[method["name"]]]
            if method["name"] == "fedlsr":
                assert method["ramp_rounds"] == found["fedlsr"]
    assert set(of_images.values()) == {24}
    assert set(of_clothing.values()) == {8}
    elc = spec_at(plan_of("fnbench"), "cifar10", "FedELC", "IID, symmetric 0.0–0.4")["method"]
    assert (elc["warm_up_rounds"], elc["label_scale"], elc["label_rate"]) == (20, 10, 1000)
    assert (elc["given_weight"], elc["entropy_weight"]) == (0.5, 0.2)


def test_fnbenchs_human_labels_are_the_worst_and_the_fine_ones():
    found = {
        (spec["noisy_partition"]["dataset"], spec["noisy_partition"]["label_noise"]["key"])
        for _, _, spec in specs_of("fnbench/human")
    }
    assert found == {("cifar10", "worse_label"), ("cifar100", "noisy_label")}


@pytest.mark.parametrize("name", ["mnist", "cifar10", "svhn"])
def test_fednoisys_twenty_settings(name):
    found = {}
    for _, column, spec in specs_of(f"fednoisy/{name}"):
        part = spec["noisy_partition"]
        level = tuple(part["noise_level"].values())
        found[column.name] = (part["partition"]["name"], noise_of(spec), level)
    partitions = ("iid", "dirichlet", "label_quantity", "quantity_skew")
    noises = [
        (("none", None, None, None), ("none",)),
        (("symmetric", None, None, "floor"), ("constant", 0.4, "dataset")),
        (("local", "symmetric", None, "floor"), ("uniform", 0.3, 0.5)),
        (("pair", None, 1, "floor"), ("constant", 0.4, "dataset")),
        (("local", "pair", None, "floor"), ("uniform", 0.3, 0.5)),
    ]
    expected = [(p, *noise) for p, noise in itertools.product(partitions, noises)]
    assert list(found.values()) == expected


def test_fednoisys_options_are_the_codes():
    plan = plan_of("fednoisy")
    column = "IID, symmetric 0.4"
    methods = {row: spec_at(plan, "mnist", row, column)["method"] for row in ("SCE", "FedNoRo")}
    assert (methods["SCE"]["alpha"], methods["SCE"]["beta"]) == (0.01, 1.0)
    assert spec_at(plan, "svhn", "SCE", column)["method"]["alpha"] == 0.1
    noro = methods["FedNoRo"]
    assert (noro["warm_up_rounds"], noro["distillation"]) == (50, 0.8)
    assert noro["ramp_end"] == pytest.approx(250, abs=5)
    teaching = spec_at(plan, "mnist", "Co-teaching", column)["method"]
    assert (teaching["forget_rate"], teaching["ramp_rounds"]) == (None, 25)
    assert spec_at(plan, "clothing1m", "Co-teaching", "IID")["method"]["forget_rate"] == 0.39


@pytest.mark.parametrize("name", ["fnbench", "fednoisy"])
def test_desk_has_one_column_of_each_at_a_size_for_one_computer(name):
    desk = yaml.safe_load((ROOT / "config" / "desk.yaml").read_text())
    (table,) = (target for target in desk["targets"] if target.startswith(f"{name}/"))
    (column,) = desk["overlay"]["columns"][table]
    assert column in [column.name for column in table_of(table).columns]


@pytest.mark.parametrize("name", ["fnbench", "fednoisy"])
def test_what_is_missing_is_named_on_the_page_and_under_each_table(name):
    page = (ROOT / "docs" / "papers" / f"{name}.md").read_text(encoding="utf-8")
    missing = {"fnbench": ("FedExP",), "fednoisy": ("dynamic bootstrapping",)}[name]
    assert "published numbers are missing" in page
    for table in plan_of(name).tables.values():
        assert table.published is None
        for word in missing:
            assert word in page
            assert word in table.note
