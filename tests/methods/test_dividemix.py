"""DivideMix's split, targets and losses on cases worked out beside it, and on noisy digits."""

import math
from functools import partial

import numpy as np
import pytest
import torch
from sklearn.mixture import GaussianMixture
from torch.nn import functional

from noisy_digits import SOME_CLIENTS, run_on_digits
from noisyfl.simulation.client_side import Turn
from noisyfl.simulation.clients import Client
from noisyfl.simulation.outputs import Outputs
from noisyfl.simulation.schedule import Schedule
from noisyfl.simulation.updates import Batch, Update
from vectors import method

dividemix = partial(method, "dividemix")


def client_of(labels):
    labels = torch.tensor(labels)
    return Client(0, torch.arange(len(labels)), labels.clone(), labels.clone())


def turn(logits=None, number=0, round=50, batch_size=4):
    """An epoch whose two networks say ``logits`` [2, samples, classes]."""

    def outputs(purpose, network, view):
        return Outputs(logits[network], torch.empty(0))

    return Turn(1, round, "training", 0, number, batch_size, outputs)


def logits_of(losses, labels, classes=3):
    """Logits [samples, classes] whose cross-entropy with the labels is as given."""
    probability = torch.tensor(losses, dtype=torch.float64).neg().exp()[:, None]
    rest = (1 - probability) / (classes - 1)
    own = functional.one_hot(torch.tensor(labels), classes).bool()
    return torch.where(own, probability, rest).log()


LABELS = [0, 1, 2, 0, 1, 2, 0, 1, 2, 0]
FIRST = [0.1, 0.12, 0.3, 2.0, 2.1, 0.2, 0.15, 1.9, 0.11, 2.4]
SECOND = [0.2, 1.8, 0.25, 2.2, 2.0, 0.1, 0.3, 0.21, 0.22, 1.7]


def both():
    return torch.stack([logits_of(FIRST, LABELS), logits_of(SECOND, LABELS)])


def test_the_split_is_the_mixture_of_scaled_losses_that_scikit_learn_fits():
    client = client_of(LABELS)
    dividemix().epoch(client, turn(both()))
    for losses, probability in zip((FIRST, SECOND), client.state["dividemix"], strict=True):
        scaled = np.array(losses)
        scaled = ((scaled - scaled.min()) / np.ptp(scaled))[:, None]
        mixture = GaussianMixture(2, max_iter=10, tol=1e-2, reg_covar=5e-4, random_state=0)
        mixture.fit(scaled)
        expected = mixture.predict_proba(scaled)[:, mixture.means_.argmin()]
        np.testing.assert_allclose(probability.numpy(), expected, atol=1e-4)


def test_each_network_learns_from_the_other_ones_split_of_the_epochs_start():
    client = client_of(LABELS)
    method = dividemix()
    epochs = [method.epoch(client, turn(both()))]
    # Whatever the networks say by now, the second one keeps to the split of the start.
    epochs.append(method.epoch(client, turn(both().flip(0), number=1)))
    for number, (epoch, losses) in enumerate(zip(epochs, (SECOND, FIRST), strict=True)):
        assert epoch.learns == f"{number}."
        clean = set(np.flatnonzero(np.array(losses) < 1))
        halves = [np.split(step, 2) for step in epoch.steps]
        assert set(np.concatenate([first for first, _ in halves])) == clean
        assert set(np.concatenate([second for _, second in halves])) == set(range(10)) - clean
        assert [len(first) for first, _ in halves] == [4, 2]
        assert [len(index) for index in epoch.extras["mixup_index"]] == [16, 8]
        assert all(0.5 <= share <= 1 for share in epoch.extras["share"])
        assert epoch.views == ("weak", "weak")


def test_a_local_epoch_is_two_one_for_each_network():
    schedule = Schedule(
        **{
            "rounds": 10,
            "participation": 1.0,
            "local_epochs": 5,
            "batch_size": 2,
            "learning_rate": 0.1,
        }
    )
    assert dividemix().local_schedule(4, schedule).local_epochs == 10
    # FedCorr's baseline: an ordinary warm-up, and longer local updates after it.
    longer = dividemix(warm_up_rounds=4, local_epochs=20)
    assert [longer.local_schedule(r, schedule).local_epochs for r in (0, 3, 4, 9)] == [
        *(10, 10),
        *(40, 40),
    ]


