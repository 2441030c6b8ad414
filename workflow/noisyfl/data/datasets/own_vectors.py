"""A user's own vectors, ``vectors(path=...)``: embeddings, measurements, the rows of a table."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar

import numpy as np

from noisyfl.core.options import BadInput, option
from noisyfl.data.datasets.own_data import RequestedData, Samples
from noisyfl.data.datasets.own_formats import FEATURES, Listing, VectorColumns, check_features
from noisyfl.data.datasets.requested import shortened

SHOWN = 20
"""How many features a remark names."""


class RequestedVectors(RequestedData):
    """A user's own vectors of numbers, such as embeddings or the rows of a table, from a .csv, an
    .npz or Parquet.

    A network sees a vector as an image of one pixel with a channel for each feature.
    """

    name: ClassVar[str] = "vectors"
    sample: ClassVar[str] = "vector"

    features: str | list[str] | None = option(
        None,
        doc="columns of numbers, or one column or array that has vectors; null: the one called "
        "`features`, or else all columns but those of labels and `without`",
    )
    without: list[str] = option([], doc="columns that are no features, such as a number of a case")
    standardize: bool = option(
        True,
        doc="true: each feature is shifted and scaled, so that it has mean 0 and standard "
        "deviation 1 over the training part; false: vectors are used as they are",
    )

    def options(self) -> dict[str, Any]:
        """See :class:`RequestedData`."""
        return {"name": self.name, **super().options()}

    def columns(self, given: str | None) -> VectorColumns:
        """See :class:`RequestedData`."""
        features = [self.features] if isinstance(self.features, str) else self.features or []
        labels = (self.label, *([self.given] if self.given else []))
        return VectorColumns(self.label, given, tuple(features), labels, tuple(self.without))

    def verify(self, context: Mapping[str, Any]) -> None:
        """Raise :class:`BadInput` if features are named in two ways."""
        super().verify(context)
        if self.features is not None and self.without:
            raise BadInput(f"got {self.without} and features, expected one of them", "without")

    def samples(self, train: Listing, test: Listing) -> Samples:
        """The vectors of both parts, float32 [n, 1, 1, features]."""
        check_features(train, test, "the training part and the test part")
        vectors = [np.asarray(vector) for vector in (*train.samples, *test.samples)]
        sizes = sorted({len(vector) for vector in vectors})
        if len(sizes) > 1:
            raise BadInput(
                f"the vectors have {' or '.join(map(str, sizes))} features, expected one size",
                "features",
            )
        values = np.stack(vectors)
        remarks = []
        if self.standardize:
            of_train = values[: len(train.samples)]
            mean, std = (of(of_train, axis=0, dtype=np.float64) for of in (np.mean, np.std))
            constant = of_train.min(axis=0) == of_train.max(axis=0)
            mean, std = np.where(constant, of_train[0], mean), np.where(constant, 1, std)
            if same := int(constant.sum()):
                remarks.append(f"{same:,} features are the same in all training vectors")
            values = (values - mean) / std
        if self.features is None and train.features not in ((), (FEATURES,)):
            remarks.insert(0, f"read as features: {shortened(train.features, SHOWN)}")
        return Samples(values.astype(np.float32)[:, None, None, :], [0.0], [1.0], remarks)
