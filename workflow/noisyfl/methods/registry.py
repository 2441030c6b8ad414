"""Where methods are known by name."""

from noisyfl.core.registry import Registry

METHODS = Registry("method")
