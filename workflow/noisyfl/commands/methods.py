"""Commands that list, start and check methods, and that write schemas of what methods take."""

from __future__ import annotations

import math
import os
import sys
from pathlib import Path

from noisyfl.core.options import BadInput
from noisyfl.core.places import IN_A_CLONE, ROOT
from noisyfl.experiments.config import check_folder
from noisyfl.experiments.editor_schemas import write_schemas
from noisyfl.methods import METHODS
from noisyfl.models import MODELS
from noisyfl.specs.catalogue import methods
from noisyfl.specs.new_method import write_new_method, write_package
from noisyfl.specs.words import describe_option


def list_methods() -> None:
    """List every method: sides, reference, what it keeps and costs, variants, options, defaults."""
    for name, declaration in methods().items():
        sides = ["server"] * declaration.is_server + ["client"] * declaration.is_client
        print(f"{name} ({' and '.join(sides)} side, revision {declaration.revision})")
        print(f"  {declaration.reference}")
        models, effort = declaration.cost.models_kept, declaration.cost.effort
        kept = f", {models} kept for each client" if models else ""
        networks = "1 network" if declaration.networks == 1 else f"{declaration.networks} networks"
        print(f"  {networks}{kept}; about {effort:g} times FedAvg's seconds for each")
        if declaration.partner:
            print(f"  {name}+... combines it with the {declaration.partner} side of another method")
        if declaration.variants:
            print(f"  variants: {', '.join(declaration.variants)}")
        for option in declaration.model_fields:
            text = describe_option(declaration, option)
            default = text.default if text.default == "required" else f"default {text.default}"
            print(f"    {option}: {text.meaning} ({default})")


def new_method(name: str, outside: Path | None = None) -> None:
    """Write the file of a new method, which trains as FedAvg and shows the most common hooks.

    With --outside, write a package instead: the method, how to install it, and a test that makes
    the checks of check-method.
    """
    if outside is None:
        if not IN_A_CLONE:
            raise BadInput(f"new-method: {ROOT} is an installed copy; give --outside FOLDER")
        print(write_new_method(name))
        return
    check_folder(outside, "--outside")
    for path in write_package(name, outside):
        print(path)


def check_method(method: str) -> None:
    """Check a method: what it declares, that it trains, that an interruption does not change its
    result, and that the fast executor computes the same as the plain loop.

    Needs no data. Choose options with which all stages of the method happen within eight rounds.
    """
    from noisyfl.checks.method import check_all

    if not check_all(method):
        sys.exit(1)


def run_selftest(
    device: str,
    methods: list[str] | None = None,
    models: list[str] | None = None,
    minutes: float = math.inf,
) -> None:
    """Check the results of the fast executor on a device, and measure its speed.

    Needs no data.
    """
    from noisyfl.checks.selftest import selftest  # scikit-learn takes two seconds to import

    for name in methods or ():
        METHODS.get(name, "--methods")
    for name in models or ():
        MODELS.get(name, "--models")
    if not selftest(device, names=methods, models=models, minutes=minutes):
        sys.exit(1)


def write_editor_schemas() -> None:
    """Write the JSON schemas of scales and experiments, for checks and completion in editors."""
    for path in write_schemas():
        print(os.path.relpath(path))
