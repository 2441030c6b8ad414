"""Noisy partitions: which sample is on which client, with its true and its given label.

The artifact has one row for each pair of client and sample. Rows are sorted by client; within a
client they are in a random order, in which forward passes go through its samples. The metadata
holds the spec that the partition was made from.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextlib import nullcontext
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any

import numpy as np
import pyarrow as pa
from pydantic import Field, PlainValidator, ValidationInfo, field_validator

from noisyfl.core.artifacts import DamagedArtifact, read_table, to_numpy, write_table
from noisyfl.core.options import BadInput, within
from noisyfl.core.plugins import facts_of, is_of_plugin, module_of, naming_the_line
from noisyfl.core.randomness import only_streams, stream
from noisyfl.core.registry import split_component
from noisyfl.core.typed import Typed
from noisyfl.data.datasets.dataset import Dataset, dataset
from noisyfl.data.datasets.own_kinds import KINDS
from noisyfl.data.datasets.shards import Encoded
from noisyfl.data.drawn import check_flipped, check_levels, check_shown
from noisyfl.data.noise.label_noise import LABEL_NOISES, Clean, Context, LabelNoise
from noisyfl.data.noise.noise_level import NOISE_LEVELS, NoiseLevel, NoNoise, level_of
from noisyfl.data.own_files import OwnFiles
from noisyfl.data.partitioning.partition import PARTITIONS, Partition
from noisyfl.data.roots import NotRead

REVISION = 2
"""Increased when the arithmetic of a partition, a noise level or a label noise changes."""

COLUMNS = ("client", "sample", "true_label", "given_label")

UNKNOWN = -1
"""Stands for a true label that is not known; null in the file."""


@dataclass(frozen=True)
class ClientSamples:
    """One client's part of a noisy partition; all arrays int64 [samples].

    Attributes:
        samples: row numbers in the dataset's training part, in the order in which forward passes
            go through them.
        true_label: the dataset's label; :data:`UNKNOWN` if the dataset's own labels are noisy, and
            the number of classes if the image is of none of them.
    """

    samples: np.ndarray
    true_label: np.ndarray
    given_label: np.ndarray


@dataclass(frozen=True)
class NoisyPartition:
    """A noisy partition as read from its file.

    Attributes:
        noise_levels: the intended level of each client, [clients]; NaN if there is none, for human
            labels and for datasets whose own labels are noisy.
        realised: the share of each client's given labels that are wrong, [clients]; NaN if the true
            labels are not known.
    """

    spec: dict[str, Any]
    clients: tuple[ClientSamples, ...]
    noise_levels: np.ndarray
    realised: np.ndarray

    def __repr__(self) -> str:
        return f"NoisyPartition({len(self.clients)} clients, {len(self.given_labels)} samples)"

    @property
    def overall_noise(self) -> float | None:
        """The share of all given labels that are wrong; None if the true labels are not known."""
        true, given = self.true_labels, self.given_labels
        return None if UNKNOWN in true else float(np.mean(true != given))

    @property
    def true_labels(self) -> np.ndarray:
        """Those of all clients, one client after the other."""
        return np.concatenate([client.true_label for client in self.clients])

    @property
    def given_labels(self) -> np.ndarray:
        """The given labels of all clients, one client after the other."""
        return np.concatenate([client.given_label for client in self.clients])


def _dataset(raw: Any, info: ValidationInfo) -> Dataset:
    """The facts about a dataset; one of a user's own is read, unless its digest is given."""
    if isinstance(raw, str) and "(" not in raw and raw not in KINDS:
        return dataset(raw)
    if isinstance(raw, Mapping) and "sha256" in raw:
        return dataset(raw)
    name, options = split_component(raw, "dataset")
    if name not in KINDS:
        return dataset(name)
    with within(name):
        wanted = KINDS[name].read(options)
        own = (info.context or {}).get("own")
        if own is None:
            raise NotRead(f"got {wanted.path!r}, which has not been read yet", "path")
        return own.read(wanted)


def _level(raw: Any) -> NoiseLevel:
    return NOISE_LEVELS.build(level_of(raw))


