"""The registry of methods, by name."""

from noisyfl.core.registry import Registry

METHODS = Registry("method")
