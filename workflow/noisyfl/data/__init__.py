"""Datasets, partitions and label noise: everything before the first round."""
