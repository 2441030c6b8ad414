"""Checks of what the hooks of a method return, since a plugin's may be wrong.

They look at types and shapes, never at values, for which the host would wait for the device.
"""

from __future__ import annotations

import operator
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import torch
from torch import Tensor

from noisyfl.core.options import BadInput, kind_of
from noisyfl.simulation.weights import Weights


def returned(given: Any, kind: Any, hook: str, expected: str) -> Any:
    """What a hook has returned; :class:`BadInput` if it is not of a kind.

    Args:
        given: by the hook.
        kind: of which it should be, as ``isinstance`` takes it.
        hook: its name.
        expected: the kind in words.
    """
    if not isinstance(given, kind):
        raise BadInput(f"{hook}: got {kind_of(given)}, expected {expected}")
    return given


def check_tensor(
    given: Any, shape: Sequence[int], hook: str, expected: str, dtype: torch.dtype | None = None
) -> None:
    """Raise :class:`BadInput` unless a hook has returned a tensor of a shape.

    Args:
        given: by the hook.
        shape: that it should have.
        hook: its name.
        expected: what the tensor should be, in words.
        dtype: that it should have; None: any.
    """
    if isinstance(given, Tensor) and given.shape == shape and dtype in (None, given.dtype):
        return
    kind = f"a tensor {list(shape)}" if dtype is None else f"{dtype} {list(shape)}"
    raise BadInput(f"{hook}: got {kind_of(given)}, expected {kind}, {expected}")


def check_weights(given: Any, model: Weights, hook: str) -> None:
    """Raise :class:`BadInput` unless a hook has returned a model.

    Args:
        given: by the hook.
        model: any other one of the run, which has the same names, shapes and dtypes.
        hook: its name.
    """
    returned(given, dict, hook, "a model: a tensor for each name")
    for name in {**model, **given}:
        if name not in given or name not in model:
            got, expected = ("none", "one") if name in model else ("one", "none")
            raise BadInput(f"{hook}: got {got} called {name!r}, expected {expected}")
        like = model[name]
        check_tensor(given[name], like.shape, f"{hook}: {name}", "as in other models", like.dtype)


def whole(given: Any, hook: str) -> int:
    """A whole number as Python's, such as NumPy's; :class:`BadInput` if it is none.

    Args:
        given: by the hook.
        hook: its name.
    """
    if not hasattr(given, "__index__") or isinstance(given, Tensor):
        raise BadInput(f"{hook}: got {kind_of(given)}, expected a whole number")
    return operator.index(given)


def estimates_of(given: Mapping[str, Any], known: Mapping[str, Any]) -> dict[str, int | float]:
    """The estimates of a client, as Python's numbers.

    Args:
        given: by name.
        known: names that others have.

    Raises:
        BadInput: one of them is no number, or has the name of another one.
    """
    found = {}
    for name, value in given.items():
        number = value.item() if isinstance(value, np.generic) else value
        if not isinstance(number, int | float):
            raise BadInput(
                f"report: got {name}={kind_of(value)}, expected a number; float(...) makes one of "
                "a tensor"
            )
        if name in known:
            raise BadInput(f"report: got {name}, expected another name than {', '.join(known)}")
        found[name] = number
    return found
