"""The ids of every scale's runs, in short: a run with another id is trained again.

As a script, ``python tests/support/ids.py`` (``make ids``), it records them.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from checked_plan import checked_plan
from noisyfl.core.checked_yaml import read_yaml
from noisyfl.core.places import ROOT
from noisyfl.experiments.config import load_config

FILE = ROOT / "tests" / "specs" / "ids.json"


def scales() -> list[Path]:
    """The files of all scales."""
    return [p for p in sorted((ROOT / "config").glob("*.yaml")) if "experiments" in read_yaml(p)]


def runs_of(path: Path) -> dict[str, Any]:
    """The specs of a scale's runs, by their ids."""
    return checked_plan(load_config([path]), str(path)).runs


def noted(runs: Iterable[str]) -> dict[str, Any]:
    """How many runs there are, and a digest of their ids."""
    ids = sorted(runs)
    return {"runs": len(ids), "sha256": hashlib.sha256("\n".join(ids).encode()).hexdigest()}


if __name__ == "__main__":
    found = {path.stem: noted(runs_of(path)) for path in scales()}
    FILE.write_text(json.dumps(found, indent=2) + "\n")
