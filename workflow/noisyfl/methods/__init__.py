"""Every method, one file each, of the five papers.

Every file in this folder is imported automatically, so the methods that it registers need not be
listed anywhere.
"""

import importlib
import pkgutil

from noisyfl.methods.registry import METHODS

__all__ = ["METHODS"]

for _module in pkgutil.iter_modules(__path__):
    importlib.import_module(f"{__name__}.{_module.name}")
