"""Noise levels: the share of each client's labels that is to be flipped."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import Annotated, Any, Literal

import numpy as np
from pydantic import Field

from noisyfl.core.options import BadInput, option
from noisyfl.core.randomness import stream
from noisyfl.core.registry import Component, Registry


class NoiseLevel(Component, ABC):
    """What all noise levels share."""

    @property
    def before_split(self) -> bool:
        """Whether the training set's labels are flipped at one level before it is split, so that
        the levels that clients end up with scatter around it.
        """
        return False

    def groups(self) -> int:
        """The number of groups that it divides the clients into."""
        return 1

    def check(self, clients: int) -> None:
        """Raise :class:`BadInput` if a level would be outside of [0, 1], or clients are too few."""
        if clients < self.groups():
            raise BadInput(
                f"{self.groups()} groups of clients need as many clients, got clients={clients}",
            )

    @abstractmethod
    def draw(self, clients: int, rng: np.random.Generator) -> np.ndarray:
        """The level of each client: float64 [clients], from 0 to 1."""


NOISE_LEVELS = Registry[NoiseLevel]("noise level", NoiseLevel)


def level_of(raw: Any) -> Any:
    """A noise level as a component: a number is the level of all clients."""
    is_number = isinstance(raw, int | float) and not isinstance(raw, bool)
    return f"constant(level={raw})" if is_number else raw


@NOISE_LEVELS.register("none")
class NoNoise(NoiseLevel):
    """No label is flipped."""

    def draw(self, clients: int, rng: np.random.Generator) -> np.ndarray:
        """Zeros."""
        return np.zeros(clients)


@NOISE_LEVELS.register("constant")
class Constant(NoiseLevel):
    """One level for all. RoFL's main tables: of the dataset, before it is split (appendix)."""

    level: float = option(doc="share of labels flipped", at_least=0, at_most=1)
    scope: Literal["client", "dataset"] = option(
        "client",
        doc="whether each client's labels are flipped, or the dataset's before it is split",
    )

    @property
    def before_split(self) -> bool:
        """As the option ``scope`` says."""
        return self.scope == "dataset"

    def draw(self, clients: int, rng: np.random.Generator) -> np.ndarray:
        """The level, for every client."""
        return np.full(clients, self.level)


@NOISE_LEVELS.register("client_linear")
class ClientLinear(NoiseLevel):
    """Levels that rise from client to client, low + i (high - low) / n for client i of n.

    FedRN: low 0 and high 0.4 or 0.8; as in its official code, high itself is not reached (if it is
    0.4, the last of 100 clients has 0.396, and the mean is 0.198). With mixed noise, each half of
    the clients has a ramp of its own.
    """

    low: float = option(doc="level of the first client", at_least=0, at_most=1)
    high: float = option(doc="level that the ramp leads to", at_least=0, at_most=1)
    ramps: int = option(1, doc="equal consecutive groups of clients, a ramp each", at_least=1)
    include_top: bool = option(False, doc="the last client of a ramp has the level high")

    def groups(self) -> int:
        """One per ramp."""
        return self.ramps

    def check(self, clients: int) -> None:
        """Raise :class:`BadInput` if ramps would fall, or one would have no client."""
        if self.low > self.high:
            raise BadInput(f"low={self.low} is more than high={self.high}")
        super().check(clients)

    def draw(self, clients: int, rng: np.random.Generator) -> np.ndarray:
        """The ramps, one after the other."""
        sizes = np.bincount(consecutive_groups(clients, self.ramps))
        return np.concatenate(
            [np.linspace(self.low, self.high, size, endpoint=self.include_top) for size in sizes]
        )


@NOISE_LEVELS.register("groups")
class Groups(NoiseLevel):
    """Equal consecutive groups of clients, a level each.

    FedNoiL: 4 groups; symmetric high 0.5, 0.6, 0.7, 0.8 and low 0.3, 0.4, 0.5, 0.6; pair high 0.3,
    0.5, 0.6, 0.8 and low 0.3, 0.4, 0.5, 0.6.
    """

    levels: list[Annotated[float, Field(ge=0, le=1)]] = Field(
        min_length=1, description="level of each group"
    )

    def groups(self) -> int:
        """One per level."""
        return len(self.levels)

    def draw(self, clients: int, rng: np.random.Generator) -> np.ndarray:
        """The level of each client's group."""
        return np.array(self.levels)[consecutive_groups(clients, self.groups())]


