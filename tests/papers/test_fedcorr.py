"""FedCorr's experiments: settings as paper and code state them, and each of its numbers once."""

import itertools
import math

import pytest

from .plans import cells_of, plan_of, printed_at, runs_at, spec_at


@pytest.fixture(scope="module")
def plan():
    return plan_of("fedcorr")


# ---------------------------------------------------------------- published numbers


@pytest.mark.parametrize(
    ("table", "row", "column", "value"),
    [
        ("table2", "Centralized, DivideMix", "ρ=0.4 τ=0.5", "96.17"),
        ("table2", "DivideMix", "ρ=0.4 τ=0.5", "74.40"),
        ("table2", "FedCorr", "ρ=0.8 τ=0.5", "90.59"),
        ("table3", "Joint Optimization", "ρ=0.8 τ=0.5", "35.25"),
        ("table4", "RoFL", "p=0.3, α=10", "60.72"),
        ("table5", "Centralized, Joint Optimization", "Clothing1M", "72.23"),
        ("table5", "FedProx", "Clothing1M", "71.35"),
        ("table6", "FedCorr w/o mixup", "ρ=0.4 τ=0.0", "88.83"),
    ],
)
def test_numbers_read_off_the_papers_tables(plan, table, row, column, value):
    assert printed_at(plan, table, row, column) == value


# ---------------------------------------------------------------- settings

# Table 1 and Section 4.1. FedCorr's rounds are what its three stages' visits of clients amount to;
# those of the others are the author's for FedAvg in Table 2.
SETTINGS = {
    "table2": ("cifar10", 100, 0.1, "resnet18", 10, 0.03, 1000, 500, 5),
    "table3": ("cifar100", 50, 0.1, "resnet34", 10, 0.01, 1000, 500, 5),
    "table4": ("cifar10", 100, 0.1, "resnet18", 10, 0.03, 1000, 500, 5),
    "table5": ("clothing1m", 500, 0.02, "resnet50", 16, 0.001, 200, 200, 1),
    "table6": ("cifar10", 100, 0.1, "resnet18", 10, 0.03, 1000, 500, 5),
}


@pytest.mark.parametrize("name", SETTINGS)
def test_settings(plan, name):
    dataset, clients, participation, model, batch, rate, own, others, trials = SETTINGS[name]
    table = plan.tables[f"fedcorr/{name}"]
    assert (table.statistic, table.metric) == (
        "best",
        "test_accuracy",
    )
    for row, _, runs in cells_of(table):
        assert len(set(runs)) == trials
        spec = plan.runs[runs[0]]
        assert spec["noisy_partition"]["dataset"] == dataset
        assert spec["noisy_partition"]["partition"]["clients"] == clients
        assert spec["model"]["name"] == model
        assert spec["augmentation"] == "crop_flip"
        if row.group == "Centralized":
            assert spec["method"]["name"].startswith("centralized+")
            continue
        schedule = spec["schedule"]
        assert schedule["participation"] == participation
        assert (schedule["batch_size"], schedule["learning_rate"]) == (batch, rate)
        assert (schedule["momentum"], schedule["weight_decay"]) == (0.5, 0)
        assert schedule["decay_every"] is None
        assert schedule["local_epochs"] == 5
        if spec["method"]["name"] not in ("jointopt", "dividemix"):
            rounds = own if spec["method"]["name"] == "fedcorr" else others
            assert schedule["rounds"] == rounds


def test_pretrained_weights_and_normalization(plan):
    clothing = spec_at(plan, "table5", "FedCorr", "Clothing1M")
    assert clothing["model"]["pretrained"] == "imagenet"
    assert clothing["normalization"] == "imagenet"
    assert spec_at(plan, "table2", "FedCorr", "ρ=0.0 τ=0.0")["normalization"] == "imagenet"
    assert spec_at(plan, "table3", "FedCorr", "ρ=0.0 τ=0.0")["normalization"] == "dataset"


def test_noise_is_what_the_columns_say(plan):
    for table in ("table2", "table3", "table6"):
        for _, column, runs in cells_of(plan.tables[f"fedcorr/{table}"]):
            given = plan.runs[runs[0]]["noisy_partition"]
            words, _, classes = column.name.partition(", ")
            rho, tau = (float(part[2:]) for part in words.split())
            if rho == 0:
                assert given["label_noise"]["name"] == given["noise_level"]["name"] == "none"
                continue
            assert given["noise_level"] == {"name": "bernoulli_uniform", "rho": rho, "tau": tau}
            # Uniform over all classes, the true one included (Section 3.1).
            assert given["label_noise"]["name"] == "symmetric"
            assert given["label_noise"]["include_true"]
            # The code's wrong labels are of the first ten classes, on CIFAR-100 too.
            assert given["label_noise"]["noise_classes"] == (10 if classes else None)
            assert classes in (("", "ten classes") if table == "table3" else ("",))
            assert given["partition"]["name"] == "iid"


