"""How an executor ran the steps of a run, for its log and its provenance."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Hashable


class Usage:
    """How steps were launched, and where the executor had to fall back on a slower way.

    Attributes:
        captured: steps that were launched as CUDA graphs.
        eager: steps that ran one operation at a time.
        fallbacks: one line for each thing that did not go as it should: what happened, and what
            was done about it.
        log: a function that each such line is passed to at once.
        runs: how often a step of each key has run, on any slot; see
            :class:`noisyfl.simulation.graphs.GraphCache`.
        checked: how many replays of a key were compared with the work itself, on any slot.
        given_up: keys of steps that are never captured again.
    """

    def __init__(self) -> None:
        self.captured = 0
        self.eager = 0
        self.fallbacks: list[str] = []
        self.log: Callable[[str], None] = lambda line: None
        self.runs: Counter[Hashable] = Counter()
        self.checked: Counter[Hashable] = Counter()
        self.given_up: set[Hashable] = set()

    def fall_back(self, line: str) -> None:
        """Record and log a line about something that did not go as it should."""
        self.fallbacks.append(line)
        self.log(line)
