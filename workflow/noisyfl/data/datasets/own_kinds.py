"""The kinds of datasets that a user may have, by the name that asks for one."""

from __future__ import annotations

from noisyfl.data.datasets.own_data import RequestedData
from noisyfl.data.datasets.own_images import RequestedImages
from noisyfl.data.datasets.own_vectors import RequestedVectors

KINDS: dict[str, type[RequestedData]] = {
    one.name: one for one in (RequestedImages, RequestedVectors)
}
