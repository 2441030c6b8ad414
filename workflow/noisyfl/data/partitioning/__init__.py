"""Partitions: which sample is on which client; importing this registers all of them."""

from noisyfl.data.partitioning import own_partition, partition, skewed

__all__ = ["own_partition", "partition", "skewed"]
