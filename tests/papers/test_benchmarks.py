"""FNBench's and FedNoisy's protocols: settings, noises and options as their codes have them."""

import numpy as np
import pytest
import yaml

from noisyfl.core.places import ROOT
from noisyfl.data.noise.noise_level import NOISE_LEVELS

from .plans import cells_of, plan_of, spec_at

FNBENCH = (
    *("fedavg", "fedprox", "trimmed_mean", "krum", "median", "rfa", "coteaching"),
    *("coteaching_plus", "sce", "selfie", "jointopt", "dividemix", "rofl", "fedlsr", "fednoro"),
    *("fedrn", "fedelc", "fedelr", "masked_optim"),
)
FEDNOISY = ("fedavg", "mixup", "sce", "gce", "mae", "coteaching", "fednoro")
TABLES = {
    "fnbench/cifar10": (FNBENCH, 12, 3),
    "fnbench/cifar100": (FNBENCH, 12, 3),
    "fnbench/human": (FNBENCH, 6, 3),
    "fnbench/clothing1m": (FNBENCH, 1, 1),
    "fednoisy/mnist": (FEDNOISY, 20, 1),
    "fednoisy/cifar10": (FEDNOISY, 20, 1),
    "fednoisy/svhn": (FEDNOISY, 20, 1),
    "fednoisy/clothing1m": (FEDNOISY, 4, 1),
}


def table_of(name):
    return plan_of(name.partition("/")[0]).tables[name]


def specs_of(name):
    """Row, column and the spec of the first trial of each cell."""
    runs = plan_of(name.partition("/")[0]).runs
    for row, column, ids in cells_of(table_of(name)):
        yield row, column, runs[ids[0]]


@pytest.mark.slow
@pytest.mark.parametrize("name", TABLES)
def test_every_method_meets_every_setting(name):
    methods, columns, trials = TABLES[name]
    bound = () if name.endswith("clothing1m") else ("oracle",)
    table = table_of(name)
    assert table.statistic == "mean_last_10"
    assert len(table.columns) == columns
    assert len(table.run_ids()) == len((*methods, *bound)) * columns * trials
    found = dict.fromkeys(spec["method"]["name"] for _, _, spec in specs_of(name))
    assert tuple(found) == (*methods, *bound)


@pytest.mark.parametrize(("noise", "groups"), [("symmetric", [100]), ("mixed", [50, 50])])
def test_fnbenchs_levels_are_those_of_its_code(noise, groups):
    """A group's client i of n has i (0.4 - 0.0) / n."""
    spec = spec_at(plan_of("fnbench"), "cifar10", "FedAvg", f"IID, {noise} 0.0–0.4")
    level = NOISE_LEVELS.build(spec["noisy_partition"]["noise_level"])
    expected = np.concatenate([np.arange(n) * 0.4 / n for n in groups])
    np.testing.assert_allclose(level.draw(100, np.random.default_rng(0)), expected)


@pytest.mark.parametrize("name", ["fnbench", "fednoisy"])
def test_desk_has_one_column_of_each_at_a_size_for_one_computer(name):
    desk = yaml.safe_load((ROOT / "config" / "desk.yaml").read_text())
    (table,) = (target for target in desk["targets"] if target.startswith(f"{name}/"))
    (column,) = desk["overlay"]["columns"][table]
    assert column in [column.name for column in table_of(table).columns]


@pytest.mark.parametrize("name", ["fnbench", "fednoisy"])
def test_what_is_missing_is_named_on_the_page_and_under_each_table(name):
    page = (ROOT / "docs" / "papers" / f"{name}.md").read_text(encoding="utf-8")
    missing = {"fnbench": ("FedExP",), "fednoisy": ("dynamic bootstrapping",)}[name]
    assert "published numbers are missing" in page
    for table in plan_of(name).tables.values():
        assert table.published is None
        for word in missing:
            assert word in page
            assert word in table.note
