"""Everything that a method needs: ``import noisyfl.method as fl``."""

from noisyfl.core.options import option
from noisyfl.core.randomness import stream
from noisyfl.core.rounding import round_down, round_up
from noisyfl.simulation.aggregation import (
    flat,
    geometric_median,
    middle,
    nonempty,
    numbers,
    plain_mean,
    replaced,
    trainable_names,
)
from noisyfl.simulation.client_side import ClientSide, ClientSideWrapper, Cost, Side, Turn
from noisyfl.simulation.clients import Client, known_noise_levels, mean_noise_level
from noisyfl.simulation.estimates import mean_by_class, product
from noisyfl.simulation.federation import Federation
from noisyfl.simulation.losses import (
    cross_entropy,
    distance,
    mean_where,
    proximal_weights,
    squared_distance,
)
from noisyfl.simulation.mixup import mixed_images, mixed_losses, mixup_draws
from noisyfl.simulation.model import LocalModel, Received
from noisyfl.simulation.outputs import Outputs, Pass, Predictor
from noisyfl.simulation.registry import METHODS
from noisyfl.simulation.schedule import Schedule
from noisyfl.simulation.server_side import ServerSide, sweep, uniform
from noisyfl.simulation.updates import Batch, Epoch, Memory, Task, Update, batches, without_single
from noisyfl.simulation.weights import Weights, average, size_in_bytes, to_device

__all__ = [
    "METHODS",
    "Batch",
    "Client",
    "ClientSide",
    "ClientSideWrapper",
    "Cost",
    "Epoch",
    "Federation",
    "LocalModel",
    "Memory",
    "Outputs",
    "Pass",
    "Predictor",
    "Received",
    "Schedule",
    "ServerSide",
    "Side",
    "Task",
    "Turn",
    "Update",
    "Weights",
    "average",
    "batches",
    "cross_entropy",
    "distance",
    "flat",
    "geometric_median",
    "known_noise_levels",
    "mean_by_class",
    "mean_noise_level",
    "mean_where",
    "middle",
    "mixed_images",
    "mixed_losses",
    "mixup_draws",
    "nonempty",
    "numbers",
    "option",
    "plain_mean",
    "product",
    "proximal_weights",
    "replaced",
    "round_down",
    "round_up",
    "size_in_bytes",
    "squared_distance",
    "stream",
    "sweep",
    "to_device",
    "trainable_names",
    "uniform",
    "without_single",
]
