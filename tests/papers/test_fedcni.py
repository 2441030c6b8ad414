"""FedCNI's experiments: the paper's settings, and its numbers one by one."""

import pytest

from noisyfl.experiments.config import EXPERIMENTS, check_config
from noisyfl.experiments.planning import make_plan

from .plans import plan_of, printed_at
from .test_published import OTHER_READINGS

PRINTED = ("table1", "table2", "table3", "table4", "table6", "table7")


@pytest.fixture(scope="module")
def plan():
    return plan_of("fedcni")


@pytest.fixture(scope="module")
def cells(plan):
    """By table, row and column: the specs of a cell's runs."""
    found = {}
    for key, table in plan.tables.items():
        rows, columns = (
            [header.name for header in headers] for headers in (table.rows, table.columns)
        )
        for row, line in zip(rows, table.runs, strict=True):
            for column, runs in zip(columns, line, strict=True):
                specs = [plan.runs[run] for run in runs]
                found[key.removeprefix("fedcni/"), row, column] = specs
    return found


@pytest.mark.parametrize(
    ("table", "row", "column", "value"),
    [
        ("table1", "FedAvg", "CIFAR-10, symmetric μ=0.2, α=1", "79.94"),
        ("table1", "FedProx", "CIFAR-10, pair μ=0.4, α=0.7", "63.54"),
        ("table1", "FedDyn", "CIFAR-100, symmetric μ=0.4, α=1", "1.36"),
        ("table1", "Distributed Co-teaching", "CIFAR-10, pair μ=0.2, α=1", "28.65"),
        ("table1", "FedAvg + Co-teaching", "CIFAR-10, pair μ=0.2, α=1", "42.93"),
        ("table1", "Distributed DivideMix", "CIFAR-100, pair μ=0.4, α=0.7", "13.92"),
        ("table1", "FedCNI", "CIFAR-100, symmetric μ=0.2, α=0.7", "56.42"),
        ("table2", "FedAvg + DivideMix", "μ=0.2, σ=0.2, α=1", "83.63"),
        ("table3", "Co-teaching", "Clothing1M", "69.83"),
        ("table4", "FedAvg", "symmetric μ=0.2, α=1", "78.69"),
        ("table4", "FedCNI w/o distance loss", "pair μ=0.4, α=0.7", "71.36"),
        ("table6", "FedCNI with cross-entropy", "μ=0.2, σ=0.2, α=1", "82.46"),
        ("table7", "FedCNI-data-size", "μ=0.2, σ=0.2, α=1", "84.92"),
        ("table7", "FedCNI-noise-level", "μ=0.2, σ=0.2, α=1", "85.04"),
    ],
)
def test_numbers_stand_where_the_paper_prints_them(plan, table, row, column, value):
    assert printed_at(plan, table, row, column) == value


def test_the_schedule_is_section_5_1s_in_every_run(plan):
    assert plan.runs
    for run, spec in plan.runs.items():
        schedule, partition = spec["schedule"], spec["noisy_partition"]["partition"]
        early = run in plan.figures["fedcni/figure1"].runs
        assert schedule["rounds"] == (15 if early else 100)
        assert partition["clients"] == 20
        assert schedule["participation"] == 1
        assert (schedule["local_epochs"], schedule["batch_size"]) == (5, 100)
        assert (schedule["learning_rate"], schedule["momentum"]) == (0.01, 0.5)
        assert (schedule["weight_decay"], schedule["decay_every"]) == (0, None)
        assert spec["seed"] == 1
    assert {table.statistic for table in plan.tables.values()} == {"best"}


