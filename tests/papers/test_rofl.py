"""RoFL's experiments: the paper's settings, and its numbers one by one."""

import re

import pytest

from .plans import cells_of, number_of, plan_of

RUNS = {
    "table1": 4 * 12,
    "table2": 5 * 2,
    "table3": 5 + 6,
    "table4": 5,
    "table5": 6,
    "table6": 4 * 12,
    "room": 2 * 24,
    "table7": 6,
    "table8": 3,
    "intext_light_intensity": 2,
    "intext_covidx": 2,
    "figure1_runs": 6 * 7,
    "figure6_runs": 5 * 5 - 4,
}
"""What a table has. The default is in each of Figure 6's five panels."""

NEW = {
    **RUNS,
    "room": 24,
    "table3": 10,
    "table4": 4,
    "table5": 0,
    "table8": 0,
    "intext_light_intensity": 1,
}
NEW |= {"figure1_runs": 3 * 7, "figure6_runs": 20}
"""What of it no table before has: symmetric noise of 0.4 is in most of them."""

TANAKA = {0.0: 0.01, 0.1: 0.02, 0.3: 0.03, 0.5: 0.04, 0.7: 0.08}
"""Joint Optimization's learning rate at each noise ratio of its paper, symmetric noise."""


@pytest.fixture(scope="module")
def plan():
    return plan_of("rofl")


@pytest.fixture(scope="module")
def cells(plan):
    """By table, row and column: the id and the spec of the cell's run, and its published number."""
    found = {}
    for table in plan.tables.values():
        for row, column, runs in cells_of(table):
            (run,) = runs  # the paper fixes the seed
            number = number_of(table, row, column)
            found[table.name, row.name, column.name] = run, plan.runs[run], number
    return found


def own(spec):
    """The method that clients run: its own options, or those beside a server side."""
    return spec["method"].get("parts", [spec["method"]])[-1]


def noise(spec):
    partition = spec["noisy_partition"]
    return partition["label_noise"], partition["noise_level"]


@pytest.mark.parametrize(
    ("place", "value"),
    [
        # Read off the paper's pages.
        (("table1", "Cross Entropy (FedAvg)", "symmetric, 0"), 89.5),
        (("table1", "Co-teaching", "pair, 0.45"), 55.2),
        (("table1", "Joint Optimization", "symmetric, 0.6"), 71.2),
        (("table1", "RoFL", "pair, 0.1"), 90.9),
        (("table2", "Centralized, Cross Entropy", "test accuracy"), 69.5),
        (("table2", "Centralized, Deep self-learning", "test accuracy"), 74.5),
        (("table2", "Federated, Co-teaching", "test accuracy"), 71.8),
        (("table2", "Federated, RoFL", "test accuracy"), 76.4),
        (("table3", "RoFL", "clients, η=0.4"), 89.0),
        (("table3", "RoFL", "classes, ε=0.5"), 86.8),
        (("table4", "mask, no pseudo-labels", "test accuracy"), 77.8),
        (("table4", "no mask, naive pseudo-labels", "test accuracy"), 74.7),
        (("table5", "precision", "symmetric, 0.3"), 98.9),
        (("table5", "recall", "symmetric, 0.6"), 84.0),
        (("table6", "Co-teaching", "pair, 0.4"), 96.6),
        (("table7", "RoFL", "2"), 85.9),
        (("table7", "RoFL", "100"), 89.9),
        (("table8", "Joint Optimization", "seconds"), 24.9),
        (("intext_light_intensity", "RoFL", "0.5 to 1.5 times"), 88.4),
        (("intext_covidx", "Federated", "test accuracy"), 93.5),
    ],
)
def test_a_number_stands_where_the_paper_has_it(cells, place, value):
    assert cells[place][-1].value == pytest.approx(value)


def test_every_run_is_the_setting_that_its_number_was_printed_for(cells):
    for _, spec, number in cells.values():
        if number is None:
            continue
        printed = number.fields
        dataset = spec["noisy_partition"]["dataset"]
        assert printed["dataset"] in (dataset, "unstated")
        assert own(spec)["name"] in (printed["method"], "centralized")
        assert printed["method"] != "cross_entropy" or spec["method"]["name"] == "centralized"
        pooled = spec["method"]["name"].startswith("centralized")
        assert pooled == (printed["setting_scope"] == "centralized")
        label_noise, level = noise(spec)
        kind, options = parts(printed["noise"])
        if kind in ("symmetric", "pair"):
            assert (label_noise["name"], label_noise["count"]) == (kind, "bernoulli")
            # The whole dataset is flipped, and split after that.
            expected = {"name": "constant", "level": options["eps"], "scope": "dataset"}
            assert level == expected
            assert label_noise.get("include_true", False) is False
            assert label_noise.get("direction", 1) == 1
        elif kind == "client_variance" and options["eta"]:
            assert label_noise["name"] == "symmetric"
            assert level == {"name": "client_variance", "level": 0.4, "eta": options["eta"]}
        elif kind == "class_noise":
            assert label_noise["name"] == "class_noise"
            assert (level["level"], level["scope"]) == (options["eps"], "client")
        elif kind in ("none", "real"):
            assert label_noise == level == {"name": "none"}


