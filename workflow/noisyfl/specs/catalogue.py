"""Every method by name, and how a method that a user gives becomes canonical."""

from __future__ import annotations

import inspect
import json
import platform
import re
from collections.abc import Iterable, Mapping
from typing import Any

from noisyfl.core.code import code_digest, source_file
from noisyfl.core.options import BadInput, find, within
from noisyfl.core.places import PACKAGE
from noisyfl.core.registry import parts_of, split_method
from noisyfl.methods import METHODS
from noisyfl.simulation.client_side import Side
from noisyfl.specs.sources import DIGESTS


def methods() -> dict[str, type[Side]]:
    """The class of every method, by name."""
    return dict(sorted(METHODS.classes.items()))


def method_summary(method: str) -> str:
    """The first sentence of the module that a method is in."""
    module = inspect.getmodule(methods()[method])
    paragraph = " ".join((inspect.getdoc(module) or "").split("\n\n")[0].split())
    return re.split(r"\. ", paragraph)[0].rstrip(".")


def canonical_method(
    raw: str | Mapping[str, Any], where: str, measures: Mapping[str, float] | None = None
) -> dict[str, Any]:
    """A method with its revision and every default filled in; both methods of a combination.

    ``fedavg+elr`` is ``elr``: a client side alone has FedAvg's server side.

    Args:
        raw: as :func:`split_method` takes it.
        where: what the error messages call it.
        measures: of the run (:func:`noisyfl.specs.spec.measures_of`). Without them, defaults that
            scale with a run's length are those of the method's paper.

    Raises:
        BadInput: unknown method, variant or option, a value out of range, or a combination of
            methods that cannot be combined.
    """
    with within(where=where):
        parts = [_canonical_part(part, measures) for part in split_method(raw)]
        return parts[0] if len(parts) == 1 else _combined(parts)


def _canonical_part(raw: Mapping[str, Any], measures: Mapping[str, float] | None) -> dict[str, Any]:
    method = find(methods(), raw["name"], "method")
    options = {key: value for key, value in raw.items() if key != "name"}
    with within(method.name):
        canonical = method.read(options, measures=measures).canonical()
    return {**canonical, "revision": method.revision_or_digest()}


def _combined(parts: list[dict[str, Any]]) -> dict[str, Any]:
    """The combination of two canonical methods, if they can be combined."""
    first, second = (part["name"] for part in parts)
    wanted = methods()[first].partner
    if not wanted:
        raise BadInput(
            f"{first}+{second}: {first} has no server side that another method could use, "
            "so nothing can be added to it"
        )
    behind = methods()[second]
    if not (behind.is_client if wanted == "client" else behind.is_server):
        raise BadInput(
            f"{first}+{second}: a method added to {first} needs a {wanted} side, and "
            f"{second} has none"
        )
    if wanted == "client" and behind.is_server and second != "fedavg":
        raise BadInput(
            f"{first}+{second}: {second} has a server side of its own, and {first} has one, too; "
            f"if {second} only changes clients, derive it from ClientSide alone"
        )
    for trait, why in methods()[first].cannot_wrap.items():
        if getattr(behind.cost if hasattr(behind.cost, trait) else behind, trait):
            raise BadInput(f"{first}+{second}: {second} {why}")
    if first == "fedavg":
        return parts[1]
    if second == "fedavg" and wanted == "client" and not methods()[first].is_client:
        return parts[0]  # which trains as FedAvg's clients without another method
    return {"name": f"{first}+{second}", "parts": parts}


def is_bound(method: Any, where: str = "") -> bool:
    """Whether a method's accuracy is a bound for methods that learn from the noisy labels of
    separate clients: it needs the true labels, or pools all samples.

    Args:
        method: as an experiment gives it; an unknown one is no bound.
        where: what messages call the place where it stands.

    Raises:
        BadInput: it cannot be read.
    """
    declared = [methods().get(part["name"]) for part in split_method(method, where)]
    return any(one and (one.needs_truth or one.pools_samples) for one in declared)


def methods_digest(method: Mapping[str, Any]) -> str:
    """SHA-256 of the code of a canonical method (:func:`code_digest` of all of its parts)."""
    return code_digest(*sorted({methods()[part["name"]].__module__ for part in parts_of(method)}))


def digests(names: Iterable[str]) -> dict[str, Any]:
    """The revision and the digest of the code of those among some methods that this package has,
    and the version of Python that they are of, since another version prints syntax trees otherwise.
    """
    own = {
        name: {"revision": methods()[name].revision, "digest": code_digest(module)}
        for name in sorted({*names} & methods().keys())
        if (module := methods()[name].__module__).startswith(f"{PACKAGE.name}.methods.")
    }
    return {"python": ".".join(platform.python_version_tuple()[:2]), "methods": own}


def edited_methods(names: Iterable[str]) -> list[str]:
    """A line for each of some methods of this package whose code is not that of their revision."""
    recorded, now = json.loads(DIGESTS.read_text()), digests(names)
    if recorded["python"] != now["python"]:
        return []
    found = []
    for name, method in now["methods"].items():
        known = recorded["methods"].get(name)
        if known and known["revision"] == method["revision"] and known != method:
            path = source_file(methods()[name].__module__)
            found.append(
                f"{path.name if path else name}, or what it imports, was edited, and runs that "
                "exist are not trained again: increase its `revision`, or set it to 0 during "
                "development"
            )
    return found


def without_revisions(method: Mapping[str, Any]) -> dict[str, Any]:
    """A canonical method as a user would give it."""
    if "parts" in method:
        return {**method, "parts": [without_revisions(part) for part in method["parts"]]}
    return {key: value for key, value in method.items() if key != "revision"}
