"""FedCNI's experiments: the paper's settings, and its numbers one by one."""

import pytest

from checked_plan import checked_plan
from noisyfl.experiments.config import check_config

from .plans import cells_of, plan_of, printed_at
from .test_published import OTHER_READINGS


@pytest.fixture(scope="module")
def plan():
    return plan_of("fedcni")


@pytest.fixture(scope="module")
def cells(plan):
    """By table, row and column: the specs of a cell's runs."""
    return {
        (table.name, row.name, column.name): [plan.runs[run] for run in runs]
        for table in plan.tables.values()
        for row, column, runs in cells_of(table)
    }


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
        ("table2", "FedAvg + DivideMix", "four pair noises, μ=0.2, σ=0.2, α=1", "83.63"),
        ("table3", "Co-teaching", "Clothing1M", "69.83"),
        ("table4", "FedAvg", "symmetric μ=0.2, α=1", "78.69"),
        ("table4", "FedCNI w/o distance loss", "pair μ=0.4, α=0.7", "71.36"),
        ("table6", "FedCNI with cross-entropy", "symmetric, μ=0.2, σ=0.2, α=1", "82.46"),
        ("table7", "FedCNI-data-size", "symmetric, μ=0.2, σ=0.2, α=1", "84.92"),
        ("table7", "FedCNI-noise-level", "symmetric, μ=0.2, σ=0.2, α=1", "85.04"),
    ],
)
def test_numbers_stand_where_the_paper_prints_them(plan, table, row, column, value):
    assert printed_at(plan, table, row, column) == value


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
    only = "symmetric, μ=0.2, σ=0.2, α=1"
    assert differing(cells, "table6", "FedCNI with vanilla mixup", only) == {"mixup": "vanilla"}
    assert differing(cells, "table7", "FedCNI-noise-level", only) == {
        "aggregation": "always_clean_samples"
    }
    # "FedCNI with CE loss" and "data-size" are Table 4's rows: 82.46 twice, and 84.92 and 84.93.
    for table, row, same in (
        ("table6", "FedCNI with cross-entropy", "FedCNI w/o mixup"),
        ("table7", "FedCNI-data-size", "FedCNI w/o re-weighted aggregation"),
    ):
        assert cells[table, row, only] == cells["table4", same, "symmetric μ=0.2, α=1"]


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


def test_pseudo_labels_from_the_start_stay_so_at_every_scale():
    config = {"scale": "short", "experiments": ["fedcni"]}
    config["overlay"] = {"methods": {"fedcni": {"pseudo_label_round": 5}}}
    plan = checked_plan(check_config(config, "short.yaml"), "short.yaml")
    rows = plan.tables["fedcni/figure9_runs"].runs
    begin = [plan.runs[row[0][0]]["method"]["pseudo_label_round"] for row in rows]
    assert begin == [5, 0, 5]
    (mark,) = plan.figures["fedcni/figure9"].marks
    assert mark.at == 5
