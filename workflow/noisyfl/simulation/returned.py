"""Checks of the tensors that a method's hooks return, where a wrong one would train a wrong model.

They look at types and shapes, never at values, for which the host would wait for the device.
"""

from __future__ import annotations

import operator
from collections.abc import Collection, Mapping, Sequence
from typing import Any

import torch
from torch import Tensor

from noisyfl.core.options import BadInput, kind_of
from noisyfl.simulation.weights import Weights


def check_tensor(
    given: Any, shape: Sequence[int], hook: str, expected: str, dtype: torch.dtype | None = None
) -> None:
    """Raise :class:`BadInput` unless a hook has returned a tensor of a shape.

    Args:
        dtype: that it should have; None: any.
    """
    if isinstance(given, Tensor) and given.shape == shape and dtype in (None, given.dtype):
        return
    kind = f"a tensor {list(shape)}" if dtype is None else f"{dtype} {list(shape)}"
    raise BadInput(f"{hook}: got {kind_of(given)}, expected {kind}, {expected}")


def check_memory(given: Any, by_sample: Collection[str], samples: int) -> None:
    """Raise :class:`BadInput` unless a hook has returned tensors by name, and those ``by_sample``
    have a row for each of the client's samples.
    """
    if not isinstance(given, Mapping):
        raise BadInput(f"memory: got {kind_of(given)}, expected tensors by name")
    for name, value in given.items():
        if not isinstance(value, Tensor):
            raise BadInput(f"memory: {name}: got {kind_of(value)}, expected a tensor")
        if name in by_sample and value.shape[:1] != (samples,):
            raise BadInput(
                f"memory: {name}: got {kind_of(value)}, expected a row for each of the client's "
                f"{samples} samples (by_sample)"
            )


def whole_number(given: Any, hook: str) -> int:
    """What a hook has returned, as an int; :class:`BadInput` unless it is an integer from 1 on."""
    if not hasattr(given, "__index__") or operator.index(given) < 1:
        raise BadInput(f"{hook}: got {given!r}, expected a whole number from 1 on")
    return operator.index(given)


def check_weights(given: Any, model: Weights, hook: str) -> None:
    """Raise :class:`BadInput` unless a hook has returned weights with the names, shapes and dtypes
    of ``model``.
    """
    if not isinstance(given, dict):
        raise BadInput(f"{hook}: got {kind_of(given)}, expected a dict of weights")
    for name in sorted(given.keys() ^ model.keys()):
        problem = "is missing" if name in model else "is no weight of the network"
        raise BadInput(f"{hook}: {name!r} {problem}")
    for name, like in model.items():
        check_tensor(given[name], like.shape, f"{hook}: {name}", "as in other models", like.dtype)
