import numpy as np
import pytest

from noisyfl.analysis.runs import read_run
from noisyfl.core.artifacts import DamagedArtifact
from noisyfl.core.options import BadInput
from noisyfl.specs.run_words import describe_run

DIVERGED = {"status": "diverged"}


def read(runs, *args, **options):
    run = runs.add(*args, **options)
    return read_run(run, runs.files[run])


def test_the_evaluation_of_a_model_that_is_not_finite_is_left_out(runs):
    run = read(runs, [0.2, None, 0.3, 0.1], provenance=DIVERGED)
    at, values = run.series("test_accuracy")
    assert at.tolist() == [1, 3]
    assert values.tolist() == [0.2, 0.3]
    assert run.accuracies == (0.2, 0.3)
    assert run.work()[-1] == 4
    assert run.diverged


def test_a_run_that_diverged_at_once_has_no_values(runs):
    run = read(runs, [0.2], provenance=DIVERGED)
    assert run.accuracies == ()
    assert [part.tolist() for part in run.series("label_recall")] == [[], []]
    assert run.work().tolist() == [1]


def test_columns_are_numbers_with_nan_for_null(runs):
    columns = {"participants": [3, None], "stage": ["training"] * 2, "label_recall": [None, 1.0]}
    run = read(runs, [0.1, 0.2], columns=columns)
    assert "stage" not in run.counted
    assert run.rounds["stage"].tolist() == ["training"] * 2
    assert repr(run) == f"<run {run.id}: {describe_run(run.spec)}, finished>"
    np.testing.assert_array_equal(run.counted["participants"], [3, np.nan])
    np.testing.assert_array_equal(run.values("label_recall"), [np.nan, 1])
    assert run.counted["participants"].dtype == np.float64


def test_batches_are_samples_backwards_of_all_rounds_so_far(runs):
    run = read(runs, [None, 0.1, 0.2], columns={"samples_backward": [30, 50, 20]})
    assert run.spec["schedule"]["batch_size"] == 10
    at, values = run.series("test_accuracy", "batches")
    assert at.tolist() == [8, 10]
    assert values.tolist() == [0.1, 0.2]


def test_an_unknown_metric_is_refused(runs):
    with pytest.raises(BadInput, match="no metric is called 'label_recal'; did you mean 'label_r"):
        read(runs, [0.1]).values("label_recal")


CLIENTS = [
    {"round": 1, "client": 0, "pseudo_label_accuracy": 0.2, "expertise": 1.0},
    {"round": 1, "client": 4, "pseudo_label_accuracy": 0.6, "expertise": None},
    {"round": 2, "client": 4, "pseudo_label_accuracy": None, "expertise": 2.0},
    {"round": 3, "client": 0, "pseudo_label_accuracy": 0.5, "expertise": 3.0},
    {"round": 4, "client": 0, "pseudo_label_accuracy": 0.9, "expertise": 4.0},
]


def test_what_a_method_reports_is_a_metric(runs):
    run = read(runs, [0.1, 0.2, 0.3], clients=CLIENTS[:4])
    np.testing.assert_array_equal(run.values("clients.expertise"), [1, 2, 3])
    assert np.isnan(run.values("clients.patience")).all()
    flagged = [
        {"round": 1, "client": 0, "flagged": True},
        {"round": 1, "client": 1, "flagged": False},
    ]
    assert read(runs, [0.4], clients=flagged).values("clients.flagged").tolist() == [0.5]
    with pytest.raises(BadInput, match=r"no metric is called 'client.expertise'"):
        run.values("client.expertise")


def test_a_metric_of_clients_is_their_mean_by_round(runs):
    run = read(runs, [0.1] * 4, clients=CLIENTS)
    expected = [0.4, np.nan, 0.5, 0.9]
    np.testing.assert_allclose(run.values("pseudo_label_accuracy"), expected)


def test_clients_of_a_round_that_does_not_count_do_not_count(runs):
    run = read(runs, [0.1] * 4, clients=CLIENTS, provenance=DIVERGED)
    np.testing.assert_allclose(run.values("pseudo_label_accuracy"), [0.4, np.nan, 0.5])
    rounds, clients, values = run.of_clients("expertise")
    assert (rounds.tolist(), clients.tolist(), values.tolist()) == ([1, 2, 3], [0, 4, 0], [1, 2, 3])


def test_what_clients_lack_has_no_values(runs):
    run = read(runs, [0.1, 0.2])
    assert np.isnan(run.values("pseudo_label_accuracy")).all()
    assert [len(part) for part in run.of_clients("lid")] == [0, 0, 0]


def test_clients_are_read_when_they_are_asked_for(runs):
    first, second = (runs.add([0.1], seed=seed) for seed in (1, 2))
    runs.files[first].clients.write_bytes(runs.files[second].clients.read_bytes())
    run = read_run(first, runs.files[first])
    assert run.accuracies == (0.1,)
    with pytest.raises(DamagedArtifact, match=f"expected the run {first}, found {second}"):
        run.of_clients("lid")


def test_columns_that_are_no_numbers_are_left_out(runs):
    row = {"round": 1, "client": 0, "answers": [0.1, 0.9], "stage": "end", "lid": 2.0}
    run = read(runs, [0.1], clients=[row])
    assert set(run.clients) == {"round", "client", "lid"}
