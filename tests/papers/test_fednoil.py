"""FedNoiL's experiments: settings as the paper states them, and each of its numbers once."""

import math

import numpy as np
import pytest

from noisyfl.methods import METHODS
from noisyfl.simulation.schedule import Schedule

from .plans import cells_of, plan_of, printed_at, runs_at, spec_at

NOISES = {  # Section 5.1
    "symmetric high (0.5 to 0.8)": ("symmetric", [0.5, 0.6, 0.7, 0.8]),
    "symmetric low (0.3 to 0.6)": ("symmetric", [0.3, 0.4, 0.5, 0.6]),
    "pair high (0.3 to 0.8)": ("pair", [0.3, 0.5, 0.6, 0.8]),
    "pair low (0.3 to 0.6)": ("pair", [0.3, 0.4, 0.5, 0.6]),
}
DATASETS = {  # samples of a client, rounds, model
    "Fashion-MNIST": ("fashion_mnist", 600, 150, "cnn2conv"),
    "CIFAR-10": ("cifar10", 500, 200, "resnet18"),
    "CIFAR-100": ("cifar100", 1000, 200, "resnet18"),
}


@pytest.fixture(scope="module")
def plan():
    return plan_of("fednoil")


# ---------------------------------------------------------------- published numbers


def test_published_spot_checks(plan):
    """Cells read off the paper's tables by eye."""
    for table, row, column, value in [
        ("table1", "DivideMix (centralized)", "CIFAR-100, non-IID, pair low (0.3 to 0.6)", "47.55"),
        ("table1", "Krum + DivideMix", "CIFAR-10, non-IID, pair high (0.3 to 0.8)", "19.39"),
        ("table1", "FedNoiL(Cosine)", "Fashion-MNIST, IID, symmetric high (0.5 to 0.8)", "83.72"),
        ("table2", "APFL + Jo-SRC", "unequal sizes, symmetric high (0.5 to 0.8)", "30.62"),
        ("table2", "FedNoiL(Logarithm)", "100 clients, pair low (0.3 to 0.6)", "86.33"),
        (
            "table3",
            "CIFAR-100, uniform local-data sampling",
            "pair high (0.3 to 0.8), label precision",
            "42.55",
        ),
        ("table4", "label recall, FedNoiL†", "symmetric low (0.3 to 0.6)", "82.78"),
        ("intext_no_label_noise", "FedNoiL(Logarithm)", "no label noise", "86.12"),
    ]:
        assert printed_at(plan, table, row, column) == value


# ---------------------------------------------------------------- settings


@pytest.mark.parametrize("noise", NOISES)
@pytest.mark.parametrize("partition", ["IID", "non-IID"])
@pytest.mark.parametrize("dataset", DATASETS)
def test_table_1_has_the_papers_settings(plan, dataset, partition, noise):
    name, per_client, rounds, model = DATASETS[dataset]
    spec = spec_at(plan, "table1", "FedAvg", f"{dataset}, {partition}, {noise}")
    data = spec["noisy_partition"]
    assert data["dataset"] == name
    assert data["partition"]["name"] == ("iid_subset" if partition == "IID" else "dirichlet")
    assert data["partition"]["clients"] == 20
    assert data["partition"]["per_client"] == per_client
    assert (data["label_noise"]["name"], data["noise_level"]["levels"]) == NOISES[noise]
    assert spec["model"]["name"] == model
    schedule = spec["schedule"]
    assert (schedule["rounds"], schedule["local_epochs"], schedule["batch_size"]) == (
        rounds,
        30,
        32,
    )
    assert (schedule["learning_rate"], schedule["momentum"]) == (0.05, 0.5)
    assert (schedule["weight_decay"], schedule["decay_every"]) == (0.0001, None)
    assert Schedule(**schedule).participants(20) == 6


def test_every_run_has_the_papers_optimizer_and_counts_every_round(plan):
    for spec in plan.runs.values():
        schedule = spec["schedule"]
        assert (schedule["learning_rate"], schedule["momentum"]) == (0.05, 0.5)
        assert (schedule["weight_decay"], schedule["batch_size"]) == (0.0001, 32)
        assert (schedule["participation"], schedule["evaluate_every"]) == (0.3, 1)


