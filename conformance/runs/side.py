"""Both sides of a pair."""

from __future__ import annotations

import importlib
import os
from pathlib import Path
from typing import Any

from conformance import checkout
from conformance.runs import CODES, PAIRS, ours
from conformance.runs.official import Handed


def run(name: str, seed: int, official: Path, data: Path, results: Path) -> dict[str, Any]:
    """Ours, then the official code on what ours has made. To be called in a process of its own.

    Args:
        name: of the pair.
        seed: of the trial.
        official: the folder of checkouts.
        data: where data sets' official files lie.
        results: for our artifacts.

    Returns:
        Of each side what :func:`conformance.runs.ours.run` says, and the processor's ``seconds``.
    """
    pair, found = PAIRS[name], {}
    begun = _spent()
    found["ours"] = ours.run(name, pair, seed, data.resolve(), results)
    found["ours"]["seconds"] = _spent() - begun
    handed = Handed.of(ours.spec_of(pair, seed), results)
    code = importlib.import_module(f"conformance.runs.{CODES[pair.repository]}")
    begun = _spent()
    found["official"] = code.run(name, pair.arguments, handed, checkout(official, pair.repository))
    found["official"]["seconds"] = _spent() - begun
    return found


def _spent() -> float:
    return sum(os.times()[:4])
