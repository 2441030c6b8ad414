"""A run of the papers' size, and what is estimated of it."""

from noisyfl.specs import cost
from noisyfl.specs.extent import work_of
from noisyfl.specs.spec import canonical_run

SHAPES = {"cnn": (8, 8, 1), "cnn2conv": (28, 28, 1), "cnn9": (28, 28, 1), "resnet50": (224, 224, 3)}


def estimate(spec, device):
    return cost.estimate(work_of(spec), device)


def likely_seconds(spec, speed):
    return cost.likely_seconds(work_of(spec), speed)


def run(schedule=None, **changes):
    given = {
        "dataset": "cifar10",
        "partition": "iid(clients=100)",
        "label_noise": "symmetric",
        "noise_level": "constant(level=0.4)",
        "model": "resnet18",
        "augmentation": "crop_flip",
        "normalization": "imagenet",
        "schedule": {
            "rounds": 1000,
            "participation": 0.1,
            "local_epochs": 5,
            "batch_size": 10,
            "learning_rate": 0.03,
            **(schedule or {}),
        },
        "method": "fedavg",
        "seed": 1,
    }
    return canonical_run({**given, **changes}, "test")