def test_trials(plan):
    """Table 1 has five; Table 2, the text and the figures print no spread."""
    trials = {
        name: {len(runs) for _, _, runs in cells_of(table)} for name, table in plan.tables.items()
    }
    assert trials == {
        "fednoil/table1": {5},
        "fednoil/room": {5},
        "fednoil/pair_maps": {5},
        "fednoil/table2": {1},
        "fednoil/intext_no_label_noise": {1},
        "fednoil/table3": {5},
        "fednoil/table4": {5},
        "fednoil/figure2_runs": {1},
    }


def test_fednoil_is_the_papers(plan):
    column = "CIFAR-10, IID, symmetric high (0.5 to 0.8)"
    for row, epochs in (("FedNoiL(Cosine)", "cosine"), ("FedNoiL(Logarithm)", "logarithm")):
        method = spec_at(plan, "table1", row, column)["method"]
        assert (method["epochs"], method["least_from"], method["evenly"]) == (epochs, 80, False)
        assert (method["most_epochs"], method["least_epochs"]) == (100, 20)
        assert method["temperature"] == 0.5
        assert method["clean_share"] is None  # 0.35 or 0.55, by the noise
        switches = ("client_sampling", "data_sampling", "semi_supervised")
        assert [method[switch] for switch in switches] == [True, True, True]


def test_centralized_rows_train_for_the_epochs_of_their_own_papers(plan):
    """In rounds of one epoch, so that warm-ups and the convergence rule count epochs."""
    for row, epochs, warm_up in (("DivideMix", 300, 10), ("Jo-SRC", 200, 0.05 * 200)):
        column = "CIFAR-100, non-IID, pair low (0.3 to 0.6)"
        spec = spec_at(plan, "table1", f"{row} (centralized)", column)
        server, client = spec["method"]["parts"]
        assert (server["name"], server["epochs"]) == ("centralized", epochs)
        assert spec["schedule"]["local_epochs"] == 1
        given = client.get("warm_up_rounds", client.get("warm_up", 0) * epochs)
        assert given == pytest.approx(warm_up)


def test_federated_dividemix_warms_up_for_its_ten_epochs_rounded_up_to_whole_rounds(plan):
    spec = spec_at(plan, "table1", "CFL + DivideMix", "CIFAR-10, IID, pair low (0.3 to 0.6)")
    server, client = spec["method"]["parts"]
    assert (server["name"], client["name"]) == ("cfl", "dividemix")
    assert client["warm_up_rounds"] == math.ceil(10 / spec["schedule"]["local_epochs"])


def test_table_2_has_100_clients_or_unequal_ones(plan):
    noise = "pair low (0.3 to 0.6)"
    many = spec_at(plan, "table2", "Krum + Jo-SRC", f"100 clients, {noise}")
    partition = many["noisy_partition"]["partition"]
    assert (partition["clients"], partition["per_client"]) == (100, 500)
    assert Schedule(**many["schedule"]).participants(100) == 30
    unequal = spec_at(plan, "table2", "Krum + Jo-SRC", f"unequal sizes, {noise}")
    assert unequal["noisy_partition"]["partition"] == {
        "name": "quantity_dirichlet",
        "clients": 20,
        "samples": None,
        "beta": 20.0,
        "per_client": 500,
    }
    for spec in (many, unequal):
        assert spec["noisy_partition"]["dataset"] == "cifar10"
        assert (spec["schedule"]["rounds"], spec["schedule"]["local_epochs"]) == (200, 30)


def test_without_label_noise_no_label_is_wrong(plan):
    for row, name in (("FedAvg", "fedavg"), ("FedNoiL(Logarithm)", "fednoil")):
        spec = spec_at(plan, "intext_no_label_noise", row, "no label noise")
        assert spec["method"]["name"] == name
        assert spec["noisy_partition"]["label_noise"]["name"] == "none"
        assert spec["noisy_partition"]["partition"]["per_client"] == 500


@pytest.mark.parametrize("dataset", DATASETS)
def test_table_3_and_4_switch_off_what_they_say(plan, dataset):
    noise = "pair high (0.3 to 0.8)"
    original = spec_at(plan, "table3", f"{dataset}, original", f"{noise}, noise ratio")["method"]
    for row, option in (
        ("uniform client sampling", "client_sampling"),
        ("uniform local-data sampling", "data_sampling"),
    ):
        spec = spec_at(plan, "table3", f"{dataset}, {row}", f"{noise}, noise ratio")
        assert spec["noisy_partition"]["dataset"] == DATASETS[dataset][0]
        assert spec["method"] == {**original, option: False}
    assert original["epochs"] == "logarithm"
    without = spec_at(plan, "table4", "label recall, FedNoiL†", noise)["method"]
    assert without == {**original, "semi_supervised": False}


