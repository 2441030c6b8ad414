"""FedRN's experiments: the paper's settings, and its numbers one by one."""

import re

import pytest

from noisyfl.specs.catalogue import canonical_method

from .plans import cells_of, number_of, plan_of


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
    assert cells[place][1].number.value == value


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


def test_the_papers_variants_are_spelt_out(plan):
    """What the experiments set is what the methods call ``fedrn``."""
    for name in ("coteaching", "jointopt", "selfie"):
        (found,) = {
            repr(spec["method"]) for spec in plan.runs.values() if spec["method"]["name"] == name
        }
        assert found == repr(canonical_method(f'{name}(variant="fedrn")', "test"))
