"""The methods that a scale or an experiment names, and which key of a scale is to blame."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from noisyfl.core.options import BadInput, find
from noisyfl.specs.catalogue import methods

if TYPE_CHECKING:
    from noisyfl.simulation.client_side import Side


def check_methods(given: Mapping[str, Any], where: str) -> None:
    """Raise :class:`BadInput` if options of methods are wrong; required ones may be missing.

    Args:
        given: options, by method or combination.
        where: what the error messages call them.
    """
    for name, options in given.items():
        declared_of(name, where).check_options(options, f"{where}.{name}")


def declared_of(key: str, where: str) -> type[Side]:
    """The declaration of the method whose options stand under a key of ``methods``.

    That is the method that the key names; of a combination, such as ``centralized+dividemix``, the
    second one.

    Raises:
        BadInput: there is no such method, or the key names more than two.
    """
    names = key.split("+")
    found = [find(methods(), name, "method", where) for name in names]
    if len(found) > 2:
        raise BadInput(f"{where}: got {key!r}, expected one method or two")
    return found[-1]


def blamed(
    error: BadInput,
    overlay: Mapping[str, Any],
    experiments: Sequence[str],
    dataset: Any,
) -> str:
    """The key of the overlay that a run's mistake comes from; empty if it comes from none.

    Args:
        error: what is wrong with the run; its path begins at the run.
        overlay: what was laid over the experiment.
        experiments: the keys of ``experiments`` that were laid over it, the last one first.
        dataset: of the experiment's setting.
    """
    if not error.path:
        return ""
    key, *options = map(str, error.path)
    if key == "method":
        name = options[0] if options else ""
        return f"methods.{name}" if name in overlay.get("methods", {}) else ""
    parts = {
        **{f"experiments.{k}": overlay.get("experiments", {}).get(k, {}) for k in experiments},
        "setting": overlay.get("setting", {}),
        f"datasets.{dataset}": overlay.get("datasets", {}).get(dataset, {}),
    }
    found = [
        (f"{place}.{name}", part[name])
        for place, part in parts.items()
        for name in (key, *(["clients"] if key == "partition" else []))
        if name in part
    ]
    for place, value in found:
        # A mapping without a name changes only the options in it.
        if not isinstance(value, Mapping) or "name" in value or set(options[-1:]) & set(value):
            return place
    return found[0][0] if found else ""
