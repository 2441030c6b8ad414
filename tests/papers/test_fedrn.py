"""FedRN's experiments: the paper's settings, and its numbers one by one."""

import re

import pytest

from noisyfl.specs.catalogue import canonical_method

from .plans import cells_of, number_of, plan_of

ROUNDS = {"cifar10": 500, "cifar100": 1000, "mini_webvision": 1000}
RUNS = {
    # Methods, settings and trials; what two tables share is trained once.
    "table2": 9 * 12 * 3,
    "table3": 9 * 4 * 3,
    "table4": 8 * 3,
    "table5": 12 * 2 * 3,
    "table6": 5 * 4 * 3,
    "table7": 5 * 4 * 3,
    "table8": 6 * 4 * 3,
    "table9": 2 * 6 * 3,
    "table10": 8 * 3,
}
NEW = {"table5": 11 * 2 * 3, "table6": 3 * 4 * 3, "table7": 3 * 4 * 3, "table8": 5 * 2 * 3}
NEW |= {"table9": 6 * 3, "table10": 0}


@pytest.fixture(scope="module")
def plan():
    return plan_of("fedrn")


@pytest.fixture(scope="module")
def cells(plan):
    """By table, row and column: the specs of the cell's runs, and its published number."""
    found = {}
    for table in plan.tables.values():
        for row, column, runs in cells_of(table):
            specs = [plan.runs[run] for run in runs]
            found[table.name, row.name, column.name] = specs, number_of(table, row, column)
    return found


@pytest.mark.parametrize(
    ("place", "value"),
    [
        # Read off the paper's pages.
        (("table2", "Oracle", "Shard S=5, mixed 0.0–0.4"), 77.7),
        (("table2", "Joint Optimization", "Shard S=2, asymmetric 0.0–0.4"), 38.04),
        (("table2", "Robust FL (RoFL)", "Dirichlet β=0.5, symmetric 0.0–0.8"), 70.63),
        (("table2", "FedRN, k=1", "Shard S=2, symmetric 0.0–0.8"), 60.33),
        (("table2", "FedRN, k=2", "Dirichlet β=0.5, mixed 0.0–0.4"), 80.28),
        (("table3", "DivideMix", "mixed 0.0–0.4"), 46.94),
        (("table3", "SELFIE", "symmetric 0.0–0.8"), 37.65),
        (("table4", "Joint Optimization", "top-1 accuracy"), 13.56),
        (("table4", "FedRN, k=2", "top-5 accuracy"), 49.16),
        (("table5", "without fine-tuning, α=0.8", "symmetric 0.0–0.8"), 43.61),
        (("table5", "with fine-tuning, α=0.2", "symmetric 0.0–0.4"), 67.45),
        (("table6", "k=3", "Shard S=2, symmetric 0.0–0.4"), 68.10),
        (("table6", "k=5", "Dirichlet β=0.5, symmetric 0.0–0.8"), 76.00),
        (("table7", "k=4", "mixed 0.0–0.4"), 47.72),
        (("table8", "α=0.4", "Dirichlet β=0.5, 0.0–0.8"), 76.27),
        (("table8", "α=0.6", "Mean"), 71.85),
        (("table9", "random neighbours", "Shard S=5, symmetric 0.0–0.8"), 71.56),
        (("table9", "reliable neighbours", "Shard S=5, symmetric 0.0–0.8"), 72.85),
    ],
)
def test_a_number_stands_where_the_paper_has_it(cells, place, value):
    assert cells[place][1].value == value


def test_every_run_is_the_setting_that_its_number_was_printed_for(cells):
    for place, (specs, number) in cells.items():
        if number is None or place[2] == "Mean":
            continue
        printed, spec = number.fields, specs[0]
        partition = spec["noisy_partition"]
        assert partition["dataset"] == printed["dataset"]
        kind, options = parts(printed["partition"])
        assert partition["partition"]["clients"] == 100
        if kind == "shard":
            assert partition["partition"]["shards"] == int(options["s"])
        else:
            assert partition["partition"]["name"] == "dirichlet_official"
            assert partition["partition"]["beta"] == float(options["beta"])
        check_noise(partition, printed["noise"])
        check_method(spec["method"], printed["method"], printed["variant"])


def parts(text):
    """``shard(s=2,n=100)`` as a name and its options."""
    name, options = re.fullmatch(r"(\w+)\((.*)\)", text).groups()
    return name, dict(part.split("=") for part in options.split(","))


def check_noise(partition, printed):
    noise, level = partition["label_noise"], partition["noise_level"]
    if printed == "real":
        assert (noise["name"], level["name"]) == ("none", "none")
        return
    kind, high = re.fullmatch(r"client_linear\((\w+),0\.0-(0\.\d)\)", printed).groups()
    assert (level["name"], level["low"], level["high"]) == ("client_linear", 0, float(high))
    assert level["ramps"] == (2 if kind == "mixed" else 1)
    assert not level["include_top"]
    assert noise["name"] == {"asymmetric": "pair"}.get(kind, kind)
    assert noise["count"] == "floor"
    if kind == "symmetric":
        assert not noise["include_true"]
    else:
        assert noise["direction"] == -1


