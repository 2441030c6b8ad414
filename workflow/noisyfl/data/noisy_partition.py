"""Noisy partitions: which sample is on which client, with its true and its given label.

The artifact has one row for each pair of client and sample. Rows are sorted by client; within a
client they are in a random order, in which forward passes go through its samples. The metadata
holds the spec that the partition was made from.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

from noisyfl.core.artifacts import DamagedArtifact, read_table, to_numpy, write_table
from noisyfl.core.options import BadInput, check_keys
from noisyfl.core.randomness import stream
from noisyfl.data.datasets.dataset import Dataset, dataset
from noisyfl.data.noise.label_noise import LABEL_NOISES, Context, LabelNoise
from noisyfl.data.noise.noise_level import NOISE_LEVELS, NoiseLevel
from noisyfl.data.partitioning.partition import PARTITIONS, Partition
from noisyfl.data.roots import Roots

REVISION = 2
"""Increased when the arithmetic of a partition, a noise level or a label noise changes."""

KEYS = ("dataset", "partition", "label_noise", "noise_level", "seed")
"""The keys that a user gives for a noisy partition."""

COLUMNS = ("client", "sample", "true_label", "given_label")

METADATA = ("spec", "revision", "noise_levels", "realised_noise")
"""The keys of a noisy partition's metadata."""

NONE = {"name": "none"}

UNKNOWN = -1
"""Stands for a true label that is not known; null in the file."""


@dataclass(frozen=True)
class ClientSamples:
    """One client's part of a noisy partition; all arrays int64 [samples].

    Attributes:
        samples: row numbers in the dataset's training part, in the order in which forward passes
            go through them.
        true_label: the dataset's label; :data:`UNKNOWN` if the dataset's own labels are noisy.
        given_label: the label that the client is given.
    """

    samples: np.ndarray
    true_label: np.ndarray
    given_label: np.ndarray


@dataclass(frozen=True)
class NoisyPartition:
    """A noisy partition as read from its file.

    Attributes:
        spec: the canonical spec that it was made from.
        clients: the samples of each client, indexed by the client's number.
        noise_levels: the intended level of each client, [clients]; NaN if there is none, for human
            labels and for datasets whose own labels are noisy.
        realised: the share of each client's given labels that are wrong, [clients]; NaN if the true
            labels are not known.
    """

    spec: dict[str, Any]
    clients: tuple[ClientSamples, ...]
    noise_levels: np.ndarray
    realised: np.ndarray

    @property
    def overall_noise(self) -> float | None:
        """The share of all given labels that are wrong; None if the true labels are not known."""
        true = np.concatenate([client.true_label for client in self.clients])
        given = np.concatenate([client.given_label for client in self.clients])
        return None if UNKNOWN in true else float(np.mean(true != given))


@dataclass(frozen=True)
class _Parts:
    """The components that a spec describes."""

    facts: Dataset
    partition: Partition
    noise: LabelNoise
    level: NoiseLevel

    @classmethod
    def of(cls, spec: Mapping[str, Any], where: str) -> _Parts:
        return cls(
            dataset(spec["dataset"], f"{where}.dataset"),
            PARTITIONS.build(spec["partition"], f"{where}.partition"),
            LABEL_NOISES.build(spec["label_noise"], f"{where}.label_noise"),
            NOISE_LEVELS.build(spec["noise_level"], f"{where}.noise_level"),
        )


def canonical(given: Mapping[str, Any], where: str, roots: Roots | None = None) -> dict[str, Any]:
    """The spec of a noisy partition, checked and with every default filled in.

    If either the label noise or the level is ``none``, both become ``none``, so that all clean
    settings share one spec. The exception is human labels, which have no level.

    Args:
        given: a mapping with the keys of :data:`KEYS`; the level may be left out where the label
            noise does not use one.
        where: what the error messages call it.
        roots: the data folders, where files of human labels may lie. The checksum of human labels
            is filled into the spec, unless it is given.

    Raises:
        BadInput: naming ``where``, the key, the value and what was expected.
    """
    check_keys(given, KEYS, where)
    for key in ("dataset", "partition", "label_noise", "seed"):
        if key not in given:
            raise BadInput(f"{where}: key {key!r} is missing")
    seed = given["seed"]
    if not isinstance(seed, int) or isinstance(seed, bool) or seed < 0:
        raise BadInput(f"{where}.seed: got {seed!r}, expected a whole number, at least 0")
    noise, level = _canonical_noise(given, where, roots)
    return {
        "dataset": dataset(given["dataset"], f"{where}.dataset").name,
        "partition": PARTITIONS.canonical(given["partition"], f"{where}.partition"),
        "label_noise": noise,
        "noise_level": level,
        "seed": seed,
        "revision": REVISION,
    }


