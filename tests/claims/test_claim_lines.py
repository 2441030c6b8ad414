"""Numbers of claims that come from runs, and that every claim finds the runs it names."""

import itertools
import math
from types import SimpleNamespace
from typing import ClassVar

import numpy as np
import pytest

from checked_plan import checked_plan
from descriptions import described, described_table
from noisyfl.claims import artifacts as claim_artifacts
from noisyfl.claims.artifacts import Artifacts
from noisyfl.claims.catalogue import CLAIMS
from noisyfl.claims.declaration import check
from noisyfl.claims.findings import Finding
from noisyfl.claims.judgement import examine
from noisyfl.claims.labels import since
from noisyfl.claims.lines import lines_of
from noisyfl.claims.needs import runs_of_claim, tables_of_claims
from noisyfl.claims.query import Query
from noisyfl.claims.sources import our_side
from noisyfl.core.places import ROOT
from noisyfl.data import noisy_partition
from noisyfl.experiments.config import load_config
from noisyfl.specs.identity import identity


@pytest.fixture
def no_cells(tmp_path):
    """The file of a scale that shows none of the published numbers."""
    path = tmp_path / "cells.csv"
    path.touch()
    return path


@pytest.fixture
def table(runs):
    """A table of two methods, a column, and two trials of the first method."""
    first = [[0.1, None, 0.3, 0.5], [0.2, None, 0.5, 0.6]]
    precision = [[None, 0.25, 0.5, 0.75], [None, 0.75, 0.5, 0.25]]
    cells = [
        [
            runs.add(
                values, seed=seed, columns={"label_precision": found, "samples_backward": [10] * 4}
            )
            for seed, (values, found) in enumerate(zip(first, precision, strict=True), start=1)
        ],
        [runs.add([0.4] * 4, method="krum+dividemix", columns={"samples_backward": [20] * 4})],
    ]
    description = {
        "columns": [{"name": "μ=0.2"}],
        "rows": [
            {"name": "Digits, Plain", "group": "Digits", "label": "Plain", "method": "fedavg"},
            {"name": "Both(80)", "method": "krum+dividemix"},
        ],
        "runs": [[cell] for cell in cells],
    }
    return Artifacts({"x/one": described_table(description)}, runs.files, {}).sources()


def values(source, **where):
    found = source(Query("", ("x/one",), (), where))
    return [(number.labels, float(number.values[0])) for number in found]


def test_a_cell_is_its_statistic_in_percent(table):
    (_, one), (labels, other) = values(table["tables"])
    # The largest, in the seed that both have.
    assert (one, other) == (pytest.approx(50), pytest.approx(40))
    assert (labels["row_kind"], labels["row_1"]) == ("Both", 80)
    assert (labels["method_first"], labels["method_last"]) == ("krum", "dividemix")
    assert [v for _, v in values(table["tables"], row_group="Digits")] == [pytest.approx(50)]
    # The first row's two trials leave it open how large its mean is, and so the other's.
    found = list(table["tables"](Query("", ("x/one",), (), {})))
    assert [tuple(number.cell) for number in found] == [
        ("x/one", "Digits, Plain", "μ=0.2"),
        ("x/one", "Both(80)", "μ=0.2"),
    ]
    wide = [np.subtract(*np.quantile(number.values, [0.75, 0.25])) for number in found]
    assert wide[0] > 1
    assert wide[1] == pytest.approx(wide[0], rel=0.2)
    assert not list(table["tables"](Query("", ("x/two",), (), {})))


def test_curves_are_means_over_the_trials_that_a_cell_shows(table, runs):
    found = values(table["rounds"], row="Digits, Plain")
    # In percent of the run's thirty rounds; of the seed that both methods have.
    assert [(labels["work"], value) for labels, value in found] == [
        (3.333, pytest.approx(10)),
        (10, pytest.approx(30)),
        (13.333, pytest.approx(50)),
    ]
    where = {"row": "Digits, Plain", "metric": "label_precision", "work": since(10)}
    assert [v for _, v in values(table["rounds"], **where)] == [50, 75]
    both = [runs.add([0.1, 0.3], seed=3), runs.add([0.2, 0.5], seed=4)]
    description = {"columns": [{"name": "a"}], "rows": [{"name": "b"}], "runs": [[both]]}
    sources = Artifacts({"x/one": described_table(description)}, runs.files, {}).sources()
    assert [v for _, v in values(sources["rounds"])] == [pytest.approx(15), pytest.approx(40)]
    # A batch is ten samples backwards.
    found = values(table["batches"], row="Both(80)")
    assert [labels["work"] for labels, _ in found] == [2, 4, 6, 8]