def test_warm_up_and_ramp_count_rounds():
    client = client_of(LABELS)
    method = dividemix(warm_up_rounds=4, ramp_rounds=8, unlabelled_weight=40)
    warm = method.epoch(client, turn(round=3, number=1))
    assert set(warm.extras) == {"second learns"}
    assert warm.learns == "1."
    assert sorted(np.concatenate(warm.steps)) == list(range(10))
    for round, weight in ((4, 0), (6, 10), (12, 40), (30, 40)):
        epoch = method.epoch(client, turn(both(), round=round))
        assert epoch.extras["unlabelled"] == [pytest.approx(weight)] * 2
    assert dividemix(ramp_rounds=0).epoch(client, turn(both(), round=10)).extras["unlabelled"] == [
        25.0,
        25.0,
    ]


@pytest.mark.parametrize(
    "losses",
    [[0.5] * 10, [0.5] * 9 + [math.inf], [math.nan] * 10],
    ids=["identical", "infinite", "not a number"],
)
def test_losses_that_say_nothing_leave_plain_training(losses):
    client = client_of(LABELS)
    logits = torch.stack([logits_of(losses, LABELS)] * 2)
    for number in (0, 1):
        epoch = dividemix().epoch(client, turn(logits, number))
        assert "share" not in epoch.extras
        assert sorted(np.concatenate(epoch.steps)) == list(range(10))


def test_nothing_clean_leaves_plain_training():
    client = client_of(LABELS)
    epoch = dividemix(clean_threshold=1.0).epoch(client, turn(both()))
    assert "share" not in epoch.extras


def test_one_clean_sample_is_a_step_of_two():
    client = client_of(LABELS)
    losses = [0.1] + [2.0, 2.01, 2.02] * 3
    epoch = dividemix().epoch(client, turn(torch.stack([logits_of(losses, LABELS)] * 2)))
    assert [len(step) for step in epoch.steps] == [2]
    assert epoch.steps[0][0] == 0


class Linear:
    """Two linear networks on images [n, 1, 1, 2], as a loss sees them."""

    def __init__(self):
        rng = torch.Generator().manual_seed(0)
        self.weights = [
            torch.randn(2, 3, generator=rng, dtype=torch.float64, requires_grad=True)
            for _ in range(2)
        ]
        self.looks = []

    def __call__(self, images, network=0):
        logits = images.flatten(1) @ self.weights[network]
        return Outputs(logits, logits)

    @torch.no_grad()
    def look(self, images, network=0, *, evaluating=False):
        self.looks.append((network, evaluating, len(images)))
        return self(images, network)


SHARE = 0.7
MIXUP_INDEX = [3, 0, 2, 1, 5, 7, 6, 4]
CLEAN = [0.9, 0.6]


def batch_of(unlabelled=5.0, learner="second learns", mixup_index=MIXUP_INDEX):
    rng = torch.Generator().manual_seed(1)
    views = tuple(torch.randn(4, 1, 1, 2, generator=rng, dtype=torch.float64) for _ in range(2))
    extras = {
        learner: torch.tensor(True),
        "share": torch.tensor(SHARE, dtype=torch.float64),
        "mixup_index": torch.tensor(mixup_index),
        "clean": torch.tensor(CLEAN, dtype=torch.float64),
        "unlabelled": torch.tensor(unlabelled, dtype=torch.float64),
    }
    return Batch(views, torch.arange(4), torch.tensor([2, 0, 1, 1]), extras, {})