def _canonical_noise(
    given: Mapping[str, Any], where: str, roots: Roots | None
) -> tuple[dict[str, Any], dict[str, Any]]:
    """The label noise and the noise level, both canonical."""
    component = LABEL_NOISES.build(given["label_noise"], f"{where}.label_noise")
    noise = LABEL_NOISES.canonical(given["label_noise"], f"{where}.label_noise")
    if component.uses_level and "noise_level" not in given:
        raise BadInput(f"{where}: key 'noise_level' is missing, and {noise['name']} noise needs it")
    level = NOISE_LEVELS.canonical(given.get("noise_level", NONE), f"{where}.noise_level")
    if noise["name"] == "human":
        if level != NONE:
            raise BadInput(
                f"{where}.noise_level: got {level['name']!r}, expected none, since human labels "
                "are as noisy as they are"
            )
        if roots is not None and not noise["sha256"]:
            facts = dataset(given["dataset"], f"{where}.dataset")
            component.check(facts, 1, f"{where}.label_noise")
            noise["sha256"] = component.digest(facts, roots, f"{where}.label_noise.human")
        return noise, level
    return (NONE, NONE) if NONE in (noise, level) else (noise, level)


def check(spec: Mapping[str, Any], where: str) -> None:
    """Check a canonical spec without reading data, so that mistakes show before any job starts.

    Raises:
        BadInput: for example, there are more clients than samples, the dataset does not have the
            map of classes, or noise is to be added to a dataset whose own labels are noisy.
    """
    parts = _Parts.of(spec, where)
    if not parts.facts.true_labels and parts.noise.name != "none":
        raise BadInput(
            f"{where}.label_noise: got {parts.noise.name!r}, expected 'none', since the training "
            f"labels of {parts.facts.name} are noisy as they come, and the true ones not known"
        )
    clients = parts.partition.clients
    parts.partition.check(parts.facts.train_size, f"{where}.partition")
    parts.level.check(clients, f"{where}.noise_level")
    parts.noise.check(parts.facts, clients, f"{where}.label_noise")
    if parts.noise.by_client and parts.level.scope == "dataset":
        raise BadInput(
            f"{where}.noise_level.{parts.level.name}.scope: got 'dataset', expected 'client', "
            f"since {parts.noise.name} noise depends on the client"
        )


def make(
    spec: Mapping[str, Any], labels: np.ndarray, roots: Roots | None = None
) -> tuple[pa.Table, dict[str, Any]]:
    """Make a noisy partition.

    The partition, the levels, each client's flips and the order of its samples are drawn from
    separate random streams: another partition leaves the levels as they are, and another level
    leaves the partition as it is. A client's samples are put into a random order because a
    dataset's own order may be by class: in forward passes, a model that normalises by the batch
    would then see batches of a single class.

    Args:
        spec: canonical.
        labels: the training part's labels, int64 [n].
        roots: the data folders, where files of human labels may lie.

    Returns:
        The table with :data:`COLUMNS`, int32, and its metadata: the spec, and for each client the
        intended and the realised noise level. What is not known is null.

    Raises:
        BadInput: no partition can be made from the spec, or it is of another revision.
    """
    if spec["revision"] != REVISION:
        raise BadInput(
            f"noisy partition: the spec is of revision {spec['revision']}, and this version "
            f"makes revision {REVISION}"
        )
    check(spec, "noisy partition")
    parts = _Parts.of(spec, "noisy partition")
    facts, seed = parts.facts, spec["seed"]
    if len(labels) != facts.train_size:
        raise BadInput(
            f"noisy partition: got {len(labels)} labels, expected the {facts.train_size} of the "
            f"training part of {facts.name}"
        )
    rows = parts.partition.assign(labels, len(facts.classes), stream(seed, "partition"))
    levels = parts.level.draw(len(rows), stream(seed, "noise level"))
    context = Context(facts, seed, roots)
    true = [labels[part] for part in rows]
    if parts.noise.whole or parts.level.scope == "dataset":
        (whole,) = parts.noise.flip([labels], levels[:1], context)
        given = [whole[part] for part in rows]
    else:
        given = parts.noise.flip(true, levels, context)
    orders = [stream(seed, "order", k).permutation(len(part)) for k, part in enumerate(rows)]
    ordered = [
        np.concatenate([part[order] for part, order in zip(column, orders, strict=True)])
        for column in (rows, true, given)
    ]
    clients = np.repeat(np.arange(len(rows)), [len(part) for part in rows])
    columns = (clients, *ordered)
    arrays = [pa.array(column, pa.int32()) for column in columns]
    if not facts.true_labels:
        arrays[COLUMNS.index("true_label")] = pa.nulls(len(clients), pa.int32())
    nothing = [None] * len(rows)
    known = facts.true_labels and (parts.noise.uses_level or spec["label_noise"] == NONE)
    realised = [float(np.mean(t != g)) for t, g in zip(true, given, strict=True)]
    metadata = {
        "spec": dict(spec),
        "revision": REVISION,
        "noise_levels": levels.tolist() if known else nothing,
        "realised_noise": realised if facts.true_labels else nothing,
    }
    return pa.table(arrays, names=list(COLUMNS)), metadata


