"""What official codes ask for and do not find here: CUDA, and what libraries have deleted since."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from torch import nn


def apply() -> None:
    """Let this process run official codes; it should do nothing else."""
    torch.set_num_threads(1)
    torch.Tensor.cuda = _itself  # type: ignore[method-assign]
    nn.Module.cuda = _itself  # type: ignore[method-assign]
    torch.cuda.FloatTensor = torch.FloatTensor  # type: ignore[misc]
    torch.utils.data.DataLoader = Loader  # type: ignore[misc]
    # Once a list, in which FedCorr's code sets an entry.
    np.ogrid = _ListGrid(np.ogrid)  # type: ignore[assignment]
    iterator = torch.utils.data.dataloader._BaseDataLoaderIter
    iterator.next = iterator.__next__  # type: ignore[attr-defined]


class Loader(torch.utils.data.DataLoader):
    """Loads in the process itself, where codes ask for four others."""

    def __init__(self, *args: Any, **options: Any) -> None:
        super().__init__(*args, **{**options, "num_workers": 0, "pin_memory": False})


def _itself(value: Any, *args: Any, **kwargs: Any) -> Any:
    return value


class _ListGrid:
    def __init__(self, grid: Any) -> None:
        self._grid = grid

    def __getitem__(self, key: Any) -> list:
        return list(self._grid[key])
