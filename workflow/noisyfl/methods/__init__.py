"""Every method, one file each, of the five papers.

Every file in this folder is imported automatically, so the methods that it registers need not be
listed anywhere.
"""

import importlib
import pkgutil
import traceback
from pathlib import Path

from noisyfl.core.options import BadInput
from noisyfl.methods.registry import METHODS

__all__ = ["METHODS"]


def _import(name: str) -> None:
    """Import a method's file.

    Raises:
        BadInput: it cannot be imported; names its line.
    """
    try:
        importlib.import_module(f"{__name__}.{name}")
    except Exception as error:
        file, line = _place(error)
        why = error.msg if isinstance(error, SyntaxError) else error
        raise BadInput(f"{file}, line {line}: {type(error).__name__}: {why}") from error


def _place(error: Exception) -> tuple[str | None, int | None]:
    """The file and the line of an error: the last of those in this folder, if any is."""
    if isinstance(error, SyntaxError):
        return error.filename, error.lineno
    frames = traceback.extract_tb(error.__traceback__)
    ours = [frame for frame in frames if Path(frame.filename).parent == Path(__file__).parent]
    frame = [*frames, *ours][-1]
    return frame.filename, frame.lineno


for _module in pkgutil.iter_modules(__path__):
    _import(_module.name)
