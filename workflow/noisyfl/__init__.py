"""Federated learning with noisy labels: five papers, from noisy partitions to their tables.

In a notebook: ``import noisyfl``, and the functions of :mod:`noisyfl.notebook` are there.
"""

from __future__ import annotations

from importlib.metadata import PackageNotFoundError, version
from typing import TYPE_CHECKING, Any

try:
    __version__ = version("noisyfl")
except PackageNotFoundError:  # a clone's folder on PYTHONPATH, as in the images
    __version__ = "0+unknown"

__all__ = [
    "audit",
    "compare",
    "load_cells",
    "load_methods",
    "load_model",
    "load_partition",
    "load_run",
    "load_table",
    "plan",
    "significance",
    "train",
]

if TYPE_CHECKING:
    from noisyfl.notebook import (
        audit,
        compare,
        load_cells,
        load_methods,
        load_model,
        load_partition,
        load_run,
        load_table,
        plan,
        significance,
        train,
    )


def __getattr__(name: str) -> Any:
    """A function of the notebook, whose import takes seconds and waits for its first use."""
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from noisyfl import notebook

    return getattr(notebook, name)


def __dir__() -> list[str]:
    return sorted([*globals(), *__all__])
