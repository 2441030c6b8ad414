"""Images kept as JPEG in shards, for datasets whose pixels would fill the memory.

A shard is a plain Parquet file (``image``: JPEG, ``label``, ``file``) that is not compressed again,
so that the bytes of every image lie in it unchanged. The part's own file is an index: the shard of
each image, where in it the image begins, and its checksum. An image is read from a memory-mapped
file, which takes no memory but the system's page cache, and all runs on a machine share that.
"""

from __future__ import annotations

import hashlib
import json
import mmap
import zlib
from collections.abc import Callable
from functools import partial
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from noisyfl.core.artifacts import METADATA_KEY, DamagedArtifact, replacing, to_numpy
from noisyfl.data.datasets.images import JPEG_QUALITY, Files, Unreadable, in_order, jpeg

SHARD_SIZE = 8_192
"""Images per shard, which is some 200 MB for images of 256x256 pixels."""

GROUP_SIZE = 256
"""Images that are written together, and so are in memory at the same time."""

SCHEMA = pa.schema({"image": pa.binary(), "label": pa.int64(), "file": pa.string()})
"""The columns of a shard."""

INDEX = {
    "label": pa.int64(),
    "shard": pa.int32(),
    "offset": pa.int64(),
    "length": pa.int32(),
    "crc32": pa.int64(),
}
"""The columns of a part's index, which has one row per image: its label, the number of its shard,
where in that file it begins, how many bytes it has, and their CRC-32."""


def write_shards(
    files: Files, folder: Path, size: int = SHARD_SIZE
) -> tuple[list[Path], list[Unreadable]]:
    """Write a part's images as shards; intact shards made from the same files are kept.

    Returns:
        The shards in order, and the files that cannot be read as images. A shard that would
        contain such a file is not written; all others are.
    """
    shards, unreadable = [], []
    for first in range(0, len(files), size):
        piece = files.part(first, first + size)
        path = folder / f"{first // size:05d}.parquet"
        digest = _digest(piece)
        if _source_digest(path) != digest:
            unreadable += _write_shard(path, piece, digest)
        shards.append(path)
    for stale in sorted(set(folder.glob("*.parquet")) - set(shards)):
        stale.unlink()
    return shards, unreadable


def index_of(shards: list[Path]) -> pa.Table:
    """The index of shards, a table with the columns :data:`INDEX`.

    Raises:
        DamagedArtifact: a shard is truncated, or compressed, so that images do not lie in it
            unchanged.
    """
    rows: dict[str, list[int]] = {name: [] for name in INDEX}
    for number, path in enumerate(shards):
        try:
            with pq.ParquetFile(path, memory_map=True) as file, _mapped(path) as content:
                end = 0
                for batch in file.iter_batches(GROUP_SIZE, columns=["image", "label"]):
                    labels = to_numpy(batch.column("label"))
                    for value, label in zip(batch.column("image"), labels, strict=True):
                        image = value.as_buffer().to_pybytes()
                        begin = content.find(image, end)
                        if begin < 0:
                            raise DamagedArtifact(f"{path}: its images are compressed; {_ANEW}")
                        end = begin + len(image)
                        entry = (int(label), number, begin, len(image), zlib.crc32(image))
                        for name, field in zip(INDEX, entry, strict=True):
                            rows[name].append(field)
        except (pa.ArrowInvalid, pa.ArrowIOError, ValueError) as error:
            if isinstance(error, DamagedArtifact):
                raise
            raise DamagedArtifact(f"{path}: not a whole shard ({error}); {_ANEW}") from error
    return pa.table({name: pa.array(rows[name], kind) for name, kind in INDEX.items()})


