"""The grand table: within a column all is alike but the method, and all do the same work."""

import itertools
import math

import numpy as np
import pytest

from .plans import plan_of

pytestmark = pytest.mark.slow

# Clients, participation, rounds, local epochs, batch size, learning rate, model: as the papers.
SETTINGS = {
    "FedCorr": (100, 0.1, 1000, 5, 10, 0.03, "resnet18"),
    "RoFL": (100, 0.1, 1000, 5, 50, 0.15, "cnn9"),
    "FedNoiL": (20, 0.3, 200, 30, 32, 0.05, "resnet18"),
    "FedCNI": (20, 1.0, 100, 5, 100, 0.01, "resnet18"),
    "FedRN": (100, 0.1, 500, 5, 50, 0.01, "cnn4conv"),
}


@pytest.fixture(scope="module")
def plan():
    return plan_of("grand")


@pytest.fixture(scope="module")
def columns(plan):
    """By group and label of a column, the specs of each row's first trial."""
    table = plan.tables["grand/methods"]
    return {
        (column.group, column.label): [plan.runs[line[c][0]] for line in table.runs]
        for c, column in enumerate(table.columns)
        if not column.average_rank
    }


def test_within_a_column_all_is_alike_but_the_method(columns):
    for (group, _), specs in columns.items():
        for key in ("noisy_partition", "model", "augmentation", "normalization", "schedule"):
            assert all(spec[key] == specs[0][key] for spec in specs), (group, key)
        schedule, given = specs[0]["schedule"], specs[0]["noisy_partition"]
        assert given["dataset"] == "cifar10"
        assert SETTINGS[group] == (
            given["partition"]["clients"],
            schedule["participation"],
            schedule["rounds"],
            schedule["local_epochs"],
            schedule["batch_size"],
            schedule["learning_rate"],
            specs[0]["model"]["name"],
        )


def methods_of(columns, name):
    """Group, schedule, clients and options of a method in each column."""
    for (group, _), specs in columns.items():
        for spec in specs:
            if spec["method"]["name"] == name:
                clients = spec["noisy_partition"]["partition"]["clients"]
                yield group, spec["schedule"], clients, spec["method"]


def test_fednoils_epochs_add_up_to_the_others(columns):
    """Eqs. 10 and 11, from T_max in the first round to T_min from round r_min on."""
    kinds = set()
    for group, schedule, _, method in methods_of(columns, "fednoil"):
        rounds = np.arange(1, schedule["rounds"] + 1)
        reached = np.minimum(rounds, method["least_from"])
        if method["epochs"] == "cosine":
            left = np.cos(np.pi / 2 * (reached - 1) / (method["least_from"] - 1))
        else:
            left = 1 - np.log(reached) / np.log(method["least_from"])
        low, high = method["least_epochs"], method["most_epochs"]
        total = (low + (high - low) * left).sum()
        assert total == pytest.approx(schedule["rounds"] * schedule["local_epochs"], rel=0.02)
        # 100 to 20 epochs where the others have 30, as in the paper.
        assert low / schedule["local_epochs"] == pytest.approx(20 / 30, abs=0.1)
        assert high / schedule["local_epochs"] == pytest.approx(100 / 30, abs=0.1)
        kinds.add((group, method["epochs"]))
    assert len(kinds) == 2 * len(SETTINGS)


def test_fedcorrs_stages_fit_into_the_rounds(columns):
    """As in its paper, a tenth at most of pre-processing, and about half of the rest finetuning."""
    for group, schedule, clients, method in methods_of(columns, "fedcorr"):
        participants = round(schedule["participation"] * clients)
        first = math.ceil(method["preprocessing_iterations"] * clients / participants)
        rest = schedule["rounds"] - first
        assert first <= schedule["rounds"] / 10
        usual = rest - method["finetuning_rounds"]
        if group == "FedCNI":
            assert (first, method["finetuning_rounds"], usual) == (10, 20, 70)  # its appendix
        else:
            assert 0.45 < method["finetuning_rounds"] / rest < 0.55


def test_feddivs_other_losses_differ_in_nothing_else_and_are_not_ranked(plan):
    table = plan.tables["grand/common"]
    lines = {row.name: (row, runs) for row, runs in zip(table.rows, table.runs, strict=True)}
    (_, own), (row, other) = lines["FedDiv"], lines["FedDiv, losses as in its code"]
    assert not row.ranked
    for one, two in zip(itertools.chain(*own), itertools.chain(*other), strict=True):
        expected = {**plan.runs[one]["method"], "filter_losses": "scaled_double_softmax"}
        assert plan.runs[two] == {**plan.runs[one], "method": expected}
