"""What is changed from outside in FedRN's official code, on clients that stand in for its own."""

from argparse import Namespace
from types import SimpleNamespace

import pytest
import torch
from conformance.runs import SEQUENTIAL, UNVISITED
from conformance.runs.neighbours import Neighbours, team
from torch import nn

ARGUMENTS = Namespace(w_alpha=0.6, num_neighbors=2)


class Client:
    """As FedRN's code has them. A local update says which weights it was given for what."""

    def __init__(self, number):
        self.args = ARGUMENTS
        self.net1 = network(number)
        self.expertise = 0.5
        self.arbitrary_output = torch.tensor([[1.0, 0.9]])
        self.total_epochs = 0

    def train_phase1(self, received):
        self.net1.load_state_dict(received.state_dict())
        self.total_epochs += 1
        return "phase 1"

    def train_phase2(self, received, own, models, scores):
        said = {"own": value(self.net1), "models": [value(model) for model in models]}
        self.train_phase1(received)
        return {**said, "scores": [own, *scores]}


def network(number):
    net = nn.Linear(1, 1, bias=False)
    nn.init.constant_(net.weight, number)
    return net


def value(net):
    return int(net.weight.item())


def clients(changes):
    """Four clients: 0 to 2 have taken part, and 3, with the best expertise of all, has not."""
    side = type("Side", (Client,), {})
    update = SimpleNamespace(
        LocalUpdateFedRN=side,
        get_local_update_objects=lambda count: [side(number) for number in range(count)],
    )
    neighbours = Neighbours(update, changes)
    everyone = update.get_local_update_objects(count=4)
    for client, expertise, answer in zip(everyone, (0.2, 0.4, 0.22), (0.8, 0.2, 0.5), strict=False):
        client.expertise, client.total_epochs = expertise, 1
        client.arbitrary_output = torch.tensor([[1.0, answer]])
    assert neighbours.next_round() == 0
    return neighbours, everyone


def asked(everyone, number):
    """A client's turn, as the script makes it: it scores all clients, by the code's rule."""
    own, chosen, scores = team(everyone[number], everyone)
    models = [other.net1 for other in chosen]
    return everyone[number].train_phase2(network(9), own, models, scores)


def test_a_score_weighs_expertise_and_similarity_scaled_over_the_pool():
    _, everyone = clients(())
    own, chosen, scores = team(everyone[0], everyone[:3])
    assert own == pytest.approx(0.4)  # the least expertise, and itself
    assert [everyone.index(other) for other in chosen] == [1, 2]
    # The greatest expertise with the least similarity, then half of the one and some of the other.
    assert scores[0] == pytest.approx(0.6)
    assert 0.3 < scores[1] < 0.6


def test_the_code_prefers_a_client_that_has_not_taken_part():
    neighbours, everyone = clients(())
    assert asked(everyone, 0)["models"] == [3, 1]
    assert neighbours.decided() == {"unvisited": 0.5}


def test_changed_such_a_client_is_nobodys_neighbour_and_scores_are_of_the_others():
    neighbours, everyone = clients((UNVISITED,))
    said = asked(everyone, 0)
    assert said["models"] == [1, 2]
    own, _, scores = team(everyone[0], everyone[:3])
    assert said["scores"] == [own, *scores]
    assert neighbours.decided() == {"unvisited": 0.0}


def test_changed_such_a_client_has_the_global_model_and_no_neighbours_at_first():
    neighbours, everyone = clients(())
    assert asked(everyone, 3)["own"] == 3
    assert neighbours.decided() == {"unvisited_first": 0.0}
    neighbours, everyone = clients((UNVISITED,))
    assert asked(everyone, 3) == {"own": 9, "models": [], "scores": [1.0]}
    assert asked(everyone, 3)["own"] == 9
    assert len(asked(everyone, 3)["models"]) == 2
    assert neighbours.decided() == {"unvisited": 0.0}


def test_the_code_shows_what_a_participant_of_the_same_round_has_left():
    _, everyone = clients((UNVISITED,))
    asked(everyone, 1)
    assert asked(everyone, 0)["models"] == [9, 2]


def test_changed_a_participant_uses_what_lay_there_before_the_round():
    neighbours, everyone = clients((UNVISITED, SEQUENTIAL))
    asked(everyone, 1)
    assert asked(everyone, 0)["models"] == [1, 2]
    assert everyone[3].train_phase1(network(8)) == "phase 1"
    assert not everyone[3].total_epochs
    assert neighbours.next_round() == 1
    assert value(everyone[3].net1) == 8
    assert everyone[3].total_epochs == 1
    assert asked(everyone, 0)["models"][0] in (8, 9)


def test_methods_without_neighbours_have_nothing_to_say():
    neighbours, _ = clients(())
    assert neighbours.decided() == {}
