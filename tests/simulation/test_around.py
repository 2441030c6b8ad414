"""A client side around another one hands on every hook."""

import pytest

from noisyfl.simulation.client_side import ClientSide, ClientSideWrapper, Side

HOOKS = [
    name
    for base in (Side, ClientSide)
    for name in vars(base)
    if name[0] != "_" and callable(getattr(ClientSide, name))
]


@pytest.mark.parametrize("hook", HOOKS)
def test_a_hook_is_the_other_ones(hook):
    class Other:
        def __getattr__(self, name):
            return lambda *given: (name, *given)

    count = getattr(ClientSide, hook).__code__.co_argcount - 1
    side = ClientSideWrapper.model_construct(side=Other())
    assert getattr(side, hook)(*range(count)) == (hook, *range(count))
