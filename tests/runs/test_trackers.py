"""Trackers have the columns of rounds, change nothing, and may fail."""

import json

import pandas as pd
import pytest

from noisyfl.checks.small_run import SETTING, content, spec_of, train_in_pieces, train_small
from noisyfl.core.options import BadInput
from noisyfl.experiments import config
from noisyfl.runs import trackers
from noisyfl.runs.trackers import TRACKERS, MLflow, TensorBoard
from noisyfl.specs.identity import identity

SPEC = spec_of("fedavg", schedule={**SETTING["schedule"], "rounds": 3, "evaluate_every": 2})
COLUMNS = ("test_accuracy", "train_loss", "bytes_down", "participants")


@pytest.fixture(scope="module")
def plain(data, tmp_path_factory):
    """The files of a run without trackers."""
    return train_small(SPEC, data, tmp_path_factory.mktemp("plain"))


@pytest.fixture
def tracked(data, tmp_path, monkeypatch, plain):
    """Trains the run with a tracker; it has to end as it does without."""
    for name in ("MLFLOW_TRACKING_URI", "WANDB_MODE"):
        monkeypatch.delenv(name, raising=False)

    def run(*names, log=lambda line: None):
        files = train_small(SPEC, data, tmp_path, log, trackers=names, results=tmp_path)
        assert content(files) == content(plain)
        return tmp_path

    return run


def expected(plain):
    """The finite numbers of the columns, by column and round."""
    rounds = pd.read_parquet(plain.rounds).set_index("round")
    return {name: rounds[name].dropna().to_dict() for name in COLUMNS}


def test_tensorboard_has_the_columns_of_rounds(tracked, plain):
    from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

    seen = EventAccumulator(str(tracked("tensorboard") / "tensorboard" / identity(SPEC)))
    seen.Reload()
    for name, values in expected(plain).items():
        found = {scalar.step: scalar.value for scalar in seen.Scalars(name)}
        assert found == pytest.approx(values, rel=1e-6)


def test_rounds_after_the_last_checkpoint_of_a_killed_run_are_in_tensorboard_once(tmp_path):
    from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

    for rounds in (range(1, 6), range(4, 7)):
        tracker = TensorBoard(SPEC, tmp_path)
        for round in rounds:
            tracker.write(round, {"loss": round})
        tracker.close(finished=False)
    seen = EventAccumulator(str(tmp_path / "tensorboard" / identity(SPEC)))
    seen.Reload()
    assert [scalar.step for scalar in seen.Scalars("loss")] == [1, 2, 3, 4, 5, 6]


@pytest.mark.slow
@pytest.mark.filterwarnings("default")
def test_mlflow_has_the_columns_of_rounds(tracked, plain):
    mlflow = pytest.importorskip("mlflow")
    client = mlflow.MlflowClient(f"sqlite:///{tracked('mlflow')}/mlflow.db")
    experiment = client.get_experiment_by_name("noisyfl")
    (run,) = client.search_runs([experiment.experiment_id])
    assert (run.info.run_name, run.info.status) == (identity(SPEC), "FINISHED")
    assert run.data.params["method"] == "fedavg"
    for name, values in expected(plain).items():
        found = {m.step: m.value for m in client.get_metric_history(run.info.run_id, name)}
        assert found == values


@pytest.mark.slow
@pytest.mark.filterwarnings("default")
def test_a_run_that_goes_on_is_the_same_run_in_mlflow(data, tmp_path, monkeypatch, plain):
    mlflow = pytest.importorskip("mlflow")
    monkeypatch.setenv("MLFLOW_TRACKING_URI", f"sqlite:///{tmp_path}/mine.db")
    how = {"trackers": ("mlflow",), "results": tmp_path}
    files, interruptions = train_in_pieces(SPEC, data, tmp_path, 9, **how)
    assert interruptions >= 2
    assert content(files) == content(plain)
    client = mlflow.MlflowClient(f"sqlite:///{tmp_path}/mine.db")
    experiment = client.get_experiment_by_name("noisyfl")
    (run,) = client.search_runs([experiment.experiment_id])
    assert run.info.status == "FINISHED"
    history = client.get_metric_history(run.info.run_id, "train_loss")
    assert {metric.step for metric in history} == {1, 2, 3}


