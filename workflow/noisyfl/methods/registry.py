"""The registry of methods, by name."""

from noisyfl.core.registry import Registry
from noisyfl.simulation.client_side import Side

METHODS = Registry[Side]("method")
