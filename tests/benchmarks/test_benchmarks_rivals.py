import copy
import os
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch
from benchmarks import (
    Speed,
    Timing,
    Work,
    central,
    draw_participants,
    normalized,
    pfl_fedavg,
    precision,
    repository_loop,
    speed,
)
from sklearn.datasets import load_digits
from torch import nn
from torchvision import transforms

from noisyfl.models import build_model

PFL_PYTHON = "NOISYFL_PFL_PYTHON"


@pytest.fixture(autouse=True)
def _one_thread() -> None:
    torch.set_num_threads(1)


@pytest.fixture(scope="module")
def work() -> Work:
    digits = load_digits()
    images = (digits.images[..., None] * (255 / 16)).astype(np.uint8)
    pixels = images[:1400] / 255
    return Work(
        train_images=images[:1400],
        train_labels=digits.target[:1400].astype(np.int64),
        test_images=images[1400:],
        test_labels=digits.target[1400:].astype(np.int64),
        clients=np.split(np.arange(1400), [200, 500, 555, 900, 1100]),
        participants=4,
        local_epochs=2,
        batch_size=16,
        learning_rate=0.1,
        momentum=0.5,
        mean=(float(pixels.mean()),),
        std=(float(pixels.std()),),
        rounds=8,
        device="cpu",
        seed=1,
    )


@pytest.fixture
def module() -> nn.Module:
    return build_model("cnn", (8, 8, 1), 10, seed=1)


def test_speed_is_of_medians_after_the_first_round() -> None:
    timings = [
        Timing(training=100.0, samples=1, evaluation=50.0, accuracy=0.1),
        Timing(training=1.0, samples=100, evaluation=4.0, accuracy=0.2),
        Timing(training=2.0, samples=100, evaluation=None, accuracy=None),
        Timing(training=9.0, samples=90, evaluation=2.0, accuracy=0.3),
    ]
    assert speed(timings) == Speed(samples_per_second=50, rounds_per_hour=3600 / (2 + 3))
    with pytest.raises(ValueError, match="no round after the first was evaluated"):
        speed(timings[:1])


def test_participants_are_distinct_and_decided_by_the_seed() -> None:
    drawn = draw_participants(3, clients=6, participants=4, rounds=50)
    assert drawn.shape == (50, 4)
    assert all(len(set(chosen)) == 4 for chosen in drawn)
    assert set(drawn.flatten()) == set(range(6))
    assert np.array_equal(drawn, draw_participants(3, 6, 4, 50))
    assert not np.array_equal(drawn, draw_participants(4, 6, 4, 50))


def test_precision_is_put_back() -> None:
    def state() -> tuple[bool, bool]:
        return torch.backends.cuda.matmul.allow_tf32, torch.backends.cudnn.allow_tf32

    before = state()
    with precision(tf32=True):
        assert state() == (True, True)
        with precision(tf32=False):
            assert state() == (False, False)
    assert state() == before


@pytest.mark.slow
def test_repository_loop_learns(work: Work, module: nn.Module) -> None:
    before = copy.deepcopy(module.state_dict())
    timings = repository_loop.rounds(module, **vars(work))
    sizes = np.array([len(rows) for rows in work.clients])
    chosen = draw_participants(work.seed, len(sizes), work.participants, work.rounds)
    assert [timing.samples for timing in timings] == list(2 * sizes[chosen].sum(1))
    assert all(timing.training > timing.evaluation > 0 for timing in timings)
    assert timings[0].accuracy < 0.5
    assert timings[-1].accuracy > 0.6
    assert all(torch.equal(value, before[name]) for name, value in module.state_dict().items())


