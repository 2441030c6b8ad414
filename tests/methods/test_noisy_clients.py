"""FedNoRo, FedELC and MaskedOptim: what official functions say of small numbers, and by hand."""

import numpy as np
import pytest
import torch
from test_robust_losses import LABELS, LOGITS, Saying, batch_of, client_of, turn

from fakes import Answering
from noisyfl.methods.fednoro import NOISY, distance_aware, noisy_rows, ramp_up
from noisyfl.simulation.clients import Client
from noisyfl.simulation.model import Received
from noisyfl.simulation.outputs import Outputs
from vectors import VectorFederation, method, updates_of

OTHER = torch.tensor([[0.5, 1.0, -0.5], [0.3, 0.9, -0.3], [1.0, -1.0, 0.5], [0.2, 1.5, 0.0]])
NO_SECOND = torch.tensor([0, 2, 2, 0])
"""Labels of a client without the second class."""

PRIOR = torch.tensor([3 / 8, 0.0, 5 / 8]).log()


class Taught(Saying):
    """A model that started from one with other logits."""

    def __init__(self, logits, received):
        super().__init__(logits)
        self.received = Received({}, lambda images, network: Outputs(received, torch.empty(0)))


def test_logit_adjustment_is_the_official_codes():
    """Recorded: wnn2000/FedNoRo, 6719ad7, utils/losses.py, LogitAdjust with 3, 0 and 5 labels."""
    logits = LOGITS.clone().requires_grad_()
    loss = method("fednoro").loss(Saying(logits), batch_of(NO_SECOND, {"log_prior": PRIOR}))
    loss.backward()
    assert float(loss.detach()) == pytest.approx(0.2304094, abs=1e-6)
    assert logits.grad.isfinite().all()


def test_distillation_is_the_official_codes():
    """Recorded: as above, LA_KD with a weight of 0.3 and the teacher's softmax of logits / 0.8."""
    logits = LOGITS.clone().requires_grad_()
    batch = batch_of(NO_SECOND, {"log_prior": PRIOR}, distillation=torch.tensor(0.3))
    loss = method("fednoro").loss(Taught(logits, OTHER), batch)
    loss.backward()
    assert float(loss.detach()) == pytest.approx(0.24604, abs=1e-6)
    assert logits.grad.isfinite().all()


def test_the_ramp_is_the_official_codes():
    """Recorded: as above, utils/utils.py, get_current_consistency_weight from 10 to 49."""
    found = [ramp_up(round, 10, 49) for round in (10, 20, 35, 49, 80)]
    assert found == pytest.approx([0.0067379, 0.0629995, 0.525023, 1, 1], abs=1e-6)


def test_noisy_clients_are_the_official_codes():
    """Recorded: as above, train_FedNoRo.py, the lines from `metrics` to the vote."""
    rng = np.random.default_rng(0)
    table = rng.uniform(0.2, 0.8, (12, 3))
    table[[1, 4, 5, 9]] += rng.uniform(0.4, 1.2, (4, 3))
    known = np.ones((12, 3), dtype=bool)
    known[2, 1] = known[4, 0] = False
    assert noisy_rows(table, known).nonzero()[0].tolist() == [1, 4, 5, 9]
    # A class that nobody has tells nothing; clients that are all alike are not noisy.
    wider = np.concatenate([table, np.full((12, 1), np.nan)], 1)
    none = np.zeros((12, 1), dtype=bool)
    found = noisy_rows(np.nan_to_num(wider), np.concatenate([known, none], 1))
    assert found.nonzero()[0].tolist() == [1, 4, 5, 9]
    assert not noisy_rows(np.ones((4, 3)), np.ones((4, 3), dtype=bool)).any()


def test_a_client_whose_losses_are_not_finite_is_noisy_and_counts_for_no_other():
    table, known = np.full((6, 2), 0.5), np.ones((6, 2), dtype=bool)
    table[3], table[4, 1], table[5, 1] = 2.0, np.inf, np.nan
    known[5, 1] = False
    assert noisy_rows(table, known).tolist() == [False, False, False, True, True, False]
    assert noisy_rows(np.full((2, 2), np.inf), known[:2]).all()


