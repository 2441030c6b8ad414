"""A public name of the package means one thing."""

import ast
from collections import defaultdict

import pytest

from noisyfl.core.places import ROOT

PACKAGE = ROOT / "workflow" / "noisyfl"

CONTENT = ("claims/", "figures/")
"""Modules whose functions are claims and figures, which are found by paper and by kind."""

NOTEBOOK = {"compare", "main", "train"}
"""Functions that are called as the command is, and programs' entries."""


def public(kind):
    """The modules that define each public name at their top level."""
    found = defaultdict(list)
    for path in sorted(PACKAGE.rglob("*.py")):
        module = path.relative_to(PACKAGE).as_posix()
        for node in ast.parse(path.read_text(encoding="utf-8")).body:
            if isinstance(node, kind) and not node.name.startswith("_"):
                found[node.name].append(module)
    return found


@pytest.mark.parametrize("kind", [ast.ClassDef, ast.FunctionDef])
def test_a_public_name_has_one_meaning(kind):
    several = {
        name: where
        for name, modules in public(kind).items()
        if name not in NOTEBOOK
        and len(where := [one for one in modules if not one.startswith(CONTENT)]) > 1
    }
    assert several == {}
