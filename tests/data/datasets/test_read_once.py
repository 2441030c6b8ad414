"""A run opens each file of its data once or twice, however long it trains."""

import ctypes
import os
import struct
import sys
import tempfile
import threading
from collections import Counter
from contextlib import contextmanager
from pathlib import Path

import pytest

import official_trees as trees
from noisyfl.core.artifacts import Results
from noisyfl.data import noisy_partition
from noisyfl.data.datasets import shards
from noisyfl.data.datasets.parts import prepare, read_part
from noisyfl.runs.train import Inputs, TrainingOptions, train_run
from noisyfl.specs.identity import identity
from small_files import shrink
from small_runs import SETTING, spec_of

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="inotify is Linux's")

OPENED = 0x20


@contextmanager
def counted(paths):
    """How often files are opened, by path: a counter that is whole when the block has ended.

    The kernel's own count, whoever opens them and by which library. Equal events in a row are told
    as one; so folders are watched too, of which each event is told between two of their files'.
    """
    libc = ctypes.CDLL(None, use_errno=True)
    inotify = libc.inotify_init1(0)
    assert inotify >= 0
    found: Counter = Counter()
    with tempfile.NamedTemporaryFile() as end:
        names = {}
        for path in (*{path.parent for path in paths}, *paths, Path(end.name)):
            watch = libc.inotify_add_watch(inotify, os.fsencode(path), OPENED)
            assert watch >= 0
            names[watch] = path

        def listen():
            while not found[Path(end.name)]:
                events = os.read(inotify, 2**16)
                while events:
                    watch, _, _, length = struct.unpack_from("iIII", events)
                    events = events[16 + length :]
                    found[names[watch]] += 1

        thread = threading.Thread(target=listen, daemon=True)
        thread.start()
        try:
            yield found
        finally:
            Path(end.name).read_bytes()
            thread.join(timeout=120)
            assert not thread.is_alive()
            os.close(inotify)


def setting(dataset, rounds, epochs):
    is_digits = dataset == "digits"
    schedule = {"rounds": rounds, "local_epochs": epochs, "participation": 1.0, "batch_size": 4}
    return spec_of(
        "fedavg",
        dataset=dataset,
        partition="iid(clients=3)",
        augmentation="crop" if is_digits else "crop_flip",
        normalization="dataset" if is_digits else "imagenet",
        schedule={**SETTING["schedule"], **schedule},
    )


def opens(dataset, results, rounds, epochs):
    """By name, how often a run of some rounds and local epochs opens the files of its data."""
    spec = setting(dataset, rounds, epochs)
    train, test = (results.data(dataset, part) for part in ("train", "test"))
    partition = results.partition(identity(spec["noisy_partition"]))
    if not partition.exists():
        noisy_partition.write(partition, spec["noisy_partition"], read_part(train).labels)
    files = [train, test, partition, *sorted(train.parent.glob("*/*.arrow"))]
    with counted(files) as found:
        train_run(
            spec,
            Inputs(train, test, partition),
            results.run(identity(spec)),
            results.root / "checkpoint.pt",
            TrainingOptions(device="cpu"),
            log=lambda line: None,
        )
    root = results.root
    return {path.relative_to(root).as_posix(): found[path] for path in files}


def test_the_counter_counts(tmp_path):
    one, other = tmp_path / "one", tmp_path / "other"
    for path in (one, other):
        path.write_text("x")
    with counted([one, other]) as found:
        for path in (one, one, other, one):
            path.read_text()
        for _ in range(500):
            with one.open(), one.open():
                pass
    assert (found[one], found[other]) == (1003, 1)


@pytest.mark.parametrize("dataset", ["digits", "covidx"])
@pytest.mark.slow
def test_a_run_opens_its_data_as_often_however_long_it_trains(tmp_path, monkeypatch, dataset):
    if dataset == "covidx":
        monkeypatch.setattr(shards, "SHARD_SIZE", 6)
        shrink(monkeypatch, "covidx", 12, 6)
        trees.covidx(tmp_path / "data", 12, 6)
    results = Results(tmp_path / "results")
    parts = [results.data(dataset, part) for part in ("train", "test")]
    prepare(dataset, tmp_path / "data", False, *parts)
    short, long = opens(dataset, results, 1, 1), opens(dataset, results, 4, 3)
    assert short == long
    indexed = {name: count for name, count in long.items() if "/train/" in name or "/test/" in name}
    assert len(indexed) == {"digits": 0, "covidx": 3}[dataset]
    # A mapped shard stays open. Of the others the metadata are read apart from the table.
    assert set(indexed.values()) <= {1}
    assert all(1 <= count <= 2 for count in long.values())
