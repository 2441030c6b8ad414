"""A hook that forgets to return something is named, of whatever kind its component is."""

import inspect
import re

import pytest

from noisyfl.core.options import BadInput
from noisyfl.methods import METHODS
from noisyfl.specs.spec import REGISTRIES

pytestmark = pytest.mark.usefixtures("forgotten")

HOOKS = [
    (registry, base, name)
    for registry in (METHODS, *REGISTRIES.values())
    for base in registry.bases
    for name, hook in inspect.getmembers(base, inspect.isfunction)
    if name[0] != "_" and not str(inspect.signature(hook).return_annotation).endswith("None")
    if hook.__module__ == base.__module__
]


def nothing(of):
    def hook(*given):
        pass

    hook.__name__, hook.__signature__ = of.__name__, inspect.signature(of)
    return hook


@pytest.mark.parametrize(
    ("registry", "base", "name"), HOOKS, ids=[f"{base.__name__}.{name}" for _, base, name in HOOKS]
)
def test_a_hook_that_forgets_to_return_something_is_named(registry, base, name):
    draw = {"_draw": nothing(abs)}  # without which no partition is registered
    held = {"__doc__": "Wrong.", "__module__": __name__, **draw, name: nothing(getattr(base, name))}
    cls = type("Planted", (base,), held)
    cls.__abstractmethods__ = frozenset()
    registry.register("planted")(cls)
    line = f"{__file__}, line {inspect.getsourcelines(nothing)[1] + 1}: {name}: got None, expected"
    with pytest.raises(BadInput, match=re.escape(line)):
        getattr(cls, name)()


def test_every_kind_of_component_has_such_hooks():
    assert {base.__name__ for _, base, _ in HOOKS} == {
        *("ServerSide", "ClientSide", "Model", "LabelNoise", "NoiseLevel", "Partition")
    }