class PartitionSpec(Typed):
    """What a noisy partition is made from.

    The noise level may be left out where the label noise does not use one. If either of them is
    ``none``, both count as ``none``, so that all clean settings share one spec. The exception is
    labels from files, which have no level. What a user's own files hold replaces the files
    where the validation's context has ``own``, which reads them (:class:`OwnFiles`).
    """

    dataset: Annotated[Dataset, PlainValidator(_dataset)]
    partition: Annotated[Partition, PlainValidator(PARTITIONS.build)]
    noise_level: Annotated[NoiseLevel | None, PlainValidator(_level)] = None
    label_noise: Annotated[LabelNoise, PlainValidator(LABEL_NOISES.build)]
    seed: int = Field(ge=0)

    @field_validator("partition", "label_noise")
    @classmethod
    def _resolve(cls, one: Any, info: ValidationInfo) -> Any:
        facts = info.data.get("dataset")
        without = isinstance(info.data.get("noise_level"), NoNoise)
        if isinstance(one, LabelNoise) and one.uses_level and without:
            return Clean()
        if facts is None or (isinstance(one, LabelNoise) and not facts.true_labels):
            return one  # which verify() rejects
        with within(one.name):
            return one.resolve(facts, (info.context or {}).get("own"))

    @property
    def level(self) -> NoiseLevel:
        """The level of the label noise; none where the label noise does not use one."""
        return (self.label_noise.uses_level and self.noise_level) or NoNoise()

    def verify(self, context: Mapping[str, Any]) -> None:
        """Raise :class:`BadInput` if no noisy partition can be made, which needs no data: for
        example, there are more clients than samples, or the dataset lacks the map of classes.
        """
        facts, noise, level = self.dataset, self.label_noise, self.noise_level
        clients = self.partition.clients
        if noise.uses_level and level is None:
            raise BadInput(f"Field required, as {noise.name} noise uses it", "noise_level")
        if noise.whole and level is not None and not isinstance(level, NoNoise):
            raise BadInput(
                f"got {level.name!r}, expected none, since {noise.name} labels are as noisy as "
                "they are",
                "noise_level",
            )
        if not facts.true_labels and not isinstance(noise, Clean):
            raise BadInput(
                f"got {noise.name!r}, expected 'none', since the training labels of {facts.name} "
                "are noisy as they come, and the true ones not known",
                "label_noise",
            )
        with within("partition", self.partition.name):
            self.partition.check(facts.task_size)
        with within("noise_level", self.level.name):
            self.level.check(clients)
            if noise.by_client and self.level.before_split:
                raise BadInput(
                    f"got 'dataset', expected 'client', since {noise.name} noise depends on the "
                    "client",
                    "scope",
                )
        with within("label_noise", noise.name):
            noise.check(facts, clients)

    def noisy_partition(self) -> dict[str, Any]:
        """The canonical spec of the noisy partition, in which every default is filled in."""
        return {
            "dataset": self.dataset.canonical,
            "partition": self.partition.canonical(),
            "label_noise": self.label_noise.canonical(),
            "noise_level": self.level.canonical(),
            "seed": self.seed,
            "revision": REVISION,
        }


def make(
    spec: Mapping[str, Any],
    labels: np.ndarray,
    own: OwnFiles | None = None,
    images: np.ndarray | Encoded | None = None,
) -> tuple[pa.Table, dict[str, Any]]:
    """Make a noisy partition.

    The partition, the levels, each client's flips and the order of its samples are drawn from
    separate random streams: another partition leaves the levels as they are, and another level
    leaves the partition as it is. A client's samples are put into a random order because a
    dataset's own order may be by class: in forward passes, a model that normalises by the batch
    would then see batches of a single class.

    Args:
        labels: the training part's labels, int64 [n].
        own: keeps what a user's own files held, and knows the data folders.
        images: the training part's, for label noises that see them.

    Returns:
        The table with :data:`COLUMNS`, int32, and its metadata: the spec, for each client the
        intended and the realised noise level, and if plugins had a part in it, which. What is not
        known is null.

    Raises:
        BadInput: no partition can be made from the spec, or it is of another revision.
    """
    if spec["revision"] != REVISION:
        raise BadInput(
            f"noisy partition: the spec is of revision {spec['revision']}, and this version "
            f"makes revision {REVISION}"
        )
    given = {key: value for key, value in spec.items() if key != "revision"}
    parts = PartitionSpec.read(given, "noisy partition")
    facts, noise, seed = parts.dataset, parts.label_noise, parts.seed
    if len(labels) != facts.train_size:
        raise BadInput(
            f"noisy partition: got {len(labels)} labels, expected the {facts.train_size} of the "
            f"training part of {facts.name}"
        )
    dealt = labels[: facts.task_size]
    with only_streams(f"partition.{parts.partition.name}.assign", "`rng`"):
        rows = parts.partition.assign(dealt, len(facts.classes), stream(seed, "partition"), own)
    with only_streams(f"noise_level.{parts.level.name}.draw", "`rng`"):
        levels = parts.level.draw(len(rows), stream(seed, "noise level"))
    check_levels(levels, len(rows), f"noise_level.{parts.level.name}.draw")
    unsplit = noise.whole or parts.level.before_split
    seen, noisy = ([np.arange(len(dealt))], levels[:1]) if unsplit else (rows, levels)
    context = Context(facts, seed, own, _accessor(images, seen))
    with (
        within("label_noise", noise.name),
        only_streams("flip or replace", "`stream(context.seed, ...)`"),
    ):
        before = [labels[part] for part in seen]
        flipped = noise.flip(before, noisy, context)
        check_flipped(flipped, before, len(facts.classes), "flip")
        shown = check_shown(noise.replace(seen, noisy, context), seen, len(labels), "replace")
    if unsplit:
        flipped, shown = ([whole[part] for part in rows] for (whole,) in (flipped, shown))
    true = [labels[part] for part in shown]
    orders = [stream(seed, "order", k).permutation(len(part)) for k, part in enumerate(rows)]
    ordered = [
        np.concatenate([part[order] for part, order in zip(column, orders, strict=True)])
        for column in (shown, true, flipped)
    ]
    clients = np.repeat(np.arange(len(rows)), [len(part) for part in rows])
    columns = (clients, *ordered)
    arrays = [pa.array(column, pa.int32()) for column in columns]
    if not facts.true_labels:
        arrays[COLUMNS.index("true_label")] = pa.nulls(len(clients), pa.int32())
    nothing = [None] * len(rows)
    known = facts.true_labels and (noise.uses_level or isinstance(noise, Clean))
    realised = [float(np.mean(t != g)) for t, g in zip(true, flipped, strict=True)]
    metadata = {
        "spec": dict(spec),
        "revision": REVISION,
        "noise_levels": levels.tolist() if known else nothing,
        "realised_noise": realised if facts.true_labels else nothing,
    }
    if plugins := facts_of(component_modules(spec)):
        metadata["plugins"] = plugins
    return pa.table(arrays, names=list(COLUMNS)), metadata


