"""What every method declares, known without importing torch.

The id of a run depends on its method's options, defaults and revision. These are read from the
methods' classes, and the classes need torch, which takes seconds to import: too long for a
Snakefile that every job parses anew. So what was read is kept in the user's cache folder, under a
digest of the sources that it was read from. Where that folder cannot be written to, the classes are
read every time.
"""

from __future__ import annotations

import dataclasses
import functools
import json
import time
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

import platformdirs

from noisyfl.core.artifacts import replacing
from noisyfl.core.options import BadInput, Declaration, Option, check_keys, find
from noisyfl.core.registry import split_component, split_sum
from noisyfl.specs.sources import digest_of, method_digest

KEPT_SECONDS = 30 * 24 * 3600
"""The age after which a file is removed from the cache folder."""


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


def kept_file(name: str, digest: str) -> Path:
    """The path of a file in the user's cache folder; ``digest`` is of all it is computed from."""
    return platformdirs.user_cache_path("noisyfl") / f"{name}-{digest[:16]}.json"


def keep(path: Path, text: str) -> None:
    """Write a file at a path of :func:`kept_file`, if possible, and remove old such files."""
    with suppress(OSError):
        with replacing(path) as draft:
            draft.write_text(text)
        for other in path.parent.glob("*-*.json"):
            if time.time() - other.stat().st_mtime > KEPT_SECONDS:
                other.unlink()


@functools.cache
def methods() -> dict[str, MethodDeclaration]:
    """The declaration of every method, by name."""
    file = kept_file("methods", digest_of("methods", "simulation", "core", "specs"))
    with suppress(OSError, ValueError, KeyError, TypeError, AttributeError):
        return {name: _restore(item) for name, item in json.loads(file.read_text()).items()}
    found = _read_classes()
    keep(file, json.dumps({name: dataclasses.asdict(item) for name, item in found.items()}))
    return found


def _read_classes() -> dict[str, MethodDeclaration]:
    from noisyfl.methods import METHODS

    found = {}
    for name, declared in METHODS.declarations().items():
        cls: Any = METHODS.get(name, "methods")
        common = {
            field.name: getattr(declared, field.name) for field in dataclasses.fields(declared)
        }
        own = {key: getattr(cls.cost if hasattr(cls.cost, key) else cls, key) for key in OWN}
        found[name] = MethodDeclaration(module=cls.__module__, **common, **own)
    return found


TUPLES = ("choices", "share_of", "participants")
"""Fields of an option that hold a tuple or None; read from JSON, a tuple is a list."""


def _restore(item: dict[str, Any]) -> MethodDeclaration:
    options = tuple(
        Option(**option | {key: option[key] and tuple(option[key]) for key in TUPLES})
        for option in item.pop("options")
    )
    return MethodDeclaration(options=options, **item)


def split_method(given: str | Mapping[str, Any], where: str) -> list[dict[str, Any]]:
    """The one or two methods that a method is made of, each with its name and its given options.

    Args:
        given: ``fedavg``, ``fedprox(mu=0.1)``, ``krum(byzantine=1)+dividemix``; or a mapping, of
            one method's name and options, or of two methods under ``parts``.
        where: what the error messages call it.

    Raises:
        BadInput: it is none of these.
    """
    if isinstance(given, Mapping) and "parts" in given:
        parts = given["parts"]
        check_keys(given, ("name", "parts"), where)
        if not isinstance(parts, list) or len(parts) != 2:
            raise BadInput(f"{where}.parts: got {parts!r}, expected two methods")
    else:
        parts = split_sum(given) if isinstance(given, str) else [given]
        if len(parts) > 2:
            raise BadInput(f"{where}: got {given!r}, expected one method or two")
    split = [split_component(part, "method", where) for part in parts]
    return [{"name": name, **options} for name, options in split]


def parts_of(method: Mapping[str, Any]) -> list[Mapping[str, Any]]:
    """Canonical methods that make up a canonical method: itself, or the two of a combination."""
    return method.get("parts", [method])


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
    modules = sorted({methods()[part["name"]].module for part in parts_of(method)})
    return method_digest(*modules)


def without_revisions(method: Mapping[str, Any]) -> dict[str, Any]:
    """A canonical method as a user would give it."""
    if "parts" in method:
        return {**method, "parts": [without_revisions(part) for part in method["parts"]]}
    return {key: value for key, value in method.items() if key != "revision"}
