"""A mixture of directions, by hand; conformance has the official code's numbers."""

import math

import numpy as np
import pytest
import torch

from noisyfl.methods.estimators.directions import (
    PARTS,
    concentration,
    first_mixture,
    moved,
    responsibilities,
    scores,
    unit,
)

AXES = torch.eye(3)
RATES = {"momentum": 0.1, "cluster_prior": 5.0, "class_prior": 0.5}


def two_clusters(**changes):
    """Clusters along the first two axes; class 0 is in the first one, class 1 in the second."""
    mixture = {
        "directions": AXES[:2].clone(),
        "concentrations": torch.tensor([4.0, 2.0]),
        "shares": torch.tensor([0.5, 0.5]),
        "background": torch.tensor(0.1),
        "evidence": torch.tensor([[0.9, 0.1], [0.2, 0.8]]),
        "median": torch.tensor(0.0),
    }
    return {**mixture, **changes}


def test_a_mixture_begins_with_random_directions_and_knows_nothing():
    mixture = first_mixture(4, torch.zeros(3, 5), np.random.default_rng(1))
    assert tuple(mixture) == PARTS
    torch.testing.assert_close(mixture["directions"].norm(dim=1), torch.ones(4))
    assert mixture["evidence"].tolist() == [[pytest.approx(1 / 3)] * 4] * 3
    assert mixture["shares"].sum() == 1


def test_concentration_of_directions_whose_mean_has_length_a_half():
    assert float(concentration(torch.tensor(0.5), 3)) == pytest.approx(0.5 * 2.75 / 0.75)
    assert math.isfinite(concentration(torch.tensor(1.0), 512))


def test_responsibilities_of_views_that_agree_alike():
    first = unit(torch.tensor([[1.0, 0, 0], [1, 1, 0], [0, 0, 1]]))
    gamma, background, median = responsibilities(two_clusters(), first, first, 2.0)
    for sample, row in enumerate(first.tolist()):
        parts = [0.1, 0.5 * math.exp(4 * row[0]), 0.5 * math.exp(2 * row[1])]
        parts = [math.sqrt(part) for part in parts]
        told = [float(background[sample]), *gamma[sample].tolist()]
        assert told == pytest.approx([part / sum(parts) for part in parts], rel=1e-4)
    assert float(median) == pytest.approx(float(concentration(torch.tensor(1.0), 3)))


def test_a_sample_whose_views_disagree_is_known_less_well():
    first = AXES[[0, 0, 0]]
    second = unit(torch.tensor([[1.0, 0.1, 0], [1, 0.1, 0], [0, 0, 1]]))
    gamma, _, median = responsibilities(two_clusters(), first, second, 1.0)
    assert gamma[0, 0] > gamma[2, 0] > 0.5 - 0.1
    assert gamma[0].tolist() == gamma[1].tolist()
    before = torch.tensor(3.0)
    later = responsibilities(two_clusters(median=before), first, second, 1.0)[2]
    assert float(later) == pytest.approx(0.9 * 3 + 0.1 * float(median))


def test_a_score_says_how_far_a_sample_lies_where_its_class_does():
    gamma = torch.tensor([[0.7, 0.2], [0.7, 0.2]])
    found = scores(two_clusters(), gamma, torch.tensor([0, 1]))
    assert found.tolist() == pytest.approx([0.9 * 0.7 + 0.1 * 0.2, 0.2 * 0.7 + 0.8 * 0.2])


def test_a_mixture_moves_towards_its_samples():
    first = unit(torch.tensor([[1.0, 0, 0.2], [1, 0, 0.2], [0, 1, 0]]))
    gamma = torch.tensor([[0.8, 0.1], [0.8, 0.1], [0.1, 0.6]])
    background = 1 - gamma.sum(1)
    counted = torch.tensor([[1.0, 0], [0, 0], [0, 1.0]])
    mixture = two_clusters()
    new = moved(mixture, first, gamma, background, counted, **RATES)
    assert new["directions"][0, 2] > 0
    torch.testing.assert_close(new["directions"].norm(dim=1), torch.ones(2))
    share = (1.7 + 2.5) / (2.5 + 5)
    assert float(new["shares"][0]) == pytest.approx(0.9 * 0.5 + 0.1 * share)
    beyond = (0.5 + 0.5) / (3 + 0.5)
    assert float(new["background"]) == pytest.approx(0.9 * 0.1 + 0.1 * beyond)
    row = [0.9 * 0.9 + 0.1 * 1.3 / 1.9, 0.9 * 0.1 + 0.1 * 0.6 / 1.9]  # the second sample is noisy
    assert new["evidence"][0].tolist() == pytest.approx(row)
    none = moved(mixture, first, gamma, background, torch.zeros(3, 2), **RATES)
    assert torch.equal(none["evidence"], mixture["evidence"])
    assert "median" not in new


def test_shares_and_concentrations_stay_in_their_ranges():
    first = AXES[[0, 0]]
    gamma = torch.full((2, 2), 1e-4)
    mixture = two_clusters(background=torch.tensor(0.2))
    whole = {**RATES, "momentum": 1.0}
    new = moved(mixture, first, gamma, 1 - gamma.sum(1), torch.zeros(2, 2), **whole)
    assert float(new["background"]) == pytest.approx(0.2)
    assert new["concentrations"].tolist() == [100, 100]
