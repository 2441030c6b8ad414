"""The registry of methods, by name."""

from noisyfl.core.registry import Registry
from noisyfl.simulation.client_side import ClientSide, Side
from noisyfl.simulation.server_side import ServerSide

METHODS = Registry[Side]("method", ServerSide, ClientSide)
