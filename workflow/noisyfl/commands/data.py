"""Commands that draw data and export noisy partitions."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from noisyfl.core.options import BadInput
from noisyfl.data import noisy_partition
from noisyfl.data.datasets.parts import read_part
from noisyfl.data.datasets.prepared import prepared
from noisyfl.data.own_files import OwnFiles
from noisyfl.data.roots import Roots
from noisyfl.experiments.config import check_folder
from noisyfl.experiments.places import Places


def preview_data(datasets: list[str], results: Path, data: Roots, download: bool) -> None:
    """Draw what datasets look like and what augmentation does to an image, beside their parts."""
    try:  # here, since matplotlib takes a second to import, and is not part of a bare installation
        from noisyfl.figures.data_sheets import draw_data_sheets
    except ModuleNotFoundError as error:
        raise BadInput(
            f"preview-data: Python cannot import {error.name}, expected noisyfl[snakemake]"
        ) from error

    for path in draw_data_sheets(datasets, results, data, download):
        print(path)


def export_partition(
    partition: str, to: Path, results: Path, data: Sequence[Path], download: bool
) -> None:
    """Write a noisy partition with its images as datasets.load_dataset reads them: Parquet and a
    data card.
    """
    from noisyfl.data.export import export

    check_folder(to, "--to")
    found = noisy_partition.read(Places(results).partition_file(partition))
    train, test = prepared(found.spec["dataset"], OwnFiles(data, results), download)
    for written in export(partition, found, read_part(train), read_part(test), to):
        print(written)