class Encoded:
    """The images of a part that is kept in shards.

    Args:
        index: as :func:`index_of` returns it.
        shape: of an image: height, width, channels.

    Raises:
        DamagedArtifact: a shard is not there, or too short for the images that it should have.
    """

    def __init__(self, shards: list[Path], index: pa.Table, shape: tuple[int, int, int]) -> None:
        self.image_shape = shape
        self._paths = shards
        self._files: dict[int, mmap.mmap] = {}
        columns = (to_numpy(index[name].combine_chunks()) for name in list(INDEX)[1:])
        self._shard, self._offset, self._length, self._crc32 = columns
        ends = np.zeros(len(shards), dtype=np.int64)
        np.maximum.at(ends, self._shard, self._offset + self._length)
        for path, end in zip(shards, ends, strict=True):
            _check_length(path, int(end))

    def __len__(self) -> int:
        return len(self._offset)

    def jpeg(self, row: int) -> bytes:
        """An image's JPEG bytes.

        Raises:
            DamagedArtifact: the shard is not as it was written.
        """
        shard, begin = int(self._shard[row]), int(self._offset[row])
        if shard not in self._files:
            self._files[shard] = _mapped(self._paths[shard])
        image = self._files[shard][begin : begin + int(self._length[row])]
        if zlib.crc32(image) != self._crc32[row]:
            raise DamagedArtifact(
                f"{self._paths[shard]}: image {row} does not fit its checksum; {_ANEW}"
            )
        return image

    def decoded(self, row: int) -> np.ndarray:
        """An image's pixels, uint8 [channels, height, width]."""
        import torch
        from torchvision.io import ImageReadMode, decode_jpeg

        coded = torch.frombuffer(bytearray(self.jpeg(row)), dtype=torch.uint8)
        return decode_jpeg(coded, ImageReadMode.RGB).numpy()


_ANEW = "delete it and the part's index, to have them made again"


class _NotWritten(Exception):
    """A shard is not written, since one of its files cannot be read as an image."""


def _write_shard(path: Path, files: Files, digest: str) -> list[Unreadable]:
    """Write a shard, unless some of its files cannot be read as images; return those."""
    work: Callable[[Path], bytes | Unreadable] = partial(jpeg, fit=files.fit)
    images = in_order(work, files.paths())
    unreadable: list[Unreadable] = []
    metadata = {METADATA_KEY: json.dumps({"made_of": digest}, sort_keys=True).encode()}
    try:
        with replacing(path) as draft:
            with pq.ParquetWriter(
                draft,
                SCHEMA.with_metadata(metadata),
                compression="none",
                use_dictionary=False,
                write_statistics=False,
            ) as writer:
                for first in range(0, len(files), GROUP_SIZE):
                    group = list(islice(images, GROUP_SIZE))
                    unreadable += [image for image in group if isinstance(image, Unreadable)]
                    if not unreadable:
                        writer.write_table(_group(group, files.part(first, first + GROUP_SIZE)))
            if unreadable:
                raise _NotWritten
    except _NotWritten:
        pass
    return unreadable


def _group(images: list[Any], files: Files) -> pa.Table:
    columns = (images, files.labels, list(files.names))
    arrays = [pa.array(c, kind) for c, kind in zip(columns, SCHEMA.types, strict=True)]
    return pa.table(arrays, schema=SCHEMA)


def _source_digest(path: Path) -> str | None:
    """The digest of what a shard was made of; None if it is not there or not whole."""
    try:
        metadata = pq.read_schema(path).metadata or {}
        return json.loads(metadata[METADATA_KEY])["made_of"]
    except (OSError, ValueError, KeyError, TypeError, pa.ArrowException):
        return None


def _digest(files: Files) -> str:
    """SHA-256 of what decides a shard, except pixels: names, labels, fit and JPEG quality."""
    digest = hashlib.sha256(f"{files.fit} {JPEG_QUALITY}\n".encode())
    digest.update("\n".join(files.names).encode())
    digest.update(np.ascontiguousarray(files.labels, dtype=np.int64).data)
    return digest.hexdigest()


def _check_length(path: Path, least: int) -> None:
    """Raise :class:`DamagedArtifact` if a shard is shorter than where its last image ends."""
    try:
        size = path.stat().st_size
    except OSError as error:
        raise DamagedArtifact(f"{path}: cannot be read ({error}); {_ANEW}") from error
    if size < least:
        raise DamagedArtifact(f"{path}: has {size:,} bytes, expected at least {least:,}; {_ANEW}")


def _mapped(path: Path) -> mmap.mmap:
    try:
        with path.open("rb") as file:
            return mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ)
    except (OSError, ValueError) as error:
        raise DamagedArtifact(f"{path}: cannot be read ({error}); {_ANEW}") from error
