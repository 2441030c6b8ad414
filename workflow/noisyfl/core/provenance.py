"""The provenance of a run: how, when and with what it was trained, and how it ended."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from noisyfl.core.artifacts import (
    DamagedArtifact,
    checksum_without,
    read_json,
    remedy,
    write_json,
)

STATUSES = ("finished", "diverged")
"""How a whole run may have ended."""

NUMBER = (int, float)

KINDS: Mapping[str, tuple[type, ...]] = {
    "run": (str,),
    "rounds": (int,),
    "status": (str,),
    "noisyfl": (str,),
    "source_digest": (str,),
    "python": (str,),
    "torch": (str,),
    "device": (str,),
    "setup_seconds": NUMBER,
    "training_seconds": NUMBER,
    "checksum": (str,),
}
"""The keys that every provenance has, and the types of their values."""


def write_provenance(path: Path, content: Mapping[str, Any]) -> None:
    """Write a provenance with a checksum of its content.

    Args:
        content: with the keys of :data:`KINDS` but for the checksum.
    """
    write_json(path, with_checksum(content))


def with_checksum(content: Mapping[str, Any]) -> dict[str, Any]:
    """A provenance with the checksum of its content."""
    return {**content, "checksum": checksum_without(content, "checksum")}


def read_provenance(path: Path, run: str) -> dict[str, Any]:
    """Read the provenance of a run.

    Raises:
        DamagedArtifact: it is not a provenance, was altered, or is another run's.
        FileNotFoundError: there is no such file.
    """
    found = read_json(path)

    def refuse(why: str) -> DamagedArtifact:
        return DamagedArtifact(f"{path}: {why}; {remedy(path)}")

    for key, kinds in KINDS.items():
        if key not in found:
            raise refuse(f"the key {key!r} is missing")
        if not isinstance(found[key], kinds) or isinstance(found[key], bool):
            expected = "text" if kinds == (str,) else "a number"
            raise refuse(f"{key}: got {found[key]!r}, expected {expected}")
    if found["status"] not in STATUSES:
        raise refuse(f"status: got {found['status']!r}, expected {' or '.join(STATUSES)}")
    if found["run"] != run:
        raise refuse(f"expected the run {run}, found {found['run']!r}")
    if found["checksum"] != checksum_without(found, "checksum"):
        raise refuse("the content does not fit its checksum, so it was altered")
    return found


def devices(provenance: Mapping[str, Any]) -> list[str]:
    """The devices that a run was trained on, the first one first: it may have moved."""
    earlier = [machine["device"] for machine in provenance.get("earlier", [])]
    return [*earlier, provenance["device"]]
