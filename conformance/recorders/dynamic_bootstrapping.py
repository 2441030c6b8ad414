"""Dynamic bootstrapping's steps: the mixture of losses, and epochs with it."""

from __future__ import annotations

from argparse import Namespace
from contextlib import redirect_stdout
from io import StringIO
from types import SimpleNamespace
from typing import Any, ClassVar

import numpy as np
import torch
import torch.nn.functional as functional
from scipy import stats

from conformance.recorders.common import Batches, Pairs
from conformance.simulation import (
    Small,
    federation_of,
    flat_names,
    images_of,
    integers,
    loaded,
    method,
    numbers_of,
    rounds_of,
    weights_of,
)
from conformance.steps import Code, Step, Values

FILE, COUNT, SIZE = "utils.py", 24, 8
NAMES = [
    *("track_training_loss", "weighted_mean", "fit_beta_weighted", "BetaMixture1D"),
    *("compute_probabilities_batch", "reg_loss_class", "mixup_data_Boot", "mixup_data_beta"),
    *("mixup_criterion_mixSoft", "mixup_criterion_beta", "mixup_criterion_SoftHard"),
    *("train_mixUp_HardBootBeta", "train_mixUp_SoftBootBeta"),
    *("train_mixUp_Beta", "train_mixUp_SoftHardBetaDouble"),
]


class Mixture(Step):
    """Of forty losses, of which a quarter are large."""

    method = "dynamic_bootstrapping"
    what = "table of the probability that a label is wrong, and its losses"
    file, function = FILE, "track_training_loss"

    def inputs(self, rng: np.random.RandomState) -> Values:
        large = np.arange(40) % 4 == 0
        return {"logits": (rng.normal(size=(40, 3)) + np.outer(~large, [2, 0, 0])).tolist()}

    def official(self, code: Code, given: Values) -> Values:
        script = code.definitions(FILE, NAMES, torch=torch, np=np, F=functional, stats=stats)
        logits = torch.tensor(given["logits"])
        network = SimpleNamespace(eval=lambda: None)
        model = _Said(logits, network)
        loader = [(torch.empty(40, 1), torch.zeros(40, dtype=torch.int64))]
        *_, mixture, most, least = script.track_training_loss(
            None, model, "cpu", loader, 0, None, None, None
        )
        return {"table": mixture.lookup, "low": least, "spread": most - least + 1e-6}

    def ours(self, given: Values) -> Values:
        losses = functional.cross_entropy(
            torch.tensor(given["logits"]), torch.zeros(40, dtype=torch.int64), reduction="none"
        )
        side = method("dynamic_bootstrapping")
        table, low, spread = side.probabilities(losses.double().numpy())
        return {"table": table, "low": [low], "spread": [spread]}