@NOISE_LEVELS.register("client_variance")
class ClientVariance(NoiseLevel):
    """Five equal consecutive groups of clients, equally spaced on [level - eta, level + eta].

    RoFL, Table 3 (left): level 0.4, eta from 0 to 0.4, both ends included.
    """

    level: float = option(doc="mean level", at_least=0, at_most=1)
    eta: float = option(doc="how far the lowest and the highest level are from it", at_least=0)

    def groups(self) -> int:
        """Five, for all options."""
        return 5

    def check(self, clients: int) -> None:
        """Raise :class:`BadInput` if a level would be outside of [0, 1], or a group empty."""
        low, high = self.level - self.eta, self.level + self.eta
        if low < -1e-9 or high > 1 + 1e-9:  # allows for rounding errors, as in 0.4 - 0.4
            raise BadInput(
                f"level={self.level} and eta={self.eta} make levels from "
                f"{low:g} to {high:g}, expected levels from 0 to 1",
            )
        super().check(clients)

    def draw(self, clients: int, rng: np.random.Generator) -> np.ndarray:
        """The level of each client's group."""
        spaced = np.linspace(self.level - self.eta, self.level + self.eta, self.groups())
        return spaced.clip(0, 1)[consecutive_groups(clients, self.groups())]


@NOISE_LEVELS.register("truncnorm")
class TruncatedNormal(NoiseLevel):
    """Normal draws truncated to [0, 1]. FedCNI, eq. 15: (mu, sigma) of (0.2, 0.2) and (0.4, 0.2).

    The equation as printed divides by sigma twice; this is the distribution in the paper's text.
    Truncation moves the mean: to 0.2575 and 0.410. FedCNI draws once for all of its experiments.
    """

    mu: float = option(doc="mean before the truncation", at_least=0, at_most=1)
    sigma: float = option(doc="standard deviation before the truncation", above=0)
    seed: int | None = option(
        None,
        doc="of the draw, so that all trials have the same levels; null: the trial's",
        at_least=0,
    )

    def draw(self, clients: int, rng: np.random.Generator) -> np.ndarray:
        """Independent draws."""
        from scipy.stats import truncnorm

        if self.seed is not None:
            rng = stream(self.seed, "noise level")
        low, high = (0 - self.mu) / self.sigma, (1 - self.mu) / self.sigma
        drawn = truncnorm.rvs(
            low, high, loc=self.mu, scale=self.sigma, size=clients, random_state=rng
        )
        return np.clip(drawn, 0, 1)


@NOISE_LEVELS.register("bernoulli_uniform")
class BernoulliUniform(NoiseLevel):
    """A client is noisy with probability rho, and then at a level from U(tau, 1) (FedCorr, eq. 4).

    FedCorr: (rho, tau) of (0.4, 0) up to (0.8, 0.5). The number of noisy clients varies with the
    seed.
    """

    rho: float = option(doc="chance that a client is noisy", at_least=0, at_most=1)
    tau: float = option(doc="lowest level of a noisy client", at_least=0, at_most=1)

    def draw(self, clients: int, rng: np.random.Generator) -> np.ndarray:
        """Independent draws."""
        noisy = rng.random(clients) < self.rho
        return noisy * (self.tau + (1 - self.tau) * rng.random(clients))


@NOISE_LEVELS.register("uniform")
class Uniform(NoiseLevel):
    """Each client's level is from U(low, high) (FedNoisy, localized noise: from 0.3 to 0.5)."""

    low: float = option(doc="lowest level", at_least=0, at_most=1)
    high: float = option(doc="highest level", at_least=0, at_most=1)

    def check(self, clients: int) -> None:
        """Raise :class:`BadInput` if the lowest level is above the highest."""
        if self.low > self.high:
            raise BadInput(f"low={self.low} is more than high={self.high}")
        super().check(clients)

    def draw(self, clients: int, rng: np.random.Generator) -> np.ndarray:
        """Independent draws."""
        return rng.uniform(self.low, self.high, size=clients)


def consecutive_groups(clients: int, groups: int) -> np.ndarray:
    """The group of each client, int [clients]: consecutive clients, sizes as equal as possible."""
    return np.arange(clients) * groups // clients
