"""Every method, one file each, of the five papers.

A file in this folder is imported, and what it registers is known, without being named anywhere.
"""

import importlib
import pkgutil

from noisyfl.methods.registry import METHODS

__all__ = ["METHODS"]

for _module in pkgutil.iter_modules(__path__):
    importlib.import_module(f"{__name__}.{_module.name}")
