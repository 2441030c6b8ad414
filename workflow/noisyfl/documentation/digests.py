"""The digests of the methods' code, by which planning notices an edit without a higher revision."""

from __future__ import annotations

from pathlib import Path

from noisyfl.core.artifacts import json_text
from noisyfl.specs import catalogue


def files() -> dict[Path, str]:
    """The file of the digests, as the code is now."""
    return {catalogue.DIGESTS: json_text(catalogue.digests(catalogue.methods()))}
