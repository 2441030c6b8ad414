"""Checks of what the components of a noisy partition give back, since a plugin's may be wrong."""

from __future__ import annotations

from collections.abc import Sequence, Sized
from typing import Any

import numpy as np

from noisyfl.core.options import BadInput, kind_of


def check_dealt(rows: Any, clients: int | None, samples: int, where: str) -> list[np.ndarray]:
    """The rows that are dealt to each client, int64; :class:`BadInput` unless each client has some,
    and each row is on one client at most.

    Args:
        rows: what should be whole numbers [samples of the client] for each client.
        clients: how many there are to be; None if a file says so.
        samples: how many rows there are.
        where: what the error message calls them.
    """
    if not isinstance(rows, list | tuple):
        raise BadInput(f"{where}: got {kind_of(rows)}, expected a list of rows for each client")
    if clients is not None and len(rows) != clients:
        raise BadInput(f"{where}: got rows of {len(rows)} clients, expected {clients}")
    for client, part in enumerate(rows):
        if isinstance(part, Sized) and not len(part):
            raise BadInput(
                f"{where}: client {client} of {len(rows)} has no sample; use fewer clients, a less "
                "uneven partition or another seed"
            )
        numbers = isinstance(part, list) and all(isinstance(row, int | np.integer) for row in part)
        array = np.array(part) if numbers else part
        if not isinstance(array, np.ndarray) or array.ndim != 1 or array.dtype.kind not in "iu":
            raise BadInput(
                f"{where}: client {client}: got {kind_of(part)}, expected rows, whole numbers from "
                f"0 to {samples - 1}"
            )
    whole = [np.asarray(part).astype(np.int64) for part in rows]
    dealt = np.concatenate(whole)
    if dealt.min() < 0 or dealt.max() >= samples:
        raise BadInput(
            f"{where}: got rows {dealt.min()} to {dealt.max()}, expected 0 to {samples - 1}"
        )
    found, times = np.unique(dealt, return_counts=True)
    if times.max() > 1:
        raise BadInput(
            f"{where}: got row {found[times.argmax()]} {times.max()} times, expected each row once"
        )
    return whole


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


def check_shown(
    shown: Any, dealt: Sequence[np.ndarray], samples: int, where: str
) -> list[np.ndarray]:
    """The rows of the images that each client has, int64; :class:`BadInput` unless they are as many
    as the client was dealt, and each image is on one client at most.

    Args:
        shown: what should be whole numbers for each client.
        dealt: the rows that each client was dealt.
        samples: how many images there are.
        where: what the error message calls the rows.
    """
    whole = check_dealt(shown, len(dealt), samples, where)
    for client, (found, before) in enumerate(zip(whole, dealt, strict=True)):
        if len(found) != len(before):
            raise BadInput(
                f"{where}: client {client}: got {len(found)} rows, expected {len(before)}"
            )
    return whole