def test_a_single_trial_is_as_sure_as_trials_of_its_data_set_elsewhere(runs):
    """Also where a column has cells of several datasets; shares of labels decide nothing alone."""

    def table(rows, trials):
        given = {"columns": [{"name": "a"}], "rows": [{"name": row} for row in rows]}
        given |= {"metric": "label_precision", "runs": [[cell] for cell in trials]}
        return described_table(given)

    def add(value, **setting):
        return runs.add([0.1], columns={"label_precision": [value]}, **setting)

    clean = {"noise_level": "constant(level=0.1)"}
    wide = [add(value, seed=seed) for seed, value in enumerate((0.4, 0.6, 0.8), 2)]
    alone = [[add(0.5)], [add(0.5, dataset="mnist", **clean)]]
    parts = {
        "x/one": table("bc", alone),
        "x/two": table("d", [wide]),
    }
    sources = Artifacts(parts, runs.files, {}).sources()
    known, unknown = sources["tables"](Query("", ("x/one",), (), {}))
    assert known.values[1:].std() > 10
    assert np.isnan(unknown.values[1:]).all()


def test_runs_in_two_columns_by_two_statistics_count_once(runs):
    cells = [
        [runs.add([0.1, end], seed=seed, method=method) for seed, end in enumerate(ends, 1)]
        for method, ends in (("fedavg", (0.5, 0.6)), ("krum", (0.5, 0.8)))
    ]
    best = {"name": "best"}
    description = {
        "rows": [{"name": "a"}, {"name": "b"}],
        "columns": [best],
        "runs": [[cell] for cell in cells],
    }
    once = Artifacts({"x/one": described_table(description)}, runs.files, {})
    description["columns"] = [best, {"name": "mean", "statistic": "mean"}]
    description["runs"] = [[cell, cell] for cell in cells]
    twice = Artifacts({"x/one": described_table(description)}, runs.files, {})
    for of_curves in (False, True):
        expected = once.spreads("test_accuracy", of_curves).by_group
        found = twice.spreads("test_accuracy", of_curves).by_group
        assert found.keys() >= expected.keys()
        assert {group: found[group] for group in expected} == expected


def test_a_trial_that_diverged_does_not_count(runs):
    cell = [runs.add([0.1, 0.9], provenance={"status": "diverged"}), runs.add([0.2, 0.4], seed=2)]
    description = {"columns": [{"name": "a"}], "rows": [{"name": "b"}], "runs": [[cell]]}
    sources = Artifacts({"x/one": described_table(description)}, runs.files, {}).sources()
    assert [v for _, v in values(sources["tables"])] == [pytest.approx(40)]
    assert [v for _, v in values(sources["rounds"])] == [pytest.approx(20), pytest.approx(40)]
    runs.add([0.2, 0.4], seed=2, provenance={"status": "diverged"})
    sources = Artifacts({"x/one": described_table(description)}, runs.files, {}).sources()
    for kind in ("tables", "rounds"):  # unknown, so that what rests on it is not decided
        assert [v for _, v in values(sources[kind])] == [pytest.approx(math.nan, nan_ok=True)]


@pytest.mark.parametrize("kind", ["tables", "rounds", "batches", "clients", "pairs"])
def test_a_cell_that_is_not_run_has_unknown_numbers(kind):
    """What rests on it is then not decided without it."""
    description = {"columns": [{"name": "a"}], "rows": [{"name": "b"}], "runs": [[[]]]}
    sources = Artifacts({"x/one": described_table(description)}, {}, {}).sources()
    found = [value for _, value in values(sources[kind])]
    assert len(found) == (2 if kind == "clients" else 1)
    assert np.isnan(found).all()


