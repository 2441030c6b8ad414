"""Every method, one file each, of the five papers.

A file in this folder is imported, and what it registers is known, without being named anywhere.
"""

import importlib
import pkgutil

from noisyfl.methods.registry import METHODS
from noisyfl.simulation.client_side import ClientSide
from noisyfl.simulation.server_side import ServerSide

for _module in pkgutil.iter_modules(__path__):
    importlib.import_module(f"{__name__}.{_module.name}")


def sides(component: ServerSide | ClientSide) -> tuple[ServerSide, ClientSide]:
    """The server side and the client side of a method; a side that it does not have is FedAvg's."""
    fedavg = METHODS.build("fedavg", "methods")
    return (
        component if isinstance(component, ServerSide) else fedavg,
        component if isinstance(component, ClientSide) else fedavg,
    )