def check_method(method, printed, variant):
    if not printed.startswith("fedrn"):
        assert method["name"] == printed
        return
    wanted = dict(part.split("=") for part in variant.split(";") if part)
    assert method["name"] == "fedrn"
    assert method["neighbours"] == int(printed.removeprefix("fedrn_k"))
    assert method["alpha"] == float(wanted.get("alpha", 0.6))
    assert method["finetune"] == (wanted.get("finetune", "on") == "on")
    assert method["neighbour_choice"] == wanted.get("neighbors", "reliable")
    assert method["warm_up_rounds"] == 100


def test_the_schedule_is_the_papers(plan, cells):
    for specs, _ in cells.values():
        for spec in specs:
            schedule = spec["schedule"]
            assert schedule["rounds"] == ROUNDS[spec["noisy_partition"]["dataset"]]
            told = ("participation", "local_epochs", "learning_rate", "momentum")
            assert [schedule[key] for key in told] == [0.1, 5, 0.01, 0.5]
            code = ("batch_size", "weight_decay", "decay_every", "test_batch_size")
            assert [schedule[key] for key in code] == [50, 0, None, 128]
            assert spec["model"]["name"] == "cnn4conv"
    assert {len(specs) for (_, _, column), (specs, _) in cells.items() if column != "Mean"} == {3}
    seeds = {spec["seed"] for specs, _ in cells.values() for spec in specs}
    assert seeds == {1, 2, 3}
    for key, table in plan.tables.items():
        # A cost's largest value is its worst.
        assert table.statistic == ("mean_last_10" if key == "fedrn/table10" else "best")
    rates = {spec["normalization"] for specs, _ in cells.values() for spec in specs}
    assert rates == {"imagenet", "dataset"}


def test_baselines_have_the_hyperparameters_that_section_5_1_gives(plan):
    methods = {spec["method"]["name"]: spec["method"] for spec in plan.runs.values()}
    told = {
        "jointopt": {"alpha": 1.2, "beta": 0.8},
        "selfie": {"uncertainty": 0.05, "history": 15},
        "dividemix": {"temperature": 0.5, "unlabelled_weight": 25, "mixup_alpha": 4},
        "rofl": {"centroid_weight": 1.0, "entropy_weight": 0.8},
    }
    for name, options in told.items():
        assert {key: methods[name][key] for key in options} == options
    # Every robust method starts after 100 rounds, and leaves out a fifth (code).
    starts = {"jointopt": "start_round", "rofl": "pseudo_label_round", "coteaching": "ramp_rounds"}
    for name in ("jointopt", "rofl", "coteaching", "selfie", "dividemix", "fedrn"):
        assert methods[name][starts.get(name, "warm_up_rounds")] == 100
    for name in ("coteaching", "selfie", "rofl"):
        assert methods[name]["forget_rate"] == 0.2


def test_tables_share_what_they_can_and_nothing_else(plan):
    seen = set()
    for name, count in RUNS.items():
        runs = plan.tables[f"fedrn/{name}"].run_ids()
        assert len(runs) == count
        assert len(set(runs) - seen) == NEW.get(name, count)
        seen |= set(runs)
    assert len(seen) == 642
    for table in plan.tables.values():
        for c, column in enumerate(table.columns):
            runs = [run for row in table.runs for run in row[c]]
            assert len(runs) == len(set(runs)), (table.name, column.name)


def test_figures(plan):
    figures = {key.removeprefix("fedrn/"): figure for key, figure in plan.figures.items()}
    assert set(figures) == {"figure1", "figure3", "figure4", "figure5"}
    # Five lines are drawn, one of them three times; nothing of it is in a table.
    assert len(set(figures["figure1"].runs)) == 4
    first = [plan.runs[run] for run in dict.fromkeys(figures["figure1"].runs)]
    methods = [spec["method"]["name"] for spec in first]
    assert methods == ["fedavg", "fedavg", "coteaching", "fedrn"]
    levels = [spec["noisy_partition"]["noise_level"] for spec in first]
    assert [level.get("high") for level in levels] == [None, 0.8, 0.8, 0.8]
    # Curves of Table 2's runs.
    assert set(figures["figure3"].runs) < set(plan.tables["fedrn/table2"].run_ids())
    assert len(set(figures["figure3"].runs)) == 4 * 2 * 3
    # At the end of the warm-up: symmetric and asymmetric; without noise and symmetric.
    kinds = [
        [plan.runs[run]["noisy_partition"]["label_noise"]["name"] for run in figures[name].runs]
        for name in ("figure4", "figure5")
    ]
    assert kinds == [["symmetric", "pair"], ["none", "symmetric"]]
    for name in ("figure4", "figure5"):
        for run in figures[name].runs:
            assert plan.runs[run]["schedule"]["rounds"] == 100
            assert plan.runs[run]["noisy_partition"]["partition"]["shards"] == 2


def test_the_papers_variants_are_spelt_out(plan):
    """What the experiments set is what the methods call ``fedrn``."""
    for name in ("coteaching", "jointopt", "selfie"):
        (found,) = {
            repr(spec["method"]) for spec in plan.runs.values() if spec["method"]["name"] == name
        }
        assert found == repr(canonical_method(f'{name}(variant="fedrn")', "test"))