def test_datasets_models_and_noise(cells):
    (spec,) = cells["table1", "FedAvg", "CIFAR-10, symmetric μ=0.4, α=0.7"]
    noisy = spec["noisy_partition"]
    assert (noisy["dataset"], spec["model"]["name"]) == ("cifar10", "resnet18")
    assert (noisy["partition"]["name"], noisy["partition"]["alpha"]) == ("dirichlet", 0.7)
    assert (noisy["label_noise"]["name"], noisy["label_noise"]["include_true"]) == (
        "symmetric",
        True,
    )
    level = {"name": "truncnorm", "mu": 0.4, "sigma": 0.2, "seed": 1}
    assert noisy["noise_level"] == level
    (spec,) = cells["table1", "FedAvg", "CIFAR-100, pair μ=0.2, α=1"]
    noisy = spec["noisy_partition"]
    assert (noisy["dataset"], spec["model"]["name"]) == ("cifar100", "resnet34")
    assert (noisy["label_noise"]["name"], noisy["label_noise"]["map"]) == ("asymmetric", "full")
    assert noisy["partition"]["alpha"] == 1
    assert noisy["noise_level"] == {**level, "mu": 0.2}
    (spec,) = cells["table2", "FedAvg", "μ=0.2, σ=0.2, α=1"]
    assert spec["noisy_partition"]["label_noise"]["name"] == "pair4groups"
    assert spec["noisy_partition"]["noise_level"]["mu"] == 0.2
    (spec,) = cells["table3", "FedAvg", "Clothing1M"]
    assert (spec["noisy_partition"]["dataset"], spec["model"]["name"]) == ("clothing1m", "resnet50")
    assert spec["noisy_partition"]["label_noise"] == {"name": "none"}
    assert spec["noisy_partition"]["partition"]["name"] == "iid"
    for table in ("table6", "table7"):
        (spec,) = cells[table, "FedCNI", "μ=0.2, σ=0.2, α=1"]
        (same,) = cells["table1", "FedCNI", "CIFAR-10, symmetric μ=0.2, α=1"]
        assert spec == same


def test_hyperparameters_are_appendix_a_1s(cells):
    for dataset in ("CIFAR-10", "CIFAR-100"):

        def method(row, column=f"{dataset}, pair μ=0.4, α=1"):
            return cells["table1", row, column][0]["method"]

        assert method("FedProx")["mu"] == 0.01
        assert (method("FedDyn")["alpha"], method("FedDyn")["momentum"]) == (0.1, True)
        assert method("RoFL")["pseudo_label_round"] == 15
        assert method("FedProto")["weight"] == 0.1
        fedcorr = method("FedCorr")
        # 20 of 20 clients take part: an iteration, which visits each once, is a round.
        assert (fedcorr["preprocessing_iterations"], fedcorr["finetuning_rounds"]) == (10, 20)
        assert fedcorr["usual_rounds"] is None
        distributed, on_clients = method("Distributed DivideMix")["parts"]
        assert distributed["name"] == "distributed"
        for dividemix in (on_clients, method("FedAvg + DivideMix")):
            assert dividemix["name"] == "dividemix"
            assert dividemix["warm_up_rounds"] * 5 == 5
            assert dividemix["clean_threshold"] == 0.5
        fedcni = method("FedCNI")
        assert (fedcni["pseudo_label_round"], fedcni["aggregation_round"]) == (15, 15)
        assert (fedcni["threshold"], fedcni["similarity_weight"]) == (0.5, 0.7)


def differing(cells, table, row, column):
    """The options in which a row's FedCNI is not the full one."""
    (full,) = cells[table, "FedCNI", column]
    (other,) = cells[table, row, column]
    assert {**other, "method": None} == {**full, "method": None}
    return {k: v for k, v in other["method"].items() if full["method"][k] != v}


def test_each_ablation_takes_one_part_away(cells):
    for column in ("symmetric μ=0.2, α=1", "pair μ=0.4, α=0.7"):
        for row, expected in {
            "FedCNI w/o dynamic confidence": {"dynamic_confidence": False},
            "FedCNI w/o mixup": {"mixup": "none"},
            "FedCNI w/o distance loss": {"similarity_weight": 0},
            "FedCNI w/o re-weighted aggregation": {"aggregation": "data_size"},
        }.items():
            assert differing(cells, "table4", row, column) == expected
    only = "μ=0.2, σ=0.2, α=1"
    assert differing(cells, "table6", "FedCNI with vanilla mixup", only) == {"mixup": "vanilla"}
    assert differing(cells, "table7", "FedCNI-noise-level", only) == {
        "aggregation": "always_clean_samples"
    }
    # "FedCNI with CE loss" and "data-size" are Table 4's rows: 82.46 twice, and 84.92 and 84.93.
    table4 = "symmetric μ=0.2, α=1"
    assert (
        cells["table6", "FedCNI with cross-entropy", only]
        == (cells["table4", "FedCNI w/o mixup", table4])
    )
    assert (
        cells["table7", "FedCNI-data-size", only]
        == (cells["table4", "FedCNI w/o re-weighted aggregation", table4])
    )