def parts(text):
    """``symmetric(eps=0.1)`` as a name and its numbers."""
    name, options = re.fullmatch(r"(\w+)(?:\((.*)\))?", text).groups()
    pairs = [part.split("=") for part in (options or "").split(",") if part]
    return name, {key: float(value) for key, value in pairs}


def test_the_schedule_is_the_papers(cells):
    """Appendix, implementation details."""
    rounds = {"mnist": 100, "cifar10": 1000, "clothing1m": 40, "covidx": 40}
    models = {"mnist": "cnn9", "cifar10": "cnn9", "clothing1m": "resnet50", "covidx": "resnet50"}
    for (table, *_), (_, spec, _) in cells.items():
        partition, schedule = spec["noisy_partition"], spec["schedule"]
        assert partition["partition"] == {
            "name": "iid",
            "clients": 100,
            "samples": None,
            "stratified": False,
        }
        assert spec["model"]["name"] == models[partition["dataset"]]
        assert schedule["rounds"] == rounds[partition["dataset"]]
        assert (schedule["momentum"], schedule["weight_decay"]) == (0.5, 1e-4)
        pooled = spec["method"]["name"].startswith("centralized")
        assert schedule["local_epochs"] == (1 if pooled else 5)
        assert schedule["batch_size"] == (128 if pooled and table == "figure1_runs" else 50)
        if table != "table7":
            assert schedule["participation"] == 0.1
        if partition["dataset"] in ("clothing1m", "covidx"):
            assert spec["model"]["pretrained"] == "imagenet"
            # 10 rounds of a tenth of the clients, 5 local epochs each, are 5 epochs over all.
            decay = 5 if pooled else 10
            assert schedule["decay_every"] == (None if own(spec)["name"] == "jointopt" else decay)


def test_learning_rates(cells):
    for _, spec, _ in cells.values():
        dataset, method = spec["noisy_partition"]["dataset"], own(spec)["name"]
        rate = spec["schedule"]["learning_rate"]
        small = dataset in ("mnist", "cifar10")
        if method == "rofl":
            assert rate == (0.25 if small else 0.01)
        elif method == "deep_self_learning":
            assert rate == 0.002
        elif method != "jointopt":
            assert rate == (0.15 if small else 0.001)
        elif not small:
            assert rate == 0.0008
        elif noise(spec)[0]["name"] == "pair":
            assert rate == 0.03
        else:
            assert rate == pytest.approx(tanaka(noise(spec)[1].get("level", 0.0)))


def tanaka(level):
    """On the straight line between the two nearest noise ratios that have a learning rate."""
    below = max(known for known in TANAKA if known <= level + 1e-9)
    above = min(known for known in TANAKA if known >= level - 1e-9)
    share = (level - below) / (above - below) if above > below else 0.0
    return TANAKA[below] + share * (TANAKA[above] - TANAKA[below])


def test_hyperparameters_of_methods(cells):
    for (table, *_), (_, spec, _) in cells.items():
        method, dataset = own(spec), spec["noisy_partition"]["dataset"]
        real = dataset in ("clothing1m", "covidx")
        if method["name"] == "coteaching":
            assert method["ramp_rounds"] == (5 if real else 10)
            assert method["forget_rate"] == (0.3846 if real else None)  # null: the noise ratio
        if method["name"] == "jointopt":
            assert (method["alpha"], method["beta"]) == (2.4 if real else 1.2, 0.8)
            assert real or method["start_round"] == 100
        if method["name"] == "deep_self_learning":
            assert (method["samples"], method["prototypes"]) == (128, 3)
        if method["name"] != "rofl":
            continue
        assert (method["reduction"], method["centroid_distance"]) == ("mean", "mean_squared")
        start = {"mnist": 30, "cifar10": 100}.get(dataset, 5)
        if table != "figure6_runs":
            assert method["pseudo_label_round"] == start
            assert (method["centroid_weight"], method["entropy_weight"]) == (1.0, 0.8)
            assert method["forget_ramp_rounds"] == 10
            known = 0.3846 if dataset == "clothing1m" else None
            if noise(spec)[0]["name"] == "class_noise":
                known = noise(spec)[1]["level"]  # the designated ratio, not what all labels have
            assert method["forget_rate"] == known
        if spec["method"]["name"] == "centralized+rofl":
            assert method["pseudo_labels"] == "naive"


