"""The parts of a method: itself, or the two methods of a combination such as ``krum+dividemix``."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from noisyfl.core.options import BadInput, check_keys
from noisyfl.core.registry import split_component, split_sum


def split_method(raw: str | Mapping[str, Any], where: str = "") -> list[dict[str, Any]]:
    """The one or two parts of a method, each with its name and its given options.

    Args:
        raw: ``fedavg``, ``fedprox(mu=0.1)``, ``krum(byzantine=1)+dividemix``; or a mapping, of
            one method's name and options, or of two methods under ``parts``.
        where: what the error messages call it.

    Raises:
        BadInput: it is none of these.
    """
    if isinstance(raw, Mapping) and "parts" in raw:
        parts = raw["parts"]
        check_keys(raw, ("name", "parts"), where)
        if not isinstance(parts, list) or len(parts) != 2:
            raise BadInput(f"got {parts!r}, expected two methods", "parts", where=where)
    else:
        parts = split_sum(raw) if isinstance(raw, str) else [raw]
        if len(parts) > 2:
            raise BadInput(f"got {raw!r}, expected one method or two", where=where)
    split = [split_component(part, "method", where) for part in parts]
    return [{"name": name, **options} for name, options in split]


def parts_of(method: Mapping[str, Any]) -> list[Mapping[str, Any]]:
    """Canonical methods that make up a canonical method: itself, or the two of a combination."""
    return method.get("parts", [method])
