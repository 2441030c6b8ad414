"""FedCorr's experiments: settings as paper and code state them, and each of its numbers once."""

import pytest

from .plans import cells_of, plan_of, printed_at, runs_at, spec_at


@pytest.fixture(scope="module")
def plan():
    return plan_of("fedcorr")


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
