"""Where artifacts lie, and how they are written and read: whole or not at all.

Tables are Parquet files that pandas or DuckDB can read, with a JSON text under the metadata key
``noisyfl`` that says what made them. A file appears under its name only when it is complete, and a
table whose content does not match its checksum raises an error.
"""

from __future__ import annotations

import errno
import hashlib
import io
import json
import os
import re
import uuid
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.json
import pyarrow.parquet as pq

from noisyfl.core.text import printable, reason

METADATA_KEY = b"noisyfl"
METADATA_CHECKSUM = "metadata_checksum"

TRACKED = "reproduced"
"""The repository's folder of runs and noisy partitions that git tracks, laid out like results."""

NO_ROOM = (errno.ENOSPC, errno.EDQUOT)
"""Error numbers of a full file system and of an exhausted quota."""


def is_transient(error: Exception) -> bool:
    """Whether an error that a reader raised is of the machine, and says nothing of the file: the
    operating system's, which have a number, and a lack of memory.
    """
    if isinstance(error, OSError):  # readers raise some for damaged content, too
        return error.errno not in (None, errno.EINVAL, errno.EISDIR)
    return isinstance(error, MemoryError)


def why_not_loaded(error: Exception) -> str:
    """Why torch has not loaded a file, without its advice to let the file run code."""
    text = reason(error)
    if "weights_only" not in text and "Weights" not in text:
        return text
    named = re.search(r"GLOBAL (\S+)", text)
    what = f"it refers to {named[1]}" if named else "its pickle is damaged, or holds other objects"
    return f"{what}; expected nothing but tensors, arrays and plain values"


class DamagedArtifact(ValueError):
    """A file is truncated, altered, or not what its name says."""

    def __str__(self) -> str:
        return printable(super().__str__())


@dataclass(frozen=True)
class RunFiles:
    """The files of one run's artifact, all in one folder named by the run's id."""

    folder: Path

    @property
    def spec(self) -> Path:
        """The spec that names the run, as canonical JSON."""
        return self.folder / "spec.json"

    @property
    def rounds(self) -> Path:
        """One row per round."""
        return self.folder / "rounds.parquet"

    @property
    def clients(self) -> Path:
        """One row per (round, client) for which the method estimated something."""
        return self.folder / "clients.parquet"

    @property
    def provenance(self) -> Path:
        """Versions, device, source digest, times, and outcome (``finished`` or ``diverged``)."""
        return self.folder / "provenance.json"

    @property
    def model(self) -> Path:
        """The final global model, if it was asked for; it is not part of the artifact."""
        return self.folder / "model.safetensors"

    @property
    def no_model(self) -> Path:
        """An empty file in the store, if a model was asked for and the method is tested with its
        clients' own ones.
        """
        return self.folder / "no_model"

    @property
    def labels(self) -> Path:
        """What the run found of each sample's label, if asked for; not part of the artifact."""
        return self.folder / "labels.parquet"

    def all(self) -> list[Path]:
        """Every file of the artifact; the file that is written last comes last."""
        return [self.spec, self.rounds, self.clients, self.provenance]

    def whole(self) -> bool:
        """Whether every file of the artifact exists."""
        return all(path.exists() for path in self.all())


@dataclass(frozen=True)
class Results:
    """The layout of the results folder. All scales share its data, partitions and runs."""

    root: Path

    def data(self, dataset: str, part: str) -> Path:
        """The Parquet file of a dataset's ``train`` or ``test`` part."""
        return self.root / "data" / dataset / f"{part}.parquet"

    def own_file(self, sha256: str) -> Path:
        """What a file of a user's own held, by the digest of that."""
        return self.root / "files" / f"{sha256}.parquet"

    def partition(self, identity: str) -> Path:
        """The noisy partition of that id."""
        return self.root / "partitions" / f"{identity}.parquet"

    def run(self, identity: str) -> RunFiles:
        """The run of that id."""
        return RunFiles(self.root / "runs" / identity)

    def stored(self, identity: str) -> RunFiles:
        """The run of that id in the store, where its training writes it, safe from Snakemake."""
        return RunFiles(self.root / "store" / identity)

    def checkpoint(self, identity: str) -> Path:
        """Where the run of that id keeps a checkpoint while it is under way."""
        return self.root / "checkpoints" / f"{identity}.pt"

    def log(self, identity: str) -> Path:
        """The log file of that run's training."""
        return self.root / "logs" / "runs" / f"{identity}.log"

    def status(self, identity: str) -> Path:
        """The status file of the run of that id, while it is under way and after it failed."""
        return self.root / "status" / f"{identity}.json"


