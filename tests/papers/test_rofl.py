"""RoFL's experiments: the paper's settings, and its numbers one by one."""

import re

import pytest

from .plans import cells_of, number_of, plan_of


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
    assert cells[place][-1].number.value == pytest.approx(value)


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
