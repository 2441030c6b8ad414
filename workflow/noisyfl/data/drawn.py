"""Checks of what the components of a noisy partition return, where an error would be silent."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from noisyfl.core.options import BadInput, kind_of


def check_dealt(
    rows: Sequence[np.ndarray], clients: int, samples: int, where: str
) -> list[np.ndarray]:
    """The rows that are dealt to each client, int64 [samples of the client].

    Raises:
        BadInput: a client has none, or a row is on two clients, negative, or beyond the last one.
    """
    _check_clients(rows, clients, where)
    for client, part in enumerate(rows):
        found = np.asarray(part)
        if found.ndim == 1 and not found.size:
            raise BadInput(
                f"{where}: client {client} of {len(rows)} has no sample; use fewer clients, a less "
                "uneven partition or another seed"
            )
        if found.ndim != 1 or found.dtype.kind not in "iu":
            got = f"client {client}: got {kind_of(part)}"
            raise BadInput(f"{where}: {got}, expected integers from 0 to {samples - 1}")
    whole = [np.asarray(part).astype(np.int64) for part in rows]
    found, times = np.unique(np.concatenate(whole), return_counts=True)
    if found[0] < 0 or found[-1] >= samples:
        raise BadInput(f"{where}: got rows {found[0]} to {found[-1]}, expected 0 to {samples - 1}")
    if times.max() > 1:
        raise BadInput(
            f"{where}: got row {found[times.argmax()]} {times.max()} times, expected each row once"
        )
    return whole


def _check_clients(given: Any, clients: int, where: str) -> None:
    """Raise :class:`BadInput` unless there is something for each client."""
    if not isinstance(given, Sequence | np.ndarray) or len(given) != clients:
        raise BadInput(
            f"{where}: got {kind_of(given)}, expected an array for each of {clients} clients"
        )


def check_levels(levels: Any, clients: int, where: str) -> None:
    """Raise :class:`BadInput` unless there is a share from 0 to 1 for each client."""
    is_array = isinstance(levels, np.ndarray) and levels.dtype.kind in "fiu"
    if not is_array or levels.shape != (clients,):
        got = kind_of(levels)
    elif not ((levels >= 0) & (levels <= 1)).all():
        got = f"{levels.min():g} to {levels.max():g}"
    else:
        return
    raise BadInput(f"{where}: got {got}, expected {clients} shares from 0 to 1, an array")


def check_flipped(
    flipped: Sequence[np.ndarray], true: Sequence[np.ndarray], classes: int, where: str
) -> None:
    """Raise :class:`BadInput` unless there is a label of a class for each sample of each client."""
    _check_clients(flipped, len(true), where)
    for client, (given, before) in enumerate(zip(flipped, true, strict=True)):
        is_array = isinstance(given, np.ndarray) and given.dtype.kind in "iu"
        if not is_array or given.shape != before.shape:
            raise BadInput(
                f"{where}: client {client}: got {kind_of(given)}, expected an array of "
                f"{len(before)} integers"
            )
        if len(given) and (given.min() < 0 or given.max() >= classes):
            raise BadInput(
                f"{where}: client {client}: got labels {given.min()} to {given.max()}, expected 0 "
                f"to {classes - 1}"
            )


def check_shown(
    shown: Sequence[np.ndarray], dealt: Sequence[np.ndarray], samples: int, where: str
) -> list[np.ndarray]:
    """The rows of the images that each client has, int64: as many as the client was dealt, and each
    image on one client at most, or :class:`BadInput`.
    """
    whole = check_dealt(shown, len(dealt), samples, where)
    for client, (found, before) in enumerate(zip(whole, dealt, strict=True)):
        if len(found) != len(before):
            raise BadInput(
                f"{where}: client {client}: got {len(found)} rows, expected {len(before)}"
            )
    return whole
