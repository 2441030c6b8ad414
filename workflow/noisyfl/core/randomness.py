"""Independent random streams from one seed, each with a name.

A stream depends only on the seed and on its name, which says what it is for, and not on anything
that was drawn before it was opened. So two methods in the same setting and trial see the same
partition, the same noise and the same clients in the same round; switching one use of randomness
off leaves all others as they were; and a run that is resumed draws what it would have drawn without
the interruption.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from contextlib import contextmanager

import numpy as np

from noisyfl.core.options import BadInput


def stream(seed: int, *name: str | int) -> np.random.Generator:
    """The generator of the stream called ``name`` under a seed.

    >>> stream(1, "batches", 3, 17)  # the batches of client 17 in round 3
    Generator(PCG64) at 0x...

    Args:
        seed: the trial's seed, at least 0.
        name: what the stream is for: words and indices, in any number.
    """
    return np.random.default_rng(np.random.SeedSequence(seed, spawn_key=_key(name)))


def torch_seed(seed: int, *name: str | int) -> int:
    """A 63-bit seed for torch's own generator, for what draws from that one, such as dropout."""
    return int(stream(seed, *name).integers(2**63))


@contextmanager
def only_streams(where: str, instead: str) -> Iterator[None]:
    """Raise :class:`BadInput` if code uses the generator that all of NumPy shares: no trial's seed
    sets it, so each process would draw something else.

    Python's own generator is not looked at, since importing a module may draw from it.

    Args:
        where: what the error message calls the code.
        instead: what it should draw from.
    """
    before = _shared_state()
    yield
    if _shared_state() != before:
        raise BadInput(
            f"{where}: draws from the random numbers that all of NumPy shares, which no trial's "
            f"seed sets, expected from {instead}"
        )


def _shared_state() -> tuple[object, ...]:
    state = np.random.get_state(legacy=False)["state"]
    return state["pos"], state["key"].tobytes()


def _key(name: tuple[str | int, ...]) -> tuple[int, ...]:
    """A name as integers, for a spawn key; a word becomes the first 4 bytes of its SHA-256."""
    return tuple(
        int.from_bytes(hashlib.sha256(part.encode()).digest()[:4], "little")
        if isinstance(part, str)
        else int(part)
        for part in name
    )
