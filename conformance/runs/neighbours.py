"""FedRN's neighbours in the official code: what is noted of them, and what is changed from outside.

The points that can be changed are those in which ours does otherwise on purpose.
"""

from __future__ import annotations

from collections.abc import Collection
from copy import deepcopy
from typing import Any

import numpy as np
from torch.nn.functional import cosine_similarity

from conformance.runs import SEQUENTIAL, UNVISITED

LEFT = ("net1", "expertise", "arbitrary_output", "total_epochs")
"""What a local update leaves of a client, by attribute; the last is 0 before the first one."""


class Neighbours:
    """Notes whom FedRN's participants choose.

    Args:
        update: the module of the local updates, before the script runs.
        changes: the points in which the code is to do as ours does. ``UNVISITED``: a client that
            has not taken part yet is nobody's neighbour, and on its first visit it has none, and
            finds its clean samples with the global model. ``SEQUENTIAL``: a participant uses the
            models, accuracies and answers from before the round.
    """

    def __init__(self, update: Any, changes: Collection[str] = ()) -> None:
        self._everyone: list[Any] = []
        self._rounds = 0
        self._left: list[tuple[Any, dict[str, Any]]] = []
        # Of the neighbours chosen, whether they had not taken part yet, by whether the client had.
        self._strangers: dict[str, list[bool]] = {"unvisited": [], "unvisited_first": []}
        make = update.get_local_update_objects

        def get_local_update_objects(**arguments: Any) -> list[Any]:
            self._everyone = make(**arguments)
            return self._everyone

        update.get_local_update_objects = get_local_update_objects
        side = update.LocalUpdateFedRN
        self._note(side, UNVISITED in changes)
        if SEQUENTIAL in changes:
            for name in ("train_phase1", "train_phase2"):
                self._put_off(side, name)

    def next_round(self) -> int:
        """Begin a round: its number, counted from 0."""
        for client, attributes in self._left:
            vars(client).update(attributes)
        self._left.clear()
        self._rounds += 1
        return self._rounds - 1

    def decided(self) -> dict[str, float]:
        """The share of neighbours that had not taken part yet: ``unvisited`` of clients that had,
        ``unvisited_first`` of clients on their first visit; nothing of other methods.
        """
        return {name: float(np.mean(found)) for name, found in self._strangers.items() if found}

    def _note(self, side: Any, change: bool) -> None:
        """Note whom each participant chooses, or have it choose among visited clients alone."""
        train = side.train_phase2

        def train_phase2(
            client: Any, network: Any, own: float, models: list[Any], scores: list[float]
        ) -> Any:
            pool = [other for other in self._everyone if other.total_epochs or not change]
            if client not in pool:
                client.net1.load_state_dict(network.state_dict())
                return train(client, network, 1.0, [], [])
            expected, chosen, found = team(client, pool)
            name = "unvisited" if client.total_epochs else "unvisited_first"
            self._strangers[name] += [not other.total_epochs for other in chosen]
            if change:
                own, scores = expected, found
                models = [deepcopy(other.net1) for other in chosen]
            assert np.allclose([own, *scores], [expected, *found], atol=1e-4)
            return train(client, network, own, models, scores)

        side.train_phase2 = train_phase2

    def _put_off(self, side: Any, name: str) -> None:
        """Show what a local update leaves from the next round on."""
        train = getattr(side, name)

        def train_and_hide(client: Any, *arguments: Any) -> Any:
            before = {attribute: getattr(client, attribute) for attribute in LEFT}
            client.net1 = deepcopy(client.net1)
            answer = train(client, *arguments)
            self._left.append(
                (client, {attribute: getattr(client, attribute) for attribute in LEFT})
            )
            vars(client).update(before)
            return answer

        setattr(side, name, train_and_hide)


def team(client: Any, pool: list[Any]) -> tuple[float, list[Any], list[float]]:
    """A client's own score, its neighbours among some clients and their scores, by the code's rule.

    Args:
        client: one of the pool.
        pool: the code's objects.
    """
    options, own = client.args, pool.index(client)
    expertise = scaled([other.expertise for other in pool])
    answer = client.arbitrary_output.detach()
    similarity = scaled(
        [cosine_similarity(answer, other.arbitrary_output.detach()).item() for other in pool]
    )
    similarity[own] = 1
    scores = options.w_alpha * expertise + (1 - options.w_alpha) * similarity
    best = [place for place in np.argsort(-scores, kind="stable") if place != own]
    best = best[: options.num_neighbors]
    return float(scores[own]), [pool[place] for place in best], scores[best].tolist()


def scaled(values: list[float]) -> np.ndarray:
    """Shifted and scaled to [0, 1]."""
    array = np.array(values)
    return (array - array.min()) / np.ptp(array)
