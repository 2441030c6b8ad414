"""A user's own vectors, ``vectors(path=...)``: embeddings, measurements, the rows of a table."""

from __future__ import annotations

import itertools
import math
from collections.abc import Mapping, Sequence
from typing import Any, ClassVar, NamedTuple

import numpy as np

from noisyfl.core.options import BadInput, did_you_mean, option
from noisyfl.data.datasets.own_data import RequestedData, Samples
from noisyfl.data.datasets.own_formats import Listing, SampleColumns, check_features
from noisyfl.data.datasets.requested import shortened

SHOWN = 20
"""How many features a remark names."""

FEW = 20
"""In fewer rows, whole numbers may differ by chance."""

BLOCK = 64
"""Features that are scaled at a time."""

ROUNDING = 1e-9
"""What a feature's values differ by at most, as a share of them, if they differ by rounding."""


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

    def columns(self, given: str | None) -> SampleColumns:
        """See :class:`RequestedData`."""
        labels = (self.label, *([self.given] if self.given else []))
        return SampleColumns(self.label, given, self._chosen, True, (*labels, *self.without))

    @property
    def _chosen(self) -> tuple[str, ...]:
        return (self.features,) if isinstance(self.features, str) else tuple(self.features or ())

    def verify(self, context: Mapping[str, Any]) -> None:
        """Raise :class:`BadInput` if features are named in two ways, or labels are features."""
        super().verify(context)
        if self.features is not None and self.without:
            raise BadInput(f"got {self.without} and features, expected one of them", "without")
        if both := {*self._chosen} & {self.label, self.given}:
            raise BadInput(f"got {both.pop()!r}, which has labels", "features")

    def samples(self, train: Listing, test: Listing) -> Samples:
        """The vectors of both parts, float32 [n, 1, 1, features]."""
        check_features(train, test, "the training part and the test part")
        for name in self.without if train.columns else ():
            if name not in train.columns:
                hint = did_you_mean(name, train.columns)
                raise BadInput(f"got {name!r}{hint} (known: {', '.join(train.columns)})", "without")
        vectors = [np.asarray(vector) for vector in (*train.samples, *test.samples)]
        sizes = sorted({len(vector) for vector in vectors})
        if len(sizes) > 1:
            raise BadInput(
                f"the vectors have {' or '.join(map(str, sizes))} features, expected one size",
                "features",
            )
        values, of_train = np.stack(vectors), len(train.samples)
        names = train.features if len(train.features) == sizes[0] else ()
        remarks = []
        if self.features is None and names:
            _check_no_index(values[:of_train], len(values), names)
            remarks.append(f"read as features: {shortened([*map(repr, names)], SHOWN)}")
        elif self.features is None and (unread := self._unread(train)):
            remarks.append(f"not read: {', '.join(map(repr, unread))}")
        how = None
        if self.standardize:
            scaling = Scaling.of(values[:of_train], names)
            how = scaling.as_json()
            if same := int((scaling.scale == 0).sum()):
                features = "feature is" if same == 1 else "features are"
                remarks.append(f"{same:,} {features} the same in all training vectors")
            values = scaling.scaled(values)
        pixels = values.astype(np.float32, copy=False)[:, None, None, :]
        return Samples(pixels, [0.0], [1.0], remarks, how)

    def _unread(self, train: Listing) -> list[str]:
        """The columns beside one that has vectors."""
        read = {*train.features, self.label, self.given, *self.without}
        return [name for name in train.columns if name not in read]


class Scaling(NamedTuple):
    """How features are brought to mean 0 and standard deviation 1.

    Attributes:
        features: their names; empty if they have none.
        shift: what is subtracted from each, float64 [features].
        scale: what it is divided by then, float64 [features]; 0: by nothing, since it is the same
            in all training vectors.
    """

    features: tuple[str, ...]
    shift: np.ndarray
    scale: np.ndarray

    @classmethod
    def of(cls, values: np.ndarray, features: tuple[str, ...]) -> Scaling:
        """That of a training part, [n, features]."""
        parts = [_moments(values[:, block].astype(np.float64)) for block in _blocks(values)]
        shift, scale = map(np.concatenate, zip(*parts, strict=True))
        return cls(features, shift, scale)

    def scaled(self, values: np.ndarray) -> np.ndarray:
        """Scaled vectors, float32 [n, features]; :class:`BadInput` if one does not fit."""
        found = np.empty(values.shape, dtype=np.float32)
        for block in _blocks(values):
            scale = np.where(self.scale[block] == 0, 1, self.scale[block])
            with np.errstate(over="ignore"):
                found[:, block] = (values[:, block] - self.shift[block]) / scale
        if (far := np.isinf(found)).any():
            feature = int(np.argwhere(far)[0][1])
            name = repr(self.features[feature]) if self.features else feature
            raise BadInput(
                f"feature {name} has {values[far][0]:g}, which is too far from its training values "
                f"of {self.shift[feature]:g} on average, expected numbers of float32",
                "features",
            )
        return found

    def as_json(self) -> dict[str, Any]:
        """As the files of both parts have it."""
        return {
            "features": list(self.features),
            "shift": self.shift.tolist(),
            "scale": np.where(self.scale == 0, 1, self.scale).tolist(),
        }


def _blocks(values: np.ndarray) -> list[slice]:
    """Some features at a time, as these are copied several times while they are scaled."""
    count = values.shape[1]
    edges = np.linspace(0, count, math.ceil(count / BLOCK) + 1).astype(int).tolist()
    return [slice(*pair) for pair in itertools.pairwise(edges)]


def _moments(values: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """The mean and the standard deviation of features, float64 [features] each; of one that is the
    same in all vectors, its value and 0.
    """
    first = values[0]
    # Brought to at most 1 first, since squares of large and small numbers do not fit.
    reach = np.abs(values - first).max(axis=0)
    reach[reach <= ROUNDING * np.abs(values).max(axis=0)] = 0
    near = (values - first) / np.where(reach == 0, 1, reach)
    mean, std = near.mean(axis=0), near.std(axis=0)
    return first + np.where(reach == 0, 0, mean) * reach, std * reach


def _check_no_index(values: np.ndarray, count: int, names: Sequence[str]) -> None:
    """Raise :class:`BadInput` if a feature that nobody has named may be the number of a row.

    Args:
        values: of the training part, [n, features].
        count: of the vectors of both parts.
    """
    for name, column in zip(names, values.T, strict=True):
        unnamed = not name or name.startswith("Unnamed: ")
        whole = count >= FEW and bool((column == np.round(column)).all())
        if unnamed or (whole and len(np.unique(column)) == len(column)):
            what = "has no name" if unnamed else "has another whole number in each row"
            raise BadInput(
                f"{name!r} {what}, as an index or the number of a case, which may tell a sample's "
                f"class: leave it out, without=[{name!r}], or list all features",
                "features",
            )
