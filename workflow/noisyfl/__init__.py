"""Federated learning with noisy labels: five papers, from noisy partitions to their tables.

In a notebook: ``import noisyfl``, and the functions of :mod:`noisyfl.notebook` and
:mod:`noisyfl.loading` are there.
"""

from __future__ import annotations

from importlib import import_module
from importlib.metadata import PackageNotFoundError, version
from typing import TYPE_CHECKING, Any

try:
    __version__ = version("noisyfl")
except PackageNotFoundError:  # a clone's folder on PYTHONPATH, as in the images
    __version__ = "0+unknown"

_LOADING = (
    *("load_cells", "load_clients", "load_methods", "load_model"),
    *("load_partition", "load_run", "load_table", "plan"),
)

_HOMES = {
    **dict.fromkeys(("audit", "compare", "train"), "noisyfl.notebook"),
    **dict.fromkeys(_LOADING, "noisyfl.loading"),
    "significance": "noisyfl.analysis.compared",
}
"""The module of each function that a notebook calls."""

__all__ = sorted(_HOMES)

if TYPE_CHECKING:
    from noisyfl.analysis.compared import significance as significance
    from noisyfl.loading import load_cells as load_cells
    from noisyfl.loading import load_clients as load_clients
    from noisyfl.loading import load_methods as load_methods
    from noisyfl.loading import load_model as load_model
    from noisyfl.loading import load_partition as load_partition
    from noisyfl.loading import load_run as load_run
    from noisyfl.loading import load_table as load_table
    from noisyfl.loading import plan as plan
    from noisyfl.notebook import audit as audit
    from noisyfl.notebook import compare as compare
    from noisyfl.notebook import train as train


def __getattr__(name: str) -> Any:
    """A function of a notebook; the import of its module takes seconds and waits for its use."""
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(_HOMES[name]), name)


def __dir__() -> list[str]:
    return sorted([*globals(), *__all__])
