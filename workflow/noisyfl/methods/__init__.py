"""Every method of the five papers and beside them, one file each.

Every file in this folder is imported automatically, so the methods that it registers need not be
listed anywhere.
"""

import importlib
import pkgutil
from pathlib import Path

from noisyfl.core.plugins import naming_the_line
from noisyfl.simulation.registry import METHODS

__all__ = ["METHODS"]


def _import(name: str) -> None:
    """Import a method's file.

    Raises:
        BadInput: it cannot be imported; names its line.
    """
    with naming_the_line(lambda file: Path(file).parent == Path(__file__).parent):
        importlib.import_module(f"{__name__}.{name}")


for _module in pkgutil.iter_modules(__path__):
    _import(_module.name)