def test_repository_loop_is_measured_after_a_round_that_warms_up(
    work: Work, module: nn.Module, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked = []

    def rounds(_: nn.Module, **arguments: object) -> list[Timing]:
        asked.append(arguments["rounds"])
        return [Timing(9.0, 10, 1.0, 0.5), Timing(2.0, 10, 1.0, 0.5)]

    monkeypatch.setattr(repository_loop, "rounds", rounds)
    assert repository_loop.measure(module, replace(work, rounds=1)) == Speed(5, 1200)
    assert asked == [2]


def test_average_weighs_by_size() -> None:
    sizes = [1, 2, 7]
    models = [build_model("cnn9", (28, 28, 1), 10, seed=seed) for seed in range(4)]
    for model, number in zip(models, (3, 5, 9, 0), strict=True):
        for buffer in model.buffers():
            buffer.fill_(number)
    *states, mean = (model.state_dict() for model in models)
    models[3].load_state_dict(repository_loop.average(states, sizes))
    for name, value in mean.items():
        expected = np.average([state[name].numpy() for state in states], axis=0, weights=sizes)
        rounded = expected if value.is_floating_point() else np.floor(expected)
        np.testing.assert_allclose(value.numpy(), rounded, atol=1e-6)


@pytest.mark.parametrize("channels", [1, 3])
def test_the_rivals_see_the_same_images(channels: int) -> None:
    images = np.random.default_rng(0).integers(256, size=(5, 12, 10, channels), dtype=np.uint8)
    mean, std = (0.3, 0.4, 0.5)[:channels], (0.2, 0.3, 0.1)[:channels]
    expected = ((images / 255 - mean) / std).transpose(0, 3, 1, 2)
    plain = transforms.Compose([transforms.ToTensor(), transforms.Normalize(mean, std)])
    dataset = repository_loop.ImageDataset(images, np.arange(5), plain)
    part = repository_loop.DatasetSplit(dataset, np.array([4, 2]))
    assert [part[item][1] for item in range(len(part))] == [4, 2]
    np.testing.assert_allclose(part[1][0], expected[2], atol=1e-5)
    np.testing.assert_allclose(normalized(images, mean, std, "cpu"), expected, atol=1e-5)


def test_central(work: Work, module: nn.Module) -> None:
    before = copy.deepcopy(module.state_dict())
    ceiling = central.measure(module, work, batch_sizes=[16, 64, 9999], seconds=0.05)
    samples = 4 * 2 * 1400 / 6
    assert 0 < ceiling.rounds_per_hour < 3600 * ceiling.samples_per_second / samples
    assert all(torch.equal(value, before[name]) for name, value in module.state_dict().items())


def test_central_is_the_fastest_training_and_the_fastest_evaluation(
    work: Work, module: nn.Module, monkeypatch: pytest.MonkeyPatch
) -> None:
    measured = iter([3, 30, 5, 50, 4, 70, 2, 20])  # of both layouts, both sizes, both kinds of step
    sizes = []

    def rate(steps: Iterator[int], seconds: float, device: str) -> float:
        sizes.append(next(steps))
        return next(measured)

    monkeypatch.setattr(central, "rate", rate)
    expected = Speed(5, 3600 / (4 * 2 * 1400 / 6 / 5 + 397 / 70))
    assert central.measure(module, work, batch_sizes=[16, 64, 9999]) == expected
    assert sizes == [16, 16, 64, 64] * 2


def test_central_trains_on_every_image_once_an_epoch() -> None:
    class Sum(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.scale = nn.Parameter(torch.ones(2))
            self.seen: list[float] = []

        def forward(self, images: torch.Tensor) -> torch.Tensor:
            self.seen += images.flatten().tolist()
            return images.flatten(1) * self.scale

    model = Sum()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    images, labels = torch.arange(7.0).view(7, 1, 1, 1), torch.tensor([0, 1, 0, 1, 0, 1, 0])
    steps = central.training_steps(model, optimizer, images, labels, 3)
    assert [next(steps) for _ in range(4)] == [3] * 4
    assert len(set(model.seen[:6])) == len(set(model.seen[6:])) == 6
    assert not torch.equal(model.scale, torch.ones(2))
    steps = central.evaluation_steps(model, images, 3)
    assert [next(steps) for _ in range(4)] == [3, 3, 1, 3]


def test_central_leaves_out_what_does_not_fit(work: Work, module: nn.Module) -> None:
    asked: set[int] = set()

    def refuse(_: nn.Module, inputs: tuple[torch.Tensor]) -> None:
        asked.add(len(inputs[0]))
        if len(inputs[0]) > limit:
            raise torch.OutOfMemoryError

    module.register_forward_pre_hook(refuse)
    limit = 16
    assert central.measure(module, work, batch_sizes=[16, 64], seconds=0.01).samples_per_second > 0
    assert {16, 64} <= asked
    limit = 8
    with pytest.raises(ValueError, match="none of the batch sizes 16, 64, 9999 can be had of 1400"):
        central.measure(module, work, batch_sizes=[16, 64, 9999], seconds=0.01)


@pytest.fixture
def broken_python(tmp_path: Path) -> str:
    path = tmp_path / "python"
    path.write_text("#!/bin/sh\necho Traceback >&2\necho 'Error: no pfl here' >&2\nexit 1\n")
    path.chmod(0o755)
    return str(path)


def test_python_without_pfl(work: Work, broken_python: str, tmp_path: Path) -> None:
    absent = str(tmp_path / "absent")
    assert pfl_fedavg.missing(absent) == f"{absent} cannot be run: No such file or directory"
    expected = f"{broken_python} cannot import pfl: Error: no pfl here"
    assert pfl_fedavg.missing(broken_python) == expected
    with pytest.raises(RuntimeError, match="pfl failed: Error: no pfl here"):
        pfl_fedavg.rounds(broken_python, "cnn", 10, work)


def federated_averaging(module: nn.Module, work: Work) -> list[float]:
    """Accuracy after every round, with batches in the order of the client's rows."""
    images = normalized(work.train_images, work.mean, work.std, "cpu")
    test = normalized(work.test_images, work.mean, work.std, "cpu")
    labels = torch.from_numpy(work.train_labels)
    accuracies = []
    for chosen in draw_participants(work.seed, len(work.clients), work.participants, work.rounds):
        parts = [torch.from_numpy(work.clients[client]) for client in chosen]
        vectors = []
        for part in parts:
            local = copy.deepcopy(module)
            optimizer = torch.optim.SGD(
                local.parameters(), lr=work.learning_rate, momentum=work.momentum
            )
            for rows in part.split(work.batch_size) * work.local_epochs:
                optimizer.zero_grad()
                nn.functional.cross_entropy(local(images[rows]), labels[rows]).backward()
                optimizer.step()
            vectors.append(nn.utils.parameters_to_vector(local.parameters()).detach().double())
        shares = torch.tensor([len(part) for part in parts]).double()
        mean = (torch.stack(vectors) * (shares / shares.sum())[:, None]).sum(0)
        nn.utils.vector_to_parameters(mean.float(), module.parameters())
        with torch.no_grad():
            right = module(test).argmax(1).numpy() == work.test_labels
        accuracies.append(float(right.mean()))
    return accuracies


def test_pfl_does_the_same_work(work: Work, module: nn.Module) -> None:
    python = os.environ.get(PFL_PYTHON)
    if python is None:
        pytest.skip(f"{PFL_PYTHON} names no Python that has pfl")
    reason = pfl_fedavg.missing(python)
    if reason is not None:
        pytest.skip(reason)
    timings = pfl_fedavg.rounds(python, "cnn", 10, work, evaluate_every=2)
    sizes = np.array([len(rows) for rows in work.clients])
    chosen = draw_participants(work.seed, len(sizes), work.participants, work.rounds)
    assert [timing.samples for timing in timings] == list(2 * sizes[chosen].sum(1))
    assert all(timing.training > 0 for timing in timings)
    evaluated = [timing.evaluation is not None for timing in timings]
    assert evaluated == [False, False, True, False, True, False, True, False]
    expected = federated_averaging(module, work)
    assert expected[6] > 0.8
    for number in (2, 4, 6):
        # Two images of 397 may fall on the other side of rounding errors.
        assert timings[number].accuracy == pytest.approx(expected[number], abs=2.5 / 397)
