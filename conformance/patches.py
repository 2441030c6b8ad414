"""Stand-ins for what official codes need and do not find here: CUDA, and deleted library names."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from torch import nn


def apply() -> None:
    """Patch this process so that it can run official codes; it should be used for nothing else."""
    torch.set_num_threads(1)
    torch.Tensor.cuda = _itself  # type: ignore[method-assign]
    nn.Module.cuda = _itself  # type: ignore[method-assign]
    torch.cuda.FloatTensor = torch.FloatTensor  # type: ignore[misc]
    torch.utils.data.DataLoader = Loader  # type: ignore[misc]
    # FedCorr's code sets an entry of what it returns, which is a list in older versions of numpy.
    np.ogrid = _ListGrid(np.ogrid)  # type: ignore[assignment]
    iterator = torch.utils.data.dataloader._BaseDataLoaderIter
    iterator.next = iterator.__next__  # type: ignore[attr-defined]


class Loader(torch.utils.data.DataLoader):
    """A data loader that works in the process itself, where official codes ask for four workers."""

    def __init__(self, *args: Any, **options: Any) -> None:
        super().__init__(*args, **{**options, "num_workers": 0, "pin_memory": False})


def _itself(value: Any, *args: Any, **kwargs: Any) -> Any:
    return value


class _ListGrid:
    def __init__(self, grid: Any) -> None:
        self._grid = grid

    def __getitem__(self, key: Any) -> list:
        return list(self._grid[key])