@pytest.fixture
def figure(runs, make_partition):
    """A figure of two panels, of one run with ten clients, and its noisy partition."""
    rng = np.random.default_rng(2)
    outputs = rng.random((10, 4))
    rows = [
        {
            "round": 4,
            "client": client,
            "local_train_accuracy": 0.1 * client,
            "random_image_output": outputs[client].tolist(),
            "feature_vector": (np.eye(4)[:3] * (client + 1)).tolist(),
            "feature_given_label": [0, 0, 1 + client % 2],
        }
        for client in range(10)
    ]
    run = runs.add([0.1] * 4, clients=rows)
    path = make_partition()
    panels = [{"name": "one", "lines": [{"name": "a", "run": run}]}, {"name": "two", "run": run}]
    partition = noisy_partition.read(path)
    paths = {identity(partition.spec): path}
    sources = Artifacts({"x/one": described({"panels": panels})}, runs.files, paths).sources()
    return sources, partition, outputs


def test_clients_of_a_figure(figure):
    sources, partition, _ = figure
    metrics = ["local_train_accuracy", "noise_level", "samples"]
    found = values(sources["clients"], panel="one", metric=metrics)
    assert len(found) == 3 * 10
    by_metric = {m: [v for labels, v in found if labels["metric"] == m] for m in metrics}
    assert by_metric["local_train_accuracy"] == pytest.approx([0.1 * n for n in range(10)])
    assert by_metric["noise_level"] == pytest.approx(100 * partition.realised)
    assert by_metric["samples"] == [len(client.samples) for client in partition.clients]
    # From 0 for the cleanest client to 1 for the noisiest.
    noisiest = values(
        sources["clients"],
        panel="one",
        metric="noise_level",
        noise_rank=since(0.99),
    )
    assert [value for _, value in noisiest] == [pytest.approx(100 * partition.realised.max())]


def test_pairs_of_clients(figure):
    sources, partition, outputs = figure
    pairs = list(itertools.combinations(range(10), 2))
    found = values(sources["pairs"], panel="two", metric="output_similarity")
    assert [labels["pair"] for labels, _ in found] == [f"{a} and {b}" for a, b in pairs]
    for (a, b), (_, value) in zip(pairs, found, strict=True):
        expected = (
            outputs[a] @ outputs[b] / np.sqrt(outputs[a] @ outputs[a] * (outputs[b] @ outputs[b]))
        )
        assert value == pytest.approx(expected)
    found = values(sources["pairs"], panel="two", metric="class_overlap")
    shares = [
        np.bincount(c.true_label, minlength=10) / len(c.true_label) for c in partition.clients
    ]
    for (a, b), (_, value) in zip(pairs, found, strict=True):
        assert value == pytest.approx(1 - np.abs(shares[a] - shares[b]).sum() / 2)


def test_how_far_apart_clients_class_means_are(figure):
    """Client c has two features of class 0, of length c + 1, along the first two axes, and one of
    class 1 or 2 along the third.
    """
    sources, _, _ = figure
    found = {
        labels["pair"]: value
        for labels, value in values(sources["pairs"], panel="two", metric="class_mean_distance")
    }
    # 0 and 1 share class 0: means (1/2, 1/2) and (1, 1); 0 and 2 share class 1 or 2 as well.
    mean_length = 5.5
    assert found["0 and 1"] == pytest.approx(np.sqrt(0.5) / mean_length)
    assert found["0 and 2"] == pytest.approx((np.sqrt(2) + 2) / 2 / mean_length)


def test_a_claim_about_curves(table, no_cells):
    side = our_side(no_cells, table)
    curves = side.numbers(Query("rounds", ("x/one",), ("row_kind", "work"), {}), "here")
    condition = curves["Digits, Plain"] >= curves["Both"]
    finding = Finding(tuple(check("so", condition, share=0.66)))
    # In rounds 3 and 4 of the three in which both have a value, in percent of thirty; the first
    # method's two trials say little of where other trials' curves would lie.
    margins = {case.label: case.margin for case in finding.checks[0].cases}
    assert margins == {"3.333": pytest.approx(-30), "10": -10, "13.33": pytest.approx(10)}
    assert {case.holds for case in finding.checks[0].cases} == {None}


# ---------------------------------------------------------------- the claims of the papers


@pytest.fixture(scope="module")
def plan():
    papers = ["fedcni", "fedcorr", "fednoil", "fedrn", "rofl"]
    paper = load_config([ROOT / "config" / "paper.yaml"])
    config = paper.model_copy(update={"experiments": papers})
    return checked_plan(config, "paper.yaml")


@pytest.fixture(scope="module")
def parts(plan):
    return {**plan.tables, **plan.figures}


