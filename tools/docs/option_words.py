"""What a component declares about its options, in words."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

from noisyfl.core.options import BadInput
from noisyfl.core.registry import Component
from noisyfl.core.typed import choices_of, type_of
from noisyfl.simulation.schedule import Schedule
from noisyfl.specs.spec import REGISTRIES
from noisyfl.specs.words import describe_option


def alternatives(component: type[Component], option: str) -> str:
    """What an option may be besides its default: the values, or *any*."""
    field = component.model_fields[option]
    values = (True, False) if type_of(field) is bool else choices_of(field)
    if values is None:
        return "any"
    return ", ".join(f"`{_literal(v)}`".replace('"', "") for v in values if v != field.default)


def variant_sets(component: type[Component], variant: str) -> str:
    """The options that a variant sets."""
    options = component.variants[variant]
    return ", ".join(f"`{key}={_literal(value)}`" for key, value in options.items())


def shared_option(names: Sequence[str], components: Sequence[str], where: str) -> tuple[str, str]:
    """The default and the alternatives that options have in each of some components.

    Raises:
        BadInput: there is no such component or option, or defaults or alternatives differ.
    """
    known: dict[str, type[Component]] = {"schedule": Schedule}
    for registry in REGISTRIES.values():
        known |= registry.classes
    found = set()
    for component in components:
        if component not in known:
            raise BadInput(f"{where}: nothing is called {component!r}")
        declared = known[component]
        for name in names:
            if name not in declared.model_fields:
                raise BadInput(f"{where}: {component} has no option {name!r}")
            found.add((describe_option(declared, name).default, alternatives(declared, name)))
    if len(found) != 1:
        named = f"{', '.join(names)} of {', '.join(components)}"
        raise BadInput(f"{where}: {named}: expected options with one default, got {found}")
    return found.pop()


def _literal(value: Any) -> str:
    """A value as it is written in YAML."""
    return json.dumps(value, ensure_ascii=False)
