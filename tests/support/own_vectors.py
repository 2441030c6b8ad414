"""One small dataset of vectors of one's own, in every format that is read."""

import csv

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq

from noisyfl.core.registry import parse_component
from noisyfl.data.datasets.own_vectors import RequestedVectors
from noisyfl.data.datasets.parts import read_part
from noisyfl.data.own_files import OwnFiles

CLASSES = ("ill", "well")
FEATURES = ("age", "pulse", "smokes")
TRAIN, TEST = 40, 10


def vectors():
    """Vectors, float64 [n, 3], and the numbers of their classes, int64 [n], by part."""
    rng = np.random.default_rng(0)
    found = {}
    for part, count in (("train", TRAIN), ("test", TEST)):
        labels = np.arange(count) % 2
        values = rng.normal((50, 70, 0), (20, 10, 0.1), (count, 3)) + 30 * labels[:, None]
        found[part] = np.round(values, 3), labels
    return found


def given_labels():
    """Given labels of the training part, of which some are wrong."""
    return np.where(np.arange(TRAIN) % 5 == 0, 1 - vectors()["train"][1], vectors()["train"][1])


def as_csv(data):
    for part, (values, labels) in vectors().items():
        with (data / f"{part}.csv").open("w", newline="") as file:
            lines = csv.writer(file)
            lines.writerow(["label", *FEATURES, "given"])
            for vector, label, given in zip(values, labels, given_labels(), strict=False):
                lines.writerow([CLASSES[label], *vector, CLASSES[given]])
    return "vectors(path='train.csv', test='test.csv', given='given')"


def as_columns(data):
    (data / "columns").mkdir()
    for part, (values, labels) in vectors().items():
        columns = dict(zip(FEATURES, values.T, strict=True))
        columns |= {"label": [CLASSES[label] for label in labels]}
        columns |= {"given": [CLASSES[label] for label in given_labels()[: len(labels)]]}
        pq.write_table(pa.table(columns), data / "columns" / f"{part}.parquet")
    return "vectors(path='columns', given='given')"


def as_lists(data):
    (data / "lists").mkdir()
    for part, (values, labels) in vectors().items():
        columns = {"features": values.tolist(), "label": [CLASSES[label] for label in labels]}
        columns |= {"given": [CLASSES[label] for label in given_labels()[: len(labels)]]}
        pq.write_table(pa.table(columns), data / "lists" / f"{part}.parquet")
    return "vectors(path='lists', given='given')"


def as_npz(data):
    parts = vectors()
    content = {f"{part}_features": values for part, (values, _) in parts.items()}
    content |= {f"{part}_label": labels for part, (_, labels) in parts.items()}
    np.savez(data / "set.npz", train_given=given_labels(), **content)
    return "vectors(path='set.npz', classes=['ill', 'well'], given='given')"


FORMATS = {"csv": as_csv, "columns": as_columns, "lists": as_lists, "npz": as_npz}


def wanted(text, **more):
    """The vectors that a text asks for."""
    options = parse_component(text)
    options.pop("name")
    return RequestedVectors.read({**options, **more})


def read(folder, text, **more):
    """What is known of them, and both parts, once a folder's files are read."""
    own = OwnFiles(folder, folder / "results")
    facts = own.read(wanted(text, **more))
    return facts, *(read_part(own.results.data(facts.name, part)) for part in ("train", "test"))


def table_of(folder, **columns):
    """A .csv with 20 rows of two classes."""
    frame = pd.DataFrame({"label": list("ab") * 10, "x": np.linspace(0, 1, 20) ** 2, **columns})
    frame.to_csv(folder / "table.csv", index=False)
    return "vectors(path='table.csv', test_share=0.2)"


def with_sites(folder):
    """A table that also has a number and a site for each row; returns what reads the vectors."""
    train = pd.read_csv(as_csv(folder) and folder / "train.csv")
    sites = ["east", "west", "north", "west"] * (TRAIN // 4)
    train.assign(case=range(TRAIN), site=sites).to_csv(folder / "records.csv", index=False)
    return sites, "vectors(path='records.csv', test_share=0.2, without=['case', 'site', 'given'])"