def _accessor(
    images: np.ndarray | Encoded | None, rows: list[np.ndarray]
) -> Callable[[int], np.ndarray] | None:
    """What gives a label noise the images of a client, which nobody decodes before."""
    if images is None:
        return None

    def of_client(client: int) -> np.ndarray:
        if isinstance(images, np.ndarray):
            return images[rows[client]]
        decoded = [images.decoded(int(row)).transpose(1, 2, 0) for row in rows[client]]
        return np.stack(decoded)

    return of_client


def component_modules(spec: Mapping[str, Any]) -> list[str]:
    """The names of the modules of the components of a canonical spec of a noisy partition."""
    return [
        module_of(dataset(spec["dataset"])),
        module_of(PARTITIONS.get(spec["partition"]["name"])),
        module_of(LABEL_NOISES.get(spec["label_noise"]["name"])),
        module_of(NOISE_LEVELS.get(spec["noise_level"]["name"])),
    ]


def write(
    path: Path,
    spec: Mapping[str, Any],
    labels: np.ndarray,
    own: OwnFiles | None = None,
    images: np.ndarray | Encoded | None = None,
) -> None:
    """Make a noisy partition and write it; the arguments are those of :func:`make`.

    Raises:
        BadInput: as :func:`make`, or for any error in a plugin, with its line.
    """
    plugins = facts_of(component_modules(spec))
    with naming_the_line(is_of_plugin) if plugins else nullcontext():
        table, metadata = make(spec, labels, own, images)
    write_table(path, table, metadata)


def read(path: Path) -> NoisyPartition:
    """A noisy partition that :func:`write` wrote, verified against its checksum.

    Raises:
        DamagedArtifact: the file is truncated, altered, not a noisy partition, or of another
            revision.
        FileNotFoundError: there is none.
    """
    table, metadata = read_table(path)
    if tuple(table.column_names) != COLUMNS:
        raise DamagedArtifact(f"{path}: not a noisy partition (columns {table.column_names})")
    if (revision := metadata.get("revision")) != REVISION:
        raise DamagedArtifact(
            f"{path}: it is of revision {revision}, and this version makes revision {REVISION}; "
            "delete it to have it made again"
        )
    client, *columns = (_filled(table[name].combine_chunks()) for name in COLUMNS)
    ends = np.searchsorted(client, np.arange(1, len(metadata["noise_levels"])))
    pieces = zip(*(np.split(column, ends) for column in columns), strict=True)
    return NoisyPartition(
        spec=metadata["spec"],
        clients=tuple(ClientSamples(*(array.copy() for array in piece)) for piece in pieces),
        noise_levels=np.array(metadata["noise_levels"], dtype=np.float64),
        realised=np.array(metadata["realised_noise"], dtype=np.float64),
    )


def _filled(column: pa.Array) -> np.ndarray:
    """Whole numbers, int64, with UNKNOWN for null."""
    found = np.full(len(column), UNKNOWN, dtype=np.int64)
    found[to_numpy(column.is_valid()).astype(bool)] = to_numpy(column.drop_null())
    return found


def check_content(partition: NoisyPartition, labels: np.ndarray, where: object) -> None:
    """Raise :class:`DamagedArtifact` unless a noisy partition is one of the training part with
    these labels, int64 [n].
    """
    samples = np.concatenate([client.samples for client in partition.clients])
    true = partition.true_labels
    if samples.max() >= len(labels) or ((true != UNKNOWN) & (true != labels[samples])).any():
        raise DamagedArtifact(
            f"{where}: its samples or true labels are not those of its dataset; delete it to have "
            "it made again"
        )
