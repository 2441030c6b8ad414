"""Checks of what the components of a noisy partition give back, since a plugin's may be wrong."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from noisyfl.core.options import BadInput, kind_of


def check_dealt(rows: Any, clients: int | None, samples: int, where: str) -> None:
    """Raise :class:`BadInput` unless rows are dealt to all clients, each to one at most.

    Args:
        rows: what should be an int64 array [samples of the client] for each client.
        clients: how many there are to be; None if a file says so.
        samples: how many rows there are.
        where: what the error message calls them.
    """
    if clients is not None and len(rows) != clients:
        raise BadInput(f"{where}: got rows of {len(rows)} clients, expected {clients}")
    dealt = np.concatenate(rows)
    if dealt.min() < 0 or dealt.max() >= samples:
        raise BadInput(
            f"{where}: got rows {dealt.min()} to {dealt.max()}, expected 0 to {samples - 1}"
        )
    found, times = np.unique(dealt, return_counts=True)
    if times.max() > 1:
        raise BadInput(
            f"{where}: got row {found[times.argmax()]} {times.max()} times, expected each row once"
        )


def check_levels(levels: Any, clients: int, where: str) -> None:
    """Raise :class:`BadInput` unless there is a share from 0 to 1 for each client.

    Args:
        levels: what should be float64 [clients].
        clients: how many there are.
        where: what the error message calls them.
    """
    expected = f"expected {clients} shares from 0 to 1, an array"
    if not isinstance(levels, np.ndarray) or levels.shape != (clients,):
        raise BadInput(f"{where}: got {kind_of(levels)}, {expected}")
    if not ((levels >= 0) & (levels <= 1)).all():
        raise BadInput(f"{where}: got {levels.min():g} to {levels.max():g}, {expected}")


def check_flipped(flipped: Any, true: Sequence[np.ndarray], classes: int, where: str) -> None:
    """Raise :class:`BadInput` unless there is a label for each sample of each client.

    Args:
        flipped: what should be an int64 array for each client.
        true: the true labels of each client.
        classes: how many there are.
        where: what the error message calls the labels.
    """
    expected = f"expected a list of {len(true)} arrays"
    if not isinstance(flipped, list | tuple) or len(flipped) != len(true):
        raise BadInput(f"{where}: got {kind_of(flipped)}, {expected}")
    for client, (given, before) in enumerate(zip(flipped, true, strict=True)):
        of_client = f"{where}: client {client}: got"
        fits = isinstance(given, np.ndarray) and given.shape == before.shape
        if not fits or given.dtype.kind not in "iu":
            raise BadInput(f"{of_client} {kind_of(given)}, expected {len(before)} whole numbers")
        if len(given) and (given.min() < 0 or given.max() >= classes):
            raise BadInput(
                f"{of_client} labels {given.min()} to {given.max()}, expected 0 to {classes - 1}"
            )
