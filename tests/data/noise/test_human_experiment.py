"""config/papers/human.yaml: what it trains, and that it can be planned without the labels."""

import pytest

from noisyfl.experiments.config import EXPERIMENTS, check_config
from noisyfl.experiments.planning import make_plan


@pytest.fixture(scope="module")
def plan(tmp_path_factory):
    folder = tmp_path_factory.mktemp("no labels here")
    config = {"scale": "paper", "experiments": ["human"], "data": {"folder": str(folder)}}
    return make_plan(check_config(config, "test"), EXPERIMENTS, "test")


def test_every_method_meets_every_set_of_human_labels(plan):
    table = plan.tables["human/methods"]
    assert [len(row) for row in table.runs] == [6] * 8
    assert len(table.run_ids()) == 8 * 6 * 3
    noise = [
        [plan.runs[cell[0]]["noisy_partition"]["label_noise"]["key"] for cell in row]
        for row in table.runs
    ]
    sets = ["aggre_label", *(f"random_label{i}" for i in (1, 2, 3)), "worse_label", "noisy_label"]
    assert noise == [sets] * 8
    methods = [plan.runs[row[0][0]]["method"]["name"] for row in table.runs]
    assert methods == [
        "fedavg",
        "rofl",
        "fedcni",
        "fedcni",
        "fednoil",
        "fedcorr",
        "fedrn",
        "oracle",
    ]


def test_settings_are_fedcorrs(plan):
    table = plan.tables["human/methods"]
    for column in range(6):
        spec = plan.runs[table.runs[5][column][1]]
        fine = column == 5
        partition = spec["noisy_partition"]
        assert partition["dataset"] == ("cifar100" if fine else "cifar10")
        assert partition["partition"]["clients"] == (50 if fine else 100)
        assert spec["model"]["name"] == ("resnet34" if fine else "resnet18")
        assert spec["schedule"]["learning_rate"] == (0.01 if fine else 0.03)
        assert spec["schedule"]["rounds"] == 1000
        assert spec["schedule"]["batch_size"] == 10
        assert spec["method"]["finetuning_rounds"] == (450 if fine else 500)
        assert spec["seed"] == 2


def test_all_trials_of_a_column_have_the_same_labels(plan):
    table = plan.tables["human/methods"]
    for column in range(6):
        noises = {
            tuple(plan.runs[run]["noisy_partition"]["label_noise"].items())
            for row in table.runs
            for run in row[column]
        }
        assert len(noises) == 1
        assert len(dict(noises.pop())["sha256"]) == 64
