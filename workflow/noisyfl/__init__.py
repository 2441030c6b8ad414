"""Federated learning with noisy labels: five papers, from noisy partitions to their tables."""

__version__ = "0.1.0"
