"""A small scale for the explorer: a table with published numbers, one without, failed runs."""

import json
import random

import numpy as np
import pyarrow as pa

from descriptions import described_table
from noisyfl.analysis.frame import tidy, write_frame
from noisyfl.analysis.runs import read_runs
from noisyfl.claims.declaration import Claim
from noisyfl.claims.findings import Case, Check, Finding
from noisyfl.claims.judgement import Judgement
from noisyfl.claims.labels import Place
from noisyfl.core.artifacts import Results, write_json
from noisyfl.data import noisy_partition
from noisyfl.explorer.gather import ShownScale, Sources
from noisyfl.specs.identity import identity
from noisyfl.specs.published import read_published
from noisyfl.specs.spec import canonical_run
from small_status import status_with
from small_tables import FIELDS

LOW, HIGH = "IID, low", "IID, high"

EVIL = "<script>alert(1)</script>"

PUBLISHED = f"""{FIELDS}
p,t1,cifar10,federated,iid(n=100),low,fedavg,,test_accuracy,72.00,percent,0.50,5,best,,
p,t1,cifar10,federated,iid(n=100),high,fedavg,,test_accuracy,93.11,percent,0.12,5,best,,
p,t1,cifar10,federated,iid(n=100),low,fedcorr,,test_accuracy,90.50,percent,0.70,5,best,,
p,t1,cifar10,federated,iid(n=100),high,fedcorr,,test_accuracy,40.00,percent,,5,best,,
p,t1,cifar10,federated,iid(n=100),low,fedprox,,test_accuracy,70.00,percent,,5,best,,
p,t1,cifar10,federated,iid(n=100),low,rofl,,test_accuracy,80.00,percent,,5,best,,
"""

ACCURACIES = {
    ("fedavg", LOW): [[0.5, 0.71, 0.70], [0.5, 0.72, 0.60], [0.5, 0.73, 0.71]],
    ("fedavg", HIGH): [[0.3, 0.60, 0.55], [0.3, 0.61, 0.50]],
    ("fedcorr", LOW): [[0.6, 0.91, 0.90], [0.6, 0.90, 0.89]],
    ("fedcorr", HIGH): [[0.2, 0.30, 0.10]],
}

METHODS = ("fedavg", "fedcorr", "fedprox")


def small_scale(folder, runs, trained=True):
    """What the explorer is made of: nothing is trained where that is not asked for."""
    (folder / "published.csv").write_text(PUBLISHED)
    ids = {}
    for method in METHODS:
        for column in (LOW, HIGH):
            some = ACCURACIES.get((method, column), []) if trained else []
            ids[method, column] = [
                added(runs, method, column, seed, found) for seed, found in enumerate(some, 1)
            ]
    asked, specs = dict(ids), {}
    for (method, column), found in ids.items():
        if not found:
            spec = spec_of(runs, method, column, 1)
            asked[method, column] = [identity(spec)]
            specs[identity(spec)] = spec
    papers = {}
    for method, column in ids:
        spec = spec_of(runs, method, column, 1, partition={"name": "iid", "clients": 100})
        papers[method, column] = [identity(spec)]
        specs[identity(spec)] = spec
    tables = [table(folder, ids), table(folder, ids, "t2", published=False)]
    frames = []
    found = read_runs(runs.files)
    for one in tables:
        frames.append(folder / f"{one.name}.parquet")
        write_frame(frames[-1], tidy(one, found))
    failed(runs.results, asked["fedprox", HIGH][0])
    return Sources(
        scale=ShownScale(
            name="tiny",
            note=f"Made up. {EVIL}",
            reasons={"clients": "Fewer, for a test."},
            options="--configfile config/tiny.yaml",
        ),
        tables=tables,
        frames=frames,
        runs=runs.files,
        layouts=[runs.results, Results(folder / "elsewhere")],
        scale_tables={f"p/{one.name}": with_runs(one, asked) for one in tables},
        paper_tables={f"p/{one.name}": with_runs(one, papers) for one in tables},
        plan={**specs, **{run: one.spec for run, one in found.items()}},
        judgements=[claim()] if trained else (),
    )


def claim():
    """A claim that holds on the paper's numbers, and not on ours."""
    said = Claim("p-01", "Table 1", f"More noise hurts. {EVIL}", "", "", {}, lambda: iter(()))
    theirs = Place("p/t1", "fedavg federated", "cifar10, iid(n=100), low")
    ours = Place("p/t1", "Row of fedavg", HIGH)
    return Judgement(
        said,
        Finding((Check("low is better", (Case("FedAvg", "93.1 > 72.0", 21.1, True, (theirs,)),)),)),
        Finding((Check("low is better", (Case("FedAvg", "60.5 < 72.0", -1.5, False, (ours,)),)),)),
    )


