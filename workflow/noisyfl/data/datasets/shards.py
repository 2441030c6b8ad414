"""Images kept as JPEG in shards, for datasets whose pixels would fill the memory.

A shard is an Arrow IPC file with the columns :data:`SCHEMA`. It is memory-mapped, which takes no
memory but the system's page cache, and all runs on a machine share that. The part's own file has
the label and the checksum of each image.
"""

from __future__ import annotations

import hashlib
import json
import zlib
from functools import partial
from pathlib import Path

import numpy as np
import pyarrow as pa

from noisyfl.core.artifacts import METADATA_KEY, DamagedArtifact, is_transient, replacing, to_numpy
from noisyfl.core.text import reason
from noisyfl.data.datasets.images import JPEG_QUALITY, Files, Unreadable, in_order, jpeg

SHARD_SIZE = 4_096
"""Images per shard, which is some 100 MB for images of 256x256 pixels."""

SCHEMA = pa.schema(
    {"image": pa.binary(), "label": pa.int64(), "crc32": pa.int64(), "file": pa.string()}
)
"""The columns of a shard: the JPEG, its label, its CRC-32 and the path of its original."""

INDEX = ["label", "crc32"]
"""The columns of a part's own file, with one row per image."""


def write_shards(files: Files, folder: Path) -> tuple[list[Path], list[Unreadable]]:
    """Write a part's images as shards; intact shards made from the same files are kept.

    Returns:
        The shards in order, and the files that cannot be read as images. A shard that would
        contain such a file is not written; all others are.
    """
    shards, unreadable = [], []
    for number, first in enumerate(range(0, len(files), SHARD_SIZE)):
        piece = files.part(first, first + SHARD_SIZE)
        path = folder / f"{number:05d}.arrow"
        digest = _digest(piece)
        if _source_digest(path) != digest:
            unreadable += _write_shard(path, piece, digest)
        shards.append(path)
    for stale in sorted(set(folder.glob("*.*")) - set(shards)):
        stale.unlink()
    return shards, unreadable


def index_of(shards: list[Path]) -> pa.Table:
    """The index of shards, a table with the columns :data:`INDEX`.

    Raises:
        DamagedArtifact: a shard is truncated.
    """
    return pa.concat_tables(_mapped(path) for path in shards).select(INDEX)


class Encoded:
    """The images of a part that is kept in shards.

    Args:
        index: as :func:`index_of` returns it.
        shape: of an image: height, width, channels.

    Raises:
        DamagedArtifact: a shard is missing or truncated, or has other images than the index.
    """

    def __init__(self, shards: list[Path], index: pa.Table, shape: tuple[int, int, int]) -> None:
        self.image_shape = shape
        self._shards = shards
        tables = [_mapped(path) for path in shards]
        self._ends = np.cumsum([table.num_rows for table in tables])
        self._images = pa.concat_tables(tables)["image"]
        self._crc32 = to_numpy(index["crc32"].combine_chunks())
        if len(self._images) != len(self._crc32):
            raise DamagedArtifact(
                f"{shards[0].parent}: its shards have {len(self._images):,} images, expected "
                f"{len(self._crc32):,}; {_REMEDY}"
            )

    def __len__(self) -> int:
        return len(self._crc32)

    def jpeg(self, row: int) -> bytes:
        """An image's JPEG bytes.

        Raises:
            DamagedArtifact: the shard is not as it was written.
        """
        buffer = self._images[row].as_buffer()
        image: bytes = b"" if buffer is None else buffer.to_pybytes()
        if zlib.crc32(image) != self._crc32[row]:
            shard = self._shards[int(np.searchsorted(self._ends, row, side="right"))]
            raise DamagedArtifact(f"{shard}: image {row} does not fit its checksum; {_REMEDY}")
        return image

    def decoded(self, row: int) -> np.ndarray:
        """An image's pixels, uint8 [channels, height, width]."""
        import torch
        from torchvision.io import ImageReadMode, decode_jpeg

        coded = torch.frombuffer(bytearray(self.jpeg(row)), dtype=torch.uint8)
        return decode_jpeg(coded, ImageReadMode.RGB).numpy()


_REMEDY = "delete it and the part's index to rebuild them"


def _mapped(path: Path) -> pa.Table:
    """The rows of a shard, of which only the offsets are read."""
    try:
        table = pa.ipc.open_file(pa.memory_map(str(path))).read_all().cast(SCHEMA)
        table.validate(full=True)  # damaged offsets would lead out of the file
    except Exception as error:  # of a damaged file, Arrow raises almost any
        what = "cannot be read" if is_transient(error) else "not a whole shard"
        raise DamagedArtifact(f"{path}: {what} ({reason(error)}); {_REMEDY}") from error
    return table


def _write_shard(path: Path, files: Files, digest: str) -> list[Unreadable]:
    """Write a shard, unless some of its files cannot be read as images; return those."""
    images = list(in_order(partial(jpeg, fit=files.fit), files.paths()))
    unreadable = [image for image in images if isinstance(image, Unreadable)]
    if not unreadable:
        crc32 = [zlib.crc32(image) for image in images if isinstance(image, bytes)]
        table = pa.table([images, files.labels, crc32, list(files.names)], schema=SCHEMA)
        said = {METADATA_KEY: json.dumps({"made_of": digest})}
        with (
            replacing(path) as draft,
            pa.ipc.new_file(str(draft), SCHEMA.with_metadata(said)) as writer,
        ):
            writer.write_table(table)
    return unreadable


def _source_digest(path: Path) -> str | None:
    """The digest of what a shard holds; None if it is missing or incomplete."""
    try:
        with pa.ipc.open_file(pa.memory_map(str(path))) as file:
            return json.loads(file.schema.metadata[METADATA_KEY])["made_of"]
    except Exception:  # as above
        return None


def _digest(files: Files) -> str:
    """SHA-256 of what decides a shard, except pixels: names, labels, fit and JPEG quality."""
    digest = hashlib.sha256(f"{files.fit} {JPEG_QUALITY}\n".encode())
    digest.update("\n".join(files.names).encode())
    digest.update(np.ascontiguousarray(files.labels, dtype=np.int64).data)
    return digest.hexdigest()