class Epoch(Step):
    """An epoch of three batches after the mixture has been fitted, with soft predictions.

    Attributes:
        normalised: whether the network has a batch normalisation.
        side: our method's options.
    """

    method = "dynamic_bootstrapping"
    what = "an epoch, M-DYR-S"
    file, function = FILE, "train_mixUp_SoftBootBeta"
    normalised: ClassVar[bool] = True
    side: ClassVar[dict[str, Any]] = {}
    arguments: ClassVar[tuple[Any, ...]] = (1.0, 4)

    def inputs(self, rng: np.random.RandomState) -> Values:
        return {
            "weights": weights_of(rng, Small(self.normalised)),
            "images": images_of(rng, COUNT),
            "labels": rng.randint(4, size=COUNT),
            "order": rng.permutation(COUNT),
            "shares": rng.beta(32, 32, size=COUNT // SIZE),
            "mixed with": [rng.permutation(SIZE) for _ in range(COUNT // SIZE)],
        }

    def official(self, code: Code, given: Values) -> Values:
        shares, indices = iter(given["shares"]), iter(given["mixed with"])
        drawn = SimpleNamespace(beta=lambda *_: next(shares))
        script = code.definitions(
            FILE, NAMES, F=functional, stats=stats, np=_Replaced(np, random=drawn),
            torch=_Replaced(torch, randperm=lambda _: integers(next(indices))),
        )  # fmt: skip
        # The code counts classes itself in one place, where it takes ten for granted.
        classes = script.reg_loss_class
        script.reg_loss_class.__globals__["reg_loss_class"] = lambda mean, _=4: classes(mean, 4)
        network = loaded(Small(self.normalised), given["weights"])
        pairs = Pairs(given["images"], given["labels"])
        every = [(pairs.images, integers(pairs.targets))]
        *_, mixture, most, least = script.track_training_loss(
            None, network, "cpu", every, 0, None, None, None
        )
        optimizer = torch.optim.SGD(network.parameters(), lr=0.1, momentum=0.9)
        batches = _Loader(Batches.of(pairs, [given["order"]], SIZE), COUNT)
        with redirect_stdout(StringIO()):
            self.trained(script, network, batches, optimizer, (mixture, most, least))
        return numbers_of(network.state_dict())

    def trained(
        self, script: Any, network: Any, batches: Any, optimizer: Any, mixture: tuple[Any, ...]
    ) -> None:
        """Run the code's epoch."""
        args = Namespace(batch_size=SIZE, log_interval=99)
        getattr(script, self.function)(
            args, network, "cpu", batches, optimizer, 9, 32, *mixture, *self.arguments
        )

    def ours(self, given: Values) -> Values:
        federation = federation_of(
            [loaded(Small(self.normalised), given["weights"])], given["images"],
            [given["labels"]], batch_size=SIZE, momentum=0.9,
        )  # fmt: skip
        draws = {"batches": [[given["order"]]], "mixup": [[given["shares"], *given["mixed with"]]]}
        side = method(self.method, warm_up_rounds=1, guided_rounds=1, hard_round=12, **self.side)
        rounds_of(side, federation, self.round, self.round + 1, draws)
        return flat_names(federation.weights)

    round: ClassVar[int] = 5


class HardEpoch(Epoch):
    """With hard predictions. The code asks for losses after the pass of mixed images, which a batch
    normalisation remembers; ours before it.
    """

    what = "an epoch, M-DYR-H (`variant=hard`), without batch normalisation"
    function = "train_mixUp_HardBootBeta"
    normalised = False
    side: ClassVar = {"variant": "hard"}


class GuidedEpoch(Epoch):
    """With dynamic mixup alone."""

    what = "an epoch of dynamic mixup alone (`variant=dynamic`)"
    function = "train_mixUp_Beta"
    side: ClassVar = {"variant": "dynamic"}
    arguments = ()
    round = 1


class DynamicEpoch(Epoch):
    """With dynamic mixup, and the fourth of ten temperatures."""

    what = "an epoch, MD-DYR-SH (`variant=dynamic`)"
    function = "train_mixUp_SoftHardBetaDouble"
    side: ClassVar = {"variant": "dynamic"}

    def trained(
        self, script: Any, network: Any, batches: Any, optimizer: Any, mixture: tuple[Any, ...]
    ) -> None:
        args = Namespace(batch_size=SIZE, log_interval=99)
        script.train_mixUp_SoftHardBetaDouble(
            args, network, "cpu", batches, optimizer, 9, *mixture, 1, 3, 10, 1.0, 4
        )


class _Said:
    """A network that has said what it says."""

    def __init__(self, logits: Any, network: Any) -> None:
        self.logits, self.eval = logits, network.eval

    def __call__(self, images: Any) -> Any:
        return self.logits


class _Replaced:
    """A module with other values for some of its names."""

    def __init__(self, module: Any, **names: Any) -> None:
        self._module = module
        self.__dict__.update(names)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._module, name)


class _Loader:
    """Batches, and a dataset of which only the size is asked for."""

    def __init__(self, batches: Batches, size: int) -> None:
        self.batches, self.dataset = batches, range(size)

    def __len__(self) -> int:
        return len(self.batches)

    def __iter__(self) -> Any:
        return iter(self.batches)