@pytest.mark.slow
@pytest.mark.filterwarnings("default")
def test_rounds_after_the_last_checkpoint_of_a_killed_run_are_in_mlflow_once(tmp_path):
    mlflow = pytest.importorskip("mlflow")
    for rounds in (range(1, 6), range(4, 7)):
        tracker = MLflow(SPEC, tmp_path)
        for round in rounds:
            tracker.write(round, {"train_loss": round})
        tracker.close(finished=False)
    client = mlflow.MlflowClient(f"sqlite:///{tmp_path}/mlflow.db")
    (run,) = client.search_runs([client.get_experiment_by_name("noisyfl").experiment_id])
    history = client.get_metric_history(run.info.run_id, "train_loss")
    assert [metric.step for metric in history] == [1, 2, 3, 4, 5, 6]


def records(file):
    """The records of one of W&B's offline files: LevelDB's log format behind seven bytes."""
    content, place, record = file.read_bytes(), 7, b""
    while place < len(content):
        room = 32768 - place % 32768
        if room < 7:  # no header fits into the rest of a block
            place += room
            continue
        size, kind = int.from_bytes(content[place + 4 : place + 6], "little"), content[place + 6]
        record += content[place + 7 : place + 7 + size]
        place += 7 + size
        if kind in (1, 4):  # whole, or the last part
            yield record
            record = b""


@pytest.mark.filterwarnings("default")
def test_wandb_has_the_columns_of_rounds_without_a_network(tracked, plain):
    pytest.importorskip("wandb")
    from wandb.proto.wandb_internal_pb2 import Record

    (file,) = (tracked("wandb") / "wandb").glob(f"offline-run-*/run-{identity(SPEC)}.wandb")
    found = {name: {} for name in COLUMNS}
    for record in map(Record.FromString, records(file)):
        items = {
            item.key or "/".join(item.nested_key): json.loads(item.value_json)
            for item in record.history.item
        }
        for name in found.keys() & items.keys():
            found[name][record.history.step.num or items["_step"]] = items[name]
    assert found == expected(plain)


class Failing(trackers.Tracker):
    """Fails from a moment on."""

    moment = "start"

    def __init__(self, spec, results):
        if self.moment == "start":
            raise OSError("no server")

    def write(self, round, numbers):
        if (self.moment, round) == ("write", 2):
            raise ConnectionError("the network\nis gone")

    def close(self, finished):
        if self.moment == "close":
            raise ValueError("not all is sent")


@pytest.mark.parametrize(
    ("moment", "why"),
    [
        ("start", "OSError: no server"),
        ("write", "ConnectionError: the network is gone"),
        ("close", "ValueError: not all is sent"),
    ],
)
def test_a_tracker_that_fails_is_given_up_with_one_warning(tracked, monkeypatch, moment, why):
    monkeypatch.setitem(TRACKERS, "mlflow", Failing)
    monkeypatch.setattr(Failing, "moment", moment)
    log = []
    folder = tracked("mlflow", "tensorboard", log=log.append)
    assert [line for line in log if line.startswith("warning")] == [
        f"warning: the tracker mlflow failed, and the run continues without it ({why})"
    ]
    assert list((folder / "tensorboard" / identity(SPEC)).iterdir())


def test_a_tracker_that_is_not_installed_is_found_before_any_job(monkeypatch):
    monkeypatch.setattr(config.importlib.util, "find_spec", lambda name: None)
    given = {"scale": "a", "experiments": ["fedcorr"], "trackers": ["wandb"]}
    with pytest.raises(BadInput, match=r"x: trackers\[0\]: got 'wandb', which is not installed; "):
        config.check_config(given, "x")


def test_a_folder_of_its_name_is_no_tracker(monkeypatch, tmp_path):
    (tmp_path / "mlflow_of_a_folder").mkdir()
    monkeypatch.syspath_prepend(tmp_path)
    with pytest.raises(BadInput, match="'mlflow_of_a_folder', which is not installed"):
        config.check_tracker("mlflow_of_a_folder")


@pytest.mark.parametrize("given", [["tensorbord"], "tensorboard", ["wandb", "wandb"], True])
def test_what_is_no_list_of_trackers_is_refused(given):
    with pytest.raises(BadInput, match="x: trackers"):
        config.check_config({"scale": "a", "experiments": ["fedcorr"], "trackers": given}, "x")


def test_the_names_are_those_of_the_configuration():
    assert tuple(TRACKERS) == config.TRACKERS