def some_updates(sizes, noisy):
    models = [
        {"0.a": torch.tensor(a), "0.b": torch.tensor([b]), "0.count": torch.tensor(3)}
        for a, b in (([0.0, 1.0], 0.5), ([0.2, 0.8], 0.4), ([2.0, -1.0], -1.0), ([0.5, 1.5], 0.0))
    ]
    updates = updates_of(models, sizes)
    for update, value in zip(updates, noisy, strict=True):
        update.client.state[NOISY] = value
    return updates


def test_distance_aware_aggregation_is_the_official_codes():
    """Recorded: as above, utils/FedAvg.py, DaAgg; the last two clients are noisy."""
    federation = VectorFederation([1] * 4, 4)
    updates = some_updates([10, 20, 30, 40], [False, False, True, True])
    found = distance_aware(updates, federation)
    assert found["0.a"].tolist() == pytest.approx([0.578415, 0.8422658])
    assert float(found["0.b"]) == pytest.approx(0.0277208, abs=1e-6)
    shares = [federation.reports[number]["aggregation_weight"] for number in range(4)]
    assert sum(shares) == pytest.approx(1)
    assert shares[2] < 30 / 100


@pytest.mark.parametrize("noisy", [True, False])
def test_all_of_one_kind_are_averaged_by_size(noisy):
    found = distance_aware(some_updates([1, 1, 1, 1], [noisy] * 4), VectorFederation([1] * 4, 4))
    assert found["0.a"].tolist() == pytest.approx([0.675, 0.575])


def test_when_noisy_clients_are_asked_for():
    """All clients, once, in the first round of the second stage; a class that one lacks is fine."""
    clients = [client_of(4) for _ in range(6)]
    for number, client in enumerate(clients):
        client.id, client.given = number, torch.tensor([0, 1, 1, 0])
    asked, reported = [], {}

    def passes(requests, round):
        asked.append([request.client.id for request in requests])
        wrong = torch.tensor([[3.0, 0.0, 0], [3.0, 0.0, 0], [3.0, 0.0, 0], [0.0, 3.0, 0]])
        right = torch.tensor([[3.0, 0.0, 0], [0.0, 3.0, 0], [0.0, 3.0, 0], [3.0, 0.0, 0]])
        return [
            Outputs((wrong if n in (2, 5) else right) + 0.01 * n, torch.empty(0)) for n in range(6)
        ]

    federation = Answering(
        clients=clients,
        classes=3,
        weights={"0.w": torch.zeros(5)},
        passes=passes,
        report=lambda client, **values: reported.update({client.id: values}),
        exchange=lambda down, up: asked.append((down, up)),
    )
    side = method("fednoro", warm_up_rounds=4)
    for round in (3, 5):
        side.before_round(round, clients[:2], federation)
    assert asked == []
    side.before_round(4, clients[:2], federation)
    assert asked == [[*range(6)], (4 * 5 * 4, 6 * 3 * 4)]
    assert [client.state[NOISY] for client in clients] == [n in (2, 5) for n in range(6)]
    assert [reported[number]["called_noisy"] for number in range(6)] == [0, 0, 1, 0, 0, 1]
    assert side.epoch(clients[2], turn(3)).extras == {}
    assert side.epoch(clients[1], turn(9)).extras == {}
    weights = side.epoch(clients[2], turn(99)).extras["distillation"]
    assert weights == [0.8]


# ---------------------------------------------------------------- learnt labels

START = torch.tensor([[10.0, 0, 0], [0, 0, 10], [1.0, 2.0, 0.5], [0, 10, 0]])
"""Label logits of four samples."""

MOVED = [
    [-7.847992, 3.2499235, 14.598075],
    [25.041344, 27.67596, -42.717289],
    [-46.8941345, 11.2073975, 39.1867447],
    [1.4857538, 8.3213539, 0.1928974],
]
"""What a step makes of them in the official code."""


def step(name, label_batch=None):
    """The loss, its gradient with regard to the logits, and the label logits afterwards."""
    logits = LOGITS.clone().requires_grad_()
    memory = {"label_logits": torch.zeros(6, 3)}
    positions = torch.tensor([5, 0, 2, 3])
    memory["label_logits"][positions] = START
    batch = batch_of(memory=memory, positions=positions, correcting=torch.tensor(True))
    loss = method(name, label_batch=label_batch).loss(Saying(logits), batch)
    loss.backward()
    assert memory["label_logits"][[1, 4]].abs().sum() == 0
    return float(loss.detach()), logits.grad, memory["label_logits"][positions]


