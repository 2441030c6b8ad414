"""How clients share a GPU, as the fast executor does it and as a run's memory is estimated.

Needs no torch, which takes seconds to import.
"""

STREAM_SLOTS = 16
"""Clients that train at once on a GPU, at most, where images have at most LARGE_IMAGE pixels a
side."""

LARGE_IMAGE = 64

SHOWN_AT_ONCE = 2**24
"""Numbers in the images of steps that are prepared together, on all slots: 64 MiB of float32."""

CONTEXT_MB = 700.0
"""Of a GPU that CUDA takes for a process: its context, and the kernels of its libraries."""
