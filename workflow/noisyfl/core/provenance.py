"""The provenance of a run: how, when and with what it was trained, and how it ended."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any, Literal

from pydantic import ConfigDict, Field

from noisyfl.core.artifacts import (
    DamagedArtifact,
    checksum_without,
    read_json,
    remedy,
    write_json,
)
from noisyfl.core.options import BadInput
from noisyfl.core.typed import Typed


class Machine(Typed):
    """What a part of a run was trained on."""

    model_config = ConfigDict(extra="allow")

    device: str


class Provenance(Typed):
    """The provenance of a run, with what this version reads of it and everything else it has.

    Attributes:
        realised_noise: the share of wrong labels; null if the true ones are not known.
        earlier: where the run was trained before it moved.
        plugins: by name, those that the run's components come from.
    """

    model_config = ConfigDict(extra="allow")

    run: str
    rounds: int
    status: Literal["finished", "diverged"]
    noisyfl: str
    source_digest: str
    python: str
    torch: str
    device: str
    setup_seconds: float
    training_seconds: float
    checksum: str
    processor: str | None = None
    realised_noise: float | None = None
    earlier: list[Machine] = Field(default=[])
    plugins: dict[str, dict[str, Any]] = Field(default={})

    @property
    def devices(self) -> list[str]:
        """The devices that the run was trained on, the first one first: it may have moved."""
        return [*(machine.device for machine in self.earlier), self.device]


def write_provenance(path: Path, content: Mapping[str, Any]) -> None:
    """Write a provenance with a checksum of its content.

    Args:
        content: with the keys of :class:`Provenance` but for the checksum.
    """
    write_json(path, {**content, "checksum": checksum_without(content, "checksum")})


def read_provenance(path: Path, run: str) -> Provenance:
    """Read the provenance of a run.

    Raises:
        DamagedArtifact: it is not a provenance, was altered, or is another run's.
        FileNotFoundError: there is no such file.
    """
    content = read_json(path)

    def damaged(why: object) -> DamagedArtifact:
        return DamagedArtifact(f"{path}: {why}; {remedy(path)}")

    try:
        found = Provenance.read(content)
    except BadInput as error:
        raise damaged(error) from None
    if found.run != run:
        raise damaged(f"expected the run {run}, found {found.run!r}")
    if found.checksum != checksum_without(content, "checksum"):
        raise damaged("the content does not match its checksum, so it was altered")
    return found
