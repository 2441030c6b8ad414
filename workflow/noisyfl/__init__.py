"""Federated learning with noisy labels: five papers, from noisy partitions to their tables."""

from importlib.metadata import PackageNotFoundError, version

try:
    __version__ = version("noisyfl")
except PackageNotFoundError:  # a clone's folder on PYTHONPATH, as in the images
    __version__ = "0+unknown"
