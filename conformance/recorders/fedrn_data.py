"""FedRN's partitions and label noise, on told draws."""

from __future__ import annotations

from argparse import Namespace
from contextlib import redirect_stdout
from copy import deepcopy
from io import StringIO
from types import SimpleNamespace
from typing import Any
from unittest.mock import patch

import numpy as np

from conformance.recorders.draws import Told, told
from conformance.steps import Code, Step, Values
from noisyfl.data.datasets.dataset import DATASETS
from noisyfl.data.noise import label_noise
from noisyfl.data.partitioning.partition import PARTITIONS

CLASSES = 10


class Shards(Step):
    """Five clients with four shards each; which samples of a class a shard has is the sort's."""

    method = "shard"
    what = "classes of the samples that each client has"
    file, function = "utils/sampling.py", "sample_noniid_shard"

    def inputs(self, rng: np.random.RandomState) -> Values:
        labels = np.repeat(np.arange(CLASSES), 12)[rng.permutation(120)]
        return {"labels": labels, "shards": rng.permutation(20)}

    def official(self, code: Code, given: Values) -> Values:
        labels = np.array(given["labels"])
        shards = iter(np.array(given["shards"]).reshape(5, 4).tolist())
        with patch.object(np.random, "choice", lambda *args, **rest: next(shards)):
            found = code.module("utils.sampling").sample_noniid_shard(labels, 5, 20)
        return _counts(labels, [found[number] for number in range(5)])

    def ours(self, given: Values) -> Values:
        labels = np.array(given["labels"])
        partition = PARTITIONS.build({"name": "shard", "clients": 5, "shards": 4}, "conformance")
        draws: Any = SimpleNamespace(permutation=lambda of: np.array(given["shards"]))
        return _counts(labels, partition.assign(labels, CLASSES, draws))


def _counts(labels: np.ndarray, clients: Any) -> Values:
    return {"counts": [np.bincount(labels[rows], minlength=CLASSES) for rows in clients]}


class Dirichlet(Step):
    """Four clients of 200 samples; the one that has its even share first gets no more."""

    method = "dirichlet_official"
    what = "which sample is on which client"
    file, function = "utils/sampling.py", "sample_dirichlet"

    def inputs(self, rng: np.random.RandomState) -> Values:
        return {
            "shares": [rng.rand(4) for _ in range(CLASSES)],
            "orders": [rng.rand(20) for _ in range(CLASSES)],
        }

    def official(self, code: Code, given: Values) -> Values:
        shares, orders = Told(given["shares"]), Told(given["orders"])
        classes = iter(range(CLASSES))

        def shuffle(values: Any) -> None:
            # Samples of a client are shuffled at the end, which is of no account.
            if next(classes, None) is not None:
                orders.shuffle(values)

        with (
            told(shares, ("dirichlet",)),
            patch.object(np.random, "shuffle", shuffle),
            redirect_stdout(StringIO()),
        ):
            found = code.module("utils.sampling").sample_dirichlet(np.zeros(200), 4, alpha=0.5)
        return _said([sorted(map(int, found[number])) for number in range(4)], shares)

    def ours(self, given: Values) -> Values:
        shares, orders = Told(given["shares"]), Told(given["orders"])
        draws: Any = SimpleNamespace(dirichlet=shares.dirichlet, permutation=orders.permutation)
        partition = PARTITIONS.build(
            {"name": "dirichlet_official", "clients": 4, "beta": 0.5}, "conformance"
        )
        return _said(partition.assign(np.zeros(200, dtype=int), CLASSES, draws), shares)


def _said(clients: Any, shares: Told) -> Values:
    return {
        "clients": {str(number): rows for number, rows in enumerate(clients)},
        "concentrations": shares.alphas,
    }


class SymmetricFlips(Step):
    """Three clients of twenty samples, none, a quarter and half of them flipped."""

    method = "symmetric"
    what = 'labels that are flipped, and into what, `count="floor"`'
    file, lines = "main_fed_LNL.py", (105, 119)

    def inputs(self, rng: np.random.RandomState) -> Values:
        return {
            "labels": rng.randint(CLASSES, size=60),
            "levels": [0.0, 0.25, 0.5],
            "orders": [rng.rand(20) for _ in range(3)],
            "drawn": [rng.rand(20) for _ in range(3)],
        }

    def official(self, code: Code, given: Values) -> Values:
        labels = np.array(given["labels"])
        orders = Told(given["orders"])
        counts = [int(20 * level) for level in given["levels"]]
        numbers = iter(
            number
            for row, count in zip(given["drawn"], counts, strict=True)
            for number in row[:count]
        )
        draws = SimpleNamespace(
            seed=lambda seed: None,
            shuffle=orders.shuffle,
            sample=lambda values, k: [values[int(next(numbers) * len(values))]],
        )
        utils = code.module("utils.utils")
        with patch.object(utils, "random", draws):
            code.block(
                self.file,
                self.lines,
                user_noise_type_rates=[("symmetric", level) for level in given["levels"]],
                copy=SimpleNamespace(deepcopy=deepcopy),
                dict_users={n: range(20 * n, 20 * n + 20) for n in range(3)},
                random=draws,
                args=Namespace(seed=1, num_classes=CLASSES),
                dataset_train=SimpleNamespace(train_labels=labels),
                noisify_label=utils.noisify_label,
            )
        return {"labels": labels}

    def ours(self, given: Values) -> Values:
        noise = label_noise.LABEL_NOISES.build(
            {"name": "symmetric", "count": "floor"}, "conformance"
        )
        true = np.array(given["labels"]).reshape(3, 20)

        def stream(seed: int, purpose: str, client: int) -> Any:
            return Told([given["orders"][client], given["drawn"][client]])

        with patch.object(label_noise, "stream", stream):
            context = label_noise.Context(DATASETS["cifar10"], 1, None)
            flipped = noise.flip(list(true), np.array(given["levels"]), context)
        return {"labels": np.concatenate(flipped)}
