"""A user's own images, ``images(path=...)``."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Annotated, ClassVar

import numpy as np
from pydantic import Field

from noisyfl.core.options import BadInput, option
from noisyfl.data.datasets.own_data import RequestedData, Samples
from noisyfl.data.datasets.own_formats import Listing, SampleColumns, list_samples
from noisyfl.data.datasets.own_pixels import decode

Pixels = Annotated[int, Field(ge=1)]
Mean = Annotated[float, Field(ge=0, le=1)]
Deviation = Annotated[float, Field(ge=0.0001, le=1)]

BLOCK = 4096
"""Images whose levels are counted at a time."""


class RequestedImages(RequestedData):
    """A user's own images, from a folder of images, a .csv, an .npz or Parquet."""

    name: ClassVar[str] = "images"
    sample: ClassVar[str] = "image"

    path: str | None = option(
        None,
        doc="path in a data folder: a folder of images or Parquet files, a .csv, .npz or .parquet",
    )
    image: str = option("image", doc="column or array of the images, or of their paths in a .csv")
    size: list[Pixels] | None = Field(
        None,
        min_length=2,
        max_length=2,
        description="height and width that images are stretched to; null: they have one size",
    )
    mean: list[Mean] | None = option(
        None, doc="mean of each channel, pixels from 0 to 1; null: that of the training part"
    )
    std: list[Deviation] | None = option(
        None, doc="standard deviation of each channel; null: that of the training part"
    )

    def columns(self, given: str | None) -> SampleColumns:
        """See :class:`RequestedData`."""
        return SampleColumns(self.label, given, (self.image,))

    def files(self, place: Path) -> Iterator[Path]:
        """A file, and those that a .csv lists."""
        yield place
        if place.suffix == ".csv":
            listed = list_samples(place, self.columns(None))[0]["all"]
            yield from (image for image in listed.samples if isinstance(image, Path))

    def samples(self, train: Listing, test: Listing) -> Samples:
        """The pixels of all images, uint8, and their mean and standard deviation from 0 to 1."""
        images = [*train.samples, *test.samples]
        pixels = decode(images, [*train.names, *test.names], self.size)
        return Samples(pixels, *self._normalization(pixels[: len(train.samples)]), [])

    def _normalization(self, images: np.ndarray) -> tuple[list[float], list[float]]:
        """Mean and standard deviation of each channel, as wanted or else of these images."""
        levels = np.arange(256) / 255
        means, deviations = [], []
        for channel in range(images.shape[3]):
            # In blocks, since counting makes eight bytes of each pixel.
            counts = np.zeros(256, dtype=np.int64)
            for start in range(0, len(images), BLOCK):
                block = images[start : start + BLOCK, ..., channel]
                counts += np.bincount(block.ravel(), minlength=256)
            centre = np.average(levels, weights=counts)
            means.append(round(float(centre), 4))
            variance = np.average((levels - centre) ** 2, weights=counts)
            deviations.append(round(float(np.sqrt(variance)), 4))
        if self.std is None and min(deviations) == 0:
            raise BadInput(
                "the training images are of one level in some channel, whose standard deviation is "
                "0; expected images that differ, or a given std",
                "std",
            )
        mean = means if self.mean is None else self.mean
        std = deviations if self.std is None else self.std
        for name, values in (("mean", mean), ("std", std)):
            if len(values) != len(means):
                raise BadInput(
                    f"got {values}, expected a number for each of {len(means)} channels", name
                )
        return mean, std
