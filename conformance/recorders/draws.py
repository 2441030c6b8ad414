"""Draws that are told: both codes make the same of the same numbers."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import ExitStack, contextmanager
from typing import Any
from unittest.mock import patch

import numpy as np


class Told:
    """A random generator, numpy's old one and the new one, that is told its numbers.

    Args:
        rows: numbers from 0 to 1; each question takes the next row, as much of it as it needs;
            one for nothing takes none.
        alphas: where to keep the concentrations that are asked of a Dirichlet distribution.
    """

    def __init__(self, rows: Iterable[Any], alphas: list | None = None) -> None:
        self.rows = iter(rows)
        self.alphas = alphas if alphas is not None else []

    def random(self, size: Any) -> np.ndarray:
        """Uniform on [0, 1)."""
        count = int(np.prod(size))
        if not count:
            return np.zeros(size)
        return np.asarray(next(self.rows))[:count].reshape(size)

    def rand(self, *shape: int) -> np.ndarray:
        """The same."""
        return self.random(shape)

    def binomial(self, trials: int, chance: float, size: Any) -> np.ndarray:
        """Of one trial."""
        assert trials == 1
        return (self.random(size) < chance).astype(int)

    def integers(self, low: Any, high: Any = None, size: Any = None) -> np.ndarray:
        """From low to before high, or from 0 to before low."""
        first, last = (0, low) if high is None else (low, high)
        drawn = self.random(np.shape(last) if size is None else size)
        return (first + np.floor(drawn * (np.asarray(last) - first))).astype(int)

    randint = integers

    def dirichlet(self, alpha: Any) -> np.ndarray:
        """Shares that the concentrations do not change; these are kept."""
        self.alphas.append(np.asarray(alpha, dtype=float).tolist())
        drawn = -np.log(self.random(len(alpha)))
        return drawn / drawn.sum()

    def choice(self, values: Any, size: int, p: Any) -> np.ndarray:
        """With replacement, by chances."""
        places = np.searchsorted(np.cumsum(p)[:-1], self.random(size), side="right")
        return np.asarray(values)[places]

    def permutation(self, of: Any) -> np.ndarray:
        """Of an array, or of the integers below a number."""
        values = np.arange(of) if np.isscalar(of) else np.asarray(of)
        return values[np.argsort(self.random(len(values)), kind="stable")]

    def shuffle(self, values: Any) -> None:
        """The same in place."""
        values[:] = self.permutation(np.array(values)).tolist()


@contextmanager
def told(draws: Told, names: Iterable[str]) -> Iterator[None]:
    """Let numpy's functions of these names be a generator's.

    Args:
        draws: the generator.
        names: below ``numpy.random``.
    """
    with ExitStack() as stack:
        stack.enter_context(patch.object(np.random, "seed", lambda seed: None))
        for name in names:
            stack.enter_context(patch.object(np.random, name, getattr(draws, name)))
        yield
