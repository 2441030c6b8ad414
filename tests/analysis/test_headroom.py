"""How far the oracle is ahead of FedAvg in a setting."""

import pandas as pd
import pytest

from noisyfl.analysis.published_cells import headrooms


@pytest.mark.parametrize(("statistic", "points"), [("best", 15.0), ("mean_last_10", 40.0)])
def test_the_room_is_of_the_statistic_that_is_asked_for(statistic, points):
    frame = pd.DataFrame(
        [
            ("a", "one", "fedavg", 60.0, 20.0),
            ("b", "one", "fedavg", 70.0, 40.0),
            ("b", "one", "fedavg", 70.0, 40.0),  # in a second table
            ("c", "one", "oracle", 80.0, 70.0),
            ("d", "two", "fedavg", 60.0, 20.0),
            ("e", "one", "oracle", 0.0, 0.0),  # it has diverged
        ],
        columns=["run", "setting", "our_method", "best", "mean_last_10"],
    ).assign(metric="test_accuracy", status="finished")
    frame.loc[frame["run"] == "e", "status"] = "diverged"
    assert headrooms(frame, statistic).to_dict() == {"one": points}
