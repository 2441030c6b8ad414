"""What the steps of FedRN's repository share: its objects, on given samples and draws."""

from __future__ import annotations

from argparse import Namespace
from collections.abc import Iterator
from contextlib import ExitStack
from typing import Any
from unittest.mock import patch

import numpy as np
import torch
from torch import nn

from conformance.recorders.common import Pairs, cut
from conformance.simulation import SHAPE, Named, Small, integers, loaded
from conformance.steps import Code, Values

DEFAULTS = {
    "device": "cpu",
    "local_bs": 4,
    "local_ep": 2,
    "num_workers": 0,
    "lr": 0.1,
    "momentum": 0.5,
    "weight_decay": 0.0,
    "verbose": False,
    "num_classes": 4,
    "g_epoch": 0,
    "warmup_epochs": 1,
}
"""Of the options that every one of its objects reads."""


def as_ours(weights: Values) -> Values:
    """Weights of :class:`Named` by the names that they have in our small network."""
    return {name.replace("linear", "classifier"): value for name, value in weights.items()}


def named(weights: Values) -> Any:
    """A small network for the official code."""
    return Named(loaded(Small(), weights))


class Orders:
    """In the place of its data loaders: those that shuffle have the orders that they are told.

    Args:
        orders: of all samples, one each time that a shuffling loader is gone through; those that
            a loader does not have are left out of it. Or who says so (:class:`Halves`).
        images: [samples, views times channels, height, width].
    """

    def __init__(self, orders: Any, images: Any) -> None:
        self.told = orders if isinstance(orders, Halves) else None
        self.orders = iter(()) if self.told else iter(orders)
        self.views = torch.tensor(np.array(images), dtype=torch.float32).split(SHAPE[0], 1)

    def __call__(self, dataset: Any, batch_size: int, shuffle: bool, **rest: Any) -> Any:
        return _Loader(self, dataset, batch_size, shuffle)

    def next(self, kind: str) -> Any:
        """The next order, of a dataset's kind."""
        return next(self.orders) if self.told is None else self.told.order(kind)


class Halves:
    """What DivideMix draws while a network learns, of each half of its local epochs.

    Args:
        given: ``orders``, ``unlabelled orders``, ``shares`` and ``mixed with``, of each half.
    """

    def __init__(self, given: Values) -> None:
        names = ("orders", "unlabelled orders", "shares", "mixed with")
        self._halves = zip(*(given[name] for name in names), strict=True)

    def begin(self) -> None:
        """The next half."""
        self.labelled, unlabelled, shares, mixed_with = next(self._halves)
        self.unlabelled, self.shares = iter(unlabelled), iter(shares)
        self._mixed_with = iter(mixed_with)

    def order(self, kind: str) -> Any:
        """Of all samples, for a loader of a dataset's kind."""
        return next(self.unlabelled) if kind == "PairDataset" else self.labelled

    def drawn(self) -> ExitStack:
        """A context in which mixup draws what it is told."""

        def mixed(count: int) -> torch.Tensor:
            order = integers(next(self._mixed_with))
            return order[order < count]

        contexts = ExitStack()
        contexts.enter_context(patch.object(np.random, "beta", lambda *a: next(self.shares)))
        contexts.enter_context(patch.object(torch, "randperm", mixed))
        return contexts


class _Loader:
    def __init__(self, orders: Orders, dataset: Any, size: int, shuffle: bool) -> None:
        self.orders, self.dataset, self.size, self.shuffle = orders, dataset, size, shuffle

    def __len__(self) -> int:
        return -(-len(self.dataset) // self.size)

    def __iter__(self) -> Iterator[Any]:
        rows = np.array(self.dataset.idxs)
        if self.shuffle:
            order = np.array(self.orders.next(type(self.dataset).__name__))
            rows = order[np.isin(order, rows)]
        return Iterated(self._batch(part) for part in cut(rows, self.size))

    def _batch(self, rows: np.ndarray) -> Any:
        data, views = self.dataset, self.orders.views
        labels = integers(data.dataset.targets[rows])
        kind = type(data).__name__
        if kind == "PairProbDataset":
            chance = torch.tensor([data.prob[row] for row in rows])
            return views[0][rows], views[1][rows], labels, chance
        if kind == "PairDataset":
            return views[0][rows], views[1][rows]
        places = [list(data.idxs).index(row) for row in rows]
        if not (data.idx_return or data.real_idx_return):
            return views[0][rows], labels
        ids = (integers(places),) if data.idx_return else (integers(places), integers(rows))
        return views[0][rows], labels, *ids


class Iterated:
    """An iterator as they once were."""

    def __init__(self, batches: Iterator[Any]) -> None:
        self._batches = batches

    def __iter__(self) -> Iterated:
        return self

    def __next__(self) -> Any:
        return next(self._batches)

    next = __next__


def made(
    code: Code, kind: str, given: Values, orders: Any, networks: int = 1, **options: Any
) -> Any:
    """One of its objects that make local updates, with all samples.

    Args:
        code: the checkout.
        kind: name of the class.
        given: ``images`` and ``labels``.
        orders: see :class:`Orders`.
        networks: for what makes networks of its own.
        options: beside :data:`DEFAULTS`; ``of_object`` are the constructor's own.
    """
    update = code.module("models.update")
    update.get_model = lambda args: Named(Small())
    update.DataLoader = Orders(orders, given["images"])
    own = options.pop("of_object", {})
    pairs = Pairs(given["images"], given["labels"])
    args = Namespace(**{**DEFAULTS, **options})
    return getattr(update, kind)(args=args, dataset=pairs, idxs=range(len(pairs)), **own)


def plain(network: nn.Module) -> Values:
    """The weights of a network as our side names them, without counters."""
    return as_ours({name: v for name, v in network.state_dict().items() if v.is_floating_point()})