def write(
    path: Path, spec: Mapping[str, Any], labels: np.ndarray, roots: Roots | None = None
) -> None:
    """Make a noisy partition and write it; the arguments are those of :func:`make`.

    Args:
        path: of the file.
        spec: of the noisy partition, canonical.
        labels: the training part's labels, int64 [n].
        roots: the data folders, where files of human labels may lie.
    """
    table, metadata = make(spec, labels, roots)
    write_table(path, table, metadata)


def read(path: Path) -> NoisyPartition:
    """A noisy partition that :func:`write` wrote, verified against its checksum.

    Raises:
        DamagedArtifact: the file is truncated, altered, not a noisy partition, or of a revision
            that its spec or this version does not know.
        FileNotFoundError: there is none.
    """
    table, metadata = read_table(path)
    if tuple(table.column_names) != COLUMNS:
        raise DamagedArtifact(f"{path}: not a noisy partition (columns {table.column_names})")
    lacking = [key for key in METADATA if key not in metadata]
    if lacking:
        raise DamagedArtifact(f"{path}: not a noisy partition (metadata without {lacking[0]!r})")
    says, spec = metadata["revision"], metadata["spec"].get("revision")
    if says != spec or says not in range(1, REVISION + 1):
        raise DamagedArtifact(
            f"{path}: its metadata say revision {says}, its spec revision {spec}, and this version "
            f"makes revision {REVISION}; delete it to have it made again"
        )
    client, *columns = (_numbers(table[name]) for name in COLUMNS)
    ends = np.searchsorted(client, np.arange(1, len(metadata["noise_levels"])))
    pieces = zip(*(np.split(column, ends) for column in columns), strict=True)
    return NoisyPartition(
        spec=metadata["spec"],
        clients=tuple(ClientSamples(*(array.copy() for array in piece)) for piece in pieces),
        noise_levels=np.array(metadata["noise_levels"], dtype=np.float64),
        realised=np.array(metadata["realised_noise"], dtype=np.float64),
    )


def check_content(
    partition: NoisyPartition, labels: np.ndarray, classes: int, where: object
) -> None:
    """Check that a noisy partition fits the training part of its dataset.

    Args:
        partition: as :func:`read` returns it.
        labels: of the training part, int64 [n].
        classes: the number of classes.
        where: what the error messages call the partition.

    Raises:
        DamagedArtifact: the training part does not have a sample; a sample is listed twice; a true
            label differs from the training part's; a given label is not a class.
    """
    samples, true, given = (
        np.concatenate([getattr(client, name) for client in partition.clients])
        for name in ("samples", "true_label", "given_label")
    )

    def refuse(wrong: np.ndarray, words: str) -> None:
        if wrong.any():
            raise DamagedArtifact(
                f"{where}: {words} (row {int(np.argmax(wrong))}, sample "
                f"{samples[np.argmax(wrong)]}); delete it to have it made again"
            )

    refuse((samples < 0) | (samples >= len(labels)), f"its data set has {len(labels)} samples")
    again = np.ones(len(samples), dtype=bool)
    again[np.unique(samples, return_index=True)[1]] = False
    refuse(again, "a sample is there twice")
    refuse((true != UNKNOWN) & (true != labels[samples]), "a true label is not the data set's")
    refuse((given < 0) | (given >= classes), f"a given label is none of {classes} classes")


def _numbers(column: pa.ChunkedArray) -> np.ndarray:
    """A column as int64, with :data:`UNKNOWN` for null."""
    values = np.full(len(column), UNKNOWN, dtype=np.int64)
    whole = column.combine_chunks()
    values[to_numpy(whole.is_valid()).astype(bool)] = to_numpy(whole.drop_null())
    return values
