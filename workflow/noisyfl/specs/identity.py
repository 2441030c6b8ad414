"""The id of a spec, by which runs and noisy partitions are named; and specs of other seeds."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from typing import Any

_CANONICAL = json.JSONEncoder(sort_keys=True, separators=(",", ":"), allow_nan=False)


def canonical_json(spec: Mapping[str, Any]) -> str:
    """The canonical text of a spec: JSON with sorted keys and no spaces."""
    return _CANONICAL.encode(spec)


def identity(spec: Mapping[str, Any]) -> str:
    """The id of a canonical spec: the first 16 hex digits of the SHA-256 of its canonical JSON."""
    return hashlib.sha256(canonical_json(spec).encode()).hexdigest()[:16]


def with_seed(spec: Mapping[str, Any], seed: int) -> dict[str, Any]:
    """The canonical spec of the same run with another seed."""
    return {**spec, "seed": seed, "noisy_partition": {**spec["noisy_partition"], "seed": seed}}
