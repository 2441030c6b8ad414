"""Images that are decoded as they are needed, against the same images in memory."""

import dataclasses
import threading
import time

import numpy as np
import pytest
import torch

from noisyfl.data.augmentation.augment import View
from noisyfl.data.datasets import images as images_module
from noisyfl.data.datasets.dataset import DATASETS, DatasetPart
from noisyfl.data.datasets.images import Files, Fit
from noisyfl.data.datasets.shards import Encoded, index_of, write_shards
from noisyfl.models import build_model
from noisyfl.simulation.clients import Client
from noisyfl.simulation.encoded import PIECES_AHEAD, EncodedImages, images_of
from noisyfl.simulation.executor import LoopExecutor
from noisyfl.simulation.fast import FastExecutor
from noisyfl.simulation.model import Networks
from noisyfl.simulation.outputs import Images, Pass
from noisyfl.simulation.schedule import Schedule
from noisyfl.simulation.updates import Task
from noisyfl.specs.build import build_method
from noisyfl.specs.catalogue import canonical_method
from official_trees import natural, save

CPU = torch.device("cpu")
SIDE, COUNT = 20, 30


@pytest.fixture(scope="module")
def part(tmp_path_factory):
    """A small part that is kept encoded."""
    folder = tmp_path_factory.mktemp("images")
    rng = np.random.default_rng(0)
    names = [f"{i}.jpg" for i in range(COUNT)]
    for name in names:
        save(folder / name, natural(rng, *rng.integers(20, 50, size=2)))
    labels = np.arange(COUNT) % 4
    files = Files(folder, names, labels, Fit(SIDE, SIDE))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("noisyfl.data.datasets.shards.SHARD_SIZE", 7)
        shards, _ = write_shards(files, folder / "shards")
    images = Encoded(shards, index_of(shards), (SIDE, SIDE, 3))
    return DatasetPart("covidx", ("a", "b", "c", "d"), images, labels)


def in_memory(part):
    pixels = np.stack([part.images.decoded(row) for row in range(COUNT)])
    return Images(pixels.transpose(0, 2, 3, 1), part.labels, CPU)


@pytest.mark.parametrize("workers", [1, 3])
def test_pieces_are_what_memory_would_have(part, workers):
    held, decoded = in_memory(part), EncodedImages(part.images, part.labels, CPU, workers)
    assert decoded.shape == held.shape == (3, SIDE, SIDE)
    rows = torch.from_numpy(np.random.default_rng(1).permutation(COUNT)[:23])
    for sizes in (5, [1, 4, 11, 7]):
        pairs = zip(held.pieces(rows, sizes), decoded.pieces(rows, sizes), strict=True)
        assert all(torch.equal(a, b) for a, b in pairs)
    pairs = zip(held.parts(8), decoded.parts(8), strict=True)
    assert all(torch.equal(a, b) for a, b in pairs)
    assert torch.equal(held.labels, decoded.labels)
    assert list(decoded.pieces(rows[:0], [])) == []


def test_only_a_few_pieces_are_decoded_ahead(part):
    asked = []

    class Counting(Encoded):
        def decoded(self, row):
            asked.append(row)
            return part.images.decoded(row)

    counting = Counting.__new__(Counting)
    counting.image_shape = part.images.image_shape
    images = EncodedImages(counting, part.labels, CPU)
    pieces = images.pieces(torch.arange(COUNT), 3)
    assert asked == []
    next(pieces)
    deadline = time.monotonic() + 120
    while len(asked) < 3 * (1 + PIECES_AHEAD) and time.monotonic() < deadline:
        time.sleep(0.01)
    time.sleep(0.05)
    assert sorted(asked) == list(range(3 * (1 + PIECES_AHEAD)))
    assert len(list(pieces)) == COUNT // 3 - 1
    assert sorted(asked) == list(range(COUNT))


def test_the_kind_of_images_follows_the_part(part):
    assert isinstance(images_of(part, CPU), EncodedImages)
    pixels = np.zeros((4, SIDE, SIDE, 3), dtype=np.uint8)
    held = images_of(DatasetPart("cifar10", ("a",), pixels, np.zeros(4, dtype=np.int64)), CPU)
    assert type(held) is Images


@pytest.mark.parametrize("executor", [LoopExecutor, FastExecutor])
def test_a_run_does_not_depend_on_where_images_are(part, executor):
    facts = dataclasses.replace(
        DATASETS["covidx"], shape=(SIDE, SIDE, 3), train_shape=None, classes=part.classes
    )
    schedule = Schedule(
        **{
            "rounds": 1,
            "participation": 1.0,
            "local_epochs": 2,
            "batch_size": 4,
            "learning_rate": 0.1,
            "pass_batch_size": 6,
            "test_batch_size": 7,
        }
    )
    _, side = build_method(canonical_method("fedavg", "method"), "method")
    given = torch.from_numpy(part.labels)
    ends = []
    for images in (in_memory(part), images_of(part, CPU)):
        networks = Networks([build_model("cnn", facts.shape, 4, seed=1)])
        weights = {name: value.clone() for name, value in networks.state_dict().items()}
        view = View(facts, "crop_flip", "imagenet", CPU)
        made = executor(networks, images, images, view, schedule, 1, CPU)
        rows = torch.arange(0, COUNT, 2)
        client = Client(0, rows, given[rows], given[rows])
        (update,) = made.local_updates([Task(client, weights)], side, 0, "")
        (outputs,) = made.passes([Pass(client, update.weights, "a look")], 0)
        tested = made.test_outputs(update.weights, 0)
        ends.append([*update.weights.values(), outputs.logits, tested.logits])
    assert all(torch.equal(a, b) for a, b in zip(*ends, strict=True))
    assert len(ends[0][-1]) == COUNT


def test_work_is_done_in_order_by_several_threads_and_only_a_little_ahead(monkeypatch):
    monkeypatch.setattr(images_module, "threads", lambda: 3)
    taken, threads = [], set()
    gate = threading.Barrier(3)

    def items():
        for i in range(60):
            taken.append(i)
            yield i

    def work(item):
        if item < 3:
            gate.wait(timeout=120)
        threads.add(threading.get_ident())
        return item * item

    results = images_module.in_order(work, items())
    assert next(results) == 0
    assert len(taken) <= 4 * 3 + 1
    assert list(results) == [i * i for i in range(1, 60)]
    assert len(threads) == 3
    failing = images_module.in_order(lambda i: 1 // (2 - i), range(9))
    assert next(failing) == 0
    with pytest.raises(ZeroDivisionError):
        list(failing)
