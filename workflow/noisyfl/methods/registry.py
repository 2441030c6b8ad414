"""Where methods are known by name."""

from noisyfl.options import Registry

METHODS = Registry("method")
