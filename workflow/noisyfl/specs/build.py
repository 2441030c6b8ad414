"""Build the two sides of a method from its name and options."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from noisyfl.core.registry import parts_of
from noisyfl.methods import METHODS
from noisyfl.methods.fedavg import FedAvg
from noisyfl.simulation.client_side import ClientSide
from noisyfl.simulation.server_side import ServerSide
from noisyfl.specs.catalogue import canonical_method, without_revisions


def build_method(raw: str | Mapping[str, Any], where: str) -> tuple[ServerSide, ClientSide]:
    """The server side and the client side of a method; a side that the method lacks is FedAvg's.

    Raises:
        BadInput: as :func:`noisyfl.specs.catalogue.canonical_method`.
    """
    canonical = canonical_method(without_revisions(raw) if isinstance(raw, Mapping) else raw, where)
    parts = [METHODS.build(without_revisions(part), where) for part in parts_of(canonical)]
    if len(parts) == 2:
        assert isinstance(parts[0], ServerSide)
        return parts[0].with_partner(parts[1])
    fedavg, (method,) = FedAvg(), parts
    return (
        method if isinstance(method, ServerSide) else fedavg,
        method if isinstance(method, ClientSide) else fedavg,
    )
