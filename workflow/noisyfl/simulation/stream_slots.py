"""How clients share a GPU: constants of the fast executor and of the estimates of a run's memory.

This module does not import torch, which takes seconds.
"""

STREAM_SLOTS = 16
"""Clients that train at once on a GPU, at most, where images have at most LARGE_IMAGE pixels a
side."""

LARGE_IMAGE = 64

SHOWN_AT_ONCE = 2**24
"""How many numbers the images of steps that are prepared together may have, on all slots together:
64 MiB of float32."""

CONTEXT_MB = 700.0
"""GPU memory that CUDA takes for each process: its context, and the kernels of its libraries."""