def by_hand(model, batch, weight, temperature=0.5, squared_error="mean"):
    """The three terms, image by image, in numpy; the second network learns."""
    one, two = (view.flatten(1).numpy() for view in batch.views)
    own, other = model.weights[1].detach().numpy(), model.weights[0].detach().numpy()

    def softmax(x, w):
        e = np.exp(x @ w)
        return e / e.sum()

    def sharpen(p):
        powers = p ** (1 / temperature)
        return powers / powers.sum()

    targets = {}
    for i in range(2):
        label = np.eye(3)[int(batch.target[i])]
        guess = (softmax(one[i], own) + softmax(two[i], own)) / 2
        targets[i] = sharpen(CLEAN[i] * label + (1 - CLEAN[i]) * guess)
    for i in range(2, 4):
        four = [softmax(x[i], w) for x in (one, two) for w in (own, other)]
        targets[i] = sharpen(sum(four) / 4)
    images = [one[0], one[1], two[0], two[1], one[2], one[3], two[2], two[3]]
    order = [0, 1, 0, 1, 2, 3, 2, 3]
    supervised, errors, predictions = [], [], []
    for i, other_index in enumerate(MIXUP_INDEX):
        image = SHARE * images[i] + (1 - SHARE) * images[other_index]
        target = SHARE * targets[order[i]] + (1 - SHARE) * targets[order[other_index]]
        predicted = softmax(image, own)
        predictions.append(predicted)
        if i < 4:
            supervised.append(-(target * np.log(predicted)).sum())
        else:
            square = (predicted - target) ** 2
            errors.append(square.mean() if squared_error == "mean" else square.sum())
    mean = np.mean(predictions, axis=0)
    prior = np.sum(np.log((1 / 3) / mean) / 3)
    return np.mean(supervised), weight * np.mean(errors), prior


@pytest.mark.parametrize("options", [{}, {"temperature": 2.0}, {"squared_error": "sum"}])
def test_the_loss_is_the_papers(options):
    model, batch = Linear(), batch_of()
    loss = dividemix(**options).loss(model, batch)
    assert float(loss.detach()) == pytest.approx(
        sum(by_hand(model, batch, 5.0, **options)), rel=1e-10
    )
    # The network that learns guesses in training mode, the fixed one in evaluation mode.
    # Each view of each part is a pass of its own, of which batch normalisation has the mean.
    guesses = [(1, False, 2)] * 2 + [(0, True, 2)] * 2
    assert model.looks == guesses + [(1, False, 2)] * 2
    # Nothing goes back into the network that does not learn.
    (gradient,) = torch.autograd.grad(loss, [model.weights[0]], allow_unused=True)
    assert gradient is None


def test_a_single_sample_is_guessed_from_both_views_in_one_pass():
    """Batch normalisation cannot do with one value a channel."""
    model, batch = Linear(), batch_of(mixup_index=[0, 1, 2, 3])
    batch.views = tuple(view[1:3] for view in batch.views)
    batch.positions, batch.target = batch.positions[1:3], batch.target[1:3]
    batch.extras["clean"] = batch.extras["clean"][1:]
    dividemix().loss(model, batch)
    assert model.looks == [(1, False, 2), (0, True, 2), (1, False, 2)]


def test_short_unlabelled_batches_are_filled_up_or_not():
    """Of seven labelled samples and three others, in batches of four and of two."""
    client = client_of(LABELS)
    losses = [0.1, 2.0, 0.11, 2.1, 0.12, 2.2, 0.13, 0.14, 0.15, 0.16]
    logits = torch.stack([logits_of(losses, LABELS)] * 2)
    noisy = {1, 3, 5}
    for size, filled, short in ((4, [4, 3], [3, 3]), (2, [2, 2, 2], [2, 1, 2])):
        for option, expected in (("filled", filled), ("short", short)):
            method = dividemix(unlabelled_batches=option)
            epoch = method.epoch(client, turn(logits, batch_size=size))
            others = [[p for p in step if p in noisy] for step in epoch.steps]
            assert [len(part) for part in others] == expected
            for step, part, clean in zip(epoch.steps, others, epoch.extras["clean"], strict=True):
                assert len(clean) + len(part) == len(step)
                assert list(step[len(clean) :]) == part
            mixed = [len(index) for index in epoch.extras["mixup_index"]]
            assert mixed == [2 * len(step) for step in epoch.steps]
            if option == "short":
                assert set(others[0] + others[1]) == noisy


def test_parts_of_two_sizes_are_told_apart():
    model, batch = Linear(), batch_of(mixup_index=list(range(8)))
    batch.extras["clean"] = torch.tensor([0.9, 0.6, 0.5], dtype=torch.float64)
    dividemix().loss(model, batch)
    sizes = [size for _, _, size in model.looks]
    assert sizes == [2, 2, 3, 3]  # one sample without label: both of its views; three with one