def test_ablations_turn_off_what_table_4_says(cells):
    for mask, pseudo, row in (
        (False, "none", "no mask, no pseudo-labels"),
        (True, "none", "mask, no pseudo-labels"),
        (False, "naive", "no mask, naive pseudo-labels"),
        (True, "naive", "mask, naive pseudo-labels"),
        (True, "global", "mask, global-guided pseudo-labels"),
    ):
        _, spec, number = cells["table4", row, "test accuracy"]
        assert (spec["method"]["mask"], spec["method"]["pseudo_labels"]) == (mask, pseudo)
        printed = number.fields["variant"]
        assert printed.startswith("mask=on" if mask else "mask=off")
        label = {"none": "off", "global": "global_guided"}.get(pseudo, pseudo)
        assert printed.endswith(f"pseudo_label={label}")


def test_participants_of_table_7(cells):
    for (table, _, column), (_, spec, number) in cells.items():
        if table == "table7":
            assert round(100 * spec["schedule"]["participation"]) == int(column)
            assert number.fields["variant"] == f"clients_per_round={column}"


def test_only_one_column_has_the_clients_own_light(cells):
    lit = {p for p, (_, spec, _) in cells.items() if spec["augmentation"] == "crop_client_light"}
    assert lit == {("intext_light_intensity", "RoFL", "0.5 to 1.5 times")}


def test_what_is_shown_and_how_it_is_summed_up(plan):
    for table in plan.tables.values():
        timed = table.name == "table8"
        assert table.metric == ("seconds_per_round" if timed else "test_accuracy")
        assert table.statistic == ("mean" if timed else "mean_last_10")
    rows = plan.tables["rofl/table5"].rows
    found = [row.metric for row in rows]
    assert found == ["noise_detection_precision", "noise_detection_recall"]


def test_tables_share_the_runs_that_they_have_in_common(plan, cells):
    seen = set()
    for key, table in plan.tables.items():
        runs, name = table.run_ids(), key.removeprefix("rofl/")
        assert (name, len(runs)) == (name, RUNS[name])
        assert (name, len(set(runs) - seen)) == (name, NEW[name])
        seen |= set(runs)
    default = cells["table1", "RoFL", "symmetric, 0.4"][0]
    for place in (
        ("table3", "RoFL", "clients, η=0"),
        ("table4", "mask, global-guided pseudo-labels", "test accuracy"),
        ("table5", "recall", "symmetric, 0.4"),
        ("table8", "RoFL", "seconds"),
        ("intext_light_intensity", "RoFL", "original"),
        ("figure1_runs", "RoFL, federated", "symmetric, 0.4"),
        *(("figure6_runs", "RoFL", c) for c in ("T_pl, 100", "λ_e, 0.8", "λ_cen, 1", "τ, 0.4")),
        ("figure6_runs", "RoFL", "T, 10"),
    ):
        assert cells[place][0] == default
    # Two cells of a table share a run only if one shows another metric, or the default twice.
    for table in set(RUNS) - {"table5", "figure6_runs"}:
        runs = [run for (name, *_), (run, *_) in cells.items() if name == table]
        assert len(runs) == len(set(runs))


def test_figure_6_changes_one_hyperparameter_at_a_time(cells):
    default = cells["figure6_runs", "RoFL", "T, 10"][1]["method"]
    options = {
        "T_pl": "pseudo_label_round",
        "λ_e": "entropy_weight",
        "λ_cen": "centroid_weight",
        "τ": "forget_rate",
        "T": "forget_ramp_rounds",
    }
    for (table, _, column), (_, spec, _) in cells.items():
        if table != "figure6_runs":
            continue
        group, value = column.split(", ")
        changed = {k: v for k, v in spec["method"].items() if v != default[k]}
        if changed.pop("centroid_ramp_rounds", 100) != 100:
            raise AssertionError("λ_cen grows for as long as by default")
        assert set(changed) <= {options[group]}
        known = {"τ": 0.4}.get(group, default[options[group]])
        assert changed.get(options[group], known) == float(value)


def test_figures(plan):
    figures = {key.removeprefix("rofl/"): figure for key, figure in plan.figures.items()}
    assert set(figures) == {"figure1", "figure4", "figure6"}
    assert set(figures["figure1"].runs) == set(plan.tables["rofl/figure1_runs"].run_ids())
    assert set(figures["figure6"].runs) == set(plan.tables["rofl/figure6_runs"].run_ids())
    without, with_ = (plan.runs[run] for run in figures["figure4"].runs)
    assert [spec["method"]["global_centroids"] for spec in (without, with_)] == [False, True]
    assert without["probes"] == ["features"]
    xs = [column.x for column in plan.tables["rofl/figure1_runs"].columns]
    assert xs == [0, 0.1, 0.2, 0.3, 0.4, 0.5, 0.6]
