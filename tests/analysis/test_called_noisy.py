import numpy as np
import pytest

from noisyfl.analysis.noisy_clients import correctly_flagged, split

LEVEL = np.array([0, 0, 0, 0.5, 0.6, 0.4])


def test_clients_of_high_scores_are_called_noisy():
    assert correctly_flagged(np.array([1, 1.1, 0.9, 5, 5.1, 4.9]), LEVEL).all()
    found = correctly_flagged(np.array([1, 1.1, 5.2, 5, 5.1, 0.9]), LEVEL)
    assert found.mean() == pytest.approx(4 / 6)


def test_equal_scores_call_no_client_noisy():
    assert not split(np.ones(6)).noisy.any()
    assert correctly_flagged(np.ones(6), LEVEL).tolist() == [1, 1, 1, 0, 0, 0]


def test_a_missing_score_leaves_all_open():
    assert np.isnan(correctly_flagged(np.array([1, np.nan, 1, 5, 5, 5]), LEVEL)).all()
