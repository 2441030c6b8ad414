"""TensorBoard's event files of a run, written while it is under way."""

from __future__ import annotations

import importlib.util
import math
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from noisyfl.core.options import BadInput


def check_tensorboard(where: str) -> None:
    """Raise :class:`BadInput` if TensorBoard is not installed."""
    if importlib.util.find_spec("tensorboard") is None:
        raise BadInput(
            f"{where}: got true, but TensorBoard is not installed; "
            'install it with: pip install "noisyfl[tensorboard]"'
        )


class Events:
    """Writes the rows of ``rounds``: every column of numbers is a scalar of that name.

    Args:
        folder: of the run's event files.
    """

    def __init__(self, folder: Path) -> None:
        from torch.utils.tensorboard import SummaryWriter

        self._writer = SummaryWriter(str(folder))

    def write(self, row: Mapping[str, Any]) -> None:
        """Write a round, with its number as the step; what is no finite number is left out."""
        for name, value in row.items():
            if isinstance(value, int | float) and math.isfinite(value) and name != "round":
                self._writer.add_scalar(name, value, row["round"])
        self._writer.flush()

    def close(self) -> None:
        """Close the event file after the last round."""
        self._writer.close()
