"""A side of a pair."""

from __future__ import annotations

import importlib
import os
from pathlib import Path
from typing import Any

from conformance import checkout
from conformance.runs import CAUSES, CODES, PAIRS, ours
from conformance.runs.official import Handed


def run(
    name: str, side: str, seed: int, official: Path, data: Path, results: Path
) -> dict[str, Any]:
    """One side of a pair. To be called in a process of its own.

    Args:
        name: of the pair.
        side: ``ours``, or one of the official code, which is given what ours has made, and so comes
            after it.
        seed: of the trial.
        official: the folder of checkouts.
        data: where datasets' official files lie.
        results: for our artifacts.

    Returns:
        What :func:`conformance.runs.ours.run` says, and the processor's ``seconds``.
    """
    pair, begun = (PAIRS | CAUSES)[name], _spent()
    found = ours.run(pair, seed, data.resolve(), results)
    if side != "ours":
        code = importlib.import_module(f"conformance.runs.{CODES[pair.repository]}")
        handed = Handed.of(ours.spec_of(pair, seed), results)
        begun = _spent()
        changes = {"changes": pair.changes[side]} if side in pair.changes else {}
        folder = checkout(official, pair.repository)
        found = code.run(pair.method, pair.arguments, handed, folder, **changes)
    return {**found, "seconds": _spent() - begun}


def _spent() -> float:
    return sum(os.times()[:4])