def test_partitions_that_are_not_iid(plan):
    for _, column, runs in cells_of(plan.tables["fedcorr/table4"]):
        given = plan.runs[runs[0]]["noisy_partition"]
        p, alpha = (float(part.partition("=")[2]) for part in column.name.split(", "))
        partition = given["partition"]
        assert (partition["name"], partition["p"]) == ("bernoulli_dirichlet", p)
        assert partition["alpha"] == alpha
        assert given["noise_level"] == {"name": "bernoulli_uniform", "rho": 0.6, "tau": 0.5}
    clothing = spec_at(plan, "table5", "FedCorr", "Clothing1M")["noisy_partition"]
    assert (clothing["partition"]["p"], clothing["partition"]["alpha"]) == (0.7, 10)
    assert clothing["label_noise"]["name"] == clothing["noise_level"]["name"] == "none"


# The official code's README: T1, T2, T3, participants of a round, pi, theta.
STAGES = {
    ("table2", "ρ=0.6 τ=0.5"): (5, 500, 450, 10, 0.5, 0.5),
    ("table3", "ρ=0.6 τ=0.5"): (10, 450, 450, 5, 0.5, 0.5),
    ("table4", "p=0.7, α=1"): (5, 500, 450, 10, 0.5, 0.5),
    ("table5", "Clothing1M"): (2, 50, 50, 10, 0.8, 0.9),
}


@pytest.mark.parametrize(("table", "column"), STAGES)
def test_fedcorrs_stages(plan, table, column):
    first, second, third, participants, ratio, confidence = STAGES[table, column]
    spec = spec_at(plan, table, "FedCorr", column)
    method = spec["method"]
    assert (method["preprocessing_iterations"], method["finetuning_rounds"]) == (first, second)
    assert (method["relabel_ratio"], method["confidence"]) == (ratio, confidence)
    assert (method["beta"], method["clean_threshold"], method["mixup_alpha"]) == (5, 0.1, 1)
    assert method["usual_rounds"] is None
    clients = spec["noisy_partition"]["partition"]["clients"]
    assert round(spec["schedule"]["participation"] * clients) == participants
    left = spec["schedule"]["rounds"] - math.ceil(first * clients / participants) - second
    assert left == third


# ---------------------------------------------------------------- methods


def test_joint_optimization_and_dividemix_have_longer_updates_and_the_others_work(plan):
    """20 rounds of FedAvg, 20 local epochs, and as many epochs as the others in all.

    The 16 epochs in which DivideMix's code ramps lambda_u up are a single round of these, and 16
    rounds where an epoch is a round.
    """
    for table, column in STAGES:
        others = spec_at(plan, table, "FedAvg", column)["schedule"]
        total = others["rounds"] * others["local_epochs"]
        jointopt = spec_at(plan, table, "Joint Optimization", column)
        method, schedule = jointopt["method"], jointopt["schedule"]
        assert (method["start_round"], method["local_epochs"]) == (20, 20)
        assert method["warm_up_loss"] == "cross_entropy"
        assert 20 * 5 + (schedule["rounds"] - 20) * 20 == total
        dividemix = spec_at(plan, table, "DivideMix", column)
        assert dividemix["schedule"] == schedule
        assert dividemix["method"]["warm_up_rounds"] == 20
        assert dividemix["method"]["local_epochs"] == 20
        assert dividemix["method"]["ramp_rounds"] == math.ceil(16 / 20)
    for table in ("table2", "table3"):
        alone = spec_at(plan, table, "Centralized, DivideMix", "ρ=0.6 τ=0.5")
        assert alone["schedule"]["local_epochs"] == 1
        assert alone["method"]["parts"][1]["ramp_rounds"] == 16


def test_fedprox_is_the_codes_own_and_the_textbooks_beside_it(plan):
    for table, column in STAGES:
        own = spec_at(plan, table, "FedProx", column)
        textbook = spec_at(plan, table, "FedProx, squared", column)
        assert (own["method"]["mu"], own["method"]["prox_form"]) == (1, "norm")
        assert (textbook["method"]["mu"], textbook["method"]["prox_form"]) == (0.1, "squared")
        assert {**own, "method": None} == {**textbook, "method": None}


@pytest.mark.parametrize(
    ("row", "epochs", "batch", "rate", "decay"),
    [
        ("Centralized, Joint Optimization", 200, 128, 0.1, None),
        ("Centralized, DivideMix", 300, 64, 0.02, 150),
    ],
)
def test_centralized_methods_are_trained_as_in_their_own_papers(
    plan, row, epochs, batch, rate, decay
):
    for table in ("table2", "table3"):
        spec = spec_at(plan, table, row, "ρ=0.6 τ=0.5")
        schedule = spec["schedule"]
        assert spec["method"]["parts"][0]["epochs"] == epochs
        assert spec["method"]["parts"][1]["local_epochs"] is None
        assert (schedule["local_epochs"], schedule["batch_size"]) == (1, batch)
        assert (schedule["learning_rate"], schedule["decay_every"]) == (rate, decay)
        assert schedule["momentum"] == 0.9