def test_where_momentum_starts_anew():
    client = client_of(LABELS)
    for option, fresh in (("update", False), ("epoch", True)):
        method = dividemix(momentum=option, warm_up_rounds=4)
        assert not method.epoch(client, turn(round=3)).fresh_momentum
        assert method.epoch(client, turn(both(), round=4)).fresh_momentum == fresh
        nothing_to_split = torch.stack([logits_of([0.5] * 10, LABELS)] * 2)
        assert method.epoch(client, turn(nothing_to_split, round=4)).fresh_momentum == fresh


def test_every_term_pulls():
    def gradient(weight, prior):
        model = Linear()
        loss = dividemix(prior_weight=prior).loss(model, batch_of(weight))
        return torch.autograd.grad(loss, [model.weights[1]])[0]

    supervised = gradient(0.0, 0.0)
    assert float(supervised.norm()) > 1e-3
    assert float((gradient(5.0, 0.0) - supervised).norm()) > 1e-3
    assert float((gradient(0.0, 1.0) - supervised).norm()) > 1e-3


def test_the_prior_term_stays_finite_where_a_class_is_never_predicted():
    model = Linear()
    with torch.no_grad():
        model.weights[1][:] = torch.tensor([[900.0, 0.0, -900.0]] * 2)
    batch = batch_of()
    batch.views = tuple(view.abs() + 1 for view in batch.views)
    loss = dividemix().loss(model, batch)
    (gradient,) = torch.autograd.grad(loss, [model.weights[1]])
    assert bool(loss.isfinite())
    assert bool(gradient.isfinite().all())


@pytest.mark.parametrize(("learner", "network"), [("first learns", 0), ("second learns", 1)])
def test_the_warm_up_is_cross_entropy_with_or_without_the_confidence_penalty(learner, network):
    batch = batch_of(learner=learner)
    batch.extras = {learner: torch.tensor(True)}
    model = Linear()
    logits = model(batch.images, network).logits.detach()
    plain = functional.cross_entropy(logits, batch.target)
    assert float(dividemix().loss(model, batch).detach()) == pytest.approx(float(plain))
    entropy = torch.distributions.Categorical(logits=logits).entropy().mean()
    penalised = dividemix(confidence_penalty=True).loss(model, batch)
    assert float(penalised.detach()) == pytest.approx(float(plain - entropy))


def test_what_is_tested():
    first = torch.tensor([[3.0, 0.0], [0.0, 1.0]])
    second = torch.tensor([[0.0, 1.0], [0.0, 2.0]])
    outputs = [Outputs(part, part) for part in (first, second)]
    assert torch.equal(dividemix().predict(outputs, None), first + second)
    assert torch.equal(dividemix(tested="first").predict(outputs, None), first)
    mean = (first.softmax(1) + second.softmax(1)) / 2
    torch.testing.assert_close(dividemix(tested="mean").predict(outputs, None).exp(), mean)


def test_both_splits_are_reported_and_nothing_is_kept():
    client = client_of(LABELS)
    method = dividemix()
    method.epoch(client, turn(both()))
    reports, selections = {}, []

    class Notes:
        def report(self, client, **estimates):
            reports.update(estimates)

        def report_selection(self, client, positions):
            selections.append(positions)

    method.after_updates(0, [Update(client, {}, {}, 1, 1, 0.0, 1, 1)], Notes())
    assert [mask.tolist() for mask in selections] == [
        [loss < 1 for loss in losses] for losses in (FIRST, SECOND)
    ]
    assert reports == {"estimated_noise_level": pytest.approx(8 / 20)}
    assert client.state == {}


@pytest.mark.slow
def test_what_it_calls_clean_on_digits_is_cleaner_than_the_base_rate(tmp_path):
    options = {"warm_up_rounds": 5, "ramp_rounds": 2, "unlabelled_weight": 1}
    federation, _ = run_on_digits(
        {"name": "dividemix", **options},
        tmp_path,
        SOME_CLIENTS,
        rounds=9,
        participation=0.4,
        local_epochs=3,
        batch_size=10,
        learning_rate=0.15,
    )
    rows = federation.records.rounds
    assert all(math.isnan(row["label_precision"]) for row in rows[:5])
    base = np.mean([1 - row["participants_noise_level"] for row in rows[6:]])
    assert np.mean([row["label_precision"] for row in rows[6:]]) > base + 0.1
    assert np.mean([row["label_recall"] for row in rows[6:]]) > 0.6
