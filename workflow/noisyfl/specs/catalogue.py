"""What every method declares, and how a method that a user gives becomes canonical."""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Mapping
from typing import Any

from noisyfl.core.options import BadInput, Declaration, find
from noisyfl.methods import METHODS
from noisyfl.specs.parts import parts_of, split_method
from noisyfl.specs.sources import MethodSource, method_digest, method_file


@dataclasses.dataclass(frozen=True, kw_only=True)
class MethodDeclaration(Declaration):
    """What a method declares; :class:`noisyfl.simulation.client_side.Side` and its ``cost`` explain
    the fields.

    Attributes:
        module: the module that the method is written in.
    """

    module: str
    revision: int
    reference: str
    networks: int
    effort: float
    models_kept: int
    is_server: bool
    is_client: bool
    partner: str
    needs_truth: bool
    least_participants: int
    own_batches: bool
    predicts_by_features: bool
    refuses: dict[str, dict]


OWN = [
    field.name
    for field in dataclasses.fields(MethodDeclaration)
    if field.name not in {"module", *(field.name for field in dataclasses.fields(Declaration))}
]
"""The fields that methods declare and other components do not."""


@functools.cache
def methods() -> dict[str, MethodDeclaration]:
    """The declaration of every method, by name."""
    found = {}
    for name, declared in METHODS.declarations().items():
        cls: Any = METHODS.get(name, "methods")
        common = {
            field.name: getattr(declared, field.name) for field in dataclasses.fields(declared)
        }
        own = {key: getattr(cls.cost if hasattr(cls.cost, key) else cls, key) for key in OWN}
        found[name] = MethodDeclaration(module=cls.__module__, **common, **own)
    return found


def canonical_method(
    given: str | Mapping[str, Any], where: str, measures: Mapping[str, float] | None = None
) -> dict[str, Any]:
    """A method with its revision and every default filled in; both methods of a combination.

    ``fedavg+elr`` is ``elr``: a client side alone has FedAvg's server side.

    Args:
        given: as :func:`split_method` takes it.
        where: what the error messages call it.
        measures: of the run (:func:`noisyfl.specs.spec.measures_of`). Without them, defaults that
            scale with a run's length are those of the method's paper.

    Raises:
        BadInput: unknown method, variant or option, a value out of range, or a combination of
            methods that cannot be combined.
    """
    parts = []
    for part in split_method(given, where):
        declaration = find(methods(), part["name"], "method", where)
        options = {key: value for key, value in part.items() if key != "name"}
        canonical = declaration.canonical(options, f"{where}.{part['name']}", measures)
        parts.append({**canonical, "revision": revision_of(declaration)})
    if len(parts) == 1:
        return parts[0]
    first, second = (part["name"] for part in parts)
    wanted = methods()[first].partner
    if not wanted:
        raise BadInput(
            f"{where}: {first}+{second}: {first} has no server side that another method could use, "
            "so nothing can stand behind it"
        )
    behind = methods()[second]
    if not (behind.is_client if wanted == "client" else behind.is_server):
        raise BadInput(
            f"{where}: {first}+{second}: what stands behind {first} needs a {wanted} side, and "
            f"{second} has none"
        )
    if wanted == "client" and behind.is_server and second != "fedavg":
        raise BadInput(
            f"{where}: {first}+{second}: {second} is a client side and a server side that need "
            f"each other, so it cannot stand behind {first}"
        )
    for trait, refusal in methods()[first].refuses.items():
        meant = all(parts[0][key] == value for key, value in refusal["when"].items())
        if meant and getattr(behind, trait):
            raise BadInput(f"{where}: {first}+{second}: {second} {refusal['why']}")
    if first == "fedavg":
        return parts[1]
    return {"name": f"{first}+{second}", "parts": parts}


def revision_of(declaration: MethodDeclaration) -> int | str:
    """What stands for a method's arithmetic in a spec: its revision.

    As long as that is 0, the method is being written: its digest stands there too, so that each
    edit makes other runs.
    """
    if declaration.revision:
        return declaration.revision
    return f"0-{method_digest(declaration.module)[:12]}"


def methods_digest(method: Mapping[str, Any]) -> str:
    """SHA-256 of what a canonical method is made of (:func:`method_digest` of all of its parts)."""
    return method_digest(*_modules(method))


def method_source(method: Mapping[str, Any]) -> MethodSource | None:
    """What a canonical method is made of; None if a part of it is gone."""
    if any(part["name"] not in methods() for part in parts_of(method)):
        return None
    files = sorted(method_file(module).name for module in _modules(method))
    return MethodSource(methods_digest(method), tuple(files))


def _modules(method: Mapping[str, Any]) -> list[str]:
    return sorted({methods()[part["name"]].module for part in parts_of(method)})


def without_revisions(method: Mapping[str, Any]) -> dict[str, Any]:
    """A canonical method as a user would give it."""
    if "parts" in method:
        return {**method, "parts": [without_revisions(part) for part in method["parts"]]}
    return {key: value for key, value in method.items() if key != "revision"}
