"""A user's own partition, from a file: which client has which sample."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import numpy as np

from noisyfl.core.options import BadInput, option, within
from noisyfl.data.partitioning.partition import PARTITIONS, Partition
from noisyfl.data.roots import NotRead

if TYPE_CHECKING:
    from noisyfl.data.datasets.dataset import Dataset
    from noisyfl.data.own_files import OwnFiles


@PARTITIONS.register("file")
class OwnPartition(Partition):
    """A user's own partition, from a file with a row for each sample: its client and its number.

    Samples that are in no row are on no client. A spec names the partition by its digest, so that
    the file's place, format and order do not matter.
    """

    clients: int | None = option(  # type: ignore[assignment]
        None, doc="number of clients that the file has to have; null: as it has", at_least=1
    )
    samples: int | None = option(
        None, doc="number of samples that it has to have; null: as it has", at_least=1
    )
    path: str | None = option(
        None, doc="a .csv or .parquet in a data folder, with the columns client and sample"
    )
    column: str = option("client", doc="column of the clients: their names or numbers")
    title: str | None = option(
        None, doc="what tables and pages call it; null: as the file is called"
    )
    sha256: str = option("", doc="of both columns as int64; filled in from the file")

    def verify(self, context: Mapping[str, Any]) -> None:
        """Raise :class:`BadInput` if there is to be a long tail: the file says what there is."""
        if self.long_tail is not None:
            raise BadInput(f"got {self.long_tail:g}, expected null", "long_tail")

    def canonical(self) -> dict[str, Any]:
        """The partition by its digest, wherever it comes from."""
        return {
            "name": self.name,
            "clients": self.clients,
            "samples": self.samples,
            "sha256": self.sha256,
        }

    def resolve(self, dataset: Dataset, own: OwnFiles | None) -> Partition:
        """The same partition with its digest and its numbers; the file is read and kept."""
        if self.path is None and not self.sha256:
            raise BadInput("got null, expected a .csv or .parquet file", "path")
        if self.path is None:
            return self
        if own is None:
            raise NotRead(f"got {self.path!r}, which has not been read yet", "path")
        sha256, clients, samples = own.clients(self.path, dataset, self.column, self.title)
        for key, found in (("clients", clients), ("samples", samples)):
            if getattr(self, key) not in (None, found):
                raise BadInput(f"got {getattr(self, key)}, and {self.path} has {found}", key)
        return OwnPartition(clients=clients, samples=samples, sha256=sha256)

    def takes(self) -> tuple[int, str]:
        """The samples of the file."""
        return self.samples or 1, f"the file with {self.samples} samples"

    def assign(
        self,
        labels: np.ndarray,
        classes: int,
        rng: np.random.Generator,
        own: OwnFiles | None = None,
    ) -> list[np.ndarray]:
        """The file's samples; raises :class:`BadInput` if they are not kept."""
        with within("partition", self.name):
            if own is None:
                raise BadInput("got no results folder, in which the file is kept", "sha256")
            kept = own.load(self.sha256)
        ends = np.searchsorted(kept["client"], np.arange(1, self.clients or 1))
        return np.split(kept["sample"], ends)