def test_fedelcs_loss_is_the_official_codes():
    """Recorded: Sprinter1999/FedELC, b5a8563, fl_models/update.py, pencil_loss, and the label
    logits less 1000 times their gradient.
    """
    loss, gradient, moved = step("fedelc")
    assert loss == pytest.approx(0.7673022, abs=1e-5)
    assert gradient[0].tolist() == pytest.approx([-0.1204458, 0.0187746, 0.1016712], abs=1e-5)
    torch.testing.assert_close(moved, torch.tensor(MOVED), rtol=1e-4, atol=1e-3)


def test_label_logits_move_as_far_in_a_batch_of_any_size():
    moves = [step("fedelc", label_batch=among)[2] - START for among in (4, 64)]
    torch.testing.assert_close(moves[0], 16 * moves[1], rtol=1e-4, atol=1e-4)


def test_masked_optims_loss_is_the_official_codes():
    """Recorded: Sprinter1999/MaskedOptim, a8e8e55, fl_components/update.py, pencil_loss: of four
    samples the third, which has the largest loss, is not held near its label.
    """
    loss, gradient, moved = step("masked_optim")
    assert loss == pytest.approx(0.6899261, abs=1e-5)
    assert gradient[0].tolist() == pytest.approx([-0.1179563, 0.0179208, 0.1000355], abs=1e-5)
    rows = [*MOVED[:2], [-17.991148, -35.2261391, 56.717289], MOVED[3]]
    torch.testing.assert_close(moved, torch.tensor(rows), rtol=1e-4, atol=1e-3)


def test_label_logits_begin_at_the_labels_and_are_merged_with_predictions():
    side, client = method("fedelc", label_scale=4.0), client_of(4)
    client.given = LABELS
    client.state[NOISY] = True
    federation = Answering(
        classes=3,
        weights={"0.classifier.weight": torch.zeros(3, 2)},
        passes=lambda requests, round: [Outputs(LOGITS, torch.empty(0)) for _ in requests],
        report=lambda client, **values: None,
    )
    begun = side.memory(client, federation)["label_logits"]
    assert begun.argmax(1).tolist() == LABELS.tolist()
    assert float(begun.max()) == 4
    (update,) = updates_of([{"0.w": torch.zeros(1)}])
    update.client, update.memory = client, {"label_logits": begun}
    side.after_updates(30, [update], federation)
    merged = 4 * (begun.softmax(1) + LOGITS.softmax(1)) / 2
    torch.testing.assert_close(side.memory(client, federation)["label_logits"], merged)
    assert torch.equal(client.labels, merged.argmax(1))
    # It goes on from the given labels, whatever is learnt.
    assert torch.equal(side.epoch(client, turn(30)).targets, LABELS)


def test_masked_optim_sends_a_mean_and_takes_the_median_of_each_tensor():
    side = method("masked_optim")
    clients = [Client(n, *(torch.zeros(2, dtype=torch.int64) for _ in range(3))) for n in range(3)]
    clients[0].state[NOISY] = True
    rows = ([[0.0, 1.0], [2.0, -1.0]], [[0.2, 0.8], [2.1, -1.3]], [[5.0, -4.0], [9.0, 3.0]])
    models = [
        {"0.a": torch.tensor(row), "0.b": torch.tensor([b])}
        for row, b in zip(rows, (0.5, 0.4, -7.0), strict=True)
    ]
    updates = updates_of(models, [5, 1, 9])
    federation = Answering(
        weights={"0.a": torch.ones(2, 2), "0.b": torch.ones(1)},
        passes=lambda requests, round: [],
    )
    found = side.aggregate(updates, federation)
    expected = [[0.1873721, 0.8126279], [2.1350765, -1.1752825]]
    torch.testing.assert_close(found["0.a"], torch.tensor(expected), rtol=0, atol=1e-5)
    assert float(found["0.b"]) == pytest.approx(0.4, abs=1e-5)
    updates[0].client = clients[0]
    updates[0].memory = {"label_logits": torch.zeros(2, 3)}
    federation.passes = lambda requests, round: [
        Outputs(torch.zeros(2, 3), torch.empty(0)) for _ in requests
    ]
    federation.report = lambda client, **values: None
    side.after_updates(40, updates, federation)
    torch.testing.assert_close(updates[0].weights["0.b"], torch.tensor([0.2 + 0.8 * 0.5]))
    assert updates[1].weights is models[1]