def test_the_ablations_are_the_full_method_but_for_one_part(plan):
    full = runs_at(plan, "table6", "FedCorr", "ρ=0.6 τ=0.5")
    assert full == runs_at(plan, "table2", "FedCorr", "ρ=0.6 τ=0.5")
    whole = plan.runs[full[0]]["method"]
    switched_off = []
    for row, column, runs in cells_of(plan.tables["fedcorr/table6"]):
        method = plan.runs[runs[0]]["method"]
        changed = {key: value for key, value in method.items() if value != whole[key]}
        drawn = changed.pop("preprocessing_sampling", "without_replacement")
        # The code draws with replacement, which shows where a round has several clients.
        assert (drawn == "with_replacement") == (row.name == "FedCorr w/o frac. scheduling")
        assert changed == dict.fromkeys(changed, False)
        if column.name == "ρ=0.6 τ=0.5" and row.name != "FedCorr":
            (part,) = changed
            switched_off.append(part)
    assert switched_off == [
        "correction",
        "fraction_scheduling",
        "fraction_scheduling",
        "local_proximal",
        "finetuning",
        "usual_training",
        "mixup",
    ]


def test_no_two_cells_of_a_table_share_runs(plan):
    for table in plan.tables.values():
        ids = [run for _, _, runs in cells_of(table) for run in runs]
        assert len(ids) == len(set(ids)), table.name


def test_all_rows_of_a_column_see_the_same_noisy_partitions(plan):
    for name in ("table2", "table3", "table4", "table6"):
        table = plan.tables[f"fedcorr/{name}"]
        for c in range(len(table.runs[0])):
            seen = {
                tuple(str(plan.runs[run]["noisy_partition"]) for run in line[c])
                for line in table.runs
            }
            assert len(seen) == 1


# ---------------------------------------------------------------- figures


def test_figure_2_and_3(plan):
    figure = plan.figures["fedcorr/figure2"]
    assert not figure.runs
    drawn = [plan.partitions[partition] for partition in figure.partitions]
    assert [(x["partition"]["p"], x["partition"]["alpha"]) for x in drawn] == [
        (0.7, 10),
        (0.7, 1),
        (0.3, 10),
    ]
    (run,) = plan.figures["fedcorr/figure3"].runs
    assert run == runs_at(plan, "table2", "FedCorr", "ρ=0.6 τ=0.5")[0]


def test_figure_4_has_each_method_alone_and_after_fedcorrs_first_stages(plan):
    table = plan.tables["fedcorr/figure4_runs"]
    assert [column.x for column in table.columns] == [0.0, 0.4, 0.6, 0.8] * 2
    assert all(len(set(runs)) == 5 for _, _, runs in cells_of(table))
    methods = {"FedDyn": "feddyn", "Median": "median", "Power-of-Choice": "poc"}
    for (dataset, clients, first, second), (label, name) in itertools.product(
        [("CIFAR-10", 100, 5, 500), ("CIFAR-100", 50, 10, 450)], methods.items()
    ):
        for rho in ("ρ=0.0", "ρ=0.4", "ρ=0.6", "ρ=0.8"):
            alone = spec_at(plan, "figure4_runs", label, f"{dataset}, {rho}")
            both = spec_at(plan, "figure4_runs", f"FedCorr + {label}", f"{dataset}, {rho}")
            assert alone["method"]["name"] == name
            assert both["method"]["name"] == f"fedcorr+{name}"
            fedcorr, other = both["method"]["parts"]
            assert other == alone["method"]
            # One rule for all three: mixup and momentum go on in the third stage.
            assert fedcorr["mixup_stages"] == "all"
            assert other.get("momentum", True)
            assert both["schedule"]["momentum"] == 0.5
            assert fedcorr["preprocessing_iterations"] == first
            assert fedcorr["finetuning_rounds"] == second
            assert both["noisy_partition"] == alone["noisy_partition"]
            assert both["schedule"] == {**alone["schedule"], "rounds": 1000}
            assert alone["schedule"]["rounds"] == 500
            given = both["noisy_partition"]
            assert given["dataset"] == dataset.lower().replace("-", "")
            assert given["partition"]["clients"] == clients
            level = given["noise_level"]
            assert level["name"] == "none" if rho == "ρ=0.0" else level["tau"] == 0.5
    assert set(plan.figures["fedcorr/figure4"].runs) == set(table.run_ids())