# ---------------------------------------------------------------- runs


def test_cells_that_should_differ_have_no_run_in_common(plan):
    """Of one table, all but the metrics of one setting and method."""
    count = {
        "table1": 14 * 24,
        "table2": 11 * 8,
        "intext_no_label_noise": 2,
        "table3": 9 * 2,
        "table4": 2 * 4,
        "figure2_runs": 16,
    }
    for name, different in count.items():
        table = plan.tables[f"fednoil/{name}"]
        cells = {runs for _, _, runs in cells_of(table)}
        assert len(cells) == different
        assert sum(map(len, cells)) == len(table.run_ids())


def test_what_tables_share_is_trained_once(plan):
    noise = "symmetric high (0.5 to 0.8)"
    for dataset in DATASETS:
        shared = runs_at(plan, "table1", "FedNoiL(Logarithm)", f"{dataset}, IID, {noise}")
        row = f"{dataset}, original"
        assert runs_at(plan, "table3", row, f"{noise}, label recall") == shared
    for noise in NOISES:
        shared = runs_at(plan, "table1", "FedNoiL(Logarithm)", f"CIFAR-10, IID, {noise}")
        assert runs_at(plan, "table4", "test accuracy, FedNoiL", noise) == shared
    column = "CIFAR-10, IID, symmetric high (0.5 to 0.8)"
    for kind in ("Cosine", "Logarithm"):
        first = runs_at(plan, "table1", f"FedNoiL({kind})", column)[:1]
        assert runs_at(plan, "figure2_runs", f"{kind}(80)", "test accuracy") == first


# ---------------------------------------------------------------- schedules of local epochs


def epochs_by_round(spec):
    method = {key: value for key, value in spec["method"].items() if key != "revision"}
    schedule = Schedule(**spec["schedule"])
    built = METHODS.build(method, "test")
    return [built.local_schedule(r, schedule).local_epochs for r in range(schedule.rounds)]


@pytest.mark.parametrize("least_from", [10, 20, 40, 80])
def test_schedules_of_figure_2_are_eqs_10_and_11_and_constant_ones_have_their_totals(
    plan, least_from
):
    r = np.arange(1, 201)
    before = r < least_from
    exact = {
        "Cosine": np.where(before, 20 + 80 * np.cos(np.pi / 2 * (r - 1) / (least_from - 1)), 20),
        "Logarithm": np.maximum(100 - np.log(r) / np.log(least_from ** (1 / 80)), 20),
    }
    for kind, expected in exact.items():
        name = f"{kind}({least_from})"
        decaying = epochs_by_round(spec_at(plan, "figure2_runs", name, "test accuracy"))
        assert np.abs(decaying - expected).max() <= 0.5 + 1e-9
        constant = epochs_by_round(
            spec_at(plan, "figure2_runs", f"Constant as {name}", "test accuracy")
        )
        assert sum(constant) == sum(decaying)
        assert max(constant) - min(constant) <= 1


# ---------------------------------------------------------------- figures


def test_figures_draw_the_cells_that_they_name(plan):
    def lines(name):
        part = plan.figures[f"fednoil/{name}"].table
        assert len(part.columns) == 1
        return [row.name for row in part.rows]

    for family, figure in (("Cosine", "figure2a"), ("Logarithm", "figure2b")):
        both = [f"{kind}{family}({n})" for kind in ("", "Constant as ") for n in (10, 20, 40, 80)]
        assert lines(f"{figure}_rounds") == lines(f"{figure}_batches") == both
        assert plan.figures[f"fednoil/{figure}_batches"].x == "batches"
    assert lines("figure3a") == ["Cosine(80)", "Logarithm(80)", "Constant as Cosine(80)"]
    assert lines("figure3b") == [f"Logarithm({n})" for n in (20, 40, 80)]
    assert lines("figure3c") == [f"Cosine({n})" for n in (20, 40, 80)]
    assert len(plan.figures["fednoil/figure1"].panels) == 8
    figure = plan.figures["fednoil/figure4"]
    assert len(figure.runs) == 3 * 5
    for run in figure.runs:
        data = plan.runs[run]["noisy_partition"]
        assert (data["dataset"], data["label_noise"]["name"]) == ("cifar10", "pair")
        assert data["noise_level"]["levels"] == [0.3, 0.5, 0.6, 0.8]