def test_write_back_is_a_row_beside_fedcni_with_no_published_number(plan, cells):
    """Algorithm 1's reading, in every column of Tables 1 and 4, and in Figure 9."""
    name = "FedCNI with write-back"
    assert name in OTHER_READINGS["fedcni"]
    for table in ("table1", "table4"):
        described = plan.tables[f"fedcni/{table}"]
        assert {row.name: row.published for row in described.rows}[name] is None
        for column in (column.name for column in described.columns):
            assert differing(cells, table, name, column) == {"write_back": True}
    only = "symmetric, μ=0.2, σ=0.2, α=1"
    (usual,) = cells["figure9_runs", "from T_s1 on", only]
    (other,) = cells["figure9_runs", "from T_s1 on, with write-back", only]
    assert other == {**usual, "method": {**usual["method"], "write_back": True}}
    assert other == cells["table1", name, "CIFAR-10, symmetric μ=0.2, α=1"][0]


def test_no_two_cells_of_a_table_share_a_run_but_fedavg_on_clean_data(plan):
    assert {len(cell) for t in plan.tables.values() for line in t.runs for cell in line} == {1}
    for name, table in plan.tables.items():
        cells = sum(len(line) for line in table.runs)
        assert len(table.run_ids()) == cells - (name == "fedcni/figure2_runs")
    clean = plan.tables["fedcni/figure2_runs"].runs[-1]
    assert clean[0] == clean[1]
    assert plan.runs[clean[0][0]]["noisy_partition"]["noise_level"] == {"name": "none"}


def test_tables_and_figures_share_what_they_have_in_common(plan):
    printed = {run for name in PRINTED for run in plan.tables[f"fedcni/{name}"].run_ids()}
    # Table 1 has two other readings of FedCNI too, and Table 4 eight of these sixteen cells again.
    assert len(printed) == 192 + 2 * 16 + 10 + 11 + 4 * 8 + 1 + 1
    figures = {run for figure in plan.figures.values() for run in figure.runs}
    # FedAvg on clean data, FedCNI with T_s1 = 0, and 15 rounds of FedAvg with a look at its scores.
    assert len(figures - printed) == 3
    oracle = set(plan.tables["fedcni/room"].run_ids()) - printed
    assert len(oracle) == 16
    assert len(plan.runs) == len(printed | figures | oracle)
    assert len(set(plan.figures["fedcni/figure1"].runs)) == 1


def test_marks_are_the_switching_rounds(plan, cells):
    for figure, row, option in (
        ("figure9", ("figure9_runs", "from T_s1 on"), "pseudo_label_round"),
        ("figure10", ("table7", "FedCNI"), "aggregation_round"),
    ):
        (mark,) = plan.figures[f"fedcni/{figure}"].marks
        specs = [
            spec for (*place, _), found in cells.items() if tuple(place) == row for spec in found
        ]
        assert [spec["method"][option] for spec in specs] == [mark.at]
    (other,) = cells["figure9_runs", "from the start", "symmetric, μ=0.2, σ=0.2, α=1"]
    assert (other["method"]["pseudo_label_round"], other["method"]["aggregation_round"]) == (0, 15)


def test_figures_of_one_run_are_fedcnis(plan):
    for name in ("figure6", "figure7", "figure8"):
        (run,) = plan.figures[f"fedcni/{name}"].runs
        spec = plan.runs[run]
        assert spec["method"]["name"] == "fedcni"
        assert spec["noisy_partition"]["label_noise"]["name"] == "symmetric"


def test_pseudo_labels_from_the_start_stay_so_at_every_scale():
    config = {"scale": "short", "experiments": ["fedcni"]}
    config["overlay"] = {"methods": {"fedcni": {"pseudo_label_round": 5}}}
    plan = make_plan(check_config(config, "short.yaml"), EXPERIMENTS, "short.yaml")
    rows = plan.tables["fedcni/figure9_runs"].runs
    begin = [plan.runs[row[0][0]]["method"]["pseudo_label_round"] for row in rows]
    assert begin == [5, 0, 5]
    (mark,) = plan.figures["fedcni/figure9"].marks
    assert mark.at == 5


def test_digits_can_stand_in_for_every_dataset():
    digits = {"dataset": "digits", "model": "cnn", "normalization": "dataset"}
    config = {
        "scale": "tiny",
        "experiments": ["fedcni"],
        "overlay": {
            "datasets": {"cifar10": digits, "cifar100": digits, "clothing1m": digits},
            "setting": {"clients": 8, "schedule": {"rounds": 4}},
        },
    }
    plan = make_plan(check_config(config, "tiny.yaml"), EXPERIMENTS, "tiny.yaml")
    assert {spec["noisy_partition"]["dataset"] for spec in plan.runs.values()} == {"digits"}
    assert {spec["schedule"]["rounds"] for spec in plan.runs.values()} == {4}