def write_table(path: Path, table: pa.Table, metadata: Mapping[str, Any]) -> None:
    """Write a table with its metadata and a checksum of each, atomically.

    Args:
        metadata: stored with the table; its values must be representable in JSON.
    """
    content = {**metadata, "checksum": checksum(table)}
    content[METADATA_CHECKSUM] = checksum_without(content, METADATA_CHECKSUM)
    text = json.dumps(content, sort_keys=True)
    table = table.replace_schema_metadata(None)
    with (
        replacing(path) as draft,
        # Most tables have few rows and many columns: dictionaries, statistics and a second copy of
        # the metadata in Arrow's schema would take as much space as the content.
        pq.ParquetWriter(
            draft,
            table.schema,
            compression="zstd",
            use_dictionary=False,
            write_statistics=False,
            store_schema=False,
        ) as writer,
    ):
        writer.write_table(table)
        writer.add_key_value_metadata({METADATA_KEY: text.encode()})


def read_table(path: Path) -> tuple[pa.Table, dict[str, Any]]:
    """A table written by :func:`write_table`, verified against its checksum, and its metadata.

    Raises:
        DamagedArtifact: the file is truncated, altered, or was not written by noisyfl.
        OSError: it cannot be read; FileNotFoundError: there is no such file.
    """
    with _naming_damage(path):
        # Not pq.read_table: it imports pandas, which takes a second in every run.
        with pq.ParquetFile(path, memory_map=True) as file:
            table = file.read()
            # From the open file: in the shared cache, another user may be replacing it.
            metadata = _metadata(path, file.schema_arrow)
        if metadata["checksum"] != checksum(table):
            raise DamagedArtifact(
                f"{_place(path)}: the content does not match the checksum {metadata['checksum']} "
                f"that it was written with, so it was altered; {remedy(path)}"
            )
    return table, metadata


def read_metadata(path: Path) -> dict[str, Any]:
    """The metadata of a table written by :func:`write_table`.

    Raises:
        DamagedArtifact: the file is truncated, altered, or was not written by noisyfl.
        FileNotFoundError: there is no such file.
    """
    with _naming_damage(path):
        return _metadata(path, pq.read_schema(path))


@contextmanager
def _naming_damage(path: Path) -> Iterator[None]:
    """Context manager: an error of a file's content becomes one that names the file. Those of the
    machine, which may pass, stay what they are.
    """
    try:
        yield
    except DamagedArtifact:
        raise
    except Exception as error:
        if is_transient(error):
            raise
        # Arrow raises many kinds of errors for a damaged file; decoding its texts raises others.
        why = (str(error).splitlines() or [""])[0] or type(error).__name__
        raise DamagedArtifact(
            f"{_place(path)}: not a complete Parquet file ({why}); {remedy(path)}"
        ) from error


def _metadata(path: Path, schema: pa.Schema) -> dict[str, Any]:
    found = schema.metadata or {}
    if METADATA_KEY not in found:
        raise DamagedArtifact(
            f"{_place(path)}: not written by noisyfl, or by an older version (no metadata "
            f"{METADATA_KEY!r}); {remedy(path)}"
        )
    metadata = json.loads(found[METADATA_KEY])
    if metadata.get(METADATA_CHECKSUM) != checksum_without(metadata, METADATA_CHECKSUM):
        raise DamagedArtifact(
            f"{_place(path)}: the metadata do not match their checksum, so they were altered; "
            f"{remedy(path)}"
        )
    return metadata


def checksum_without(content: Mapping[str, Any], key: str) -> str:
    """SHA-256 of a mapping as JSON with sorted keys, without one key: that of the checksum."""
    rest = {name: value for name, value in content.items() if name != key}
    return hashlib.sha256(json.dumps(rest, sort_keys=True).encode()).hexdigest()


def _place(path: Path) -> Path:
    """The file that a user should delete: of a link into the shared cache, the file there."""
    return path.resolve() if path.is_symlink() else path


def remedy(path: Path) -> str:
    """How to repair a damaged file, as the end of an error message.

    Deleting one file of a tracked run does not rebuild it, since a run that has a provenance counts
    as complete: its folder has to be deleted.
    """
    parts = path.absolute().parts
    if parts[-4:-2] == (TRACKED, "runs"):
        return f"delete the folder {path.parent} to have it unpacked again"
    if parts[-3:-1] == (TRACKED, "partitions"):
        return "delete it to have it unpacked again"
    return "delete it to have it rebuilt"


def checksum(table: pa.Table) -> str:
    """SHA-256 of a table's column names, types and values, without chunks and compression."""
    digest = hashlib.sha256()
    for name, column in zip(table.column_names, table.columns, strict=True):
        digest.update(f"{name}:{_type_name(column.type)}:{len(column)};".encode())
        for part in _parts(column.chunks):
            digest.update(part)
    return digest.hexdigest()


