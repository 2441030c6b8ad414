"""How clients share a GPU: constants of the fast executor and of the estimates of a run's memory.

This module does not import torch, which takes seconds.
"""

STREAM_SLOTS = 4
"""Clients that train at once on a GPU, at most, where images have at most LARGE_IMAGE pixels a
side. On an H200 four reach 0.96 of what sixteen do (docs/speed.md)."""

LARGE_IMAGE = 64

SHOWN_AT_ONCE = 2**24
"""How many numbers the images of steps that are prepared together may have, on all slots together:
64 MiB of float32."""
