"""Write the file that a new method starts from: FedAvg, with the most common hooks spelled out."""

from __future__ import annotations

import keyword
import re
from pathlib import Path

from noisyfl.core.artifacts import replacing
from noisyfl.core.options import BadInput
from noisyfl.specs.catalogue import methods
from noisyfl.specs.sources import PACKAGE

TEMPLATE = '''"""{title}: what it does, in one line.

It trains as FedAvg. Change the hooks that the method is about, and delete the others: a hook that
is not here is FedAvg's, and a method without a server side, or without a client side, names the
other base class alone. docs/add-a-method.md has all hooks, and what they are given.
"""

from __future__ import annotations

from torch import Tensor

from noisyfl.core.options import option
from noisyfl.methods.registry import METHODS
from noisyfl.simulation.client_side import ClientSide, Turn
from noisyfl.simulation.clients import Client
from noisyfl.simulation.federation import Federation
from noisyfl.simulation.model import Model
from noisyfl.simulation.server_side import ServerSide
from noisyfl.simulation.updates import Batch, Epoch, Memory, Update
from noisyfl.simulation.weights import Weights


@METHODS.register("{name}")
class {title}(ServerSide, ClientSide):
    """What it minimises, and how models are combined, with the paper's equation numbers."""

    reference = "authors, title, venue and year"
    revision = 0  # while it is being written, so that every edit makes new runs; then 1

    strength: float = option(1.0, doc="an option of the method; this one does nothing", at_least=0)

    def before_round(self, round: int, participants: list[Client], federation: Federation) -> None:
        """What the participants find out before they train, by passes."""

    def memory(self, client: Client, federation: Federation) -> Memory:
        """Tensors that the loss reads and writes, by name."""
        return super().memory(client, federation)

    def epoch(self, client: Client, turn: Turn) -> Epoch:
        """The samples of each step, their targets, and what else the loss needs of a step."""
        return super().epoch(client, turn)

    def loss(self, model: Model, batch: Batch) -> Tensor:
        """What a step descends on; a loss of logits and labels alone overrides ``losses``."""
        return super().loss(model, batch)

    def after_updates(self, round: int, updates: list[Update], federation: Federation) -> None:
        """What the participants keep of their local updates."""

    def aggregate(self, updates: list[Update], federation: Federation) -> Weights:
        """The next global model."""
        return super().aggregate(updates, federation)

    def after_round(self, round: int, updates: list[Update], federation: Federation) -> None:
        """What is estimated, corrected and reported once the new global model stands."""
'''


def write_new_method(name: str, folder: Path = PACKAGE / "methods") -> Path:
    """Write the file of a new method, and return its path.

    Raises:
        BadInput: a method cannot have that name, or there is a method or file of that name.
    """
    if not re.fullmatch(r"[a-z][a-z0-9_]*", name) or keyword.iskeyword(name):
        raise BadInput(
            f"new-method: got {name!r}, expected small letters, digits and underscores, such as "
            "fedexample"
        )
    path = folder / f"{name}.py"
    if name in methods() or path.exists():
        raise BadInput(f"new-method: there is a method or a file called {name!r} already: {path}")
    title = "".join(part.capitalize() for part in name.split("_"))
    with replacing(path) as draft:
        draft.write_text(TEMPLATE.format(name=name, title=title))
    return path
