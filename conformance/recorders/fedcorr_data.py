"""FedCorr's partition and label noise, on told draws."""

from __future__ import annotations

from argparse import Namespace
from contextlib import redirect_stdout
from io import StringIO
from typing import Any
from unittest.mock import patch

import numpy as np

from conformance.recorders.draws import Told, told
from conformance.steps import Code, Step, Values
from noisyfl.data.datasets.dataset import DATASETS
from noisyfl.data.noise import label_noise
from noisyfl.data.noise.noise_level import NOISE_LEVELS
from noisyfl.data.partitioning.partition import PARTITIONS

CLASSES = 10


class BernoulliDirichlet(Step):
    """Six clients, of which one has no class at first."""

    method = "bernoulli_dirichlet"
    what = "which sample is on which client"
    file, function = "util/sampling.py", "non_iid_dirichlet_sampling"
    seed = 2

    def inputs(self, rng: np.random.RandomState) -> Values:
        holders = rng.rand(60)
        holders[20:30] = 0.9
        rows = [holders, rng.rand(60), *(rng.rand(12) for _ in range(2 * CLASSES))]
        return {"labels": np.repeat(np.arange(CLASSES), 12)[rng.permutation(120)], "draws": rows}

    def official(self, code: Code, given: Values) -> Values:
        draws = Told(given["draws"])
        with told(draws, ("binomial", "dirichlet", "choice")):
            found = code.module("util.sampling").non_iid_dirichlet_sampling(
                np.array(given["labels"]), CLASSES, 0.6, 6, 1, alpha_dirichlet=2
            )
        clients = [sorted(map(int, found[number])) for number in range(6)]
        return {"clients": {str(n): rows for n, rows in enumerate(clients)}, **_asked(draws)}

    def ours(self, given: Values) -> Values:
        draws: Any = Told(given["draws"])
        partition = PARTITIONS.build(
            {"name": "bernoulli_dirichlet", "clients": 6, "p": 0.6, "alpha": 2}, "conformance"
        )
        clients = partition.assign(np.array(given["labels"]), CLASSES, draws)
        return {"clients": {str(n): rows for n, rows in enumerate(clients)}, **_asked(draws)}


def _asked(draws: Told) -> Values:
    return {"concentrations": {str(n): alphas for n, alphas in enumerate(draws.alphas)}}


class LabelNoise(Step):
    """Five clients of thirty samples."""

    method = "bernoulli_uniform"
    what = (
        "noise levels, and labels that are flipped, `symmetric(include_true=True, "
        'count="bernoulli")`'
    )
    file, function = "util/util.py", "add_noise"

    def inputs(self, rng: np.random.RandomState) -> Values:
        return {
            "labels": rng.randint(CLASSES, size=150),
            "levels": [rng.rand(5), rng.rand(5)],
            "flips": [[rng.rand(30), rng.rand(30)] for _ in range(5)],
        }

    def official(self, code: Code, given: Values) -> Values:
        labels = np.array(given["labels"])
        noisy = np.array(given["levels"][0]) < 0.6
        flips = [row for rows, is_noisy in zip(given["flips"], noisy, strict=True)
                 if is_noisy for row in rows]  # fmt: skip
        args = Namespace(seed=1, level_n_system=0.6, level_n_lowerb=0.5, num_users=5)
        clients = {number: range(30 * number, 30 * number + 30) for number in range(5)}
        with (
            told(Told([*given["levels"], *flips]), ("binomial", "rand", "randint")),
            redirect_stdout(StringIO()),
        ):
            flipped, _, shares = code.module("util.util").add_noise(args, labels, clients)
        return {"labels": flipped, "wrong": shares}

    def ours(self, given: Values) -> Values:
        draws: Any = Told(given["levels"])
        levels = NOISE_LEVELS.build(
            {"name": "bernoulli_uniform", "rho": 0.6, "tau": 0.5}, "conformance"
        ).draw(5, draws)
        noise = label_noise.LABEL_NOISES.build(
            {"name": "symmetric", "include_true": True, "count": "bernoulli"}, "conformance"
        )
        true = np.array(given["labels"]).reshape(5, 30)

        def stream(seed: int, purpose: str, client: int) -> Any:
            return Told(given["flips"][client])

        with patch.object(label_noise, "stream", stream):
            context = label_noise.Context(DATASETS["cifar10"], 1, None)
            flipped = np.stack(noise.flip(list(true), levels, context))
        return {"labels": flipped.reshape(-1), "wrong": (flipped != true).mean(1)}
