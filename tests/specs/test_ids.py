"""No run is renamed by accident: a run with another id is trained again.

Where ids are meant to change, ``make ids`` notes the new ones; the file's diff says which scales'.
"""

import hashlib
import json
from pathlib import Path

import pytest

from noisyfl.experiments.config import ROOT, load_config
from noisyfl.experiments.planning import make_plan

FILE = Path(__file__).with_name("ids.json")
SCALES = ("config", "desk", "desk_long", "methods", "paper", "smoke")


def ids_of(scale):
    """How many runs a scale has, and a digest of their ids."""
    path = ROOT / "config" / f"{scale}.yaml"
    runs = sorted(make_plan(load_config(path), ROOT / "config" / "papers", str(path)).runs)
    return {"runs": len(runs), "sha256": hashlib.sha256("\n".join(runs).encode()).hexdigest()}


@pytest.mark.parametrize("scale", SCALES)
def test_the_runs_have_the_ids_that_they_had(scale):
    assert ids_of(scale) == json.loads(FILE.read_text())[scale], "if this is meant: make ids"


def test_every_scale_is_noted():
    scales = {p.stem for p in (ROOT / "config").glob("*.yaml") if "\nexperiments:" in p.read_text()}
    assert scales == set(SCALES)


if __name__ == "__main__":
    FILE.write_text(json.dumps({scale: ids_of(scale) for scale in SCALES}, indent=2) + "\n")
