"""Components that are not the package's own, and a process that has them only as long as a test
lasts.
"""

import sys
from contextlib import contextmanager
from typing import ClassVar

from noisyfl.core import plugins
from noisyfl.core.code import code_digest
from noisyfl.methods import METHODS
from noisyfl.simulation.client_side import ClientSide
from noisyfl.simulation.server_side import ServerSide
from noisyfl.specs.spec import REGISTRIES

PARTS = '''"""A method, a model, a label noise and a dataset of one's own."""

import numpy as np
from torch import nn

from noisyfl.core.options import option
from noisyfl.data.datasets.dataset import Dataset, add_dataset
from noisyfl.data.noise.label_noise import LABEL_NOISES, LabelNoise
from noisyfl.method import METHODS
from noisyfl.models.model import MODELS, Model
from noisyfl.simulation.client_side import ClientSide


@METHODS.register("halves")
class Halves(ClientSide):
    """Cross-entropy, times a factor."""

    reference = "of one's own"
    revision = 1
    factor: float = option(0.5, doc="of the loss", above=0)

    def losses(self, logits, target):
        return self.factor * super().losses(logits, target)


class Layers(nn.Module):
    def __init__(self, pixels, width, classes):
        super().__init__()
        self.body = nn.Sequential(nn.Flatten(), nn.Linear(pixels, width), nn.ReLU())
        self.classifier = nn.Linear(width, classes)

    def features(self, images):
        return self.body(images)

    def forward(self, images):
        return self.classifier(self.features(images))


@MODELS.register("one_layer")
class OneLayer(Model):
    """One hidden layer."""

    minimum = 1
    revision = 1
    width: int = option(32, doc="of the hidden layer", at_least=1)

    def build(self, shape, classes):
        height, width, channels = shape
        return Layers(height * width * channels, self.width, classes)


@LABEL_NOISES.register("zeroed")
class Zeroed(LabelNoise):
    """A client's first labels become the first class, as many as its level says."""

    revision = 1

    def flip(self, clients, levels, context):
        given = [labels.copy() for labels in clients]
        for labels, level in zip(given, levels, strict=True):
            labels[: round(level * len(labels))] = 0
        return given


def load(folder, download):
    rng = np.random.default_rng(0)
    labels = np.arange(500) % 2
    shades = rng.integers(0, 100, (500, 6, 6, 1)) + 100 * labels[:, None, None, None]
    images = shades.astype(np.uint8)
    return (images[:400], labels[:400]), (images[400:], labels[400:])


add_dataset(
    Dataset(
        name="stripes",
        shape=(6, 6, 1),
        classes=("dark", "light"),
        train_size=400,
        test_size=100,
        mean=(0.4,),
        std=(0.2,),
        load=load,
    )
)
'''


class Sound(ServerSide, ClientSide):
    """Nothing is wrong with it."""

    reference: ClassVar[str] = "nobody, 2026"


@contextmanager
def as_before():
    """Context manager: what is loaded within is forgotten in the end."""
    components = {kind: dict(known) for kind, known in plugins.COMPONENTS.items()}
    loaded = dict(plugins._loaded)
    try:
        yield
    finally:
        for kind, known in components.items():
            plugins.COMPONENTS[kind].clear()
            plugins.COMPONENTS[kind].update(known)
        for name in [*sys.modules]:
            if name.partition(".")[0] in set(plugins._loaded) - set(loaded):
                del sys.modules[name]
        for registry in (METHODS, *REGISTRIES.values()):
            registry.forget_built()
        code_digest.cache_clear()
        plugins._loaded.clear()
        plugins._loaded.update(loaded)
