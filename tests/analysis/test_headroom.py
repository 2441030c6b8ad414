"""How far the oracle is ahead of FedAvg in a setting."""

import pandas as pd
import pytest

from noisyfl.analysis.published_cells import headrooms


@pytest.mark.parametrize(("statistic", "points"), [("best", 15.0), ("mean_last_10", 40.0)])
def test_the_room_is_of_the_statistic_that_is_asked_for(statistic, points):
    frame = pd.DataFrame(
        [
            ("curves", "a", "one", "fedavg", 70.0, 40.0),
            ("main", "b", "one", "fedavg", 65.0, 30.0),
            ("bound", "c", "one", "oracle", 80.0, 70.0),
            ("main", "d", "two", "fedavg", 60.0, 20.0),
            ("bound", "e", "one", "oracle", 0.0, 0.0),  # it has diverged
        ],
        columns=["table", "run", "setting", "our_method", "best", "mean_last_10"],
    ).assign(metric="test_accuracy", status="finished", experiment="p", statistic="best")
    frame.loc[frame["run"] == "e", "status"] = "diverged"
    frame["value"] = frame["best"]
    assert headrooms(frame, "p", "main", statistic).to_dict() == {"one": points}
    other = {"best": 10.0, "mean_last_10": 30.0}[statistic]
    assert headrooms(frame, "p", "another", statistic).to_dict() == {"one": other}
