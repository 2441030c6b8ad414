"""The local epochs that FedNoiL's options give each round."""

import math

import pytest

from noisyfl.analysis.local_epochs import epochs_by_round
from noisyfl.core.options import BadInput
from noisyfl.specs.catalogue import canonical_method


def test_epochs_are_those_of_equation_11():
    found = epochs_by_round('fednoil(variant="logarithm", least_from=10)', 12, "f")
    exact = [20 + 80 * (1 - math.log(r) / math.log(10)) for r in range(1, 11)]
    assert found == [math.floor(value + 0.5) for value in exact] + [20, 20]


def test_epochs_are_those_of_equation_10():
    method = canonical_method('fednoil(variant="cosine", least_from=41)', "f")
    found = epochs_by_round(method, 41, "f")
    assert (found[0], found[20], found[40]) == (100, round(20 + 80 * math.cos(math.pi / 4)), 20)


@pytest.mark.parametrize("method", ["fedavg", 'fednoil(variant="constant")'])
def test_a_method_without_a_schedule_of_its_own_is_refused(method):
    with pytest.raises(BadInput, match=r"f: fed.* has the run's local epochs, and none"):
        epochs_by_round(method, 3, "f")
