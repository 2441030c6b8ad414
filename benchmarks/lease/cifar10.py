"""CIFAR-10 to a borrowed machine without a loss, in two halves of 49 MiB, as lossless WebP.

``cifar10.py pack FOLDER ONE OTHER``
    packs what torchvision has unpacked in FOLDER (or the same files as .xz)
``cifar10.py unpack ONE OTHER RESULTS``
    writes noisyfl's Parquet, if the pixels and labels have the SHA-256 of those that were packed
"""

from __future__ import annotations

import hashlib
import io
import json
import lzma
import pickle
import sys
from collections.abc import Sequence
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path

import numpy as np
from PIL import Image

COLUMNS = 8
EACH = COLUMNS**2
"""Images of a mosaic, which a picture has: fewer pictures are smaller together."""

CHUNK = 40
"""Mosaics that a process packs or unpacks at a time."""

SIZES = {"train": 50_000, "test": 10_000}
CUT = 30_000 // EACH * EACH
HALVES = [[("train", 0, CUT)], [("train", CUT, SIZES["train"]), ("test", 0, SIZES["test"])]]


def encode(images: np.ndarray) -> list[bytes]:
    """Images, uint8 [n, 32, 32, 3], as lossless WebP mosaics; the last is filled up with black."""
    found = []
    for start in range(0, len(images), EACH):
        whole = np.zeros((EACH, 32, 32, 3), np.uint8)
        part = images[start : start + EACH]
        whole[: len(part)] = part
        mosaic = whole.reshape(COLUMNS, COLUMNS, 32, 32, 3).swapaxes(1, 2)
        out = io.BytesIO()
        picture = Image.fromarray(mosaic.reshape(COLUMNS * 32, COLUMNS * 32, 3))
        picture.save(out, "WEBP", lossless=True, quality=50, method=2, exact=True)
        found.append(out.getvalue())
    return found


def decode(mosaics: Sequence[bytes]) -> np.ndarray:
    """The images of mosaics, uint8 [mosaics x 64, 32, 32, 3]."""
    found = []
    for content in mosaics:
        mosaic = np.asarray(Image.open(io.BytesIO(content)).convert("RGB"))
        cut = mosaic.reshape(COLUMNS, 32, COLUMNS, 32, 3).swapaxes(1, 2)
        found.append(cut.reshape(EACH, 32, 32, 3))
    return np.concatenate(found)


def read(folder: Path, name: str) -> dict[bytes, np.ndarray]:
    """One of the files of CIFAR-10."""
    plain = folder / name
    if plain.exists():
        content = plain.read_bytes()
    else:
        content = lzma.decompress(plain.with_name(f"{name}.xz").read_bytes())
    return pickle.loads(content, encoding="bytes")


def digest(images: np.ndarray, labels: np.ndarray) -> str:
    """The SHA-256 of pixels and labels."""
    return hashlib.sha256(images.tobytes() + labels.tobytes()).hexdigest()


def pack(source: Path, *halves: Path) -> None:
    """Write ``cifar10.bin`` and ``cifar10.json`` into two folders."""
    files = {"train": [f"data_batch_{n}" for n in range(1, 6)], "test": ["test_batch"]}
    images, labels = {}, {}
    for part, names in files.items():
        batches = [read(source, name) for name in names]
        pixels = [batch[b"data"].reshape(-1, 3, 32, 32).transpose(0, 2, 3, 1) for batch in batches]
        images[part] = np.ascontiguousarray(np.concatenate(pixels))
        labels[part] = np.concatenate([np.array(batch[b"labels"], np.uint8) for batch in batches])
    digests = {part: digest(images[part], labels[part]) for part in files}
    with ProcessPoolExecutor() as pool:
        for folder, pieces in zip(halves, HALVES, strict=True):
            sizes: list[int] = []
            with (folder / "cifar10.bin").open("wb") as out:
                for part, first, last in pieces:
                    starts = range(first, last, EACH * CHUNK)
                    chunks = [images[part][s : min(s + EACH * CHUNK, last)] for s in starts]
                    for mosaics in pool.map(encode, chunks):
                        out.writelines(mosaics)
                        sizes += map(len, mosaics)
            given = {part: labels[part][a:b].tobytes().hex() for part, a, b in pieces}
            about = {"sizes": sizes, "digests": digests, "labels": given}
            (folder / "cifar10.json").write_text(json.dumps(about))
            print(f"{folder}: {sum(sizes) / 2**20:.1f} MiB", flush=True)


def unpack(one: Path, other: Path, results: Path) -> None:
    """Write both parts as a run reads them.

    Raises:
        SystemExit: a part is not what was packed.
    """
    images = {part: np.empty((size, 32, 32, 3), np.uint8) for part, size in SIZES.items()}
    labels = {part: np.empty(size, np.uint8) for part, size in SIZES.items()}
    with ProcessPoolExecutor() as pool:
        for folder, pieces in zip((one, other), HALVES, strict=True):
            about = json.loads((folder / "cifar10.json").read_text())
            content, ends = (folder / "cifar10.bin").read_bytes(), np.cumsum(about["sizes"])
            sizes = zip(about["sizes"], ends.tolist(), strict=True)
            mosaics, place = [content[end - size : end] for size, end in sizes], 0
            for part, first, last in pieces:
                count = -(-(last - first) // EACH)
                mine, place = mosaics[place : place + count], place + count
                found = pool.map(decode, [mine[s : s + CHUNK] for s in range(0, count, CHUNK)])
                images[part][first:last] = np.concatenate(list(found))[: last - first]
                given = bytes.fromhex(about["labels"][part])
                labels[part][first:last] = np.frombuffer(given, np.uint8)
    # Imported once no process is forked any more: Arrow has threads.
    from noisyfl.core.artifacts import Results, write_table
    from noisyfl.data.datasets.dataset import dataset
    from noisyfl.data.datasets.parts import metadata_of, table_of_pixels

    facts, layout = dataset("cifar10"), Results(results)
    for part in SIZES:
        if digest(images[part], labels[part]) != about["digests"][part]:
            sys.exit(f"CIFAR-10's {part} part is not what was packed")
        table = table_of_pixels(images[part], labels[part].astype(np.int64))
        write_table(layout.data("cifar10", part), table, metadata_of(facts, part, facts.shape))


if __name__ == "__main__":
    one, two, three = map(Path, sys.argv[2:])
    if sys.argv[1] == "pack":
        pack(one, two, three)
    else:
        unpack(one, two, three)
