"""Runs and noisy partitions that git tracks: a few files, unpacked when they are asked for.

A batch is ``reproduced/NAME.tar.xz``, named by the digest of its content, and ``NAME.txt``, which
lists what it holds, one run or noisy partition a line. Batches are only ever added. A run that is
no longer wanted leaves the list.
"""

from __future__ import annotations

import hashlib
import io
import os
import shutil
import tarfile
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from tempfile import TemporaryDirectory

from filelock import FileLock

from noisyfl.core.artifacts import TRACKED, DamagedArtifact, Results, RunFiles, replacing
from noisyfl.core.places import IN_A_CLONE, ROOT

BATCH_BYTES = 6 * 2**20
"""How large the files of a batch are together, at most; packed, they have about a third of it."""

MADE = 1_000_000_000
"""When all files were changed last, in seconds since the epoch: equal batches are equal files, and
Snakemake takes none for newer than what was printed of it."""


@dataclass(frozen=True)
class Tracked(Results):
    """The layout of tracked runs and noisy partitions; each is there once it was asked for."""

    packed: Path = field(kw_only=True)

    def run(self, identity: str) -> RunFiles:
        """See :class:`Results`."""
        self._unpack(f"runs/{identity}")
        return super().run(identity)

    def partition(self, identity: str) -> Path:
        """See :class:`Results`."""
        self._unpack(f"partitions/{identity}.parquet")
        return super().partition(identity)

    @cached_property
    def batches(self) -> dict[str, Path]:
        """The batch of each run (``runs/ID``) and noisy partition (``partitions/ID.parquet``)."""
        lists = sorted(self.packed.glob("*.txt"))
        return {member: file for file in lists for member in file.read_text().split()}

    def add(self, folder: Path) -> None:
        """Pack the runs and noisy partitions of a folder that is laid out like results."""
        members = sorted(path.relative_to(folder).as_posix() for path in folder.glob("*/*"))
        for batch in _batches(folder, members):
            content = io.BytesIO()
            with tarfile.open(fileobj=content, mode="w:xz") as tar:
                for path in _files(folder, batch):
                    entry = tarfile.TarInfo(path.relative_to(folder).as_posix())
                    entry.size, entry.mtime = path.stat().st_size, MADE
                    with path.open("rb") as file:
                        tar.addfile(entry, file)
            packed = self.packed / f"{_digest(content.getvalue())}.tar.xz"
            with replacing(packed) as draft:
                draft.write_bytes(content.getvalue())
            with replacing(_list_of(packed)) as draft:
                draft.write_text("".join(f"{member}\n" for member in batch))
        vars(self).pop("batches", None)

    def _unpack(self, member: str) -> None:
        """Unpack the batch of a run or noisy partition, unless that is there.

        Raises:
            DamagedArtifact: the batch is not what its name says.
        """
        listed = self.batches.get(member)
        if listed is None or self._is_there(member, listed):
            return
        packed = listed.with_name(f"{listed.stem}.tar.xz")
        content = packed.read_bytes()
        if _digest(content) != listed.stem:
            raise DamagedArtifact(
                f"{packed}: the content does not match its name, so it was altered; `git checkout "
                f"{packed}` restores it"
            )
        self.root.mkdir(parents=True, exist_ok=True)
        with (
            FileLock(self.root / ".lock"),
            TemporaryDirectory(dir=self.root, prefix=".unpacking-") as folder,
        ):
            if not self._is_there(member, listed):
                self._replace(listed, _unpacked(content, listed, Path(folder)))

    def _is_there(self, member: str, listed: Path) -> bool:
        """Whether a run or noisy partition is unpacked, and from this batch."""
        return self._mark(listed).exists() and (self.root / member).exists()

    def _mark(self, listed: Path) -> Path:
        return self.root / ".unpacked" / listed.stem

    def _replace(self, listed: Path, members: Iterable[Path]) -> None:
        """Put what was unpacked in its place; what lies there is of another batch, or equal."""
        for source in members:
            place = self.root / source.parent.name / source.name
            place.parent.mkdir(exist_ok=True)
            if place.is_dir():
                shutil.rmtree(place)
            source.replace(place)
        self._mark(listed).parent.mkdir(exist_ok=True)
        self._mark(listed).touch()


def _unpacked(content: bytes, listed: Path, folder: Path) -> list[Path]:
    """Unpack what a list names into a folder; returns where each run or noisy partition lies."""
    wanted = listed.read_text().split()
    with tarfile.open(fileobj=io.BytesIO(content)) as tar:
        for entry in tar:
            # Written here, so that no entry can lie elsewhere or be a link.
            inside = _member(entry.name) in wanted and ".." not in entry.name.split("/")
            if inside and entry.isreg() and (file := tar.extractfile(entry)):
                path = folder / entry.name
                path.parent.mkdir(parents=True, exist_ok=True)
                with path.open("wb") as out:
                    shutil.copyfileobj(file, out)
                os.utime(path, (MADE, MADE))
    for member in wanted:
        if not (folder / member).exists():
            raise DamagedArtifact(f"{listed}: the list names {member}, which the batch lacks")
    return [folder / member for member in wanted]


def _member(name: str) -> str:
    """The run or noisy partition that a file is of, by its path in a batch."""
    return "/".join(name.split("/")[:2])


def _files(folder: Path, members: Iterable[str]) -> Iterator[Path]:
    for member in members:
        path = folder / member
        yield from sorted(path.iterdir()) if path.is_dir() else [path]


def _batches(folder: Path, members: list[str]) -> Iterator[list[str]]:
    """The members in their order, in batches of at most :data:`BATCH_BYTES` or of one member."""
    batch: list[str] = []
    size = 0
    for member in members:
        more = sum(path.stat().st_size for path in _files(folder, [member]))
        if batch and size + more > BATCH_BYTES:
            yield batch
            batch, size = [], 0
        batch.append(member)
        size += more
    if batch:
        yield batch


def _list_of(packed: Path) -> Path:
    return packed.with_name(packed.name.replace(".tar.xz", ".txt"))


def _digest(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()[:16]


def _cache() -> Path:
    """Where an installed copy or a read-only clone unpacks: in the user's cache."""
    home = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    return Path(home) / "noisyfl" / TRACKED


def _unpacked_folder(packed: Path) -> Path:
    """Where to unpack: beside the batches of a clone, if this user may write there."""
    return packed if IN_A_CLONE and os.access(packed, os.W_OK) else _cache()


REPRODUCED = Tracked(_unpacked_folder(ROOT / TRACKED), packed=ROOT / TRACKED)
"""The tracked runs and noisy partitions."""


def find_run(run: str, layouts: Iterable[Results]) -> RunFiles | None:
    """The files of a run in the first of these folders that has all of them; None if none has."""
    places = (layout.run(run) for layout in layouts)
    return next((files for files in places if files.whole()), None)


def done_in(*layouts: Results) -> Callable[[str], bool]:
    """Return a function that says whether a run is complete in one of several results folders."""
    return lambda run: find_run(run, layouts) is not None


def find_partition(partition: str, layouts: Iterable[Results]) -> Path | None:
    """The file of a noisy partition in the first of these folders that has it; None if none has."""
    places = (layout.partition(partition) for layout in layouts)
    return next((path for path in places if path.is_file()), None)
