"""What a run is: its spec, checked and canonical."""

import pytest

from noisyfl.core.options import BadInput
from noisyfl.specs.spec import canonical_run, check_run

SETTING = {
    "dataset": "digits",
    "partition": {"name": "iid", "clients": 10},
    "label_noise": "symmetric",
    "noise_level": "constant(level=0.4)",
    "model": "cnn",
    "augmentation": "none",
    "normalization": "dataset",
    "seed": 1,
}
SCHEDULE = {
    "rounds": 60,
    "participation": 0.2,
    "local_epochs": 6,
    "batch_size": 10,
    "learning_rate": 0.1,
}


def method_of(method, **schedule):
    return canonical_run(
        {**SETTING, "method": method, "schedule": {**SCHEDULE, **schedule}}, "here"
    )["method"]


@pytest.mark.parametrize(
    ("method", "came_out"),
    [
        ("fedrn", {"warm_up_rounds": 12}),
        ("rofl", {"pseudo_label_round": 6}),
        ("selfie", {"warm_up_rounds": 12}),
        ("jointopt", {"start_round": 12}),
        ("fedcni", {"pseudo_label_round": 9, "aggregation_round": 9}),
        # 60 rounds with a fifth of the clients visit each client twelve times; FedCorr's own
        # 1000 rounds with a tenth, of which five visits are pre-processing, a hundred times.
        ("fedcorr", {"preprocessing_iterations": 1, "finetuning_rounds": 30}),
        ("fednoil", {"most_epochs": 20, "least_epochs": 4, "least_from": 24}),
        ("fedrn(warm_up_rounds=100)", {"warm_up_rounds": 100}),
    ],
)
def test_stages_are_the_papers_share_of_a_schedule_and_a_given_number_stays(method, came_out):
    canonical = method_of(method)
    assert {key: canonical[key] for key in came_out} == came_out


def test_stages_of_a_combination_go_by_the_schedule_too():
    client = method_of("krum+dividemix", participation=0.3)["parts"][1]
    assert client["warm_up_rounds"] == 12


def test_a_run_that_is_made_canonical_again_stays_as_it_is():
    method = method_of("fedcorr")
    again = {key: value for key, value in method.items() if key != "revision"}
    assert method_of(again) == method


def test_a_noise_level_is_left_out_where_no_label_noise_needs_one():
    given = {**SETTING, "method": "fedavg", "schedule": SCHEDULE}
    level = given.pop("noise_level")
    with pytest.raises(BadInput, match="noise_level: Field required, as symmetric noise uses it"):
        canonical_run(given, "here")
    given["label_noise"] = "none"
    assert canonical_run(given, "here") == canonical_run({**given, "noise_level": level}, "here")


@pytest.mark.parametrize("value", [float("nan"), float("-inf"), {1}])
def test_a_spec_that_json_cannot_have_is_none(value):
    spec = canonical_run({**SETTING, "method": "fedavg", "schedule": SCHEDULE}, "here")
    check_run(spec, "my.json")
    with pytest.raises(BadInput, match=r"^my\.json: not a run's spec \("):
        check_run({**spec, "surplus": value}, "my.json")


def test_a_network_that_needs_two_images_takes_no_batches_of_one():
    one = {**SETTING, "method": "fedavg", "schedule": {**SCHEDULE, "batch_size": 1}}
    with pytest.raises(
        BadInput,
        match=r"schedule\.batch_size: got 1, and resnet18 cannot .* one image of 8x8",
    ):
        canonical_run({**one, "model": "resnet18"}, "here")
    assert canonical_run(one, "here")["schedule"]["batch_size"] == 1