LINES = {
    # By claim, the cells and lines that it is about, each of so many numbers.
    "rofl-03": 4 * 7,
    "rofl-09": 2 * (12 + 1),  # methods times columns
    "rofl-10": 5 * 5,
    "rofl-11": 2,
    "fedcni-10": 2 * 3,
    "fedcni-11": 3 + 2,
    "fedcni-12": 4 * 2,
    "fedcni-13": 1,
    "fednoil-10": 2 * 4 * 4,
    "fednoil-11": 2 * 3,
    "fedcorr-10": 2,
    "fedcorr-11": 6 * 2 * 3,
    "fedrn-09": 4 * 2,
    "fedrn-10": 2 + 2,
    "fedrn-11": 2 * 8,
    "fedrn-12": 6,
}


@pytest.mark.slow
def test_the_papers_experiments_have_all_runs_that_claims_name(parts):
    found = {}
    for name, claim in CLAIMS.items():
        of_runs = [one for one in claim.queries.values() if one.kind not in ("cells", "quotes")]
        if of_runs:
            found[name] = sum(len(list(lines_of(wanted, parts))) for wanted in of_runs)
    assert found == LINES


class MadeUp:
    """A run of 120 rounds whose metrics rise towards a level of their own."""

    diverged = False
    spec: ClassVar = {
        "schedule": {"rounds": 120},
        "seed": 1,
        "noisy_partition": {"dataset": "cifar10"},
    }
    provenance: ClassVar = SimpleNamespace(status="finished")

    def __init__(self, name):
        self.id, self.files = name, None

    def random(self, metric):
        return np.random.default_rng([int(self.id, 16), *metric.encode()])

    def series(self, metric, unit="ordinary_rounds"):
        rounds = np.arange(1, 121.0)
        return rounds, self.random(metric).random() * (1 - np.exp(-rounds / 30))


@pytest.mark.slow
def test_every_check_of_every_claim_can_be_decided_by_runs(parts, no_cells, monkeypatch):
    """None asks for labels that the paper's experiments do not have."""
    levels = np.linspace(0, 90, 10)
    known = {"noise_level": levels, "samples": levels + 20, "imbalance": np.sin(levels)}
    pairs = list(itertools.combinations(range(10), 2))

    def of_clients(run, metric, clients):
        return run.random(metric).random(10)

    def of_pairs(run, partition):
        return dict(zip(pairs, run.random("pairs").random(len(pairs)), strict=True))

    monkeypatch.setattr(Artifacts, "run", lambda self, name: MadeUp(name))
    monkeypatch.setattr(Artifacts, "partition", lambda self, run: SimpleNamespace(clients=levels))
    monkeypatch.setattr("noisyfl.claims.artifacts.client_features", lambda partition: known)
    for read in ("first_values", "last_values"):
        monkeypatch.setattr(f"noisyfl.claims.artifacts.{read}", of_clients)
    monkeypatch.setattr(claim_artifacts, "PAIRS", dict.fromkeys(claim_artifacts.PAIRS, of_pairs))
    side = our_side(
        no_cells, Artifacts({name: parts[name] for name in tables_of_claims()}, {}, {}).sources()
    )
    for name in LINES:
        finding = examine(CLAIMS[name], side)
        # Checks on printed numbers, of which none is there.
        of_cells = {"rofl-03": [False, True], "rofl-09": [True, False]}
        missing = of_cells.get(name, [False] * len(finding.checks))
        assert [not check.cases for check in finding.checks] == missing, name
        checks = [check for check in finding.checks if check.cases]
        assert checks
        assert all(case.known and case.cells for check in checks for case in check.cases), name


@pytest.mark.slow
def test_what_a_claim_costs(plan, parts):
    tables = plan.tables

    def need(name):
        return set(runs_of_claim(CLAIMS[name], parts))

    # A claim needs the rows and columns that it compares, in all trials.
    table = tables["fedcorr/table2"]
    row = [row.method_name for row in table.rows].index("fedcorr")
    *others, extreme = table.runs[row]
    assert set(extreme) < need("fedcorr-05")
    assert not set(others[-1]) & need("fedcorr-05")
    assert need("fedcorr-05") < set(table.run_ids()) | set(tables["fedcorr/table3"].run_ids())
    # Means in Table 8 are of the other columns' runs.
    assert need("fedrn-07") == set(tables["fedrn/table8"].run_ids())
    assert need("fedcorr-10") == set(plan.figures["fedcorr/figure3"].runs)
    assert all(need(name) for name in CLAIMS)