def added(runs, method, column, seed, accuracies):
    """A run with what its method thought, and its noisy partition; the worst one diverges."""
    diverged = method == "fedcorr" and column == HIGH
    rounds = len(accuracies)
    columns = {"bytes_down": np.full(rounds, 1_000_000), "bytes_up": np.full(rounds, 500_000)}
    clients = ()
    if method == "fedcorr":
        columns["label_precision"] = pa.array([0.5, 0.7, 0.9][:rounds], pa.float64())
        columns["label_accuracy"] = pa.array([0.6, 0.7, 0.8][:rounds], pa.float64())
        clients = [
            {"round": 2, "client": n, "estimated_noise_level": n / 10, "pseudo_label_accuracy": 0.9}
            for n in range(10)
        ]
    run = runs.add(
        accuracies,
        method=method,
        seed=seed,
        clients=clients,
        columns=columns,
        provenance={"status": "diverged"} if diverged else {},
        **setting_of(column),
    )
    spec = json.loads(runs.files[run].spec.read_text())["noisy_partition"]
    path = runs.results.partition(identity(spec))
    if not path.exists():
        noisy_partition.write(path, spec, np.arange(1437) % 10)
    return run


def setting_of(column):
    low = {"noise_level": "bernoulli_uniform(rho=0.5, tau=0.0)"}
    return low if column == LOW else {}


def spec_of(runs, method, column, seed, **more):
    given = {**runs.setting, **setting_of(column), **more, "method": method, "seed": seed}
    return canonical_run(given, "test")


def table(folder, ids, name="t1", published=True):
    selection = {"paper": "p", "table": "t1", "dataset": "cifar10", "setting_scope": "federated"}
    own = {} if published else None
    return described_table(
        {
            "experiment": "p",
            "experiment_title": "A paper",
            "name": name,
            "title": f"{name}: methods & noises {EVIL}",
            "note": "Take `note`.",
            "published": selection if published else None,
            "columns": [
                {
                    "name": name,
                    "group": "IID",
                    "label": label,
                    "published": {"noise": label} if published else None,
                }
                for name, label in ((LOW, "low"), (HIGH, "high"))
            ],
            "rows": [
                {"name": f"Row of {method}", "method": method, "published": own}
                for method in METHODS
            ],
            "runs": [[ids[method, column] for column in (LOW, HIGH)] for method in METHODS],
            "as_published": [[True, True], [True, False], [False, False]],
        },
        read_published(folder / "published.csv"),
    )


def with_runs(one, ids):
    """A table with other runs in its cells."""
    return one.with_runs([[ids[method, c] for c in (LOW, HIGH)] for method in METHODS])


def failed(results, run):
    """What a run says of itself that failed."""
    told = status_with(state="failed", error=f"CUDA: out of memory {EVIL}")
    write_json(results.status(run), told)


def many(index, details, runs, rounds=100):
    """The same scale with so many runs: one of its cells over and over, with made-up curves."""
    chance = random.Random(1)
    steps = ",".join(["100"] * rounds)
    index, details = json.loads(json.dumps(index)), json.loads(json.dumps(details))
    first, cells = index["runs"][0], index["cells"]
    table = index["tables"][0]
    mould = cells[table["rows"][0]["cells"][0]]
    index["runs"], index["cells"], index["tables"], details["runs"] = [], [], [], []
    for n in range(runs // 40):
        rows = []
        for r in range(5):
            line = []
            for c in range(4):
                pair = []
                for seed in (1, 2):
                    pair.append(len(index["runs"]))
                    one = {**first, "id": f"{chance.getrandbits(64):016x}", "seed": seed}
                    one["made"] = {**first["made"], "training_seconds": chance.random() * 1000}
                    index["runs"].append(one)
                    curves = {
                        name: [steps, ",".join(str(chance.randint(-99, 99)) for _ in range(rounds))]
                        for name in ("test_accuracy", "label_precision", "label_recall")
                    }
                    details["runs"].append({"curves": curves, "relabelled": {}, "estimates": {}})
                line.append(len(index["cells"]))
                index["cells"].append({**mould, "table": n, "at": [r, c], "runs": pair})
            row = table["rows"][0]
            rows.append({**row, "name": f"Row {r}", "label": f"Row {r}", "cells": line})
        columns = [{"name": f"C{c}", "label": f"C{c}", "group": ""} for c in range(4)]
        index["tables"].append({**table, "name": f"p/t{n}", "rows": rows, "columns": columns})
    return index, details