def _type_name(kind: pa.DataType) -> str:
    """Arrow's name of a type, but without a list's field name, which Parquet files change."""
    return f"list<{_type_name(kind.value_type)}>" if pa.types.is_list(kind) else str(kind)


def _parts(chunks: list[pa.Array]) -> Iterator[bytes | memoryview]:
    """The content of a column as bytes: where it has values, the lengths of lists, the values."""
    if any(chunk.null_count for chunk in chunks):
        for chunk in chunks:
            yield to_numpy(chunk.is_valid()).data
    present = [chunk.drop_null() for chunk in chunks]
    if present and pa.types.is_list(present[0].type):
        for chunk in present:
            yield _values(chunk.value_lengths())
        yield from _parts([chunk.flatten() for chunk in present])
        return
    for chunk in present:
        yield _values(chunk)


def _values(chunk: pa.Array) -> bytes | memoryview:
    """The values of a chunk without nulls as bytes that do not depend on its offset."""
    if not len(chunk):
        return b""
    if pa.types.is_fixed_size_binary(chunk.type):
        width = chunk.type.byte_width
        return memoryview(chunk.buffers()[1])[chunk.offset * width :][: len(chunk) * width]
    if pa.types.is_string(chunk.type):
        return "".join(json.dumps(value) for value in chunk.to_pylist()).encode()
    return to_numpy(chunk).data


def to_numpy(chunk: pa.Array) -> np.ndarray:
    """The numbers or flags of a chunk without nulls, without importing pandas as Arrow would."""
    if pa.types.is_boolean(chunk.type):
        chunk = chunk.cast(pa.uint8())
    return np.from_dlpack(chunk)


def table_of(rows: Iterable[Mapping[str, Any]], columns: Mapping[str, pa.DataType]) -> pa.Table:
    """Rows as a table, with a column for every key that any row has.

    Args:
        rows: each maps columns to numbers, text, or (nested) lists of these; None and NaN become
            null.
        columns: columns that the table always has, and their types.
    """
    lines = [
        json.dumps({key: _without_nan(value) for key, value in row.items()}).encode()
        for row in rows
    ]
    options = pa.json.ParseOptions(explicit_schema=pa.schema(list(columns.items())))
    if not lines:
        return pa.Table.from_batches([], options.explicit_schema)
    # A row must not be longer than one of the reader's blocks.
    blocks = pa.json.ReadOptions(block_size=max(2**20, *(len(line) + 1 for line in lines)))
    # Arrow's constructors import pandas; its JSON reader does not, and is exact for floats.
    return pa.json.read_json(io.BytesIO(b"\n".join(lines)), blocks, options)


def _without_nan(value: Any) -> Any:
    if isinstance(value, list):
        return [_without_nan(element) for element in value]
    return None if value != value else value


def read_json(path: Path) -> dict[str, Any]:
    """The mapping in a JSON file.

    Raises:
        DamagedArtifact: the file does not hold a mapping in JSON.
        FileNotFoundError: there is no such file.
    """
    try:
        content = json.loads(path.read_text())
    except IsADirectoryError as error:
        raise DamagedArtifact(f"{_place(path)}: a folder, where a file should be") from error
    except (ValueError, RecursionError) as error:
        raise DamagedArtifact(f"{_place(path)}: not JSON ({error}); {remedy(path)}") from error
    if not isinstance(content, dict):
        raise DamagedArtifact(f"{_place(path)}: not a mapping in JSON; {remedy(path)}")
    return content


def write_json(path: Path, content: Any) -> None:
    """Write :func:`json_text` of the content, atomically."""
    write_text(path, json_text(content))


def write_text(path: Path, text: str) -> None:
    """Write a text as UTF-8, atomically."""
    with replacing(path) as draft:
        draft.write_text(text, encoding="utf-8")


def json_text(content: Any) -> str:
    """Indented JSON with sorted keys, as files have it."""
    return json.dumps(content, indent=2, sort_keys=True) + "\n"


@contextmanager
def replacing(path: Path) -> Iterator[Path]:
    """Yield a draft beside ``path``, which replaces it when the block ends without an error.

    After an error (a full disk, say) the draft is removed, and the file at ``path`` is unchanged.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    draft = path.with_name(f".{path.name}.{uuid.uuid4().hex}")  # see remove_drafts()
    try:
        yield draft
        with draft.open("rb") as file:
            os.fsync(file.fileno())
        draft.replace(path)
    except BaseException as error:
        with suppress(OSError):
            draft.unlink(missing_ok=True)
        if isinstance(error, OSError) and error.errno in NO_ROOM:
            error.filename = str(path)  # of a write, Python does not name the file
        raise


def remove_drafts(path: Path) -> None:
    """Remove drafts of a file left by killed processes; no other process may be writing it."""
    for draft in path.parent.glob(f".{path.name}.*"):
        draft.unlink(missing_ok=True)
