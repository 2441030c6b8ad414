"""Small official files of public datasets, and what becomes of them."""

import dataclasses
import gzip
import hashlib
import struct

import numpy as np

from noisyfl.data.datasets import dataset as datasets
from noisyfl.data.datasets.dataset import DATASETS
from noisyfl.data.datasets.hub import Digests
from noisyfl.data.datasets.parts import prepare, read_part

SIZES = {"train": 60, "test": 20}


def md5(content):
    return hashlib.md5(content).hexdigest()


def small_arrays(shape):
    rng = np.random.default_rng(0)
    return {
        part: (
            rng.integers(256, size=(size, *shape), dtype=np.uint8),
            rng.permutation(np.arange(size) % 10),
        )
        for part, size in SIZES.items()
    }


def digests(arrays):
    """The digests of arrays, as those of official files are known."""

    def sha256(array):
        return hashlib.sha256(np.ascontiguousarray(array).tobytes()).hexdigest()

    return {
        part: Digests(sha256(images), sha256(labels.astype(np.uint8)))
        for part, (images, labels) in arrays.items()
    }


def idx(array):
    header = struct.pack(f">BBBB{array.ndim}I", 0, 0, 8, array.ndim, *array.shape)
    return header + array.astype(np.uint8).tobytes()


def shrink(monkeypatch, name, train=60, test=20):
    """Let the dataset's facts be those of the small files."""
    facts = dataclasses.replace(DATASETS[name], train_size=train, test_size=test)
    monkeypatch.setitem(datasets.DATASETS, name, facts)


def pack(content):
    return gzip.compress(content, mtime=0)


def fill(folder, contents, packed):
    folder.mkdir(parents=True, exist_ok=True)
    for file, content in contents.items():
        if packed:
            (folder / f"{file}.gz").write_bytes(pack(content))
        else:
            (folder / file).write_bytes(content)


def listing(*folders):
    """All that is in some folders, with what would change if anything were written to it."""
    there = [folder for folder in folders if folder.exists()]
    return {
        path: (path.lstat().st_mtime_ns, path.lstat().st_size)
        for folder in there
        for path in (folder, *folder.rglob("*"))
    }


def prepare_in(tmp_path, name, folder, download=False):
    paths = {part: tmp_path / "results" / f"{part}.parquet" for part in ("train", "test")}
    prepare(name, folder, download, paths["train"], paths["test"])
    return paths


def assert_holds(paths, arrays):
    for part, (images, labels) in arrays.items():
        read = read_part(paths[part])
        np.testing.assert_array_equal(read.images, images)
        np.testing.assert_array_equal(read.labels, labels)
        assert read.images.dtype == np.uint8
        assert read.labels.dtype == np.int64
