"""A table of two methods in two settings, and what is printed of it."""

import re
from dataclasses import replace
from html.parser import HTMLParser
from types import SimpleNamespace

import pandas as pd

from descriptions import described_table
from noisyfl.analysis.cells import collect
from noisyfl.analysis.runs import read_runs
from noisyfl.pages.print_table import print_table
from noisyfl.specs.published import read_published
from noisyfl.specs.run_words import changed_options

LOW, HIGH = "level=low", "level=high"

ENDINGS = ("parquet", "csv", "md", "html", "tex")

FIELDS = (
    "paper,table,dataset,setting_scope,partition,noise,method,variant,metric,value,unit,std,trials,"
    "statistic,converged,note"
)
PUBLISHED = f"""{FIELDS}
p,t1,cifar10,centralized,iid(n=100),low,dividemix,,test_accuracy,95.64,percent,0.05,5,best,,
p,t1,cifar10,federated,iid(n=100),low,fedavg,,test_accuracy,93.11,percent,0.12,5,best,,
p,t1,cifar10,federated,iid(n=100),high,fedavg,,test_accuracy,72.00,percent,2.76,5,best,,
p,t1,cifar10,federated,iid(n=100),high,fedavg,,label_recall,10.00,percent,,5,best,,
p,t1,cifar10,federated,iid(n=100),low,fedcorr,,test_accuracy,93.82,percent,0.41,5,best,,
p,t1,cifar10,federated,iid(n=100),low,fedcorr,without_mixup,test_accuracy,90.63,percent,0.70,5,best,,
p,t1,cifar10,federated,iid(n=100),high,rofl,,test_accuracy,0.741,fraction,,5,best,False,
p,t1,cifar100,federated,iid(n=100),low,fedavg,,test_accuracy,11.11,percent,,5,best,,
p,t2,cifar10,federated,iid(n=100),low,fedavg,,test_accuracy,22.22,percent,,5,best,,
"""


def table_in(folder, runs):
    """A table of two methods in two settings, with three trials a cell."""
    (folder / "published.csv").write_text(PUBLISHED)
    low = {"noise_level": "bernoulli_uniform(rho=0.5, tau=0.0)"}
    accuracies = {
        ("fedavg", LOW): [[0.5, 0.80, 0.70], [0.5, 0.70, 0.60], [0.5, 0.90, 0.80]],
        ("fedavg", HIGH): [[0.5, 0.60], [0.5, 0.60], [0.5, 0.60]],
        ("mixed", LOW): [[0.5, 0.85], [0.5, 0.95], [0.5, 0.90]],
        ("mixed", HIGH): [[0.30, 0.20], [0.40, 0.20], [0.50, 0.20]],
    }
    method = {"fedavg": "fedavg", "mixed": 'fedcorr(variant="without_mixup")'}
    ids = {
        (row, column): [
            runs.add(trial, method=method[row], seed=seed, **({} if column == HIGH else low))
            for seed, trial in enumerate(trials, 1)
        ]
        for (row, column), trials in accuracies.items()
    }
    description = {
        "experiment": "p",
        "experiment_title": "A paper",
        "name": "t1",
        "title": "Table 1: two | methods",
        "note": "Take note.",
        "scale": "tiny",
        "scale_note": "",
        "metric": "test_accuracy",
        "statistic": "best",
        "published": {
            "paper": "p",
            "table": "t1",
            "dataset": "cifar10",
            "setting_scope": "federated",
        },
        "columns": [
            {"name": LOW, "published": {"noise": "low"}},
            {"name": HIGH, "published": {"noise": "high"}},
        ],
        "rows": [
            {"name": "FedAvg", "published": {}, "method": "fedavg"},
            {"name": "w/o mixup", "published": {}, "method": method["mixed"]},
        ],
        "runs": [[ids[row, column] for column in (LOW, HIGH)] for row in ("fedavg", "mixed")],
        "as_published": [[False, False], [False, False]],
    }
    return SimpleNamespace(description=description, runs=runs, folder=folder)


def described_in(table):
    """What the table's job is told, given the published numbers in its folder."""
    found = described_table(table.description, read_published(table.folder / "published.csv"))
    specs = table.runs.specs

    def with_changes(cell):
        changed = changed_options(specs[cell.runs[0]]) if cell.runs else {}
        return replace(cell, changed_options=changed)

    return replace(found, cells=tuple(tuple(map(with_changes, row)) for row in found.cells))


def printed(table):
    """The three files' texts."""
    out = {ending: table.folder / "out" / f"t1.{ending}" for ending in ENDINGS}
    named = {"frame": "parquet", "csv": "csv", "markdown": "md", "html": "html", "tex": "tex"}
    files = {name: out[ending] for name, ending in named.items()}
    print_table(described_in(table), table.runs.files, **files)
    assert set((table.folder / "out").iterdir()) == set(out.values())
    return {ending: path.read_text() for ending, path in out.items() if ending != "parquet"}


def numbers(table):
    """The CSV file as pandas reads it."""
    printed(table)
    return pd.read_csv(table.folder / "out" / "t1.csv").set_index("row")


def content(table):
    return collect(described_in(table), read_runs(table.runs.files))


def markdown_cells(text, row):
    """The cells of one row of the page's table."""
    (line,) = [line for line in text.splitlines() if line.startswith(f"| {row}")]
    return [cell.strip() for cell in re.split(r"(?<!\\)\|", line)[1:-1]]


class Text(HTMLParser):
    """The text of a page, and the tags it is made of."""

    def __init__(self, page):
        super().__init__()
        self.tags, self.text = [], []
        self.feed(page)

    def handle_starttag(self, tag, attrs):
        self.tags.append((tag, dict(attrs)))

    def handle_data(self, data):
        self.text.append(data.strip())
